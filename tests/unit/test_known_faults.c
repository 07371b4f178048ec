/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Kernels and firmware that are known to be bad: how versions are read, at which of them each entry
 * begins and ends, and what ib does about it. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "btl_ib_known_faults.h"
#include "unit.h"

/* ---- versions ---- */

static void reads(const char *text, const char *expected)
{
    btl_ib_dotted_version_t version;
    char read[64] = "none";

    if (btl_ib_dotted_version_read(text, &version)) {
        snprintf(read, sizeof(read), "%u.%u.%u.%u", version.number[0], version.number[1],
                 version.number[2], version.number[3]);
    } else {
        static const btl_ib_dotted_version_t unknown;

        assert_memory_equal(&version, &unknown, sizeof(version));
    }
    assert_string_equal(read, expected);
}

TEST(test_versions)
{
    reads("7.0.3-rc2", "7.0.3.0");
    reads("7.1-rc5", "7.1.0.0");
    reads("6.1.0-25-amd64", "6.1.0.0");
    reads("5.14.0-503.11.1.el9_5.x86_64", "5.14.0.0");
    reads("7.0.2-6-pve", "7.0.2.0");
    reads("6.6.44+", "6.6.44.0");
    reads("4.18.0_custom", "4.18.0.0");
    reads(" v4.8.200", "4.8.200.0");
    reads("236.1.167.0/pkg 36.11.73.00", "236.1.167.0");
    reads("16.35.2000 (MT_0000000008)", "16.35.2000.0");
    reads("1.2.3.4.5", "1.2.3.4");
    reads("1.2..3", "1.2.0.0");
    reads("1.2.", "1.2.0.0");
    reads("99999999999999999999.4294967296", "4294967295.4294967295.0.0");
    reads("0x800003e7, 1.1767.0", "none");
    reads("7", "none");
    reads("7.", "none");
    reads(".7.0", "none");
    reads("-1.0", "none");
    reads("vv1.0", "none");
    reads("N/A", "none");
    reads("", "none");
}

/* Whatever comes is read without harm: what it says is part of the text, or nothing. */
TEST(test_any_text)
{
    static const char letters[] = "0123456789.....-rcv /+\t\xff";
    unsigned seed = 4711;

    for (int i = 0; i < 200000; i++) {
        char *text = malloc(24);
        size_t len = 0;
        btl_ib_dotted_version_t version;
        btl_ib_kernel_t kernel;

        assert_non_null(text);
        for (; len < 23 && rand_r(&seed) % 24 != 0; len++) {
            text[len] = letters[(size_t) rand_r(&seed) % (sizeof(letters) - 1)];
        }
        text[len] = '\0';
        text = realloc(text, len + 1); /* so that a sanitizer sees each byte that is read beyond */
        assert_non_null(text);
        if (btl_ib_dotted_version_read(text, &version)) {
            char first[16];

            snprintf(first, sizeof(first), "%u", version.number[0]);
            assert_true(version.number[0] == UINT32_MAX || strstr(text, first) != NULL);
        }
        btl_ib_kernel_of(text, text, text, &kernel);
        assert_string_equal(kernel.release, text);
        free(text);
    }
}

static void kernel_is(const char *release, const char *build, const char *signature,
                      const char *expected)
{
    btl_ib_kernel_t kernel;
    char read[64];

    btl_ib_kernel_of(release, build, signature, &kernel);
    snprintf(read, sizeof(read), "%u.%u.%u.%u", kernel.version.number[0], kernel.version.number[1],
             kernel.version.number[2], kernel.version.number[3]);
    assert_string_equal(kernel.release, release);
    assert_string_equal(read, expected);
}

/* Debian and Ubuntu say elsewhere which stable release theirs is. */
TEST(test_distributions)
{
    static const char debian[] = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.106-3 (2024-08-26)";

    kernel_is("6.1.0-25-amd64", debian, "", "6.1.106.0");
    kernel_is("7.0.2", debian, "", "7.0.2.0"); /* of another kernel: believed less */
    kernel_is("6.8.0-45-generic", "#45-Ubuntu SMP", "Ubuntu 6.8.0-45.45-generic 6.8.12\n",
              "6.8.12.0");
    kernel_is("6.8.0-45-generic", "", "Ubuntu", "6.8.0.0");
    kernel_is("6.8.0-45-generic", "", "Ubuntu ", "6.8.0.0");
    kernel_is("6.8.0-45-generic", "", "Ubuntu 5.4.0-1.1-generic 5.4.1", "6.8.0.0");
    kernel_is("7.0.2-6-pve", "#1 SMP PREEMPT_DYNAMIC PMX 7.0.2-6 (2026-05-20T08:55Z)", "",
              "7.0.2.0");
    kernel_is("6.18.44-fc-v595", "Debian ", "", "6.18.44.0");
    kernel_is("nonsense", debian, "x 7.0.0", "0.0.0.0");
    kernel_is("", "", "", "0.0.0.0");
}

/* The system is asked: it is some Linux, as this test runs. */
TEST(test_own_kernel)
{
    btl_ib_kernel_t kernel;

    btl_ib_kernel_read(&kernel);
    assert_true(kernel.version.number[0] >= 2);
}

/* ---- the table ---- */

/* Returns how many entries a device falls under; `bad` is in the first of them. */
static int faults_of(const btl_ib_fault_query_t *query, const char *bad)
{
    const btl_ib_known_fault_t *fault = NULL;
    int count = 0;

    while ((fault = btl_ib_known_fault_next(query, fault)) != NULL) {
        assert_true(count > 0 || bad == NULL || strstr(fault->bad, bad) != NULL);
        ++count;
    }
    return count;
}

/* With a kernel, a device falls under an entry that names `bad`; NULL: under none. */
static void kernel_has(const btl_ib_fault_query_t *device, const char *release, const char *bad)
{
    btl_ib_fault_query_t query = *device;
    btl_ib_kernel_t kernel;

    btl_ib_kernel_of(release, "", "", &kernel);
    query.kernel = &kernel;
    if (faults_of(&query, bad) != (bad != NULL)) {
        print_error("Linux %s, %s\n", release, bad != NULL ? bad : "no entry");
        fail();
    }
}

static const btl_ib_fault_query_t udp = {
    .transport = "udp",
    .driver = "ixgbe",
    .firmware = "",
};

TEST(test_kernels)
{
    const btl_ib_fault_query_t veth = {.transport = "udp", .driver = "", .firmware = "N/A"};

    kernel_has(&udp, "3.10.0-1160.el7.x86_64", "before 4.18");
    kernel_has(&udp, "4.17.19", "before 4.18");
    kernel_has(&udp, "4.18.0-rc1", NULL);
    kernel_has(&udp, "4.18.0-553.el8_10.x86_64", NULL);
    kernel_has(&udp, "4.20.17", NULL);
    kernel_has(&udp, "5.0.0-rc1", "5.0 to 5.0.12");
    kernel_has(&udp, "5.0.12", "5.0 to 5.0.12");
    kernel_has(&udp, "5.0.13", NULL);
    kernel_has(&udp, "6.19.14", NULL);
    kernel_has(&udp, "7.0-rc1", "7.0 to 7.1.4");
    kernel_has(&udp, "7.0.0-14-generic", "7.0 to 7.1.4");
    kernel_has(&veth, "7.1.4", "7.0 to 7.1.4");
    kernel_has(&udp, "7.1.5-rc1", NULL);
    kernel_has(&udp, "7.1.5", NULL);
    kernel_has(&udp, "7.2.0", NULL);
    kernel_has(&udp, "8.0.1", NULL);
    kernel_has(&udp, "", NULL); /* nothing is known of it */
    kernel_has(&udp, "nonsense", NULL);
}

/* What is wrong with sockets is nothing for RDMA devices, nor the reverse. */
TEST(test_soft_devices)
{
    const btl_ib_fault_query_t rxe = {
        .transport = "verbs", .driver = "virtio_net", .firmware = "0.0.0", .vendor = 0xffffff};
    const btl_ib_fault_query_t old_rxe = {.transport = "verbs", .driver = "", .firmware = ""};
    const btl_ib_fault_query_t siw = {
        .transport = "verbs", .driver = "", .firmware = "", .vendor = 0x626d74};
    const btl_ib_fault_query_t mlx5 = {
        .transport = "verbs", .driver = "mlx5_core", .firmware = "16.35.2000", .vendor = 0x2c9};
    const btl_ib_fault_query_t of_libfabric = {.transport = "ofi", .driver = "", .firmware = ""};
    static const char *const rxe_bad[] = {"4.8.0",  "5.10.0-32-amd64", "6.1.52", "6.2.0",
                                          "6.4.15", "6.5.0",           "6.5.2"};
    static const char *const rxe_good[] = {"4.7.10", "6.1.53", "6.4.16", "6.5.3", "6.6.0", "7.0.1"};
    static const char *const siw_bad[] = {"5.3.0",   "5.4.219", "5.5.0",   "5.10.149", "5.11.0",
                                          "5.15.74", "5.16.0",  "5.19.16", "6.0.0",    "6.0.2"};
    static const char *const siw_good[] = {"5.2.21",  "5.4.220", "5.10.150", "5.15.75",
                                           "5.19.17", "6.0.3",   "6.1.0",    "7.0.1"};

    for (size_t i = 0; i < sizeof(rxe_bad) / sizeof(rxe_bad[0]); i++) {
        kernel_has(&rxe, rxe_bad[i], "soft-RoCE");
        kernel_has(&old_rxe, rxe_bad[i], "soft-RoCE");
        kernel_has(&mlx5, rxe_bad[i], NULL);
        kernel_has(&of_libfabric, rxe_bad[i], NULL);
    }
    for (size_t i = 0; i < sizeof(rxe_good) / sizeof(rxe_good[0]); i++) {
        kernel_has(&rxe, rxe_good[i], NULL);
    }
    for (size_t i = 0; i < sizeof(siw_bad) / sizeof(siw_bad[0]); i++) {
        kernel_has(&siw, siw_bad[i], "soft-iWARP");
    }
    for (size_t i = 0; i < sizeof(siw_good) / sizeof(siw_good[0]); i++) {
        kernel_has(&siw, siw_good[i], NULL);
    }
}

static void firmware_has(const char *transport, const char *driver, uint32_t part,
                         const char *firmware, const char *bad)
{
    btl_ib_kernel_t kernel;
    const btl_ib_fault_query_t query = {
        .kernel = &kernel,
        .transport = transport,
        .driver = driver,
        .firmware = firmware,
        .vendor = 0x2c9,
        .part = part,
    };

    btl_ib_kernel_of("6.18.1", "", "", &kernel);
    if (faults_of(&query, bad) != (bad != NULL)) {
        print_error("%s %u, firmware %s\n", driver, part, firmware);
        fail();
    }
}

TEST(test_firmware)
{
    static const struct {
        uint32_t part;
        const char *last, *good;
    } chips[] = {
        {23108, "3.4.999", "3.5.0"}, {25208, "4.8.199", "4.8.200"}, {25218, "5.2.999", "5.3.0"},
        {25204, "1.1.0", "1.2.0"},   {24204, "1.1.0", "1.2.0"},
    };

    for (size_t i = 0; i < sizeof(chips) / sizeof(chips[0]); i++) {
        firmware_has("verbs", "ib_mthca", chips[i].part, chips[i].last, "MT2");
        firmware_has("ofi", "ib_mthca", chips[i].part, "0.1", "MT2");
        firmware_has("verbs", "ib_mthca", chips[i].part, chips[i].good, NULL);
        firmware_has("verbs", "ib_mthca", chips[i].part, "", NULL);
        firmware_has("verbs", "mlx4_core", chips[i].part, chips[i].last, NULL);
    }
    firmware_has("verbs", "ib_mthca", 4711, "0.1", NULL);
    firmware_has("udp", "bnxt_en", 0, "236.1.167.0/pkg 36.11.73.00", "BCM57412");
    firmware_has("udp", "bnxt_en", 0, "236.1.166.9", NULL);
    firmware_has("udp", "bnxt_en", 0, "236.1.167.1", NULL);
    firmware_has("verbs", "bnxt_en", 0, "236.1.167.0", NULL);
}

TEST(test_texts)
{
    const btl_ib_known_fault_t *fault = btl_ib_known_faults;
    const btl_ib_kernel_t kernel = {.release = "7.0.2-6-pve"};
    const btl_ib_fault_query_t query = {
        .kernel = &kernel, .driver = "ib_mthca", .firmware = "4.7.0"};
    char version[64];

    for (; fault->bad != NULL; ++fault) {
        assert_true(fault->effect[0] != '\0' && fault->remedy[0] != '\0');
        assert_true(fault->source[0] != '\0' && fault->range[0].before.number[0] > 0);
        assert_true(!fault->of_firmware || fault->driver != NULL);
        assert_true(fault->workaround == BTL_IB_WORKAROUND_NONE
                    || (fault->transport != NULL && fault->driver == NULL && !fault->of_firmware));
        btl_ib_known_fault_version(fault, &query, version, sizeof(version));
        assert_string_equal(version,
                            fault->of_firmware ? "firmware 4.7.0 (ib_mthca)" : "Linux 7.0.2-6-pve");
    }
    assert_true(btl_ib_known_faults_name("bnxt_en") && btl_ib_known_faults_name("ib_mthca"));
    assert_false(btl_ib_known_faults_name("virtio_net") || btl_ib_known_faults_name(""));
    assert_in_range(fault - btl_ib_known_faults, 5, 32); /* each is a bit of what was told */
}

/* The number of a kernel that is kept for years says little of its drivers: who reads the text is
 * told. */
TEST(perhaps_mended)
{
    static const struct {
        const char *release;
        bool perhaps;
    } kernels[] = {
        {"5.14.0-370.el9.x86_64", true},     {"5.14.0-503.11.1.el9_5.x86_64", true},
        {"4.18.0-553.el8_10.aarch64", true}, {"5.14.21-150500.55.7-default", true},
        {"6.1.0-25-amd64", false},           {"5.15.0-91-generic", false},
        {"6.1.12-1.elrepo.x86_64", false},
    };

    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
        btl_ib_kernel_t kernel;
        const btl_ib_fault_query_t query = {.kernel = &kernel,
                                            .transport = "verbs",
                                            .driver = "",
                                            .firmware = "",
                                            .vendor = 0xffffff};
        char version[160], wanted[160];

        btl_ib_kernel_of(kernels[i].release, "", "", &kernel);
        const btl_ib_known_fault_t *fault = btl_ib_known_fault_next(&query, NULL);
        assert_non_null(fault);
        btl_ib_known_fault_version(fault, &query, version, sizeof(version));
        snprintf(wanted, sizeof(wanted), "Linux %s%s", kernels[i].release,
                 kernels[i].perhaps ? ", perhaps mended: its distribution takes over later drivers"
                                    : "");
        assert_string_equal(version, wanted);
    }
}

/* ---- what is done about it ---- */

static void avoids(const char *release, const char *transport, bool gso_auto, bool no_gso,
                   bool no_gro)
{
    btl_ib_open_params_t open = {.no_gso = false};
    btl_ib_kernel_t kernel;

    btl_ib_kernel_of(release, "", "", &kernel);
    btl_ib_known_faults_avoid(&kernel, transport, gso_auto, &open);
    assert_int_equal(open.no_gso, no_gso);
    assert_int_equal(open.no_gro, no_gro);
}

TEST(test_workarounds)
{
    btl_ib_open_params_t open = {.no_gso = true};
    btl_ib_kernel_t kernel;

    avoids("7.0.2-6-pve", "udp", true, true, false);
    avoids("7.0.2-6-pve", "udp", false, false, false); /* btl_ib_udp_gso 1 */
    avoids("7.0.2-6-pve", "verbs", true, false, false);
    avoids("7.1.5", "udp", true, false, false);
    avoids("4.14.180-perf+", "udp", true, true, false);
    avoids("5.0.0", "udp", true, false, true);
    avoids("5.0.0", "udp", false, false, true);
    avoids("6.18.44", "udp", true, false, false);
    avoids("", "udp", true, false, false);
    btl_ib_kernel_of("6.18.44", "", "", &kernel);
    btl_ib_known_faults_avoid(&kernel, "udp", false, &open);
    assert_true(open.no_gso); /* btl_ib_udp_gso 0 stays so */
}

UNIT_MAIN(NULL, NULL)
