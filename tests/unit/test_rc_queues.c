/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport "verbs" over RC: each number of a receive queue governs what is posted. Side 0 sends to
 * side 1 on channel 1. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_rdma_state.h"
#include "rc_sides.h"
#include "unit.h"

enum { MESSAGES = 200 };

static char last[512]; /* line of the log about queues, or a port */
static int told_empty; /* lines that say so */

__attribute__((format(printf, 3, 4))) static void listen_closely(void *context, int level,
                                                                 const char *format, ...)
{
    va_list args;

    (void) context;
    if (strstr(format, "operations by the device") != NULL) {
        return;
    }
    va_start(args, format);
    vsnprintf(last, sizeof(last), format, args);
    va_end(args);
    told_empty += level == 1 && strstr(last, "had none of its") != NULL;
}

/* Both sides have that queue for channel 1. */
static void open_with_queue(btl_ib_open_queue_t queue)
{
    (void) tear_down(NULL);
    fake_rdma_reset();
    queue.size = SIZE_1;
    params.queue[1] = queue;
    params.log = (btl_ib_log_t){.print = listen_closely};
    open_side(0);
    open_side(1);
    add(0, 1);
    add(1, 0);
}

static uint32_t posted_shared(void)
{
    return fake_rdma_posted(rc_srq(sides[1].t, 1));
}

static uint32_t posted_own(void)
{
    return fake_rdma_posted_own(conn_of(1, 0, 1).qp);
}

/* What was seen while messages came one at a time. */
typedef struct seen {
    uint32_t least, most; /* buffers posted */
    int refills;
    uint32_t batch; /* posted by the largest of them */
    uint32_t told;  /* credit words */
} seen_t;

static seen_t watch_messages(uint32_t (*posted)(void))
{
    const uint32_t writes = fake.writes;
    seen_t seen = {.least = posted(), .most = posted()};

    for (int i = 0; i < MESSAGES; i++) {
        const uint32_t before = posted();
        assert_int_equal(send_one(0, 1, LONG, 1), 0);
        look(0);
        look(1);
        const uint32_t now = posted();
        seen.least = now < seen.least ? now : seen.least;
        seen.most = now > seen.most ? now : seen.most;
        if (now >= before) { /* one of these took its place */
            seen.refills++;
            seen.batch = now - before + 1 > seen.batch ? now - before + 1 : seen.batch;
        }
    }
    seen.told = fake.writes - writes;
    return seen;
}

/* P: `num` buffers, `reserve` more, and one for the message that opens a connection. */
RC_TEST(num_and_reserve)
{
    for (uint32_t reserve = 0; reserve < 20; reserve += 9) {
        open_with_queue((btl_ib_open_queue_t){.num = 24, .reserve = reserve, .low = 23});
        connect_sides(0, 1, 1);
        assert_int_equal(posted_own(), 24 + reserve + 1);
    }
}

/* Sends until nothing more goes. Returns how many went. */
static uint32_t send_all(uint8_t channel, uint32_t spare)
{
    uint32_t n = 0;

    sides[0].spare = spare;
    while (send_one(0, 1, SMALL, channel) == 0) {
        n++;
    }
    return n;
}

/* P: data leave the reserve of the first queue to control traffic, which goes by that. A peer that
 * has filled the rest is told at once what is posted again, though less than a batch is. */
RC_TEST(data_leave_the_reserve)
{
    enum { FEW = 8, KEPT = 5 };

    params.queue[0] =
        (btl_ib_open_queue_t){.size = SIZE_0, .num = FEW, .reserve = KEPT, .low = 7, .window = 6};
    open_with_queue((btl_ib_open_queue_t){.num = FEW, .low = 7, .window = 6});
    connect_sides(0, 1, 0);
    (void) send_one(0, 1, SMALL, 1);
    settle();
    for (int i = 0; i < 20; i++) {
        assert_in_range(send_all(0, KEPT), 1, FEW + 1);
        assert_int_equal(send_all(0, KEPT), 0);
        assert_int_equal(send_all(0, 0), KEPT); /* what needs no credit */
        settle();
        assert_in_range(send_all(0, KEPT), FEW - 1, FEW + 1);
        settle();
    }
    assert_in_range(send_all(1, KEPT), FEW - 1, FEW + 1); /* no other queue has a reserve */
    assert_int_equal(send_all(1, 0), 0);
    settle();
    assert_int_equal(sides[1].disorder, 0);
    assert_int_equal(sides[1].received, sides[0].next);
    params.queue[0].window = FEW + KEPT;
    open_with_queue((btl_ib_open_queue_t){.num = FEW});
    connect_sides(0, 1, 0);
    for (int i = 0; i < 20; i++) { /* there is no control traffic that would use it up */
        assert_in_range(send_all(0, KEPT), 1, FEW + 1);
        settle();
    }
    assert_int_equal(sides[1].received, sides[0].next);
    assert_int_equal(sides[0].broken + sides[1].broken, 0);
}

/* P: posted again in one batch when `low` of `num` are left; the reserve is no part of these. */
RC_TEST(low_of_a_peer)
{
    static const uint32_t lows[] = {1, 4, 15, 23};

    for (size_t i = 0; i < sizeof(lows) / sizeof(lows[0]); i++) {
        open_with_queue(
            (btl_ib_open_queue_t){.num = 24, .reserve = 5, .low = lows[i], .window = 1});
        connect_sides(0, 1, 1);
        const seen_t seen = watch_messages(posted_own);
        assert_int_equal(seen.batch, 24 - lows[i]);
        assert_in_range(seen.most, 24 + 6 - 1, 24 + 6); /* the next message came with it */
        assert_int_equal(seen.least, lows[i] + 6);
        assert_in_range(seen.refills, MESSAGES / (24 - lows[i]) - 1, MESSAGES / (24 - lows[i]) + 1);
        assert_int_equal(seen.told, seen.refills); /* window is less than any batch */
    }
}

/* P: the sender is told when `window` are posted again. */
RC_TEST(window_of_a_peer)
{
    for (uint32_t window = 1; window < 20; window += 6) {
        open_with_queue(
            (btl_ib_open_queue_t){.num = 24, .reserve = 5, .low = 23, .window = window});
        connect_sides(0, 1, 1);
        const seen_t seen = watch_messages(posted_own);
        assert_in_range(seen.told, MESSAGES / window - 1, MESSAGES / window + 1);
    }
}

/* Whatever the numbers are, and however long buffers are held: a peer that gave all back is sent to
 * again. */
RC_TEST(no_standstill)
{
    srand(1);
    for (int round = 0; round < 60; round++) {
        side_t *side = &sides[1];
        open_with_queue((btl_ib_open_queue_t){.num = 2 + (uint32_t) rand() % 30,
                                              .reserve = (uint32_t) rand() % 8,
                                              .low = 1 + (uint32_t) rand() % 30,
                                              .window = 1 + (uint32_t) rand() % 30});
        connect_sides(0, 1, 1);
        side->keeps = true;
        for (int i = 0; i < 300; i++) {
            (void) send_one(0, 1, LONG, 1);
            look(0);
            look(1);
            const int back = rand() % 4 == 0 ? rand() % (side->held_count + 1) : 0;
            side->t->ops->repost(side->t, side->held, back);
            side->held_count -= back;
            memmove(side->held, side->held + back,
                    (size_t) side->held_count * sizeof(side->held[0]));
        }
        side->t->ops->repost(side->t, side->held, side->held_count);
        side->held_count = 0;
        side->keeps = false;
        settle();
        const int received = side->received;
        for (int i = 0; i < MESSAGES; i++) {
            assert_int_equal(send_one(0, 1, LONG, 1), 0);
            settle();
        }
        assert_int_equal(side->received, received + MESSAGES);
        assert_int_equal(side->disorder, 0);
    }
}

/* Senders ask again soon where a peer's buffers may have run out, which only shared ones can;
 * rdma_cm would leave it at 655 ms. */
RC_TEST(senders_ask_again_soon)
{
    params.rc.rnr_timer = 9;
    for (int shared = 0; shared < 2; shared++) {
        open_with_queue((btl_ib_open_queue_t){.num = 40, .shared = shared == 1});
        connect_sides(0, 1, 1);
        assert_int_equal(fake.rnr_timer, shared == 1 ? 9 : 0);
    }
}

/* S: `init` at first; with fewer than `limit` posted twice as many, up to `num`, and memory with
 * them. */
RC_TEST(init_and_limit)
{
    static const uint32_t made[] = {6, 12, 24, 40};

    open_with_queue(
        (btl_ib_open_queue_t){.num = 40, .shared = true, .low = 30, .init = 6, .limit = 3});
    assert_int_equal(posted_shared(), 6);
    const size_t bytes = fake.mr_bytes;
    connect_sides(0, 1, 1);
    sides[1].keeps = true; /* so that none is posted again */
    for (size_t i = 0; i < 3; i++) {
        while (posted_shared() > 3) {
            assert_int_equal(send_one(0, 1, LONG, 1), 0);
            settle();
        }
        assert_int_equal(fake_unheard(), 0);
        assert_int_equal(send_one(0, 1, LONG, 1), 0);
        assert_int_equal(posted_shared(), 2);
        assert_int_equal(fake_unheard(), 1);
        settle();
        assert_int_equal(posted_shared(), 2 + made[i + 1] - made[i]);
    }
    assert_true(fake.mr_bytes - bytes >= (size_t) 2 * 34 * SIZE_1 / 2); /* of side 1 */
    while (posted_shared() > 1) {
        assert_int_equal(send_one(0, 1, LONG, 1), 0);
        settle();
    }
    assert_int_equal(fake_unheard(), 0); /* there are no more */
    sides[1].t->ops->repost(sides[1].t, sides[1].held, sides[1].held_count);
    assert_int_equal(posted_shared(), 40);
    close_side(1);
    assert_non_null(strstr(last, "queue 2 (S): 40 buffers"));
    assert_non_null(strstr(last, "doubled 3 times"));
}

/* S: while there are only some of the buffers they are posted again before the device would say
 * that they run low, which would mean that there are too few. */
RC_TEST(no_growth_at_leisure)
{
    open_with_queue(
        (btl_ib_open_queue_t){.num = 40, .shared = true, .low = 1, .init = 8, .limit = 6});
    connect_sides(0, 1, 1);
    const seen_t seen = watch_messages(posted_shared);
    assert_int_equal(seen.most, 7); /* one waits for the next message */
    assert_int_equal(seen.least, 7);
    assert_int_equal(fake_unheard(), 0);
}

/* S: refilled in one batch at `low`. */
RC_TEST(low_of_all)
{
    for (uint32_t low = 1; low < 40; low += 12) {
        open_with_queue((btl_ib_open_queue_t){.num = 40, .shared = true, .low = low});
        assert_int_equal(posted_shared(), 40);
        connect_sides(0, 1, 1);
        const seen_t seen = watch_messages(posted_shared);
        assert_int_equal(seen.batch, 40 - low - 1); /* while the last message is handed up */
        assert_int_equal(seen.most, 40 - 1);
        assert_int_equal(seen.least, low + 1);
        assert_int_equal(seen.told, 0);
    }
}

/* S: a device that does not tell has all buffers at once; where memory is short those that there
 * are have to do. */
RC_TEST(no_way_to_grow)
{
    const btl_ib_open_queue_t queue = {.num = 40, .shared = true, .low = 30, .init = 6, .limit = 3};

    open_with_queue(queue);
    close_side(1);
    fake.no_limit = true;
    open_side(1);
    assert_int_equal(posted_shared(), 40);
    assert_non_null(strstr(last, "does not tell when queue 2 runs low"));
    open_with_queue(queue);
    connect_sides(0, 1, 1);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(send_one(0, 1, LONG, 1), 0);
    }
    fake.mrs_left = 0;
    settle();
    fake.mrs_left = -1;
    assert_int_equal(sides[1].failed, 0);
    const seen_t seen = watch_messages(posted_shared);
    assert_int_equal(seen.most, 5);
}

/* P: an answer goes before what it took is posted again and the sender told, unless that one waits
 * for it. */
RC_TEST(answer_goes_first)
{
    const btl_ib_open_queue_t queue = {.num = 8, .low = 7, .window = 1};

    open_with_queue(queue);
    connect_sides(0, 1, 1);
    for (int i = 0; i < 20; i++) {
        settle();
        const uint32_t posted = posted_own(), writes = fake.writes;
        assert_int_equal(send_one(0, 1, LONG, 1), 0);
        assert_int_equal(look(1), 1);
        assert_int_equal(send_one(1, 0, LONG, 1), 0); /* the answer */
        assert_int_equal(posted_own(), posted - 1);
        assert_int_equal(fake.writes, writes);
        look(1);
        assert_int_equal(posted_own(), posted);
        assert_int_equal(fake.writes, writes + 1);
    }
    int n = 0;
    while (send_one(0, 1, LONG, 1) == 0) { /* until it has filled all that it knows of */
        n++;
    }
    assert_in_range(n, 8, 9);
    const uint32_t writes = fake.writes;
    for (int came = 0; came < n; came += look(1)) {
    }
    assert_true(fake.writes > writes);
    assert_int_equal(send_one(0, 1, LONG, 1), 0);
}

/* P: what one connection left for the next poll is not forgotten when another leaves its own, nor
 * does it outlive its connection. */
RC_TEST(left_for_later)
{
    const btl_ib_open_queue_t queue = {.num = 8, .low = 7, .window = 1};

    params.queue[0] = queue;
    params.queue[0].size = SIZE_0;
    open_with_queue(queue);
    connect_sides(0, 1, 1);
    sides[1].received = 0;
    connect_sides(0, 1, 0);
    settle();
    const uint32_t posted = posted_own(), writes = fake.writes;
    assert_int_equal(send_one(0, 1, LONG, 1), 0);
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
    assert_int_equal(look(1), 2);
    assert_int_equal(fake.writes, writes + 1); /* of one of the two */
    look(1);
    assert_int_equal(fake.writes, writes + 2);
    assert_int_equal(posted_own(), posted);
    assert_int_equal(send_one(0, 1, LONG, 1), 0);
    look(1);
    forget(1, 0);
    settle();
    assert_int_equal(sides[1].failed, 0);
}

/* S: what messages take is replaced, by buffers that lie idle, before they are handed up: however
 * long that takes, no fewer are posted than `low`. */
RC_TEST(replaced_before_the_handler)
{
    open_with_queue((btl_ib_open_queue_t){.num = 40, .shared = true, .low = 30});
    connect_sides(0, 1, 1);
    while (posted_shared() > 31) {
        assert_int_equal(send_one(0, 1, LONG, 1), 0);
        settle();
    }
    sides[1].keeps = true; /* handlers that do not return */
    for (int i = 0; i < 9; i++) {
        assert_int_equal(send_one(0, 1, LONG, 1), 0);
        settle();
        assert_true(posted_shared() > 30);
    }
}

/* ---- what finds no buffer ---- */

static void send_messages(int count)
{
    for (int i = 0; i < count; i++) {
        assert_int_equal(send_one(0, 1, LONG, 1), 0);
    }
    settle();
}

/* S: how often no buffer was left is counted, and told once with what would help; running low, or
 * growing for that, is no such thing. */
RC_TEST(none_left)
{
    told_empty = 0;
    open_with_queue((btl_ib_open_queue_t){.num = 8, .shared = true, .low = 7});
    connect_sides(0, 1, 1);
    settle();
    send_messages(7);
    assert_int_equal(sides[1].t->overflows, 0);
    for (uint32_t n = 1; n <= 3; n++) {
        send_messages(8);
        assert_int_equal(sides[1].t->overflows, n);
        assert_int_equal(told_empty, 1);
        send_messages(7);
    }
    assert_int_equal(sides[1].t->overflows, 3);
    assert_int_equal(sides[0].t->overflows, 0);
    close_side(1);
    assert_non_null(strstr(last, "queue 2 (S): 8 buffers"));
    assert_non_null(strstr(last, "empty 3 times"));
    open_with_queue(
        (btl_ib_open_queue_t){.num = 16, .shared = true, .low = 15, .init = 4, .limit = 2});
    connect_sides(0, 1, 1);
    settle();
    send_messages(4); /* all that there are, but there are more to come */
    send_messages(7);
    assert_int_equal(sides[1].t->overflows, 0);
    send_messages(16);
    assert_int_equal(sides[1].t->overflows, 1);
}

/* P: a peer that has used up its own buffers knows it, and was refused nothing. */
RC_TEST(none_left_of_a_peer)
{
    told_empty = 0;
    open_with_queue((btl_ib_open_queue_t){.num = 4, .low = 1, .window = 1});
    connect_sides(0, 1, 1);
    while (send_one(0, 1, LONG, 1) == 0) {
    }
    settle();
    assert_int_equal(sides[1].t->overflows, 0);
    assert_int_equal(told_empty, 0);
}

static void write_count(const char *name, unsigned count)
{
    char path[sizeof(fake_device.ibdev_path) + 64];

    snprintf(path, sizeof(path), "%s/ports/1/hw_counters/%s", fake_device.ibdev_path, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%u\n", count);
    assert_int_equal(fclose(file), 0);
}

static void remove_counts(const char *here, const char *there)
{
    static const char *const dirs[] = {"ports/1/hw_counters", "ports/1", "ports", ""};
    char path[sizeof(fake_device.ibdev_path) + 64];

    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s/%s", fake_device.ibdev_path, dirs[0],
                 i == 0 ? here : there);
        assert_int_equal(unlink(path), 0);
    }
    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", fake_device.ibdev_path, dirs[i]);
        assert_int_equal(rmdir(path), 0);
    }
}

static void make_counts(void)
{
    static const char *const dirs[] = {"ports", "ports/1", "ports/1/hw_counters"};
    char path[sizeof(fake_device.ibdev_path) + 64];

    snprintf(fake_device.ibdev_path, sizeof(fake_device.ibdev_path), "/tmp/btl_ib_XXXXXX");
    assert_non_null(mkdtemp(fake_device.ibdev_path));
    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", fake_device.ibdev_path, dirs[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
}

/* What the port counts itself, by whatever names, is told at the end: what was added meanwhile. A
 * port that counts nothing is no fault. */
RC_TEST(as_the_port_counts)
{
    static const char *const names[][2] = {
        {"out_of_buffer", "rnr_nak_retry_err"},
        {"rq_num_rnr", "sq_num_rnr"},
        {"rx_out_of_buffer", "rnr_naks_rcvd"},
        {"send_rnr_err", "rcvd_rnr_err"},
    };
    const btl_ib_open_queue_t queue = {.num = 8, .shared = true, .low = 2};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void) tear_down(NULL); /* it logs, too */
        fake_rdma_reset();
        make_counts();
        write_count(names[i][0], 1000);
        write_count(names[i][1], 2000);
        open_with_queue(queue);
        write_count(names[i][0], 1003);
        write_count(names[i][1], 2004);
        close_side(1);
        assert_non_null(strstr(last, "its port refused 3 messages for want of a receive buffer, "
                                     "and 4 that it sent were"));
        assert_non_null(strstr(last, "btl_ib_receive_queues"));
        remove_counts(names[i][0], names[i][1]);
        close_side(0); /* the files are gone */
        assert_null(strstr(last, "18446744073709"));
        fake_device.ibdev_path[0] = '\0';
        open_with_queue(queue);
        close_side(1);
        assert_null(strstr(last, "refused"));
    }
}

UNIT_MAIN(NULL, NULL)
