/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport "verbs" over RC: eager RDMA, on a device that is none (fake_rdma.h). */

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Before the other, whose `params` a declaration would shadow. */
#include "verbs_rc_eager.h"
#include "unit.h"

#include "rc_sides.h"

enum {
    SLOTS = 8,
    THRESHOLD = BTL_IB_RC_EAGER_THRESHOLD,
    NOT_EAGER = 250, /* bytes: fits the queue, but no slot */
};

static void open_all_with(uint32_t peers, uint32_t slots)
{
    params.rc.eager_peers = peers;
    params.rc.eager_slots = slots;
    for (int i = 0; i < SIDES; i++) {
        open_side(i);
    }
    for (int i = 0; i < SIDES; i++) {
        for (int j = 0; j < SIDES; j++) {
            if (i != j) {
                add(i, j);
            }
        }
    }
}

static void open_all(uint32_t peers)
{
    open_all_with(peers, SLOTS);
}

static int begin_eager(void **state)
{
    (void) set_up(state);
    (void) tear_down(state);
    fake_rdma_reset();
    open_all(1);
    return 0;
}

static int end_eager(void **state)
{
    look_at_most = 32;
    return tear_down(state);
}

/* The ring that `i` writes to and `j` reads. */
static rc_ring_t ring(int i, int j)
{
    return (rc_ring_t){
        .from = sides[i].t, .to = sides[j].t, .from_at = sides[j].to[i], .to_at = sides[i].to[j]};
}

static bool may_write(int i, int j)
{
    return conn_of(i, j, 0).may_write;
}

/* So many datagrams, each looked at before the next. */
static void send_slowly(int i, int j, int n)
{
    for (int k = 0; k < n; k++) {
        assert_int_equal(send_one(i, j, SMALL, 0), 0);
        look(j);
        look(i);
    }
}

static void promote(int i, int j)
{
    assert_int_equal(send_one(i, j, SMALL, 0), EAGAIN);
    settle();
    send_slowly(i, j, THRESHOLD);
    look(i);
    assert_true(may_write(i, j));
}

/* A peer that sends much may write, and what is written costs the receiver no completion and no
 * receive request. */
TEST_WITH(busy_peers_write, begin_eager, end_eager)
{
    promote(0, 1);
    const uint32_t heard = conn_of(1, 0, 0).ring_sends;
    const uint32_t reposted = conn_of(1, 0, 0).reposted;
    const int before = sides[1].received;
    send_slowly(0, 1, 100);
    assert_int_equal(sides[1].received, before + 100);
    assert_int_equal(sides[1].disorder, 0);
    assert_int_equal(sides[1].from, sides[1].to[0]);
    assert_int_equal(conn_of(1, 0, 0).ring_sends, heard);
    assert_int_equal(conn_of(1, 0, 0).reposted, reposted);
    assert_int_equal(conn_of(0, 1, 0).eager_used, 100);
}

/* Both ways are one stream: nothing passes anything else, however little room there is for
 * events. */
TEST_WITH(one_stream, begin_eager, end_eager)
{
    int sent = 0;

    promote(0, 1);
    const int before = sides[1].received;
    srand(3);
    for (int i = 0; i < 3000; i++) {
        look_at_most = 1 + rand() % 6;
        if (rand() % 3 != 0) {
            sent += send_one(0, 1, rand() % 2 == 0 ? SMALL : NOT_EAGER, 0) == 0;
        } else {
            look(rand() % 2);
        }
    }
    look_at_most = 32;
    settle();
    assert_int_equal(sides[1].received, before + sent);
    assert_int_equal(sides[1].disorder, 0);
    assert_true(conn_of(0, 1, 0).eager_used > 300);
    assert_true(conn_of(1, 0, 0).ring_sends > 300);
}

/* A receiver that does not poll gets no more than there is room for. Slots that the engine holds
 * stay what they are. */
TEST_WITH(full_ring, begin_eager, end_eager)
{
    int taken = 0;

    promote(0, 1);
    const int before = sides[1].received;
    for (int i = 0; i < 100; i++) {
        taken += send_one(0, 1, SMALL, 0) == 0;
        look(0);
    }
    assert_in_range(taken, SLOTS + NUM, SLOTS + NUM + RESERVE + 1);
    assert_int_equal(conn_of(0, 1, 0).eager_used, SLOTS);
    sides[1].keeps = true;
    settle();
    assert_int_equal(sides[1].received, before + taken);
    assert_int_equal(sides[1].disorder, 0);
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    void *first = sides[1].held[0]; /* the oldest is given back last */
    sides[1].t->ops->repost(sides[1].t, sides[1].held + 1, sides[1].held_count - 1);
    settle();
    const uint32_t filled = conn_of(0, 1, 0).eager_used;
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
    assert_int_equal(conn_of(0, 1, 0).eager_used, filled);
    sides[1].keeps = false;
    sides[1].t->ops->repost(sides[1].t, &first, 1);
    settle();
    send_slowly(0, 1, 3);
    assert_int_equal(conn_of(0, 1, 0).eager_used, filled + 3);
    assert_int_equal(sides[1].disorder, 0);
    sides[1].keeps = true; /* in a slot that was given back before */
    sides[1].held_count = 0;
    send_slowly(0, 1, 2);
    assert_int_equal(conn_of(1, 0, 0).ring_held, 2);
    sides[1].t->ops->repost(sides[1].t, sides[1].held + 1, 1);
    assert_int_equal(conn_of(1, 0, 0).ring_held, 2);
    sides[1].t->ops->repost(sides[1].t, sides[1].held, 1);
    assert_int_equal(conn_of(1, 0, 0).ring_held, 0);
}

/* What the engine holds stays when the connection ends. */
TEST_WITH(held_over_the_end, begin_eager, end_eager)
{
    promote(0, 1);
    sides[1].keeps = true;
    send_slowly(0, 1, 1);
    assert_int_equal(sides[1].held_count, 1);
    forget(1, 0);
    assert_true(rc_inside(sides[1].t).closed);
    assert_int_equal(rc_inside(sides[1].t).eagers, 0);
    assert_int_equal(rc_inside(sides[1].t).eager_copies, 1);
    sides[1].t->ops->repost(sides[1].t, sides[1].held, 1);
    assert_false(rc_inside(sides[1].t).closed);
    assert_int_equal(rc_inside(sides[1].t).eager_copies, 0);
}

/* What the engine has stays as it was checked, whatever the peer writes to the slot. */
TEST_WITH(written_again, begin_eager, end_eager)
{
    uint8_t kept[SMALL];

    promote(0, 1);
    const rc_ring_t written = ring(0, 1);
    sides[1].keeps = true;
    send_slowly(0, 1, 1);
    assert_int_equal(sides[1].held_count, 1);
    memcpy(kept, sides[1].held_data, SMALL);
    memset(rc_eager_first(&written, SMALL), 0xee, SMALL + BTL_IB_RC_EAGER_TRAILER);
    assert_memory_equal(kept, sides[1].held_data, SMALL);
}

/* The engine has as many as it may: what is in the ring waits, and nothing passes it. */
TEST_WITH(too_many_held, begin_eager, end_eager)
{
    enum { MORE = 8 };

    (void) tear_down(state);
    fake_rdma_reset();
    open_all_with(1, 1024);
    promote(0, 1);
    const int before = sides[1].received;
    sides[1].keeps = true;
    for (int i = 0; i < BTL_IB_RC_EAGER_COPIES + MORE; i++) {
        assert_int_equal(send_one(0, 1, SMALL, 0), 0);
        look(0);
    }
    assert_int_equal(send_one(0, 1, NOT_EAGER, 0), 0);
    settle();
    assert_int_equal(sides[1].received, before + BTL_IB_RC_EAGER_COPIES);
    assert_int_equal(rc_inside(sides[1].t).eager_copies, BTL_IB_RC_EAGER_COPIES);
    sides[1].t->ops->repost(sides[1].t, sides[1].held, sides[1].held_count);
    sides[1].keeps = false;
    settle();
    assert_int_equal(sides[1].received, before + BTL_IB_RC_EAGER_COPIES + MORE + 1);
    assert_int_equal(sides[1].disorder, 0);
    assert_int_equal(rc_inside(sides[1].t).eager_copies, 0);
}

/* A row finds fewer slots than it is long; and one of which only the last fits. */
TEST_WITH(rows_in_part, begin_eager, end_eager)
{
    side_t *side = &sides[0];
    btl_ib_tx_t tx[2];
    int error;

    promote(0, 1);
    for (int i = 0; i < SLOTS - 1; i++) {
        assert_int_equal(send_one(0, 1, SMALL, 0), 0);
    }
    assert_int_equal(send_row(0, 1, SMALL, 0, 3, &error), 3);
    assert_int_equal(conn_of(0, 1, 0).eager_used, SLOTS);
    settle();
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t size = i == 0 ? NOT_EAGER : 4;
        const uint32_t number = side->next++;
        uint8_t *at = slot(side, number);
        for (uint32_t b = 0; b < size; b++) {
            at[b] = (uint8_t) (number + b);
        }
        memcpy(at, &number, sizeof(number));
        tx[i] = (btl_ib_tx_t){.to = side->to[1],
                              .niov = 1,
                              .size = size,
                              .iov = {{at, size}},
                              .mem = side->mem,
                              .context = at};
    }
    const int before = sides[1].received;
    assert_int_equal(side->t->ops->send(side->t, tx, 2, &error), 2);
    assert_int_equal(conn_of(0, 1, 0).eager_used, SLOTS + 1);
    settle();
    assert_int_equal(sides[1].received, before + 2);
    assert_int_equal(sides[1].disorder, 0);
}

/* The peer's slots may be smaller than ours. */
TEST_WITH(smaller_slots, begin_eager, end_eager)
{
    (void) tear_down(state);
    fake_rdma_reset();
    open_all(1);
    close_side(1);
    params.queue[0].size = 128;
    open_side(1);
    forget(0, 1);
    add(0, 1);
    add(1, 0);
    promote(0, 1);
    assert_int_equal(conn_of(0, 1, 0).eager_slot, 128);
    assert_int_equal(send_one(0, 1, 113, 0), 0); /* which a slot of 128 does not hold */
    assert_int_equal(conn_of(0, 1, 0).eager_used, 0);
    assert_int_equal(send_one(0, 1, 112, 0), 0);
    assert_int_equal(conn_of(0, 1, 0).eager_used, 1);
    settle();
    assert_int_equal(sides[1].disorder, 0);
}

/* Longer ones than go inline: the device fetches them, and they go by the ring of the queue that
 * carries them. What goes inline, but not with its trailer, is sent. */
TEST_WITH(long_slots, begin_eager, end_eager)
{
    enum { TOP = 4080, INLINE = 256 };

    (void) tear_down(state);
    fake_rdma_reset();
    params.rc.eager_size = TOP;
    open_all(1);
    for (uint32_t size = INLINE + 1; size <= TOP + 1; size = size < 300 ? size + 1 : size + 757) {
        const uint32_t last = size > TOP ? TOP : size;
        (void) send_one(0, 1, last, 1);
        settle();
    }
    look(0);
    assert_true(conn_of(0, 1, 1).may_write);
    assert_false(conn_of(0, 1, 0).ring && conn_of(0, 1, 0).may_write);
    const int before = sides[1].received;
    uint32_t used = conn_of(0, 1, 1).eager_used;
    const uint32_t reposted = conn_of(1, 0, 1).reposted;
    int sent = 0;
    for (uint32_t size = INLINE + 1; size < TOP; size += size < 300 ? 1 : 97) {
        assert_int_equal(send_one(0, 1, size, 1), 0);
        settle();
        sent++;
    }
    assert_int_equal(send_one(0, 1, TOP, 1), 0);
    settle();
    assert_int_equal(sides[1].received, before + sent + 1);
    assert_int_equal(conn_of(0, 1, 1).eager_used, used + (uint32_t) sent + 1);
    assert_int_equal(conn_of(1, 0, 1).reposted, reposted);
    used = conn_of(0, 1, 1).eager_used;
    assert_int_equal(send_one(0, 1, TOP + 1, 1), 0);
    assert_int_equal(send_one(0, 1, INLINE, 1), 0);
    assert_int_equal(send_one(0, 1, INLINE - 16, 1), 0);
    assert_int_equal(conn_of(0, 1, 1).eager_used, used + 1);
    settle();
    assert_int_equal(sides[1].disorder, 0);
}

/* A long slot is taken when all of it is there, too: no byte may be missing, nor the sign of several
 * words, which is all that tells one number from another. */
TEST_WITH(torn_long_writes, begin_eager, end_eager)
{
    static const uint32_t words[][2] = {{0, 2}, {1, 3}, {0, 1}, {2, 100}, {3, 124}, {123, 124}};
    uint8_t kept[LONG];

    (void) tear_down(state);
    fake_rdma_reset();
    params.rc.eager_size = 2000;
    open_all(1);
    (void) send_one(0, 1, LONG, 1);
    settle();
    for (int i = 0; i < THRESHOLD; i++) {
        assert_int_equal(send_one(0, 1, LONG, 1), 0);
        settle();
    }
    look(0);
    assert_true(conn_of(0, 1, 1).may_write);
    rc_ring_t written = ring(0, 1);
    written.channel = 1;
    const int before = sides[1].received;
    assert_int_equal(send_one(0, 1, LONG, 1), 0);
    uint8_t *data = rc_eager_first(&written, LONG);
    memcpy(kept, data, LONG);
    for (uint32_t i = 0; i < LONG; i++) {
        data[i] ^= 1;
        look(1);
        data[i] = kept[i];
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        data[8 * words[i][0] + 7] ^= 0x80;
        data[8 * words[i][1] + 7] ^= 0x80;
        look(1);
        memcpy(data, kept, LONG);
    }
    assert_int_equal(sides[1].received, before);
    settle();
    assert_int_equal(sides[1].received, before + 1);
    assert_int_equal(sides[1].disorder, 0);
}

/* The two ways are one stream there, too; and what was sent is the engine's again only when the
 * device has fetched it. */
TEST_WITH(long_slots_in_one_stream, begin_eager, end_eager)
{
    int sent = 0, fetched = 0;

    (void) tear_down(state);
    fake_rdma_reset();
    params.rc.eager_size = 2000;
    open_all(1);
    (void) send_one(0, 1, LONG, 1);
    settle();
    for (int i = 0; i < THRESHOLD; i++) {
        assert_int_equal(send_one(0, 1, LONG, 1), 0);
        settle();
    }
    look(0);
    assert_true(conn_of(0, 1, 1).may_write);
    const int before = sides[1].received;
    const int given_back = sides[0].sent;
    srand(5);
    for (int i = 0; i < 3000; i++) {
        look_at_most = 1 + rand() % 6;
        if (rand() % 3 != 0) {
            const uint32_t size = rand() % 3 == 0 ? 3000 : 257 + (uint32_t) (rand() % 1700);
            const bool taken = send_one(0, 1, size, 1) == 0;
            sent += taken;
            fetched += taken;
        } else {
            look(rand() % 2);
        }
    }
    look_at_most = 32;
    settle();
    assert_int_equal(sides[1].received, before + sent);
    assert_int_equal(sides[1].disorder, 0);
    assert_true(conn_of(0, 1, 1).eager_used > 300);
    assert_true(conn_of(1, 0, 1).ring_sends > 300);
    assert_in_range(sides[0].sent - given_back, fetched - 64, fetched + 64);
}

/* Written into the ring of side 1 as a peer would that keeps to no rule. */
static void forge(uint32_t number, uint32_t size)
{
    const rc_ring_t forged = ring(0, 1);

    rc_eager_forge(&forged, number, size);
}

/* As if so many had been written before. */
static void count_from(int i, int j, uint32_t number)
{
    const rc_ring_t counted = ring(i, j);

    rc_eager_count_from(&counted, number);
}

/* A ring is a power of two of slots, whatever was asked for, and stays whole when the numbers of
 * datagrams wrap. */
TEST_WITH(numbers_wrap, begin_eager, end_eager)
{
    static const uint32_t asked[][2] = {{1, 1}, {12, 8}, {16, 16}, {1023, 512}, {65537, 32768}};

    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        (void) tear_down(state);
        fake_rdma_reset();
        open_all_with(1, asked[i][0]);
        promote(0, 1);
        assert_int_equal(conn_of(1, 0, 0).ring_slots, asked[i][1]);
        assert_int_equal(conn_of(0, 1, 0).eager_slots, asked[i][1]);
        count_from(0, 1, (uint32_t) -24);
        const int before = sides[1].received;
        send_slowly(0, 1, 60);
        assert_int_equal(sides[1].received, before + 60);
        assert_int_equal(sides[1].disorder, 0);
        assert_int_equal(conn_of(0, 1, 0).eager_used, 60 - 24);
    }
}

/* A peer whose ring has an unknown layout is not understood. */
TEST_WITH(odd_rings, begin_eager, end_eager)
{
    static const uint16_t odd[] = {3, 12, 32769, 65535};
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];
    btl_ib_rc_params_t theirs = {.eager_slot = 64};

    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        theirs.eager_slots = odd[i];
        btl_ib_rc_params_pack(&theirs, bytes);
        assert_int_equal(btl_ib_rc_params_unpack(bytes, sizeof(bytes), &theirs), -EINVAL);
    }
    for (uint32_t slots = 1; slots <= BTL_IB_RC_EAGER_SLOTS; slots *= 2) {
        for (uint16_t slot = 64; slot <= 4160; slot += 64) { /* as long as BTL_IB_RC_EAGER_LONG */
            theirs = (btl_ib_rc_params_t){.eager_slots = (uint16_t) slots, .eager_slot = slot};
            btl_ib_rc_params_pack(&theirs, bytes);
            assert_int_equal(btl_ib_rc_params_unpack(bytes, sizeof(bytes), &theirs),
                             slot <= BTL_IB_RC_EAGER_LONG ? 0 : -EINVAL);
            assert_int_equal(theirs.eager_slots, slots);
            assert_int_equal(theirs.eager_slot, slot);
            /* the release before finds no ring of long slots: it has no room for them */
            assert_int_equal(bytes[52] == 0 && bytes[53] == 0, slot > BTL_IB_RC_EAGER_SLOT);
        }
    }
}

TEST_WITH(forged, begin_eager, end_eager)
{
    promote(0, 1);
    const int before = sides[1].received;
    forge(0, 248); /* longer than a slot holds */
    settle();
    assert_int_equal(sides[1].received, before);
    sides[1].keeps = true;
    send_slowly(0, 1, SLOTS);
    assert_int_equal(sides[1].held_count, SLOTS);
    forge(SLOTS, 4); /* into a slot that is not free */
    settle();
    assert_int_equal(sides[1].held_count, SLOTS);
}

/* A slot is taken when all of it is there, whatever is written first. */
TEST_WITH(torn_writes, begin_eager, end_eager)
{
    promote(0, 1);
    const rc_ring_t written = ring(0, 1);
    const int before = sides[1].received;
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
    uint8_t *data = rc_eager_first(&written, SMALL);
    uint8_t kept[SMALL];
    memcpy(kept, data, SMALL);
    for (uint32_t i = 0; i < SMALL; i += 7) {
        data[i] ^= 1;
        settle();
        assert_int_equal(sides[1].received, before);
        data[i] ^= 1;
    }
    settle();
    assert_int_equal(sides[1].received, before + 1);
}

enum {
    QUIET_US = 2000, /* between a peer's learning that he may no longer write and our sleep */
};

static int wait_fd(int i)
{
    return sides[i].t->ops->wait_fd(sides[i].t);
}

static void fall_asleep(int i)
{
    assert_int_equal(wait_fd(i), -1);
    look(i);
    fake.now += QUIET_US / 2;
    look(i);
    assert_int_equal(wait_fd(i), -1);
    fake.now += QUIET_US / 2;
    look(i);
    assert_true(wait_fd(i) >= 0);
}

/* Where peers are reviewed one that sends little loses its place to one that waits; but only then,
 * and one that sends as much keeps it. */
TEST_WITH(busy_ones_take_places, begin_eager, end_eager)
{
    enum { SECOND = 1000 * 1000, FEW = 5 };

    (void) tear_down(state);
    fake_rdma_reset();
    params.rc.eager_period = 1;
    params.rc.eager_threshold = 2 * THRESHOLD;
    open_all(1);
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    settle();
    send_slowly(0, 1, 2 * THRESHOLD - 1);
    look(0);
    assert_false(may_write(0, 1));
    send_slowly(0, 1, 1);
    look(0);
    assert_true(may_write(0, 1));
    for (int i = 0; i < FEW; i++) { /* nobody waits */
        fake.now += SECOND;
        settle();
        assert_true(may_write(0, 1));
    }
    assert_int_equal(send_one(2, 1, SMALL, 0), EAGAIN);
    settle();
    for (int i = 0; i < FEW; i++) { /* both send as much */
        send_slowly(0, 1, 2 * THRESHOLD);
        send_slowly(2, 1, 2 * THRESHOLD);
        fake.now += SECOND;
        settle();
        assert_true(may_write(0, 1));
        assert_false(may_write(2, 1));
    }
    send_slowly(0, 1, FEW);
    send_slowly(2, 1, 2 * THRESHOLD);
    fake.now += SECOND;
    settle();
    assert_false(may_write(0, 1));
    send_slowly(2, 1, 1);
    look(2);
    assert_true(may_write(2, 1));
    send_slowly(0, 1, 2 * THRESHOLD);
    assert_int_equal(rc_inside(sides[1].t).eagers, 1);
    assert_int_equal(sides[1].broken, 0);
}

/* The first peer keeps the place, however little it sends, until its connection ends. */
TEST_WITH(first_ones_write, begin_eager, end_eager)
{
    promote(0, 1);
    assert_int_equal(send_one(2, 1, SMALL, 0), EAGAIN);
    settle();
    for (int i = 0; i < 3; i++) {
        fake.now += 1000000;
        send_slowly(2, 1, 10 * THRESHOLD);
        assert_false(may_write(2, 1));
        assert_true(may_write(0, 1));
    }
    forget(1, 0);
    send_slowly(2, 1, 1);
    look(2);
    assert_true(may_write(2, 1));
    assert_int_equal(rc_inside(sides[1].t).eagers, 1);
}

/* A peer that learns late that it may no longer write is heard all the same. */
TEST_WITH(late_ones_are_heard, begin_eager, end_eager)
{
    promote(0, 1);
    fall_asleep(1);
    const int before = sides[1].received;
    const rc_ring_t late = ring(0, 1);
    rc_allow_writes(&late);
    const uint32_t filled = conn_of(0, 1, 0).eager_used;
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
    assert_int_equal(conn_of(0, 1, 0).eager_used, filled + 1);
    settle();
    assert_int_equal(sides[1].received, before + 1);
}

/* What was written before the writer knew that he may not, nobody sleeps through. */
TEST_WITH(late_writes_are_waited_for, begin_eager, end_eager)
{
    promote(0, 1);
    fake.hold_ops = true;
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
    fake.hold_ops = false;
    const int before = sides[1].received;
    assert_int_equal(wait_fd(1), -1);
    look(1);
    assert_false(may_write(0, 1));
    fake.now += QUIET_US / 2;
    assert_int_equal(fake_rdma_work(1), 1);
    look(1);
    assert_int_equal(sides[1].received, before + 1);
    assert_int_equal(wait_fd(1), -1);
    fake.now += QUIET_US / 2;
    look(1);
    assert_true(wait_fd(1) >= 0);
    assert_int_equal(sides[1].disorder, 0);
}

/* As long as the word is on its way nothing is known, however long that takes. */
TEST_WITH(words_are_waited_for, begin_eager, end_eager)
{
    promote(0, 1);
    fake.hold_ops = true;
    assert_int_equal(wait_fd(1), -1);
    for (int i = 0; i < 10; i++) {
        fake.now += 100 * QUIET_US;
        look(1);
        assert_int_equal(wait_fd(1), -1);
    }
    fake.hold_ops = false;
    const int before = sides[1].received;
    assert_int_equal(send_one(0, 1, SMALL, 0), 0);
    look(1);
    assert_int_equal(sides[1].received, before + 1);
    while (fake_rdma_work(100) > 0) {
    }
    fall_asleep(1);
}

/* Only rings that were in use are looked at, and none of a connection that is gone. */
TEST_WITH(off_and_on_again, begin_eager, end_eager)
{
    promote(0, 1);
    assert_false(rc_inside(sides[1].t).eagers_off);
    fall_asleep(1);
    assert_true(conn_of(1, 0, 0).ring_off);
    assert_int_equal(rc_inside(sides[1].t).eagers_fading, 0);
    send_slowly(0, 1, THRESHOLD + 1);
    assert_true(may_write(0, 1));
    assert_false(rc_inside(sides[1].t).eagers_off);
    assert_int_equal(rc_inside(sides[1].t).eagers, 1);
    assert_int_equal(wait_fd(1), -1);
    assert_int_equal(rc_inside(sides[1].t).eagers_fading, 1);
    forget(1, 0);
    assert_false(rc_inside(sides[1].t).eagers_off);
    assert_int_equal(rc_inside(sides[1].t).eagers_fading, 0);
    settle();
    assert_true(wait_fd(1) >= 0);
}

/* A sleeping process would not hear of what is written. */
TEST_WITH(nobody_writes_to_one_that_sleeps, begin_eager, end_eager)
{
    promote(0, 1);
    fall_asleep(1);
    assert_false(may_write(0, 1));
    const uint32_t filled = conn_of(0, 1, 0).eager_used;
    send_slowly(0, 1, 2);
    assert_int_equal(conn_of(0, 1, 0).eager_used, filled);
}

TEST_WITH(broken_and_connected_anew, begin_eager, end_eager)
{
    promote(0, 1);
    fake_rdma_break(qp_of(0, 1, 0), IBV_WC_RETRY_EXC_ERR);
    settle();
    assert_int_equal(rc_inside(sides[1].t).eagers, 0);
    sides[1].received = 0; /* numbers of datagrams begin anew */
    promote(0, 1);
    send_slowly(0, 1, 20);
    assert_int_equal(conn_of(0, 1, 0).eager_used, 20);
}

/* Not where it is not asked for, nor on iWARP, nor where nothing goes inline. */
TEST_WITH(without, begin_eager, end_eager)
{
    for (int kind = 0; kind < 3; kind++) {
        (void) tear_down(state);
        fake_rdma_reset();
        fake.iwarp = kind == 1;
        fake.inline_max = kind == 2 ? 0 : 256;
        open_all(kind == 0 ? 0 : 1);
        assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
        settle();
        send_slowly(0, 1, 2 * THRESHOLD);
        assert_false(conn_of(1, 0, 0).ring);
        assert_false(may_write(0, 1));
    }
}

/* Of memory of the device: three pieces for each end, of which the ring is the last. */
TEST_WITH(shortage, begin_eager, end_eager)
{
    for (int left = 0; left < 5; left++) {
        fake.mrs_left = left;
        assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
        settle();
        assert_int_equal(send_one(0, 1, SMALL, 0), EHOSTUNREACH);
        fake.now += 3000000;
    }
    fake.mrs_left = -1;
    promote(0, 1);
}

/* A process without memory for a ring is connected without. */
TEST_WITH(no_ring, begin_eager, end_eager)
{
    fake.mrs_left = 5;
    assert_int_equal(send_one(0, 1, SMALL, 0), EAGAIN);
    settle();
    assert_int_equal(fake.mrs_left, 0);
    send_slowly(0, 1, 2 * THRESHOLD);
    assert_false(conn_of(1, 0, 0).ring);
    assert_false(may_write(0, 1));
    send_slowly(1, 0, THRESHOLD + 1); /* the other one has one */
    look(1);
    assert_true(may_write(1, 0));
    assert_int_equal(sides[0].disorder + sides[1].disorder, 0);
}

UNIT_MAIN(NULL, NULL)
