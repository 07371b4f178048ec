/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * One rank kills itself, and the others go on without it (ULFM, Open MPI 5.0 and later: mpirun
 * --with-ft ulfm): what they send to it and await of it fails with MPI_ERR_PROC_FAILED in time;
 * then they make a communicator of those that are left, use it for long and short messages, and
 * end as usual.
 * victim=R (the last rank); rounds=N (200)
 */

#include "common.h"

#include <signal.h>

#include <mpi-ext.h>

#ifdef OMPI_HAVE_MPI_EXT_FTMPI

#define LONG_BYTES (1 << 20)
#define PATIENCE   20.0 /* seconds */

static bool is_failure(int rc)
{
    int class;

    MPI_Error_class(rc, &class);
    return class == MPIX_ERR_PROC_FAILED;
}

/* Until that fails: who is dead is not known at once. */
static void send_until_failure(int victim)
{
    static char data[100];
    const double end = seconds_now() + PATIENCE;
    const struct timespec pause = {0, 1000000};
    int rc;

    while ((rc = MPI_Send(data, sizeof(data), MPI_BYTE, victim, 1, MPI_COMM_WORLD))
           == MPI_SUCCESS) {
        if (seconds_now() > end) {
            fail("rank %d is dead, and sends to it go well for %.0f s", victim, PATIENCE);
        }
        nanosleep(&pause, NULL);
    }
    if (!is_failure(rc)) {
        fail("a send to rank %d, which is dead: error %d", victim, rc);
    }
}

static void receive_failure(int victim)
{
    char data[100];
    const int rc =
        MPI_Recv(data, sizeof(data), MPI_BYTE, victim, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);

    if (rc == MPI_SUCCESS || !is_failure(rc)) {
        fail("a message of rank %d, which is dead: error %d", victim, rc);
    }
}

/* Round a ring, and by all to all. */
static void go_on(MPI_Comm left, int rounds)
{
    unsigned char *out = get_memory(LONG_BYTES);
    unsigned char *in = get_memory(LONG_BYTES);
    int own;
    int count;

    MPI_Comm_rank(left, &own);
    MPI_Comm_size(left, &count);
    if (size - 1 != count) {
        fail("%d of %d ranks are left", count, size);
    }
    for (int i = 0; i < rounds; i++) {
        const int bytes = i % 10 == 0 ? LONG_BYTES : 8 * i;
        const int from = (own + count - 1) % count;
        int sum = 0;

        pattern_fill(out, (size_t) bytes, (uint64_t) own << 32 | (uint64_t) i);
        MPI_Sendrecv(out, bytes, MPI_BYTE, (own + 1) % count, 3, in, bytes, MPI_BYTE, from, 3, left,
                     MPI_STATUS_IGNORE);
        pattern_check(in, (size_t) bytes, (uint64_t) from << 32 | (uint64_t) i, "ring of the rest");
        MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, left);
        if (count * (count - 1) / 2 != sum) {
            fail("sum %d of the ranks that are left", sum);
        }
    }
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    MPI_Comm left;

    begin(&argc, &argv, "recovers");
    need_ranks(3);
    const int victim = (int) arg(argc, argv, "victim", size - 1);
    const int rounds = (int) arg(argc, argv, "rounds", 200);

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == victim) {
        raise(SIGKILL);
    }
    if (rank % 2 == 0) {
        send_until_failure(victim);
    }
    receive_failure(victim);
    MPIX_Comm_failure_ack(MPI_COMM_WORLD);
    if (MPIX_Comm_shrink(MPI_COMM_WORLD, &left) != MPI_SUCCESS) {
        fail("no communicator of those that are left");
    }
    go_on(left, rounds);
    MPI_Barrier(left);
    if (rank == 0) {
        printf("OK recovers (%d of %d ranks are left)\n", size - 1, size);
        fflush(stdout);
    }
    MPI_Comm_free(&left);
    MPI_Finalize();
    return 0;
}

#else

int main(int argc, char **argv)
{
    begin(&argc, &argv, "recovers");
    fail("this Open MPI has no ULFM");
}

#endif
