/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport "verbs" over RC: what the device lacks, and what it says. */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "rc_sides.h"
#include "said.h"
#include "transport.h"
#include "unit.h"

/* ---- shortage ---- */

RC_TEST(shortage_of_queue_pairs)
{
    for (int left = 0; left < 2; left++) { /* of the initiator, of the acceptor */
        fake.qps_left = left;
        assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
        settle();
        assert_int_equal(send_one(0, 1, SMALL, 0), EHOSTUNREACH);
        assert_int_equal(sides[0].refused, 0);
        assert_int_equal(fake.qps, 0);
        fake.now += 3000000;
    }
    fake.qps_left = -1;
    connect_sides(0, 1, 0);
}

RC_TEST(shortage_of_registrations)
{
    for (int left = 0; left < 4; left++) {
        fake.mrs_left = left;
        assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
        settle();
        assert_int_equal(send_one(0, 1, SMALL, 0), EHOSTUNREACH);
        assert_int_equal(fake.mrs, 2);
        fake.now += 3000000;
    }
    fake.mrs_left = -1;
    connect_sides(0, 1, 0);
}

/* What keeps memory from being locked is told by its name. */
RC_TEST(limit_of_locked_memory)
{
    struct rlimit limit;

    forget_said();
    for (int i = 0; i < 2; i++) {
        rc_set_log(sides[i].t, (btl_ib_log_t){.print = listen_to, .diagnostic = note_diagnostic});
    }
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 64 * 1024;
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    fake.mrs_left = 0;
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    settle();
    assert_int_equal(diagnostics, 1u << BTL_IB_DIAG_LOCKED_MEMORY);
    assert_string_equal(diagnostic_detail, "64 KiB");
    fake.mrs_left = -1;
    limit.rlim_cur = before;
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
}

/* A peer whose port has another MTU. iWARP does not mind. */
RC_TEST(other_mtu)
{
    uint8_t bytes[BTL_IB_ADDR_BYTES];
    btl_ib_addr_t addr;

    rc_set_log(sides[0].t, (btl_ib_log_t){.print = listen_to, .diagnostic = note_diagnostic});
    memcpy(bytes, sides[1].t->address, sides[1].t->address_len);
    for (int i = 0; i < 3; i++) {
        forget_said();
        bytes[3] = i == 0 ? IBV_MTU_4096 : IBV_MTU_1024;
        rc_set_iwarp(sides[0].t, i == 2);
        assert_int_equal(
            sides[0].t->ops->addr_add(sides[0].t, bytes, sides[1].t->address_len, &addr), 0);
        assert_int_equal(diagnostics, i == 1 ? 1u << BTL_IB_DIAG_MTU : 0);
        sides[0].t->ops->addr_remove(sides[0].t, addr);
    }
    rc_set_iwarp(sides[0].t, false);
}

/* More connections than one completion queue has room for: there are more queues, and none
 * overflows. */
RC_TEST(many_completion_queues)
{
    (void) tear_down(state);
    fake_rdma_reset();
    params.queue[0].num = 3000;
    open_side(0);
    open_side(1);
    add(0, 1);
    add(1, 0);
    connect_sides(0, 1, 0);
    assert_int_equal(rc_inside(sides[0].t).cqs, 1);
    open_side(2);
    add(0, 2);
    add(2, 0);
    connect_sides(0, 2, 0);
    assert_int_equal(rc_inside(sides[0].t).cqs, 2);
    for (int i = 0; i < 12; i++) { /* the place of a connection that ended is another's */
        forget(0, 2);
        settle();
        fake.now += 2000000;
        add(0, 2);
        sides[2].received = 0;
        connect_sides(0, 2, 0);
    }
    assert_int_equal(rc_inside(sides[0].t).cqs, 2);
}

/* A caller that asks for no queues gets one. */
RC_TEST(one_queue_if_none_is_asked_for)
{
    (void) tear_down(state);
    fake_rdma_reset();
    params.queue_count = 0;
    params.rx_size = SIZE_1;
    params.rx_depth = NUM;
    open_side(0);
    open_side(1);
    assert_int_equal(sides[0].t->attr.max_datagram, SIZE_1);
    add(0, 1);
    add(1, 0);
    connect_sides(0, 1, 0);
    assert_int_equal(send_one(0, 1, LONG, 0), 0);
    settle();
    assert_int_equal(sides[1].received, 2);
    close_side(0);
    params.rx_size = 0;
    open_side(0);
    assert_int_equal(sides[0].t->attr.max_datagram, 1 << 20);
}

/* ---- the device ---- */

/* An event about `element`, or about port 1, and time to hear it. */
static void device_says(enum ibv_event_type type, void *element)
{
    struct ibv_async_event event = {.event_type = type};

    if (element != NULL) {
        event.element.cq = element;
    } else {
        event.element.port_num = 1;
    }
    fake_say(&event);
    for (int i = 0; i < 200; i++) {
        look(0);
    }
    assert_int_equal(fake_unheard(), 0);
    look(1);
}

static bool rings(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};

    return poll(&wait, 1, 0) == 1;
}

static int wait_fd(int i)
{
    return sides[i].t->ops->wait_fd(sides[i].t);
}

/* A sleeping process is woken by what comes, and does not sleep over what came before. */
RC_TEST(sleeping)
{
    connect_sides(0, 1, 0);
    const int fd = wait_fd(1);
    assert_true(fd >= 0);
    assert_false(rings(fd));
    for (int before = 0; before < 4; before++) { /* that many came before */
        const int received = sides[1].received;
        for (int i = 0; i < before; i++) {
            assert_int_equal(send_one(0, 1, SMALL, 0), 0);
        }
        assert_int_equal(wait_fd(1), before > 0 ? -1 : fd);
        assert_int_equal(wait_fd(1), before > 0 ? -1 : fd); /* asked twice: none is lost */
        assert_false(rings(fd));
        assert_int_equal(send_one(0, 1, SMALL, 0), 0);
        assert_true(rings(fd));
        while (look(1) > 0) {
        }
        assert_int_equal(sides[1].received - received, before + 1);
        assert_int_equal(wait_fd(1), fd);
        assert_false(rings(fd));
    }
    assert_int_equal(sides[1].disorder, 0);
}

RC_TEST(device_fails)
{
    connect_sides(0, 1, 0);
    device_says(IBV_EVENT_QP_FATAL, NULL); /* one conn's, which shows by itself */
    assert_int_equal(sides[0].failed, 0);
    device_says(IBV_EVENT_DEVICE_FATAL, NULL);
    assert_int_equal(sides[0].failed, 1);
    assert_int_equal(send_one(0, 1, SMALL, 0), ENETDOWN);
    forget(0, 1);
}

RC_TEST(device_is_removed)
{
    connect_sides(0, 1, 0);
    fake_rdma_remove(rc_listener(sides[0].t));
    settle();
    assert_int_equal(sides[0].failed, 1);
    assert_int_equal(send_one(0, 1, SMALL, 0), ENETDOWN);
    forget(0, 1);
}

/* While a port is down nothing is looked at; then connections are made anew. */
RC_TEST(port_comes_back)
{
    connect_sides(0, 1, 0);
    fake.port_down = true;
    device_says(IBV_EVENT_PORT_ERR, NULL);
    assert_int_equal(sides[0].down, 1);
    assert_int_equal(sides[1].down, 1);
    assert_int_equal(send_one(0, 1, SMALL, 0), ENETDOWN);
    fake_rdma_break(qp_of(1, 0, 0), IBV_WC_RETRY_EXC_ERR);
    settle();
    assert_int_equal(sides[0].up + sides[0].broken + sides[1].broken, 0);
    assert_int_equal(sides[0].t->ops->wait_fd(sides[0].t), -1);
    fake.port_down = false;
    settle();
    assert_int_equal(sides[0].up, 1);
    assert_int_equal(sides[0].broken, 1);
    assert_int_equal(sides[1].broken, 1);
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    settle();
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
    settle();
    assert_int_equal(sides[0].down, 1);
    assert_int_equal(sides[0].failed, 0);
}

/* What fails while the port is down is known before the device says that it is: nothing is taken
 * leave of then, but when it is up again. */
RC_TEST(error_before_the_port_s_event)
{
    connect_sides(0, 1, 0);
    fake.port_down = true;
    fake_rdma_break(qp_of(0, 1, 0), IBV_WC_RETRY_EXC_ERR);
    settle();
    assert_int_equal(sides[0].down, 1);
    assert_int_equal(sides[1].down, 1);
    assert_int_equal(sides[0].broken + sides[1].broken, 0);
    assert_int_equal(fake.qps, 2);
    assert_int_equal(send_one(0, 1, SMALL, 0), ENETDOWN);
    fake.port_down = false;
    settle();
    assert_int_equal(sides[0].up, 1);
    assert_int_equal(sides[1].up, 1);
    assert_int_equal(sides[0].broken, 1);
    assert_int_equal(sides[1].broken, 1);
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    settle();
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
}

/* A send of side 0 to side 1 fails in its own device. */
static void device_cannot_send(void)
{
    fake_rdma_fail(qp_of(0, 1, 0), IBV_WC_LOC_QP_OP_ERR);
}

/* It is known even before the port's state changes: so what the device could not send is no end for
 * a while. */
RC_TEST(error_before_the_port_s_state)
{
    connect_sides(0, 1, 0);
    device_cannot_send();
    fake.now += 100000;
    settle();
    assert_int_equal(sides[0].broken + sides[1].broken, 0);
    assert_int_equal(fake.qps, 2);
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    fake.port_down = true;
    fake.now += 200000;
    settle();
    assert_int_equal(sides[0].down, 1);
    assert_int_equal(sides[1].down, 0); /* nothing of his failed */
    assert_int_equal(sides[0].broken + sides[1].broken, 0);
    assert_int_equal(fake.qps, 2);
    fake.port_down = false;
    settle();
    assert_int_equal(sides[0].up, 1);
    assert_int_equal(sides[0].broken, 1);
    assert_int_equal(sides[1].broken, 1);
    assert_int_equal(rc_inside(sides[0].t).suspected + rc_inside(sides[1].t).suspected, 0);
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    settle();
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
}

/* If the port does not go down then it was an end. */
RC_TEST(error_without_the_port)
{
    connect_sides(0, 1, 0);
    device_cannot_send();
    fake.now += 100000;
    settle();
    assert_int_equal(sides[0].broken, 0);
    fake.now += 200000;
    settle();
    assert_int_equal(sides[0].broken, 1);
    assert_int_equal(sides[0].down + sides[1].down, 0);
    assert_int_equal(rc_inside(sides[0].t).suspected + rc_inside(sides[1].t).suspected, 0);
    (void) send_one(0, 1, SMALL, 0);
    settle();
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
}

/* A connection that we accepted, and whose first message never came. */
RC_TEST(accepted_while_the_port_goes_down)
{
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    for (int i = 0; i < 100 && fake.accepts == 0; i++) {
        look(0);
        look(1);
    }
    const rc_conn_t conn = conn_of(1, 0, 0);
    assert_true(conn.accepted);
    fake.port_down = true;
    fake_rdma_break(conn.qp->qp_num, IBV_WC_LOC_QP_OP_ERR);
    settle();
    assert_int_equal(sides[1].down, 1);
    fake.port_down = false;
    settle();
    assert_int_equal(sides[1].up, 1);
    fake.now += 2000000;
    sides[1].received = 0;
    (void) send_one(0, 1, SMALL, 0);
    settle();
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
    settle();
    assert_int_equal(sides[1].received, 1);
}

/* The address that peers know goes: no connection could be made any more, until it is back. Other
 * changes of the table are no matter. */
RC_TEST(address_goes)
{
    (void) tear_down(state);
    fake_rdma_reset();
    forget_said();
    fake.ethernet = true;
    params.log = (btl_ib_log_t){.print = listen_to, .diagnostic = note_diagnostic};
    open_side(0);
    open_side(1);
    add(0, 1);
    connect_sides(0, 1, 0);
    device_says(IBV_EVENT_GID_CHANGE, NULL);
    assert_int_equal(sides[0].failed + sides[0].down, 0);
    assert_int_equal(diagnostics, 0);
    fake.gid_gone = true;
    device_says(IBV_EVENT_GID_CHANGE, NULL);
    assert_int_equal(sides[0].failed, 0);
    assert_int_equal(sides[0].down, 1);
    assert_int_equal(sides[0].error, EADDRNOTAVAIL);
    assert_int_equal(diagnostics, 1u << BTL_IB_DIAG_IDENTITY);
    assert_string_equal(diagnostic_detail, ibv_event_type_str(IBV_EVENT_GID_CHANGE));
    assert_int_equal(send_one(0, 1, SMALL, 0), ENETDOWN);
    fake.gid_gone = false;
    settle();
    assert_int_equal(sides[0].up, 1);
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN); /* a new connection */
    settle();
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
}

/* With the port, and it comes back after it: the port is not up before that. */
RC_TEST(address_goes_with_the_port)
{
    fake.ethernet = true;
    rc_set_link_layer(sides[0].t, IBV_LINK_LAYER_ETHERNET);
    connect_sides(0, 1, 0);
    fake.gid_gone = true;
    fake.port_down = true;
    device_says(IBV_EVENT_GID_CHANGE, NULL); /* before it says why */
    assert_int_equal(sides[0].down, 1);
    fake.port_down = false;
    device_says(IBV_EVENT_GID_CHANGE, NULL);
    assert_int_equal(sides[0].up + sides[0].failed, 0);
    fake.gid_gone = false;
    settle();
    assert_int_equal(sides[0].up, 1);
    assert_int_equal(sides[0].failed, 0);
}

/* What is no end of anything, but worth knowing: once more than one rail is on the device, of whose
 * connection it is. */
RC_TEST(path_migrates)
{
    static const enum ibv_event_type said_of_it[] = {IBV_EVENT_PATH_MIG, IBV_EVENT_PATH_MIG_ERR};
    static const enum ibv_event_type no_matter[] = {IBV_EVENT_LID_CHANGE, IBV_EVENT_PKEY_CHANGE,
                                                    IBV_EVENT_SM_CHANGE, IBV_EVENT_GID_CHANGE,
                                                    IBV_EVENT_CLIENT_REREGISTER};

    connect_sides(0, 1, 0);
    for (int i = 0; i < 2; i++) {
        rc_set_log(sides[i].t, (btl_ib_log_t){.print = listen_to, .diagnostic = note_diagnostic});
    }
    for (size_t i = 0; i < 2; i++) {
        forget_said();
        device_says(said_of_it[i], conn_of(0, 1, 0).qp);
        assert_int_equal(diagnostics, 1u << BTL_IB_DIAG_MIGRATED);
        assert_string_equal(diagnostic_detail, ibv_event_type_str(said_of_it[i]));
        assert_null(strstr(strstr(said, "the device says") + 1, "the device says")); /* one rail */
    }
    forget_said();
    for (size_t i = 0; i < sizeof(no_matter) / sizeof(no_matter[0]); i++) {
        device_says(no_matter[i], NULL);
    }
    assert_int_equal(diagnostics, 0);
    assert_int_equal(sides[0].failed + sides[0].down + sides[0].broken, 0);
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
}

/* What a user is told of what befalls a device. */
RC_TEST(told_what_happened)
{
    forget_said();
    rc_set_log(sides[0].t, (btl_ib_log_t){.print = listen_to, .diagnostic = note_diagnostic});
    fake.port_down = true;
    device_says(IBV_EVENT_PORT_ERR, NULL);
    assert_int_equal(diagnostics, 1u << BTL_IB_DIAG_PORT_ERROR);
    assert_string_equal(diagnostic_detail, ibv_event_type_str(IBV_EVENT_PORT_ERR));
    forget_said();
    device_says(IBV_EVENT_DEVICE_FATAL, NULL);
    assert_int_equal(diagnostics, 1u << BTL_IB_DIAG_FATAL);
}

/* All rails on a device have one stream of events: the rail that reads it tells those that it
 * concerns. */
RC_TEST(rails_share_events)
{
    rc_set_port(sides[0].t, 2);
    device_says(IBV_EVENT_PORT_ACTIVE, NULL);
    device_says(IBV_EVENT_GID_CHANGE, NULL);
    assert_int_equal(sides[0].failed + sides[1].failed, 0);
    fake.port_down = true;
    device_says(IBV_EVENT_PORT_ERR, NULL); /* of port 1 */
    assert_int_equal(sides[0].down, 0);
    assert_int_equal(sides[1].down, 1);
    device_says(IBV_EVENT_DEVICE_FATAL, NULL);
    assert_int_equal(sides[0].failed, 1);
}

/* What all connections of a rail share has failed: no completion says so. */
RC_TEST(shared_things_fail)
{
    (void) tear_down(state);
    fake_rdma_reset();
    params.queue[1].shared = true;
    for (int i = 0; i < SIDES; i++) {
        open_side(i);
    }
    device_says(IBV_EVENT_CQ_ERR, rc_cq(sides[1].t));
    assert_int_equal(sides[0].failed, 0);
    assert_int_equal(sides[1].failed, 1);
    device_says(IBV_EVENT_SRQ_ERR, rc_srq(sides[0].t, 1));
    assert_int_equal(sides[0].failed, 1);
    look(2);
    assert_int_equal(sides[2].failed, 0);
}

/* Buffers that connections share: not every device has them, and with iWARP they are no use. */
RC_TEST(shared_buffers)
{
    btl_ib_search_t search = {.gid_index = -1, .log = {.print = listen_to}};
    btl_ib_transport_attr_t attr;
    btl_ib_device_t *list;

    for (int i = 0; i < 3; i++) {
        fake.srq_max = i == 1 ? 0 : 1;
        fake.iwarp = i == 2;
        assert_int_equal(btl_ib_verbs_rc_type.devices(&search, &list), 1);
        assert_int_equal(btl_ib_verbs_rc_type.query(&list[0], 0, &attr), 0);
        assert_int_equal(attr.shared_max, i == 0 ? 65536 : 0);
        btl_ib_verbs_rc_type.devices_free(list, 1);
    }
}

static void note_reason(void *context, const char *transport, const char *device,
                        const char *reason)
{
    assert_string_equal(transport, "verbs");
    snprintf(context, 128, "%s", reason);
}

/* A device is found by the address of an interface, which leaves nothing to choose in its table. */
RC_TEST(devices)
{
    char reason[128] = "";
    btl_ib_search_t search = {
        .gid_index = -1,
        .log = {.print = listen_to, .turned_down = note_reason, .context = reason}};
    btl_ib_transport_attr_t attr;
    btl_ib_device_t *list;

    said[0] = '\0';
    assert_int_equal(btl_ib_verbs_rc_type.devices(&search, &list), 1);
    assert_string_equal(list[0].name, "fake0");
    assert_string_equal(list[0].interface, "eth7");
    assert_int_equal(list[0].ip.ss_family, AF_INET);
    assert_int_equal(list[0].prefix_bits, 24);
    assert_int_equal(btl_ib_verbs_rc_type.query(&list[0], 0, &attr), 0);
    assert_int_equal(attr.connections_max, 5000); /* queue pairs of the device */
    assert_int_equal(attr.shared_max, 65536);
    assert_true(attr.reliable && attr.knows_source && attr.rdma);
    btl_ib_verbs_rc_type.devices_free(list, 1);
    assert_string_equal(said, "");
    assert_string_equal(reason, "");
    search.gid_index = 3;
    assert_int_equal(btl_ib_verbs_rc_type.devices(&search, &list), 1);
    btl_ib_verbs_rc_type.devices_free(list, 1);
    assert_non_null(strstr(said, "btl_ib_gid_index 3"));
    said[0] = '\0';
    fake.ethernet =
        true; /* whose addresses are those of interfaces: place 0 of the table is ours */
    assert_int_equal(btl_ib_verbs_rc_type.devices(&search, &list), 0);
    search.gid_index = 0;
    assert_int_equal(btl_ib_verbs_rc_type.devices(&search, &list), 1);
    btl_ib_verbs_rc_type.devices_free(list, 1);
    fake.gid_gone = true;
    assert_int_equal(btl_ib_verbs_rc_type.devices(&search, &list), 0);
    assert_string_equal(said, "");
    fake.port_down = true;
    said[0] = '\0';
    assert_int_equal(btl_ib_verbs_rc_type.devices(&search, &list), 0);
    assert_string_equal(said, "");
    assert_non_null(strstr(reason, "no interface that is up"));
}

/* Operations of side 0 on the memory of side 1 have a queue pair of their own. */
static void connect_for_operations(void)
{
    uint8_t bytes[8];
    const btl_ib_rdma_work_t work = {
        .to = sides[0].to[1], .kind = BTL_IB_RDMA_READ, .local = bytes, .size = sizeof(bytes)};

    assert_int_equal(sides[0].t->ops->rdma->start(sides[0].t, &work), -EAGAIN);
    settle();
}

/* A device that has less is asked for that. */
RC_TEST(queue_pairs_as_the_device_can)
{
    (void) tear_down(state);
    fake_rdma_reset();
    fake.inline_max = 60;
    fake.cqe_max = 3000;
    fake.wr_max = 100;
    params.tx_depth = 1024;
    params.inline_max = 512;
    params.rc.reads = 9;
    open_side(0);
    open_side(1);
    add(0, 1);
    add(1, 0);
    assert_int_equal(fake_cqe, 3000);
    connect_sides(0, 1, 0);
    assert_int_equal(fake.cap.max_send_wr, 64);
    assert_int_equal(fake.cap.max_inline_data, 48);
    connect_for_operations();
    assert_int_equal(fake.asked.initiator_depth, fake.reads);
    close_side(0);
    params.inline_max = -1;
    params.tx_depth = 1;
    open_side(0);
    assert_int_equal(sides[0].t->attr.inline_size, 0);
    assert_int_equal(sides[0].t->attr.tx_depth, 16);
}

/* The first completion queue: as large as asked for, as the device can, or by default. */
RC_TEST(completion_queue)
{
    static const struct {
        uint32_t asked, most;
        int made;
    } cases[] = {{0, 1 << 20, 4096}, {7000, 1 << 20, 7000}, {7000, 5000, 5000}, {1, 1 << 20, 0}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void) tear_down(state);
        fake_rdma_reset();
        fake.cqe_max = cases[i].most;
        params.cq_num = cases[i].asked;
        open_side(0);
        open_side(1);
        add(0, 1);
        add(1, 0);
        connect_sides(0, 1, 0);
        if (cases[i].made != 0) {
            assert_int_equal(fake_cqe, cases[i].made);
        } else { /* at least what the connection needs */
            assert_in_range(fake_cqe, sides[0].t->attr.tx_depth, 4095);
        }
    }
}

/* Each channel's connections have as many sends as it was given, and those for operations on memory
 * as many as the channel that has most. */
RC_TEST(send_depth_of_channels)
{
    (void) tear_down(state);
    fake_rdma_reset();
    params.queue[0].tx_depth = 32;
    params.queue[1].tx_depth = 300;
    open_side(0);
    open_side(1);
    add(0, 1);
    add(1, 0);
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    settle();
    assert_int_equal(fake.cap.max_send_wr, 32);
    assert_int_equal(send_one(0, 1, SMALL, 1), EAGAIN);
    settle();
    assert_int_equal(fake.cap.max_send_wr, 256);
    connect_for_operations();
    assert_int_equal(fake.cap.max_send_wr, 256);
}

/* A service level, which rdma_cm does not know: both ends are taken through their states without
 * it. */
RC_TEST(service_level)
{
    (void) tear_down(state);
    fake_rdma_reset();
    params.service_level = 5;
    params.queue[1].shared = true;
    open_side(0);
    open_side(1);
    add(0, 1);
    add(1, 0);
    connect_sides(0, 1, 1);
    assert_int_equal(fake.levels, 2);
    assert_int_equal(fake.level, 5);
    connect_for_operations();
    assert_int_equal(fake.levels, 4);
    fake_rdma_break(qp_of(0, 1, 1), IBV_WC_RETRY_EXC_ERR);
    settle();
    fake.now += 2000000;
    fake.establish_error = ENOMEM;
    assert_int_equal(send_one(0, 1, SMALL, 1), EAGAIN);
    settle();
    assert_int_equal(send_one(0, 1, SMALL, 1), EHOSTUNREACH);
    fake.establish_error = 0;
    fake.now += 2000000;
    settle();
    (void) send_one(0, 1, SMALL, 1);
    settle();
    assert_int_equal(send_one(0, 1, SMALL, 1), 0);
    fake.hold_requests = true; /* gone while the request is on its way */
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    settle();
    forget(0, 1);
}

/* An MTU below the route's, wanted by one side or both: both come to the least, down to a size that
 * InfiniBand has, whichever side connects. */
RC_TEST(path_mtu)
{
    static const struct {
        uint32_t wanted[2];
        int told; /* queue pairs that are taken through their states here */
        uint8_t mtu;
    } cases[] = {{{0, 0}, 0, 0},
                 {{4096, 0}, 0, 0},
                 {{65535, 4096}, 0, 0},
                 {{0, 1024}, 2, IBV_MTU_1024},
                 {{1500, 0}, 2, IBV_MTU_1024},
                 {{2048, 4095}, 2, IBV_MTU_2048},
                 {{512, 1024}, 2, IBV_MTU_512},
                 {{256, 256}, 2, IBV_MTU_256}};

    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        const int told = cases[i / 2].told;
        (void) tear_down(state);
        fake_rdma_reset();
        params.mtu = cases[i / 2].wanted[0];
        open_side(0);
        params.mtu = cases[i / 2].wanted[1];
        open_side(1);
        add(0, 1);
        add(1, 0);
        connect_sides((int) i % 2, 1 - (int) i % 2, 0);
        assert_int_equal(fake.levels, told);
        for (int j = 0; j < told; j++) {
            assert_int_equal(fake.mtu[j], cases[i / 2].mtu);
        }
        assert_int_equal(fake.level, 0);
    }
    params.mtu = 0;
}

/* A port with a smaller MTU than the other one's: rdma_cm has what its route has, which is that of
 * the side that asks. Both come to the least, whichever side connects. */
RC_TEST(port_mtu)
{
    for (int i = 0; i < 2; i++) {
        (void) tear_down(state);
        fake_rdma_reset();
        fake.port_mtu = IBV_MTU_1024;
        open_side(0);
        fake.port_mtu = 0;
        open_side(1);
        add(0, 1);
        add(1, 0);
        connect_sides(i, 1 - i, 0);
        assert_int_equal(fake.levels, 2);
        assert_int_equal(fake.mtu[0], IBV_MTU_1024);
        assert_int_equal(fake.mtu[1], IBV_MTU_1024);
    }
}

/* The device of side 0 gets no answer to what it sends, twice: larger packets than the path carries
 * may be the reason. */
static void unanswered_twice(void)
{
    for (int i = 0; i < 2; i++) {
        while (send_one(0, 1, SMALL, 0) != 0) {
            fake.now += 100 * 1000;
            settle();
        }
        fake_rdma_break(qp_of(0, 1, 0), IBV_WC_RETRY_EXC_ERR);
        settle();
        fake.now += 2 * 1000 * 1000;
    }
    fake.levels = 0;
}

/* Connections have smaller packets then, of both ends alike, whoever asks: a peer that would send
 * larger ones is asked instead. 1024 bytes pass everywhere. */
RC_TEST(path_carries_less)
{
    static const uint8_t sizes[] = {IBV_MTU_2048, IBV_MTU_1024, IBV_MTU_1024};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        forget_said();
        rc_set_log(sides[0].t, (btl_ib_log_t){.print = listen_to, .diagnostic = note_diagnostic});
        unanswered_twice();
        assert_non_null(strstr(said, "what is sent is not answered, again and again: packets "));
        assert_non_null(strstr(said, i < 2 ? "have " : "of 1024 bytes get lost"));
        const uint32_t rejects = fake.rejects;
        while (send_one((int) i % 2 == 0, (int) i % 2, SMALL, 0) != 0) {
            fake.now += 10 * 1000;
            settle();
        }
        assert_int_equal(fake.rejects - rejects, i % 2 == 0);
        assert_int_equal(fake.levels, 2);
        assert_int_equal(fake.mtu[0], sizes[i]);
        assert_int_equal(fake.mtu[1], sizes[i]);
        settle();
        assert_int_equal(send_one(0, 1, SMALL, 0), 0);
        assert_int_equal(send_one(1, 0, SMALL, 0), 0);
        settle();
    }
}

/* Interfaces of other partitions are not used. Ethernet has only the default one. */
RC_TEST(partition)
{
    static const struct {
        bool ethernet, ok;
        uint16_t is, wanted;
    } cases[] = {{false, true, 0x8005, 5},      {false, true, 5, 0x8005}, {false, true, 0x8005, 0},
                 {false, false, 0x8005, 6},     {true, true, 0, 0xffff},  {true, true, 0, 0x7fff},
                 {true, false, 0x8005, 0x8005}, {true, true, 0, 0}};

    (void) tear_down(state);
    params.log = (btl_ib_log_t){.print = listen_to, .diagnostic = note_diagnostic};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fake_rdma_reset();
        forget_said();
        fake.ethernet = cases[i].ethernet;
        fake.pkey = cases[i].is;
        params.pkey = cases[i].wanted;
        assert_int_equal(try_open(0), cases[i].ok ? 0 : -ENOENT);
        assert_int_equal(diagnostics, cases[i].ok ? 0 : 1u << BTL_IB_DIAG_PARTITION);
        if (cases[i].ok) {
            sides[0].t->ops->close(sides[0].t);
            sides[0].t = NULL;
        }
    }
}

/* Parameters that other wires heed, and iWARP cannot. */
RC_TEST(ignored_parameters_are_told)
{
    (void) tear_down(state);
    fake_rdma_reset();
    forget_said();
    fake.iwarp = true;
    params.log.print = listen_to;
    open_side(0);
    assert_string_equal(said, "");
    params.pkey = 0x8005;
    params.service_level = 3;
    open_side(1);
    assert_non_null(strstr(said, "btl_ib_pkey, btl_ib_service_level and btl_ib_mtu mean nothing"));
    add(0, 1);
    connect_sides(0, 1, 0);
    assert_int_equal(fake.levels, 0);
}

UNIT_MAIN(NULL, NULL)
