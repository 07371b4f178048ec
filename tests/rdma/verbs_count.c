/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Counts the verbs calls of a process: a library for LD_PRELOAD. What the time of a call is on real
 * hardware no virtual machine can tell, but how many there are for a message it can.
 *
 * ibv_post_send(), ibv_poll_cq() and their like are inline functions, which call through a table in
 * the context of the device. ibv_open_device() here stands before the one of libibverbs, and puts
 * counting functions into that table. At the end of the process a line "name number" for each count
 * is written to the file $BTL_IB_VERBS_COUNT.<rank in MPI_COMM_WORLD>. The extended calls
 * (ibv_wr_start() and so on, ibv_start_poll()) are not counted: btl_ib uses none.
 *
 * A post is one doorbell, however many requests are in its list.
 */

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

/* X(name): all of them, in the order of writing. */
#define COUNTS(X)                                                                                  \
    X(send_posts)                                                                                  \
    X(send_requests)                                                                               \
    X(send_inline)                                                                                 \
    X(send_signaled)                                                                               \
    X(send_rdma)                                                                                   \
    X(receive_posts)                                                                               \
    X(receive_requests)                                                                            \
    X(polls)                                                                                       \
    X(polls_useful)                                                                                \
    X(completions)                                                                                 \
    X(notify_requests)

#define MEMBER(name) atomic_ulong name;
static struct {
    COUNTS(MEMBER)
} counts;

static atomic_bool counting;

/* number >= 0 */
#define ADD(name, number)                                                                          \
    atomic_fetch_add_explicit(&counts.name, counting ? (unsigned long) (number) : 0,               \
                              memory_order_relaxed)

/* What was in the table of a context before. Never removed: contexts are few, and one may come
 * again. */
typedef struct known {
    struct known *next;
    struct ibv_context *context;
    struct ibv_context_ops ops;
} known_t;

static known_t *_Atomic known;
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;

static known_t *find(struct ibv_context *context)
{
    known_t *k = atomic_load_explicit(&known, memory_order_acquire);

    while (k != NULL && k->context != context) {
        k = k->next;
    }
    return k;
}

static int count_post_send(struct ibv_qp *qp, struct ibv_send_wr *list, struct ibv_send_wr **bad)
{
    ADD(send_posts, 1);
    for (struct ibv_send_wr *wr = list; wr != NULL; wr = wr->next) {
        ADD(send_requests, 1);
        ADD(send_inline, wr->send_flags & IBV_SEND_INLINE ? 1 : 0);
        ADD(send_signaled, wr->send_flags & IBV_SEND_SIGNALED ? 1 : 0);
        ADD(send_rdma, wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM ? 1 : 0);
    }
    return find(qp->context)->ops.post_send(qp, list, bad);
}

static void count_receives(const struct ibv_recv_wr *list)
{
    ADD(receive_posts, 1);
    for (; list != NULL; list = list->next) {
        ADD(receive_requests, 1);
    }
}

static int count_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *list, struct ibv_recv_wr **bad)
{
    count_receives(list);
    return find(qp->context)->ops.post_recv(qp, list, bad);
}

static int count_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *list,
                               struct ibv_recv_wr **bad)
{
    count_receives(list);
    return find(srq->context)->ops.post_srq_recv(srq, list, bad);
}

static int count_poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
    int n = find(cq->context)->ops.poll_cq(cq, max, wc);

    ADD(polls, 1);
    ADD(polls_useful, n > 0 ? 1 : 0);
    ADD(completions, n > 0 ? n : 0);
    return n;
}

static int count_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    ADD(notify_requests, 1);
    return find(cq->context)->ops.req_notify_cq(cq, solicited_only);
}

static void watch(struct ibv_context *context)
{
    pthread_mutex_lock(&known_lock);
    known_t *k = find(context);
    if (k == NULL) {
        k = calloc(1, sizeof(*k));
        if (k == NULL) {
            abort();
        }
        k->context = context;
        k->ops = context->ops;
        k->next = atomic_load(&known);
        atomic_store_explicit(&known, k, memory_order_release);
    } else {
        k->ops = context->ops;
    }
    context->ops.post_send = count_post_send;
    context->ops.post_recv = count_post_recv;
    context->ops.post_srq_recv = count_post_srq_recv;
    context->ops.poll_cq = count_poll_cq;
    context->ops.req_notify_cq = count_req_notify_cq;
    pthread_mutex_unlock(&known_lock);
}

__attribute__((visibility("default"))) struct ibv_context *
ibv_open_device(struct ibv_device *device)
{
    struct ibv_context *(*next)(struct ibv_device *) = NULL;
    void *library =
        dlopen("libibverbs.so.1", RTLD_NOW); /* RTLD_NEXT does not see what a plugin needs */

    /* As POSIX wants it: a function pointer out of a data pointer. */
    *(void **) &next = library != NULL ? dlsym(library, "ibv_open_device") : NULL;
    if (next == NULL) {
        abort();
    }
    struct ibv_context *context = next(device);
    if (context != NULL) {
        watch(context);
    }
    return context;
}

/* Who wants something counted finds this by its name: begins (1) or ends (0) counting. */
__attribute__((visibility("default"))) void btl_ib_verbs_count(int on);
void btl_ib_verbs_count(int on)
{
    counting = on != 0;
}

__attribute__((destructor)) static void write_counts(void)
{
    const char *name = getenv("BTL_IB_VERBS_COUNT");
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    char path[4096];

    if (name == NULL || rank == NULL || atomic_load(&known) == NULL) {
        return;
    }
    snprintf(path, sizeof(path), "%s.%s", name, rank);
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        perror(path);
        return;
    }
#define WRITE(what) fprintf(file, #what " %lu\n", atomic_load(&counts.what));
    COUNTS(WRITE)
    fclose(file);
}
