/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Which devices become rails, of which transports, in what order, and what users are told of the
 * others: of hosts made up. */

#include "btl_ib_open_devices.h"

#include "net_interfaces.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Transports of the test in place of those that were built, whether ports are active, and where
 * devices are. */
static const btl_ib_transport_type_t *types[8];
static bool ports_active;
static const char *open_topology(btl_ib_topology_t *topology, void *shared);
static btl_ib_device_place_t find_place(const btl_ib_topology_t *topology, const char *name,
                                        const char *interface);
#define btl_ib_transport_types types
#define btl_ib_rdma_active()   ports_active
#define btl_ib_topology_open   open_topology
#define btl_ib_topology_find   find_place
#include "btl_ib_open_devices.c" /* with these */

#include "memory_transport.h"
#include "told.h"

enum { UD, RC, UDP, OFI, KINDS, DEVICES_MAX = 40 };

typedef struct fake {
    btl_ib_device_t device[DEVICES_MAX];
    int open_error[DEVICES_MAX]; /* errno */
    int count;
    int list_error;
    const char *refused; /* the system call for which an open fails */
    btl_ib_transport_attr_t attr;
    btl_ib_limit_t limit;
    uint32_t looked; /* times that devices were listed */
} fake_t;

static fake_t fakes[KINDS];
static btl_ib_open_params_t last_open;
static btl_ib_params_t params;
static btl_ib_open_request_t request;
static btl_ib_log_state_t state_of_log;
static bool async;
static btl_ib_turned_down_devices_t turned_down;
static uint32_t left_aside;
static btl_ib_opened_device_t opened[BTL_IB_RAILS_MAX];

/* ---- transports ---- */

static int wire_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error)
{
    return n;
}

static int wire_poll(btl_ib_transport_t *t, uint64_t now, btl_ib_event_t *events, int max)
{
    return 0;
}

static void wire_repost(btl_ib_transport_t *t, void *const *buffers, int n)
{
}

static void fake_close(btl_ib_transport_t *transport)
{
    free(transport);
}

static int list_devices(fake_t *fake, btl_ib_device_t **list)
{
    fake->looked++;
    if (fake->list_error != 0) {
        return -fake->list_error;
    }
    *list = calloc(DEVICES_MAX, sizeof(**list));
    assert_non_null(*list);
    memcpy(*list, fake->device, sizeof(fake->device));
    return fake->count;
}

static void free_devices(btl_ib_device_t *list, int count)
{
    free(list);
}

static int fake_query(const btl_ib_device_t *device, uint32_t mtu, btl_ib_transport_attr_t *attr)
{
    const fake_t *fake = device->handle;

    *attr = fake->attr;
    return attr->max_datagram > 0 ? 0 : -ENODEV;
}

static int fake_open(const btl_ib_device_t *device, const btl_ib_open_params_t *open,
                     btl_ib_transport_t **out)
{
    static btl_ib_transport_ops_t ops;
    const fake_t *fake = device->handle;

    for (int i = 0; i < fake->count; i++) {
        if (strcmp(fake->device[i].name, device->name) == 0 && fake->open_error[i] != 0) {
            *open->refused = fake->refused;
            return -fake->open_error[i];
        }
    }
    *out = calloc(1, sizeof(**out));
    assert_non_null(*out);
    **out = wire_transport(0, 1024);
    ops = *(*out)->ops;
    ops.close = fake_close;
    (*out)->ops = &ops;
    (*out)->attr.max_datagram = fake->attr.max_datagram;
    (*out)->attr.bandwidth = fake->attr.bandwidth;
    (*out)->limit = fake->limit;
    snprintf((*out)->name, sizeof((*out)->name), "%.15s/%.40s", device->transport, device->name);
    last_open = *open;
    return 0;
}

static void fake_facts(const btl_ib_device_t *device, btl_ib_facts_t *facts)
{
    *facts = (btl_ib_facts_t){.speed = 0};
}

#define TYPE(kind, name_, wire_)                                                                   \
    static int devices_of_##kind(const btl_ib_search_t *search, btl_ib_device_t **list)            \
    {                                                                                              \
        return list_devices(&fakes[kind], list);                                                   \
    }                                                                                              \
    static const btl_ib_transport_type_t type_of_##kind = {                                        \
        .name = name_,                                                                             \
        .wire = wire_,                                                                             \
        .default_queues = "P,256,256:S,1024,256",                                                  \
        .shared_unused = BTL_IB_SHARED_GROWTH,                                                     \
        .devices = devices_of_##kind,                                                              \
        .devices_free = free_devices,                                                              \
        .query = fake_query,                                                                       \
        .open = fake_open,                                                                         \
        .facts = fake_facts,                                                                       \
    }
TYPE(UD, "verbs", "ud");
TYPE(RC, "verbs", "rc");
TYPE(UDP, "udp", NULL);
TYPE(OFI, "ofi", NULL);

/* ---- a host ---- */

static int topologies; /* that were read */

static const char *open_topology(btl_ib_topology_t *topology, void *shared)
{
    *topology = (btl_ib_topology_t){.tree = NULL};
    topologies++;
    return NULL;
}

/* Devices far0, far1 ... are at another node. */
static btl_ib_device_place_t find_place(const btl_ib_topology_t *topology, const char *name,
                                        const char *interface)
{
    const bool far = strncmp(name, "far", 3) == 0;

    return (btl_ib_device_place_t){.node = far, .distance = far ? 21 : 10};
}

/* Adds a device with an address in a network of its own. */
static btl_ib_device_t *add(int kind, const char *name)
{
    static const char *const names[] = {"verbs", "verbs", "udp", "ofi"};
    fake_t *fake = &fakes[kind];
    btl_ib_device_t *device = &fake->device[fake->count];
    struct sockaddr_in *ip = (struct sockaddr_in *) (void *) &device->ip;

    assert_true(fake->count < DEVICES_MAX);
    snprintf(device->transport, sizeof(device->transport), "%s", names[kind]);
    snprintf(device->name, sizeof(device->name), "%s", name);
    snprintf(device->interface, sizeof(device->interface), "%s", name);
    device->plain = kind == UDP;
    device->handle = fake;
    device->prefix_bits = 24;
    ip->sin_family = AF_INET;
    ip->sin_addr.s_addr = htonl(0x0a000001u + ((uint32_t) fake->count << 8));
    fake->count++;
    return device;
}

static void add_many(int kind, int count)
{
    for (int i = 0; i < count; i++) {
        char name[16];

        snprintf(name, sizeof(name), "n%d", i);
        add(kind, name);
    }
}

static int set_up(void **state)
{
    static char here[] = "here";
    static const btl_ib_transport_type_t *const all[] = {&type_of_UD, &type_of_RC, &type_of_UDP,
                                                         &type_of_OFI, NULL};

    memset(fakes, 0, sizeof(fakes));
    for (int i = 0; i < KINDS; i++) {
        fakes[i].attr = (btl_ib_transport_attr_t){.max_datagram = 1472, .max_iov = 3};
    }
    fakes[RC].attr.connections_max = 1000;
    memcpy(types, all, sizeof(all));
    ports_active = true;
    params = (btl_ib_params_t){
        .transport = "auto",
        .wire = "auto",
        .locality = "ignore",
        .cc = "auto",
        .protection = "none",
        .ordering = "strict",
        .channels = "auto",
        .cq = "shared",
        .udp_gso = "auto",
        .bulk_lane = true,
        .depth_peer = 1024,
        .depth_total = 2048,
        .depth_bytes = 32 << 20,
        .credit_pool = 4096,
        .am_credits_slack = -1,
        .port_range = 1024,
        .qps_per_port = 1,
        .rc_max_peers = 64,
    };
    request = (btl_ib_open_request_t){
        .params = &params,
        .named = true,
        .processes = 4,
        .peers = 3,
        .log = &state_of_log,
        .turned_down = &turned_down,
        .left_aside = &left_aside,
    };
    left_aside = 0;
    btl_ib_log_init(&state_of_log, &async, false);
    opal_process_info.my_local_rank = 0;
    opal_process_info.nodename = here;
    return 0;
}

static void *get_memory(void *context, size_t size)
{
    return calloc(1, size);
}

static void free_memory(void *context, void *memory)
{
    free(memory);
}

static uint32_t open_them(void)
{
    static const btl_ib_engine_ops_t ops = {.zalloc = get_memory, .free = free_memory};
    btl_ib_engine_config_t config;
    uint32_t count;

    btl_ib_engine_config_default(&config);
    config.log = btl_ib_log_table(&state_of_log);
    request.engine = btl_ib_engine_create(&config, &ops, NULL);
    assert_non_null(request.engine);
    memset(opened, 0, sizeof(opened));
    begin_told();
    count = btl_ib_open_devices(&request, opened);
    end_told();
    for (uint32_t i = 0; i < count; i++) {
        assert_null(opened[i].device.handle);
    }
    btl_ib_engine_destroy(request.engine);
    return count;
}

/* Those that are opened are these, in this order, as "udp/eth0 udp/eth1". */
static void expect(const char *expected)
{
    char all[1024] = "";
    const uint32_t count = open_them();

    for (uint32_t i = 0; i < count; i++) {
        const size_t len = strlen(all);
        const btl_ib_transport_type_t *type = opened[i].type;

        snprintf(all + len, sizeof(all) - len, "%s%s/%s", i > 0 ? " " : "",
                 type->wire != NULL ? type->wire : type->name, opened[i].device.name);
    }
    assert_string_equal(all, expected);
}

/* Parameters are texts that may be changed. */
static char *text(const char *constant)
{
    static char copy[64];

    snprintf(copy, sizeof(copy), "%s", constant);
    return copy;
}

/* A device was turned down for this reason, and a list of such says so. */
static void expect_turned_down(const char *name, const char *reason)
{
    for (uint32_t i = 0; i < turned_down.count; i++) {
        if (strcmp(turned_down.device[i].name, name) == 0
            && strstr(turned_down.device[i].reason, reason) != NULL) {
            return;
        }
    }
    fail_msg("%s was not turned down for: %s", name, reason);
}

#define HOST_TEST(name) TEST_WITH(name, set_up, NULL)

/* ---- transports ---- */

HOST_TEST(first_transport_with_devices)
{
    add(UDP, "eth0");
    add(OFI, "fi0")->plain = true;
    expect("udp/eth0");
    assert_string_equal(told, "");
    fakes[UDP].count = 0;
    expect("");
    expect_turned_down("ofi", "it does not reach peers that use udp");
    fakes[UDP].count = 1;
    add(RC, "mlx0");
    expect("rc/mlx0");
    add(UD, "mlx0");
    expect("rc/mlx0");
    params.rc_max_peers = 3;
    expect("ud/mlx0");
}

/* Without an active port RDMA devices are only looked at after all else was: in the same order. */
HOST_TEST(one_pass_without_active_ports)
{
    add(UDP, "eth0");
    ports_active = false;
    expect("udp/eth0");
    assert_int_equal(fakes[UDP].looked, 1);
    ports_active = true;
    expect("udp/eth0");
    assert_int_equal(fakes[UDP].looked, 3);
}

HOST_TEST(named_transport)
{
    add(RC, "mlx0");
    add(UDP, "eth0");
    add(OFI, "fi0");
    params.transport = "udp";
    expect("udp/eth0");
    params.transport = "ofi";
    expect("ofi/fi0");
    params.transport = "verbs";
    params.wire = "rc";
    expect("rc/mlx0");
    params.wire = "ud";
    expect("");
    assert_int_equal(fakes[UDP].looked, 1);
}

HOST_TEST(one_provider)
{
    add(UDP, "eth0");
    add(OFI, "fi0");
    params.ofi_provider = text("efa");
    fakes[UDP].count = 0;
    expect("ofi/fi0");
    expect_turned_down("udp", "btl_ib_ofi_provider is set, which only transport ofi has");
}

/* Of wire auto a device needs connections for all pairs of processes, twice for each queue. */
HOST_TEST(connections)
{
    add(RC, "mlx0");
    add(UD, "mlx0");
    fakes[RC].attr.connections_max = 4 * 4 * 3;
    expect("rc/mlx0");
    fakes[RC].attr.connections_max--;
    expect("ud/mlx0");
    expect_turned_down("verbs/mlx0", "for rc it has 47 connections, too few if all of 4");
    fakes[UD].count = 0;
    expect("rc/mlx0"); /* one that refuses some is better than none */
}

HOST_TEST(transport_that_cannot_list)
{
    add(UDP, "eth0");
    fakes[UD].list_error = fakes[RC].list_error = EACCES;
    expect("udp/eth0");
    expect_told("Used: udp/eth0\n");
    expect_told("  verbs: Permission denied\n");
}

/* ---- devices that cannot be opened ---- */

HOST_TEST(another_device)
{
    add(UDP, "eth0");
    add(UDP, "eth1");
    fakes[UDP].open_error[0] = EPERM;
    fakes[UDP].refused = "bind";
    expect("udp/eth1");
    expect_told("could not be opened. The job goes\non with others");
    expect_told("Used: udp/eth1\n");
    expect_told("  udp/eth0: bind: Operation not permitted\n");
    expect_turned_down("udp/eth0", "it could not be opened: bind: Operation not permitted");
    opal_process_info.my_local_rank = 1;
    expect("udp/eth1");
    assert_string_equal(told, "");
}

HOST_TEST(another_transport)
{
    add(RC, "mlx0");
    add(UDP, "eth0");
    fakes[RC].open_error[0] = ENOMEM;
    expect("udp/eth0");
    expect_told("  verbs/mlx0: rc: Cannot allocate memory\n");
}

/* What only stands by nobody may ever need. */
HOST_TEST(second_address_fails)
{
    add(UDP, "eth0");
    add(UDP, "eth0b")->rank = BTL_IB_RANK_ADDRESS;
    snprintf(fakes[UDP].device[1].interface, 32, "eth0");
    fakes[UDP].open_error[1] = EPERM;
    expect("udp/eth0");
    assert_string_equal(told, "");
}

HOST_TEST(cannot_be_asked)
{
    add(UDP, "eth0");
    fakes[UDP].attr.max_datagram = 0;
    expect("");
    expect_turned_down("udp/eth0", "it cannot be asked: No such device");
    fakes[UDP].attr.max_datagram = 103;
    expect("");
    expect_turned_down("udp/eth0", "its MTU is too small: a datagram carries 103 bytes");
}

HOST_TEST(nothing_left)
{
    add(UDP, "eth0");
    fakes[UDP].open_error[0] = EPERM;
    expect("");
    expect_told("The ib BTL finds no device");
    expect_told("btl_ib_if_include:    (not set)\n");
    expect_told("  udp/eth0: it could not be opened: Operation not permitted\n");
    expect_told("What could not be opened may be in use");
    fakes[UDP].count = 0;
    expect("");
    expect_told("An interface has to be up, with an IP address");
    params.if_include = text("eth7");
    expect("");
    expect_told("btl_ib_if_include:    eth7\n");
    expect_told("\"ip address\" shows interfaces and their networks");
    params.transport = "ofi";
    expect("");
    expect_told("shows the datagram providers of libfabric");
    params.transport = "verbs";
    expect("");
    expect_told("\"rdma link\"");
}

/* Those who did not ask for ib are told nothing. */
HOST_TEST(nobody_asked)
{
    request.named = false;
    expect("");
    assert_string_equal(told, "");
    params.if_include = text("eth7");
    expect("");
    expect_told("The ib BTL finds no device");
    params.if_include = NULL;
    params.transport = "udp";
    expect("");
    expect_told("The ib BTL finds no device");
    params.transport = "auto";
    params.ofi_provider = text("efa");
    expect("");
    expect_told("The ib BTL finds no device");
}

/* A range of ports is for a firewall: without a port in it nothing else is used. */
HOST_TEST(ports_taken)
{
    add(UDP, "eth0");
    add(UDP, "eth1");
    fakes[UDP].open_error[1] = EADDRINUSE;
    expect("udp/eth0"); /* any port would do */
    params.port_min = 5000;
    params.port_range = 4;
    expect("");
    expect_told("Device: udp/eth1\n  Ports:  5000 to 5003 ");
    expect_told("Reason: Address already in use\n  Needed: 2 for each rank");
    params.bulk_lane = false;
    params.port_min = 65530;
    params.port_range = 100;
    params.qps_per_port = 3;
    expect("");
    expect_told("Ports:  65530 to 65535 ");
    expect_told("Needed: 3 for each rank");
    fakes[UDP].open_error[1] = EACCES;
    expect("");
    expect_told("Reason: Permission denied\n");
    fakes[UDP].device[1].plain = false;
    params.qps_per_port = 1;
    expect("udp/eth0");
    fakes[UDP].open_error[1] = EADDRINUSE;
    fakes[UDP].device[1].rank = BTL_IB_RANK_ADDRESS;
    expect("udp/eth0");
}

/* ---- which, and how many ---- */

HOST_TEST(included)
{
    add(UDP, "eth0");
    add(UDP, "eth1");
    params.if_include = text("eth1,eth9");
    expect("udp/eth1");
    expect_told("Entry:             eth9\n  btl_ib_if_include: eth1,eth9\n");
    expect_told("Used:              udp/eth1\n");
    expect_untold("Entry:             eth1\n");
    params.if_include = NULL;
    params.if_exclude = text("eth0");
    expect("udp/eth1");
    assert_string_equal(told, "");
    params.if_exclude = text("10.0.0.0/99");
    expect("");
    expect_told("The MCA parameter btl_ib_if_exclude cannot be understood");
}

/* The second rail of a device comes after the first ones of all; they share its bandwidth. */
HOST_TEST(rails_of_a_port)
{
    add(UDP, "eth0")->bandwidth = 10000;
    add(UDP, "eth1")->bandwidth = 1000;
    add(UDP, "eth2");
    fakes[UDP].open_error[1] = EPERM;
    params.qps_per_port = 2;
    expect("udp/eth0 udp/eth2 udp/eth0 udp/eth2");
    assert_int_equal(opened[0].bandwidth, 5000);
    assert_int_equal(opened[1].bandwidth, 500); /* 1000: it does not say */
    fakes[UDP].attr.bandwidth = 40000;
    expect("udp/eth0 udp/eth2 udp/eth0 udp/eth2");
    assert_int_equal(opened[0].bandwidth, 20000);
    request.bandwidth = 2000;
    expect("udp/eth0 udp/eth2 udp/eth0 udp/eth2");
    assert_int_equal(opened[3].bandwidth, 1000);
}

HOST_TEST(at_most)
{
    add_many(UDP, 3);
    params.max_btls = 2;
    expect("udp/n0 udp/n1");
    expect_turned_down("udp/n2", "btl_ib_max_btls is 2");
    assert_int_equal(left_aside, 0);
    fakes[UDP].open_error[0] = fakes[UDP].open_error[1] = EPERM;
    expect("udp/n2"); /* rather than none */
}

/* Sixteen are used from the beginning, sixteen more stand by, and others are counted. */
HOST_TEST(stand_by)
{
    add_many(UDP, 35);
    assert_int_equal(open_them(), 32);
    assert_int_equal(left_aside, 3);
    for (uint32_t i = 0; i < 32; i++) {
        assert_int_equal(opened[i].device.rank, i < 16 ? BTL_IB_RANK_FIRST : BTL_IB_RANK_ADDRESS);
    }
    expect_turned_down("udp/n34", "there are 32 rails already");
    request.left_aside = NULL;
    assert_int_equal(open_them(), 32);
    fakes[UDP].count = 17;
    assert_int_equal(open_them(), 17);
    params.max_btls = 16;
    assert_int_equal(open_them(), 16);
}

/* Other addresses of an interface stand by where it has a rail; without one only if devices are
 * not counted. */
HOST_TEST(other_addresses)
{
    add(UDP, "eth0");
    add(UDP, "eth1");
    add(UDP, "a")->rank = BTL_IB_RANK_ADDRESS;
    add(UDP, "b")->rank = BTL_IB_RANK_ADDRESS;
    snprintf(fakes[UDP].device[2].interface, 32, "eth0");
    snprintf(fakes[UDP].device[3].interface, 32, "eth1");
    expect("udp/eth0 udp/eth1 udp/a udp/b");
    params.max_btls = 1;
    expect("udp/eth0 udp/a");
}

/* ---- near devices ---- */

/* Of one network the near ones are used, or all, and near ones first. The topology is read only
 * where there is a choice. */
HOST_TEST(near_ones)
{
    add(UDP, "far0")->prefix_bits = 8;
    add(UDP, "eth1")->prefix_bits = 8;
    topologies = 0;
    params.locality = "ignore";
    expect("udp/far0 udp/eth1");
    assert_int_equal(topologies, 0);
    params.locality = "rank";
    expect("udp/eth1 udp/far0");
    assert_int_equal(topologies, 1);
    params.locality = "near";
    expect("udp/eth1");
    assert_int_equal(topologies, 2);
    expect_turned_down("udp/far0", "farther than eth1: distance 21 instead of 10");
    fakes[UDP].device[0].bandwidth = 100; /* it is faster */
    expect("udp/eth1 udp/far0");
    fakes[UDP].device[0].bandwidth = 0;
    fakes[UDP].device[0].prefix_bits = fakes[UDP].device[1].prefix_bits = 24;
    expect("udp/eth1 udp/far0"); /* each leads somewhere else */
    fakes[UDP].open_error[1] = EPERM;
    fakes[UDP].device[0].prefix_bits = fakes[UDP].device[1].prefix_bits = 8;
    expect("udp/far0"); /* rather than none */
    topologies = 0;
    fakes[UDP].count = 1;
    expect("udp/far0");
    assert_int_equal(topologies, 0);
}

/* Where a single device is, is found out for those who ask for the log. */
HOST_TEST(log_tells_where)
{
    const int output = opal_btl_base_framework.framework_output;

    add(UDP, "far0");
    params.locality = "near";
    opal_process_info.my_local_rank = 1; /* which tells least */
    opal_btl_base_framework.framework_output = opal_output_open(NULL);
    opal_output_set_verbosity(opal_btl_base_framework.framework_output, 1);
    expect("udp/far0");
    expect_told("locality: udp/far0: used, distance 21, NUMA node 1");
    opal_output_close(opal_btl_base_framework.framework_output);
    opal_btl_base_framework.framework_output = output;
}

/* Link-local addresses say nothing of networks, nor do devices without an address. */
HOST_TEST(networks)
{
    params.locality = "near";
    add(UDP, "far0");
    add(UDP, "eth1");
    for (int i = 0; i < 2; i++) {
        struct sockaddr_in *ip = (struct sockaddr_in *) (void *) &fakes[UDP].device[i].ip;

        ip->sin_addr.s_addr = htonl(0xa9fe0001u + (uint32_t) i); /* 169.254.0.1 */
        fakes[UDP].device[i].prefix_bits = 16;
    }
    expect("udp/eth1 udp/far0");
    fakes[UDP].count = 0;
    add(RC, "far0")->ip.ss_family = AF_UNSPEC;
    add(RC, "mlx1")->ip.ss_family = AF_UNSPEC;
    expect("rc/mlx1"); /* they may all be of one */
    fakes[RC].device[1].ip.ss_family = AF_INET;
    expect("rc/mlx1 rc/far0");
    fakes[RC].count = 0;
    add(UDP, "eth0");
    add(UDP, "far1");
    add(UDP, "eth2");
    add(UDP, "far3");
    fakes[UDP].device[3].ip = fakes[UDP].device[2].ip;
    expect("udp/eth0 udp/eth2 udp/far1");
}

/* ---- queues ---- */

HOST_TEST(queues_are_cut)
{
    add(UDP, "eth0");
    add(UDP, "eth1");
    params.queues_by_user = true;
    params.receive_queues = text("P,256,256:S,1024,64:S,4096,64");
    expect("udp/eth0 udp/eth1");
    expect_told("Device:           eth0\n  Largest datagram: 1472 bytes\n");
    expect_untold("Device:           eth1");
    assert_int_equal(opened[0].queues.q[2].size, 1472);
    request.rank = 1;
    expect("udp/eth0 udp/eth1");
    assert_string_equal(told, "");
    request.rank = 0;
    params.receive_queues = text("P,256");
    expect("");
    expect_told("btl_ib_receive_queues is malformed");
}

HOST_TEST(numbers_without_effect)
{
    add(UDP, "eth0");
    add(UDP, "eth1");
    params.queues_by_user = true;
    params.receive_queues = text("P,256,8:S,1024,64,16,4,8,2:S,1400,64,16,4,8");
    expect("udp/eth0 udp/eth1");
    expect_told("No effect: queue 2: init, limit; queue 3: init\n");
    expect_told("eth0");
    expect_untold("eth1");
    request.rank = 1;
    expect("udp/eth0 udp/eth1");
    assert_string_equal(told, "");
}

/* ---- settings of the system ---- */

HOST_TEST(system_limit)
{
    add(UDP, "eth0");
    add(UDP, "eth1");
    fakes[UDP].limit = (btl_ib_limit_t){
        .sysctl = {"net.core.rmem_max", "net.core.wmem_max"}, .is = {1000, 2000}, .needed = 4000};
    expect("udp/eth0 udp/eth1");
    expect_told("Device: udp/eth0\n  Limits: net.core.rmem_max = 1000, net.core.wmem_max = 2000\n");
    expect_told("sysctl -w net.core.rmem_max=4000 net.core.wmem_max=4000\n");
    expect_untold("Device: udp/eth1");
    fakes[UDP].limit.sysctl[1] = NULL;
    expect("udp/eth0 udp/eth1");
    expect_told("sysctl -w net.core.rmem_max=4000\n");
    request.rank = 1;
    expect("udp/eth0 udp/eth1");
    assert_string_equal(told, "");
}

/* ---- words for others ---- */

HOST_TEST(transports_text)
{
    char text[128];

    btl_ib_transports_text(text, sizeof(text));
    assert_string_equal(text, "verbs/ud, verbs/rc, udp, ofi");
    btl_ib_transports_text(text, 12);
    assert_string_equal(text, "verbs/ud, v");
    params.transport = NULL;
    assert_true(btl_ib_any_transport(&params));
    params.transport = "";
    assert_true(btl_ib_any_transport(&params));
    params.transport = "udp";
    assert_false(btl_ib_any_transport(&params));
}

static void describe_verbs(bool load, char *out, size_t size)
{
    snprintf(out, size, "libibverbs%s", load ? ", loaded" : "");
}

static void describe_ofi(bool load, char *out, size_t size)
{
    snprintf(out, size, "libfabric%s", load ? ", loaded" : "");
}

/* Each library once, though transports share one. */
HOST_TEST(library_text)
{
    btl_ib_transport_type_t copies[4];
    char text[4][64];

    for (int i = 0; i < 4; i++) {
        copies[i] = *types[i];
        copies[i].library = i < 2 ? describe_verbs : i == 3 ? describe_ofi : NULL;
        types[i] = &copies[i];
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(btl_ib_library_text(i, i == 3, text[i], sizeof(text[i])),
                         i == 0 || i == 3);
    }
    assert_string_equal(text[0], "libibverbs");
    assert_string_equal(text[3], "libfabric, loaded");
}

UNIT_MAIN(NULL, NULL)
