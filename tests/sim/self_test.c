/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Does the simulator notice what it shall notice? Each error below is made once, in a scenario that
 * passes without it, by what stands between an engine and its application, its memory or its
 * transport: as if the engine had made it. The simulator must say the right thing and fail. Which
 * of its own changes these errors notice is tried by tests/mutate/planted.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arena.h"
#include "named.h"

/* What goes wrong, and what the simulator says then. */
#define SELF_ERRORS(X)                                                                             \
    X(WRONG_BYTE, "are no message of its")                                                         \
    X(WRONG_FIRST_BYTE, "are no message of its")                                                   \
    X(WRONG_LAST_BYTE, "are no message of its")                                                    \
    X(WRONG_TINY_BYTE, "are no message of its")                                                    \
    X(OTHER_MESSAGE, "are no message of its")                                                      \
    X(SHORTER, "are no message of its")                                                            \
    X(OTHER_TAG, "are no message of its")                                                          \
    X(UNALIGNED, "delivered data are not aligned")                                                 \
    X(TWICE, "was delivered twice")                                                                \
    X(TINY_TWICE, "are no message of its")                                                         \
    X(NEVER, "is not delivered")                                                                   \
    X(TINY_NEVER, "is not delivered")                                                              \
    X(OVERTAKEN, "was delivered after one that was sent later")                                    \
    X(SENT_NEVER, "on_sent was not called")                                                        \
    X(SENT_TWICE, "on_sent at the wrong time")                                                     \
    X(DONE_NEVER, "is delivered, not done")                                                        \
    X(DONE_EARLY, "was not delivered")                                                             \
    X(DONE_FAILED, "is said to have failed")                                                       \
    X(OP_NEVER, "has no end")                                                                      \
    X(OP_REFUSED, "ends with")                                                                     \
    X(OP_CUT_OFF, "ends with")                                                                     \
    X(OP_BEYOND, "wrote beyond its local memory")                                                  \
    X(PUT_BYTE, "is done, but not placed")                                                         \
    X(PUT_LAST_BYTE, "is done, but not placed")                                                    \
    X(PUT_ELSEWHERE, "of its memory is")                                                           \
    X(GET_BYTE, "brings")                                                                          \
    X(GET_LAST_BYTE, "brings")                                                                     \
    X(WORD, "it must be")                                                                          \
    X(WORD_RESULT, "it must be")                                                                   \
    X(SHARED_WORD, "no order of")                                                                  \
    X(DEATH, "reported dead says that it is not")                                                  \
    X(DEATH_EARLY, "dead without a reason")                                                        \
    X(LEAK, "bytes of it are left")                                                                \
    X(UNASKED, "although everything was at rest")                                                  \
    X(BUDGET, "this does not hold")                                                                \
    X(GRANTED, "this does not hold")                                                               \
    X(BUSY, "this does not hold")                                                                  \
    X(UNLISTED, "this does not hold")                                                              \
    X(ADDRESS_LEFT, "has not removed address")                                                     \
    X(OTHER_PEER, "but not all is over")                                                           \
    X(SEGMENT_LOST, "but not all is over")                                                         \
    X(IN_FLIGHT, "this does not hold")                                                             \
    X(CREDIT_MADE, "granted up to")                                                                \
    X(CREDIT_LOST, "but not all is over")                                                          \
    X(WIRE_BYTE, "that is no message of its")                                                      \
    X(WIRE_CREDIT, "credits open on queue")                                                        \
    X(WIRE_LENGTH, "a malformed datagram")                                                         \
    X(WIRE_PUT, "sends other bytes for PUT")

typedef enum self_error {
#define SELF_ENUM(name, text) name,
    SELF_ERRORS(SELF_ENUM)
#undef SELF_ENUM
        ERRORS
} self_error_t;

static const struct {
    const char *name, *said;
} errors[] = {
#define SELF_ROW(name, text) {#name, text},
    SELF_ERRORS(SELF_ROW)
#undef SELF_ROW
};

enum {
    AT_FIRST = 3, /* that many occasions pass: the scenario is under way by then */
    BIGGEST = 20000,
};

/* The one at hand; each has a process of its own. */
static struct {
    self_error_t error;
    uint32_t occasions;
    bool made;
    bool alone;                                            /* one message at a time */
    uint8_t kept[BIGGEST + 8] __attribute__((aligned(8))); /* what OVERTAKEN holds back */
    uint32_t kept_size;
    uint8_t kept_tag;
} now;

/* Is it time for that error? Only once. */
static bool is_time(self_error_t error)
{
    if (now.error != error || now.made || now.occasions++ < AT_FIRST) {
        return false;
    }
    now.made = true;
    return true;
}

/* ---- what the application is told ---- */

static message_t *message_of(const proc_t *proc, const btl_ib_conn_t *conn, uint8_t tag,
                             const uint8_t *data, uint32_t size)
{
    const proc_t *peer = proc_by_name(proc->sim, btl_ib_conn_name(conn));

    return ledger_match(proc->sim, peer->index, proc->index, btl_ib_conn_rail(conn), tag, data,
                        size);
}

/* Changes what is to be delivered. */
static void spoil_message(uint8_t *tag, uint8_t *data, uint32_t *size)
{
    if (*size < 4) {
        if (*size > 0 && is_time(WRONG_TINY_BYTE)) {
            data[0] ^= 0x10;
        }
        return;
    }
    if (*size > 40 && is_time(WRONG_BYTE)) {
        data[(*size / 2 & ~7u) | 8] ^= 0x01;
    } else if (*size > 40 && is_time(WRONG_FIRST_BYTE)) {
        data[4] ^= 0x80;
    } else if (*size % 8 == 1 && is_time(WRONG_LAST_BYTE)) {
        data[*size - 1] ^= 0x04;
    } else if (is_time(OTHER_MESSAGE)) { /* of the same length, by its number */
        data[0] ^= 1;
    } else if (is_time(SHORTER)) {
        --*size;
    } else if (is_time(OTHER_TAG)) {
        *tag ^= 1;
    }
}

static void hold_back(uint8_t tag, const uint8_t *data, uint32_t size)
{
    memcpy(now.kept, data, size);
    now.kept_size = size;
    now.kept_tag = tag;
}

/* Is it an ordered one, to be held back until the next that is ordered was delivered? */
static bool is_held(const proc_t *proc, const btl_ib_conn_t *conn, uint8_t tag, const uint8_t *data,
                    uint32_t size)
{
    const message_t *m = size < 4 ? NULL : message_of(proc, conn, tag, data, size);

    if (m == NULL || !m->ordered || proc->index != 1 || !is_time(OVERTAKEN)) {
        return false;
    }
    hold_back(tag, data, size);
    return true;
}

static void deliver(void *context, btl_ib_conn_t *conn, uint8_t tag, void *data, uint32_t size)
{
    proc_t *proc = context;

    if (size <= BIGGEST && is_held(proc, conn, tag, data, size)) {
        return;
    }
    if ((size >= 4 && is_time(NEVER)) || (size > 0 && size < 4 && is_time(TINY_NEVER))) {
        return;
    }
    if ((size >= 4 && size <= BIGGEST && now.error == TWICE && is_time(TWICE))
        || (size > 0 && size < 4 && is_time(TINY_TWICE))) {
        hold_back(tag, data, size);
        app_deliver(context, conn, tag, data, size);
        app_deliver(context, conn, tag, now.kept, size);
        return;
    }
    if (size <= BIGGEST && size >= 4 && is_time(UNALIGNED)) {
        memcpy(now.kept + 1, data, size);
        app_deliver(context, conn, tag, now.kept + 1, size);
        return;
    }
    spoil_message(&tag, data, &size);
    const message_t *m = size < 4 ? NULL : message_of(proc, conn, tag, data, size);
    const bool releases = now.kept_size > 0 && m != NULL && m->ordered && proc->index == 1;
    app_deliver(context, conn, tag, data, size);
    if (releases) {
        size = now.kept_size;
        now.kept_size = 0;
        app_deliver(context, conn, now.kept_tag, now.kept, size);
    }
}

static void on_sent(void *context, btl_ib_msg_t *msg)
{
    proc_t *proc = context;
    const message_t *m = &proc->sim->messages[BTL_IB_CONTAINER(msg, app_message_t, msg)->id];

    if (is_time(SENT_NEVER)) {
        return;
    }
    app_on_sent(context, msg);
    if (is_time(SENT_TWICE)) {
        app_on_sent(context, msg);
    }
    if (m->chunked && m->delivered == 0 && now.alone && is_time(DONE_EARLY)) {
        app_on_done(context, msg, 0);
    }
}

static void on_done(void *context, btl_ib_msg_t *msg, int status)
{
    if (!is_time(DONE_NEVER)) {
        app_on_done(context, msg, is_time(DONE_FAILED) ? -EPIPE : status);
    }
}

/* ---- one-sided operations, and memory ---- */

static void spoil_put(const onesided_t *op, arena_t *arena)
{
    if (op->area == AREA_SLICES && op->bytes > 40) {
        if (is_time(PUT_BYTE)) {
            arena->memory[op->at + op->bytes / 2] ^= 0x01;
        } else if (is_time(PUT_LAST_BYTE)) {
            arena->memory[op->at + op->bytes - 1] ^= 0x01;
        }
    }
    if (is_time(PUT_ELSEWHERE)) {
        arena->memory[FIXED / 2] ^= 0x01;
    }
}

static void spoil_get(const onesided_t *op)
{
    uint8_t *got = op->op.local;

    if (op->bytes > 40 && is_time(GET_BYTE)) {
        got[op->bytes / 2] ^= 0x01;
    } else if (op->bytes > 40 && is_time(GET_LAST_BYTE)) {
        got[op->bytes - 1] ^= 0x01;
    }
}

static void spoil_atomic(onesided_t *op, arena_t *arena)
{
    uint8_t *word = arena->memory + FIXED + SLICES + 8 * op->word;

    if (op->area == AREA_WORDS && is_time(WORD)) {
        word[3] ^= 0x01;
    } else if (op->area == AREA_WORDS && is_time(WORD_RESULT)) {
        op->op.result++;
    } else if (op->area == AREA_SHARED && is_time(SHARED_WORD)) {
        word[3] ^= 0x01;
    }
}

static void op_done(void *context, btl_ib_op_t *done, int status)
{
    onesided_t *op = BTL_IB_CONTAINER(done, onesided_t, op);
    proc_t *proc = context;
    arena_t *arena = proc->sim->procs[op->dst].arena;

    if (is_time(OP_NEVER)) {
        return;
    }
    if (is_time(OP_REFUSED)) {
        status = -EACCES;
    } else if (is_time(OP_CUT_OFF)) {
        status = -EPIPE;
    }
    if (status == 0 && op->op.kind == BTL_IB_OP_PUT) {
        spoil_put(op, arena);
    } else if (status == 0 && op->op.kind == BTL_IB_OP_GET) {
        if (op->op.size > 0 && is_time(OP_BEYOND)) {
            ((uint8_t *) op->op.local)[op->op.size] ^= 0x01;
        }
        spoil_get(op);
    } else if (status == 0) {
        spoil_atomic(op, arena);
    }
    app_op_done(context, done, status);
}

static void *self_zalloc(void *context, size_t size)
{
    if (is_time(LEAK)) {
        (void) proc_ops.zalloc(context, 1);
    }
    return proc_ops.zalloc(context, size);
}

const btl_ib_engine_ops_t *self_test_ops(void)
{
    static btl_ib_engine_ops_t ops;

    ops = proc_ops;
    ops.deliver = deliver;
    ops.on_sent = on_sent;
    ops.on_done = on_done;
    ops.op_done = op_done;
    ops.zalloc = self_zalloc;
    return &ops;
}

/* ---- datagrams ---- */

void self_test_wire(uint8_t *data, uint32_t size)
{
    const uint32_t type = data[0] & 0xf;
    const size_t header = sizeof(btl_ib_wire_header_t);

    if (type == BTL_IB_TYPE_DATA && size >= header + 8 && !(data[1] & BTL_IB_FLAG_CONNECT)
        && is_time(WIRE_BYTE)) {
        data[header + 3] ^= 0x40;
    } else if ((data[1] & BTL_IB_FLAG_ACK) && data[offsetof(btl_ib_wire_header_t, channels)] == 0
               && is_time(WIRE_CREDIT)) {
        data[offsetof(btl_ib_wire_header_t, credits) + 1] ^= 0x20;
    } else if (is_time(WIRE_LENGTH)) {
        data[offsetof(btl_ib_wire_header_t, length)] ^= 0x01;
    } else if (type == BTL_IB_TYPE_PUT && size > 200 && is_time(WIRE_PUT)) {
        data[size - 1] ^= 0x01;
    }
}

/* ---- the scenario ---- */

/* What is made at a time, not in a call of an engine. */
static void spoil_event(sim_t *sim, void *arg, uint64_t value)
{
    proc_t *proc = &sim->procs[0];
    btl_ib_conn_t *conn = proc_link(proc, 1, 0)->conn;

    switch (now.error) {
    case BUDGET:
    case GRANTED:
    case BUSY:
    case UNLISTED:
    case ADDRESS_LEFT:
    case OTHER_PEER:
    case SEGMENT_LOST:
    case IN_FLIGHT:
    case CREDIT_MADE:
    case CREDIT_LOST:
        inside_spoil(conn, errors[now.error].name);
        break;
    case DEATH_EARLY:
        btl_ib_conn_kill(conn, BTL_IB_DEATH_SILENCE);
        break;
    case DEATH: /* for a reason, but the connection goes on */
        sim->death_ok = true;
        app_dead(proc, conn, BTL_IB_DEATH_NO_PROGRESS);
        break;
    case UNASKED:
        say(sim, 0, 1, 8, 0);
        break;
    default:
        break;
    }
}

static void plan_all(sim_t *sim)
{
    static const uint32_t sizes[] = {8, 41, 3, 900, 1000, 12001, 2, 20000, 1, 300, 65, 4};

    for (uint32_t n = 0; n < 96; n++) {
        const uint64_t at = sim->now + SIM_US(20) * n + 1000;
        message_t *m = app_plan(&sim->procs[n % 2], 1 - n % 2, sizes[n % 12], at);
        m->ordered = m->size >= 4 && n % 5 < 3;
        m->mode = SEND_NORMAL;
    }
    for (uint32_t n = 0; n < 48; n++) {
        const uint64_t at = sim->now + SIM_US(40) * n + 1000;
        const btl_ib_op_kind_t kind = n % 3 == 0   ? BTL_IB_OP_PUT
                                      : n % 3 == 1 ? BTL_IB_OP_GET
                                                   : BTL_IB_OP_ATOMIC;
        onesided_t *op = op_plan(sim, n % 2, 1 - n % 2, kind, 200 + 77 * n, at);
        if (kind == BTL_IB_OP_ATOMIC && n % 6 < 3) {
            op->area = AREA_SHARED;
        }
    }
}

static void scenario_self(sim_t *sim)
{
    two(sim);
    start_warm(sim);
    plan_all(sim);
    if (now.error == BUDGET || now.error == GRANTED || now.error == BUSY || now.error == UNLISTED
        || now.error == ADDRESS_LEFT || now.error == IN_FLIGHT || now.error == CREDIT_MADE) {
        sim_at(sim, sim->now + SIM_US(500), spoil_event, NULL, 0);
    }
    run_settle(sim, SIM_S(1));
    now.alone = true;
    for (uint32_t n = 0; n < 6; n++) {
        say(sim, 0, 1, 15000, 1000);
        run_settle(sim, SIM_S(1));
    }
    if (now.error == DEATH || now.error == DEATH_EARLY) {
        spoil_event(sim, NULL, 0);
    } else if (now.error == UNASKED) {
        sim_at(sim, sim->now + SIM_S(30), spoil_event, NULL, 0);
    }
    run_quiet(sim, SIM_S(20));
    if (now.error == CREDIT_LOST || now.error == OTHER_PEER || now.error == SEGMENT_LOST) {
        /* when the burst at rest is over, too */
        sim_at(sim, sim->now + SIM_S(30), spoil_event, NULL, 0);
    }
    run_rest_burst(sim);
    run_farewell(sim);
}

/* ---- the test ---- */

static void run_child(int out)
{
    sim_t *sim = malloc(sizeof(*sim));

    (void) dup2(out, STDERR_FILENO);
    sim_init(sim, 1, "self");
    sim->self_test = true;
    sim->terse = true;
    scenario_self(sim);
    sim_free(sim);
    free(sim);
    _exit(0);
}

/* What the simulator says with an error, ERRORS: with none. Returns its exit status. */
static int status_with(self_error_t error, char *said, size_t size)
{
    int fds[2];
    int status = 0;
    size_t used = 0;
    ssize_t n;

    now.error = error;
    fflush(stdout);
    if (pipe(fds) != 0) {
        return -1;
    }
    const pid_t pid = fork();
    if (pid == 0) {
        run_child(fds[1]);
    }
    close(fds[1]);
    while (used < size - 1 && (n = read(fds[0], said + used, size - 1 - used)) > 0) {
        used += (size_t) n;
    }
    said[used] = '\0';
    close(fds[0]);
    waitpid(pid, &status, 0);
    return status;
}

int self_test_run(void)
{
    char said[4096];
    uint32_t missed = 0;

    if (status_with(ERRORS, said, sizeof(said)) != 0) {
        fprintf(stderr, "FAILED: without an error: %s\n", said);
        return 1;
    }
    for (uint32_t i = 0; i < ERRORS; i++) {
        const int status = status_with((self_error_t) i, said, sizeof(said));
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 1
            || strstr(said, errors[i].said) == NULL) {
            printf("FAILED: %s is not noticed (%s): status %x: %s\n", errors[i].name,
                   errors[i].said, (unsigned) status, said);
            missed++;
        }
    }
    printf("%u errors, %u not noticed\n", (unsigned) ERRORS, missed);
    return missed == 0 ? 0 : 1;
}
