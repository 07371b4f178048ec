/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Messages to users: help texts, lines of the log, and lists of devices that were turned down. */

#ifndef BTL_IB_HELP_H
#define BTL_IB_HELP_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

#include "btl_ib_ompi_compat.h"
#include "transport.h"

/* ---- devices that were turned down ---- */

/* Devices that a search found and turned down, and why, for a help text. */

#define BTL_IB_TURNED_DOWN_MAX 32

typedef struct btl_ib_turned_down_device {
    char name[80]; /* "udp/eth0" */
    char reason[144];
} btl_ib_turned_down_device_t;

/* All zero: the list is empty. */
typedef struct btl_ib_turned_down_devices {
    uint32_t count; /* 0..BTL_IB_TURNED_DOWN_MAX */
    uint32_t more;  /* devices for which the list had no place */
    btl_ib_turned_down_device_t device[BTL_IB_TURNED_DOWN_MAX];
} btl_ib_turned_down_devices_t;

/*
 * Adds a device of `transport`, or the transport itself (`device` NULL or ""), unless it is listed
 * with the same reason. Cuts a name or reason that is too long.
 */
void btl_ib_turned_down_devices_add(btl_ib_turned_down_devices_t *turned_down,
                                    const char *transport, const char *device, const char *reason);

/* Writes the name that a device has in the list. */
static inline void btl_ib_turned_down_devices_name(const char *transport, const char *device,
                                                   char *out, size_t size)
{
    const bool named = device != NULL && device[0] != '\0';

    snprintf(out, size, "%s%s%s", transport, named ? "/" : "", named ? device : "");
}

/* Empties the list, before a new search. */
static inline void btl_ib_turned_down_devices_clear(btl_ib_turned_down_devices_t *turned_down)
{
    turned_down->count = 0;
    turned_down->more = 0;
}

/*
 * Writes one line for each device, as "  udp/eth0: it is down", and a last one for those that found
 * no place; "  (nothing)" if the list is empty. Leaves out whole lines that do not fit into `size`
 * bytes.
 */
void btl_ib_turned_down_devices_format(const btl_ib_turned_down_devices_t *turned_down, char *out,
                                       size_t size);

/* ---- lines of the log that wait until somebody may print them ---- */

enum { BTL_IB_KEPT_LINES = 32, BTL_IB_LINE_BYTES = 512 };

typedef struct btl_ib_kept_line {
    int level;
    char text[BTL_IB_LINE_BYTES];
} btl_ib_kept_line_t;

/* All zero: no line is kept. */
typedef struct btl_ib_kept_lines {
    uint32_t count;
    uint32_t lost; /* lines that found no room */
    btl_ib_kept_line_t line[BTL_IB_KEPT_LINES];
} btl_ib_kept_lines_t;

/* ---- help texts ---- */

/*
 * Help texts: what a user has to know at once, framed, on stderr. They are written in
 * help-btl-ib.txt, in Open MPI's format, and compiled into the component: Open MPI 6.0 reads no
 * files of texts, and before it a component that was moved or built elsewhere had to find its own.
 */

/*
 * Prints the help text `topic`, with the arguments filled in that its format needs
 * (tests/docs/check compares them). The part below @details is printed at verbose 1 and more; else
 * a line says how to get it.
 *
 * opal_show_help() is not used: it hands the text to mpirun in a message that 4.1 loses now and
 * then, and always if the process aborts next. The price is that nobody merges the texts of several
 * processes, so the caller has to choose which processes print.
 */
void btl_ib_show_help(const char *topic, ...);

/* Prints a help text in one process of each host: for facts that its processes have in common. */
#define BTL_IB_SHOW_HELP(topic, ...)                                                               \
    do {                                                                                           \
        if (opal_process_info.my_local_rank == 0) {                                                \
            btl_ib_show_help((topic), __VA_ARGS__);                                                \
        }                                                                                          \
    } while (0)

/*
 * Prints, in one process of each host, that the component cannot start: `cause`, with that errno
 * (0: none), and `step`, lines that say what to do about it.
 */
void btl_ib_help_cannot_start(const char *cause, int error, const char *step);

/* ---- log of transports and engine ---- */

/*
 * Receives what engine and transports report (btl_ib_log_t): verbose lines, diagnostics about
 * devices and peers, which become help texts, and devices that a search turned down.
 *
 * Each diagnostic is shown once. Diagnostics about a peer wait until progress shows them, because
 * only the caller of btl_ib_log_show() knows which peer has the address. While the progress thread
 * runs the engine everything waits, as that thread may not print.
 */

/* A diagnostic that waits to be shown. */
typedef struct btl_ib_pending_diagnostic {
    btl_ib_diagnostic_t what;
    bool of_peer; /* `detail` begins with a peer's address */
    char device[64];
    char detail[128];
} btl_ib_pending_diagnostic_t;

typedef struct btl_ib_log_state {
    const bool *async; /* true while the progress thread runs the engine */
    bool ports_down;   /* show ports that are down: many machines have some without a cable */
    uint32_t known;    /* bits: diagnostics that were shown or are pending */
    uint32_t pending;  /* bits: diagnostics that wait to be shown, and BTL_IB_LOG_LINES */
    btl_ib_kept_lines_t lines; /* of the progress thread */
    btl_ib_pending_diagnostic_t diagnostic[BTL_IB_DIAGS];
    /* Gets devices that are turned down; NULL: they are not collected. */
    btl_ib_turned_down_devices_t *turned_down;
} btl_ib_log_state_t;

static inline void btl_ib_log_init(btl_ib_log_state_t *state, const bool *async, bool ports_down)
{
    *state = (btl_ib_log_state_t){.async = async, .ports_down = ports_down};
}

/* Returns the table of functions for engine and transports, which `state` has to outlive. */
btl_ib_log_t btl_ib_log_table(btl_ib_log_state_t *state);

/* Collects the devices that are turned down from now on; NULL: no longer. */
static inline void btl_ib_log_collect(btl_ib_log_state_t *state,
                                      btl_ib_turned_down_devices_t *turned_down)
{
    state->turned_down = turned_down;
}

static inline bool btl_ib_log_pending(const btl_ib_log_state_t *state)
{
    return state->pending != 0;
}

/* Prints the lines that were kept, and takes the next diagnostic that waits. Returns whether there
 * is one. */
bool btl_ib_log_next(btl_ib_log_state_t *state, btl_ib_pending_diagnostic_t *diagnostic);

/* Shows a diagnostic. `peer` names the peer, if it is about one. */
void btl_ib_log_show(const btl_ib_pending_diagnostic_t *diagnostic, const char *peer);

/* ---- verbose output ---- */

/* Verbose output (--mca btl_base_verbose N): lines that begin with "btl:ib: ". */

/* Logs a fact: level 1 what was chosen and why, 10 what was turned down, 100 each datagram. The
 * format must be a literal. */
#define BTL_IB_VERBOSE(level, ...)                                                                 \
    opal_output_verbose((level), opal_btl_base_framework.framework_output, "btl:ib: " __VA_ARGS__)

/* True if lines of that level are shown. Asked before a text that is expensive to make. */
static inline bool btl_ib_is_verbose(int level)
{
    return opal_output_get_verbosity(opal_btl_base_framework.framework_output) >= level;
}

#endif
