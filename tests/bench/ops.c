/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * One-sided operations on the bench. Each host registers BENCH_MEMORY bytes, in three parts, so
 * that what must be in them is known whatever the order of operations:
 *
 *   counters   atomic operations add 1 to one of them
 *   constant   gets read it
 *   cells      each put has a cell to itself
 */

#include "bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CONSTANT = 1024, CELLS = 17408, CELL = 16384 };

static uint8_t constant(uint32_t host, uint64_t at)
{
    return (uint8_t) (at * 167 + host * 13 + (at >> 8));
}

static uint8_t cell_content(uint32_t id, uint64_t at)
{
    return (uint8_t) (id * 31 + at * 7 + 1);
}

void bench_register(bench_host_t *host)
{
    host->memory = calloc(1, BENCH_MEMORY);
    BENCH_REQUIRE(host->memory != NULL);
    for (uint32_t i = CONSTANT; i < CELLS; i++) {
        host->memory[i] = constant(host->index, i);
    }
    host->cells = 0;
    BENCH_REQUIRE(btl_ib_region_add(host->engine, host->memory, BENCH_MEMORY,
                                    BTL_IB_ACCESS_ALL | BTL_IB_ACCESS_WINDOW, &host->key)
                  == 0);
}

/* Which bytes of the target: an operation of `size` bytes where none can be in another's way. */
static bool place(bench_op_t *o, bench_host_t *target, uint32_t size)
{
    size = size > CELL ? CELL : size;
    switch (o->op.kind) {
    case BTL_IB_OP_ATOMIC:
        o->op.offset = o->id % (CONSTANT / 8) * 8;
        return true;
    case BTL_IB_OP_GET:
        o->op.offset = CONSTANT + o->id % 64;
        o->op.size = size > CELL - 64 ? CELL - 64 : size;
        return true;
    default:
        o->op.offset = CELLS + target->cells;
        o->op.size = size;
        target->cells += size;
        return CELLS + target->cells <= BENCH_MEMORY;
    }
}

uint32_t bench_op(bench_t *bench, uint32_t from, uint32_t to, btl_ib_op_kind_t kind, uint32_t size)
{
    btl_ib_conn_t *conn = bench_connect(bench, from, to);
    bench_host_t *target = &bench->hosts[to];

    if (conn == NULL || bench->op_count == BENCH_OPS) {
        return UINT32_MAX;
    }
    bench_op_t *o = &bench->ops[bench->op_count];
    *o = (bench_op_t){
        .id = bench->op_count,
        .from = from,
        .to = to,
        .life = target->life,
        .op = {.kind = kind,
               .key = target->key,
               .code = BTL_IB_ATOMIC_ADD,
               .type = BTL_IB_ATOMIC_INT64,
               .operand = 1},
    };
    if (!place(o, target, size)) {
        return UINT32_MAX;
    }
    o->local = malloc(o->op.size + 1);
    BENCH_REQUIRE(o->local != NULL);
    for (uint64_t i = 0; i < o->op.size; i++) {
        o->local[i] = cell_content(o->id, i);
    }
    o->op.local = o->local;
    bench->op_count++;
    o->kept = true;
    int rc = btl_ib_op_start(conn, &o->op, bench->now);
    BENCH_REQUIRE(rc == 0 || rc == -EPIPE);
    if (rc != 0) {
        bench_op_over(o, rc);
    }
    return o->id;
}

static void check_get(const bench_op_t *o)
{
    for (uint64_t i = 0; i < o->op.size; i++) {
        BENCH_REQUIRE(o->local[i] == constant(o->to, o->op.offset + i));
    }
}

void bench_op_over(bench_op_t *o, int status)
{
    BENCH_REQUIRE(o->kept && !o->done);
    o->kept = false;
    o->done = true;
    o->status = status;
}

/* What all hosts' memories must look like if nobody forged anything: puts and gets that were done
 * are exact, and the counters add up; where an operation failed it may have been done or not. */
void bench_check_ops(bench_t *bench)
{
    for (uint32_t i = 0; i < bench->op_count; i++) {
        const bench_op_t *o = &bench->ops[i];
        const bench_host_t *target = &bench->hosts[o->to];
        if (!o->done || o->status != 0 || o->life != target->life || target->memory == NULL) {
            continue;
        }
        if (o->op.kind == BTL_IB_OP_GET) {
            check_get(o);
        } else if (o->op.kind == BTL_IB_OP_PUT) {
            for (uint64_t k = 0; k < o->op.size; k++) {
                BENCH_REQUIRE(target->memory[o->op.offset + k] == cell_content(o->id, k));
            }
        }
    }
    for (uint32_t h = 0; h < BENCH_HOSTS; h++) {
        uint64_t least = 0, most = 0, sum = 0;
        for (uint32_t i = 0; i < bench->op_count; i++) {
            const bench_op_t *o = &bench->ops[i];
            if (o->to == h && o->op.kind == BTL_IB_OP_ATOMIC && o->life == bench->hosts[h].life) {
                least += o->done && o->status == 0;
                most++;
            }
        }
        for (uint32_t i = 0; i < CONSTANT && bench->hosts[h].memory != NULL; i += 8) {
            uint64_t word;
            memcpy(&word, bench->hosts[h].memory + i, sizeof(word));
            sum += word;
        }
        BENCH_REQUIRE(bench->hosts[h].memory == NULL || (sum >= least && sum <= most));
    }
}
