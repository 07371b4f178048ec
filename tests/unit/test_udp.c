/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The transport `udp` over the loopback device: datagrams on their way, alone and joined. Beside
 * it: test_udp_devices.c, test_udp_socket.c (what opening comes to), test_udp_peers.c
 * (addresses), test_udp_path_mtu.c (what a path carries), test_udp_connected.c (connected
 * sockets), test_udp_errors.c.
 */

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#undef stop /* cmocka 2.0 has a macro of that name */

#include "transports.h"
#include "udp_calls.h"
#include "udp_inside.h"
#include "unit.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What the tests run over: each kernel can do less than the one before, or it is IPv6, or each
 * of the two has a socket for the other. */
typedef struct kernel {
    sa_family_t family;
    bool no_gso, no_gro;
    bool connected;
} kernel_t;

static kernel_t kernel;

static int all_joins(void **state)
{
    kernel = (kernel_t){.family = AF_INET};
    return 0;
}

static int no_gro(void **state)
{
    kernel = (kernel_t){.family = AF_INET, .no_gro = true};
    return 0;
}

static int no_joins(void **state)
{
    kernel = (kernel_t){.family = AF_INET, .no_gso = true, .no_gro = true};
    return 0;
}

static int ipv6(void **state)
{
    kernel = (kernel_t){.family = AF_INET6};
    return 0;
}

static int connected(void **state)
{
    kernel = (kernel_t){.family = AF_INET, .connected = true};
    return 0;
}

static int connected_ipv6(void **state)
{
    kernel = (kernel_t){.family = AF_INET6, .connected = true};
    return 0;
}

static void need(void)
{
    need_udp(kernel.family);
    calls.no_gso = kernel.no_gso;
    calls.no_gro = kernel.no_gro;
}

/* Whether the kernel joins datagrams to be sent. */
static bool joins(const pair_t *pair)
{
    return pair->a->attr.gso_bytes != 0;
}

static pair_t open_udp(void)
{
    btl_ib_open_params_t params = heard_params();

    params.connected_max = kernel.connected;
    const pair_t pair = open_pair(params);
    assert_true(!kernel.no_gso || !joins(&pair));
    if (kernel.connected) {
        make_connected(pair.a, pair.b_at_a, pair.b);
        make_connected(pair.b, pair.a_at_b, pair.a);
        assert_int_equal(udp_inside(pair.a).sockets, 2);
        assert_int_equal(udp_inside(pair.b).sockets, 2);
    }
    return pair;
}

/* How many datagrams of `size` bytes fit into a socket's buffer and a batch. */
static int room_for(const pair_t *pair, uint32_t size)
{
    const uint32_t depth = pair->b->ops->rx_depth(pair->b, size);

    return depth < BATCH_MAX ? (int) depth : BATCH_MAX;
}

static void make_batch(const pair_t *pair, btl_ib_tx_t *batch, const uint32_t *sizes, int n,
                       uint32_t pieces)
{
    for (int i = 0; i < n; i++) {
        const uint32_t niov = pieces < sizes[i] ? pieces : sizes[i];

        batch[i] = make_tx(pair->a, &pair->slots, (uint32_t) i, pair->b_at_a, sizes[i], niov);
    }
}

/* ---- sending ---- */

static void test_attributes(void **state)
{
    btl_ib_transport_attr_t attr;
    pair_t pair;

    need();
    assert_int_equal(bed.type->query(bed.device, 0, &attr), 0);
    pair = open_udp();
    const btl_ib_transport_attr_t *got = &pair.a->attr;
    assert_int_equal(got->max_datagram, attr.max_datagram);
    assert_int_equal(got->max_datagram % 8, 0);
    assert_in_range(got->max_datagram, 512, 15936);
    assert_int_equal(got->inline_size, got->max_datagram);
    assert_int_equal(got->max_iov, 3);
    assert_int_equal(got->max_batch, BATCH_MAX);
    assert_int_equal(got->headroom, 0);
    assert_true(got->knows_source && got->partial_poll);
    assert_false(got->reliable || got->rdma || got->registered_page > 0);
    assert_true(kernel.no_gso == !joins(&pair) || strstr(calls.heard, "does not join") != NULL);
    assert_true(!joins(&pair) || got->gso_bytes == 65487);
    assert_int_equal(got->rx_depth, pair.a->ops->rx_depth(pair.a, got->max_datagram));
    assert_string_equal(pair.a->name, "udp/lo");
    assert_in_range(pair.a->ops->wait_fd(pair.a), 0, INT32_MAX);
    close_pair(&pair);
}

/* Every size that there is, in batches of each width and in pieces. */
static void test_every_size(void **state)
{
    const uint32_t step = 7; /* no size that is rounded to a multiple of 8 is left out */
    uint32_t sizes[BATCH_MAX];
    btl_ib_tx_t batch[BATCH_MAX];
    pair_t pair;
    int width = 1;

    need();
    pair = open_udp();
    for (uint32_t size = 1; size <= pair.a->attr.max_datagram;) {
        const int room = room_for(&pair, size + BATCH_MAX * step);
        int n = 0;

        for (; n < width && n < room && size <= pair.a->attr.max_datagram; n++, size += step) {
            sizes[n] = size;
        }
        make_batch(&pair, batch, sizes, n, 1 + size % pair.a->attr.max_iov);
        exchange(&pair, batch, n, 1 + width % 5);
        width = width % BATCH_MAX + 1;
    }
    assert_idle(pair.a);
    assert_idle(pair.b);
    assert_int_equal(calls.worst, 10);
    close_pair(&pair);
}

/* `messages`: in how many a kernel that joins takes the batch, in one call for every 16. */
static const struct shape {
    uint32_t size, last; /* of the last one */
    int n;
    uint32_t pieces;
    uint32_t messages;
} shapes[] = {
    {1472, 1472, 1, 1, 1},  {1, 1, 64, 1, 1},       {8, 8, 64, 1, 1},       {13, 13, 64, 1, 1},
    {13, 1, 64, 1, 1},      {13, 12, 64, 2, 1},     {1000, 999, 2, 3, 1},   {999, 1000, 2, 3, 2},
    {1016, 1016, 64, 3, 1}, {1016, 1, 64, 3, 1},    {1023, 1023, 64, 1, 1}, {1024, 1024, 63, 1, 1},
    {1024, 1024, 64, 1, 2}, {1025, 1000, 64, 2, 2}, {2001, 2000, 40, 3, 2}, {7744, 7744, 8, 1, 1},
    {7744, 40, 17, 2, 3},   {7737, 7737, 14, 3, 2},
};

static void test_one_size(void **state)
{
    pair_t pair;

    need();
    pair = open_udp();
    for (size_t i = 0; i < COUNT(shapes); i++) {
        const struct shape *s = &shapes[i];
        uint32_t sizes[BATCH_MAX];
        btl_ib_tx_t batch[BATCH_MAX];

        if (s->size > pair.a->attr.max_datagram || s->n > room_for(&pair, s->size)) {
            print_message("skipped: %d datagrams of %u bytes: too many here\n", s->n, s->size);
            continue;
        }
        for (int j = 0; j < s->n; j++) {
            sizes[j] = j + 1 < s->n ? s->size : s->last;
        }
        for (int max = 1; max <= BATCH_MAX; max = 4 * max - 1) {
            make_batch(&pair, batch, sizes, s->n, s->pieces);
            calls.sends = calls.messages = calls.largest = calls.joined = calls.pieces = 0;
            exchange(&pair, batch, s->n, max);
            assert_int_equal(calls.messages, joins(&pair) ? s->messages : (uint32_t) s->n);
            assert_int_equal(calls.sends, (calls.messages + 15) / 16);
            if (s->size <= 2048) { /* gathered */
                assert_int_equal(calls.pieces, calls.joined);
            } else {
                assert_true(calls.pieces > calls.joined || !joins(&pair));
            }
            const uint32_t most = 65487 / s->size < BATCH_MAX ? 65487 / s->size : BATCH_MAX;
            if (joins(&pair) && s->last <= s->size && (uint32_t) s->n > most) {
                assert_int_equal(calls.largest, most * s->size); /* all but the last are full */
            }
        }
    }
    close_pair(&pair);
}

/* Groups of one size, datagrams of others between them, more than one call takes. */
static void test_mixed_sizes(void **state)
{
    static const uint32_t of[] = {100, 100, 100, 7, 8, 1400, 1400, 1399, 1400, 9};
    uint32_t sizes[BATCH_MAX];
    btl_ib_tx_t batch[BATCH_MAX];
    pair_t pair;

    need();
    pair = open_udp();
    for (int n = 1; n <= BATCH_MAX; n++) {
        for (int i = 0; i < n; i++) {
            sizes[i] = of[(size_t) (i * 7 + n) % COUNT(of)];
        }
        make_batch(&pair, batch, sizes, n, 1 + (uint32_t) n % 3);
        exchange(&pair, batch, n, BATCH_MAX);
    }
    for (int i = 0; i < BATCH_MAX; i++) { /* 32 groups: a shorter one ends each */
        sizes[i] = i % 2 == 0 ? 200 : 199;
    }
    make_batch(&pair, batch, sizes, BATCH_MAX, 3);
    calls.sends = calls.messages = 0;
    exchange(&pair, batch, BATCH_MAX, BATCH_MAX);
    assert_int_equal(calls.messages, joins(&pair) ? 32 : 64);
    assert_int_equal(calls.sends, joins(&pair) ? 2 : 4);
    close_pair(&pair);
}

/* Sends a batch of `n` datagrams, and demands that each arrives with the codepoint of its tx->ect,
 * if that is told (`told`). */
static void codepoints(const pair_t *pair, const btl_ib_tx_t *batch, int n, bool told)
{
    assert_int_equal(send_all(pair->a, batch, n), 0);
    for (int i = 0; i < n; i++) {
        const btl_ib_event_t event = wait_recv(pair->b);
        const uint32_t slot = assert_intact(&event);
        assert_int_equal(event.codepoint, told && batch[slot].ect ? BTL_IB_CODEPOINT_ECT0
                                                                  : BTL_IB_CODEPOINT_NOT_ECT);
        repost(pair->b, &event);
    }
}

/* The system is asked for codepoints once a datagram came that is long enough to have one. */
static void codepoints_are_asked_for(const pair_t *pair)
{
    static const uint32_t sizes[] = {BTL_IB_ECT_LEAST - 1, BTL_IB_ECT_LEAST, BTL_IB_ECT_LEAST - 1,
                                     BTL_IB_ECT_LEAST - 1};

    for (int i = 0; i < (int) COUNT(sizes); i++) {
        btl_ib_tx_t tx;
        make_batch(pair, &tx, &sizes[i], 1, 1);
        tx.ect = i % 2 == 0;
        codepoints(pair, &tx, 1, i > 0);
    }
}

/* A socket takes to the codepoint of what it sends: only the first have one of their own. */
static void codepoint_becomes_usual(const pair_t *pair)
{
    btl_ib_tx_t tx;

    for (int ect = 1; ect >= 0; ect--) {
        calls.joined = 0; /* that is: messages with anything beside their bytes */
        for (int i = 0; i < 20; i++) {
            make_batch(pair, &tx, &(uint32_t){600}, 1, 1);
            tx.ect = ect;
            codepoints(pair, &tx, 1, true);
        }
        assert_int_equal(calls.joined, 3);
    }
}

/* Alone, joined, and beside others of the same size; to a peer with a socket of its own as well. */
static void test_codepoints(void **state)
{
    for (int ecn = 0; ecn < 2; ecn++) {
        btl_ib_open_params_t params = heard_params();
        uint32_t sizes[16];
        btl_ib_tx_t batch[16];

        need();
        params.ecn = ecn;
        params.connected_max = kernel.connected;
        pair_t pair = open_pair(params);
        assert_int_equal(pair.a->attr.ecn, ecn);
        if (kernel.connected) {
            make_connected(pair.a, pair.b_at_a, pair.b);
        }
        if (ecn) {
            codepoints_are_asked_for(&pair);
            codepoint_becomes_usual(&pair);
        }
        for (int n = 1; n <= 16 && ecn; n++) {
            for (int shift = 0; shift < 5; shift++) {
                for (int i = 0; i < n; i++) {
                    sizes[i] = 600;
                }
                make_batch(&pair, batch, sizes, n, 1 + (uint32_t) n % 3);
                for (int i = 0; i < n; i++) {
                    batch[i].ect = (i + shift) / 3 % 2 != 0;
                }
                codepoints(&pair, batch, n, true);
            }
        }
        close_pair(&pair);
    }
}

/* Datagrams of one size to two peers in turn are not taken for a row. */
static void test_two_peers(void **state)
{
    uint32_t sizes[8];
    btl_ib_tx_t batch[8];
    btl_ib_transport_t *c;
    pair_t pair;

    need();
    pair = open_udp();
    c = open_with(heard_params());
    const btl_ib_addr_t c_at_a = add(pair.a, c);
    const btl_ib_addr_t a_at_c = add(c, pair.a);
    for (int i = 0; i < 8; i++) {
        sizes[i] = 500;
    }
    make_batch(&pair, batch, sizes, 8, 1);
    for (int i = 0; i < 8; i++) {
        batch[i].to = i % 4 < 2 ? pair.b_at_a : c_at_a;
    }
    assert_int_equal(send_all(pair.a, batch, 8), 0);
    for (uint32_t i = 0; i < 8; i++) {
        btl_ib_transport_t *at = i % 4 < 2 ? pair.b : c;
        const btl_ib_event_t event = wait_recv(at);

        assert_int_equal(assert_intact(&event), i);
        assert_int_equal(event.from, at == c ? a_at_c : pair.a_at_b);
        repost(at, &event);
    }
    assert_idle(pair.b);
    assert_idle(c);
    close_transport(c);
    close_pair(&pair);
}

/* ---- receiving ---- */

/* Send a row of 64 of `size` bytes. */
static void send_row(const pair_t *pair, uint32_t size)
{
    uint32_t sizes[BATCH_MAX];
    btl_ib_tx_t batch[BATCH_MAX];

    for (int i = 0; i < BATCH_MAX; i++) {
        sizes[i] = size;
    }
    make_batch(pair, batch, sizes, BATCH_MAX, 1);
    assert_int_equal(send_all(pair->a, batch, BATCH_MAX), 0);
}

/* What came joined is handed up in parts, and given back in any order, between polls and
 * after. What is held does not change meanwhile. */
static void test_parts(void **state)
{
    btl_ib_event_t held[3 * BATCH_MAX];
    pair_t pair;

    need();
    pair = open_udp();
    for (int part = 1; part < BATCH_MAX; part += 1 + part / 2) {
        int first = 0;
        int n = 0;

        for (int round = 0; round < 3; round++) {
            send_row(&pair, 500 + (uint32_t) part);
        }
        while (n < 3 * BATCH_MAX) {
            const int wanted = 3 * BATCH_MAX - n < part ? 3 * BATCH_MAX - n : part;
            const int got = poll_now(pair.b, held + n, wanted);

            n += got;
            if (got > 1) { /* the newest of these goes back before the others */
                repost(pair.b, &held[n - 1]);
                held[n - 1] = held[first];
                first++;
            }
        }
        for (int i = n - 1; i >= first; i--) {
            (void) assert_intact(&held[i]);
            assert_int_equal(held[i].from, pair.a_at_b);
        }
        for (int i = n - 1; i >= first; i -= 2) {
            repost(pair.b, &held[i]);
        }
        for (int i = n - 2; i >= first; i -= 2) {
            (void) assert_intact(&held[i]);
            repost(pair.b, &held[i]);
        }
        assert_int_equal(udp_inside(pair.b).unused, udp_inside(pair.b).buffers); /* each once */
    }
    assert_idle(pair.b);
    close_pair(&pair);
}

/* A buffer of which one datagram is still held is not used for others. */
static void test_buffers_are_held(void **state)
{
    btl_ib_event_t held[20];
    btl_ib_event_t event;
    pair_t pair;

    need();
    pair = open_udp();
    for (size_t round = 0; round < COUNT(held); round++) {
        send_row(&pair, 100 + (uint32_t) round);
        for (size_t i = 0; i < BATCH_MAX; i++) {
            event = wait_recv(pair.b);
            if (i == 3 * round % BATCH_MAX) {
                held[round] = event;
            } else {
                repost(pair.b, &event);
            }
        }
    }
    for (size_t round = 0; round < COUNT(held); round++) {
        assert_int_equal(held[round].size, 100 + round);
        (void) assert_intact(&held[round]);
        repost(pair.b, &held[round]);
    }
    close_pair(&pair);
}

/* While short messages come faster than one a call, a call takes more of them. */
static void test_many_a_call(void **state)
{
    btl_ib_event_t event;
    pair_t pair;

    need();
    pair = open_udp();
    calls.receives = 0;
    for (uint32_t i = 0; i < 100; i++) { /* alone, so that they are not joined */
        const btl_ib_tx_t tx = make_tx(pair.a, &pair.slots, 0, pair.b_at_a, 10 + i, 1);

        assert_int_equal(send_all(pair.a, &tx, 1), 0);
    }
    for (uint32_t i = 0; i < 100; i++) {
        event = wait_recv(pair.b);
        assert_int_equal(event.size, 10 + i);
        (void) assert_intact(&event);
        repost(pair.b, &event);
    }
    assert_in_range(calls.receives, 7, kernel.connected ? 45 : 15); /* of 1, 2, 4, 8, 16... */
    assert_idle(pair.b);
    close_pair(&pair);
}

/* A peer that becomes known is so for what comes after, even out of the same buffer. */
static void test_becomes_known(void **state)
{
    btl_ib_event_t event;
    pair_t pair;

    need();
    pair = open_udp();
    pair.b->ops->addr_remove(pair.b, pair.a_at_b);
    send_row(&pair, 300);
    for (int i = 0; i < BATCH_MAX; i++) {
        if (i == 10) {
            pair.a_at_b = add(pair.b, pair.a);
        }
        event = wait_recv(pair.b);
        assert_int_equal(event.from, i < 10 ? BTL_IB_ADDR_UNKNOWN : pair.a_at_b);
        (void) assert_intact(&event);
        repost(pair.b, &event);
    }
    close_pair(&pair);
}

static int plain_socket(const btl_ib_transport_t *to)
{
    const btl_ib_udp_name_t name = udp_name(to);
    const int fd = socket(name.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_in_range(fd, 0, INT32_MAX);
    assert_int_equal(connect(fd, &name.any, btl_ib_udp_name_len(&name)), 0);
    return fd;
}

/* Datagrams that no transport of ours sends, more of them than there are buffers: those too
 * large are dropped, and none costs a buffer. */
static void test_strange_sizes(void **state)
{
    static const size_t sizes[] = {0, 1, 65487, 0, 301, 2000, 0, 9000, 300, 302};
    static char data[65507];
    btl_ib_open_params_t params = heard_params();
    btl_ib_event_t event;
    pair_t pair;
    int got = 0;

    need();
    params.rx_size = 300;
    pair = open_pair(params);
    const int fd = plain_socket(pair.b);
    for (size_t i = 0; i < 2 * UDP_BUFFERS_MAX; i++) {
        assert_int_equal(send(fd, data, sizes[i % COUNT(sizes)], 0), sizes[i % COUNT(sizes)]);
        for (int looks = 0; looks < 2; looks++) {
            while (poll_now(pair.b, &event, 1) > 0) {
                assert_int_equal(event.type, BTL_IB_EVENT_RECV);
                assert_true(event.size == 0 || event.size == 1 || event.size == 300);
                assert_int_equal(event.from, BTL_IB_ADDR_UNKNOWN);
                got += event.size > 0;
                repost(pair.b, &event);
            }
        }
    }
    close(fd);
    assert_in_range(got, 400, 420); /* two of ten */
    assert_non_null(strstr(calls.heard, "too large"));
    for (uint32_t size = 290; size <= 300; size++) {
        assert_reaches(pair.a, pair.b_at_a, pair.b, size);
    }
    assert_in_range(udp_inside(pair.b).buffers, 1, 16);
    close_pair(&pair);
}

/* Nobody gives anything back: at some point it takes no more, and goes on when there is
 * something. */
static void test_all_held(void **state)
{
    static btl_ib_event_t held[UDP_BUFFERS_MAX];
    btl_ib_event_t event;
    pair_t pair;

    need();
    pair = open_udp();
    for (size_t i = 0; i < COUNT(held); i++) {
        const btl_ib_tx_t tx =
            make_tx(pair.a, &pair.slots, 0, pair.b_at_a, 1 + (uint32_t) i % 500, 1);

        assert_int_equal(send_all(pair.a, &tx, 1), 0);
        held[i] = wait_recv(pair.b);
    }
    send_row(&pair, 500);
    assert_idle(pair.b);
    repost(pair.b, &held[0]);
    for (int i = 0; i < BATCH_MAX; i++) {
        event = wait_recv(pair.b);
        assert_int_equal(assert_intact(&event), i);
        repost(pair.b, &event);
    }
    for (size_t i = 1; i < COUNT(held); i++) {
        (void) assert_intact(&held[i]);
        repost(pair.b, &held[i]);
    }
    close_pair(&pair);
}

/* Stop and close with everything under way: datagrams not polled, handed up in part, not given
 * back. Valgrind and the sanitizers see whether anything is left. */
static void test_close_under_way(void **state)
{
    need();
    for (int polled = 0; polled < 3 * BATCH_MAX; polled += 37) {
        pair_t pair = open_udp();
        btl_ib_event_t event;

        for (int round = 0; round < 3; round++) {
            send_row(&pair, 400 + (uint32_t) polled);
        }
        for (int i = 0; i < polled; i++) {
            event = wait_recv(pair.b);
            (void) assert_intact(&event);
            if (i % 3 == 0) {
                repost(pair.b, &event);
            }
        }
        pair.b->ops->stop(pair.b);
        assert_int_equal(pair.b->ops->wait_fd(pair.b), -1);
        if (polled > 0) {
            (void) assert_intact(&event);
        }
        pair.b->ops->close(pair.b);
        free_slots(pair.a, &pair.slots);
        close_transport(pair.a);
    }
}

#define TESTS                                                                                      \
    cmocka_unit_test(test_attributes), cmocka_unit_test(test_every_size),                          \
        cmocka_unit_test(test_one_size), cmocka_unit_test(test_mixed_sizes),                       \
        cmocka_unit_test(test_two_peers), cmocka_unit_test(test_parts),                            \
        cmocka_unit_test(test_codepoints), cmocka_unit_test(test_buffers_are_held),                \
        cmocka_unit_test(test_many_a_call), cmocka_unit_test(test_becomes_known),                  \
        cmocka_unit_test(test_strange_sizes), cmocka_unit_test(test_all_held),                     \
        cmocka_unit_test(test_close_under_way)

int main(void)
{
    const struct CMUnitTest with_all[] = {TESTS};
    const struct CMUnitTest without_gro[] = {TESTS};
    const struct CMUnitTest without_joins[] = {TESTS};
    const struct CMUnitTest with_ipv6[] = {TESTS};
    const struct CMUnitTest with_sockets[] = {TESTS};
    const struct CMUnitTest with_sockets_ipv6[] = {TESTS};

    return cmocka_run_group_tests(with_all, all_joins, free_devices)
           + cmocka_run_group_tests(without_gro, no_gro, free_devices)
           + cmocka_run_group_tests(without_joins, no_joins, free_devices)
           + cmocka_run_group_tests(with_ipv6, ipv6, free_devices)
           + cmocka_run_group_tests(with_sockets, connected, free_devices)
           + cmocka_run_group_tests(with_sockets_ipv6, connected_ipv6, free_devices);
}
