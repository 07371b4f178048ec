/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The transport `udp`: which network interfaces it offers, those of this machine and others. */

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net_interfaces.h"
#include "own_network.h"
#include "transports.h"
#include "udp_calls.h"
#include "udp_sockets.h"
#include "unit.h"

/* ---- interfaces that there are ---- */

static char turned_down[4096];

static void overhear(void *context, int level, const char *format, ...)
{
    const size_t used = strlen(turned_down);
    va_list args;

    assert_int_equal(level, 10);
    va_start(args, format);
    (void) vsnprintf(turned_down + used, sizeof(turned_down) - used, format, args);
    va_end(args);
}

static void assert_device(const btl_ib_device_t *device)
{
    const uint8_t *ip =
        (const uint8_t *) &((const struct sockaddr_in *) (const void *) &device->ip)->sin_addr;

    assert_string_equal(device->transport, "udp");
    assert_string_equal(device->provider, "");
    assert_memory_equal(device->name, device->interface, strlen(device->interface));
    assert_int_not_equal(if_nametoindex(device->interface), 0);
    assert_true(device->plain);
    if (device->ip.ss_family == AF_INET) {
        assert_int_equal(device->loopback, ip[0] == 127);
        assert_in_range(device->prefix_bits, 1, 32);
        return;
    }
    assert_int_equal(device->ip.ss_family, AF_INET6);
    const struct in6_addr *ip6 =
        &((const struct sockaddr_in6 *) (const void *) &device->ip)->sin6_addr;
    assert_int_equal(device->loopback, IN6_IS_ADDR_LOOPBACK(ip6));
    assert_in_range(device->prefix_bits, 1, 128);
}

static void test_devices(void **state)
{
    const btl_ib_log_t log = {.print = overhear};
    btl_ib_device_t *list = NULL;
    bool six = false;

    need_udp(AF_INET);
    const int n = bed.type->devices(&(btl_ib_search_t){.provider = "", .log = log}, &list);
    assert_in_range(n, 1, 10000);
    for (int i = 0; i < n; i++) {
        btl_ib_transport_attr_t attr;

        assert_device(&list[i]);
        assert_true(!six || list[i].ip.ss_family == AF_INET6); /* IPv4 first */
        six = list[i].ip.ss_family == AF_INET6;
        assert_int_equal(bed.type->query(&list[i], 0, &attr), 0);
        assert_int_equal(attr.bandwidth, list[i].bandwidth);
    }
    assert_int_equal(bed.device->prefix_bits, 8);
    assert_int_equal(bed.device->bandwidth, 0);
    bed.type->devices_free(list, n);
}

/* A name of a provider of libfabric means another transport. */
static void test_provider(void **state)
{
    const btl_ib_log_t log = {.print = NULL};
    btl_ib_device_t *list = (btl_ib_device_t *) &log;

    need_udp(AF_INET);
    assert_int_equal(bed.type->devices(&(btl_ib_search_t){.provider = "verbs", .log = log}, &list),
                     0);
    assert_null(list);
    bed.type->devices_free(list, 0);
}

/* ---- interfaces that this machine does not have ---- */

enum { WORDS = 3, SPEED = 25000, LOWER_UP = 1 << 16, DORMANT = 1 << 17 }; /* linux/if.h */

static struct ifaddrs *pretended; /* NULL: those that there are */
static int list_error;            /* of getifaddrs() */

/* Stand before those of libc. */
int getifaddrs(struct ifaddrs **list)
{
    int (*original)(struct ifaddrs **);

    if (list_error != 0) {
        errno = list_error;
        return -1;
    }
    if (pretended != NULL) {
        *list = pretended;
        return 0;
    }
    *(void **) (void *) &original = dlsym(RTLD_NEXT, "getifaddrs");
    assert_non_null(original);
    return original(list);
}

void freeifaddrs(struct ifaddrs *list)
{
    void (*original)(struct ifaddrs *);

    if (list != pretended) {
        *(void **) (void *) &original = dlsym(RTLD_NEXT, "freeifaddrs");
        assert_non_null(original);
        original(list);
    }
}

/* The driver of an interface "fast0", that of "slow0" which does not know, and none of others. */
static int driver(const struct ifreq *request)
{
    struct ethtool_link_settings *settings = (void *) request->ifr_data;
    struct ethtool_drvinfo *info = (void *) request->ifr_data;

    if (strcmp(request->ifr_name, "fast0") != 0 && strcmp(request->ifr_name, "slow0") != 0) {
        errno = EOPNOTSUPP;
        return -1;
    }
    if (info->cmd == ETHTOOL_GDRVINFO) { /* of full length, as drivers may leave it */
        memset(info->driver, 'd', sizeof(info->driver));
        memcpy(info->fw_version, "22.31", sizeof("22.31"));
        return 0;
    }
    assert_int_equal(settings->cmd, ETHTOOL_GLINKSETTINGS);
    if (settings->link_mode_masks_nwords != WORDS) {
        settings->link_mode_masks_nwords = -WORDS;
        return 0;
    }
    settings->speed = request->ifr_name[0] == 'f' ? SPEED : (uint32_t) SPEED_UNKNOWN;
    return 0;
}

#ifdef __GLIBC__
typedef unsigned long question_t;
#else /* musl */
typedef int question_t;
#endif

int ioctl(int fd, question_t question, ...)
{
    va_list args;

    va_start(args, question);
    void *const what = va_arg(args, void *);
    va_end(args);
    return pretended != NULL && question == SIOCETHTOOL
               ? driver(what)
               : (int) syscall(SYS_ioctl, fd, question, what);
}

static const struct {
    const char *name, *ip, *mask;
    unsigned flags;
    const char *turned_down; /* a part of why, NULL: it is listed */
    uint8_t bits;
    uint32_t bandwidth;
} interfaces[] = {
    {"fast0", "fd00::9", "ffff:ffff:ffff:fff0::", IFF_UP | IFF_RUNNING, NULL, 60, SPEED},
    {"fast0", "fe80::9", "ffff:ffff:ffff:ffff::", IFF_UP | IFF_RUNNING, "link-local", 0, 0},
    {"fast0", "10.9.0.1", "255.255.240.0", IFF_UP | IFF_RUNNING, NULL, 20, SPEED},
    {"slow0", "10.9.0.2", "255.255.255.255", IFF_UP | IFF_RUNNING, NULL, 32, 0},
    {"mute0", "10.9.0.3", "255.0.0.0", IFF_UP | IFF_RUNNING, NULL, 8, 0},
    {"down0", "10.9.0.4", "255.0.0.0", IFF_RUNNING, "it is down", 0, 0},
    {"idle0", "10.9.0.5", "255.0.0.0", IFF_UP, "no carrier", 0, 0},
    {"soon0", "10.9.0.11", "255.0.0.0", IFF_UP | LOWER_UP, NULL, 8, 0}, /* RUNNING lags behind */
    {"wait0", "10.9.0.12", "255.0.0.0", IFF_UP | LOWER_UP | DORMANT, "no carrier", 0, 0},
    {"line0", "10.9.0.6", "255.255.255.255", IFF_UP | IFF_RUNNING | IFF_POINTOPOINT, NULL, 32, 0},
    {"tun0", "10.9.0.8", "255.255.255.0", IFF_UP | IFF_RUNNING | IFF_POINTOPOINT, NULL, 24, 0},
    {"tun0", "fd00::8", "ffff:ffff:ffff:ffff::", IFF_UP | IFF_RUNNING | IFF_POINTOPOINT, NULL, 64,
     0},
    {"fast0:vip", "10.9.0.9", "255.255.240.0", IFF_UP | IFF_RUNNING, NULL, 20, SPEED},
    {"only0:1", "10.9.0.10", "255.0.0.0", IFF_UP | IFF_RUNNING, NULL, 8, 0},
    {"only0", NULL, NULL, IFF_UP | IFF_RUNNING, NULL, 0, 0},
    {"local0", "fe80::7", "ffff:ffff:ffff:ffff::", IFF_UP | IFF_RUNNING, NULL, 64, 0},
    {"bare0", "10.9.0.7", NULL, IFF_UP | IFF_RUNNING, "in no network", 0, 0},
    {"none0", NULL, NULL, IFF_UP | IFF_RUNNING, "it has no IP address", 0, 0},
    {"void0", NULL, NULL, 0, "it is down and has no IP address", 0, 0},
};

enum { INTERFACES = sizeof(interfaces) / sizeof(interfaces[0]) };

static const int listed[] = {2, 3, 4, 7, 9, 10, 12, 13, 0, 11, 15}; /* of them, IPv4 first */

static void pretend(struct ifaddrs *list, btl_ib_udp_name_t *ips, btl_ib_udp_name_t *masks)
{
    for (int i = 0; i < INTERFACES; i++) {
        const sa_family_t family =
            interfaces[i].ip != NULL && strchr(interfaces[i].ip, ':') != NULL ? AF_INET6 : AF_INET;
        const btl_ib_udp_name_t none = {.any = {.sa_family = family}};

        ips[i] = masks[i] = none;
        list[i] = (struct ifaddrs){
            .ifa_next = i + 1 < INTERFACES ? &list[i + 1] : NULL,
            .ifa_name = (char *) interfaces[i].name,
            .ifa_flags = interfaces[i].flags,
            .ifa_addr = interfaces[i].ip != NULL ? &ips[i].any : NULL,
            .ifa_netmask = interfaces[i].mask != NULL ? &masks[i].any : NULL,
        };
        if (family == AF_INET) {
            (void) inet_pton(family, list[i].ifa_addr ? interfaces[i].ip : "", &ips[i].v4.sin_addr);
            (void) inet_pton(family, list[i].ifa_netmask ? interfaces[i].mask : "",
                             &masks[i].v4.sin_addr);
        } else {
            (void) inet_pton(family, interfaces[i].ip, &ips[i].v6.sin6_addr);
            (void) inet_pton(family, interfaces[i].mask, &masks[i].v6.sin6_addr);
        }
    }
    pretended = list;
}

static void test_interfaces(void **state)
{
    const btl_ib_log_t log = {.print = overhear};
    struct ifaddrs list[INTERFACES];
    btl_ib_udp_name_t ips[INTERFACES], masks[INTERFACES];
    btl_ib_device_t *got = NULL;

    need_udp(AF_INET);
    turned_down[0] = '\0';
    pretend(list, ips, masks);
    const int n = bed.type->devices(&(btl_ib_search_t){.log = log}, &got);
    pretended = NULL;
    assert_int_equal(n, sizeof(listed) / sizeof(listed[0]));
    for (int i = 0; i < n; i++) {
        const int which = listed[i];

        assert_string_equal(got[i].name, interfaces[which].name);
        assert_memory_equal(got[i].interface, got[i].name, strlen(got[i].interface));
        assert_null(strchr(got[i].interface, ':')); /* of a label, as "fast0:vip" */
        assert_memory_equal(&got[i].ip, &ips[which], btl_ib_udp_name_len(&ips[which]));
        assert_int_equal(got[i].prefix_bits, interfaces[which].bits);
        assert_int_equal(got[i].bandwidth, interfaces[which].bandwidth);
        assert_false(got[i].loopback);
        assert_int_equal(got[i].rank == BTL_IB_RANK_LAST,
                         strcmp(got[i].name, "line0") == 0 || strcmp(got[i].name, "tun0") == 0);
    }
    const char *said = turned_down;
    for (int family = 0; family < 2; family++) {
        for (int i = 0; i < INTERFACES; i++) {
            if (interfaces[i].turned_down != NULL && interfaces[i].ip != NULL
                && (family == 0) == (ips[i].any.sa_family == AF_INET)) {
                said = strstr(said, interfaces[i].name);
                assert_non_null(said);
                said = strstr(said, interfaces[i].turned_down);
                assert_non_null(said);
            }
        }
    }
    for (int i = 0; i < INTERFACES; i++) {
        if (interfaces[i].ip == NULL
            && interfaces[i].turned_down != NULL) { /* those without an address come last */
            said = strstr(said, interfaces[i].name);
            assert_non_null(said);
            said = strstr(said, interfaces[i].turned_down);
            assert_non_null(said);
        }
    }
    assert_null(strstr(turned_down, "only0")); /* its address has a label */
    bed.type->devices_free(got, n);
}

/* An address whose label has nothing to do with its interface's name. */
static void test_strange_label(void **state)
{
    const btl_ib_search_t search = {.log = {.print = overhear}};
    btl_ib_device_t *list = NULL;
    int found = 0;

    need_own_network();
    add_lo_address("strange", "10.9.0.77");
    turned_down[0] = '\0';
    const int n = bed.type->devices(&search, &list);
    for (int i = 0; i < n; i++) {
        char ip[INET6_ADDRSTRLEN];

        (void) btl_ib_ip_text((const struct sockaddr *) &list[i].ip, ip, sizeof(ip));
        if (strcmp(ip, "10.9.0.77") == 0) {
            found++;
            assert_string_equal(list[i].name, "lo");
            assert_string_equal(list[i].interface, "lo");
        }
    }
    assert_int_equal(found, 1);
    assert_non_null(
        strstr(turned_down, "10.9.0.77, labelled strange, is an address of the interface lo"));
    bed.type->devices_free(list, n);
}

/* Is a device among them? */
static bool is_listed(const btl_ib_device_t *device, const btl_ib_device_t *list, int count)
{
    int i = 0;

    while (i < count
           && (strcmp(list[i].name, device->name) != 0 || list[i].loopback != device->loopback
               || list[i].prefix_bits != device->prefix_bits
               || memcmp(&list[i].ip, &device->ip, sizeof(device->ip)) != 0)) {
        i++;
    }
    return i < count;
}

/* Where getifaddrs() fails (netlink is denied, as a rule) the same are found in another way. */
static void test_without_netlink(void **state)
{
    const btl_ib_search_t search = {.log = {.print = overhear}};
    btl_ib_device_t *all = NULL;
    btl_ib_device_t *got = NULL;

    need_udp(AF_INET);
    const int n = bed.type->devices(&search, &all);
    turned_down[0] = '\0';
    list_error = EAFNOSUPPORT;
    const int m = bed.type->devices(&search, &got);
    list_error = 0;
    assert_non_null(strstr(turned_down, "Address family not supported"));
    assert_int_equal(n, m);
    for (int i = 0; i < n; i++) {
        assert_true(is_listed(&all[i], got, m));
    }
    bed.type->devices_free(all, n);
    bed.type->devices_free(got, m);
}

/* What a report of a fault is to tell of a device. */
static void test_describe(void **state)
{
    struct ifaddrs none = {.ifa_name = NULL};
    btl_ib_device_t device = {.interface = "fast0"};
    btl_ib_facts_t facts;
    char text[320];

    pretended = &none; /* the drivers, too */
    bed.type->facts(&device, &facts);
    btl_ib_facts_format(&facts, text, sizeof(text));
    assert_string_equal(text, "driver dddddddddddddddddddddddddddddddd, firmware 22.31, link 25000 "
                              "Mbit/s, MTU unknown");
    memcpy(device.interface, "mute0", sizeof("mute0"));
    bed.type->facts(&device, &facts);
    btl_ib_facts_format(&facts, text, sizeof(text));
    assert_string_equal(text,
                        "driver unknown, firmware unknown, link of unknown speed, MTU unknown");
    pretended = NULL;
    btl_ib_facts_format(&facts, text, 8); /* no more than there is room for */
    assert_string_equal(text, "driver ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_provider),
        cmocka_unit_test(test_interfaces),
        cmocka_unit_test(test_without_netlink),
        cmocka_unit_test(test_describe),
        cmocka_unit_test(test_strange_label), /* the last: elsewhere */
    };

    return cmocka_run_group_tests(tests, NULL, free_devices);
}
