/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A library for LD_PRELOAD with which RDMA devices refuse calls of libibverbs and librdmacm, as a
 * driver, a limit or a container does: for tests/rdma/refused.
 *
 * REFUSE_VERBS=CALL/ERRNO/FIRST/COUNT: CALL fails with ERRNO, a number, from its call FIRST of this
 * process on (1: from the first on), COUNT times (0: each later one, too).
 * REFUSE_VERBS_RANK=N: only in rank N of MPI_COMM_WORLD.
 * REFUSE_VERBS_SAYS=FILE: each process in which the call was refused adds a line.
 *
 * What libibverbs does inline goes by a table of each context, of which we change entries when the
 * device is opened.
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#undef ibv_query_port
#undef ibv_reg_mr

static struct {
    pthread_mutex_t mutex;
    char call[64];
    int error;
    long first, count, seen;
    bool refused;
} state = {.mutex = PTHREAD_MUTEX_INITIALIZER};

__attribute__((constructor)) static void read_rule(void)
{
    const char *rule = getenv("REFUSE_VERBS");
    const char *wanted = getenv("REFUSE_VERBS_RANK");
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");

    if (rule != NULL && (wanted == NULL || (rank != NULL && strcmp(wanted, rank) == 0))
        && sscanf(rule, "%63[^/]/%d/%ld/%ld", state.call, &state.error, &state.first, &state.count)
               != 4) {
        fprintf(stderr, "verbs_refuse: bad rule: %s\n", rule);
        abort();
    }
}

static void say_refused(void)
{
    const char *path = getenv("REFUSE_VERBS_SAYS");
    const int fd = path == NULL ? -1 : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    if (path != NULL && (fd < 0 || write(fd, "refused\n", 8) != 8)) {
        fprintf(stderr, "verbs_refuse: cannot write %s\n", path);
    }
    if (fd >= 0) {
        close(fd);
    }
}

/* Returns the errno with which a call is refused, or 0. */
static int refuse(const char *call)
{
    int error = 0;

    pthread_mutex_lock(&state.mutex);
    if (strcmp(state.call, call) == 0) {
        const long number = ++state.seen;
        if (number >= state.first && (state.count == 0 || number < state.first + state.count)) {
            error = state.error;
            if (!state.refused) {
                state.refused = true;
                say_refused();
            }
        }
    }
    pthread_mutex_unlock(&state.mutex);
    return error;
}

/* Returns what the library has by that name: RTLD_NEXT does not see what a plugin loads. */
static void *next_of(const char *name)
{
    void *library =
        dlopen(strncmp(name, "rdma_", 5) == 0 ? "librdmacm.so.1" : "libibverbs.so.1", RTLD_NOW);
    void *next = library != NULL ? dlsym(library, name) : NULL;

    if (next == NULL) {
        fprintf(stderr, "verbs_refuse: no function %s\n", name);
        abort();
    }
    return next;
}

/* Makes a call that stands before the library's. If it is refused errno is set, and it returns
 * `failed`, in which `error` is the errno. */
#define STAND_IN(type, name, parameters, arguments, failed)                                        \
    __attribute__((visibility("default"))) type name parameters                                    \
    {                                                                                              \
        type(*next) parameters;                                                                    \
        const int error = refuse(#name);                                                           \
        if (error != 0) {                                                                          \
            errno = error;                                                                         \
            return (failed);                                                                       \
        }                                                                                          \
        *(void **) &next = next_of(#name);                                                         \
        return next arguments;                                                                     \
    }

/* ---- libibverbs ---- */

STAND_IN(struct ibv_device **, ibv_get_device_list, (int *count), (count), NULL)
STAND_IN(int, ibv_fork_init, (void), (), error)
STAND_IN(int, ibv_query_device, (struct ibv_context * context, struct ibv_device_attr *attr),
         (context, attr), error)
STAND_IN(ssize_t, _ibv_query_gid_table,
         (struct ibv_context * context, struct ibv_gid_entry *entries, size_t most, uint32_t flags,
          size_t size),
         (context, entries, most, flags, size), -error)
STAND_IN(int, ibv_query_gid,
         (struct ibv_context * context, uint8_t port, int index, union ibv_gid *gid),
         (context, port, index, gid), -1)
STAND_IN(int, ibv_query_pkey, (struct ibv_context * context, uint8_t port, int index, __be16 *pkey),
         (context, port, index, pkey), -1)
STAND_IN(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context * context), (context), NULL)
STAND_IN(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd * pd, void *at, size_t size, int access),
         (pd, at, size, access), NULL)
STAND_IN(struct ibv_mr *, ibv_reg_mr_iova2,
         (struct ibv_pd * pd, void *at, size_t size, uint64_t iova, unsigned access),
         (pd, at, size, iova, access), NULL)
STAND_IN(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context * context),
         (context), NULL)
STAND_IN(struct ibv_cq *, ibv_create_cq,
         (struct ibv_context * context, int entries, void *of, struct ibv_comp_channel *channel,
          int vector),
         (context, entries, of, channel, vector), NULL)
STAND_IN(struct ibv_srq *, ibv_create_srq, (struct ibv_pd * pd, struct ibv_srq_init_attr *attr),
         (pd, attr), NULL)
STAND_IN(int, ibv_modify_srq, (struct ibv_srq * srq, struct ibv_srq_attr *attr, int mask),
         (srq, attr, mask), error)
STAND_IN(struct ibv_qp *, ibv_create_qp, (struct ibv_pd * pd, struct ibv_qp_init_attr *attr),
         (pd, attr), NULL)
STAND_IN(int, ibv_modify_qp, (struct ibv_qp * qp, struct ibv_qp_attr *attr, int mask),
         (qp, attr, mask), error)
STAND_IN(struct ibv_ah *, ibv_create_ah, (struct ibv_pd * pd, struct ibv_ah_attr *attr), (pd, attr),
         NULL)

/* ---- what is inline ---- */

static struct {
    int (*query_port)(struct ibv_context *, uint8_t, struct ibv_port_attr *, size_t);
    int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
    int (*post_recv)(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);
    int (*post_srq_recv)(struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr **);
    int (*poll_cq)(struct ibv_cq *, int, struct ibv_wc *);
    int (*req_notify_cq)(struct ibv_cq *, int);
} device; /* all devices of a guest have the same driver */

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                      size_t size)
{
    const int error = refuse("ibv_query_port");

    return error != 0 ? error : device.query_port(context, port, attr, size);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    const int error = refuse("ibv_post_send");

    *bad = wr;
    return error != 0 ? error : device.post_send(qp, wr, bad);
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    const int error = refuse("ibv_post_recv");

    *bad = wr;
    return error != 0 ? error : device.post_recv(qp, wr, bad);
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    const int error = refuse("ibv_post_srq_recv");

    *bad = wr;
    return error != 0 ? error : device.post_srq_recv(srq, wr, bad);
}

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    const int error = refuse("ibv_poll_cq");

    return error != 0 ? -error : device.poll_cq(cq, count, wc);
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    const int error = refuse("ibv_req_notify_cq");

    return error != 0 ? error : device.req_notify_cq(cq, solicited_only);
}

__attribute__((visibility("default"))) struct ibv_context *ibv_open_device(struct ibv_device *which)
{
    struct ibv_context *(*next)(struct ibv_device *);
    const int error = refuse("ibv_open_device");

    if (error != 0) {
        errno = error;
        return NULL;
    }
    *(void **) &next = next_of("ibv_open_device");
    struct ibv_context *context = next(which);
    if (context != NULL) {
        struct verbs_context *verbs = verbs_get_ctx(context);
        device.query_port = verbs->query_port;
        verbs->query_port = query_port;
        device.post_send = context->ops.post_send;
        context->ops.post_send = post_send;
        device.post_recv = context->ops.post_recv;
        context->ops.post_recv = post_recv;
        device.post_srq_recv = context->ops.post_srq_recv;
        context->ops.post_srq_recv = post_srq_recv;
        device.poll_cq = context->ops.poll_cq;
        context->ops.poll_cq = poll_cq;
        device.req_notify_cq = context->ops.req_notify_cq;
        context->ops.req_notify_cq = req_notify_cq;
    }
    return context;
}

/* ---- librdmacm ---- */

STAND_IN(struct rdma_event_channel *, rdma_create_event_channel, (void), (), NULL)
STAND_IN(int, rdma_create_id,
         (struct rdma_event_channel * channel, struct rdma_cm_id **id, void *context,
          enum rdma_port_space space),
         (channel, id, context, space), -1)
STAND_IN(int, rdma_bind_addr, (struct rdma_cm_id * id, struct sockaddr *address), (id, address), -1)
STAND_IN(int, rdma_listen, (struct rdma_cm_id * id, int backlog), (id, backlog), -1)
STAND_IN(int, rdma_resolve_addr,
         (struct rdma_cm_id * id, struct sockaddr *from, struct sockaddr *to, int most),
         (id, from, to, most), -1)
STAND_IN(int, rdma_resolve_route, (struct rdma_cm_id * id, int most), (id, most), -1)
STAND_IN(int, rdma_set_option,
         (struct rdma_cm_id * id, int level, int name, void *value, size_t size),
         (id, level, name, value, size), -1)
STAND_IN(int, rdma_create_qp,
         (struct rdma_cm_id * id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr), (id, pd, attr),
         -1)
STAND_IN(int, rdma_init_qp_attr, (struct rdma_cm_id * id, struct ibv_qp_attr *attr, int *mask),
         (id, attr, mask), -1)
STAND_IN(int, rdma_connect, (struct rdma_cm_id * id, struct rdma_conn_param *parameters),
         (id, parameters), -1)
STAND_IN(int, rdma_accept, (struct rdma_cm_id * id, struct rdma_conn_param *parameters),
         (id, parameters), -1)
STAND_IN(int, rdma_establish, (struct rdma_cm_id * id), (id), -1)
STAND_IN(int, rdma_get_cm_event,
         (struct rdma_event_channel * channel, struct rdma_cm_event **event), (channel, event), -1)
