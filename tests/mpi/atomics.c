/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * One-sided operations that return what was there: all ranks work on the same words at once.
 * Tickets (fetch_and_op and get_accumulate with MPI_SUM): nobody draws a number twice, none is left
 * out, and each rank's numbers grow. Claims (compare_and_swap): one winner for each word, and
 * losers saw the winner. Tokens (fetch_and_op with MPI_REPLACE): what went in comes out once, or is
 * there at the end. Increments by compare_and_swap: none is lost. seed=N (1), rounds=N (40),
 * seconds=S (0): instead of rounds, and rank 0 says "atomics: going" when it begins, threads=N (0):
 * so many threads do it at once in each rank, by MPI_THREAD_MULTIPLE; window=create|allocate
 * (create)
 */

#include "common.h"

#include <pthread.h>
#include <stddef.h>

#define CLAIMS  16
#define LANES   40 /* numbers in one get_accumulate: more than osc/rdma sends as single atomics */
#define THREADS 16

/* What each window holds. */
typedef struct words {
    int64_t tickets64;
    int64_t claims64[CLAIMS];
    int64_t token;
    int64_t count64;
    int64_t lanes[LANES];
    int32_t claims32[CLAIMS];
    int32_t tickets32;
    int32_t count32;
} words_t;

/* What one worker did to the words of one rank. */
typedef struct done {
    int64_t tickets, ticket_sum, last64, last32;
    int64_t lane_adds, lane_sum[LANES], lane_last[LANES];
    int64_t counts;
    int64_t tokens_in, tokens_out; /* sums of the tokens */
    int64_t seen64[CLAIMS], seen32[CLAIMS];
    int claimed;
} done_t;

typedef struct worker {
    pthread_t thread;
    int64_t name; /* of this worker, unique in the job, above 0 */
    uint64_t state;
    int rounds;
    double until; /* seconds_now() when to stop; 0: after `rounds` */
    done_t *done; /* for each rank */
} worker_t;

static MPI_Win win;
static words_t *own;

#define PLACE(field) ((MPI_Aint) offsetof(words_t, field))

static void fetch_and_add(int target, MPI_Datatype type, MPI_Aint at, const void *add, void *was)
{
    MPI_Fetch_and_op(add, was, type, target, at, MPI_SUM, win);
    MPI_Win_flush(target, win);
}

static void draw_tickets(done_t *d, int target)
{
    const int64_t one64 = 1;
    const int32_t one32 = 1;
    int64_t was64 = -1;
    int32_t was32 = -1;

    fetch_and_add(target, MPI_INT64_T, PLACE(tickets64), &one64, &was64);
    fetch_and_add(target, MPI_INT32_T, PLACE(tickets32), &one32, &was32);
    if (was64 <= d->last64 || was32 <= d->last32) {
        fail("tickets of %d: %lld after %lld, %d after %lld", target, (long long) was64,
             (long long) d->last64, was32, (long long) d->last32);
    }
    d->last64 = was64;
    d->last32 = was32;
    d->tickets++;
    d->ticket_sum += was64 + was32;
}

static void draw_lanes(done_t *d, int target, int lanes)
{
    int64_t ones[LANES], was[LANES];

    for (int i = 0; i < LANES; i++) {
        ones[i] = 1;
        was[i] = -1;
    }
    MPI_Get_accumulate(ones, lanes, MPI_INT64_T, was, lanes, MPI_INT64_T, target, PLACE(lanes),
                       lanes, MPI_INT64_T, MPI_SUM, win);
    MPI_Win_flush(target, win);
    for (int i = 0; i < lanes; i++) {
        if (was[i] <= d->lane_last[i]) {
            fail("lane %d of %d: %lld after %lld", i, target, (long long) was[i],
                 (long long) d->lane_last[i]);
        }
        d->lane_last[i] = was[i];
        d->lane_sum[i] += was[i];
    }
    d->lane_adds += lanes;
}

static int64_t swap_if(int target, int bits, MPI_Aint at, int64_t expected, int64_t wanted)
{
    int64_t was64 = -1;
    int32_t was32 = -1, expected32 = (int32_t) expected, wanted32 = (int32_t) wanted;

    if (bits == 64) {
        MPI_Compare_and_swap(&wanted, &expected, &was64, MPI_INT64_T, target, at, win);
    } else {
        MPI_Compare_and_swap(&wanted32, &expected32, &was32, MPI_INT32_T, target, at, win);
    }
    MPI_Win_flush(target, win);
    return bits == 64 ? was64 : was32;
}

static void claim_all(worker_t *w, done_t *d, int target)
{
    const int first = (int) random_below(&w->state, CLAIMS);

    for (int i = 0; i < CLAIMS; i++) {
        const int word = (first + i) % CLAIMS;
        const int64_t was64 =
            swap_if(target, 64, PLACE(claims64) + 8 * (MPI_Aint) word, 0, w->name);
        const int64_t was32 =
            swap_if(target, 32, PLACE(claims32) + 4 * (MPI_Aint) word, 0, w->name);

        d->seen64[word] = was64 == 0 ? w->name : was64;
        d->seen32[word] = was32 == 0 ? w->name : was32;
    }
    d->claimed = 1;
}

static void swap_tokens(worker_t *w, done_t *d, int target)
{
    const int64_t token = (int64_t) (random_next(&w->state) >> 8);
    int64_t was = -1;

    MPI_Fetch_and_op(&token, &was, MPI_INT64_T, target, PLACE(token), MPI_REPLACE, win);
    MPI_Win_flush(target, win);
    d->tokens_in += token;
    d->tokens_out += was;
}

static void count_up(done_t *d, int target)
{
    for (int bits = 32; bits <= 64; bits += 32) {
        const MPI_Aint at = bits == 64 ? PLACE(count64) : PLACE(count32);
        int64_t guess = 0, was;

        while ((was = swap_if(target, bits, at, guess, guess + 1)) != guess) {
            guess = was;
        }
    }
    d->counts++;
}

static void *work(void *argument)
{
    worker_t *w = argument;

    for (int i = 0; w->until > 0 ? seconds_now() < w->until : i < w->rounds; i++) {
        const int target = (int) random_below(&w->state, (uint64_t) size);
        done_t *d = &w->done[target];

        switch (random_below(&w->state, 5)) {
        case 0:
            draw_tickets(d, target);
            break;
        case 1:
            draw_lanes(d, target, 1 + (int) random_below(&w->state, LANES));
            break;
        case 2:
            swap_tokens(w, d, target);
            break;
        case 3:
            count_up(d, target);
            break;
        default:
            if (!d->claimed) {
                claim_all(w, d, target);
            }
            break;
        }
    }
    return NULL;
}

/* ---- the proof ---- */

/* The sum over all ranks and workers of one number about `target`. */
static int64_t sum_all(const worker_t *workers, int count, int target, size_t place)
{
    int64_t sum = 0, value;

    for (int i = 0; i < count; i++) {
        memcpy(&value, (const char *) &workers[i].done[target] + place, sizeof(value));
        sum += value;
    }
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

static void expect(const char *what, int target, int64_t is, int64_t should_be)
{
    if (is != should_be) {
        fail("%s of %d: %lld, expected %lld", what, target, (long long) is, (long long) should_be);
    }
}

static void check_claims(const worker_t *workers, int count, int target, const words_t *words)
{
    for (int i = 0; i < count; i++) {
        const done_t *d = &workers[i].done[target];

        for (int c = 0; d->claimed && c < CLAIMS; c++) {
            expect("claim", target, d->seen64[c], words->claims64[c]);
            expect("32-bit claim", target, d->seen32[c], words->claims32[c]);
        }
    }
}

static void check(const worker_t *workers, int count, int target)
{
#define SUM(field) sum_all(workers, count, target, offsetof(done_t, field))
    const int64_t tickets = SUM(tickets), drawn = SUM(ticket_sum), counts = SUM(counts);
    const int64_t in = SUM(tokens_in), out = SUM(tokens_out), adds = SUM(lane_adds);
    words_t words = rank == target ? *own : (words_t){0};
    int64_t lanes = 0;

    MPI_Bcast(&words, (int) sizeof(words), MPI_BYTE, target, MPI_COMM_WORLD);
    expect("tickets", target, words.tickets64, tickets);
    expect("32-bit tickets", target, words.tickets32, tickets);
    expect("sum of tickets", target, drawn, tickets * (tickets - 1));
    expect("tokens", target, out + words.token, in);
    expect("increments", target, words.count64, counts);
    expect("32-bit increments", target, words.count32, counts);
    for (int i = 0; i < LANES; i++) {
        lanes += words.lanes[i];
        expect("sum of a lane", target, SUM(lane_sum[i]),
               words.lanes[i] * (words.lanes[i] - 1) / 2);
    }
    expect("lanes", target, lanes, adds);
    check_claims(workers, count, target, &words);
#undef SUM
}

static void start_mpi(int *argc, char ***argv, int threads)
{
    int provided;

    if (threads == 0) {
        begin(argc, argv, "atomics");
        return;
    }
    program = "atomics";
    MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    started = seconds_now();
    if (provided < MPI_THREAD_MULTIPLE || threads > THREADS) {
        fail("%d threads are not possible", threads);
    }
}

static void make_window(const char *flavor)
{
    const MPI_Aint bytes = (MPI_Aint) sizeof(*own);

    if (strcmp(flavor, "allocate") == 0) {
        MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &win);
    } else {
        own = get_memory(sizeof(*own));
        MPI_Win_create(own, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    }
    memset(own, 0, sizeof(*own));
    MPI_Barrier(MPI_COMM_WORLD);
}

static void prepare(worker_t *w, int number, int count, uint64_t seed)
{
    w->name = 1 + (int64_t) rank * count + number;
    w->state = seed ^ (uint64_t) w->name << 32;
    w->done = get_memory(sizeof(*w->done) * (size_t) size);
    memset(w->done, 0, sizeof(*w->done) * (size_t) size);
    for (int target = 0; target < size; target++) {
        done_t *d = &w->done[target];

        d->last64 = d->last32 = -1;
        for (int i = 0; i < LANES; i++) {
            d->lane_last[i] = -1;
        }
    }
}

static void work_all(worker_t *workers, int threads)
{
    if (threads == 0) {
        work(&workers[0]);
    }
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            fail("cannot start a thread");
        }
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
    }
}

/* Called by all ranks after the last operation. */
static void check_all(const worker_t *workers, int count)
{
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    for (int target = 0; target < size; target++) {
        check(workers, count, target);
    }
    MPI_Win_unlock(rank, win);
}

int main(int argc, char **argv)
{
    const int threads = (int) arg(argc, argv, "threads", 0);
    const int count = threads > 0 ? threads : 1;
    const double seconds = arg(argc, argv, "seconds", 0);
    const char *flavor = arg_text(argc, argv, "window", "create");
    worker_t workers[THREADS];

    start_mpi(&argc, &argv, threads);
    make_window(flavor);
    for (int i = 0; i < count; i++) {
        prepare(&workers[i], i, count, (uint64_t) arg(argc, argv, "seed", 1));
        workers[i].rounds = (int) arg(argc, argv, "rounds", 40);
        workers[i].until = seconds > 0 ? seconds_now() + seconds : 0;
    }
    MPI_Win_lock_all(0, win);
    if (seconds > 0 && rank == 0) {
        printf("atomics: going\n");
        fflush(stdout);
    }
    work_all(workers, threads);
    MPI_Win_unlock_all(win);
    check_all(workers, count);
    for (int i = 0; i < count; i++) {
        free(workers[i].done);
    }
    MPI_Win_free(&win);
    if (strcmp(flavor, "allocate") != 0) {
        free(own);
    }
    finish();
    return 0;
}
