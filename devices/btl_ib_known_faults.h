/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A table of faults of kernels and firmware that harm ib. Each entry has a source. An entry is
 * found by the version of a kernel, and by the driver and firmware of a device.
 *
 * A version proves little: distributions mend faults without changing the number, and bring faults
 * of later kernels into earlier ones. So no entry turns a device down. Faults are worked around
 * where that is possible (btl_ib_known_faults_avoid()); others are reported.
 */

#ifndef BTL_IB_KNOWN_FAULTS_H
#define BTL_IB_KNOWN_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport.h"

/* ---- versions ---- */

#define BTL_IB_VERSION_NUMBERS 4

/* "7.0.3" is 7, 0, 3, 0. All zero: not known. */
typedef struct btl_ib_dotted_version {
    uint32_t number[BTL_IB_VERSION_NUMBERS];
} btl_ib_dotted_version_t;

/*
 * Reads the version that a text begins with, after spaces and a "v": numbers with single dots
 * between them; those after the fourth are ignored. So is a suffix: "7.0.3-rc2" is 7.0.3, as the
 * first candidate of a release has the faults of the release, and the last candidate of a stable
 * release its fixes. Returns false, and sets all zero, if there are less than two numbers.
 */
bool btl_ib_dotted_version_read(const char *text, btl_ib_dotted_version_t *version);

/* ---- the kernel of this host ---- */

typedef struct btl_ib_kernel {
    char release[72]; /* as `uname -r` says; "": not known */
    btl_ib_dotted_version_t version;
} btl_ib_kernel_t;

/*
 * Finds out which version of Linux a kernel is. `release` and `build` come from uname(2),
 * `signature` is Ubuntu's /proc/version_signature; each may be "". Debian's and Ubuntu's `release`
 * has 0 for the third number. The true version is in Debian's `build` ("Debian 6.1.106-3"), or is
 * the last word of Ubuntu's `signature` ("Ubuntu 6.8.0-45.45-generic 6.8.12"); it is used if its
 * first two numbers are those of `release`.
 */
void btl_ib_kernel_of(const char *release, const char *build, const char *signature,
                      btl_ib_kernel_t *kernel);

/* Asks the system for its kernel. */
void btl_ib_kernel_read(btl_ib_kernel_t *kernel);

/* ---- the table ---- */

/* What ib does about an entry by itself. */
typedef enum btl_ib_workaround {
    BTL_IB_WORKAROUND_NONE,
    BTL_IB_WORKAROUND_NO_GSO, /* sends no joined datagrams, unless btl_ib_udp_gso is 1 */
    BTL_IB_WORKAROUND_NO_GRO, /* does not let the kernel join received datagrams */
} btl_ib_workaround_t;

#define BTL_IB_BAD_RANGES  7
#define BTL_IB_FAULT_PARTS 2

/* A range of versions that have a fault: from `from` on, before `before`. */
typedef struct btl_ib_bad_range {
    btl_ib_dotted_version_t from, before;
} btl_ib_bad_range_t;

typedef struct btl_ib_known_fault {
    const char *bad;    /* the versions, as people write them */
    const char *effect; /* what the fault does */
    const char *remedy; /* follows "Do: " */
    const char *source; /* where the fault is described */
    /* Devices that have it: all that is set must apply. */
    const char *transport;             /* over which the device is used; NULL: any */
    const char *driver;                /* of /sys or ethtool, or "rxe", "siw"; NULL: any */
    uint32_t part[BTL_IB_FAULT_PARTS]; /* one of these part ids; the first is 0: any */
    bool of_firmware;                  /* `range` is of the firmware; else of the kernel */
    btl_ib_bad_range_t range[BTL_IB_BAD_RANGES]; /* up to the first one whose `before` is 0 */
    bool of_gso;   /* about joined datagrams that ib sends: not shown to a user who set udp_gso */
    bool log_only; /* not worth a help text */
    btl_ib_workaround_t workaround;
} btl_ib_known_fault_t;

/* All entries, at most 32. The last one is empty: its `bad` is NULL. */
extern const btl_ib_known_fault_t btl_ib_known_faults[];

/* True if any entry names that driver. */
bool btl_ib_known_faults_name(const char *driver);

/* A device about which the table is asked. */
typedef struct btl_ib_fault_query {
    const btl_ib_kernel_t *kernel;
    const char *transport;
    const char *driver;   /* "": not known, or a device of software */
    const char *firmware; /* "": not known */
    uint32_t vendor, part;
} btl_ib_fault_query_t;

/* Returns the first entry after `previous` (NULL: from the beginning) that applies to a device;
 * NULL: none does. */
const btl_ib_known_fault_t *btl_ib_known_fault_next(const btl_ib_fault_query_t *query,
                                                    const btl_ib_known_fault_t *previous);

/* Writes the version of the kernel or firmware that has the fault: "Linux 7.0.2-6-pve" or "firmware
 * 4.7.0 (ib_mthca)". For distributions whose kernels keep their number while drivers change, adds
 * that the number may mislead. */
void btl_ib_known_fault_version(const btl_ib_known_fault_t *fault,
                                const btl_ib_fault_query_t *query, char *out, size_t len);

/* Changes *open so that faults of the kernel do no harm. `gso_auto`: the user has not decided
 * whether to send joined datagrams. */
void btl_ib_known_faults_avoid(const btl_ib_kernel_t *kernel, const char *transport, bool gso_auto,
                               btl_ib_open_params_t *open);

#endif
