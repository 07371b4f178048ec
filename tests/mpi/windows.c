/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Windows of each kind, and which of Open MPI's components makes them: a put and a sum reach the
 * next rank.
 * by=NAME: the component of those for all ranks (any); usual: what ib wants to be used where all
 * are there; dynamic=0: 1: also a window to which memory is attached; threads=0: 1: with
 * MPI_THREAD_MULTIPLE
 */

#include "common.h"

#define PLACES 8

static const char *by;

/* osc/rdma and osc/pt2pt name a window after themselves. */
static void check_component(MPI_Win win)
{
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;

    MPI_Win_get_name(win, name, &length);
    if (by != NULL && strncmp(name, by, strlen(by)) != 0) {
        fail("the window is \"%s\", not of osc/%s", name, by);
    }
}

/* The window of the next rank begins at `base` there. */
static void use(MPI_Win win, MPI_Aint base, MPI_Aint unit, const int64_t *mine)
{
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    int64_t number = 100 + rank, one = 1, before = -1;

    MPI_Win_lock_all(0, win);
    MPI_Put(&number, 1, MPI_INT64_T, next, base + unit, 1, MPI_INT64_T, win);
    MPI_Fetch_and_op(&one, &before, MPI_INT64_T, next, base + 2 * unit, MPI_SUM, win);
    MPI_Win_flush_all(win);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (mine[1] != 100 + previous || mine[2] != 1 || before != 0) {
        fail("%lld was put and %lld added, before which there was %lld", (long long) mine[1],
             (long long) mine[2], (long long) before);
    }
}

static void create(int64_t *memory)
{
    MPI_Win win;

    memset(memory, 0, PLACES * sizeof(int64_t));
    MPI_Win_create(memory, PLACES * sizeof(int64_t), sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD,
                   &win);
    check_component(win);
    use(win, 0, 1, memory);
    MPI_Win_free(&win);
}

static void allocate(void)
{
    int64_t *memory;
    MPI_Win win;

    MPI_Win_allocate(PLACES * sizeof(int64_t), sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD,
                     &memory, &win);
    memset(memory, 0, PLACES * sizeof(int64_t));
    MPI_Barrier(MPI_COMM_WORLD);
    use(win, 0, 1, memory);
    MPI_Win_free(&win);
}

static void allocate_shared(void)
{
    MPI_Comm host;
    int64_t *memory;
    MPI_Win win;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Win_allocate_shared(sizeof(int64_t), sizeof(int64_t), MPI_INFO_NULL, host, &memory, &win);
    *memory = rank;
    MPI_Win_free(&win);
    MPI_Comm_free(&host);
}

static void dynamic(int64_t *memory)
{
    MPI_Aint *bases = get_memory((size_t) size * sizeof(MPI_Aint));
    MPI_Aint base;
    MPI_Win win;

    memset(memory, 0, PLACES * sizeof(int64_t));
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, memory, PLACES * sizeof(int64_t));
    MPI_Get_address(memory, &base);
    MPI_Allgather(&base, 1, MPI_AINT, bases, 1, MPI_AINT, MPI_COMM_WORLD);
    use(win, bases[(rank + 1) % size], sizeof(int64_t), memory);
    MPI_Win_detach(win, memory);
    MPI_Win_free(&win);
    free(bases);
}

static void start_mpi(int *argc, char ***argv)
{
    int provided;

    if (arg(*argc, *argv, "threads", 0) == 0) {
        begin(argc, argv, "windows");
        return;
    }
    program = "windows";
    MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    started = seconds_now();
}

int main(int argc, char **argv)
{
    start_mpi(&argc, &argv);
    int64_t *memory = get_memory(PLACES * sizeof(int64_t));

    by = arg_text(argc, argv, "by", NULL);
    if (by != NULL && strcmp(by, "usual") == 0) {
        by = OMPI_MAJOR_VERSION < 5 ? "pt2pt" : "rdma";
    }
    create(memory);
    allocate();
    allocate_shared();
    if (arg(argc, argv, "dynamic", 0) != 0) {
        dynamic(memory);
    }
    free(memory);
    finish();
    return 0;
}
