/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The BTL's one-sided functions, called directly, as no MPI program can: any alignment and length
 * of put and get, and that the data are there when the callback says so; every atomic operation on
 * every type; requests that must be rejected and change nothing; limits. To all ranks, the own one
 * too. seed=N (1), rounds=N (24), huge=N (0): also that many MiB in one put and one get; stale=0:
 * handles of what is registered no more are not tried
 */

#include "opal_config.h"

#include "module.h"

#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#define AREA      (3u << 20) /* of each pair of ranks, put and get */
#define WORDS     64         /* of each pair, atomics */
#define PENDING   16         /* operations at once */
#define HANDLE    MCA_BTL_REG_HANDLE_MAX_SIZE
#define REGIONS   4
#define GUARDED   4096 /* bytes of a region that must not change */
#define UNTOUCHED 0x5a

typedef mca_btl_base_registration_handle_t handle_t;

enum { DATA, NUMBERS, READ_ONLY, GONE };

/* What one rank lets others use. */
typedef struct offer {
    uint64_t address[REGIONS];
    unsigned char handle[REGIONS][HANDLE];
} offer_t;

static offer_t *offers;
static unsigned char *memory[REGIONS];
static handle_t *handles[REGIONS];
static const char *const region_names[REGIONS] = {"data", "numbers", "read-only", "gone"};

/* What is counted by callbacks. */
typedef struct outcome {
    int calls, status;
} outcome_t;

static void done(mca_btl_base_module_t *module, peer_t *endpoint, void *local, handle_t *handle,
                 void *context, void *data, int status)
{
    outcome_t *outcome = context;

    (void) local;
    (void) handle;
    if (module != btl || endpoint == NULL || data != &offers) {
        fail("a callback has other arguments than the call");
    }
    outcome->calls++;
    outcome->status = status;
}

/* Wait for the callback, and a little longer for one too many. */
static int outcome_of(int rc, outcome_t *outcome)
{
    if (rc != OPAL_SUCCESS) {
        if (outcome->calls != 0) {
            fail("a callback although the call returned %d", rc);
        }
        return rc;
    }
    while (outcome->calls == 0) {
        opal_progress();
    }
    for (int i = 0; i < 20; i++) {
        opal_progress();
    }
    if (outcome->calls != 1) {
        fail("%d callbacks of one operation", outcome->calls);
    }
    return outcome->status;
}

static handle_t *handle_of(int target, int region)
{
    return (handle_t *) (void *) offers[target].handle[region];
}

static int put(int target, int region, uint64_t offset, void *from, size_t bytes, outcome_t *o)
{
    return btl->btl_put(btl, peers[target], from, offers[target].address[region] + offset, NULL,
                        handle_of(target, region), bytes, 0, MCA_BTL_NO_ORDER, done, o, &offers);
}

static int get(int target, int region, uint64_t offset, void *to, size_t bytes, outcome_t *o)
{
    return btl->btl_get(btl, peers[target], to, offers[target].address[region] + offset, NULL,
                        handle_of(target, region), bytes, 0, MCA_BTL_NO_ORDER, done, o, &offers);
}

/* ---- put and get ---- */

typedef struct transfer {
    outcome_t put, get;
    size_t offset, bytes;
    unsigned char *out, *in;
    uint64_t seed;
} transfer_t;

/* Several at once, each in its own part of the area that is ours at the target. */
static void start_puts(transfer_t *list, uint64_t *state, int target)
{
    const size_t part = AREA / PENDING;

    for (int i = 0; i < PENDING; i++) {
        transfer_t *t = &list[i];

        memset(t, 0, sizeof(*t));
        t->bytes = random_size(state, part - 64);
        t->offset = AREA * (size_t) rank + part * (size_t) i + random_below(state, 64);
        t->seed = random_next(state);
        t->out = get_memory(t->bytes + 8);
        t->in = get_memory(t->bytes + 8);
        pattern_fill(t->out + 1, t->bytes, t->seed);
        if (put(target, DATA, t->offset, t->out + 1, t->bytes, &t->put) != OPAL_SUCCESS) {
            fail("put of %zu bytes to %d refused", t->bytes, target);
        }
    }
}

static void get_back(transfer_t *t, int target)
{
    if (outcome_of(OPAL_SUCCESS, &t->put) != OPAL_SUCCESS) {
        fail("put of %zu bytes to %d: status %d", t->bytes, target, t->put.status);
    }
    memset(t->in, UNTOUCHED, t->bytes + 8);
    if (outcome_of(get(target, DATA, t->offset, t->in + 3, t->bytes, &t->get), &t->get)
        != OPAL_SUCCESS) {
        fail("get of %zu bytes from %d: status %d", t->bytes, target, t->get.status);
    }
    pattern_check(t->in + 3, t->bytes, t->seed, "get");
    if (t->in[2] != UNTOUCHED || t->in[3 + t->bytes] != UNTOUCHED) {
        fail("get of %zu bytes wrote beyond", t->bytes);
    }
}

/* The target must see the data as soon as the callback has come and somebody tells it: by a message
 * that may overtake everything. */
static void show_to_target(const transfer_t *list, int distance)
{
    uint64_t mine[3 * PENDING], theirs[3 * PENDING];
    const int target = (rank + distance) % size, from = (rank + size - distance) % size;

    for (int i = 0; i < PENDING; i++) {
        mine[3 * i] = list[i].offset;
        mine[3 * i + 1] = list[i].bytes;
        mine[3 * i + 2] = list[i].seed;
    }
    MPI_Sendrecv(mine, 3 * PENDING, MPI_UINT64_T, target, 0, theirs, 3 * PENDING, MPI_UINT64_T,
                 from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < PENDING; i++) {
        pattern_check(memory[DATA] + theirs[3 * i], theirs[3 * i + 1], theirs[3 * i + 2], "put");
    }
}

static void transfers(uint64_t *state, int distance)
{
    const int target = (rank + distance) % size;
    transfer_t list[PENDING];

    start_puts(list, state, target);
    if (random_below(state, 3) == 0) {
        btl->btl_flush(btl, NULL);
        for (int i = 0; i < PENDING; i++) {
            if (list[i].put.calls != 1) {
                fail("flushed, but put %d had %d callbacks", i, list[i].put.calls);
            }
        }
    }
    for (int i = 0; i < PENDING; i++) {
        outcome_of(OPAL_SUCCESS, &list[i].put);
    }
    show_to_target(list, distance);
    for (int i = 0; i < PENDING; i++) {
        get_back(&list[i], target);
        free(list[i].out);
        free(list[i].in);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- atomics ---- */

typedef struct code {
    mca_btl_base_atomic_op_t op;
    uint32_t supports;
    bool integers_only;
    const char *name;
} code_t;

static const code_t codes[] = {
    {MCA_BTL_ATOMIC_ADD, MCA_BTL_ATOMIC_SUPPORTS_ADD, false, "add"},
    {MCA_BTL_ATOMIC_AND, MCA_BTL_ATOMIC_SUPPORTS_AND, true, "and"},
    {MCA_BTL_ATOMIC_OR, MCA_BTL_ATOMIC_SUPPORTS_OR, true, "or"},
    {MCA_BTL_ATOMIC_XOR, MCA_BTL_ATOMIC_SUPPORTS_XOR, true, "xor"},
    {MCA_BTL_ATOMIC_LAND, MCA_BTL_ATOMIC_SUPPORTS_LAND, true, "land"},
    {MCA_BTL_ATOMIC_LOR, MCA_BTL_ATOMIC_SUPPORTS_LOR, true, "lor"},
    {MCA_BTL_ATOMIC_LXOR, MCA_BTL_ATOMIC_SUPPORTS_LXOR, true, "lxor"},
    {MCA_BTL_ATOMIC_SWAP, MCA_BTL_ATOMIC_SUPPORTS_SWAP, false, "swap"},
    {MCA_BTL_ATOMIC_MIN, MCA_BTL_ATOMIC_SUPPORTS_MIN, false, "min"},
    {MCA_BTL_ATOMIC_MAX, MCA_BTL_ATOMIC_SUPPORTS_MAX, false, "max"},
};
#define CODES (sizeof(codes) / sizeof(codes[0]))

#define MODEL_INTEGER(type)                                                                        \
    static uint64_t model_##type(mca_btl_base_atomic_op_t op, uint64_t old_bits, uint64_t bits)    \
    {                                                                                              \
        const type was = (type) old_bits, operand = (type) bits;                                   \
                                                                                                   \
        switch (op) {                                                                              \
        case MCA_BTL_ATOMIC_ADD:                                                                   \
            return old_bits + bits;                                                                \
        case MCA_BTL_ATOMIC_AND:                                                                   \
            return old_bits & bits;                                                                \
        case MCA_BTL_ATOMIC_OR:                                                                    \
            return old_bits | bits;                                                                \
        case MCA_BTL_ATOMIC_XOR:                                                                   \
            return old_bits ^ bits;                                                                \
        case MCA_BTL_ATOMIC_LAND:                                                                  \
            return was && operand;                                                                 \
        case MCA_BTL_ATOMIC_LOR:                                                                   \
            return was || operand;                                                                 \
        case MCA_BTL_ATOMIC_LXOR:                                                                  \
            return !was != !operand;                                                               \
        case MCA_BTL_ATOMIC_MIN:                                                                   \
            return (uint64_t) (was < operand ? was : operand);                                     \
        case MCA_BTL_ATOMIC_MAX:                                                                   \
            return (uint64_t) (was > operand ? was : operand);                                     \
        default:                                                                                   \
            return bits;                                                                           \
        }                                                                                          \
    }
MODEL_INTEGER(int32_t)
MODEL_INTEGER(int64_t)

#define MODEL_FLOAT(type)                                                                          \
    static uint64_t model_##type(mca_btl_base_atomic_op_t op, uint64_t old_bits, uint64_t bits)    \
    {                                                                                              \
        type was, operand, result;                                                                 \
                                                                                                   \
        memcpy(&was, &old_bits, sizeof(was));                                                      \
        memcpy(&operand, &bits, sizeof(operand));                                                  \
        result = op == MCA_BTL_ATOMIC_ADD                    ? was + operand                       \
                 : op == MCA_BTL_ATOMIC_MIN && was < operand ? was                                 \
                 : op == MCA_BTL_ATOMIC_MAX && was > operand ? was                                 \
                                                             : operand;                            \
        memcpy(&bits, &result, sizeof(result));                                                    \
        return bits;                                                                               \
    }
MODEL_FLOAT(float)
MODEL_FLOAT(double)

static uint64_t model(int flags, mca_btl_base_atomic_op_t op, uint64_t was, uint64_t operand)
{
    const bool narrow = (flags & MCA_BTL_ATOMIC_FLAG_32BIT) != 0;

    if ((flags & MCA_BTL_ATOMIC_FLAG_FLOAT) != 0) {
        return narrow ? model_float(op, was, operand) : model_double(op, was, operand);
    }
    return narrow ? model_int32_t(op, was, operand) : model_int64_t(op, was, operand);
}

static uint64_t random_operand(uint64_t *state, int flags)
{
    const double d = (double) random_below(state, 2000) / 16 - 60;
    const float f = (float) d;
    uint64_t bits = random_next(state);

    if (random_below(state, 4) == 0) {
        bits = 0;
    } else if ((flags & MCA_BTL_ATOMIC_FLAG_FLOAT) != 0) {
        bits = 0;
        memcpy(&bits, (flags & MCA_BTL_ATOMIC_FLAG_32BIT) != 0 ? (const void *) &f : &d,
               (flags & MCA_BTL_ATOMIC_FLAG_32BIT) != 0 ? sizeof(f) : sizeof(d));
    }
    return bits;
}

static bool offered(uint32_t supports, int flags, bool integers_only)
{
    if ((flags & MCA_BTL_ATOMIC_FLAG_32BIT) != 0) {
        supports |= MCA_BTL_ATOMIC_SUPPORTS_32BIT;
    }
    if ((flags & MCA_BTL_ATOMIC_FLAG_FLOAT) != 0) {
        supports |= MCA_BTL_ATOMIC_SUPPORTS_FLOAT;
    }
    return supports == (supports & btl->btl_atomic_flags)
           && !(integers_only && (flags & MCA_BTL_ATOMIC_FLAG_FLOAT) != 0);
}

/* The word that only we use at the target, by a get. */
static uint64_t word_at(int target, uint64_t offset, size_t bytes)
{
    outcome_t o = {0};
    uint64_t word = 0;

    if (outcome_of(get(target, NUMBERS, offset, &word, bytes, &o), &o) != OPAL_SUCCESS) {
        fail("get of a word from %d: status %d", target, o.status);
    }
    return word;
}

static void expect_word(const char *name, int flags, uint64_t is, uint64_t should_be)
{
    const uint64_t mask = (flags & MCA_BTL_ATOMIC_FLAG_32BIT) != 0 ? UINT32_MAX : UINT64_MAX;

    if ((is & mask) != (should_be & mask)) {
        fail("%s, flags %d: %llx, expected %llx", name, flags, (unsigned long long) is,
             (unsigned long long) should_be);
    }
}

static void one_atomic(uint64_t *state, int target, const code_t *code, int flags)
{
    const size_t bytes = (flags & MCA_BTL_ATOMIC_FLAG_32BIT) != 0 ? 4 : 8;
    const uint64_t offset =
        8 * (WORDS * (uint64_t) rank + random_below(state, WORDS)) + (bytes == 4 ? 4 : 0);
    const uint64_t address = offers[target].address[NUMBERS] + offset;
    const uint64_t before = random_operand(state, flags), operand = random_operand(state, flags);
    const bool fetch = random_below(state, 2) > 0;
    uint64_t was = 0, preset = before;
    outcome_t o = {0}, p = {0};
    int rc;

    if (outcome_of(put(target, NUMBERS, offset, &preset, bytes, &p), &p) != OPAL_SUCCESS) {
        fail("put of a word to %d: status %d", target, p.status);
    }
    rc = fetch ? btl->btl_atomic_fop(btl, peers[target], &was, address, NULL,
                                     handle_of(target, NUMBERS), code->op, operand, flags,
                                     MCA_BTL_NO_ORDER, done, &o, &offers)
               : btl->btl_atomic_op(btl, peers[target], address, handle_of(target, NUMBERS),
                                    code->op, operand, flags, MCA_BTL_NO_ORDER, done, &o, &offers);
    rc = outcome_of(rc, &o);
    if (!offered(code->supports, flags, code->integers_only)) {
        if (rc != OPAL_ERR_NOT_SUPPORTED) {
            fail("%s, flags %d: status %d", code->name, flags, rc);
        }
        expect_word(code->name, flags, word_at(target, offset, bytes), before);
        return;
    }
    if (rc != OPAL_SUCCESS) {
        fail("%s, flags %d: status %d", code->name, flags, rc);
    }
    if (fetch) {
        expect_word(code->name, flags, was, before);
    }
    expect_word(code->name, flags, word_at(target, offset, bytes),
                model(flags, code->op, before, operand));
}

static void one_swap(uint64_t *state, int target, int flags)
{
    const size_t bytes = (flags & MCA_BTL_ATOMIC_FLAG_32BIT) != 0 ? 4 : 8;
    const uint64_t offset = 8 * (WORDS * (uint64_t) rank + random_below(state, WORDS));
    const uint64_t value = random_next(state), before = word_at(target, offset, bytes);
    const bool fits = random_below(state, 2) > 0;
    uint64_t was = 0;
    outcome_t o = {0};
    int rc =
        btl->btl_atomic_cswap(btl, peers[target], &was, offers[target].address[NUMBERS] + offset,
                              NULL, handle_of(target, NUMBERS), fits ? before : ~before, value,
                              flags, MCA_BTL_NO_ORDER, done, &o, &offers);

    rc = outcome_of(rc, &o);
    if (!offered(MCA_BTL_ATOMIC_SUPPORTS_CSWAP, flags, false)) { /* devices know no 32 bits */
        if (rc != OPAL_ERR_NOT_SUPPORTED) {
            fail("compare-and-swap, flags %d: status %d", flags, rc);
        }
        expect_word("compare-and-swap", flags, word_at(target, offset, bytes), before);
        return;
    }
    if (rc != OPAL_SUCCESS) {
        fail("compare-and-swap, flags %d: status %d", flags, rc);
    }
    expect_word("compare-and-swap", flags, was, before);
    expect_word("compare-and-swap", flags, word_at(target, offset, bytes), fits ? value : before);
}

static void atomics(uint64_t *state, int target)
{
    for (int flags = 0; flags < 4; flags++) {
        for (size_t i = 0; i < CODES; i++) {
            one_atomic(state, target, &codes[i], flags);
        }
    }
    one_swap(state, target, 0);
    one_swap(state, target, MCA_BTL_ATOMIC_FLAG_32BIT);
}

/* ---- what must be rejected ---- */

static void expect_rejected(const char *what, int target, int rc, outcome_t *o)
{
    const int status = outcome_of(rc, o);

    if (status == OPAL_SUCCESS) {
        fail("%s at %d was carried out", what, target);
    }
}

static void reject_transfers(int target, int region, uint64_t offset, size_t bytes, bool put_too)
{
    unsigned char *buffer = get_memory(bytes + 1);
    outcome_t o = {0}, p = {0};

    memset(buffer, UNTOUCHED + 1, bytes + 1);
    expect_rejected(region_names[region], target, put(target, region, offset, buffer, bytes, &o),
                    &o);
    if (!put_too) {
        expect_rejected(region_names[region], target,
                        get(target, region, offset, buffer, bytes, &p), &p);
    }
    free(buffer);
}

static void reject_atomics(int target, int region, uint64_t offset)
{
    const uint64_t address = offers[target].address[region] + offset;
    outcome_t o = {0}, p = {0};
    uint64_t was = 0;

    expect_rejected("fetch-and-add", target,
                    btl->btl_atomic_fop(btl, peers[target], &was, address, NULL,
                                        handle_of(target, region), MCA_BTL_ATOMIC_ADD, 1, 0,
                                        MCA_BTL_NO_ORDER, done, &o, &offers),
                    &o);
    expect_rejected("compare-and-swap", target,
                    btl->btl_atomic_cswap(btl, peers[target], &was, address, NULL,
                                          handle_of(target, region), 0, 1, 0, MCA_BTL_NO_ORDER,
                                          done, &p, &offers),
                    &p);
}

/* Where the keys lie in what Open MPI calls a handle; btl_ib.h. */
enum {
    KEY_AT = 8,
    KEY_BYTES = 16,
    DEVICE_KEY_AT = 32,
};

/* `stale`: also by handles of what is registered no more, which devices may still have in a
 * cache. */
static void rejections(int target, bool stale)
{
    offer_t saved = offers[target];

    reject_transfers(target, READ_ONLY, 0, 100, true);
    reject_transfers(target, READ_ONLY, 0, GUARDED, true);
    reject_transfers(target, READ_ONLY, 1, GUARDED, false);
    reject_transfers(target, READ_ONLY, GUARDED, 1, false);
    reject_transfers(target, READ_ONLY, (uint64_t) -1, 2, false);
    reject_transfers(target, READ_ONLY, UINT64_C(1) << 40, 100, false);
    if (stale) {
        reject_transfers(target, GONE, 0, 100, false);
        reject_atomics(target, GONE, 0);
    }
    reject_atomics(target, READ_ONLY, 0);
    reject_atomics(target, NUMBERS, 8 * (uint64_t) WORDS * (uint64_t) size);
    reject_atomics(target, NUMBERS, 4);      /* not aligned */
    for (size_t i = 0; i < KEY_BYTES; i++) { /* a guess at the engine's key, and at the device's */
        offers[target].handle[DATA][KEY_AT + i] ^= 1;
        offers[target].handle[DATA][DEVICE_KEY_AT + i % 4] ^= 1;
        seal_handle(offers[target].handle[DATA]);
        reject_transfers(target, DATA, 0, 100, false);
        offers[target] = saved;
    }
}

static void limits(int target)
{
    unsigned char byte = 0;
    outcome_t o = {0};

    if (SIZE_MAX > btl->btl_put_limit
        && put(target, DATA, 0, &byte, btl->btl_put_limit + 1, &o) != OPAL_ERR_NOT_AVAILABLE) {
        fail("a put above its limit was accepted");
    }
    if (SIZE_MAX > btl->btl_get_limit
        && get(target, DATA, 0, &byte, btl->btl_get_limit + 1, &o) != OPAL_ERR_NOT_AVAILABLE) {
        fail("a get above its limit was accepted");
    }
    if (o.calls != 0) {
        fail("a callback of what was not begun");
    }
}

/* ---- one that is longer than 4 GiB ---- */

/* So many MiB of addresses with 2 MiB behind them: all but the last MiB are one and the same. */
static unsigned char *map_huge(size_t mib, int *fd)
{
    const size_t unit = 1u << 20;
    unsigned char *all =
        mmap(NULL, mib * unit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    *fd = memfd_create("direct", 0);
    if (all == MAP_FAILED || *fd < 0 || ftruncate(*fd, 2 * (off_t) unit) != 0) {
        fail("cannot map %zu MiB", mib);
    }
    for (size_t i = 0; i < mib; i++) {
        if (mmap(all + i * unit, unit, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, *fd,
                 i + 1 < mib ? 0 : (off_t) unit)
            == MAP_FAILED) {
            fail("cannot map MiB %zu", i);
        }
    }
    return all;
}

static void one_huge(int target, size_t mib, const offer_t *offer, unsigned char *ours)
{
    const size_t bytes = (mib << 20) - 3, tail = (mib - 1) << 20;
    const offer_t saved = offers[target];
    outcome_t o = {0}, p = {0};

    offers[target] = *offer;
    pattern_fill(ours, 1u << 20, 1);
    pattern_fill(ours + tail, 1u << 20, 2);
    if (outcome_of(put(target, DATA, 3, ours, bytes, &o), &o) != OPAL_SUCCESS) {
        fail("put of %zu MiB: status %d", mib, o.status);
    }
    memset(ours, 0, 1u << 20);
    memset(ours + tail, 0, 1u << 20);
    if (outcome_of(get(target, DATA, 3, ours, bytes, &p), &p) != OPAL_SUCCESS) {
        fail("get of %zu MiB: status %d", mib, p.status);
    }
    pattern_check(ours + tail, (1u << 20) - 3, 2, "the last MiB");
    offers[target] = saved;
}

/* Rank 0 at rank 1. */
static void huge(size_t mib)
{
    offer_t offer = {0};
    handle_t *handle = NULL;
    unsigned char *mine;
    int fd;

    mine = map_huge(mib, &fd);
    if (rank == 1) {
        handle =
            btl->btl_register_mem(btl, MCA_BTL_ENDPOINT_ANY, mine, mib << 20,
                                  MCA_BTL_REG_FLAG_REMOTE_READ | MCA_BTL_REG_FLAG_REMOTE_WRITE);
        offer.address[DATA] = (uint64_t) (uintptr_t) mine;
        memcpy(offer.handle[DATA], handle, btl->btl_registration_handle_size);
    }
    MPI_Bcast(&offer, (int) sizeof(offer), MPI_BYTE, 1, MPI_COMM_WORLD);
    if (rank == 0) {
        one_huge(1, mib, &offer, mine);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        btl->btl_deregister_mem(btl, handle);
    }
    munmap(mine, mib << 20);
    close(fd);
}

/* ---- the frame ---- */

static void offer_memory(void)
{
    const size_t bytes[REGIONS] = {AREA * (size_t) size, 8 * WORDS * (size_t) size, GUARDED, 4096};
    const uint32_t rights[REGIONS] = {MCA_BTL_REG_FLAG_REMOTE_READ | MCA_BTL_REG_FLAG_REMOTE_WRITE,
                                      MCA_BTL_REG_FLAG_ACCESS_ANY, MCA_BTL_REG_FLAG_REMOTE_READ,
                                      MCA_BTL_REG_FLAG_ACCESS_ANY};
    offer_t mine = {0};

    for (int i = 0; i < REGIONS; i++) {
        memory[i] = get_memory(bytes[i]);
        memset(memory[i], UNTOUCHED, bytes[i]);
        handles[i] =
            btl->btl_register_mem(btl, MCA_BTL_ENDPOINT_ANY, memory[i], bytes[i], rights[i]);
        if (handles[i] == NULL) {
            fail("cannot register region %s", region_names[i]);
        }
        mine.address[i] = (uint64_t) (uintptr_t) memory[i];
        memcpy(mine.handle[i], handles[i], btl->btl_registration_handle_size);
    }
    btl->btl_deregister_mem(btl, handles[GONE]);
    offers = get_memory(sizeof(*offers) * (size_t) size);
    MPI_Allgather(&mine, (int) sizeof(mine), MPI_BYTE, offers, (int) sizeof(mine), MPI_BYTE,
                  MPI_COMM_WORLD);
}

static void take_memory_back(void)
{
    const int guarded[] = {READ_ONLY, GONE};

    for (size_t g = 0; g < 2; g++) {
        for (size_t i = 0; i < GUARDED; i++) {
            if (memory[guarded[g]][i] != UNTOUCHED) {
                fail("region %s has changed at byte %zu", region_names[guarded[g]], i);
            }
        }
    }
    for (int i = 0; i < REGIONS; i++) {
        if (i != GONE) {
            btl->btl_deregister_mem(btl, handles[i]);
        }
        free(memory[i]);
    }
    free(offers);
    free(procs);
    free(peers);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "direct");
    uint64_t state = (uint64_t) arg(argc, argv, "seed", 1);
    const int rounds = (int) arg(argc, argv, "rounds", 24);
    const size_t mib = (size_t) arg(argc, argv, "huge", 0);
    const bool stale = arg(argc, argv, "stale", 1) != 0;

    find_module();
    find_peers();
    offer_memory();
    for (int round = 0; round < rounds; round++) {
        const int distance = (int) random_below(&state, (uint64_t) size);
        uint64_t own = state ^ (uint64_t) rank << 40;

        transfers(&own, distance);
        atomics(&own, (rank + distance) % size);
    }
    for (int target = 0; target < size; target++) {
        rejections(target, stale);
        limits(target);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (mib > 0 && size > 1) {
        huge(mib);
    }
    take_memory_back();
    finish();
    return 0;
}
