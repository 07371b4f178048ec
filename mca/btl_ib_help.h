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

/*
 * Print the help text `topic` with the arguments filled in, which are those that the text has
 * places for (tests/docs/check compares them). Returns false if there is no such text or no memory.
 *
 * Not opal_show_help(): that hands the text to mpirun in a message which 4.1 loses now and then,
 * and always if the process aborts next. The price is that nobody joins the texts of several
 * processes into one, so the caller should think of who prints.
 */
bool btl_ib_show_help(const char *topic, ...);

#endif
