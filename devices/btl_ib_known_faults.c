/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_known_faults.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

/* ---- versions ---- */

enum { KERNEL_NUMBERS = 3 };

/* Reads a number. One that is too large is the largest there is. */
static uint32_t read_number(const char **text)
{
    uint64_t value = 0;

    for (; **text >= '0' && **text <= '9'; ++*text) {
        value = value * 10 + (uint64_t) (**text - '0');
        value = value < UINT32_MAX ? value : UINT32_MAX;
    }
    return (uint32_t) value;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool btl_ib_dotted_version_read(const char *text, btl_ib_dotted_version_t *version)
{
    int count = 0;

    memset(version, 0, sizeof(*version));
    text += strspn(text, " \t");
    text += text[0] == 'v' || text[0] == 'V';
    while (count < BTL_IB_VERSION_NUMBERS && is_digit(text[0])) {
        version->number[count++] = read_number(&text);
        text += text[0] == '.' && is_digit(text[1]);
    }
    if (count < 2) {
        memset(version, 0, sizeof(*version));
        return false;
    }
    return true;
}

/* Returns less than, equal to, or more than 0 as `a` is before, at, or after `b`. */
static int compare_versions(const btl_ib_dotted_version_t *a, const btl_ib_dotted_version_t *b)
{
    int i = 0;

    while (i < BTL_IB_VERSION_NUMBERS - 1 && a->number[i] == b->number[i]) {
        ++i;
    }
    return (a->number[i] > b->number[i]) - (a->number[i] < b->number[i]);
}

static bool is_known(const btl_ib_dotted_version_t *version)
{
    static const btl_ib_dotted_version_t unknown;

    return compare_versions(version, &unknown) != 0;
}

/* ---- the kernel of this host ---- */

/* Takes the version that a text begins with, if its first two numbers are those of the version that
 * is known already. */
static void refine(btl_ib_dotted_version_t *version, const char *text)
{
    btl_ib_dotted_version_t finer;

    if (btl_ib_dotted_version_read(text, &finer) && finer.number[0] == version->number[0]
        && finer.number[1] == version->number[1]) {
        *version = finer;
        memset(version->number + KERNEL_NUMBERS, 0,
               sizeof(version->number) - KERNEL_NUMBERS * sizeof(version->number[0]));
    }
}

void btl_ib_kernel_of(const char *release, const char *build, const char *signature,
                      btl_ib_kernel_t *kernel)
{
    static const char debian[] = "Debian ";
    const char *of_debian = strstr(build, debian);
    const char *of_ubuntu = strrchr(signature, ' ');

    snprintf(kernel->release, sizeof(kernel->release), "%s", release);
    (void) btl_ib_dotted_version_read(release, &kernel->version);
    if (of_debian != NULL) {
        refine(&kernel->version, of_debian + strlen(debian));
    }
    if (of_ubuntu != NULL) {
        refine(&kernel->version, of_ubuntu);
    }
}

void btl_ib_kernel_read(btl_ib_kernel_t *kernel)
{
    struct utsname name;
    char signature[128] = "";
    FILE *file = fopen("/proc/version_signature", "re");

    if (file != NULL) {
        if (fgets(signature, sizeof(signature), file) == NULL) {
            signature[0] = '\0';
        }
        (void) fclose(file);
    }
    if (uname(&name) != 0) {
        memset(kernel, 0, sizeof(*kernel));
        return;
    }
    btl_ib_kernel_of(name.release, name.version, signature, kernel);
}

/* ---- the table ---- */

#define V(...)                                                                                     \
    {                                                                                              \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

/* Sources: "owner/name#1" is an issue or pull request of that repository on GitHub, 12 hexadecimal
 * digits a commit of Linux. docs/guide/devices.md has the table for users. */
const btl_ib_known_fault_t btl_ib_known_faults[] = {
    /* UDP_SEGMENT came with 4.18; Android's and routers' kernels before it know its name. */
    {
        .bad = "Linux before 4.18",
        .effect = "where they take UDP_SEGMENT, joined datagrams leave as one",
        .remedy = "take a later kernel; btl_ib_udp_gso auto is 0 there",
        .source = "quic-go/quic-go#4446, quinn-rs/quinn#2248",
        .transport = "udp",
        .range = {{V(0), V(4, 18)}},
        .of_gso = true,
        .log_only = true, /* most of them refuse the option, and nothing is lost */
        .workaround = BTL_IB_WORKAROUND_NO_GSO,
    },
    /* Joined datagrams of different lengths (mended by 21f1b8a6636c), of no length (4dd2b82d5adf,
     * CVE-2019-11683), both in 5.0.13. */
    {
        .bad = "Linux 5.0 to 5.0.12",
        .effect = "received datagrams are joined wrongly (UDP_GRO), empty ones crash the host",
        .remedy = "take a later kernel; ib does not let this one join them",
        .source = "21f1b8a6636c, 4dd2b82d5adf, CVE-2019-11683",
        .transport = "udp",
        .range = {{V(5, 0), V(5, 0, 13)}},
        .workaround = BTL_IB_WORKAROUND_NO_GRO,
    },
    /* b10b446ce7ad (7.0-rc1) writes wrong lengths where a device segments a part only, and all are
     * of one size; mended by 78effd896eee and 5f17ae0 (7.1-rc5). tailscale works around it up to
     * 7.1.4. */
    {
        .bad = "Linux 7.0 to 7.1.4",
        .effect = "with some cards joined datagrams (UDP_SEGMENT) leave mangled, and are lost",
        .remedy = "take a later kernel; until then ib joins none, unless btl_ib_udp_gso is 1 (for "
                  "cards that are known to be well)",
        .source = "tailscale/tailscale#19777, #19918, b10b446ce7ad, 78effd896eee",
        .transport = "udp",
        .range = {{V(7, 0), V(7, 1, 5)}},
        .of_gso = true,
        .workaround = BTL_IB_WORKAROUND_NO_GSO,
    },
    /* One report, of bursts that end with a datagram of one byte. */
    {
        .bad = "firmware 236.1.167.0 of bnxt_en (BCM57412)",
        .effect = "bursts of joined datagrams (UDP_SEGMENT) that end with a short one may reset "
                  "the card",
        .remedy = "set btl_ib_udp_gso to 0, or take other firmware",
        .source = "tailscale/tailscale#20994",
        .transport = "udp",
        .driver = "bnxt_en",
        .of_firmware = true,
        .range = {{V(236, 1, 167, 0), V(236, 1, 167, 1)}},
        .of_gso = true,
    },
    /* Soft-RoCE: a packet that the host's own queues drop is sent again from a wrong place. Mended
     * by 5d122db2ff80. */
    {
        .bad = "soft-RoCE of Linux 4.8 to 6.1.52, 6.2 to 6.4.15, 6.5 to 6.5.2",
        .effect = "packets that this host drops under load are sent again with wrong data",
        .remedy = "take a later kernel, or set btl_ib_transport to udp on all hosts",
        .source = "CVE-2023-53539, 5d122db2ff80",
        .driver = "rxe",
        .range = {{V(4, 8), V(6, 1, 53)}, {V(6, 2), V(6, 4, 16)}, {V(6, 5), V(6, 5, 3)}},
    },
    /* Soft-iWARP: what is left of a segment is not read if it came in two pieces. Mended by
     * 754209850df8. */
    {
        .bad = "soft-iWARP of Linux 5.3 to 6.0.2, but 5.4.220, 5.10.150, 5.15.75, 5.19.17 and "
               "later ones of these",
        .effect = "a connection may wait for ever for bytes that have arrived",
        .remedy = "take a later kernel, or set btl_ib_transport to udp on all hosts",
        .source = "754209850df8",
        .driver = "siw",
        .range = {{V(5, 3), V(5, 4, 220)},
                  {V(5, 5), V(5, 10, 150)},
                  {V(5, 11), V(5, 15, 75)},
                  {V(5, 16), V(5, 19, 17)},
                  {V(6, 0), V(6, 0, 3)}},
    },
/* InfiniHost: the kernel's driver and GASNet name the same versions. The parts are those that
 * ibv_devinfo shows. */
#define MTHCA(chip, version, first, second, ...)                                                   \
    {                                                                                              \
        .bad = "firmware before " version " of " chip,                                             \
        .effect = "the kernel's driver warns of it: later firmware mends faults",                  \
        .remedy = "update the card's firmware (mstflint)",                                         \
        .source = "mthca_hca_table of Linux, GASNet's ibv-conduit", .driver = "ib_mthca",          \
        .part = {first, second}, .of_firmware = true, .range = {{V(0), V(__VA_ARGS__)}},           \
    }
    MTHCA("MT23108", "3.5.0", 23108, 0, 3, 5, 0),
    MTHCA("MT25208 in the mode of MT23108", "4.8.200", 25208, 0, 4, 8, 200),
    MTHCA("MT25208", "5.3.0", 25218, 0, 5, 3, 0),
    MTHCA("MT25204", "1.2.0", 25204, 24204, 1, 2, 0),
    {.bad = NULL},
};

/* ---- asking it ---- */

bool btl_ib_known_faults_name(const char *driver)
{
    const btl_ib_known_fault_t *fault = btl_ib_known_faults;

    while (fault->bad != NULL && (fault->driver == NULL || strcmp(fault->driver, driver) != 0)) {
        ++fault;
    }
    return fault->bad != NULL;
}

/* Vendor ids of devices of software. Soft-RoCE had none before Linux 5.11. */
enum { VENDOR_RXE = 0xffffff, VENDOR_SIW = 0x626d74 };

/* Returns the driver of a device. For a device of software the system shows none, or that of the
 * network card below. */
static const char *driver_of(const btl_ib_fault_query_t *query)
{
    const bool verbs = strcmp(query->transport, "verbs") == 0;

    if (query->vendor == VENDOR_SIW) {
        return "siw";
    }
    if (query->vendor == VENDOR_RXE || (verbs && query->vendor == 0 && query->driver[0] == '\0')) {
        return "rxe";
    }
    return query->driver;
}

static bool is_one_of(uint32_t number, const uint32_t *list, int count)
{
    bool found = list[0] == 0;

    for (int i = 0; i < count && list[i] != 0; ++i) {
        found = found || list[i] == number;
    }
    return found;
}

static bool is_bad_version(const btl_ib_known_fault_t *fault,
                           const btl_ib_dotted_version_t *version)
{
    bool bad = false;

    for (int i = 0; i < BTL_IB_BAD_RANGES && is_known(&fault->range[i].before); ++i) {
        bad = bad
              || (compare_versions(version, &fault->range[i].from) >= 0
                  && compare_versions(version, &fault->range[i].before) < 0);
    }
    return bad && is_known(version);
}

static bool has_fault(const btl_ib_fault_query_t *query, const btl_ib_known_fault_t *fault)
{
    btl_ib_dotted_version_t firmware;

    if ((fault->transport != NULL && strcmp(fault->transport, query->transport) != 0)
        || (fault->driver != NULL && strcmp(fault->driver, driver_of(query)) != 0)
        || !is_one_of(query->part, fault->part, BTL_IB_FAULT_PARTS)) {
        return false;
    }
    if (!fault->of_firmware) {
        return is_bad_version(fault, &query->kernel->version);
    }
    return btl_ib_dotted_version_read(query->firmware, &firmware)
           && is_bad_version(fault, &firmware);
}

const btl_ib_known_fault_t *btl_ib_known_fault_next(const btl_ib_fault_query_t *query,
                                                    const btl_ib_known_fault_t *previous)
{
    const btl_ib_known_fault_t *fault = previous == NULL ? btl_ib_known_faults : previous + 1;

    while (fault->bad != NULL && !has_fault(query, fault)) {
        ++fault;
    }
    return fault->bad != NULL ? fault : NULL;
}

/* True if a release names a distribution that keeps one version of Linux for years and brings
 * drivers of later ones into it: Red Hat and what is built from it (".el9"), SUSE ("-default"). */
static bool has_backports(const char *release)
{
    const char *el = strstr(release, ".el");

    return (el != NULL && is_digit(el[strlen(".el")])) || strstr(release, "-default") != NULL;
}

void btl_ib_known_fault_version(const btl_ib_known_fault_t *fault,
                                const btl_ib_fault_query_t *query, char *out, size_t len)
{
    if (fault->of_firmware) {
        snprintf(out, len, "firmware %s (%s)", query->firmware, query->driver);
    } else {
        snprintf(out, len, "Linux %s%s", query->kernel->release,
                 has_backports(query->kernel->release)
                     ? ", perhaps mended: its distribution takes over later drivers"
                     : "");
    }
}

void btl_ib_known_faults_avoid(const btl_ib_kernel_t *kernel, const char *transport, bool gso_auto,
                               btl_ib_open_params_t *open)
{
    for (const btl_ib_known_fault_t *fault = btl_ib_known_faults; fault->bad != NULL; ++fault) {
        if (fault->workaround == BTL_IB_WORKAROUND_NONE || fault->transport == NULL
            || strcmp(fault->transport, transport) != 0
            || !is_bad_version(fault, &kernel->version)) {
            continue;
        }
        if (fault->workaround == BTL_IB_WORKAROUND_NO_GRO) {
            open->no_gro = true;
        } else if (gso_auto) {
            open->no_gso = true;
        }
    }
}
