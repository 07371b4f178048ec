/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * All that a job may do, in an order of the seed's, for long: messages of all sizes between all,
 * bursts, windows by fences and by locks, collectives, spawned processes, halves that connect by a
 * port. All data are checked. Rank 0 prints "soak: going" when it begins: tests/suite/test_soak.py
 * and tests/soak/run do things to hosts and processes from then on. At the end each tells what it
 * held after a tenth of the time and holds now: descriptors and memory; and rank 0 a digest of all
 * that arrived anywhere: with `rounds` it is the same whatever carries messages.
 * seconds=S (20), or rounds=N, and what follows from the seed alone; seed=N (1); spawns=S (10):
 * seconds, or rounds, between two times that processes come and go, by a spawn and by a port in
 * turn, 0: never
 */

#include "processes.h"

#include <stdbool.h>

enum {
    BYTES_MAX = 2000000,
    RANKS_MAX = 8,
    CHILDREN = 2,
    WORDS = 4096,
    OPERATIONS = 24, /* of a rank on a random window */
    SUMS = 8,        /* words of a window to which all add */
    BURST = 32,      /* messages to each at once */
    BURST_MAX = 60000,
    BURST_TAG = 5000,
};

static uint64_t seed;
static uint64_t digest; /* of all that arrived here */

static uint64_t hash(uint64_t so_far, const void *data, size_t count)
{
    const unsigned char *bytes = data;

    for (size_t i = 0; i < count; i += 8) {
        uint64_t word = count - i;
        memcpy(&word, bytes + i, count - i < 8 ? count - i : 8);
        so_far = (so_far ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        so_far ^= so_far >> 29;
    }
    return so_far;
}

static uint64_t seed_of(int from, int to, int round)
{
    return seed ^ ((uint64_t) from << 40) ^ ((uint64_t) to << 32) ^ (uint64_t) round;
}

static size_t size_of(int from, int to, int round)
{
    uint64_t state = seed_of(from, to, round);

    return random_size(&state, BYTES_MAX);
}

/* Each of `others` and us, by a communicator in which we are `self`. */
static void messages(MPI_Comm with, int self, int others, int round)
{
    unsigned char *out[RANKS_MAX], *in[RANKS_MAX];
    MPI_Request requests[2 * RANKS_MAX];

    for (int i = 0; i < others; i++) {
        const size_t bytes = size_of(self, i, round);
        out[i] = get_memory(BYTES_MAX);
        in[i] = get_memory(BYTES_MAX);
        pattern_fill(out[i], bytes, seed_of(self, i, round));
        MPI_Irecv(in[i], BYTES_MAX, MPI_BYTE, i, round & 1023, with, &requests[2 * i]);
        MPI_Isend(out[i], (int) bytes, MPI_BYTE, i, round & 1023, with, &requests[2 * i + 1]);
    }
    for (int i = 0; i < others; i++) {
        MPI_Status status;
        int count;
        MPI_Wait(&requests[2 * i], &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        const size_t bytes = size_of(i, self, round);
        if ((size_t) count != bytes) {
            fail("round %d: %d bytes of %d instead of %zu", round, count, i, bytes);
        }
        pattern_check(in[i], bytes, seed_of(i, self, round), "message");
        digest = hash(digest, in[i], bytes);
        MPI_Wait(&requests[2 * i + 1], MPI_STATUS_IGNORE);
        free(out[i]);
        free(in[i]);
    }
}

/* What a message of a burst begins with. */
typedef struct head {
    uint64_t number; /* of those from there to here in this round */
    uint64_t hash;   /* of what follows */
} head_t;

static void *burst_message(uint64_t *state, uint64_t number, size_t *bytes)
{
    *bytes = sizeof(head_t) + random_size(state, BURST_MAX);
    unsigned char *message = get_memory(*bytes);
    head_t *head = (head_t *) (void *) message;

    pattern_fill(message + sizeof(*head), *bytes - sizeof(*head), random_next(state));
    head->number = number;
    head->hash = hash(number, head + 1, *bytes - sizeof(*head));
    return message;
}

/* Receives the next message of a burst, whoever sent it. `seen`: how many of each came, `hashes`:
 * what they were. */
static void burst_receive(uint64_t *seen, uint64_t *hashes, int round)
{
    static unsigned char in[sizeof(head_t) + BURST_MAX];
    const head_t *head = (const head_t *) (void *) in;
    MPI_Status status;
    int bytes;

    MPI_Recv(in, (int) sizeof(in), MPI_BYTE, MPI_ANY_SOURCE, BURST_TAG, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    const int from = status.MPI_SOURCE;
    if (bytes < (int) sizeof(*head) || head->number != seen[from]) {
        fail("round %d: message %llu of rank %d (%d bytes) instead of %llu", round,
             (unsigned long long) head->number, from, bytes, (unsigned long long) seen[from]);
    }
    if (head->hash != hash(head->number, head + 1, (size_t) bytes - sizeof(*head))) {
        fail("round %d: message %llu of rank %d is damaged", round,
             (unsigned long long) head->number, from);
    }
    hashes[from] = hash(hashes[from], in, (size_t) bytes);
    seen[from]++;
}

/* Each sends many messages to each other at once, which arrive in their order. */
static void bursts(int round)
{
    const int count = BURST * (size - 1);
    MPI_Request requests[BURST * RANKS_MAX];
    void *out[BURST * RANKS_MAX];
    uint64_t seen[RANKS_MAX] = {0}, hashes[RANKS_MAX] = {0};

    for (int i = 0; i < count; i++) {
        const int to = (rank + 1 + i % (size - 1)) % size, number = i / (size - 1);
        uint64_t state = seed_of(rank, to, round) + (uint64_t) number;
        size_t bytes;
        out[i] = burst_message(&state, (uint64_t) number, &bytes);
        MPI_Isend(out[i], (int) bytes, MPI_BYTE, to, BURST_TAG, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < count; i++) {
        burst_receive(seen, hashes, round);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    digest = hash(digest, hashes, sizeof(hashes));
    for (int i = 0; i < count; i++) {
        free(out[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* all of a round came before any of the next */
}

/* Each puts into its neighbour's part, reads what another one got, and counts at rank 0. */
static void windows(int round)
{
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    uint64_t *base, mine[WORDS], seen[WORDS], one = 1, counted, all = 0;
    MPI_Win window;

    MPI_Win_allocate((WORDS + 1) * sizeof(*base), 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    memset(base, 0, (WORDS + 1) * sizeof(*base));
    for (int i = 0; i < WORDS; i++) {
        mine[i] = pattern_word(seed_of(rank, next, round), (size_t) i);
    }
    MPI_Win_fence(0, window);
    MPI_Put(mine, WORDS, MPI_UINT64_T, next, 0, WORDS, MPI_UINT64_T, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < WORDS; i++) {
        if (base[i] != pattern_word(seed_of(before, rank, round), (size_t) i)) {
            fail("round %d: word %d was not put", round, i);
        }
    }
    MPI_Get(seen, WORDS, MPI_UINT64_T, next, 0, WORDS, MPI_UINT64_T, window);
    MPI_Win_fence(0, window);
    if (memcmp(seen, mine, sizeof(mine)) != 0) {
        fail("round %d: what was read is not what was put", round);
    }
    digest = hash(hash(digest, base, WORDS * sizeof(*base)), seen, sizeof(seen));
    for (int i = 0; i < 4; i++) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        MPI_Fetch_and_op(&one, &counted, MPI_UINT64_T, 0, WORDS, MPI_SUM, window);
        MPI_Win_unlock(0, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Fetch_and_op(&one, &all, MPI_UINT64_T, 0, WORDS, MPI_NO_OP, window);
    MPI_Win_unlock(0, window);
    if (all != 4 * (uint64_t) size) {
        fail("round %d: %llu were counted", round, (unsigned long long) all);
    }
    MPI_Win_free(&window);
}

/* What this rank does to random windows. In the window of each rank a slice belongs to each, which
 * that alone writes; behind these are the words to which all add. */
typedef struct random_window {
    MPI_Win window;
    uint64_t *base;
    uint64_t *written; /* what is in our slice of the window of each */
    uint64_t *added;   /* by us, to the sums of each */
    bool *open;        /* operations on it are not complete */
    uint64_t state;
} random_window_t;

static void complete(random_window_t *self, int at)
{
    if (self->open[at]) {
        MPI_Win_flush(at, self->window);
        self->open[at] = false;
    }
}

/* Put into, read from or add to the window of a random rank. */
static void operate(random_window_t *self, int round)
{
    const int at = (int) random_below(&self->state, (uint64_t) size);
    const uint64_t what = random_below(&self->state, 8);
    const int count = 1 + (int) random_size(&self->state, WORDS - 1);
    const int first = (int) random_below(&self->state, (uint64_t) (WORDS - count) + 1);
    uint64_t *const written = self->written + (size_t) at * WORDS + first;
    const MPI_Aint place = (MPI_Aint) rank * WORDS + first;

    if (what < 4) {
        complete(self, at); /* it may go on in any order */
        pattern_fill(written, (size_t) count * 8, random_next(&self->state));
        MPI_Put(written, count, MPI_UINT64_T, at, place, count, MPI_UINT64_T, self->window);
        self->open[at] = true;
    } else if (what < 6) {
        uint64_t seen[WORDS];
        complete(self, at);
        MPI_Get(seen, count, MPI_UINT64_T, at, place, count, MPI_UINT64_T, self->window);
        MPI_Win_flush(at, self->window);
        if (memcmp(seen, written, (size_t) count * 8) != 0) {
            fail("round %d: %d words read of rank %d are not what was put", round, count, at);
        }
    } else {
        uint64_t more[SUMS];
        for (int i = 0; i < SUMS; i++) {
            more[i] = random_next(&self->state);
            self->added[at * SUMS + i] += more[i];
        }
        MPI_Accumulate(more, SUMS, MPI_UINT64_T, at, (MPI_Aint) size * WORDS, SUMS, MPI_UINT64_T,
                       MPI_SUM, self->window);
        MPI_Win_flush(at, self->window);
        self->open[at] = false;
    }
}

/* Is in our window what the others say that they wrote, and the sum of what they added? */
static void check_window(const random_window_t *self, int round)
{
    uint64_t sums[SUMS];
    uint64_t *wanted = get_memory((size_t) size * WORDS * 8);

    MPI_Alltoall(self->written, WORDS, MPI_UINT64_T, wanted, WORDS, MPI_UINT64_T, MPI_COMM_WORLD);
    MPI_Reduce_scatter_block(self->added, sums, SUMS, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Win_sync(self->window);
    for (int i = 0; i < size * WORDS; i++) {
        if (self->base[i] != wanted[i]) {
            fail("round %d: word %d of rank %d is not what it put", round, i % WORDS, i / WORDS);
        }
    }
    for (int i = 0; i < SUMS; i++) {
        if (self->base[size * WORDS + i] != sums[i]) {
            fail("round %d: sum %d is wrong", round, i);
        }
    }
    digest = hash(digest, self->base, ((size_t) size * WORDS + SUMS) * 8);
    free(wanted);
}

/* All do something to the windows of all, at once. */
static void random_windows(int round)
{
    const size_t words = (size_t) size * WORDS + SUMS;
    random_window_t self = {
        .written = get_memory((size_t) size * WORDS * 8),
        .added = get_memory((size_t) size * SUMS * 8),
        .open = get_memory((size_t) size * sizeof(bool)),
        .state = seed_of(rank, rank, round),
    };

    memset(self.written, 0, (size_t) size * WORDS * 8);
    memset(self.added, 0, (size_t) size * SUMS * 8);
    memset(self.open, 0, (size_t) size * sizeof(bool));
    self.base = get_memory(words * 8);
    memset(self.base, 0, words * 8);
    MPI_Win_create(self.base, (MPI_Aint) words * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &self.window);
    MPI_Win_lock_all(0, self.window);
    for (int i = 0; i < OPERATIONS; i++) {
        operate(&self, round);
    }
    MPI_Win_flush_all(self.window);
    MPI_Barrier(MPI_COMM_WORLD);
    check_window(&self, round);
    MPI_Win_unlock_all(self.window);
    MPI_Win_free(&self.window);
    free(self.base);
    free(self.written);
    free(self.added);
    free(self.open);
}

static void collectives(int round)
{
    enum { COUNT = 20000 };
    static uint64_t in[COUNT], out[COUNT];
    const uint64_t factor = (uint64_t) size * ((uint64_t) size + 1) / 2;

    for (int i = 0; i < COUNT; i++) {
        in[i] = ((uint64_t) rank + 1) * (uint64_t) (round + i);
    }
    MPI_Allreduce(in, out, COUNT, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; i++) {
        if (out[i] != factor * (uint64_t) (round + i)) {
            fail("round %d: sum %d is wrong", round, i);
        }
    }
    digest = hash(digest, out, sizeof(out));
}

static void spawn(char **argv, int round)
{
    MPI_Comm children;

    MPI_Comm_spawn(argv[0], argv + 1, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                   MPI_ERRCODES_IGNORE);
    MPI_Bcast(&round, 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, children);
    messages(children, rank, CHILDREN, round);
    MPI_Comm_disconnect(&children);
}

/* Of two groups that are connected. */
static void exchange(MPI_Comm with, int round)
{
    int others, self;

    MPI_Comm_rank(with, &self);
    MPI_Comm_remote_size(with, &others);
    messages(with, self, others, round);
}

/* What a process holds. */
typedef struct held {
    long descriptors, kib;
} held_t;

static held_t look(void)
{
    return (held_t){.descriptors = count_descriptors(), .kib = resident_kib()};
}

static int be_a_child(MPI_Comm parent)
{
    int round;

    program = "soak (child)";
    MPI_Bcast(&round, 1, MPI_INT, 0, parent);
    exchange(parent, round);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

enum { END, MESSAGES, BURSTS, WINDOWS, RANDOM_WINDOWS, COLLECTIVES, SPAWN, CONNECT, KINDS };

/* What all ranks do next: as rank 0 says. */
static int choose(uint64_t *state)
{
    const uint64_t choice = random_below(state, 16);

    return choice < 5    ? MESSAGES
           : choice < 8  ? BURSTS
           : choice < 10 ? WINDOWS
           : choice < 13 ? RANDOM_WINDOWS
                         : COLLECTIVES;
}

static void act(int kind, char **argv, MPI_Comm half, int round)
{
    switch (kind) {
    case MESSAGES:
        messages(MPI_COMM_WORLD, rank, size, round);
        break;
    case BURSTS:
        bursts(round);
        break;
    case WINDOWS:
        windows(round);
        break;
    case RANDOM_WINDOWS:
        random_windows(round);
        break;
    case COLLECTIVES:
        collectives(round);
        break;
    case SPAWN:
        spawn(argv, round);
        break;
    case CONNECT:
        connect_halves(half, exchange, round);
        break;
    default:
        break;
    }
}

/* Rank 0 tells what was done, and the digest of all ranks. */
static void tell(const long *count)
{
    uint64_t all[RANKS_MAX] = {0};

    MPI_Gather(&digest, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("soak: rounds: messages %ld, bursts %ld, windows %ld and %ld, collectives %ld, "
               "spawns %ld, connects %ld\n",
               count[MESSAGES], count[BURSTS], count[WINDOWS], count[RANDOM_WINDOWS],
               count[COLLECTIVES], count[SPAWN], count[CONNECT]);
        printf("soak: digest %016llx\n", (unsigned long long) hash(0, all, sizeof(all)));
    }
}

int main(int argc, char **argv)
{
    static long count[KINDS];
    MPI_Comm parent, half;

    begin(&argc, &argv, "soak");
    const double rounds = arg(argc, argv, "rounds", 0);
    const double most = rounds > 0 ? rounds : arg(argc, argv, "seconds", 20);
    const double each = arg(argc, argv, "spawns", 10);
    seed = (uint64_t) arg(argc, argv, "seed", 1) << 48;
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        return be_a_child(parent);
    }
    need_ranks(2);
    if (size > RANKS_MAX) {
        fail("at most %d ranks", RANKS_MAX);
    }
    if (rank == 0) {
        printf("soak: going\n");
        fflush(stdout);
    }
    MPI_Comm_split(MPI_COMM_WORLD, rank < size / 2, rank, &half);
    const double begun = seconds_now();
    double changed = 0;
    uint64_t state = seed + 1;
    held_t then = {0};
    for (int round = 0, kind = MESSAGES; kind != END; round++) {
        const double now = rounds > 0 ? round : seconds_now() - begun;
        kind = choose(&state);
        if (then.kib == 0 && now >= most / 10) {
            then = look();
        }
        if (now >= most) {
            kind = END;
        } else if (each > 0 && now - changed >= each) {
            kind = count[SPAWN] <= count[CONNECT] ? SPAWN : CONNECT;
            changed = now;
        }
        MPI_Bcast(&kind, 1, MPI_INT, 0, MPI_COMM_WORLD);
        count[kind]++;
        act(kind, argv, half, round);
    }
    const held_t held = look();
    tell(count);
    printf("soak: rank %d: descriptors %ld, then %ld; KiB %ld, then %ld\n", rank, then.descriptors,
           held.descriptors, then.kib, held.kib);
    MPI_Comm_free(&half);
    finish();
    return 0;
}
