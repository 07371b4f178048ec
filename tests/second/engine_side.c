/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * An engine over transport udp on the loopback device, without Open MPI, for tests/second/run,
 * which talks to it by another implementation of the protocol. Commands come by lines, and are
 * answered by lines:
 *
 *   engine_side QUEUES PROTECTION LANES DEAF
 *                           says "block HEX" and "region ID SECRET SIZE"; PROTECTION: 0 none, 1
 *                           crc32c; LANES 1: bulk has a port of its own; DEAF 1: nobody listens to
 *                           tag 3
 *   peer HEX                the peer's block
 *   connect                 makes the connection; else the peer's first contact does
 *   send COUNT SEED         sends messages; tests/second/run makes the same
 *   put|get|add ID SECRET OFFSET SIZE
 *                           one operation in the peer's region; "op STATUS SUM" when it is done
 *   listen                  from now on somebody listens to tag 3
 *   close                   ends the connection; "closed" when its CLOSEs have left
 *   report                  says "report ..."
 */

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "btl_ib_crc32c.h"
#include "btl_ib_engine.h"
#include "btl_ib_modex_codec.h"

enum {
    MESSAGE_MAX = 65536,
    REGION = 65536,
    DEAF_TAG = 3,
};

typedef struct side {
    btl_ib_engine_t *engine;
    btl_ib_conn_t *conn;
    btl_ib_peer_info_t peer;
    bool peer_known;
    bool deaf;
    uint64_t sent, done, failed, delivered, sum, operations, dead;
    uint8_t region[REGION];
} side_t;

typedef struct message {
    btl_ib_msg_t msg;
    uint8_t bytes[];
} message_t;

typedef struct operation {
    btl_ib_op_t op;
    uint8_t bytes[];
} operation_t;

static const uint64_t name_here = UINT64_C(0x0000000700000001);
static const uint64_t name_there = UINT64_C(0x0000000700000002);

static void fail(const char *what)
{
    fprintf(stderr, "engine_side: %s\n", what);
    exit(1);
}

static uint64_t now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t) ts.tv_sec * 1000000 + (uint64_t) ts.tv_nsec / 1000;
}

static void *need(void *memory)
{
    if (memory == NULL) {
        fail("no memory");
    }
    return memory;
}

/* ---- what both sides make alike ---- */

/* The generator of messages (Knuth's MMIX). */
static uint32_t next_number(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t) (*state >> 33);
}

static uint32_t next_size(uint64_t *state)
{
    static const uint32_t most[] = {16, 16, 200, 200, 200, 1400, 1500, 20000};
    const uint32_t kind = next_number(state) % 8;

    return next_number(state) % most[kind];
}

static void fill(uint8_t *bytes, uint32_t size, uint32_t number)
{
    for (uint32_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t) (number + i * (number >> 8 | 1) + (i >> 8));
    }
}

static uint64_t sum_of(uint8_t tag, const void *bytes, uint32_t size)
{
    const uint64_t crc = btl_ib_crc32c(false, 0, bytes, size);

    return (crc << 8 | tag) * (size + UINT64_C(1));
}

/* ---- the owner of the engine ---- */

static bool on_lookup(void *context, uint64_t name, uint32_t rail, uint32_t remote_rail,
                      btl_ib_peer_info_t *info)
{
    const side_t *side = context;

    if (!side->peer_known || name != name_there || rail != 0 || remote_rail != 0) {
        return false;
    }
    *info = side->peer;
    return true;
}

static void on_passive(void *context, btl_ib_conn_t *conn)
{
    side_t *side = context;

    side->conn = conn;
    btl_ib_conn_adopt(conn, side);
}

static bool on_deliverable(void *context, const btl_ib_conn_t *conn, uint8_t tag)
{
    (void) conn;
    return tag != DEAF_TAG || !((const side_t *) context)->deaf;
}

static void on_deliver(void *context, btl_ib_conn_t *conn, uint8_t tag, void *data, uint32_t size)
{
    side_t *side = context;

    (void) conn;
    side->delivered++;
    side->sum += sum_of(tag, data, size);
}

static void on_sent(void *context, btl_ib_msg_t *msg)
{
    (void) context;
    (void) msg;
}

static void on_done(void *context, btl_ib_msg_t *msg, int status)
{
    side_t *side = context;

    side->done += status == 0;
    side->failed += status != 0;
    free(msg);
}

static void on_op_done(void *context, btl_ib_op_t *op, int status)
{
    operation_t *operation = (operation_t *) op;

    ((side_t *) context)->operations--;
    printf("op %d %" PRIu64 "\n", status,
           op->kind == BTL_IB_OP_ATOMIC ? op->result
                                        : sum_of(0, operation->bytes, (uint32_t) op->size));
    free(operation);
}

static void on_dead(void *context, btl_ib_conn_t *conn, btl_ib_death_t reason)
{
    side_t *side = context;

    (void) conn;
    (void) reason;
    side->dead++;
}

static void *on_zalloc(void *context, size_t size)
{
    (void) context;
    return calloc(1, size);
}

static void on_free(void *context, void *memory)
{
    (void) context;
    free(memory);
}

static const btl_ib_engine_ops_t owner_ops = {
    .lookup = on_lookup,
    .passive = on_passive,
    .deliverable = on_deliverable,
    .deliver = on_deliver,
    .on_sent = on_sent,
    .on_done = on_done,
    .op_done = on_op_done,
    .dead = on_dead,
    .zalloc = on_zalloc,
    .free = on_free,
};

/* ---- setting up ---- */

static btl_ib_transport_t *open_loopback(const btl_ib_queue_table_t *queues, bool lanes)
{
    btl_ib_open_params_t params = {
        .queue_count = queues->count, .connected_max = 4, .bulk_lane = lanes};
    btl_ib_device_t *devices;
    btl_ib_transport_t *transport;
    const int count = btl_ib_udp_type.devices(&(btl_ib_search_t){.provider = NULL}, &devices);

    for (uint32_t i = 0; i < queues->count; i++) {
        params.queue[i] = (btl_ib_open_queue_t){
            .size = queues->q[i].size,
            .num = queues->q[i].num,
            .shared = queues->q[i].type == BTL_IB_QUEUE_SHARED,
        };
    }
    for (int i = 0; i < count; i++) {
        if (devices[i].loopback && devices[i].ip.ss_family == AF_INET
            && btl_ib_udp_type.open(&devices[i], &params, &transport) == 0) {
            btl_ib_udp_type.devices_free(devices, count);
            return transport;
        }
    }
    fail("the loopback device cannot be opened");
    return NULL;
}

static void publish(const side_t *side, const btl_ib_engine_config_t *config)
{
    static uint8_t bytes[BTL_IB_MODEX_SIZE_MAX];
    static btl_ib_modex_t modex;
    btl_ib_modex_rail_t *rail = &modex.rails[0];
    btl_ib_peer_info_t info;

    btl_ib_engine_rail_info(side->engine, 0, &info);
    modex.wire = config->wire;
    snprintf(modex.release, sizeof(modex.release), "0.0.0");
    modex.secret = config->secret;
    modex.protection = config->protection;
    modex.message_max = MESSAGE_MAX;
    snprintf(modex.host, sizeof(modex.host), "localhost");
    modex.rail_count = 1;
    snprintf(rail->transport, sizeof(rail->transport), "udp");
    rail->address_len = info.address_len;
    rail->address_base = info.address_base;
    memcpy(rail->address, info.address, sizeof(rail->address));
    rail->family = 4;
    rail->prefix_bits = 8;
    rail->loopback = true;
    memcpy(rail->ip, (const uint8_t[]){127, 0, 0, 1}, 4);
    rail->max_datagram = info.max_datagram;
    rail->ack_delay = info.ack_delay;
    rail->queues = info.queues;
    const int size = btl_ib_modex_pack(&modex, bytes, sizeof(bytes));
    if (size <= 0) {
        fail("the block cannot be written");
    }
    printf("block ");
    for (int i = 0; i < size; i++) {
        printf("%02x", bytes[i]);
    }
    printf("\n");
}

static void set_up(side_t *side, char **argv)
{
    btl_ib_engine_config_t config;
    btl_ib_queue_table_t queues;
    btl_ib_queues_error_t error;
    btl_ib_region_key_t key;

    btl_ib_engine_config_default(&config);
    config.name = name_here;
    config.secret = (btl_ib_secret_t){{now_us() * UINT64_C(0x9e3779b97f4a7c15), name_here}};
    config.region_secret = (btl_ib_secret_t){{config.secret.k[0] ^ 1, 2}};
    config.eager_max = MESSAGE_MAX;
    config.protection = (btl_ib_protection_kind_t) atoi(argv[2]);
    side->deaf = atoi(argv[4]) != 0;
    side->engine = btl_ib_engine_create(&config, &owner_ops, side);
    if (side->engine == NULL || btl_ib_queues_parse(argv[1], &queues, &error) != 0
        || btl_ib_engine_add_rail(side->engine, open_loopback(&queues, atoi(argv[3]) != 0), &queues)
               != 0
        || btl_ib_region_add(side->engine, side->region, REGION, BTL_IB_ACCESS_ALL, &key) != 0) {
        fail("no engine");
    }
    publish(side, &config);
    printf("region %" PRIu64 " %" PRIu64 " %d\n", key.id, key.secret, REGION);
}

/* ---- commands ---- */

/* Reads the peer's block, of which rail 0 is used. */
static void meet(side_t *side, const char *hex)
{
    static uint8_t bytes[BTL_IB_MODEX_SIZE_MAX];
    static btl_ib_modex_t modex;
    size_t size = 0;
    unsigned byte;

    for (; size < sizeof(bytes) && sscanf(hex + 2 * size, "%2x", &byte) == 1; size++) {
        bytes[size] = (uint8_t) byte;
    }
    if (btl_ib_modex_unpack(&modex, bytes, size) != 0 || modex.rail_count != 1) {
        fail("the peer's block is refused");
    }
    const btl_ib_modex_rail_t *rail = &modex.rails[0];
    side->peer = (btl_ib_peer_info_t){
        .name = name_there,
        .secret = modex.secret,
        .wire = modex.wire,
        .protection = modex.protection,
        .ack_delay = rail->ack_delay,
        .answers = modex.answers,
        .max_datagram = rail->max_datagram,
        .address_len = rail->address_len,
        .queues = rail->queues,
    };
    memcpy(side->peer.address, rail->address, sizeof(side->peer.address));
    side->peer_known = true;
}

static void send_messages(side_t *side, uint32_t count, uint64_t state)
{
    for (; count > 0; count--) {
        const uint32_t size = next_size(&state), number = next_number(&state);
        message_t *message = need(calloc(1, sizeof(message_t) + size));

        fill(message->bytes, size, number);
        message->msg.iov[0] = (struct iovec){.iov_base = message->bytes, .iov_len = size};
        message->msg.tag = (uint8_t) (1 + number % DEAF_TAG);
        side->sent++;
        const int status = btl_ib_engine_send(side->conn, &message->msg, now_us());
        if (status == 0) {
            continue;
        }
        side->done += status == 1;
        side->failed += status != 1;
        free(message);
    }
}

static void start_operation(side_t *side, const char *line)
{
    char what[8];
    uint64_t id, secret;
    uint32_t offset, size;

    if (sscanf(line, "%7s %" SCNu64 " %" SCNu64 " %" SCNu32 " %" SCNu32, what, &id, &secret,
               &offset, &size)
        != 5) {
        fail("an operation lacks something");
    }
    operation_t *operation = need(calloc(1, sizeof(operation_t) + size));
    operation->op = (btl_ib_op_t){
        .kind = what[0] == 'p'   ? BTL_IB_OP_PUT
                : what[0] == 'g' ? BTL_IB_OP_GET
                                 : BTL_IB_OP_ATOMIC,
        .key = {id, secret},
        .offset = offset,
        .local = operation->bytes,
        .size = size,
    };
    if (operation->op.kind == BTL_IB_OP_PUT) {
        fill(operation->bytes, size, offset);
    } else if (operation->op.kind == BTL_IB_OP_ATOMIC) {
        operation->op.code = BTL_IB_ATOMIC_ADD;
        operation->op.type = BTL_IB_ATOMIC_INT64;
        operation->op.operand = size;
        operation->op.size = 0;
    }
    side->operations++;
    if (btl_ib_op_start(side->conn, &operation->op, now_us()) != 0) {
        fail("an operation cannot start");
    }
}

/* The connection's own work first, within a second, as del_procs does. */
static void end(side_t *side)
{
    const uint64_t until = now_us() + 1000000;

    btl_ib_conn_drain(side->conn);
    while (!btl_ib_conn_drained(side->conn) && now_us() < until) {
        btl_ib_engine_progress(side->engine, now_us(), BTL_IB_BATCH);
    }
    btl_ib_conn_destroy(side->conn, now_us());
    side->conn = NULL;
    while (btl_ib_engine_lingering(side->engine)) {
        btl_ib_engine_progress(side->engine, now_us(), BTL_IB_BATCH);
    }
    printf("closed\n");
}

static void report(const side_t *side)
{
    const btl_ib_counters_t *count = btl_ib_engine_counters(side->engine);
    const bool drained = side->conn == NULL || btl_ib_conn_drained(side->conn);
    uint64_t region = sum_of(0, side->region, REGION);

    printf("report delivered=%" PRIu64 " sum=%" PRIu64 " sent=%" PRIu64 " done=%" PRIu64
           " failed=%" PRIu64 " operations=%" PRIu64 " drained=%d dead=%" PRIu64 " region=%" PRIu64,
           side->delivered, side->sum, side->sent, side->done, side->failed, side->operations,
           drained, side->dead, region);
#define X(name, what)                                                                              \
    if (strncmp(#name, "dropped_", 8) == 0 && count->name != 0) {                                  \
        printf(" " #name "=%" PRIu64, (uint64_t) count->name);                                     \
    }
    BTL_IB_COUNTERS(X)
#undef X
    printf("\n");
}

static void obey(side_t *side, const char *line)
{
    uint32_t count;
    uint64_t seed;

    if (strncmp(line, "peer ", 5) == 0) {
        meet(side, line + 5);
    } else if (strncmp(line, "connect", 7) == 0) {
        if (btl_ib_conn_create(side->engine, 0, &side->peer, side, &side->conn) != 0) {
            fail("no connection");
        }
    } else if (sscanf(line, "send %" SCNu32 " %" SCNu64, &count, &seed) == 2) {
        send_messages(side, count, seed);
    } else if (strncmp(line, "listen", 6) == 0) {
        side->deaf = false;
    } else if (strncmp(line, "close", 5) == 0) {
        end(side);
    } else if (strncmp(line, "report", 6) == 0) {
        report(side);
    } else {
        start_operation(side, line);
    }
    fflush(stdout);
}

/* Reads what came, and obeys whole lines. Returns false when there will be no more. */
static bool read_commands(side_t *side)
{
    static char line[4 * BTL_IB_MODEX_SIZE_MAX];
    static size_t length;
    char *end_of_line;

    const ssize_t got = read(STDIN_FILENO, line + length, sizeof(line) - 1 - length);
    if (got <= 0) {
        return false;
    }
    length += (size_t) got;
    line[length] = '\0';
    while ((end_of_line = strchr(line, '\n')) != NULL) {
        *end_of_line++ = '\0';
        obey(side, line);
        length -= (size_t) (end_of_line - line);
        memmove(line, end_of_line, length + 1);
    }
    return true;
}

int main(int argc, char **argv)
{
    static side_t side;
    struct pollfd fds[1 + BTL_IB_RAILS_MAX] = {{.fd = STDIN_FILENO, .events = POLLIN}};
    int sockets[BTL_IB_RAILS_MAX];

    if (argc != 5) {
        fail("takes queues, protection, lanes, deaf");
    }
    set_up(&side, argv);
    fflush(stdout);
    const uint32_t count = btl_ib_engine_wait_fds(side.engine, sockets);
    for (uint32_t i = 0; i < count; i++) {
        fds[1 + i] = (struct pollfd){.fd = sockets[i], .events = POLLIN};
    }
    for (;;) {
        const bool moved = btl_ib_engine_progress(side.engine, now_us(), BTL_IB_BATCH) > 0;
        const uint64_t due = btl_ib_engine_next_due(side.engine), now = now_us();
        const bool soon = moved || due <= now + 1000;

        fflush(stdout);
        poll(fds, 1 + count, soon ? 0 : due - now > 50000 ? 50 : (int) ((due - now) / 1000));
        if (fds[0].revents != 0 && !read_commands(&side)) {
            break;
        }
    }
    btl_ib_engine_destroy(side.engine);
    return 0;
}
