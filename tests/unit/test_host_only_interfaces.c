/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Which network interfaces cannot lead off a host: of hosts made up, and of one with real
 * bridges. */

#include "net_interfaces.c" /* what is static there */

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "own_network.h"
#include "unit.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef struct expected {
    link_t link;
    const char *why; /* a part of it; NULL: it may lead off the host */
} expected_t;

#define LINK(number, called, of_kind, ...)                                                         \
    {                                                                                              \
        .index = (number), .name = called, .kind = of_kind, __VA_ARGS__                            \
    }

static const char bridge[] = "it is a bridge of containers or virtual machines";

/* A host of containers and virtual machines. */
static const expected_t crowded[] = {
    {LINK(1, "lo", ""), NULL},
    {LINK(2, "eno1", ""), NULL},
    {LINK(3, "wlan0", ""), NULL},
    {LINK(4, "ib0", "ipoib"), NULL},
    {LINK(10, "docker0", "bridge"), bridge},
    {LINK(11, "veth12", "veth", .master = 10, .lower = 2, .lower_elsewhere = true), NULL},
    {LINK(12, "br-0123456789ab", "bridge"), bridge},
    {LINK(20, "virbr0", "bridge"), bridge},
    {LINK(21, "vnet0", "tun", .master = 20, .tap = true, .vnet_hdr = true), "virtual machines"},
    {LINK(22, "virbr0-nic", "tun", .master = 20, .tap = true), NULL},
    {LINK(23, "gap0", "dummy", .master = 20), "it is a dummy"},
    /* What guests and containers have in common with the host leads out by the host's own. */
    {LINK(30, "br0", "bridge"), NULL},
    {LINK(31, "eno2", "", .master = 30), NULL},
    {LINK(32, "vnet1", "tun", .master = 30, .tap = true, .vnet_hdr = true), "virtual machines"},
    {LINK(33, "bond0", "bond"), NULL},
    {LINK(34, "eno3", "", .master = 33), NULL},
    {LINK(35, "br1", "bridge"), NULL},
    {LINK(36, "bond0.7", "vlan", .master = 35, .lower = 33), NULL},
    /* What lies on others leads where they lead. */
    {LINK(40, "br0.5", "vlan", .lower = 30), NULL},
    {LINK(41, "docker0.5", "vlan", .lower = 10), "on an interface"},
    {LINK(42, "mac0", "macvlan", .lower = 2), NULL},
    {LINK(43, "mac1", "macvlan", .lower = 23), "on an interface"},
    {LINK(44, "ipv0", "ipvlan", .lower = 10, .lower_elsewhere = true), NULL},
    {LINK(45, "br2", "bridge"), bridge},
    {LINK(46, "docker0.6", "vlan", .master = 45, .lower = 10), "on an interface"},
    /* Pairs: both ends here, where one of them is a member of a bridge, and one end elsewhere. */
    {LINK(50, "here0", "veth", .lower = 51), "both of its ends"},
    {LINK(51, "here1", "veth", .lower = 50), "both of its ends"},
    {LINK(52, "out0", "veth", .lower = 53), NULL},
    {LINK(53, "out1", "veth", .master = 30, .lower = 52), "both of its ends"},
    {LINK(54, "in0", "veth", .lower = 55), "both of its ends"},
    {LINK(55, "in1", "veth", .master = 10, .lower = 54), "both of its ends"},
    {LINK(56, "far0", "veth", .lower = 50, .lower_elsewhere = true), NULL},
    {LINK(57, "far1", "netkit", .lower = 50, .lower_elsewhere = true), NULL},
    {LINK(58, "lost0", "veth", .lower = 999), NULL},
    /* A bridge on a bridge that leads out, as those of firewalls in clouds. */
    {LINK(60, "qbr0", "bridge"), NULL},
    {LINK(61, "qvb0", "veth", .master = 60, .lower = 62), NULL},
    {LINK(62, "qvo0", "veth", .master = 30, .lower = 61), NULL},
    /* Tunnels and virtual private networks lead out. */
    {LINK(70, "tun0", "tun"), NULL},
    {LINK(71, "tap0", "tun", .tap = true), NULL},
    {LINK(72, "ts0", "tun", .vnet_hdr = true), NULL},
    {LINK(73, "wg0", "wireguard"), NULL},
    {LINK(74, "flannel.1", "vxlan", .lower = 2), NULL},
    {LINK(75, "br-ex", "openvswitch"), NULL},
    {LINK(80, "tap1", "tun", .tap = true, .vnet_hdr = true), "virtual machines"},
    {LINK(81, "vboxnet0", ""), "virtual machines"},
    {LINK(82, "vmnet8", ""), "virtual machines"},
    {LINK(83, "dummy0", "dummy"), "it is a dummy"},
    {LINK(84, "strange", "neverheardof"), NULL},
};

/* Ways that only lead back; two bridges are joined by two pairs, as those of network emulators. */
static const expected_t circles[] = {
    {LINK(1, "a", "vlan", .lower = 1), "on an interface"},
    {LINK(2, "b", "bridge", .master = 3), bridge},
    {LINK(3, "c", "bridge", .master = 2), bridge},
    {LINK(4, "d", "bridge", ), bridge},
    {LINK(5, "e", "bridge", ), bridge},
    {LINK(6, "de0", "veth", .master = 4, .lower = 7), "both of its ends"},
    {LINK(7, "ed0", "veth", .master = 5, .lower = 6), "both of its ends"},
    {LINK(8, "de1", "veth", .master = 4, .lower = 9), "both of its ends"},
    {LINK(9, "ed1", "veth", .master = 5, .lower = 8), "both of its ends"},
    {LINK(10, "f0", "veth", .lower = 11), "both of its ends"},
    {LINK(11, "f1", "veth", .master = 5, .lower = 10), "both of its ends"},
};

/* The same with a way out at the other end. */
static const expected_t way_out[] = {
    {LINK(4, "d", "bridge", ), NULL},
    {LINK(5, "e", "bridge", ), NULL},
    {LINK(6, "de0", "veth", .master = 4, .lower = 7), NULL},
    {LINK(7, "ed0", "veth", .master = 5, .lower = 6), NULL},
    {LINK(8, "de1", "veth", .master = 4, .lower = 9), NULL},
    {LINK(9, "ed1", "veth", .master = 5, .lower = 8), NULL},
    {LINK(10, "f0", "veth", .lower = 11), NULL},
    {LINK(11, "f1", "veth", .master = 4, .lower = 10), "both of its ends"},
    {LINK(12, "eth0", "", .master = 5), NULL},
};

static void assert_why(const links_t *links, const char *name, const char *why)
{
    const char *got = links_host_only(links, name);

    if ((got == NULL) != (why == NULL) || (why != NULL && strstr(got, why) == NULL)) {
        fail_msg("%s: %s, not %s", name, got != NULL ? got : "leads out", why ? why : "leads out");
    }
}

static void assert_all(const expected_t *expected, size_t count)
{
    links_t links = {.link = calloc(count, sizeof(link_t)), .count = count};

    assert_non_null(links.link);
    for (size_t i = 0; i < count; i++) {
        links.link[i] = expected[i].link;
    }
    for (size_t i = 0; i < count; i++) {
        assert_why(&links, expected[i].link.name, expected[i].why);
    }
    assert_why(&links, "nobody", NULL);
    assert_why(&links, "", NULL);
    links_free(&links);
    assert_why(&links, "docker0", NULL);
}

TEST(test_made_up)
{
    assert_all(crowded, COUNT(crowded));
    assert_all(circles, COUNT(circles));
    assert_all(way_out, COUNT(way_out));
}

/* ---- real ones ---- */

/* What a kernel has no driver for is left out. */
static bool make(const char *what)
{
    char command[256];

    snprintf(command, sizeof(command), "PATH=$PATH:/usr/sbin:/sbin; ip link add %s 2>/dev/null",
             what);
    return system(command) == 0;
}

static void run(const char *command)
{
    char whole[256];

    snprintf(whole, sizeof(whole), "PATH=$PATH:/usr/sbin:/sbin; %s", command);
    if (system(whole) != 0) {
        fail_msg("%s", command);
    }
}

/* A container: a process in a network namespace of its own. Returns its number; `end` is closed to
 * end it. */
static pid_t start_container(int *end)
{
    int life[2];
    int ready[2];
    char byte = 0;

    assert_int_equal(pipe(life), 0);
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        close(life[1]);
        if (unshare(CLONE_NEWNET) == 0 && write(ready[1], &byte, 1) == 1) {
            (void) !read(life[0], &byte, 1);
        }
        _exit(0);
    }
    close(life[0]);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    *end = life[1];
    return child;
}

/* A veth of the host whose other end is that container's. */
static void make_far(const char *name, pid_t container)
{
    char what[128];

    snprintf(what, sizeof(what), "%s type veth peer name %s netns %d", name, name, (int) container);
    assert_true(make(what));
}

/* What the container sees. */
static void assert_inside(pid_t container)
{
    char path[64];
    links_t links;
    int status;

    snprintf(path, sizeof(path), "/proc/%d/ns/net", (int) container);
    const pid_t child = fork();
    if (child == 0) {
        const int there = open(path, O_RDONLY | O_CLOEXEC);
        const bool ok = there >= 0 && setns(there, CLONE_NEWNET) == 0 && links_read(&links) == 0
                        && links.count == 3 && links_host_only(&links, "lo") == NULL
                        && links_host_only(&links, "way0") == NULL
                        && links_host_only(&links, "way1") == NULL;

        _exit(ok ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void make_host(pid_t container)
{
    make_far("way0", container);
    make_far("way1", container);
    run("ip link set way1 master docker0");
    run("ip link add inner type veth peer name member && ip link set member master docker0");
    assert_true(make("br0 type bridge"));
    run("ip link add here0 type veth peer name here1");
    run("ip tuntap add guest mode tap vnet_hdr && ip tuntap add vpn mode tap");
    run("ip tuntap add tun7 mode tun vnet_hdr");
}

TEST(test_real)
{
    links_t links;
    int end;

    need_own_network();
    if (!make("docker0 type bridge")) {
        print_message("skipped: no ip command, or no bridges\n");
        skip();
    }
    const pid_t container = start_container(&end);
    make_host(container);
    const bool macvlan = make("mac0 link here0 type macvlan");
    const bool dummy = make("gap0 type dummy");
    const bool vxlan = make("vx0 type vxlan id 7 dstport 4790");
    if (vxlan) {
        run("ip link add br1 type bridge && ip link set vx0 master br1");
    }
    assert_int_equal(links_read(&links), 0);
    assert_in_range(links.count, 11, 100);
    assert_why(&links, "lo", NULL);
    assert_why(&links, "docker0", bridge);
    assert_why(&links, "br0", bridge);
    assert_why(&links, "inner", "both of its ends");
    assert_why(&links, "here0", "both of its ends");
    assert_why(&links, "here1", "both of its ends");
    assert_why(&links, "way0", NULL);
    assert_why(&links, "guest", "virtual machines");
    assert_why(&links, "vpn", NULL);
    assert_why(&links, "tun7", NULL);
    assert_why(&links, "mac0", macvlan ? "on an interface" : NULL);
    assert_why(&links, "br1", NULL); /* it has a way out */
    assert_why(&links, "gap0", dummy ? "it is a dummy" : NULL);
    links_free(&links);
    assert_inside(container);
    close(end);
    assert_int_equal(waitpid(container, NULL, 0), container);
}

static void set_device(btl_ib_device_t *device, const char *interface, const char *ip)
{
    struct sockaddr_in *in4 = (struct sockaddr_in *) (void *) &device->ip;

    memset(device, 0, sizeof(*device));
    snprintf(device->interface, sizeof(device->interface), "%s", interface);
    if (inet_pton(AF_INET, ip, &in4->sin_addr) == 1) {
        in4->sin_family = AF_INET;
    }
}

TEST(test_mark)
{
    const btl_ib_log_t silent = {.print = NULL};
    btl_ib_device_t devices[5];

    need_own_network();
    (void) make("docker1 type bridge");
    set_device(&devices[0], "docker1", "172.17.0.1");
    set_device(&devices[1], "lo", "127.0.0.1");
    set_device(&devices[2], "usb0", "169.254.95.120");
    set_device(&devices[3], "eth0", "169.253.1.1");
    set_device(&devices[4], "", "");
    devices[4].last_resort = "before"; /* the transport knows more of it */
    btl_ib_links_mark_host_only(devices, COUNT(devices), &silent);
    assert_int_equal(devices[0].last_resort != NULL, if_nametoindex("docker1") != 0);
    assert_null(devices[1].last_resort);
    assert_null(devices[2].last_resort);
    assert_null(devices[3].last_resort);
    assert_string_equal(devices[4].last_resort, "before");
}

UNIT_MAIN(NULL, NULL)
