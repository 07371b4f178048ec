/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Kernels and firmware that are known to be bad for what ib asks of them: a table, each entry with
 * its source, that is asked with the version of a kernel, the driver and firmware of a device.
 *
 * A version is a guess: distributions mend faults and keep the number, and bring faults of later
 * kernels into earlier ones. So no entry keeps a device from being used. What can be worked around
 * is (btl_ib_known_faults_avoid()), the rest is told.
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
 * between them, of which those after the fourth do not count. What comes after them is a suffix
 * that says nothing here: "7.0.3-rc2" is 7.0.3, as the first candidate of a release has its faults,
 * and the last one of a stable release what mends them. Returns false, and all zero, unless there
 * are two numbers at least.
 */
bool btl_ib_dotted_version_read(const char *text, btl_ib_dotted_version_t *version);

/* ---- the kernel of this host ---- */

typedef struct btl_ib_kernel {
    char release[72]; /* as `uname -r` says; "": not known */
    btl_ib_dotted_version_t version;
} btl_ib_kernel_t;

/*
 * Finds out what version of Linux a kernel is. `release` and `build` are what uname(2) says,
 * `signature` is Ubuntu's /proc/version_signature, each perhaps "". The releases of Debian and
 * Ubuntu have 0 for their third number, and say elsewhere which one it is: Debian in `build`
 * ("Debian 6.1.106-3"), Ubuntu as the last word of `signature` ("Ubuntu 6.8.0-45.45-generic
 * 6.8.12"). That counts if it continues the first two numbers of the release.
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

/* Versions that are bad: from `from` on, before `before`. */
typedef struct btl_ib_bad_range {
    btl_ib_dotted_version_t from, before;
} btl_ib_bad_range_t;

typedef struct btl_ib_known_fault {
    const char *bad;    /* the versions, as people write them */
    const char *effect; /* of them */
    const char *remedy; /* after "Do: " */
    const char *source; /* who says so */
    /* Which devices: all that is set must be so. */
    const char *transport;             /* that uses them; NULL: any */
    const char *driver;                /* of /sys or ethtool, or "rxe", "siw"; NULL: any */
    uint32_t part[BTL_IB_FAULT_PARTS]; /* one of these; the first 0: any */
    bool of_firmware;                  /* versions are the firmware's; else the kernel's */
    btl_ib_bad_range_t range[BTL_IB_BAD_RANGES]; /* up to the first with `before` 0 */
    bool of_gso;   /* concerns joined datagrams that ib sends: whoever sets btl_ib_udp_gso knows */
    bool log_only; /* loses nobody anything that is worth a help text */
    btl_ib_workaround_t workaround;
} btl_ib_known_fault_t;

/* Ends with an entry whose `bad` is NULL; it has at most 32. */
extern const btl_ib_known_fault_t btl_ib_known_faults[];

/* True if an entry names that driver. */
bool btl_ib_known_faults_name(const char *driver);

/* A device, for which the table is asked. */
typedef struct btl_ib_fault_query {
    const btl_ib_kernel_t *kernel;
    const char *transport;
    const char *driver;   /* "": not known, or a device of software */
    const char *firmware; /* "": not known */
    uint32_t vendor, part;
} btl_ib_fault_query_t;

/* Returns the first entry after `previous` (NULL: of all) that a device falls under; NULL: there is
 * none. */
const btl_ib_known_fault_t *btl_ib_known_fault_next(const btl_ib_fault_query_t *query,
                                                    const btl_ib_known_fault_t *previous);

/* Writes which version a device has, of those that `fault` is about: "Linux 7.0.2-6-pve" or
 * "firmware 4.7.0 (ib_mthca)". Of a distribution whose kernels keep their number, and have drivers
 * of later ones, it says that the number may mislead. */
void btl_ib_known_fault_version(const btl_ib_known_fault_t *fault,
                                const btl_ib_fault_query_t *query, char *out, size_t len);

/* Changes what a transport is asked for so that faults of the kernel do no harm. `gso_auto`:
 * whether to send joined datagrams is not the user's decision. */
void btl_ib_known_faults_avoid(const btl_ib_kernel_t *kernel, const char *transport, bool gso_auto,
                               btl_ib_open_params_t *open);

#endif
