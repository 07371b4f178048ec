/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Processes come and go: all ranks spawn two and part from them, and both halves of the ranks
 * connect by a port and part, again and again. After a tenth of it descriptors and UDP ports of the
 * host may not grow any more, and connections only by those with spawned processes: Open MPI never
 * deletes these. times=N (50); grow=N (200): KiB of memory that a time may leave behind, in each
 * process, most of it Open MPI's; 4 MiB more, as it may have been taken for anything
 */

#include "component.h"
#include "processes.h"

enum {
    CHILDREN = 2,
    BYTES = 100000,
    SPARE = 2, /* descriptors and ports that others may have just now */
    SPARE_KIB = 4096,
    SHORT_MESSAGES = 600,
    LOOKS = 100, /* in 10 s: the children from which it parted last may still be ending */
};

/* What a process holds. */
typedef struct held {
    long descriptors, ports, kib, connections;
} held_t;

static long count_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    long count = 0;

    for (int c; file != NULL && (c = fgetc(file)) != EOF;) {
        count += c == '\n';
    }
    if (file != NULL) {
        fclose(file);
    }
    return count;
}

static bool has_ib(void)
{
    mca_btl_base_selected_module_t *item;

    OPAL_LIST_FOREACH(item, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
    {
        if (strcmp("ib", item->btl_component->btl_version.mca_component_name) == 0) {
            return true;
        }
    }
    return false;
}

static held_t look(void)
{
    held_t held = {
        .descriptors = count_descriptors(),
        .ports = count_lines("/proc/net/udp") + count_lines("/proc/net/udp6"),
        .kib = resident_kib(),
    };

    if (has_ib()) {
        held.connections = find_component()->engine->deferred_free.conns;
    }
    return held;
}

/* What is held once those that are about to end have ended. */
static held_t look_later(const held_t *then)
{
    held_t now = look();

    for (int i = 1; i < LOOKS && now.ports > then->ports + SPARE; i++) {
        usleep(10000000 / LOOKS);
        now = look();
    }
    return now;
}

/*
 * A process connects a socket to each of the first peers that were sent 512 short messages, and
 * keeps it (docs/transports.md). All that is made so is made before anything is counted.
 */
static void chat(void)
{
    int out = rank, in = -1;

    for (int i = 0; i < SHORT_MESSAGES; i++) {
        for (int by = 1; by < size; by++) {
            const int to = (rank + by) % size, from = (rank + size - by) % size;
            MPI_Sendrecv(&out, 1, MPI_INT, to, 2, &in, 1, MPI_INT, from, 2, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            if (in != from) {
                fail("a short message of rank %d said %d", from, in);
            }
        }
    }
}

/* Each of this group with each of the other one, all at once. */
static void exchange(MPI_Comm with, int round)
{
    int others, self;
    MPI_Request requests[16];
    unsigned char *out = get_memory(BYTES), *in = get_memory((size_t) 8 * BYTES);

    MPI_Comm_rank(with, &self);
    MPI_Comm_remote_size(with, &others);
    if (others > 8) {
        fail("at most 8 ranks");
    }
    pattern_fill(out, BYTES, (uint64_t) self);
    for (int i = 0; i < others; i++) {
        MPI_Irecv(in + (size_t) i * BYTES, BYTES, MPI_BYTE, i, 1, with, &requests[2 * i]);
        MPI_Isend(out, BYTES, MPI_BYTE, i, 1, with, &requests[2 * i + 1]);
    }
    MPI_Waitall(2 * others, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < others; i++) {
        pattern_check(in + (size_t) i * BYTES, BYTES, (uint64_t) i, "exchange");
    }
    free(out);
    free(in);
    (void) round;
}

static void spawn(char *self)
{
    MPI_Comm children;

    MPI_Comm_spawn(self, MPI_ARGV_NULL, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                   MPI_ERRCODES_IGNORE);
    exchange(children, 0);
    MPI_Comm_disconnect(&children);
}

static void check(const held_t *then, const held_t *now, int times, int grow)
{
    const long kib = now->kib - then->kib;

    printf("dynamic: rank %d: %d times: %ld descriptors then, %ld now; ports %ld, %ld; connections "
           "%ld, %ld; KiB %ld, %ld\n",
           rank, times, then->descriptors, now->descriptors, then->ports, now->ports,
           then->connections, now->connections, then->kib, now->kib);
    fflush(stdout);
    if (now->descriptors > then->descriptors + SPARE || now->ports > then->ports + SPARE) {
        fail("%ld descriptors and %ld ports of UDP became %ld and %ld", then->descriptors,
             then->ports, now->descriptors, now->ports);
    }
    if (now->connections > then->connections + (long) times * CHILDREN) {
        fail("%ld connections became %ld in %d times", then->connections, now->connections, times);
    }
    if (kib > (long) times * grow + SPARE_KIB) {
        fail("memory grew by %ld KiB in %d times", kib, times);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm parent, half;
    held_t then = {0};

    begin(&argc, &argv, "dynamic");
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        program = "dynamic (child)";
        exchange(parent, 0);
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    need_ranks(2);
    const int times = (int) arg(argc, argv, "times", 50);
    const int warm = times / 10 + 3;
    MPI_Comm_split(MPI_COMM_WORLD, rank < size / 2, rank, &half);
    chat();
    for (int i = 0; i < times + warm; i++) {
        if (i == warm) {
            then = look();
        }
        spawn(argv[0]);
        connect_halves(half, exchange, i);
    }
    const held_t now = look_later(&then);
    MPI_Barrier(MPI_COMM_WORLD);
    check(&then, &now, times, (int) arg(argc, argv, "grow", 200));
    MPI_Comm_free(&half);
    finish();
    return 0;
}
