/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A rank that hardly gets a processor is not away: the last one shares its processor with a process
 * that always computes and has nearly all of it (nice(1)), and exchanges messages with rank 0 for
 * two seconds. Its progress thread, which is as important as that process, may not do its work
 * instead: where all ranks of a host wait for a processor it would cost them more than it helps.
 * There is a window, so that its thread is always needed.
 * seconds=2; turns=10: those of the thread, at most
 */

#include "component.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Let this thread run only where another process of ours computes. Returns that. */
static pid_t squeeze(void)
{
    const int cpu = sched_getcpu();
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu < 0 ? 0 : cpu, &set);
    const pid_t other = fork();
    if (other == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sched_setaffinity(0, sizeof(set), &set);
        for (;;) {
        }
    }
    if (other < 0 || sched_setaffinity(0, sizeof(set), &set) != 0
        || setpriority(PRIO_PROCESS, (id_t) syscall(SYS_gettid), 19) != 0) {
        fail("no process to compete with, or not on one processor");
    }
    return other;
}

static void exchange_until(double end)
{
    int go = 1;

    while (go) {
        if (rank == 0) {
            go = seconds_now() < end;
        }
        there_and_back(0, size - 1, &go, sizeof(go), 0);
    }
}

int main(int argc, char **argv)
{
    static char memory[64];
    MPI_Win win;

    begin(&argc, &argv, "squeezed");
    need_ranks(2);
    MPI_Win_create(memory, sizeof(memory), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_lock_all(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) {
        const btl_ib_counters_t *count = &find_component()->engine->count;
        const pid_t other = squeeze();
        const uint64_t before = count->async_turns;
        exchange_until(0);
        const uint64_t turns = count->async_turns - before;
        kill(other, SIGKILL);
        waitpid(other, NULL, 0);
        printf("squeezed: %lu turns of the thread\n", (unsigned long) turns);
        if (turns > (uint64_t) arg(argc, argv, "turns", 10)) {
            fail("its thread took %lu turns while it waited for a processor",
                 (unsigned long) turns);
        }
    } else if (rank == 0) {
        exchange_until(seconds_now() + (double) arg(argc, argv, "seconds", 2));
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    finish();
    return 0;
}
