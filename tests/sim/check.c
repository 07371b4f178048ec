/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim.h"

/* What the six numbers of a trace line mean. */
static const char *const trace_formats[T_COUNT] = {
    [T_TX] = "tx      p%llu > p%llu life %llu head %08llx seq/ack %016llx conn/size %016llx",
    [T_RX] = "rx      p%llu < p%llu head %08llx seq/ack %016llx size %llu age %llu ns",
    [T_DROP] = "drop    p%llu > p%llu fault %llu seq %llu size %llu head %08llx",
    [T_POLL] = "poll    p%llu clock %llu got %llu due in %lld us received %llu held %llu",
    [T_SEND] = "send    p%llu > p%llu msg %llu size %llu result %lld tag/inline %llx",
    [T_DELIVER] = "deliver p%llu < p%llu msg %llu size %llu tag %llu after %llu ns",
    [T_SENT] = "sent    p%llu > p%llu msg %llu%.0s%.0s%.0s",
    [T_DONE] = "done    p%llu > p%llu msg %llu status %lld%.0s%.0s",
    [T_OP] = "op      p%llu > p%llu op %llu kind %llu bytes %llu result %lld",
    [T_OP_DONE] = "op done p%llu > p%llu op %llu status %lld%.0s%.0s",
    [T_DEAD] = "DEAD    p%llu > p%llu reason %llu silence %llu ns (not computing %llu) rail %llu",
    [T_CREATE] = "create  p%llu > p%llu rail %llu life of peer %llu result %lld adopted %llu",
    [T_DESTROY] = "destroy p%llu > p%llu rail %llu drained %llu kept %llu%.0s",
    [T_DRAIN] = "drain   p%llu > p%llu rail %llu%.0s%.0s%.0s",
    [T_PASSIVE] = "passive p%llu < p%llu rail %llu life of peer %llu%.0s%.0s",
    [T_LOOKUP] = "lookup  p%llu < p%llu rails %llu,%llu result %llu%.0s",
    [T_FAULT] = "fault   %llu value %llu%.0s%.0s%.0s%.0s",
    [T_PROC] = "process p%llu what %llu life %llu value %llu%.0s%.0s",
    [T_PHASE] = "phase   %llu events %llu undelivered %llu undone %llu%.0s%.0s",
};

static void print_line(FILE *out, const trace_line_t *line)
{
    char format[160];
    char *at;

    /* Unused numbers: "%.0s" keeps the table readable, but takes a pointer: cut them off. */
    snprintf(format, sizeof(format), "%s", trace_formats[line->kind]);
    at = strstr(format, "%.0s");
    if (at != NULL) {
        *at = '\0';
    }
    fprintf(out, "  %13.3f us  ", (double) line->at / 1000.0);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
    fprintf(out, format, (unsigned long long) line->v[0], (unsigned long long) line->v[1],
            (unsigned long long) line->v[2], (unsigned long long) line->v[3],
            (unsigned long long) line->v[4], (unsigned long long) line->v[5]);
#pragma GCC diagnostic pop
    fputc('\n', out);
}

void sim_trace(sim_t *sim, trace_kind_t kind, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
               uint64_t e, uint64_t f)
{
    trace_line_t *line = &sim->trace[sim->trace_len++ % SIM_TRACE_LINES];

    *line = (trace_line_t){.at = sim->now, .kind = kind, .v = {a, b, c, d, e, f}};
    uint64_t h = sim->hash;
    h = (h ^ sim->now ^ (uint64_t) kind << 56) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 29 ^ a ^ b << 16) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 32 ^ c ^ (d << 8 | d >> 56)) * 0x94d049bb133111ebu;
    sim->hash = (h ^ h >> 31 ^ e ^ (f << 8 | f >> 56)) * 0x9e3779b97f4a7c15u;
    if (sim->verbose) {
        print_line(stdout, line);
    }
}

void sim_trace_dump(const sim_t *sim, uint32_t lines)
{
    uint64_t from = sim->trace_len > lines ? sim->trace_len - lines : 0;

    for (uint64_t i = from; i < sim->trace_len; i++) {
        print_line(stderr, &sim->trace[i % SIM_TRACE_LINES]);
    }
}

void sim_fail(sim_t *sim, const char *format, ...)
{
    va_list args;

    fflush(stdout);
    fprintf(stderr, "\nFAILED scenario %s seed %llu at %.3f us: ", sim->scenario,
            (unsigned long long) sim->seed, (double) sim->now / 1000.0);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, " (protection %s)\n", sim->protection.ops->name);
    for (uint32_t i = 0; i < sim->nprocs * sim->nrails && !sim->terse; i++) {
        const rail_t *rail = sim->procs[i / sim->nrails].rails[i % sim->nrails];
        if (sim->procs[i / sim->nrails].shapes != NULL && rail != NULL) {
            rail_print(stderr, rail);
        }
    }
    sim_trace_dump(sim, sim->terse ? 0 : 60);
    for (uint32_t i = 0; i < sim->nprocs && i < 4 && !sim->terse; i++) {
        proc_t *proc = &sim->procs[i];
        for (uint32_t k = 0; proc->up && !proc->in_progress && k < sim->nprocs * sim->nrails; k++) {
            char line[512];
            if (k < 4 && proc->links[k].conn != NULL) {
                btl_ib_conn_format(proc->links[k].conn, proc->clock_max, line, sizeof(line));
                fprintf(stderr, "  p%u > p%u: %s\n", i, proc->links[k].peer, line);
            }
        }
    }
    fflush(stderr);
    _exit(1);
}

message_t *ledger_new(sim_t *sim)
{
    if (sim->nmessages == sim->messages_cap) {
        sim->messages_cap = sim->messages_cap == 0 ? 512 : 2 * sim->messages_cap;
        sim->messages = realloc(sim->messages, sim->messages_cap * sizeof(*sim->messages));
    }
    message_t *m = &sim->messages[sim->nmessages];
    *m = (message_t){.id = sim->nmessages++};
    return m;
}

static uint8_t tiny_byte(const message_t *m, uint32_t i)
{
    return (uint8_t) mix64(m->src * 7919u + m->dst * 104729u + m->tag * 31u + m->size + i * 257u);
}

static uint64_t content_word(const sim_t *sim, const message_t *m, uint32_t i)
{
    return (sim->seed ^ (uint64_t) m->id << 32 ^ i) * 0x9e3779b97f4a7c15u ^ m->src_life;
}

void content_fill(const sim_t *sim, const message_t *m, uint8_t *out)
{
    if (m->size < sizeof(m->id)) {
        for (uint32_t i = 0; i < m->size; i++) {
            out[i] = tiny_byte(m, i);
        }
        return;
    }
    for (uint32_t i = 0; i < m->size; i += 8) {
        uint64_t word = content_word(sim, m, i);
        memcpy(out + i, &word, m->size - i < 8 ? m->size - i : 8);
    }
    memcpy(out, &m->id, sizeof(m->id));
}

bool content_right(const sim_t *sim, const message_t *m, const uint8_t *data)
{
    if (m->size < sizeof(m->id)) {
        for (uint32_t i = 0; i < m->size; i++) {
            if (data[i] != tiny_byte(m, i)) {
                return false;
            }
        }
        return true;
    }
    for (uint32_t i = 0; i < m->size; i += 8) {
        uint64_t word = content_word(sim, m, i);
        if (i == 0) {
            memcpy(&word, &m->id, sizeof(m->id));
        }
        if (memcmp(data + i, &word, m->size - i < 8 ? m->size - i : 8) != 0) {
            return false;
        }
    }
    return true;
}

/* Messages of less than four bytes have no room for a number: any open one that looks alike. */
static message_t *match_tiny(sim_t *sim, uint32_t src, uint32_t dst, uint32_t rail, uint8_t tag,
                             const uint8_t *data, uint32_t size)
{
    message_t *best = NULL;

    for (uint32_t i = 0; i < sim->nmessages; i++) {
        message_t *m = &sim->messages[i];
        if (m->src == src && m->dst == dst && m->rail == rail && m->tag == tag && m->size == size
            && m->delivered == 0 && m->attempts > 0 && m->dst_life == sim->procs[dst].life
            && content_right(sim, m, data)) {
            /* One that nothing excuses first, else a lost one would look delivered. */
            if (m->accepted && !ledger_excused(sim, m)) {
                return m;
            }
            best = m;
        }
    }
    return best;
}

message_t *ledger_match(sim_t *sim, uint32_t src, uint32_t dst, uint32_t rail, uint8_t tag,
                        const uint8_t *data, uint32_t size)
{
    uint32_t id;

    if (size < sizeof(id)) {
        return match_tiny(sim, src, dst, rail, tag, data, size);
    }
    memcpy(&id, data, sizeof(id));
    if (id >= sim->nmessages) {
        return NULL;
    }
    message_t *m = &sim->messages[id];
    if (m->src != src || m->dst != dst || m->rail != rail || m->tag != tag || m->size != size) {
        return NULL;
    }
    return content_right(sim, m, data) ? m : NULL;
}

/* May this message be missing? Only if one of its ends is another by now, or gave up the connection
 * that it was sent on. */
bool ledger_excused(const sim_t *sim, const message_t *m)
{
    const proc_t *src = &sim->procs[m->src];
    const proc_t *dst = &sim->procs[m->dst];

    if (!src->up || src->life != m->src_life || !dst->up || dst->life != m->dst_life) {
        return true;
    }
    const link_t *there = &dst->links[m->src * sim->nrails + m->rail];
    if (there->draining || (there->closed_at != 0 && there->closed_at >= m->link_made_at)) {
        return true;
    }
    const link_t *here = &src->links[m->dst * sim->nrails + m->rail];
    if (here->close_heard_at != 0 && here->close_heard_at >= m->accepted_at) {
        return true;
    }
    if (m->done && m->status < 0 && there->closings > 0) {
        return true; /* the sender was told; without memory, also for a copy of a CLOSE */
    }
    return here->aborted_at != 0 && here->aborted_at >= m->accepted_at;
}

static bool open_message(const sim_t *sim, const message_t *m)
{
    if (!m->accepted) {
        return false;
    }
    const proc_t *src = &sim->procs[m->src];
    if (m->kept && !m->done && src->up && src->life == m->src_life) {
        return true;
    }
    return m->delivered == 0 && !ledger_excused(sim, m);
}

const message_t *ledger_open(const sim_t *sim)
{
    for (uint32_t i = 0; i < sim->nmessages; i++) {
        if (open_message(sim, &sim->messages[i])) {
            return &sim->messages[i];
        }
    }
    return NULL;
}

bool ledger_settled(const sim_t *sim)
{
    if (sim->unaccepted > 0 || sim->ops_waiting > 0 || sim->open != NULL) {
        return false;
    }
    return (sim->undelivered == 0 && sim->undone == 0) || ledger_open(sim) == NULL;
}
