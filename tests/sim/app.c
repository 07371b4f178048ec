/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The application above an engine: it does all that the interface allows, as soon as it may. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* ---- connections ---- */

bool app_lookup(void *context, uint64_t name, uint32_t rail, uint32_t remote_rail,
                btl_ib_peer_info_t *info)
{
    proc_t *proc = context;
    sim_t *sim = proc->sim;
    proc_t *peer = proc_by_name(sim, name);
    /* rails of different numbers are of different networks */
    bool known = peer != NULL && peer->up && rail < sim->nrails && remote_rail == rail;

    proc_called(proc, "lookup");
    const fault_t *fault = fault_active(sim, F_LOOKUP_FAILED, proc->index, proc->index);
    if (known && fault != NULL && rng_chance(&sim->rng, fault->ppm)) {
        fault_applied(sim, F_LOOKUP_FAILED);
        known = false;
    }
    if (known) {
        *info = peer->published[remote_rail];
        info->answers = peer->answers;
    }
    sim_trace(sim, T_LOOKUP, proc->index, peer == NULL ? UINT32_MAX : peer->index, rail,
              remote_rail, known, 0);
    return known;
}

static proc_t *peer_of(proc_t *proc, const btl_ib_conn_t *conn)
{
    proc_t *peer = proc_by_name(proc->sim, btl_ib_conn_name(conn));

    if (peer == NULL || btl_ib_conn_rail(conn) >= proc->sim->nrails) {
        sim_fail(proc->sim, "p%u: a connection with nobody", proc->index);
    }
    return peer;
}

static link_t *link_of(proc_t *proc, const btl_ib_conn_t *conn)
{
    proc_t *peer = peer_of(proc, conn);
    link_t *link = proc_link(proc, peer->index, btl_ib_conn_rail(conn));

    if (conn != link->conn && conn != link->passive) {
        sim_fail(proc->sim, "p%u: a callback for a connection with p%u that was destroyed",
                 proc->index, peer->index);
    }
    if (conn == link->conn && btl_ib_conn_user(conn) != link) {
        sim_fail(proc->sim, "p%u: the user pointer of a connection changed", proc->index);
    }
    return link;
}

static void link_begin(proc_t *proc, link_t *link)
{
    sim_t *sim = proc->sim;

    if (link->ever) {
        fault_applied(sim, F_RECREATE);
    }
    link->ever = true;
    link->dead = false;
    link->draining = false;
    link->peer_life = sim->procs[link->peer].life;
    link->made_at = sim->now;
    link->heard_at = sim->now;
    link->heard_busy = proc_busy(proc);
    link->answered = false;
}

void app_passive(void *context, btl_ib_conn_t *conn)
{
    proc_t *proc = context;
    proc_t *peer = peer_of(proc, conn);
    link_t *link = proc_link(proc, peer->index, btl_ib_conn_rail(conn));

    proc_called(proc, "passive");
    if (link->conn != NULL && !link->dead) {
        sim_fail(proc->sim, "p%u: a second connection with p%u", proc->index, peer->index);
    }
    fault_applied(proc->sim, F_PASSIVE);
    link->passive = conn;
    bool dead = link->dead;
    link_begin(proc, link);
    link->dead = dead;
    sim_trace(proc->sim, T_PASSIVE, proc->index, peer->index, link->rail, link->peer_life, 0, 0);
}

bool app_connect(proc_t *proc, uint32_t peer_index, uint32_t rail)
{
    sim_t *sim = proc->sim;
    proc_t *peer = &sim->procs[peer_index];
    link_t *link = proc_link(proc, peer_index, rail);
    btl_ib_peer_info_t info;
    int result = 0;

    if (link->conn != NULL) {
        return !link->dead && !link->draining;
    }
    btl_ib_conn_t *conn = btl_ib_conn_find(proc->engine, rail, peer->name, rail);
    bool adopted = conn != NULL;
    if (adopted) {
        if (conn != link->passive) {
            sim_fail(sim, "p%u finds a connection with p%u that it never heard of", proc->index,
                     peer_index);
        }
        btl_ib_conn_adopt(conn, link);
    } else {
        if (!peer->up) {
            return false;
        }
        info = peer->published[rail];
        info.answers = peer->answers;
        result = btl_ib_conn_create(proc->engine, rail, &info, link, &conn);
        if (result == 0) {
            link_begin(proc, link);
        } else if ((result != -ENOMEM || sim->applied[F_NO_MEMORY] == 0)
                   && (result != -ENETDOWN || sim->applied[F_DEVICE] == 0)) {
            sim_fail(sim, "p%u: btl_ib_conn_create returned %d", proc->index, result);
        }
    }
    sim_trace(sim, T_CREATE, proc->index, peer_index, rail, link->peer_life, (uint64_t) result,
              adopted);
    if (result != 0) {
        return false;
    }
    link->conn = conn;
    link->passive = NULL;
    if (btl_ib_conn_user(conn) != link || btl_ib_conn_name(conn) != peer->name
        || btl_ib_conn_rail(conn) != rail) {
        sim_fail(sim, "p%u: a new connection with p%u is not what was asked for", proc->index,
                 peer_index);
    }
    return true;
}

static void check_given_back(proc_t *proc, const link_t *link, const char *when)
{
    if (link->kept != 0) {
        sim_fail(proc->sim, "p%u: %s with p%u: %u messages were not given back", proc->index, when,
                 link->peer, link->kept);
    }
}

void app_destroy(proc_t *proc, link_t *link)
{
    sim_t *sim = proc->sim;
    btl_ib_conn_t *conn = link->conn;

    if (conn == NULL) {
        return;
    }
    bool drained = !link->dead && btl_ib_conn_drained(conn);
    sim_trace(sim, T_DESTROY, proc->index, link->peer, link->rail, drained, link->kept, 0);
    if (!link->dead) {
        link->closed_at = sim->now;
        link->aborted_at = drained ? link->aborted_at : sim->now;
    }
    link->closings++;
    btl_ib_conn_destroy(conn, proc_clock(proc));
    check_given_back(proc, link, "a connection was destroyed");
    link->conn = NULL;
    link->draining = false;
    link->dead = false;
    proc_wake(proc, sim->now + 1000);
}

void app_close(proc_t *proc, uint32_t peer, uint32_t rail, bool drain)
{
    sim_t *sim = proc->sim;
    link_t *link = proc_link(proc, peer, rail);

    if (!proc->up || link->conn == NULL || link->draining || link->dead) {
        return;
    }
    if (!drain) {
        fault_applied(sim, F_CLOSE_ABRUPT);
        app_destroy(proc, link);
        return;
    }
    fault_applied(sim, F_CLOSE);
    sim_trace(sim, T_DRAIN, proc->index, peer, rail, 0, 0, 0);
    link->draining = true;
    link->drain_until = sim->now + SIM_S(1);
    link->closed_at = sim->now;
    link->closings++;
    btl_ib_conn_drain(link->conn);
    proc->draining++;
    proc_wake(proc, sim->now + 1000);
}

static void wake_event(sim_t *sim, void *arg, uint64_t value)
{
    proc_wake(arg, sim->now);
}

/* What the application does after each progress call: look after connections that drain. */
void app_poll(proc_t *proc)
{
    sim_t *sim = proc->sim;

    if (proc->draining == 0) {
        return;
    }
    proc->draining = 0;
    for (uint32_t i = 0; i < sim->nprocs * sim->nrails; i++) {
        link_t *link = &proc->links[i];
        if (link->conn == NULL || !link->draining) {
            continue;
        }
        if (sim->now >= link->drain_until || btl_ib_conn_drained(link->conn)) {
            app_destroy(proc, link);
        } else {
            proc->draining++;
            sim_at(sim, link->drain_until, wake_event, proc, 0);
        }
    }
}

/*
 * Did the peer compute for the last `limit` us, its thread served it, but without room for what we
 * have for it? Then it answers, and lets us wait: nobody there can take anything out of its store.
 * A process that polled, or refused nothing, has no such excuse.
 */
static bool lets_wait(const proc_t *peer, uint64_t now, uint64_t limit, uint64_t grace)
{
    uint64_t from = now > SIM_US(limit) ? now - SIM_US(limit) : 0;
    uint64_t to = peer->busy_until < now ? peer->busy_until : now;

    if (!peer->up || peer->thread_after == 0 || limit == 0) {
        return false;
    }
    from = peer->busy_from > from ? peer->busy_from : from;
    return to > from && (to - from) / 1000 + grace >= limit / 10 * 9
           && proc_refused(peer) > peer->refused_then;
}

/* Over any rail: then the peer is there, whatever became of the others. */
static bool any_answered(const proc_t *proc, uint32_t peer)
{
    bool answered = false;

    for (uint32_t rail = 0; rail < proc->sim->nrails; rail++) {
        const link_t *link = &proc->links[peer * proc->sim->nrails + rail];
        answered = answered || (link->answered && !link->dead);
    }
    return answered;
}

/* Is the death of a connection explained by what happened? */
static void check_death(proc_t *proc, const link_t *link, btl_ib_death_t reason, uint64_t silence,
                        uint64_t computing)
{
    sim_t *sim = proc->sim;
    const proc_t *peer = &sim->procs[link->peer];
    uint64_t limit = proc->config.silence_limit;
    uint64_t grace = proc->leaped + 2 * proc->clock_grain;
    uint64_t age = (sim->now - link->made_at) / 1000 + grace;
    uint64_t quiet = (silence - computing) / 1000 + grace;
    /* Whether it was heard half a limit ago or not only decides what the death is called. */
    bool silent = limit != 0 && age >= limit / 10 * 9 && quiet >= limit / 100 * 45;
    bool right = false;

    switch (reason) {
    case BTL_IB_DEATH_SILENCE:
        /* To a new life of ours a peer that still talks to the last one, and hears nothing, is
         * silent. */
        right = silent || (sim->death_ok && link->closings > 0);
        break;
    case BTL_IB_DEATH_NO_PROGRESS:
    case BTL_IB_DEATH_NO_TAG:
        right = silent || sim->death_ok || lets_wait(peer, sim->now, limit, grace);
        break;
    case BTL_IB_DEATH_REFUSED:
        right = (sim->refuses && (!peer->up || peer->life != 1))
                || (sim->reject != NULL && sim->death_ok);
        break;
    case BTL_IB_DEATH_RESTARTED:
        right = peer->life > link->peer_life || !peer->up;
        break;
    case BTL_IB_DEATH_UNANSWERED:
        right = peer->answers && age >= proc->config.connect_timeout
                && !any_answered(proc, link->peer)
                && (sim->death_ok || peer->life > link->peer_life);
        break;
    case BTL_IB_DEATH_DEVICE:
        right = sim->applied[F_DEVICE] > 0 && !sim->survives;
        break;
    case BTL_IB_DEATH_HOST_LOST:
        right = sim->unreachable && sim->death_ok && !peer->up;
        break;
    case BTL_IB_DEATH_ENDED:
        right = false; /* there is no runtime here */
        break;
    }
    if (!right) {
        sim_fail(sim, "p%u reports p%u dead without a reason: %s (silent for %llu us of polling)",
                 proc->index, link->peer, btl_ib_death_string(reason),
                 (unsigned long long) silence / 1000);
    }
}

void app_unanswered(void *context, btl_ib_conn_t *conn, bool heard)
{
    proc_t *proc = context;
    const link_t *link = link_of(proc, conn);

    proc_called(proc, "unanswered");
    sim_trace(proc->sim, T_DEAD, proc->index, link->peer, UINT32_MAX, heard, 0, link->rail);
    proc->unanswered++;
    proc->unanswered_heard += heard;
}

void app_silent(void *context, btl_ib_conn_t *conn, const btl_ib_silence_t *silence)
{
    proc_t *proc = context;
    const link_t *link = link_of(proc, conn);

    proc_called(proc, "silent");
    sim_trace(proc->sim, T_DEAD, proc->index, link->peer, UINT32_MAX, 2, silence->others_tried,
              link->rail);
    proc->silent++;
    proc->silence = *silence;
}

void app_black_hole(void *context, btl_ib_conn_t *conn, uint32_t lost, uint32_t most,
                    uint32_t carries)
{
    proc_t *proc = context;

    (void) link_of(proc, conn); /* it is one of its own */
    proc->holes_told++;
    proc->hole_lost = lost;
    proc->hole_most = most;
    proc->hole_carries = carries;
}

void app_gso_lost(void *context, btl_ib_conn_t *conn, uint32_t lost, bool refused)
{
    proc_t *proc = context;

    (void) link_of(proc, conn);
    proc->gso_told++;
    proc->gso_refused += refused;
}

static void destroy_event(sim_t *sim, void *arg, uint64_t value)
{
    proc_t *proc = arg;
    link_t *link = &proc->links[value];

    if (proc->up && link->passive_dead != NULL) {
        btl_ib_conn_destroy(link->passive_dead, proc_clock(proc));
        link->passive_dead = NULL;
    }
    if (proc->up && link->dead) {
        app_destroy(proc, link);
    }
}

void app_dead(void *context, btl_ib_conn_t *conn, btl_ib_death_t reason)
{
    proc_t *proc = context;
    sim_t *sim = proc->sim;
    link_t *link = link_of(proc, conn);
    uint64_t silence = sim->now - link->heard_at;
    uint64_t computing = proc_busy(proc) - link->heard_busy;

    proc_called(proc, "dead");
    sim_trace(sim, T_DEAD, proc->index, link->peer, reason, silence, silence - computing,
              link->rail);
    fault_applied(sim, F_DEATH);
    check_given_back(proc, link, "a connection died");
    check_death(proc, link, reason, silence, computing);
    if (!btl_ib_conn_is_dead(conn)) {
        sim_fail(sim, "p%u: a connection reported dead says that it is not", proc->index);
    }
    link->closed_at = sim->now;
    link->aborted_at = sim->now;
    link->closings++;
    if (conn == link->conn) {
        link->dead = true;
    } else {
        link->passive_dead = conn;
        link->passive = NULL;
    }
    sim_at(sim, sim->now + rng_log(&sim->rng, 1, SIM_MS(1)), destroy_event, proc,
           (uint64_t) (link - proc->links));
}

/* ---- sending ---- */

static void try_event(sim_t *sim, void *arg, uint64_t id)
{
    app_try(arg, (uint32_t) id);
}

message_t *app_plan(proc_t *proc, uint32_t peer, uint32_t size, uint64_t at)
{
    sim_t *sim = proc->sim;
    message_t *m = ledger_new(sim);

    m->src = proc->index;
    m->dst = peer;
    m->size = size;
    m->tag = (uint8_t) rng_range(&sim->rng, 0, 15);
    m->rail = (uint32_t) rng_range(&sim->rng, 0, sim->nrails - 1);
    m->mode = SEND_ANY;
    m->ordered = size > 0 && sim->ordered_ppm > 0 && rng_chance(&sim->rng, sim->ordered_ppm);
    sim->unaccepted++;
    if (at != SIM_NEVER) {
        sim_at(sim, at, try_event, proc, m->id);
    }
    return m;
}

static void accepted(proc_t *proc, message_t *m)
{
    sim_t *sim = proc->sim;

    m->accepted = true;
    sim->unaccepted--;
    if (m->delivered == 0) {
        sim->undelivered++;
    }
}

/* It was said to be on its way: has the transport seen all of it? Of a segment in parts it may have
 * taken some only, and what it has no buffers for, again and again, counts as lost. */
static void check_handed(proc_t *proc, const message_t *m, uint64_t tiny_before)
{
    bool parts = btl_ib_engine_counters(proc->engine)->sent_parts > 0;
    bool seen = m->size < sizeof(m->id) ? proc->tiny_parts > tiny_before
                                        : m->handed >= m->size && m->parts > 0;

    if (!seen && !parts && !proc->no_buffers) {
        sim_fail(proc->sim,
                 "p%u: message %u of %u bytes is said to be sent, but the transport has %llu of it",
                 proc->index, m->id, m->size, (unsigned long long) m->handed);
    }
}

static bool send_inline(proc_t *proc, link_t *link, message_t *m)
{
    sim_t *sim = proc->sim;
    uint64_t tiny = proc->tiny_parts;
    uint8_t *out = btl_ib_sendi_begin(link->conn, m->tag, m->size);

    if (out == NULL) {
        return false;
    }
    if ((uintptr_t) out % 4 != 0) {
        sim_fail(sim, "p%u: sendi_begin returns memory that is not aligned", proc->index);
    }
    if (sim->aborts && mix64(m->id) % 8 == 0) {
        btl_ib_sendi_abort(link->conn);
        return false;
    }
    content_fill(sim, m, out);
    int result = btl_ib_sendi_commit(link->conn, proc_clock(proc));
    sim_trace(sim, T_SEND, proc->index, link->peer, m->id, m->size, (uint64_t) result,
              m->tag | 0x100u);
    if (result == 0) {
        check_handed(proc, m, tiny);
        accepted(proc, m);
        return true;
    }
    if (result != -EAGAIN || m->parts != 0) {
        sim_fail(sim, "p%u: sendi_commit returns %d, %u datagrams were sent", proc->index, result,
                 m->parts);
    }
    return false;
}

static app_message_t *message_make(proc_t *proc, link_t *link, const message_t *m)
{
    sim_t *sim = proc->sim;
    uint32_t gap = (uint32_t) rng_range(&sim->rng, 0, 9);
    uint32_t cut = (uint32_t) rng_range(&sim->rng, 0, m->size);
    app_message_t *am = calloc(1, sizeof(*am) + m->size + gap);

    if (rng_chance(&sim->rng, 300000)) {
        cut = m->size;
    }
    cut = m->spare ? m->size / 2 : cut;
    content_fill(sim, m, am->bytes);
    memmove(am->bytes + cut + gap, am->bytes + cut, m->size - cut);
    am->proc = proc;
    am->link = link;
    am->id = m->id;
    am->gap = gap;
    am->msg.iov[0] = (struct iovec){am->bytes, cut};
    am->msg.iov[1] = (struct iovec){am->bytes + cut + gap, m->size - cut};
    am->msg.tag = m->tag;
    am->msg.ordered = m->ordered;
    am->msg.want_ack_now = rng_chance(&sim->rng, 200000);
    if ((m->spare || m->id % 3 == 0) && m->size > cut) {
        am->msg.spare = malloc(m->size - cut);
    }
    am->next = proc->held;
    if (am->next != NULL) {
        am->next->prev = am;
    }
    proc->held = am;
    return am;
}

/* The memory is ours again: nobody may look at it any more. */
static void message_free(app_message_t *am, uint32_t size)
{
    if (am->prev != NULL) {
        am->prev->next = am->next;
    } else {
        am->proc->held = am->next;
    }
    if (am->next != NULL) {
        am->next->prev = am->prev;
    }
    free(am->msg.spare);
    memset(am, 0xa5, sizeof(*am) + size);
    free(am);
}

/* True if the engine took it. */
static bool send_normal(proc_t *proc, link_t *link, uint32_t id)
{
    sim_t *sim = proc->sim;
    message_t *m = &sim->messages[id];
    app_message_t *am = message_make(proc, link, m);
    uint32_t bytes = m->size + am->gap;
    uint64_t tiny = proc->tiny_parts;

    if (m->ordered) {
        m->order = ++sim->orders;
        fault_applied(sim, F_ORDERED);
    }
    m->kept = true;
    sim->undone++;
    link->kept++;
    const bool joined = sim->joins && btl_ib_engine_join(link->conn, &am->msg);
    int result = joined ? 0 : btl_ib_engine_send(link->conn, &am->msg, proc_clock(proc));
    m = &sim->messages[id];
    sim_trace(sim, T_SEND, proc->index, link->peer, id, m->size, (uint64_t) result, m->tag);
    if (result == 0) {
        accepted(proc, m);
        return true;
    }
    if (m->sent || m->done) {
        sim_fail(sim, "p%u: a callback for message %u, which was not kept", proc->index, id);
    }
    m->kept = false;
    sim->undone--;
    link->kept--;
    message_free(am, bytes);
    if (result == 1) {
        check_handed(proc, m, tiny);
        accepted(proc, m);
        return true;
    }
    if (result != -EPIPE || !btl_ib_conn_is_dead(link->conn)) {
        sim_fail(sim, "p%u: btl_ib_engine_send returns %d", proc->index, result);
    }
    return false;
}

static void try_later(proc_t *proc, uint32_t id, uint64_t at)
{
    sim_at(proc->sim, at, try_event, proc, id);
}

void app_try(proc_t *proc, uint32_t id)
{
    sim_t *sim = proc->sim;
    message_t *m = &sim->messages[id];
    link_t *link = proc_link(proc, m->dst, m->rail);

    if (!proc->up || proc->busy_until > sim->now) {
        try_later(proc, id, proc->up ? proc->busy_until : sim->now + SIM_MS(1));
        return;
    }
    if (!app_connect(proc, m->dst, m->rail)) {
        try_later(proc, id, sim->now + rng_range(&sim->rng, SIM_US(50), SIM_MS(1)));
        return;
    }
    m->attempts++;
    m->handed = 0;
    m->parts = 0;
    m->chunked = false;
    m->src_life = proc->life;
    m->dst_life = link->peer_life;
    m->accepted_at = sim->now;
    m->link_made_at = link->made_at;
    bool in_line =
        !m->ordered
        && (m->mode == SEND_INLINE || (m->mode == SEND_ANY && rng_chance(&sim->rng, 500000)));
    bool taken = (in_line && send_inline(proc, link, m)) || send_normal(proc, link, id);
    if (!taken) {
        try_later(proc, id, sim->now + SIM_MS(2));
    }
    proc_wake(proc, sim->now + proc->step);
}

/* ---- callbacks ---- */

bool app_deliverable(void *context, const btl_ib_conn_t *conn, uint8_t tag)
{
    proc_t *proc = context;
    sim_t *sim = proc->sim;

    link_of(proc, conn);
    if (tag == 200 && sim->now < sim->tag_from) {
        fault_applied(sim, F_NO_TAG);
        return false;
    }
    return true;
}

static void reply(proc_t *proc, const message_t *to)
{
    sim_t *sim = proc->sim;
    uint32_t id = to->id;
    uint32_t size = to->size;

    if (rng_chance(&sim->rng, 300000)) {
        size = (uint32_t) rng_range(&sim->rng, 0, size);
    }
    bool later = rng_chance(&sim->rng, 200000);
    message_t *m = app_plan(proc, to->src, size, later ? sim->now + SIM_US(5) : SIM_NEVER);
    m->replies = (uint8_t) (sim->messages[id].replies - 1);
    m->rail = sim->messages[id].rail;
    m->tag = sim->messages[id].tag;
    if (!later) {
        fault_applied(sim, F_SEND_IN_DELIVER);
        app_try(proc, m->id);
    }
}

/* Those of less than four bytes have no number: which one it is cannot be told. */
static void check_order(sim_t *sim, link_t *link, const message_t *m)
{
    if (!m->ordered || m->size < sizeof(m->id)) {
        return;
    }
    if (m->order < link->ordered) {
        sim_fail(sim, "p%u: message %u of p%u was delivered after one that was sent later", m->dst,
                 m->id, m->src);
    }
    link->ordered = m->order;
}

void app_deliver(void *context, btl_ib_conn_t *conn, uint8_t tag, void *data, uint32_t size)
{
    proc_t *proc = context;
    sim_t *sim = proc->sim;
    link_t *link = link_of(proc, conn);
    message_t *m = ledger_match(sim, link->peer, proc->index, link->rail, tag, data, size);

    proc_called(proc, "deliver");
    if (m == NULL) {
        sim_fail(sim, "p%u: %u bytes with tag %u from p%u are no message of its", proc->index, size,
                 tag, link->peer);
    }
    sim_trace(sim, T_DELIVER, proc->index, link->peer, m->id, size, tag, sim->now - m->accepted_at);
    if ((uintptr_t) data % 4 != 0) {
        sim_fail(sim, "p%u: delivered data are not aligned", proc->index);
    }
    if (!m->accepted) {
        sim_fail(sim, "p%u: message %u was refused by the sender, but came", proc->index, m->id);
    }
    if (++m->delivered > 1) {
        sim_fail(sim, "p%u: message %u of p%u was delivered twice", proc->index, m->id, link->peer);
    }
    if (conn == link->conn && (link->draining || link->dead)) {
        sim_fail(sim, "p%u: message %u came on a connection that drains or is dead", proc->index,
                 m->id);
    }
    if (m->dst_life != proc->life) {
        sim_fail(sim, "p%u: message %u was for life %u, this is %u", proc->index, m->id,
                 m->dst_life, proc->life);
    }
    check_order(sim, link, m);
    m->delivered_at = sim->now;
    sim->undelivered--;
    if (sim->on_deliver != NULL) {
        sim->on_deliver(sim, m);
    }
    if (m->replies > 0 && !sim->stopping) {
        reply(proc, m);
    }
    memset(data, 0x5a, size);
}

static app_message_t *held_message(proc_t *proc, btl_ib_msg_t *msg)
{
    app_message_t *am = BTL_IB_CONTAINER(msg, app_message_t, msg);

    if (am->proc != proc || am->id >= proc->sim->nmessages) {
        sim_fail(proc->sim, "p%u: a callback for a message that was given back", proc->index);
    }
    return am;
}

void app_on_sent(void *context, btl_ib_msg_t *msg)
{
    proc_t *proc = context;
    app_message_t *am = held_message(proc, msg);
    message_t *m = &proc->sim->messages[am->id];

    proc_called(proc, "on_sent");
    sim_trace(proc->sim, T_SENT, m->src, m->dst, m->id, 0, 0, 0);
    if (m->sent || m->done || !m->kept) {
        sim_fail(proc->sim, "p%u: message %u: on_sent at the wrong time", proc->index, m->id);
    }
    m->sent = true;
    if (m->size >= 64) {
        check_handed(proc, m, 0);
    }
    if (msg->spare != NULL) { /* the application writes something else there */
        memset(msg->iov[1].iov_base, 0xc3, msg->iov[1].iov_len);
        if (m->chunked && m->delivered == 0) {
            fault_applied(proc->sim, F_KEPT_LATE);
        }
    }
}

/* Is another message on its way in chunks between the same processes? That cannot be told of one
 * that is too short for its number (chunk_of() in wiretap.c). */
static bool waits_for_other(const sim_t *sim, const message_t *m)
{
    for (uint32_t i = 0; i < sim->nmessages; i++) {
        const message_t *other = &sim->messages[i];

        if (other != m && other->src == m->src && other->dst == m->dst && other->rail == m->rail
            && (other->chunked || other->ordered || other->size < sizeof(other->id))
            && other->delivered == 0) {
            return true;
        }
    }
    return false;
}

void app_on_done(void *context, btl_ib_msg_t *msg, int status)
{
    proc_t *proc = context;
    sim_t *sim = proc->sim;
    app_message_t *am = held_message(proc, msg);
    message_t *m = &sim->messages[am->id];

    proc_called(proc, "on_done");
    sim_trace(sim, T_DONE, m->src, m->dst, m->id, (uint64_t) (int64_t) status, 0, 0);
    if (m->done || !m->kept || status > 0) {
        sim_fail(sim, "p%u: message %u: on_done(%d) at the wrong time", proc->index, m->id, status);
    }
    /* A message that fitted one segment was copied: done as soon as that was handed over. What came
     * in an asynchronous turn is acknowledged, and delivered at the next poll; what came in chunks
     * waits for those that were sent before. */
    bool early = m->delivered == 0 && m->chunked && !sim->procs[m->dst].async_received
                 && !ledger_excused(sim, m) && !waits_for_other(sim, m);
    if (status == 0 && (!m->sent || early)) {
        sim_fail(sim, "p%u: message %u is done, but %s", proc->index, m->id,
                 m->sent ? "was not delivered" : "on_sent was not called");
    }
    const btl_ib_conn_t *conn = am->link->conn;
    if (status < 0 && conn != NULL && !btl_ib_conn_is_dead(conn) && !ledger_excused(sim, m)) {
        sim_fail(sim,
                 "p%u: message %u is said to have failed (%d), but nothing happened to its "
                 "connection",
                 proc->index, m->id, status);
    }
    m->done = true;
    m->status = status;
    sim->undone--;
    am->link->kept--;
    message_free(am, m->size + am->gap);
    if (status == 0 && m->chain > 0 && !sim->stopping) {
        uint32_t id = m->id;
        fault_applied(sim, F_SEND_IN_DONE);
        message_t *next = app_plan(proc, m->dst, m->size, SIM_NEVER);
        next->chain = sim->messages[id].chain - 1;
        next->rail = sim->messages[id].rail;
        app_try(proc, next->id);
    }
}

/* The engine is gone, without a word about the messages that it had. */
void app_forget_links(proc_t *proc)
{
    sim_t *sim = proc->sim;

    ops_forget(proc);
    while (proc->held != NULL) {
        const message_t *m = &sim->messages[proc->held->id];
        sim->undone--;
        message_free(proc->held, m->size + proc->held->gap);
    }
    for (uint32_t i = 0; i < sim->nprocs * sim->nrails; i++) {
        link_t *link = &proc->links[i];
        if (!link->ever) {
            continue;
        }
        link->conn = NULL;
        link->passive = NULL;
        link->passive_dead = NULL;
        link->dead = false;
        link->draining = false;
        link->closed_epoch = 0;
        link->kept = 0;
        link->closed_at = sim->now;
        link->aborted_at = sim->now;
        link->closings++;
    }
    proc->draining = 0;
}
