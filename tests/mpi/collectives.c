/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Measures collective operations of all ranks: the time that each takes on rank 0, one after the
 * other. what=allreduce (sum of doubles), alltoall or gather (to rank 0), bytes=N[,N...] (8; of
 * alltoall to each rank, of gather from each; allreduce rounds up to doubles), seconds=S for each
 * size (1), slots=... (slots.h)
 */

#include "figures.h"
#include "slots.h"

enum { BATCH = 8, SAMPLES_MAX = 100000 };

typedef enum kind { ALLREDUCE, ALLTOALL, GATHER, KINDS } kind_t;

static const char *const names[KINDS] = {"allreduce", "alltoall", "gather"};

typedef struct operation {
    kind_t kind;
    int bytes;
    double *out, *in;
} operation_t;

static int doubles_in(int bytes)
{
    return (bytes + 7) / 8;
}

static size_t room_for(const operation_t *op)
{
    size_t one = 8 * (size_t) doubles_in(op->bytes);
    return op->kind == ALLREDUCE ? one : one * (size_t) size;
}

static void prepare(operation_t *op)
{
    size_t one = (size_t) op->bytes;

    op->out = get_memory(room_for(op));
    op->in = get_memory(room_for(op));
    memset(op->in, 0, room_for(op));
    if (op->kind != ALLREDUCE) {
        for (int to = 0; to < (op->kind == GATHER ? 1 : size); to++) {
            pattern_fill((unsigned char *) op->out + (size_t) to * one, one,
                         (uint64_t) (rank * size + to));
        }
    } else {
        for (int i = 0; i < doubles_in(op->bytes); i++) {
            op->out[i] = rank + i;
        }
    }
}

static void check(const operation_t *op)
{
    size_t one = (size_t) op->bytes;

    if (op->kind != ALLREDUCE) {
        for (int from = 0; from < size && (op->kind != GATHER || rank == 0); from++) {
            pattern_check((unsigned char *) op->in + (size_t) from * one, one,
                          (uint64_t) (from * size + rank), names[op->kind]);
        }
        return;
    }
    for (int i = 0; i < doubles_in(op->bytes); i++) {
        double sum = size * (size - 1) / 2.0 + (double) size * i;
        if (op->in[i] != sum) {
            fail("allreduce: element %d is %g, not %g", i, op->in[i], sum);
        }
    }
}

static void operate(operation_t *op)
{
    if (op->kind == ALLTOALL) {
        MPI_Alltoall(op->out, op->bytes, MPI_BYTE, op->in, op->bytes, MPI_BYTE, MPI_COMM_WORLD);
    } else if (op->kind == GATHER) {
        MPI_Gather(op->out, op->bytes, MPI_BYTE, op->in, op->bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    } else {
        MPI_Allreduce(op->out, op->in, doubles_in(op->bytes), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
}

/* Microseconds of each operation; rank 0 decides after each batch what comes next. */
static int measure(operation_t *op, double seconds, double *us)
{
    measurement_t m = measurement_begin(seconds);
    int n = 0, next = GO_ON;

    while (next != ENOUGH) {
        for (int i = 0; i < BATCH; i++) {
            double t = seconds_now();
            operate(op);
            us[n++] = 1e6 * (seconds_now() - t);
        }
        next = n + BATCH <= SAMPLES_MAX ? measurement_next(&m) : ENOUGH;
        MPI_Bcast(&next, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (next == REST) {
            measurement_rest(&m);
        }
    }
    return n;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "collectives");
    const char *what = arg_text(argc, argv, "what", "allreduce");
    sizes_t sizes = arg_sizes(argc, argv, "8");
    double seconds = arg(argc, argv, "seconds", 1);
    operation_t op = {.kind = ALLREDUCE};
    while (op.kind < KINDS && strcmp(what, names[op.kind]) != 0) {
        op.kind++;
    }
    if (op.kind == KINDS) {
        fail("what=%s: allreduce, alltoall or gather", what);
    }
    double *us = get_memory(sizeof(*us) * SAMPLES_MAX);

    slots_begin(argc, argv);
    for (int i = 0; i < sizes.count; i++) {
        op.bytes = sizes.bytes[i];
        slots_next();
        prepare(&op);
        slots_next();
        measure(&op, seconds / 4, us);
        int n = measure(&op, seconds, us);
        slots_next();
        check(&op);
        if (rank == 0) {
            print_latency(op.bytes, us, n);
        }
        free(op.out);
        free(op.in);
    }
    free(us);
    finish();
    return 0;
}
