/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport verbs over UD: which devices and addresses there are, opening them, and what they
 * say. */

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "device_filter.h"
#include "net_interfaces.h"
#include "said.h"
#include "ud_pair.h"
#include "unit.h"

UD_TEST(test_devices)
{
    const btl_ib_search_t search = {.gid_index = -1, .log = log_all};
    btl_ib_transport_attr_t attr;
    btl_ib_device_t *list;
    btl_ib_facts_t facts;
    char text[320];

    fake.devices = 2;
    fake.device[1].ports = 2;
    fake.device[1].port[1].attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
    fake_gid(&fake.device[1].port[1], "fe80::2", IBV_GID_TYPE_IB);
    fake_gid(&fake.device[1].port[1], "fe80::3", IBV_GID_TYPE_IB);
    int n = type->devices(&search, &list);
    assert_int_equal(n, 3); /* two addresses of rxe0; the second's first port has none */
    assert_string_equal(list[0].name, "rxe0");
    assert_string_equal(list[0].transport, "verbs");
    assert_int_equal(list[0].ip.ss_family, AF_INET);
    assert_int_equal(list[0].bandwidth, 100000); /* 4 lanes of EDR */
    assert_int_equal(list[1].ip.ss_family, AF_INET6);
    assert_string_equal(list[2].name, "mlx5_1:2");
    assert_int_equal(list[2].port, 2);
    assert_int_equal(list[2].prefix_bits, 64);
    type->facts(&list[2], &facts);
    btl_ib_facts_format(&facts, text, sizeof(text));
    assert_string_equal(text, "driver unknown, firmware 16.35.2000, link 100000 Mbit/s, MTU 1024");
    type->library(false, text, sizeof(text));
    assert_memory_equal(text, "rdma-core: built with libibverbs ", 33);
    assert_non_null(strstr(text, ", running libibverbs.so.1"));
    assert_int_equal(type->query(&list[0], 0, &attr), 0);
    assert_int_equal(attr.max_datagram, 1024);
    assert_int_equal(attr.registered_page, sysconf(_SC_PAGESIZE));
    type->devices_free(list, n);

    fake.device[0].port[0].attr.state = IBV_PORT_DOWN;
    fake.device[1].transport = IBV_TRANSPORT_IWARP;
    assert_int_equal(type->devices(&search, &list), 0);
    type->devices_free(list, 0);
    fake.open_error = EACCES;
    fake.device[1].transport = IBV_TRANSPORT_IB;
    assert_int_equal(type->devices(&search, &list), 0);
    type->devices_free(list, 0);
    fake.list_error = ENOSYS; /* the kernel knows no RDMA */
    assert_int_equal(type->devices(&search, &list), 0);
    fake.list_error = EPERM;
    assert_int_equal(type->devices(&search, &list), -EPERM);
    assert_int_equal(type->devices(&(btl_ib_search_t){.provider = "udp", .log = log_all}, &list),
                     0);
}

/* Where the kernel has no device libibverbs is not asked: it would warn on stderr of too little
 * locked memory. */
UD_TEST(test_no_device)
{
    const btl_ib_search_t search = {.gid_index = -1, .log = log_all};
    btl_ib_device_t *list;

    fake_no_rdma = true;
    assert_int_equal(type->devices(&search, &list), 0);
    assert_int_equal(fake.lists, 0);
    assert_int_equal(diagnostics, 0);
    fake_no_rdma = false;
    fake.devices = 0; /* but its file is missing */
    assert_int_equal(type->devices(&search, &list), 0);
    assert_int_equal(fake.lists, 1);
    assert_int_equal(diagnostics, 1u << BTL_IB_DIAG_NO_FILES);
}

/* An interface with a hardware address of as many bytes as IPoIB's. */
typedef struct hardware {
    struct ifaddrs interface;
    struct sockaddr_ll address;
    uint8_t more[12];
} hardware_t;

static void give_hardware(hardware_t *hardware, char *name, uint16_t kind, const char *gid)
{
    uint8_t bytes[20] = {0x80, 0, 0, 0x48}; /* flags, and the number of a queue pair */

    assert_int_equal(inet_pton(AF_INET6, gid, bytes + 4), 1);
    *hardware = (hardware_t){
        .interface = {.ifa_name = name,
                      .ifa_addr = (struct sockaddr *) (void *) &hardware->address},
        .address = {.sll_family = AF_PACKET, .sll_hatype = kind, .sll_halen = sizeof(bytes)},
    };
    memcpy((uint8_t *) &hardware->address + offsetof(struct sockaddr_ll, sll_addr), bytes,
           sizeof(bytes));
}

/* How many devices that text of btl_ib_if_include chooses. */
static int chosen(const char *text)
{
    const btl_ib_search_t search = {.gid_index = -1, .log = log_all};
    btl_ib_device_filter_t filter = {.rdma_only = false};
    btl_ib_devices_error_t error;
    btl_ib_device_t *list;

    assert_int_equal(btl_ib_devices_parse(text, &filter.include, &error), 0);
    const int n = type->devices(&search, &list);
    const int wanted = btl_ib_devices_select(list, n, &filter, &log_all);
    type->devices_free(list, n);
    return wanted;
}

/* Ports of InfiniBand go by the names of their IPoIB interfaces, too, those of Ethernet by the
 * interface of the address. */
UD_TEST(test_interfaces)
{
    static char others[] = "ib0", ours[] = "ib1", second[] = "ib1.8001", ethernet[] = "eth1";
    hardware_t host[4];

    fake.device[0].port[0].attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
    fake.device[0].port[0].gids = 0;
    fake_gid(&fake.device[0].port[0], "fe80::2:c903:0:1", IBV_GID_TYPE_IB);
    assert_int_equal(chosen("ib1"), 0);
    give_hardware(&host[0], ethernet, ARPHRD_ETHER, "fe80::2:c903:0:1");
    give_hardware(&host[1], others, ARPHRD_INFINIBAND, "fe80::2:c903:0:2");
    give_hardware(&host[2], ours, ARPHRD_INFINIBAND, "fe80::2:c903:0:1");
    give_hardware(&host[3], second, ARPHRD_INFINIBAND, "fe80::2:c903:0:1");
    for (int i = 0; i < 3; i++) {
        host[i].interface.ifa_next = &host[i + 1].interface;
    }
    fake_interfaces = &host[0].interface;
    assert_int_equal(chosen("ib1"), 1);
    assert_int_equal(chosen("ib0"), 0);
    assert_int_equal(chosen("eth1"), 0);
    assert_int_equal(chosen("ib1.8001"), 0); /* the first of several */
    assert_int_equal(chosen("ib1+rxe0:1"), 1);
    assert_int_equal(chosen("fe80::/64"), 1);
    fake_interfaces = NULL;
    fake_reset();
    fake.device[0].port[0].gid[1].ndev_ifindex = if_nametoindex("lo");
    assert_int_equal(chosen("lo"), 1);
    assert_int_equal(chosen("10.0.0.0/24"), 1);
    assert_int_equal(chosen("10.0.1.0/24"), 0);
}

UD_TEST(test_fork)
{
    btl_ib_search_t search = {.gid_index = -1, .log = log_all};
    btl_ib_device_t *list;

    for (int wanted = 0; wanted < 3; wanted++) {
        search.fork_safe = wanted > 0;
        assert_int_equal(type->devices(&search, &list), 2);
        type->devices_free(list, 2);
        assert_int_equal(fake.fork_inits, wanted > 0); /* once */
    }
    fake_reset();
    fake.regs = 1;
    assert_int_equal(type->devices(&search, &list), 2);
    type->devices_free(list, 2);
    assert_non_null(strstr(said, "ibv_fork_init"));
}

/* The address that was asked for, and only that. */
UD_TEST(test_gid_index)
{
    btl_ib_search_t search = {.gid_index = 3, .log = log_all};
    btl_ib_device_t *list;
    btl_ib_transport_t *t;

    assert_int_equal(type->devices(&search, &list), 0);
    type->devices_free(list, 0);
    assert_int_equal(try_open(usual, 0, &t), 0);
    assert_int_equal(ud_address(t).gid.raw[0], 0xfe);
    close_one(t);
}

/* Places of the table beyond what an address handle can name are no addresses. */
UD_TEST(test_far_places)
{
    const btl_ib_search_t search = {.gid_index = -1, .log = log_all};
    fake_port_t *port = &fake.device[0].port[0];
    btl_ib_device_t *list;

    port->gid[1].gid_index = 256;
    assert_int_equal(type->devices(&search, &list), 1);
    assert_int_equal(list[0].ip.ss_family, AF_INET6);
    type->devices_free(list, 1);
    port->gid[1].gid_index = 255;
    assert_int_equal(type->devices(&search, &list), 2);
    type->devices_free(list, 2);
}

UD_TEST(test_partition)
{
    btl_ib_open_params_t params = usual;
    btl_ib_transport_t *t = NULL;
    btl_ib_addr_t addr;

    fake.device[0].port[0].pkey[1] = 0x0005; /* limited */
    fake.device[0].port[0].pkey[2] = 0x8005;
    fake.device[0].port[0].pkey[3] = 0x0006;
    params.pkey = 5;
    btl_ib_transport_t *full = open_one(params);
    assert_int_equal(fake.pkey_index, 2);
    params.pkey = 0x8006;
    btl_ib_transport_t *limited = open_one(params);
    assert_int_equal(fake.pkey_index, 3);
    assert_int_equal(full->ops->addr_add(full, limited->address, limited->address_len, &addr),
                     -EHOSTUNREACH);
    /* Two limited members of one partition do not hear each other. */
    assert_int_equal(limited->ops->addr_add(limited, limited->address, limited->address_len, &addr),
                     -EHOSTUNREACH);
    assert_non_null(strstr(said, "partition"));
    fake.device[0].port[0].pkey[3] = 0x8006;
    btl_ib_transport_t *of_all = open_one(params); /* a full member hears limited ones */
    assert_int_equal(limited->ops->addr_add(limited, of_all->address, of_all->address_len, &addr),
                     0);
    assert_int_equal(of_all->ops->addr_add(of_all, limited->address, limited->address_len, &addr),
                     0);
    close_one(of_all);
    params.pkey = 7;
    assert_int_equal(try_open(params, -1, &t), -ENOENT);
    assert_non_null(strstr(said, "btl_ib_pkey"));
    close_one(full);
    close_one(limited);
}

UD_TEST(test_limits_of_devices)
{
    btl_ib_transport_t *t = NULL;

    fake.inline_max = 101;
    fake.max_qp_wr = 128;
    t = open_one(usual);
    assert_int_equal(t->attr.inline_size, 96);
    close_one(t);
    fake.inline_next = 256; /* the least of all queue pairs counts */
    t = open_one(usual);
    assert_int_equal(t->attr.inline_size, 96);
    close_one(t);
    fake.max_qp_wr = 70; /* 64 buffers, and not all of those that may wait to be posted again */
    t = open_one(usual);
    assert_int_equal(t->ops->rx_depth(t, SIZE), NUM_LARGE);
    close_one(t);
    fake.max_qp_wr = 16384;
    t = open_one(usual);
    assert_int_equal(ud_completions(t), ud_work_requests(t));
    close_one(t);
    fake.max_qp_wr = 40;
    t = open_one(usual);
    assert_true(t->ops->rx_depth(t, SIZE) < 40);
    close_one(t);
    fake.reg_error = ENOMEM;
    assert_int_equal(try_open(usual, -1, &t), -ENOMEM);
    fake.reg_error = 0;
    btl_ib_open_params_t many = usual;
    many.queue_count = 7;
    for (uint32_t i = 0; i < many.queue_count; i++) {
        many.queue[i] = (btl_ib_open_queue_t){.size = 100 * (i + 1), .num = 8, .init = 8};
    }
    t = open_one(many);
    assert_false(t->attr.queue_buffers);
    assert_int_equal(t->ops->rx_depth(t, 700), 32); /* the last four share */
    close_one(t);
    many = (btl_ib_open_params_t){.rx_depth = 10, .rx_size = 200, .log = log_all};
    t = open_one(many);
    assert_int_equal(t->attr.rx_depth, 10);
    close_one(t);
}

/* The completion queue: room for all that can be under way, or for more. */
UD_TEST(test_completion_queue)
{
    btl_ib_open_params_t params = usual;
    btl_ib_transport_t *t = open_one(params);

    const uint32_t needed = ud_completions(t);
    assert_int_equal(needed, ud_work_requests(t));
    close_one(t);
    params.cq_num = needed + 1000;
    t = open_one(params);
    assert_int_equal(ud_completions(t), needed + 1000);
    close_one(t);
}

/* What an administrator can change is called by its name. */
UD_TEST(test_diagnostics)
{
    const btl_ib_search_t search = {.gid_index = -1, .log = log_all};
    btl_ib_open_params_t params = usual;
    struct rlimit limit;
    uint8_t other[BTL_IB_ADDR_BYTES];
    btl_ib_transport_t *t;
    btl_ib_device_t *list;
    btl_ib_addr_t addr;

    fake.open_error = ENOENT;
    assert_int_equal(type->devices(&search, &list), 0);
    assert_int_equal(diagnostics, 1u << BTL_IB_DIAG_NO_FILES);
    assert_string_equal(diagnostic_detail, "/dev/infiniband/uverbs0");
    type->devices_free(list, 0);
    fake.open_error = EACCES;
    assert_int_equal(type->devices(&search, &list), 0);
    assert_true(diagnostics & 1u << BTL_IB_DIAG_NO_PERMISSION);
    type->devices_free(list, 0);
    fake.open_error = 0;
    fake.device[0].port[0].attr.state = IBV_PORT_INIT;
    assert_int_equal(type->devices(&search, &list), 0);
    assert_true(diagnostics & 1u << BTL_IB_DIAG_PORT_DOWN);
    assert_string_equal(diagnostic_detail, "init");
    type->devices_free(list, 0);
    fake.device[0].port[0].attr.state = IBV_PORT_ACTIVE;
    params.pkey = 5;
    assert_int_equal(try_open(params, -1, &t), -ENOENT);
    assert_true(diagnostics & 1u << BTL_IB_DIAG_PARTITION);
    assert_string_equal(diagnostic_detail, "0x0005");

    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    limit.rlim_cur = 64 * 1024;
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    fake.reg_error = ENOMEM;
    assert_int_equal(try_open(usual, -1, &t), -ENOMEM);
    assert_true(diagnostics & 1u << BTL_IB_DIAG_LOCKED_MEMORY);
    assert_string_equal(diagnostic_detail, "64 KiB");
    fake.reg_error = 0;

    t = open_one(usual);
    memcpy(other, t->address, t->address_len);
    other[27] = 99;
    fake.ah_error = ENETUNREACH;
    assert_int_equal(t->ops->addr_add(t, other, t->address_len, &addr), -EHOSTUNREACH);
    assert_true(diagnostics & 1u << BTL_IB_DIAG_UNREACHABLE);
    assert_string_equal(diagnostic_detail, "10.0.0.99 (ibv_create_ah: Network is unreachable)");
    close_one(t);
}

UD_TEST(test_events)
{
    static const struct {
        enum ibv_event_type event;
        int port, error;
        btl_ib_diagnostic_t diagnosis;
    } cases[] = {
        {IBV_EVENT_PORT_ERR, 1, ENETDOWN, BTL_IB_DIAG_PORT_ERROR},
        {IBV_EVENT_PORT_ERR, 2, 0, BTL_IB_DIAGS},
        {IBV_EVENT_PORT_ACTIVE, 1, 0, BTL_IB_DIAGS},
        {IBV_EVENT_DEVICE_FATAL, 0, ENODEV, BTL_IB_DIAG_FATAL},
        {IBV_EVENT_QP_FATAL, 0, EIO, BTL_IB_DIAG_FATAL},
        {IBV_EVENT_CQ_ERR, 0, EIO, BTL_IB_DIAG_FATAL},
        {IBV_EVENT_GID_CHANGE, 1, 0, BTL_IB_DIAGS},
        {IBV_EVENT_PKEY_CHANGE, 1, 0, BTL_IB_DIAGS},
        {IBV_EVENT_SM_CHANGE, 1, 0, BTL_IB_DIAGS},
        {IBV_EVENT_PATH_MIG, 0, 0, BTL_IB_DIAG_MIGRATED},
        {IBV_EVENT_PATH_MIG_ERR, 0, 0, BTL_IB_DIAG_MIGRATED},
    };
    btl_ib_event_t event;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        btl_ib_transport_t *t = open_one(usual);
        forget_said();
        fake_event(cases[i].event, cases[i].port);
        assert_int_equal(t->ops->poll(t, 0, &event, 1), 0); /* asking costs: not each time */
        int n = 0;
        for (int k = 0; k < UD_EVENTS_EVERY && n == 0; k++) {
            n = t->ops->poll(t, 0, &event, 1);
        }
        assert_int_equal(n, cases[i].error != 0);
        assert_int_equal(diagnostics,
                         cases[i].diagnosis == BTL_IB_DIAGS ? 0 : 1u << cases[i].diagnosis);
        assert_string_equal(diagnostic_detail,
                            diagnostics == 0 ? "" : ibv_event_type_str(cases[i].event));
        if (n > 0) {
            assert_int_equal(event.type, cases[i].error == ENODEV || cases[i].error == EIO
                                             ? BTL_IB_EVENT_FAILED
                                             : BTL_IB_EVENT_DOWN);
            assert_int_equal(event.error, cases[i].error);
        }
        close_one(t);
    }
}

static int ask(btl_ib_transport_t *t, btl_ib_event_t *event)
{
    (void) t->ops->wait_fd(t);
    return t->ops->poll(t, 0, event, 1);
}

/* It is back when it is active, with the address that peers know. */
UD_TEST(test_port_comes_back)
{
    fake_port_t *port = &fake.device[0].port[0];
    btl_ib_event_t event;

    btl_ib_transport_t *t = open_one(usual);
    port->attr.state = IBV_PORT_DOWN;
    port->gid[1].gid.raw[15] = 9;
    fake_event(IBV_EVENT_GID_CHANGE, 1); /* before it says why */
    fake_event(IBV_EVENT_PORT_ERR, 1);
    assert_int_equal(ask(t, &event), 1);
    assert_int_equal(event.type, BTL_IB_EVENT_DOWN);
    assert_int_equal(event.error, ENETDOWN);
    assert_int_equal(ask(t, &event), 0);
    port->attr.state = IBV_PORT_ACTIVE;
    fake_event(IBV_EVENT_PORT_ACTIVE, 1);
    assert_int_equal(ask(t, &event), 0);
    port->gid[1].gid.raw[15] = 1;
    fake_event(IBV_EVENT_GID_CHANGE, 1);
    assert_int_equal(ask(t, &event), 1);
    assert_int_equal(event.type, BTL_IB_EVENT_UP);
    assert_int_equal(ask(t, &event), 0);

    port->attr.state = IBV_PORT_DOWN;
    fake_event(IBV_EVENT_PORT_ERR, 1);
    fake_event(IBV_EVENT_DEVICE_FATAL, 0);
    assert_int_equal(ask(t, &event), 1);
    assert_int_equal(event.type, BTL_IB_EVENT_DOWN);
    assert_int_equal(ask(t, &event), 1);
    assert_int_equal(event.type, BTL_IB_EVENT_FAILED);
    assert_int_equal(event.error, ENODEV);
    close_one(t);
}

/* What the port is known by is gone: told with that reason. */
static void assert_missed(btl_ib_transport_t *t, enum ibv_event_type said_by, int error)
{
    btl_ib_event_t event;

    forget_said();
    fake_event(said_by, 1);
    assert_int_equal(ask(t, &event), 1); /* asks at once */
    assert_int_equal(event.type, BTL_IB_EVENT_DOWN);
    assert_int_equal(event.error, error);
    assert_true(diagnostics & 1u << BTL_IB_DIAG_IDENTITY);
    assert_int_equal(ask(t, &event), 0);
}

static void assert_back(btl_ib_transport_t *t)
{
    btl_ib_event_t event;

    assert_int_equal(ask(t, &event), 1);
    assert_int_equal(event.type, BTL_IB_EVENT_UP);
    close_one(t);
}

/* The address that peers know is gone, or the partition is; and they come back. */
UD_TEST(test_changes)
{
    fake_port_t *port = &fake.device[0].port[0];
    const uint16_t pkey = port->pkey[0], lid = port->attr.lid;

    btl_ib_transport_t *t = open_one(usual);
    port->gid[1].gid.raw[15] = 9;
    assert_missed(t, IBV_EVENT_GID_CHANGE, EADDRNOTAVAIL);
    port->gid[1].gid.raw[15] = 1;
    assert_back(t);
    t = open_one(usual);
    port->pkey[0] = 0x8001;
    assert_missed(t, IBV_EVENT_PKEY_CHANGE, EPERM);
    port->pkey[0] = pkey;
    assert_back(t);
    port->attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
    t = open_one(usual);
    port->attr.lid = 8;
    assert_missed(t, IBV_EVENT_LID_CHANGE, EADDRNOTAVAIL);
    port->attr.lid = lid;
    assert_back(t);
}

/* The address comes back at another place of the table: what is sent names that one, and no handle
 * goes while a send that has it is not over. */
UD_TEST(test_address_moves)
{
    fake_port_t *port = &fake.device[0].port[0];
    btl_ib_event_t event;

    pair_t pair = open_pair(usual);
    const int handles = fake.handles;
    fake.hold = true;
    send_all(&pair, 0, 1, SIZE, LARGE);
    fake_gid(port, "10.0.0.1", IBV_GID_TYPE_ROCE_V2);
    port->gid[1].gid.raw[15] = 9;
    fake_event(IBV_EVENT_GID_CHANGE, 1);
    assert_int_equal(ask(pair.a, &event), 1);
    assert_int_equal(event.type, BTL_IB_EVENT_DOWN);
    assert_int_equal(ask(pair.a, &event), 1);
    assert_int_equal(event.type, BTL_IB_EVENT_UP);
    assert_int_equal(fake.handles, handles + 1);
    assert_int_equal(fake.ah.grh.sgid_index, 2);
    fake.hold = false;
    fake_release();
    (void) poll_all(pair.a, BTL_IB_EVENT_SENT);
    assert_int_equal(fake.pulled, 0);
    (void) poll_all(pair.b, BTL_IB_EVENT_RECV);
    send_all(&pair, 0, 1, SIZE, LARGE);
    assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), 1);
    close_pair(&pair);
}

static bool rings(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};

    return poll(&wait, 1, 0) == 1;
}

UD_TEST(test_wait)
{
    pair_t pair = open_pair(usual);
    int fd = pair.b->ops->wait_fd(pair.b);
    assert_true(fd >= 0);
    assert_false(rings(fd));
    send_all(&pair, 0, 1, SIZE, LARGE);
    assert_true(rings(fd));
    assert_int_equal(pair.b->ops->wait_fd(pair.b), -1); /* there is something */
    assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), 1);
    fd = pair.b->ops->wait_fd(pair.b);
    assert_true(fd >= 0 && !rings(fd));
    /* Polled without anybody having waited: it does not ring for ever. */
    send_all(&pair, 0, 1, SIZE, LARGE);
    assert_int_equal(poll_all(pair.b, BTL_IB_EVENT_RECV), 1);
    assert_false(rings(fd));
    close_pair(&pair);
}

UNIT_MAIN(NULL, NULL)
