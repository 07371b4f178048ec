/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Eager RDMA: short datagrams of the few busiest peers come by a write into a ring that poll() looks at, which costs the
 * receiver neither a completion nor a receive request. Only on the first channel, only what goes inline, not over iWARP (where
 * a write may be placed in any order, and nobody is told when it is).
 *
 *      slot of a ring, `slot` bytes; what is written is its end, from where the datagram begins:
 *
 *                       0      sends         size        turn       check
 *      | nothing | datagram, 0 | sends (4)   | size (2)  | turn (2) | check (8) |      big-endian
 *                  to 8 bytes
 *
 * No order of the bytes of a write is relied on: a slot is taken when the check fits. `turn` counts the rounds of the ring, so
 * that nobody needs to wipe it. Datagrams are numbered modulo 2^32; a ring is a power of two of slots, 2^15 at most, so that slots
 * and turns go on as before when the number wraps. `sends` says how many messages went before by sends over the same queue pair: the
 * two ways are one stream, in which nothing passes anything else.
 *
 * The receiver decides who may write, and says so in the sender's word, with how many slots are free again. A sender who
 * reads that late may still write. So the ring of one who may no longer is looked at as before until the word is known to
 * have been written, and QUIET_US longer: so long nobody sleeps. After that it is looked at, too, but seldom: what the
 * network lost, and the device sends again later than that, is found there.
 */

#include "verbs_rc_rail.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    GRAIN = 8,
    QUIET_US = 2000, /* a write that is not lost is on its way for less */
};

/* What stands at the end of a slot. */
typedef struct trailer {
    uint32_t sends;
    uint16_t size;
    uint16_t turn;
    uint64_t check;
} trailer_t;

_Static_assert(sizeof(trailer_t) == BTL_IB_RC_TRAILER, "as drawn");

static uint32_t padded(uint32_t size)
{
    return (size + GRAIN - 1) / GRAIN * GRAIN;
}

/* Of a datagram that is filled up with zeros, and what is said of it. `at` is aligned to 8. */
static uint64_t check_of(const uint8_t *at, uint32_t size, const trailer_t *trailer)
{
    uint64_t word,
        sum = (uint64_t) trailer->sends << 32 | (uint64_t) trailer->size << 16 | trailer->turn;

    for (uint32_t i = 0; i < padded(size); i += GRAIN) {
        memcpy(&word, at + i, sizeof(word));
        sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 29;
    }
    return sum | 1; /* never that of fresh memory */
}

static uint16_t turn_of(uint32_t number, uint32_t slots)
{
    return htobe16((uint16_t) (number / slots + 1));
}

/* ---- memory ---- */

size_t btl_ib_rc_eager_bytes(const btl_ib_rc_pipe_t *pipe)
{
    const btl_ib_rc_t *rc = pipe->rc;
    const bool wanted = pipe->channel == 0 && rc->eager_peers > 0 && !rc->iwarp
                        && rc->channel[0].srq == NULL && rc->eager_slot > 0;

    return wanted ? (size_t) rc->eager_slots * rc->eager_slot : 0;
}

/* Returns 0 or an errno. */
static int make(btl_ib_rc_pipe_t *pipe, uint8_t *memory)
{
    const btl_ib_rc_t *rc = pipe->rc;
    btl_ib_rc_eager_t *eager = pipe->eager;

    eager->store = (btl_ib_rc_store_t){
        .pipe = pipe, .count = rc->eager_slots, .size = rc->eager_slot - BTL_IB_RC_TRAILER};
    eager->back = calloc(rc->eager_slots, sizeof(*eager->back));
    eager->mr = ibv_reg_mr(rc->verbs.pd, memory, btl_ib_rc_eager_bytes(pipe),
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (eager->mr == NULL) {
        return errno;
    }
    return eager->back == NULL ? ENOMEM
                               : -btl_ib_rc_store_make(&eager->store, memory, eager->mr->lkey);
}

void btl_ib_rc_eager_release(btl_ib_rc_pipe_t *pipe)
{
    if (pipe->eager != NULL && pipe->eager->mr != NULL) {
        (void) ibv_dereg_mr(pipe->eager->mr);
        pipe->eager->mr = NULL;
    }
}

void btl_ib_rc_eager_free(btl_ib_rc_pipe_t *pipe)
{
    if (pipe->eager != NULL) {
        free(pipe->eager->store.buffer);
        free(pipe->eager->back);
        free(pipe->eager);
        pipe->eager = NULL;
    }
}

void btl_ib_rc_eager_make(btl_ib_rc_pipe_t *pipe, uint8_t *memory)
{
    pipe->eager = calloc(1, sizeof(*pipe->eager));
    const int error = pipe->eager != NULL ? make(pipe, memory) : ENOMEM;

    if (error != 0) { /* sends do, so nobody is to be troubled */
        BTL_IB_VERBS_LOG(&pipe->rc->verbs, 10, "%s: no ring for eager RDMA of %zu bytes: %s",
                         pipe->rc->verbs.base.name, btl_ib_rc_eager_bytes(pipe), strerror(error));
        btl_ib_rc_eager_release(pipe);
        btl_ib_rc_eager_free(pipe);
    }
}

/* ---- sending ---- */

bool btl_ib_rc_eager_fits(const btl_ib_rc_pipe_t *pipe, uint32_t size, uint32_t more)
{
    const btl_ib_rc_word_t *word = btl_ib_rc_word(pipe);
    const uint32_t bytes = padded(size) + BTL_IB_RC_TRAILER;

    if (pipe->peer_slots == 0 || __atomic_load_n(&word->eager_on, __ATOMIC_RELAXED) == 0) {
        return false;
    }
    const uint32_t freed = be32toh(__atomic_load_n(&word->eager_freed, __ATOMIC_RELAXED));
    const uint32_t used = pipe->eager_filled + more - freed;
    return used < pipe->peer_slots && bytes <= pipe->peer_slot
           && bytes <= pipe->rc->verbs.base.attr.inline_size;
}

void btl_ib_rc_eager_fill(const btl_ib_rc_pipe_t *pipe, const btl_ib_tx_t *tx, uint32_t number,
                          uint32_t sends, uint8_t *staged, struct ibv_send_wr *wr)
{
    const uint32_t bytes = padded(tx->size) + BTL_IB_RC_TRAILER;
    const uint32_t slot = number % pipe->peer_slots;
    trailer_t trailer = {.sends = htobe32(sends),
                         .size = htobe16((uint16_t) tx->size),
                         .turn = turn_of(number, pipe->peer_slots)};

    memset(staged + padded(tx->size) - (tx->size > 0 ? GRAIN : 0), 0, GRAIN);
    memcpy(staged, tx->iov[0].iov_base, tx->size);
    trailer.check = check_of(staged, tx->size, &trailer);
    memcpy(staged + padded(tx->size), &trailer, sizeof(trailer));
    wr->sg_list->addr = (uintptr_t) staged;
    wr->sg_list->length = bytes;
    wr->opcode = IBV_WR_RDMA_WRITE;
    wr->send_flags |= IBV_SEND_INLINE;
    wr->wr.rdma.remote_addr =
        pipe->peer_word + BTL_IB_RC_LINE + (uint64_t) (slot + 1) * pipe->peer_slot - bytes;
    wr->wr.rdma.rkey = pipe->peer_eager_key;
}

/* ---- receiving ---- */

/* The next datagram in a ring, if its turn has come, and its size. NULL: it has not. */
static const uint8_t *next_in(const btl_ib_rc_pipe_t *pipe, uint32_t *size)
{
    const btl_ib_rc_eager_t *eager = pipe->eager;
    const btl_ib_rc_store_t *store = &eager->store;
    const uint32_t slots = store->count;
    const uint32_t slot_bytes = store->size + BTL_IB_RC_TRAILER;
    const uint32_t slot = eager->taken % slots;
    const uint8_t *end = store->base + (size_t) slot * slot_bytes + store->size;
    const volatile trailer_t *live = (const volatile trailer_t *) (const void *) end;

    if (eager->taken - eager->freed == slots || live->turn != turn_of(eager->taken, slots)) {
        return NULL;
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    trailer_t trailer;
    memcpy(&trailer, end, sizeof(trailer));
    *size = be16toh(trailer.size);
    const uint8_t *data = end - padded(*size);
    if (*size == 0 || *size > store->size || be32toh(trailer.sends) != pipe->heard
        || trailer.check != check_of(data, *size, &trailer)) {
        return NULL; /* not all of it is there, or another one goes first */
    }
    return data;
}

/* Returns whether there was one, which makes an event. */
static bool take(btl_ib_rc_pipe_t *pipe, btl_ib_event_t *event)
{
    btl_ib_rc_eager_t *eager = pipe->eager;
    const btl_ib_rc_store_t *store = &eager->store;
    uint32_t size;
    const uint8_t *data = next_in(pipe, &size);

    if (data == NULL) {
        return false;
    }
    const uint32_t slot = eager->taken % store->count;
    eager->taken++;
    eager->recent++;
    pipe->held++;
    *event = (btl_ib_event_t){
        .type = BTL_IB_EVENT_RECV,
        .size = size,
        .from = btl_ib_rc_peer_handle(pipe->peer),
        .data = store->base + (data - store->base),
        .buffer = &store->buffer[slot],
    };
    return true;
}

int btl_ib_rc_eager_take(btl_ib_rc_pipe_t *pipe, btl_ib_event_t *events, int max)
{
    int count = 0;

    while (count < max && take(pipe, &events[count])) {
        count++;
    }
    return count;
}

int btl_ib_rc_eager_poll(btl_ib_rc_t *rc, btl_ib_event_t *events, int max)
{
    int count = 0;

    for (uint32_t i = 0; i < rc->eager_count; i++) {
        count += btl_ib_rc_eager_take(rc->eager_pipe[i], events + count, max - count);
    }
    if (rc->eager_fading > 0) {
        count += btl_ib_rc_eager_late(rc, events + count, max - count);
    }
    return count;
}

/* Has a peer who may no longer write stopped to? */
static void fade(btl_ib_rc_pipe_t *pipe, uint64_t now)
{
    btl_ib_rc_eager_t *eager = pipe->eager;
    uint32_t size;

    btl_ib_rc_send_word(pipe); /* if there was no room for it before */
    if (eager->told_on || (int32_t) (pipe->completed - eager->off_sent) < 0) {
        return;
    }
    eager->quiet_at = eager->quiet_at != 0 ? eager->quiet_at : now + QUIET_US;
    if (now >= eager->quiet_at && next_in(pipe, &size) == NULL) {
        eager->fading = false;
        pipe->rc->eager_fading--;
    }
}

int btl_ib_rc_eager_late(btl_ib_rc_t *rc, btl_ib_event_t *events, int max)
{
    const uint64_t now = rc->eager_fading > 0 ? btl_ib_rc_now_us() : 0;
    int count = 0;

    for (btl_ib_rc_pipe_t *pipe = rc->eager_off; pipe != NULL; pipe = pipe->eager->next_off) {
        count += btl_ib_rc_eager_take(pipe, events + count, max - count);
        if (pipe->eager->fading) {
            fade(pipe, now);
        }
    }
    return count;
}

void btl_ib_rc_eager_repost(btl_ib_rc_pipe_t *pipe, void *const *buffers, int n)
{
    btl_ib_rc_eager_t *eager = pipe->eager;
    const uint32_t slots = eager->store.count;

    for (int i = 0; i < n; i++) {
        eager->back[(const btl_ib_rc_buffer_t *) buffers[i] - eager->store.buffer] = true;
    }
    while (eager->freed != eager->taken && eager->back[eager->freed % slots]) {
        eager->back[eager->freed % slots] = false;
        eager->freed++;
    }
    btl_ib_rc_send_word(pipe);
}

/* ---- who may ---- */

static void tell(const btl_ib_rc_pipe_t *pipe, const char *what)
{
    char text[BTL_IB_RC_NAME_TEXT];

    BTL_IB_VERBS_LOG(&pipe->rc->verbs, 10, "%s: peer %s: eager RDMA %s", pipe->rc->verbs.base.name,
                     btl_ib_rc_name_format(&pipe->peer->name, text, sizeof(text)), what);
}

static void leave_on(btl_ib_rc_pipe_t *pipe)
{
    btl_ib_rc_t *rc = pipe->rc;
    uint32_t i = 0;

    while (rc->eager_pipe[i] != pipe) {
        i++;
    }
    rc->eager_pipe[i] = rc->eager_pipe[--rc->eager_count];
    pipe->eager->on = false;
    pipe->eager->recent = 0;
}

/* If it is there. */
static void leave_off(btl_ib_rc_pipe_t *pipe)
{
    btl_ib_rc_t *rc = pipe->rc;
    btl_ib_rc_pipe_t **at = &rc->eager_off;

    while (*at != NULL && *at != pipe) {
        at = &(*at)->eager->next_off;
    }
    if (*at == NULL) {
        return;
    }
    *at = pipe->eager->next_off;
    rc->eager_fading -= pipe->eager->fading;
    pipe->eager->fading = false;
}

void btl_ib_rc_eager_end(btl_ib_rc_pipe_t *pipe)
{
    if (pipe->eager != NULL && pipe->eager->on) {
        leave_on(pipe);
    } else if (pipe->eager != NULL) {
        leave_off(pipe);
    }
}

void btl_ib_rc_eager_heard(btl_ib_rc_pipe_t *pipe)
{
    btl_ib_rc_t *rc = pipe->rc;
    btl_ib_rc_eager_t *eager = pipe->eager;

    if (eager->on || pipe->stage != BTL_IB_RC_OPEN || ++eager->recent < rc->eager_threshold
        || rc->eager_count == rc->eager_peers || eager->fading) {
        return;
    }
    leave_off(pipe);
    eager->on = true;
    rc->eager_pipe[rc->eager_count++] = pipe;
    tell(pipe, "begins");
    btl_ib_rc_send_word(pipe);
}

static void turn_off(btl_ib_rc_pipe_t *pipe)
{
    btl_ib_rc_t *rc = pipe->rc;
    btl_ib_rc_eager_t *eager = pipe->eager;

    leave_on(pipe);
    eager->next_off = rc->eager_off;
    rc->eager_off = pipe;
    eager->fading = true;
    eager->off_sent = pipe->completed;
    eager->quiet_at = 0;
    rc->eager_fading++;
    tell(pipe, "ends");
    btl_ib_rc_send_word(pipe);
}

/* Those of whom fewer than so many came. */
static void turn_off_below(btl_ib_rc_t *rc, uint32_t threshold)
{
    for (uint32_t i = rc->eager_count; i-- > 0;) {
        if (rc->eager_pipe[i]->eager->recent < threshold) {
            turn_off(rc->eager_pipe[i]);
        }
    }
}

bool btl_ib_rc_eager_quiet(btl_ib_rc_t *rc)
{
    turn_off_below(rc, UINT32_MAX);
    return rc->eager_fading == 0;
}

void btl_ib_rc_eager_review(btl_ib_rc_t *rc)
{
    const uint64_t now = rc->eager_peers > 0 ? btl_ib_rc_now_us() : 0;

    if (rc->eager_peers == 0 || now < rc->eager_review_at) {
        return;
    }
    rc->eager_review_at = now + rc->eager_period_us;
    turn_off_below(rc, rc->eager_threshold);
    for (uint32_t i = 0; i < rc->slots; i++) {
        btl_ib_rc_pipe_t *pipe = rc->slot[i].pipe;
        if (pipe != NULL && pipe->eager != NULL) {
            pipe->eager->recent = 0;
        }
    }
}
