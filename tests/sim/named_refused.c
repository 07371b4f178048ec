/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Scenarios in which a receiver refuses what is right, because it cannot take it in now. Once the
 * cause is gone all must be there soon, however much was refused; and as long as it is not, nobody
 * may flood it.
 */

#include "named.h"

enum {
    LOST,   /* datagrams that name what may come again, or copies, still to be lost */
    FIRST,  /* the first chunk is still to be lost */
    COPIES, /* of chunks that were sent since the first fragment is there */
};

enum { ALONE = 100 }; /* a tag */

static bool drop_ready(sim_t *sim, const datagram_t *d)
{
    return (d->data[1] & BTL_IB_FLAG_READY) && sim->scratch[LOST] > 0 && sim->scratch[LOST]-- > 0;
}

/* Nobody listens to tag 200 for 3 s. */
static uint64_t begin(sim_t *sim, uint32_t reassembly_max)
{
    two(sim);
    sim->procs[1].config.reassembly_max = reassembly_max;
    start_warm(sim);
    run_tag_from(sim, sim->now + SIM_S(3));
    return sim->procs[0].datagrams;
}

/* Until then a probe goes each 200 ms, and then all comes within `bound` ns. */
static void come_soon(sim_t *sim, uint64_t before, uint64_t first_copies, uint64_t bound)
{
    sim_run_until(sim, sim->tag_from - 1000);
    must_be_within(sim, "datagrams to a peer that refuses them", sim->procs[0].datagrams - before,
                   first_copies + 100);
    if (sim->undelivered == 0) {
        sim_fail(sim, "nothing was refused");
    }
    run_settle(sim, SIM_S(60));
    must_be_within(sim, "after the cause was gone it took ns", sim->now - sim->tag_from, bound);
}

static void must_come_soon(sim_t *sim, uint64_t before, uint64_t first_copies, uint64_t bound)
{
    come_soon(sim, before, first_copies, bound);
    finish(sim);
}

/* protocol: R32 */
void ready_tag(sim_t *sim)
{
    uint64_t before = begin(sim, 512);

    for (uint32_t i = 0; i < 100; i++) {
        say(sim, 0, 1, 100 + i, 1000)->tag = 200;
    }
    sim_run_until(sim, sim->tag_from - 1000);
    if (sim_counters(sim, 1)->sent_ready != 0) {
        sim_fail(sim, "it was told that they may come before anybody listens");
    }
    must_come_soon(sim, before, 100, SIM_US(300));
}

static bool drop_some(sim_t *sim, const datagram_t *d)
{
    return d->from == 0 && type_of(d) == BTL_IB_TYPE_DATA && sim->scratch[LOST] > 0
           && sim->scratch[LOST]-- > 0;
}

static uint64_t window_of(sim_t *sim)
{
    return btl_ib_conn_levels(proc_link(&sim->procs[0], 1, 0)->conn).window;
}

/* A sender whose window is made smaller by losses alone. Returns its segments. */
static uint64_t begin_with_cubic(sim_t *sim)
{
    two(sim);
    sim->procs[0].config.cc = BTL_IB_CC_CUBIC;
    start_warm(sim);
    return window_of(sim);
}

/* Nobody listens to the tag of these messages for so long. What the network makes of them in
 * addition comes 20 ms later, when all before is known to have got RNR, and is accepted. */
static void say_to_nobody(sim_t *sim, uint64_t refused_for)
{
    fault_add(sim, F_DUPLICATE, 0, sim->now + SIM_MS(1), 1000000, SIM_MS(20))->src = 0;
    run_tag_from(sim, sim->now + refused_for);
    for (uint32_t i = 0; i < 20; i++) {
        say(sim, 0, 1, 1000, 1000)->tag = 200;
    }
}

/* The window stays at `after` segments when what was deferred arrives. */
static void must_give_nothing_back(sim_t *sim, uint64_t after)
{
    sim_run_until(sim, sim->now + SIM_MS(50));
    sim->drop = NULL;
    run_settle(sim, SIM_S(2));
    if (sim_counters(sim, 0)->deferred == 0) {
        sim_fail(sim, "nothing was deferred");
    }
    must_be_within(sim, "segments of the window after what was deferred", window_of(sim), after);
    finish(sim);
}

/* What was deferred was not taken for lost: that it arrives gives nothing back of the window, which
 * an earlier loss had made smaller. */
void ready_after_loss(sim_t *sim)
{
    const uint64_t before = begin_with_cubic(sim);

    sim->scratch[LOST] = 3;
    sim->drop = drop_some;
    for (uint32_t i = 0; i < 20; i++) {
        say(sim, 0, 1, 1000, 1000);
    }
    run_settle(sim, SIM_S(2));
    const uint64_t after = window_of(sim);
    must_be_within(sim, "segments of the window after a loss", after, before - 1);
    sim->scratch[LOST] = UINT32_MAX;
    sim->drop = drop_ready;
    say_to_nobody(sim, SIM_US(100));
    must_give_nothing_back(sim, after);
}

/* The same of segments that were lost themselves, and whose second copies got RNR: the loss was
 * real. */
void ready_of_lost(sim_t *sim)
{
    const uint64_t before = begin_with_cubic(sim);

    sim->scratch[LOST] = 3;
    sim->drop = drop_some;
    say_to_nobody(sim, SIM_MS(10));
    for (uint32_t i = 0; i < 20; i++) { /* these arrive, which shows what was lost */
        say(sim, 0, 1, 1000, 1000)->tag = 1;
    }
    sim_run_until(sim, sim->now + SIM_MS(9));
    const uint64_t after = window_of(sim);
    must_be_within(sim, "segments of the window after a loss", after, before - 1);
    sim->scratch[LOST] = UINT32_MAX;
    sim->drop = drop_ready;
    must_give_nothing_back(sim, after);
}

/* What others say, and what is refused for other reasons, does not hide it. */
void ready_beside_others(sim_t *sim)
{
    uint64_t before = begin(sim, 512);

    for (uint32_t i = 0; i < 20; i++) {
        say(sim, 0, 1, 3000, 1000 + i * 50)->tag = i % 2 == 0 ? 200 : 1;
        say(sim, 0, 1, 300, 1000 + i * 50)->tag = i % 2 == 0 ? 1 : 200;
    }
    must_come_soon(sim, before, 130, SIM_US(300));
}

/* A fragment without a receiver for its tag; those behind it fill all buffers, and what is behind
 * those is refused for want of one. Probes would have to go round until they meet the first, which
 * is handed up before all others. */
static void fill_buffers(sim_t *sim, uint32_t buffers, uint64_t bound)
{
    uint64_t before = begin(sim, buffers);
    uint32_t first = sim->nmessages;

    say(sim, 0, 1, 6000, 1000)->tag = 200;
    for (uint32_t i = 0; i < 12; i++) {
        say(sim, 0, 1, 6000, 2000);
    }
    come_soon(sim, before, 120, bound);
    if (sim_counters(sim, 1)->rnr_reassembly == 0) {
        sim_fail(sim, "there was a buffer for each");
    }
    for (uint32_t i = first + 1; i < sim->nmessages; i++) {
        if (sim->messages[i].delivered_at < sim->messages[i - 1].delivered_at) {
            sim_fail(sim, "message %u overtook the one before it", i);
        }
    }
    finish(sim);
}

/* Also where no buffer is shared: each peer has one of its own. */
void ready_buffers(sim_t *sim)
{
    fill_buffers(sim, 4, SIM_US(300));
    again(sim, 2);
    fill_buffers(sim, 0, SIM_US(300));
}

/* The news is lost three times: it goes along with the answers to probes, one each 200 ms. */
void ready_lost(sim_t *sim)
{
    sim->scratch[LOST] = 3;
    sim->drop = drop_ready;
    fill_buffers(sim, 4, SIM_MS(700));
}

/* 400 messages of 30000 bytes, four at a time. Returns how long they took, ns. */
static uint64_t stream_time(sim_t *sim)
{
    uint64_t from = sim->now;
    uint32_t first = sim->nmessages;

    for (uint32_t i = 0; i < 4; i++) {
        say(sim, 0, 1, 30000, 1000)->chain = 99;
    }
    sim_run_until(sim, sim->now + SIM_MS(500));
    uint64_t last = from;
    for (uint32_t i = first; i < sim->nmessages; i++) {
        if (sim->messages[i].delivered == 0) {
            sim_fail(sim, "message %u of the stream did not come", i);
        }
        last = sim->messages[i].delivered_at > last ? sim->messages[i].delivered_at : last;
    }
    return last - from;
}

/* What is refused is not lost, nor on its way: it must cost others nothing of the window. */
void refused_beside_stream(sim_t *sim)
{
    begin(sim, 512);
    uint64_t alone = stream_time(sim);
    uint32_t refused = sim->nmessages;
    for (uint32_t i = 0; i < 100; i++) {
        say(sim, 0, 1, 900, 1000 + i)->tag = 200;
    }
    sim_run_until(sim, sim->now + SIM_MS(2));
    uint64_t before = again_sum(sim);
    uint64_t beside = stream_time(sim);
    must_be_within(sim, "beside what is refused a stream took ns", beside, alone + alone / 10);
    must_be_within(sim, "what is refused was sent again", again_sum(sim) - before, 1000);
    run_settle(sim, SIM_S(60));
    for (uint32_t i = refused; i < refused + 100; i++) {
        must_be_within(sim, "after the cause was gone it took ns",
                       sim->messages[i].delivered_at - sim->tag_from, SIM_MS(1));
    }
    finish(sim);
}

/* ---- the oldest fragment: nothing else has a buffer ---- */

/* The first chunk, so that all other fragments are refused; and copies, once its fragment is there,
 * but for the one that READY names. */
static bool drop_chunk(sim_t *sim, const datagram_t *d)
{
    if (type_of(d) != BTL_IB_TYPE_CHUNK) {
        return false;
    }
    if (sim->scratch[FIRST] > 0) {
        return sim->scratch[FIRST]-- > 0;
    }
    return sim_counters(sim, 0)->received_ready > 0 && sim->scratch[COPIES]++ > 0
           && sim->scratch[LOST] > 0 && sim->scratch[LOST]-- > 0;
}

/* Only those of the second fragment, which has a tag of its own. */
static bool drop_oldest(sim_t *sim, const datagram_t *d)
{
    return (sim->scratch[FIRST] > 0 || d->data[3] == ALONE) && drop_chunk(sim, d);
}

/* 40 fragments for one buffer. Those behind the oldest are refused again and again, so it must not
 * wait for its turn among them. */
static void lose_oldest(sim_t *sim, uint32_t oldest, bool (*drop)(sim_t *, const datagram_t *),
                        uint32_t count)
{
    two(sim);
    sim->procs[1].config.reassembly_max = 0;
    start_warm(sim);
    const uint32_t first = sim->nmessages;
    for (uint32_t i = 0; i < 40; i++) {
        say(sim, 0, 1, i == 1 ? oldest : 6000, 1000)->tag = i == 1 ? ALONE : 1;
    }
    sim->scratch[FIRST] = 1;
    sim->scratch[LOST] = count;
    sim->drop = drop;
    run_settle(sim, SIM_S(60));
    must_be_within(sim, "copies that were to be lost, and were not", sim->scratch[LOST], 0);
    must_be_within(sim, "the slowest took ns", slowest(sim, first), SIM_MS(50));
    finish(sim);
}

/* A copy of its other chunk, which was refused before, is lost, and the first probe with it. */
void refused_copy_lost(sim_t *sim)
{
    lose_oldest(sim, 2000, drop_oldest, 2);
}

/* All copies that are sent at a time are lost: they fill the window, and others wait. */
void refused_copies_lost(sim_t *sim)
{
    lose_oldest(sim, 6000, drop_chunk, 64);
}
