/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_filter.h"
#include "unit.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define LONG63  "x23456789012345678901234567890123456789012345678901234567890123"
#define LONG127 LONG63 "4" LONG63

static struct sockaddr_storage address(const char *text)
{
    struct sockaddr_storage ip = {.ss_family = AF_UNSPEC};
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        memcpy(&ip, &v4, sizeof(v4));
    } else if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1) {
        memcpy(&ip, &v6, sizeof(v6));
    }
    return ip;
}

static void parse(const char *text, btl_ib_device_list_t *list)
{
    btl_ib_devices_error_t error = {.problem = ""};

    if (btl_ib_devices_parse(text, list, &error) != 0) {
        fail_msg("%s: entry %u, %s: %s; expected %s", text != NULL ? text : "", error.position,
                 error.entry, error.problem, error.expected);
    }
}

/* ---- what is accepted ---- */

static const struct {
    const char *text;
    sa_family_t family;
    uint8_t prefix_bits;
    const char *ip;
} good[] = {
    {"mlx5_0", AF_UNSPEC, 0, NULL},
    {"eth0.100", AF_UNSPEC, 0, NULL},
    {"eth0:1", AF_UNSPEC, 0, NULL},
    {"mlx5_0:1", AF_UNSPEC, 0, NULL},
    {"mlx5_0+mlx5_1:2", AF_UNSPEC, 0, NULL},
    {"10", AF_UNSPEC, 0, NULL},
    {"fd00", AF_UNSPEC, 0, NULL},
    {LONG127, AF_UNSPEC, 0, NULL},
    {"mlx5_0:1+2", AF_UNSPEC, 0, NULL},
    {"mlx5_0:1+2+255+mlx5_1", AF_UNSPEC, 0, NULL},
    {"10.77.0.0/24", AF_INET, 24, "10.77.0.0"},
    {"10.77.0.9/24", AF_INET, 24, "10.77.0.9"},
    {"0.0.0.0/0", AF_INET, 0, "0.0.0.0"},
    {"255.255.255.255/32", AF_INET, 32, "255.255.255.255"},
    {"10.0.0.0/008", AF_INET, 8, "10.0.0.0"},
    {"fd00::/64", AF_INET6, 64, "fd00::"},
    {"::/0", AF_INET6, 0, "::"},
    {"::1/128", AF_INET6, 128, "::1"},
    {"ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255/128", AF_INET6, 128,
     "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
};

static void assert_entry(const btl_ib_device_entry_t *entry, size_t i)
{
    uint8_t ip[16] = {0};

    assert_string_equal(entry->text, good[i].text);
    assert_int_equal(entry->family, good[i].family);
    assert_int_equal(entry->prefix_bits, good[i].prefix_bits);
    assert_false(entry->matched);
    if (good[i].ip != NULL) {
        assert_int_equal(inet_pton(good[i].family, good[i].ip, ip), 1);
    }
    assert_memory_equal(entry->ip, ip, sizeof(ip));
}

TEST(test_good)
{
    char all[4096] = "";
    btl_ib_device_list_t list;

    for (size_t i = 0; i < COUNT(good); i++) {
        parse(good[i].text, &list);
        assert_int_equal(list.count, 1);
        assert_entry(&list.entry[0], i);
        if (i > 0) {
            strcat(all, ",");
        }
        strcat(all, good[i].text);
    }
    parse(all, &list);
    assert_int_equal(list.count, COUNT(good));
    for (size_t i = 0; i < COUNT(good); i++) {
        assert_entry(&list.entry[i], i);
    }
}

TEST(test_no_list)
{
    btl_ib_device_list_t list;

    memset(&list, 0xa5, sizeof(list));
    parse("", &list);
    assert_int_equal(list.count, 0);
    memset(&list, 0xa5, sizeof(list));
    parse(NULL, &list);
    assert_int_equal(list.count, 0);
}

/* ---- what is refused, and how ---- */

static const struct {
    const char *text;
    uint32_t position;
    const char *entry;
    const char *problem;  /* a part of it */
    const char *expected; /* a part of it */
} bad[] = {
    {"10.0.0.0/33", 1, "10.0.0.0/33", "longer than the address", "0 to 32"},
    {"10.0.0/24", 1, "10.0.0/24", "no IP address", "10.77.0.0/24"},
    {"eth0,10.0.0/24", 2, "10.0.0/24", "no IP address", "10.77.0.0/24"},
    {"256.0.0.0/8", 1, "256.0.0.0/8", "no IP address", "0 to 255"},
    {"10.0.0.0.0/8", 1, "10.0.0.0.0/8", "no IP address", "four numbers"},
    {"/24", 1, "/24", "no IP address", "four numbers"},
    {"eth0/24", 1, "eth0/24", "no IP address", "four numbers"},
    {"fd00:/64", 1, "fd00:/64", "no IP address", "fd00::/64"},
    {"fe80::1%eth0/64", 1, "fe80::1%eth0/64", "no IP address", "fd00::/64"},
    {"10.0.0.0/", 1, "10.0.0.0/", "no length", "0 to 32"},
    {"10.0.0.0/x", 1, "10.0.0.0/x", "no number", "0 to 32"},
    {"10.0.0.0/8x", 1, "10.0.0.0/8x", "no number", "0 to 32"},
    {"10.0.0.0/-1", 1, "10.0.0.0/-1", "no number", "0 to 32"},
    {"10.0.0.0/+8", 1, "10.0.0.0/+8", "no number", "0 to 32"},
    {"10.0.0.0/8/8", 1, "10.0.0.0/8/8", "no number", "0 to 32"},
    {"10.0.0.0/4294967304", 1, "10.0.0.0/4294967304", "longer", "0 to 32"},
    {"10.0.0.0/255.0.0.0", 1, "10.0.0.0/255.0.0.0", "longer", "0 to 32"},
    {"fd00::/129", 1, "fd00::/129", "longer than the address", "0 to 128"},
    {"10.77.0.1", 1, "10.77.0.1", "without the length", "10.77.0.1/32"},
    {"10.77.0", 1, "10.77.0", "without the length", "10.77.0.0/24"},
    {"fd00::1", 1, "fd00::1", "without the length", "fd00::/64"},
    {",", 1, "", "empty", "commas"},
    {",eth0", 1, "", "empty", "commas"},
    {"eth0,", 2, "", "empty", "commas"},
    {"eth0,,eth1", 2, "", "empty", "commas"},
    {"eth0,eth1,,", 3, "", "empty", "commas"},
    {"+mlx5_0", 1, "+mlx5_0", "beside a '+'", "mlx5_0+mlx5_1:2"},
    {"eth0,mlx5_0+", 2, "mlx5_0+", "beside a '+'", "belong together"},
    {"mlx5_0++mlx5_1", 1, "mlx5_0++mlx5_1", "beside a '+'", "belong together"},
    {" ", 1, " ", "space", "comma"},
    {"eth0, eth1", 2, " eth1", "space", "comma"},
    {"eth0,eth\n1\177,eth2", 2, "eth?1?", "control", "comma"},
    {"mlx5_0+2", 1, "mlx5_0+2", "follows no port", "mlx5_0:1+2"},
    {"1+2", 1, "1+2", "follows no port", "mlx5_0:1+2"},
    {"mlx5_0:+2", 1, "mlx5_0:+2", "follows no port", "mlx5_0:1+2"},
    {"mlx5_0:a+2", 1, "mlx5_0:a+2", "follows no port", "mlx5_0:1+2"},
    {"mlx5_0:1+mlx5_1+2", 1, "mlx5_0:1+mlx5_1+2", "follows no port", "mlx5_0:1+2"},
    {"eth0,mlx5_0:1+0", 2, "mlx5_0:1+0", "no number of a port", "1 to 255"},
    {"mlx5_0:1+02", 1, "mlx5_0:1+02", "no number of a port", "1 to 255"},
    {"mlx5_0:1+256", 1, "mlx5_0:1+256", "no number of a port", "1 to 255"},
    {"mlx5_0:1+2+4294967297", 1, "mlx5_0:1+2+4294967297", "no number of a port", "1 to 255"},
    {"a," LONG127 "8", 2, LONG127, "too long", "127"},
    {"a," LONG127 LONG127 ",b", 2, LONG127, "too long", "127"},
};

TEST(test_bad)
{
    btl_ib_device_list_t list;
    btl_ib_devices_error_t error;

    for (size_t i = 0; i < COUNT(bad); i++) {
        memset(&error, 0xa5, sizeof(error));
        if (-EINVAL != btl_ib_devices_parse(bad[i].text, &list, &error)) {
            fail_msg("%s was accepted", bad[i].text);
        }
        if (error.position != bad[i].position || strstr(error.problem, bad[i].problem) == NULL
            || strstr(error.expected, bad[i].expected) == NULL) {
            fail_msg("%s: entry %u: %s; expected %s", bad[i].text, error.position, error.problem,
                     error.expected);
        }
        assert_string_equal(error.entry, bad[i].entry);
    }
}

TEST(test_too_many)
{
    char text[BTL_IB_DEVICE_ENTRIES_MAX * 2 + 8] = "";
    btl_ib_device_list_t list;
    btl_ib_devices_error_t error;

    for (size_t i = 0; i < BTL_IB_DEVICE_ENTRIES_MAX; i++) {
        strcat(text, i > 0 ? ",a" : "a");
    }
    parse(text, &list);
    assert_int_equal(list.count, BTL_IB_DEVICE_ENTRIES_MAX);
    strcat(text, ",last");
    assert_int_equal(btl_ib_devices_parse(text, &list, &error), -EINVAL);
    assert_int_equal(error.position, BTL_IB_DEVICE_ENTRIES_MAX + 1);
    assert_string_equal(error.entry, "last");
    snprintf(text, sizeof(text), "%d entries", BTL_IB_DEVICE_ENTRIES_MAX);
    assert_non_null(strstr(error.expected, text));
}

/* ---- selecting ---- */

static const struct {
    const char *name, *interface, *ip;
    bool loopback, plain;
    uint8_t port;
    const char *last_resort;
} machine[] = {
    {"lo", "lo", "127.0.0.1", true, true, 0, NULL},
    {"eth0", "eth0", "10.77.0.5", false, true, 0, NULL},
    {"mlx5_0", "ib0", "10.78.129.1", false, false, 0, NULL},
    {"eth6", "eth6", "fd00:0:0:1::5", false, true, 0, NULL},
    {"usnic_0", "", "", false, false, 0, NULL},
    {"usnic_1", "", "", false, false, 0, NULL},
    {"eth0b", "eth0", "10.79.0.5", false, true, 0, NULL},
    {"eth0v6", "eth0", "fd00:0:0:9::5", false, true, 0, NULL},
    {"lo6", "lo", "::1", true, true, 0, NULL},
    {"mlx5_1:1", "", "", false, false, 1, NULL},
    {"mlx5_1:2", "", "", false, false, 2, NULL},
    {"rxe0", "", "10.80.0.1", false, false, 1, NULL},
    {"rxe0", "", "fd00::80:1", false, false, 1, NULL},
    {"docker0", "docker0", "172.17.0.1", false, true, 0, "it is a bridge"},
    {"virbr0", "virbr0", "192.168.122.1", false, true, 0, "it is a bridge"},
};

/* `there`: a letter of each device: Lo, Eth0, Mlx5_0, 6 (eth6), Usnic, another one (V), eth0's
 * Other addresses (O, P), lo's (l), two ports of mlx5_1 (A, B), rxe0 with two addresses (R,
 * S), Docker0 and virbr0 (W), which lead to no other host. */
static const char letters[] = "LEM6UVOPlABRSDW";

typedef struct choice {
    const char *there, *include, *exclude, *chosen;
    uint32_t without_effect; /* bits: entries of the include list */
} choice_t;

static const choice_t choices[] = {
    /* No wishes: loopback only if it is alone. */
    {"LEM6U", "", "", "EM6U", 0},
    {"ELM", "", "", "EM", 0},
    {"L", "", "", "L", 0},
    {"", "", "", "", 0},
    /* What leads to no other host: only if nothing does, or if it is wanted. */
    {"LDEMW", "", "", "EM", 0},
    {"DLW", "", "", "DW", 0},
    {"LD", "", "", "D", 0},
    {"LDE", "", "eth0", "D", 0},
    {"LDEW", "docker0", "", "D", 0},
    {"LDEW", "eth0,docker0", "", "DE", 0},
    {"LDEW", "172.16.0.0/12", "", "D", 0},
    {"LDEW", "", "docker0", "E", 0},
    {"LDEW", "", "eth0,192.168.0.0/16", "D", 0},
    /* By name, by interface; the machine's order stays. */
    {"LEM6U", "mlx5_0", "", "M", 0},
    {"LEM6U", "ib0", "", "M", 0},
    {"LEM6U", "ib0,mlx5_0", "", "M", 0},
    {"LEM6U", "usnic_0,eth0", "", "EU", 0},
    {"UE", "eth0,usnic_0", "", "UE", 0},
    {"LEM6U", "lo", "", "L", 0},
    {"LEM6U", "lo,eth0", "", "LE", 0},
    {"LEM6U", "eth", "", "", 1},
    {"LEM6U", "eth00", "", "", 1},
    {"LEM6U", "ETH0", "", "", 1},
    /* By subnet. */
    {"LEM6U", "10.77.0.0/24", "", "E", 0},
    {"LEM6U", "10.77.0.77/24", "", "E", 0},
    {"LEM6U", "10.77.0.4/31", "", "E", 0},
    {"LEM6U", "10.77.0.6/31", "", "", 1},
    {"LEM6U", "10.77.0.5/32", "", "E", 0},
    {"LEM6U", "10.77.1.0/24", "", "", 1},
    {"LEM6U", "10.76.0.0/15", "", "E", 0},
    {"LEM6U", "10.78.128.0/17", "", "M", 0},
    {"LEM6U", "10.78.0.0/17", "", "", 1},
    {"LEM6U", "10.0.0.0/8", "", "EM", 0},
    {"LEM6U", "0.0.0.0/0", "", "LEM", 0},
    {"LEM6U", "::/0", "", "6", 0},
    {"LEM6U", "fd00:0:0:1::/64", "", "6", 0},
    {"LEM6U", "fd00::/63", "", "6", 0},
    {"LEM6U", "fd00::/64", "", "", 1},
    {"LEM6U", "127.0.0.0/8", "", "L", 0},
    /* In vain, in part. */
    {"LEM6U", "eth7,eth0,10.9.0.0/16", "", "E", 1 | 4},
    {"", "eth0", "", "", 1},
    /* Left out. */
    {"LEM6U", "", "eth0", "M6U", 0},
    {"LEM6U", "", "eth0,ib0,usnic_0", "6", 0},
    {"LEM6U", "", "10.0.0.0/8,eth6,usnic_0", "L", 0},
    {"LEM6U", "", "lo", "EM6U", 0},
    {"LEM6U", "", "nobody", "EM6U", 0},
    {"L", "", "lo", "", 0},
    {"LE", "", "0.0.0.0/0", "", 0},
    /* Of several addresses of an interface the first that is wanted; a device without an interface
     * counts by itself. */
    {"LEMOP6", "", "", "EM6", 0},
    {"POE", "", "", "P", 0},
    {"EOP6", "eth0", "", "E", 0},
    {"EOP6", "10.79.0.0/24", "", "O", 0},
    {"EOP6", "10.79.0.0/24,::/0", "", "O6", 0},
    {"EOP6", "", "10.0.0.0/8", "P6", 0},
    {"LlE", "lo", "", "L", 0},
    {"lL", "", "", "l", 0},
    {"UV", "", "", "UV", 0},
    {"UVEO", "", "", "UVE", 0},
    /* Ports. */
    {"MABR", "mlx5_1", "", "AB", 0},
    {"MABR", "mlx5_1:2", "", "B", 0},
    {"MABR", "mlx5_1:3,mlx5_1:", "", "", 1 | 2},
    {"MABR", "mlx5_1:1,rxe0:1", "", "AR", 0},
    {"MABR", "rxe0:2", "", "", 1},
    {"MABR", "", "mlx5_1:1", "MBR", 0},
    {"RSA", "", "", "RA", 0},
    {"RSA", "fd00::/16", "", "S", 0},
    /* Together, or not at all. */
    {"MABR", "mlx5_1:2+rxe0", "", "BR", 0},
    {"MABR", "mlx5_1+rxe0", "", "ABR", 0},
    {"MABR", "mlx5_1:2+mlx5_7", "", "", 1},
    {"MABR", "mlx5_1:2+mlx5_7,mlx5_0", "", "M", 1},
    {"MABR", "mlx5_7+mlx5_1:2,mlx5_1:2", "", "B", 1},
    {"MABR", "", "mlx5_1:2+mlx5_7", "MAR", 0},
    {"MABR", "mlx5_1:1+2", "", "AB", 0},
    {"MABR", "mlx5_1:2+1+rxe0:1", "", "ABR", 0},
    {"MABR", "mlx5_1:1+2+rxe0", "", "ABR", 0},
    {"MABR", "mlx5_1:1+2+3", "", "", 1},
    {"MAR", "mlx5_1:1+2", "", "", 1},
    {"MAR", "mlx5_1:1+2,mlx5_1:1", "", "A", 1},
    {"MABR", "", "mlx5_1:1+2", "MR", 0},
};

static const choice_t rdma_choices[] = {
    {"LEM6UV", "", "", "MUV", 0},    {"LE6", "", "", "", 0},           {"L", "", "", "", 0},
    {"LEM6U", "mlx5_0", "", "M", 0}, {"LEM6U", "", "usnic_0", "M", 0}, {"DEMW", "", "", "M", 0},
    {"DEW", "", "", "", 0},
};

static char turned_down[16];
static uint32_t told_unmatched;
static bool told_of_transport;

/* Which device or entry a line of the log is about. */
static void overhear(void *context, int level, const char *format, ...)
{
    char line[256];
    char name[64];
    unsigned entry;
    va_list args;

    assert_ptr_equal(context, turned_down);
    va_start(args, format);
    assert_true(vsnprintf(line, sizeof(line), format, args) < (int) sizeof(line));
    va_end(args);
    if (sscanf(line, "btl_ib_if_include: entry %u, ", &entry) == 1) {
        assert_int_equal(level, strstr(line, "lacks a device") != NULL ? 1 : 10);
        assert_int_equal(told_of_transport, strstr(line, " of transport test") != NULL);
        told_unmatched |= 1u << (entry - 1);
        return;
    }
    assert_int_equal(level, 10);
    assert_int_equal(sscanf(line, "device %63s turned down: ", name), 1);
    for (size_t i = 0; i < COUNT(machine); i++) {
        if (strcmp(name, machine[i].name) == 0
            && (i == 0 || strcmp(name, machine[i - 1].name) != 0)) {
            strcat(turned_down, (const char[]){letters[i], '\0'});
        }
    }
}

static void add_device(btl_ib_device_t *device, size_t which)
{
    memset(device, 0, sizeof(*device));
    strcpy(device->transport, "test");
    strcpy(device->name, machine[which].name);
    strcpy(device->interface, machine[which].interface);
    device->ip = address(machine[which].ip);
    device->loopback = machine[which].loopback;
    device->plain = machine[which].plain;
    device->port = machine[which].port;
    device->last_resort = machine[which].last_resort;
    device->handle = (void *) (uintptr_t) &letters[which];
}

static void assert_choice(const choice_t *choice, bool rdma_only)
{
    static btl_ib_device_filter_t filter;
    btl_ib_device_t list[COUNT(machine)];
    const btl_ib_log_t log = {.print = overhear, .context = turned_down};
    const int count = (int) strlen(choice->there);
    char got[sizeof(letters)] = "";
    char rest[sizeof(letters)] = "";
    char named[sizeof(letters)];
    int chosen;

    for (int i = 0; i < count; i++) {
        add_device(&list[i], (size_t) (strchr(letters, choice->there[i]) - letters));
    }
    parse(choice->include, &filter.include);
    parse(choice->exclude, &filter.exclude);
    filter.rdma_only = rdma_only;
    turned_down[0] = '\0';
    told_unmatched = 0;
    told_of_transport = count > 0;
    chosen = btl_ib_devices_select(list, count, &filter, &log);
    for (int i = 0; i < count; i++) {
        strncat(i < chosen ? got : rest, list[i].handle, 1);
    }
    if (strcmp(got, choice->chosen) != 0) {
        fail_msg("of %s, include '%s', exclude '%s': %s", choice->there, choice->include,
                 choice->exclude, got);
    }
    /* The others are all still there, and were told of. */
    assert_int_equal(strlen(rest), strlen(turned_down));
    snprintf(named, sizeof(named), "%s", rest);
    for (char *c = named; *c != '\0'; c++) {
        *c = *c == 'S' ? 'R' : *c; /* they have one name */
    }
    assert_int_equal(strspn(named, turned_down), strlen(named));
    assert_int_equal(strlen(got) + strlen(rest), strlen(choice->there));
    assert_int_equal(strcspn(rest, got), strlen(rest));
    for (uint32_t i = 0; i < filter.include.count; i++) {
        assert_int_equal(!filter.include.entry[i].matched, choice->without_effect >> i & 1);
    }
    assert_int_equal(told_unmatched, choice->without_effect);
}

TEST(test_select)
{
    for (size_t i = 0; i < COUNT(choices); i++) {
        assert_choice(&choices[i], false);
    }
    for (size_t i = 0; i < COUNT(rdma_choices); i++) {
        assert_choice(&rdma_choices[i], true);
    }
}

/* Addresses of one plain interface are alternatives: the first good one of each interface comes
 * first, then others, then what the transport would rather not use, unless there is nothing else or
 * it is named. */
TEST(test_ranks)
{
    static const struct {
        const char *there; /* see `letters`; '!' behind one: the transport's rank is LAST */
        const char *include;
        const char *chosen; /* with ranks */
    } cases[] = {
        {"EO6P", "", "E060O1P1"},  {"E!O", "", "O0E2"},
        {"E!6", "", "60E2"},       {"E!6!", "", "E060"},
        {"E!O!6!", "", "E060O2"},  {"E!6", "eth0,eth6", "E060"},
        {"LE", "", "E0"},          {"L6!", "", "60"},
        {"Ll", "", "L0"},          {"EO", "10.79.0.0/16", "O0"},
        {"EOP", "eth0", "E0O1P1"},
    };
    const btl_ib_log_t silent = {.print = NULL};

    for (size_t i = 0; i < COUNT(cases); i++) {
        static btl_ib_device_filter_t filter;
        btl_ib_device_t list[COUNT(machine)];
        char got[32] = "";
        int count = 0;
        int first = 0;

        for (const char *c = cases[i].there; *c != '\0'; c++) {
            if (*c == '!') {
                list[count - 1].rank = BTL_IB_RANK_LAST;
                continue;
            }
            add_device(&list[count], (size_t) (strchr(letters, *c) - letters));
            strcpy(list[count++].transport, "udp");
        }
        parse(cases[i].include, &filter.include);
        const int chosen = btl_ib_devices_select(list, count, &filter, &silent);
        for (int j = 0; j < chosen; j++) {
            snprintf(got + 2 * j, 3, "%c%u", *(const char *) list[j].handle, list[j].rank % 10u);
            first += list[j].rank == 0;
        }
        assert_string_equal(got, cases[i].chosen);
        assert_int_equal(btl_ib_devices_first(list, chosen), first);
    }
}

/* In whatever order a host lists what is in these networks, and whatever its own addresses are
 * there, they are sorted alike. */
TEST(test_sort)
{
    static const struct {
        const char *name, *ip, *of_another_host;
        uint8_t prefix_bits, rank;
    } sorted[] = {
        {"first", "10.9.0.1", "10.9.0.2", 24, BTL_IB_RANK_FIRST},
        {"a", "10.1.0.1", "10.1.200.9", 16, BTL_IB_RANK_ADDRESS},
        {"a24", "10.1.0.77", "10.1.0.78", 24, BTL_IB_RANK_ADDRESS},
        {"b", "10.1.5.1", "10.1.5.2", 24, BTL_IB_RANK_ADDRESS}, /* behind a's whole network */
        {"c", "10.1.5.129", "10.1.5.130", 25, BTL_IB_RANK_ADDRESS},
        {"d", "10.2.0.255", "10.2.0.1", 20, BTL_IB_RANK_ADDRESS},
        {"d2", "10.2.1.0", "10.2.0.2", 20, BTL_IB_RANK_ADDRESS}, /* one network: by the address */
        {"e", "fd00:0:0:1::9", "fd00:0:0:1:8::", 64, BTL_IB_RANK_ADDRESS},
        {"f", "fd00:0:0:2::9", "fd00:0:0:2::1", 64, BTL_IB_RANK_ADDRESS},
        {"none", "", "", 0, BTL_IB_RANK_ADDRESS},
        {"last", "10.0.0.1", "10.0.0.2", 24, BTL_IB_RANK_LAST},
    };
    enum { STEP = 5 }; /* prime to the count */

    for (size_t host = 0; host < 2; host++) {
        for (size_t begin = 0; begin < COUNT(sorted); begin++) {
            btl_ib_device_t list[COUNT(sorted)] = {{.port = 0}};

            for (size_t i = 0; i < COUNT(sorted); i++) {
                const size_t which = (begin + i * STEP) % COUNT(sorted);

                strcpy(list[i].name, sorted[which].name);
                list[i].ip = address(host == 0 ? sorted[which].ip : sorted[which].of_another_host);
                list[i].prefix_bits = sorted[which].prefix_bits;
                list[i].rank = sorted[which].rank;
            }
            btl_ib_devices_sort(list, COUNT(sorted));
            for (size_t i = 0; i < COUNT(sorted); i++) {
                assert_string_equal(list[i].name, sorted[i].name);
            }
        }
    }
    btl_ib_devices_sort(NULL, 0);

    /* Nothing tells these apart. */
    btl_ib_device_t list[] = {{.name = "usnic_1"}, {.name = "usnic_0"}};
    btl_ib_devices_sort(list, COUNT(list));
    assert_string_equal(list[0].name, "usnic_1");
}

/* A second transport's devices don't undo what the first one's matched; nobody has to listen. */
TEST(test_two_transports)
{
    static btl_ib_device_filter_t filter;
    const btl_ib_log_t silent = {.print = NULL};
    btl_ib_device_t device;

    parse("eth0,mlx5_0,eth9", &filter.include);
    add_device(&device, 1);
    assert_int_equal(btl_ib_devices_select(&device, 1, &filter, &silent), 1);
    add_device(&device, 2);
    assert_int_equal(btl_ib_devices_select(&device, 1, &filter, &silent), 1);
    assert_int_equal(btl_ib_devices_select(NULL, 0, &filter, &silent), 0);
    assert_true(filter.include.entry[0].matched);
    assert_true(filter.include.entry[1].matched);
    assert_false(filter.include.entry[2].matched);
}

static char told[256];

static void hear_first_level(void *context, int level, const char *format, ...)
{
    va_list args;

    if (level == 1) {
        assert_string_equal(told, "");
        va_start(args, format);
        (void) vsnprintf(told, sizeof(told), format, args);
        va_end(args);
    }
}

/* Interfaces with link-local addresses only that are left aside are told in a line, at level 1; if
 * there is nothing better they are used, and nothing is said. */
TEST(test_link_local)
{
    static const struct {
        const char *name, *ip;
    } of[] = {
        {"eth0", "10.77.0.5"}, {"tb0", "169.254.1.2"}, {"tb1", "fe80::5"}, {"br0", "10.1.0.1"}};
    static btl_ib_device_filter_t filter;
    const btl_ib_log_t log = {.print = hear_first_level};

    parse("", &filter.include);
    parse("", &filter.exclude);
    for (int first = 0; first < 2; first++) {
        btl_ib_device_t list[COUNT(of)] = {{.port = 0}};
        int count = 0;

        for (size_t i = (size_t) first; i < COUNT(of); i++, count++) {
            strcpy(list[count].name, of[i].name);
            strcpy(list[count].interface, of[i].name);
            list[count].ip = address(of[i].ip);
            list[count].plain = true;
            list[count].last_resort = i > 0 ? "it is a member" : NULL;
        }
        told[0] = '\0';
        assert_int_equal(btl_ib_devices_select(list, count, &filter, &log), first == 0 ? 1 : 3);
        assert_int_equal(strlen(told) > 0, first == 0);
        assert_int_equal(strstr(told, ": tb0,tb1 (btl_ib_if_include takes") != NULL, first == 0);
    }
}

UNIT_MAIN(NULL, NULL)
