/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The transport `ofi` over libfabric's udp provider on the loopback device: what transport.h
 * promises, on a fabric that doesn't lose as long as we poll.
 */

#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#undef stop /* cmocka 2.0 has a macro of that name */

#if defined(BTL_IB_OFI_FILE)
#define CAN_CUT_INLINE 1
#include <rdma/fabric.h>
#else
#define CAN_CUT_INLINE 0
#endif

#include "transports.h"
#include "unit.h"

#define ADDRESS_HEAD 2 /* of an address of ofi: what is before the sockaddr */

/* ---- a provider that sends less inline than udp does ---- */

/* udp takes a copy of everything, others (efa, verbs) of next to nothing: we run the tests again
 * with a provider that takes up to so many bytes. */
#define FEW_BYTES 64

static size_t inline_most = SIZE_MAX;

#if CAN_CUT_INLINE
/* Stands before that of libfabric. */
__attribute__((visibility("default"))) int fi_getinfo(uint32_t version, const char *node,
                                                      const char *service, uint64_t flags,
                                                      const struct fi_info *hints,
                                                      struct fi_info **list)
{
    int (*original)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
                    struct fi_info **);
    int rc;

    void *library = dlopen(BTL_IB_OFI_FILE, RTLD_LAZY); /* loaded already */
    assert_non_null(library);
    *(void **) (void *) &original = dlsym(library, "fi_getinfo");
    assert_non_null(original);
    rc = original(version, node, service, flags, hints, list);
    for (struct fi_info *info = rc == 0 ? *list : NULL; info != NULL; info = info->next) {
        if (info->tx_attr->inject_size > inline_most) {
            info->tx_attr->inject_size = inline_most;
        }
    }
    return rc;
}
#endif

/* ---- helpers ---- */

static int find_ofi(void **state)
{
    find_device("ofi", "udp", AF_UNSPEC);
    return 0;
}

static int find_device_few_inline(void **state)
{
    inline_most = FEW_BYTES;
    return find_ofi(state);
}

static void need_device(void)
{
    if (bed.type == NULL) {
        print_message("skipped: built without libfabric\n");
    } else if (bed.device_count <= 0) {
        print_message("skipped: libfabric has no provider udp here\n");
    } else if (bed.device == NULL) {
        print_message("skipped: provider udp offers no loopback device\n");
    } else {
        return;
    }
    skip();
}

/* ---- tests ---- */

static void test_attributes(void **state)
{
    btl_ib_transport_attr_t attr;
    btl_ib_transport_t *t;

    need_device();
    assert_string_equal(bed.device->transport, "ofi");
    assert_string_equal(bed.device->provider, "udp");
    assert_true(bed.device->ip.ss_family == AF_INET || bed.device->ip.ss_family == AF_INET6);
    assert_int_equal(bed.type->query(bed.device, 500, &attr), 0);
    assert_int_equal(attr.max_datagram, 500);
    assert_int_equal(bed.type->query(bed.device, 0, &attr), 0);
    t = open_with((btl_ib_open_params_t){.rx_depth = 8, .tx_depth = 4});
    assert_int_equal(t->attr.max_datagram, attr.max_datagram);
    assert_int_equal(t->attr.inline_size, attr.inline_size);
    assert_int_equal(t->attr.headroom, attr.headroom);
    assert_int_equal(t->attr.max_iov, attr.max_iov);
    assert_int_equal(t->attr.registered_page, attr.registered_page);
    assert_in_range(t->attr.max_datagram, 512, 65507);
    assert_in_range(t->attr.max_iov, 1, 3);
    assert_in_range(t->attr.max_batch, 1, UINT32_MAX);
    assert_in_range(t->attr.rx_depth, 1, 8);
    assert_in_range(t->attr.tx_depth, 1, 4);
    assert_in_range(t->address_len, 1, BTL_IB_ADDR_BYTES);
    assert_true(t->attr.knows_source);
    assert_false(t->attr.reliable);
    assert_non_null(strstr(t->name, bed.device->name));
    close_transport(t);
}

/* A provider that doesn't exist is no error, only nothing to open. */
static void test_no_such_provider(void **state)
{
    const btl_ib_log_t log = {.print = NULL};
    btl_ib_device_t *list = NULL;

    need_device();
    assert_int_equal(
        bed.type->devices(&(btl_ib_search_t){.provider = "no_such_provider", .log = log}, &list),
        0);
    bed.type->devices_free(list, 0);
}

/* With the port, as far as it is an address of IP; what it is else only the provider knows. */
static void test_address_text(void **state)
{
    uint8_t bytes[BTL_IB_ADDR_BYTES] = {1, (uint8_t) FI_SOCKADDR_IN};
    const struct sockaddr_in v4 = {
        .sin_family = AF_INET, .sin_port = htons(5123), .sin_addr.s_addr = htonl(0x0a000001)};
    const struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(80), .sin6_addr.s6_addr = {0xfd, [15] = 7}};
    char text[64];
    pair_t pair;

    need_device();
    pair = open_pair((btl_ib_open_params_t){.rx_depth = 8});
    memcpy(bytes + ADDRESS_HEAD, &v4, sizeof(v4));
    assert_true(pair.a->ops->address_text(bytes, ADDRESS_HEAD + sizeof(v4), text, sizeof(text)));
    assert_string_equal(text, "10.0.0.1:5123");
    assert_false(pair.a->ops->address_text(bytes, ADDRESS_HEAD + sizeof(v6), text, sizeof(text)));
    bytes[1] = (uint8_t) FI_SOCKADDR_IN6;
    memcpy(bytes + ADDRESS_HEAD, &v6, sizeof(v6));
    assert_true(pair.a->ops->address_text(bytes, ADDRESS_HEAD + sizeof(v6), text, sizeof(text)));
    assert_string_equal(text, "[fd00::7]:80");
    bytes[1] = (uint8_t) FI_ADDR_EFA;
    assert_false(pair.a->ops->address_text(bytes, ADDRESS_HEAD + sizeof(v6), text, sizeof(text)));
    close_pair(&pair);
}

static void test_garbage_address(void **state)
{
    pair_t pair;
    uint8_t bytes[BTL_IB_ADDR_BYTES + 1] = {0};
    char text[64];
    btl_ib_addr_t addr;
    uint32_t len;

    need_device();
    pair = open_pair((btl_ib_open_params_t){.rx_depth = 8});
    len = pair.b->address_len;
    for (uint32_t wrong = 0; wrong <= BTL_IB_ADDR_BYTES + 1; wrong++) {
        memcpy(bytes, pair.b->address, BTL_IB_ADDR_BYTES);
        if (wrong != len) {
            assert_int_equal(pair.a->ops->addr_add(pair.a, bytes, wrong, &addr), -EINVAL);
        }
    }
    assert_int_equal(pair.a->ops->addr_add(pair.a, NULL, 0, &addr), -EINVAL);
    assert_false(pair.a->ops->address_text(bytes, 0, text, sizeof(text)));
    assert_false(pair.a->ops->address_text(bytes, len + 1, text, sizeof(text)));
    /* Version, format of the address, its family. */
    for (uint32_t at = 0; at < ADDRESS_HEAD + sizeof(sa_family_t); at++) {
        for (unsigned flip = 1; flip < 256; flip++) {
            memcpy(bytes, pair.b->address, len);
            bytes[at] ^= (uint8_t) flip;
            assert_int_equal(pair.a->ops->addr_add(pair.a, bytes, len, &addr), -EINVAL);
        }
    }
    for (unsigned fill = 0; fill < 256; fill += 51) {
        memset(bytes, (int) fill, sizeof(bytes));
        assert_int_equal(pair.a->ops->addr_add(pair.a, bytes, len, &addr), -EINVAL);
    }
    assert_reaches(pair.a, pair.b_at_a, pair.b, 100);
    close_pair(&pair);
}

/* What is before it goes, what is behind it waits. */
static void test_oversize(void **state)
{
    pair_t pair;
    btl_ib_tx_t batch[3];
    btl_ib_event_t event;
    int error = 0;

    need_device();
    pair = open_pair((btl_ib_open_params_t){.rx_depth = 8});
    for (uint32_t i = 0; i < 3; i++) {
        batch[i] = make_tx(pair.a, &pair.slots, i, pair.b_at_a, 10 + i, 1);
    }
    batch[1] = make_tx(pair.a, &pair.slots, 1, pair.b_at_a, pair.a->attr.max_datagram + 1, 1);
    assert_int_equal(pair.a->ops->send(pair.a, batch, 3, &error), 1);
    assert_int_equal(error, EMSGSIZE);
    error = 0;
    assert_int_equal(pair.a->ops->send(pair.a, batch + 1, 2, &error), 0);
    assert_int_equal(error, EMSGSIZE);
    event = wait_recv(pair.b);
    assert_int_equal(event.size, 10);
    assert_intact(&event);
    repost(pair.b, &event);
    usleep(2000);
    assert_idle(pair.b);
    assert_reaches(pair.a, pair.b_at_a, pair.b, pair.a->attr.max_datagram);
    close_pair(&pair);
}

static void test_duplicate_address(void **state)
{
    pair_t pair;
    btl_ib_addr_t again;

    need_device();
    pair = open_pair((btl_ib_open_params_t){.rx_depth = 8});
    again = add(pair.a, pair.b);
    assert_reaches(pair.a, pair.b_at_a, pair.b, 100);
    assert_reaches(pair.a, again, pair.b, 101);
    /* A caller that took one of them back still has the other. */
    pair.a->ops->addr_remove(pair.a, pair.b_at_a);
    assert_reaches(pair.a, again, pair.b, 102);
    assert_int_equal(assert_reaches(pair.b, pair.a_at_b, pair.a, 103), again);
    pair.a->ops->addr_remove(pair.a, again);
    assert_int_equal(assert_reaches(pair.b, pair.a_at_b, pair.a, 104), BTL_IB_ADDR_UNKNOWN);
    pair.b_at_a = add(pair.a, pair.b);
    assert_reaches(pair.a, pair.b_at_a, pair.b, 105);
    close_pair(&pair);
}

/* From someone whose address was not added: it arrives, and its source is not mistaken. */
static void test_unknown_sender(void **state)
{
    pair_t pair;
    btl_ib_transport_t *unknown;
    btl_ib_tx_t tx;
    btl_ib_event_t event;
    slots_t slots;

    need_device();
    pair = open_pair((btl_ib_open_params_t){.rx_depth = 8});
    unknown = open_with((btl_ib_open_params_t){.rx_depth = 8});
    slots = make_slots(unknown);
    tx = make_tx(unknown, &slots, 0, add(unknown, pair.b), 77, 1);
    (void) send_all(unknown, &tx, 1);
    event = wait_recv(pair.b);
    assert_int_equal(event.size, 77);
    assert_intact(&event);
    assert_int_equal(event.from, BTL_IB_ADDR_UNKNOWN);
    repost(pair.b, &event);
    unknown->ops->stop(unknown);
    free_slots(unknown, &slots);
    unknown->ops->close(unknown);
    assert_reaches(pair.a, pair.b_at_a, pair.b, 100);
    close_pair(&pair);
}

static int plain_socket(const btl_ib_transport_t *to)
{
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
    const socklen_t len = to->address_len - ADDRESS_HEAD;
    int fd;

    memcpy(&peer, to->address + ADDRESS_HEAD, len);
    fd = socket(peer.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_in_range(fd, 0, INT32_MAX);
    assert_int_equal(connect(fd, (struct sockaddr *) &peer, len), 0);
    return fd;
}

/* Datagrams that no transport of ours sends, more of them than there are buffers: none costs a
 * buffer or the device, and none is longer than its buffer. */
static void test_strange_sizes(void **state)
{
    static const size_t sizes[] = {0, 1, 65507, 0, 1473, 2000, 0, 9000, 300, 301};
    static char data[65507];
    btl_ib_event_t event;
    pair_t pair;
    int fd;

    need_device();
    pair = open_pair((btl_ib_open_params_t){.rx_depth = 4, .rx_size = 300});
    fd = plain_socket(pair.b);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        assert_int_equal(send(fd, data, sizes[i], 0), sizes[i]);
        while (pair.b->ops->poll(pair.b, 0, &event, 1) > 0) {
            assert_int_equal(event.type, BTL_IB_EVENT_RECV);
            assert_in_range(event.size, 0, 300);
            repost(pair.b, &event);
        }
    }
    close(fd);
    for (uint32_t size = 290; size <= 300; size++) {
        assert_reaches(pair.a, pair.b_at_a, pair.b, size);
    }
    close_pair(&pair);
}

/* A buffer is the receiver's until it gives it back, however many datagrams come. */
static void test_buffers_are_held(void **state)
{
    enum { DEPTH = 4 };
    pair_t pair;
    btl_ib_event_t held[DEPTH];
    btl_ib_tx_t batch[DEPTH];

    need_device();
    pair = open_pair((btl_ib_open_params_t){.rx_depth = DEPTH});
    assert_int_equal(pair.b->attr.rx_depth, DEPTH);
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < DEPTH; i++) {
            batch[i] = make_tx(pair.a, &pair.slots, i, pair.b_at_a, 1 + round * DEPTH + i, 1);
        }
        (void) send_all(pair.a, batch, DEPTH);
        for (uint32_t i = 0; i < DEPTH; i++) {
            if (round > 0) { /* one at a time: the other three are still the last round's */
                assert_int_equal(held[i].size, 1 + (round - 1) * DEPTH + i);
                assert_intact(&held[i]);
                repost(pair.b, &held[i]);
            }
            held[i] = wait_recv(pair.b);
            assert_int_equal(held[i].size, 1 + round * DEPTH + i);
            assert_intact(&held[i]);
        }
        assert_idle(pair.b);
    }
    close_pair(&pair);
}

/* Out of room for sends: it says EAGAIN, and goes on once it was polled. */
static void test_tx_depth(void **state)
{
    enum { DEPTH = 4, N = 16 };
    pair_t pair;
    btl_ib_tx_t batch[N];
    btl_ib_event_t event;
    uint32_t size;
    int error = 0;

    need_device();
    if (!CAN_CUT_INLINE) {
        print_message("skipped: udp sends all inline, and no header of libfabric to change that\n");
        skip();
    }
    pair = open_pair((btl_ib_open_params_t){.rx_depth = BATCH_MAX, .tx_depth = DEPTH});
    size = pair.a->attr.inline_size + 1;
    assert_int_equal(size, FEW_BYTES + 1);
    for (uint32_t i = 0; i < N; i++) {
        batch[i] = make_tx(pair.a, &pair.slots, i, pair.b_at_a, size + i, 1);
    }
    for (int round = 0; round < 3; round++) {
        assert_int_equal(pair.a->ops->send(pair.a, batch, N, &error), DEPTH);
        assert_int_equal(error, EAGAIN);
        for (int i = 0; i < DEPTH; i++) {
            event = wait_event(pair.a);
            assert_int_equal(event.type, BTL_IB_EVENT_SENT);
            event = wait_recv(pair.b);
            assert_int_equal(event.size, size + (uint32_t) i);
            repost(pair.b, &event);
        }
    }
    exchange(&pair, batch, N, 1);
    close_pair(&pair);
}

/* Returns how many datagrams `b` is handed before a command that came after BULK long ones. */
static uint32_t place_of_command(btl_ib_open_channels_t channels, bool cq_own)
{
    enum { BULK = 40 };
    const btl_ib_open_params_t params = {
        .queue_count = 2,
        .queue = {{.size = 256, .num = 2 * BULK}, {.size = 1400, .num = 2 * BULK}},
        .rx_depth = 4 * BULK,
        .channels = channels,
        .cq_own = cq_own,
    };
    pair_t pair = open_pair(params);
    btl_ib_tx_t batch[BULK + 1];
    uint32_t before = 0;

    for (uint32_t i = 0; i <= BULK; i++) {
        batch[i] = make_tx(pair.a, &pair.slots, i, pair.b_at_a, i < BULK ? 1200 : 50, 1);
        batch[i].channel = i < BULK ? 1 : 0;
    }
    (void) send_all(pair.a, batch, BULK + 1);
    usleep(2000);
    for (uint32_t i = 0; i <= BULK; i++) {
        const btl_ib_event_t event = wait_recv(pair.b);

        assert_int_equal(event.from, pair.a_at_b);
        before += event.size == 1200 && before == i;
        assert_int_equal(assert_intact(&event) == BULK, event.size == 50);
        repost(pair.b, &event);
    }
    close_pair(&pair);
    return before;
}

/* A command waits for all bulk that came before it where they share an endpoint, and for next to
 * none where it has its own; for none if that has a completion queue of its own. */
static void test_command_and_bulk(void **state)
{
    need_device();
    assert_int_equal(place_of_command(BTL_IB_CHANNELS_SHARED, false), 40);
    assert_in_range(place_of_command(BTL_IB_CHANNELS_OWN, false), 0, 2);
    assert_int_equal(place_of_command(BTL_IB_CHANNELS_OWN, true), 0);
}

/* Stop and close with everything under way: sends not collected, datagrams not polled, buffers not
 * given back. The memory of the sends goes between the two. */
static void test_close_under_way(void **state)
{
    btl_ib_tx_t batch[BATCH_MAX];
    int error = 0;

    need_device();
    for (uint32_t polled = 0; polled < 4; polled++) {
        pair_t pair = open_pair((btl_ib_open_params_t){.rx_depth = 16});

        for (uint32_t i = 0; i < BATCH_MAX; i++) {
            batch[i] = make_tx(pair.a, &pair.slots, i, pair.b_at_a, pair.a->attr.max_datagram, 1);
        }
        assert_in_range(pair.a->ops->send(pair.a, batch, BATCH_MAX, &error), 1, BATCH_MAX);
        for (uint32_t i = 0; i < polled; i++) {
            btl_ib_event_t event = wait_recv(pair.b);

            assert_intact(&event);
        }
        close_pair(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attributes),       cmocka_unit_test(test_no_such_provider),
        cmocka_unit_test(test_address_text),     cmocka_unit_test(test_garbage_address),
        cmocka_unit_test(test_oversize),         cmocka_unit_test(test_duplicate_address),
        cmocka_unit_test(test_unknown_sender),   cmocka_unit_test(test_strange_sizes),
        cmocka_unit_test(test_buffers_are_held), cmocka_unit_test(test_close_under_way),
        cmocka_unit_test(test_command_and_bulk),
    };
    const struct CMUnitTest few_inline[] = {
        cmocka_unit_test(test_attributes),       cmocka_unit_test(test_oversize),
        cmocka_unit_test(test_buffers_are_held), cmocka_unit_test(test_tx_depth),
        cmocka_unit_test(test_close_under_way),
    };

    return cmocka_run_group_tests(tests, find_ofi, free_devices)
           + cmocka_run_group_tests(few_inline, find_device_few_inline, free_devices);
}
