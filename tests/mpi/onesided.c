/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * One-sided communication: random epochs of every kind, checked against a model. All ranks draw the
 * same plan (who puts what where, who gets, who accumulates), and each keeps a copy of what every
 * window must hold. Within an epoch no two puts overlap, nothing is got that is put, and what is
 * accumulated to one array uses one operation, so that the order of them is of no consequence.
 * seed=N (1), rounds=N (24), bytes=N (65536), what of a window puts and gets use,
 * sync=fence|pscw|lock|lock_all (all by turns), window=create|allocate|dynamic (create)
 */

#include "common.h"

#define NUMBERS  600 /* of each array: more than osc/rdma sends as single atomics */
#define PIECES   64  /* most puts and gets to one target in a round */
#define ADDS_MAX 3   /* most accumulates of one rank to one array of one target in a round */
#define HOLE     0xa5
#define OPS_MAX  9

/* An array of numbers in each window, and which operations suit its type. */
typedef struct array {
    const char *name;
    MPI_Datatype type;
    size_t bytes; /* of one number */
    MPI_Op ops[OPS_MAX];
    int op_count;
    size_t offset; /* in the window */
    MPI_Op op;     /* of this round */
} array_t;

#define ARITHMETIC MPI_SUM, MPI_MIN, MPI_MAX
#define BITS       MPI_BAND, MPI_BOR, MPI_BXOR
#define LOGIC      MPI_LAND, MPI_LOR, MPI_LXOR

static array_t arrays[8];
#define ARRAYS (sizeof(arrays) / sizeof(arrays[0]))

/* `blocks` pieces of `length` bytes, `stride` bytes from one to the next. */
typedef struct layout {
    int blocks, length, stride;
} layout_t;

typedef enum kind { PUT, GET, ADD } kind_t;

typedef struct op {
    kind_t kind;
    int origin, target;
    uint64_t seed;
    size_t offset;   /* in the target's window */
    layout_t theirs; /* put and get: what of the target */
    layout_t ours;   /* and of the origin's buffer; alike in all but the stride */
    array_t *array;  /* accumulate: which */
    int count;       /* and how many numbers, one after the other */
    unsigned char *buffer;
} op_t;

typedef struct plan {
    op_t *ops;
    size_t count, room;
    uint64_t state; /* for what is drawn while it is carried out, alike on all ranks */
} plan_t;

static size_t data_bytes, window_bytes;
static unsigned char *window;  /* ours */
static unsigned char **models; /* of every rank's window */
static MPI_Aint *bases;        /* what displacements count from */
static MPI_Win win;

static void add_array(size_t index, const char *name, MPI_Datatype type, const MPI_Op *ops,
                      int count)
{
    array_t *a = &arrays[index];
    int bytes;

    MPI_Type_size(type, &bytes);
    a->name = name;
    a->type = type;
    a->bytes = (size_t) bytes;
    a->op_count = count;
    memcpy(a->ops, ops, sizeof(*ops) * (size_t) count);
    a->offset = window_bytes;
    window_bytes += a->bytes * NUMBERS;
}

static void make_arrays(void)
{
    const MPI_Op all[] = {ARITHMETIC, BITS, LOGIC};

    window_bytes = (data_bytes + 15) / 16 * 16;
    add_array(0, "int64", MPI_INT64_T, all, 9);
    add_array(1, "uint64", MPI_UINT64_T, all, 6);
    add_array(2, "double", MPI_DOUBLE, all, 3);
    add_array(3, "float complex", MPI_C_FLOAT_COMPLEX, all, 1);
    add_array(4, "int32", MPI_INT32_T, all, 9);
    add_array(5, "uint32", MPI_UINT32_T, all, 6);
    add_array(6, "float", MPI_FLOAT, all, 3);
    add_array(7, "int16", MPI_INT16_T, all, 9);
}

static size_t layout_bytes(const layout_t *l)
{
    return (size_t) l->blocks * (size_t) l->length;
}

static size_t layout_extent(const layout_t *l)
{
    return l->blocks > 0 ? (size_t) (l->blocks - 1) * (size_t) l->stride + (size_t) l->length : 0;
}

static size_t layout_place(const layout_t *l, size_t byte)
{
    return byte / (size_t) l->length * (size_t) l->stride + byte % (size_t) l->length;
}

static MPI_Datatype layout_type(const layout_t *l)
{
    MPI_Datatype type;

    MPI_Type_vector(l->blocks, l->length, l->stride, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    return type;
}

/* ---- the plan ---- */

static op_t *new_op(plan_t *plan, kind_t kind, int origin, int target)
{
    op_t *op;

    if (plan->count == plan->room) {
        plan->room = 2 * plan->room + 64;
        plan->ops = realloc(plan->ops, plan->room * sizeof(*plan->ops));
        if (plan->ops == NULL) {
            fail("no memory for a plan");
        }
    }
    op = &plan->ops[plan->count++];
    memset(op, 0, sizeof(*op));
    op->kind = kind;
    op->origin = origin;
    op->target = target;
    op->seed = random_next(&plan->state);
    return op;
}

/* What of `bytes` bytes to touch, and how it lies in the other's memory. */
static void draw_layouts(uint64_t *state, size_t bytes, op_t *op)
{
    const int length = 1 + (int) random_below(state, 300);
    const int gap = (int) random_below(state, 40);

    op->theirs = (layout_t){1, (int) bytes, (int) bytes};
    if (random_below(state, 3) == 0 && bytes > (size_t) (length + gap)) {
        op->theirs = (layout_t){(int) (bytes / (size_t) (length + gap)), length, length + gap};
    }
    op->ours = op->theirs;
    if (random_below(state, 2) > 0) {
        op->ours.stride = op->ours.length + (int) random_below(state, 40);
    }
}

static void draw_pieces(plan_t *plan, int target)
{
    size_t at = 0;

    for (int i = 0; i < PIECES && at < data_bytes; i++) {
        const size_t bytes = random_size(&plan->state, data_bytes - at);
        const uint64_t choice = random_below(&plan->state, 5);
        const int origin = (int) random_below(&plan->state, (uint64_t) size);

        if (choice < 4) {
            op_t *op = new_op(plan, choice < 2 ? PUT : GET, origin, target);

            op->offset = at;
            draw_layouts(&plan->state, bytes, op);
        }
        at += bytes;
    }
}

static void draw_adds(plan_t *plan, int target, array_t *array)
{
    for (int origin = 0; origin < size; origin++) {
        const int adds = (int) random_below(&plan->state, ADDS_MAX + 1);

        for (int i = 0; i < adds; i++) {
            op_t *op = new_op(plan, ADD, origin, target);
            const int first = (int) random_below(&plan->state, NUMBERS);

            op->array = array;
            op->offset = array->offset + array->bytes * (size_t) first;
            op->count = random_below(&plan->state, 4) == 0
                            ? NUMBERS - first
                            : (int) random_below(&plan->state, (uint64_t) (NUMBERS - first)) % 20;
        }
    }
}

static void draw_plan(plan_t *plan)
{
    plan->count = 0;
    for (size_t i = 0; i < ARRAYS; i++) {
        arrays[i].op = arrays[i].ops[random_below(&plan->state, (uint64_t) arrays[i].op_count)];
    }
    for (int target = 0; target < size; target++) {
        draw_pieces(plan, target);
        for (size_t i = 0; i < ARRAYS; i++) {
            draw_adds(plan, target, &arrays[i]);
        }
    }
}

/* ---- what becomes of it ---- */

/* Whole numbers so small that sums of floats are exact in any order, and those of int16 never
 * overflow (Open MPI's vector code saturates them); other integers may be anything, so that signs
 * show, and are 0 now and then for the logical operations. */
static void make_numbers(const op_t *op, void *to)
{
    uint64_t state = op->seed;

    for (int i = 0; i < op->count; i++) {
        const uint64_t word = random_below(&state, 4) == 0 ? 0 : random_next(&state);
        const double d = (double) (word % 17) - 8;
        const float f[2] = {(float) d, (float) (word >> 8 & 7)};
        const int16_t s = (int16_t) d;
        unsigned char *at = (unsigned char *) to + op->array->bytes * (size_t) i;

        if (op->array->type == MPI_DOUBLE) {
            memcpy(at, &d, sizeof(d));
        } else if (op->array->type == MPI_FLOAT || op->array->type == MPI_C_FLOAT_COMPLEX) {
            memcpy(at, f, op->array->bytes);
        } else if (op->array->type == MPI_INT16_T) {
            memcpy(at, &s, sizeof(s));
        } else {
            memcpy(at, &word, op->array->bytes);
        }
    }
}

static void model_put(const op_t *op)
{
    unsigned char *to = models[op->target] + op->offset;
    const size_t bytes = layout_bytes(&op->theirs);
    unsigned char *stream = get_memory(bytes);

    pattern_fill(stream, bytes, op->seed);
    for (size_t i = 0; i < bytes; i++) {
        to[layout_place(&op->theirs, i)] = stream[i];
    }
    free(stream);
}

static void model_add(const op_t *op)
{
    unsigned char *numbers = get_memory(op->array->bytes * (size_t) op->count);

    make_numbers(op, numbers);
    MPI_Reduce_local(numbers, models[op->target] + op->offset, op->count, op->array->type,
                     op->array->op);
    free(numbers);
}

/* Bring the models up to date. What is got does not depend on it. */
static void apply_plan(const plan_t *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        if (plan->ops[i].kind == PUT) {
            model_put(&plan->ops[i]);
        } else if (plan->ops[i].kind == ADD) {
            model_add(&plan->ops[i]);
        }
    }
}

/* ---- carrying it out ---- */

static void fill_buffer(op_t *op)
{
    const size_t bytes = layout_bytes(&op->ours);

    if (op->kind == ADD) {
        op->buffer = get_memory(op->array->bytes * (size_t) op->count);
        make_numbers(op, op->buffer);
        return;
    }
    op->buffer = get_memory(layout_extent(&op->ours));
    memset(op->buffer, HOLE, layout_extent(&op->ours));
    if (op->kind == PUT) {
        unsigned char *stream = get_memory(bytes);

        pattern_fill(stream, bytes, op->seed);
        for (size_t i = 0; i < bytes; i++) {
            op->buffer[layout_place(&op->ours, i)] = stream[i];
        }
        free(stream);
    }
}

/* Start one. With a request if one is given. */
static void start(op_t *op, MPI_Request *request)
{
    const MPI_Aint at = bases[op->target] + (MPI_Aint) op->offset;
    const int to = op->target;

    fill_buffer(op);
    if (op->kind == ADD) {
        const array_t *a = op->array;

        if (request != NULL) {
            MPI_Raccumulate(op->buffer, op->count, a->type, to, at, op->count, a->type, a->op, win,
                            request);
        } else {
            MPI_Accumulate(op->buffer, op->count, a->type, to, at, op->count, a->type, a->op, win);
        }
        return;
    }
    MPI_Datatype ours = layout_type(&op->ours), theirs = layout_type(&op->theirs);
    if (request != NULL && op->kind == PUT) {
        MPI_Rput(op->buffer, 1, ours, to, at, 1, theirs, win, request);
    } else if (request != NULL) {
        MPI_Rget(op->buffer, 1, ours, to, at, 1, theirs, win, request);
    } else if (op->kind == PUT) {
        MPI_Put(op->buffer, 1, ours, to, at, 1, theirs, win);
    } else {
        MPI_Get(op->buffer, 1, ours, to, at, 1, theirs, win);
    }
    MPI_Type_free(&ours);
    MPI_Type_free(&theirs);
}

static void start_all_to(plan_t *plan, int target)
{
    for (size_t i = 0; i < plan->count; i++) {
        if (plan->ops[i].origin == rank && (target < 0 || plan->ops[i].target == target)) {
            start(&plan->ops[i], NULL);
        }
    }
}

static void fence_epoch(plan_t *plan)
{
    MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    start_all_to(plan, -1);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
}

/* Those that we do something to, or that do something to us. */
static MPI_Group partners(const plan_t *plan, int as_origin)
{
    int *list = get_memory(sizeof(int) * (size_t) size), count = 0;
    MPI_Group world, group;

    for (int r = 0; r < size; r++) {
        int wanted = 0;
        for (size_t i = 0; i < plan->count; i++) {
            const op_t *op = &plan->ops[i];
            wanted |= as_origin ? op->origin == rank && op->target == r
                                : op->target == rank && op->origin == r;
        }
        if (wanted) {
            list[count++] = r;
        }
    }
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, count, list, &group);
    MPI_Group_free(&world);
    free(list);
    return group;
}

static void pscw_epoch(plan_t *plan)
{
    MPI_Group targets = partners(plan, 1), origins = partners(plan, 0);
    int done = 0;

    MPI_Win_post(origins, 0, win);
    MPI_Win_start(targets, 0, win);
    start_all_to(plan, -1);
    MPI_Win_complete(win);
    if (random_below(&plan->state, 2) > 0) {
        while (!done) {
            MPI_Win_test(win, &done);
        }
    } else {
        MPI_Win_wait(win);
    }
    MPI_Group_free(&targets);
    MPI_Group_free(&origins);
}

static void lock_epoch(plan_t *plan)
{
    const int first = (int) random_below(&plan->state, (uint64_t) size);

    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) {
        const int target = (rank + first + i) % size;
        const int exclusive = random_below(&plan->state, 2) > 0;

        MPI_Win_lock(exclusive ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0, win);
        start_all_to(plan, target);
        if (random_below(&plan->state, 2) > 0) {
            MPI_Win_flush(target, win);
        }
        MPI_Win_unlock(target, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void start_all_with_requests(plan_t *plan)
{
    MPI_Request *requests = get_memory(sizeof(*requests) * plan->count);
    int count = 0;

    for (size_t i = 0; i < plan->count; i++) {
        if (plan->ops[i].origin == rank) {
            start(&plan->ops[i], &requests[count++]);
        }
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    free(requests);
}

static void lock_all_epoch(plan_t *plan)
{
    const int with_requests = random_below(&plan->state, 2) > 0;

    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    if (with_requests) {
        start_all_with_requests(plan);
    } else {
        start_all_to(plan, -1);
    }
    switch (random_below(&plan->state, 4)) {
    case 0:
        MPI_Win_flush_all(win);
        break;
    case 1:
        MPI_Win_flush_local_all(win);
        break;
    case 2:
        for (int target = 0; target < size; target++) {
            MPI_Win_flush(target, win);
        }
        break;
    default:
        break;
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
}

typedef void (*epoch_t)(plan_t *plan);
static const char *const epoch_names[] = {"fence", "pscw", "lock", "lock_all"};
static const epoch_t epochs[] = {fence_epoch, pscw_epoch, lock_epoch, lock_all_epoch};
#define EPOCHS (sizeof(epochs) / sizeof(epochs[0]))

/* ---- the proof ---- */

static void check_got(const op_t *op, const char *sync)
{
    const unsigned char *from = models[op->target] + op->offset;
    const size_t bytes = layout_bytes(&op->ours), extent = layout_extent(&op->ours);
    unsigned char *expected = get_memory(extent);

    memset(expected, HOLE, extent);
    for (size_t i = 0; i < bytes; i++) {
        expected[layout_place(&op->ours, i)] = from[layout_place(&op->theirs, i)];
    }
    for (size_t i = 0; i < extent; i++) {
        if (expected[i] != op->buffer[i]) {
            fail("%s: got from %d at %zu: byte %zu of %zu is wrong", sync, op->target, op->offset,
                 i, extent);
        }
    }
    free(expected);
}

static void check_window(const char *sync)
{
    const unsigned char *model = models[rank];

    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    for (size_t i = 0; i < data_bytes; i++) {
        if (window[i] != model[i]) {
            fail("%s: byte %zu of the window is wrong", sync, i);
        }
    }
    for (size_t i = 0; i < ARRAYS; i++) {
        const array_t *a = &arrays[i];

        for (size_t n = 0; n < NUMBERS; n++) {
            if (memcmp(window + a->offset + n * a->bytes, model + a->offset + n * a->bytes,
                       a->bytes)
                != 0) {
                char op[MPI_MAX_OBJECT_NAME] = "";

                for (int o = 0; o < a->op_count; o++) {
                    if (a->op == a->ops[o]) {
                        snprintf(op, sizeof(op), "operation %d", o);
                    }
                }
                fail("%s: %s %zu is wrong after %s", sync, a->name, n, op);
            }
        }
    }
    MPI_Win_unlock(rank, win);
}

static void one_round(plan_t *plan, size_t epoch)
{
    const char *sync = epoch_names[epoch];

    draw_plan(plan);
    epochs[epoch](plan);
    for (size_t i = 0; i < plan->count; i++) {
        if (plan->ops[i].origin == rank) {
            if (plan->ops[i].kind == GET) {
                check_got(&plan->ops[i], sync);
            }
            free(plan->ops[i].buffer);
        }
    }
    apply_plan(plan);
    check_window(sync);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- the window ---- */

static void make_window(const char *flavor)
{
    const MPI_Aint bytes = (MPI_Aint) window_bytes + rank * 64; /* not the same everywhere */
    MPI_Aint base = 0;

    if (strcmp(flavor, "allocate") == 0) {
        MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
    } else {
        window = get_memory((size_t) bytes);
    }
    if (strcmp(flavor, "create") == 0) {
        MPI_Win_create(window, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    } else if (strcmp(flavor, "dynamic") == 0) {
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        MPI_Win_attach(win, window, bytes);
        MPI_Get_address(window, &base);
    }
    memset(window, 0, (size_t) bytes);
    bases = get_memory(sizeof(*bases) * (size_t) size);
    MPI_Allgather(&base, 1, MPI_AINT, bases, 1, MPI_AINT, MPI_COMM_WORLD);
    models = get_memory(sizeof(*models) * (size_t) size);
    for (int r = 0; r < size; r++) {
        models[r] = get_memory(window_bytes);
        memset(models[r], 0, window_bytes);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void drop_window(const char *flavor)
{
    if (strcmp(flavor, "dynamic") == 0) {
        MPI_Win_detach(win, window);
    }
    MPI_Win_free(&win);
    if (strcmp(flavor, "allocate") != 0) {
        free(window);
    }
    for (int r = 0; r < size; r++) {
        free(models[r]);
    }
    free(models);
    free(bases);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "onesided");
    plan_t plan = {.state = (uint64_t) arg(argc, argv, "seed", 1)};
    const int rounds = (int) arg(argc, argv, "rounds", 24);
    const char *flavor = arg_text(argc, argv, "window", "create");
    const char *sync = arg_text(argc, argv, "sync", "");

    data_bytes = (size_t) arg(argc, argv, "bytes", 65536);
    make_arrays();
    make_window(flavor);
    for (int round = 0; round < rounds; round++) {
        const size_t epoch = (size_t) round % EPOCHS;

        if (sync[0] == '\0' || strcmp(sync, epoch_names[epoch]) == 0) {
            one_round(&plan, epoch);
        }
    }
    drop_window(flavor);
    free(plan.ops);
    finish();
    return 0;
}
