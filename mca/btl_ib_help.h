/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Help texts: what a user has to know at once, framed, on stderr. They are written in
 * help-btl-ib.txt, in Open MPI's format, and compiled into the component: Open MPI 6.0 reads no
 * files of texts, and before it a component that was moved or built elsewhere had to find its own.
 */

#ifndef BTL_IB_HELP_H
#define BTL_IB_HELP_H

#include <stdbool.h>

#include "btl_ib_compat.h"

/*
 * Print the help text `topic` with the arguments filled in, which must be those that the text has
 * places for (tests/docs/check compares them). Returns false if there is no such text or no memory.
 *
 * Not opal_show_help(), which hands the text to mpirun in a message that 4.1 loses now and then,
 * and always if the process aborts next. The price is that nobody merges the texts of several
 * processes, so the caller has to choose which processes print.
 */
bool btl_ib_show_help(const char *topic, ...);

/* The same for what the processes of a host have in common: one of them prints it. */
#define BTL_IB_SHOW_HELP(topic, ...)                                                               \
    do {                                                                                           \
        if (0 == opal_process_info.my_local_rank) {                                                \
            btl_ib_show_help((topic), __VA_ARGS__);                                                \
        }                                                                                          \
    } while (0)

/*
 * The component cannot start: `cause`, with that errno (0: none), and `step`, what to do about it,
 * in lines of a help text. Printed by one process of a host.
 */
void btl_ib_help_cannot_start(const char *cause, int error, const char *step);

#endif
