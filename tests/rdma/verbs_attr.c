/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Writes down what the device says of the queues that a process used: a library for LD_PRELOAD.
 * Before a queue pair is destroyed it is asked for its attributes (ibv_query_qp()); the process
 * itself is not asked. A line "NAME key value key value..." for each goes to the file
 * $BTL_IB_VERBS_ATTR.<rank in MPI_COMM_WORLD>; those of queue pairs begin with "ud", "rc" or
 * "rc-shared" (its receive buffers are those of an SRQ), those of completion queues with "cq", and
 * what ibv_modify_qp() was asked for with "asked".
 *
 * * With $BTL_IB_VERBS_MR_MAX the device registers no more than so many bytes at once, as some do.
 */

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

/* What comes after us by that name. */
static void *next_of(const char *name)
{
    void *library =
        dlopen("libibverbs.so.1", RTLD_NOW); /* RTLD_NEXT does not see what a plugin needs */
    void *next = library != NULL ? dlsym(library, name) : NULL;

    if (next == NULL) {
        abort();
    }
    return next;
}

__attribute__((format(printf, 1, 2))) static void write_line(const char *format, ...)
{
    const char *name = getenv("BTL_IB_VERBS_ATTR");
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    char path[4096];
    va_list args;

    if (name == NULL || rank == NULL) {
        return;
    }
    snprintf(path, sizeof(path), "%s.%s", name, rank);
    FILE *file = fopen(path, "a");
    if (file == NULL) {
        perror(path);
        return;
    }
    va_start(args, format);
    vfprintf(file, format, args);
    va_end(args);
    fclose(file);
}

static void write_qp(struct ibv_qp *qp)
{
    /* By name, as the others: a library that is linked to none would get the oldest version. */
    int (*query)(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *);
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    const int all = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT
                    | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER
                    | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_CAP;

    *(void **) &query = next_of("ibv_query_qp");
    if (query(qp, &attr, all, &init) != 0 || attr.qp_state < IBV_QPS_RTS) {
        return; /* it was never used */
    }
    write_line("%s sends %u receives %u inline %u timeout %u retry %u rnr_retry %u rnr_timer %u "
               "reads %u served %u mtu %d level %u class %u pkey %u gid %u\n",
               qp->qp_type == IBV_QPT_UD ? "ud"
               : qp->srq != NULL         ? "rc-shared"
                                         : "rc",
               attr.cap.max_send_wr, attr.cap.max_recv_wr, attr.cap.max_inline_data, attr.timeout,
               attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer, attr.max_rd_atomic,
               attr.max_dest_rd_atomic, 128 << attr.path_mtu, attr.ah_attr.sl,
               attr.ah_attr.grh.traffic_class, attr.pkey_index, attr.ah_attr.grh.sgid_index);
}

__attribute__((visibility("default"))) int ibv_destroy_qp(struct ibv_qp *qp)
{
    int (*next)(struct ibv_qp *);

    *(void **) &next = next_of("ibv_destroy_qp");
    write_qp(qp);
    return next(qp);
}

/* Soft-RoCE forgets the service level, so that is what was asked for. */
__attribute__((visibility("default"))) int ibv_modify_qp(struct ibv_qp *qp,
                                                         struct ibv_qp_attr *attr, int mask)
{
    int (*next)(struct ibv_qp *, struct ibv_qp_attr *, int);

    *(void **) &next = next_of("ibv_modify_qp");
    if ((mask & IBV_QP_AV) != 0) {
        write_line("asked level %u class %u\n", attr->ah_attr.sl, attr->ah_attr.grh.traffic_class);
    }
    return next(qp, attr, mask);
}

__attribute__((visibility("default"))) int ibv_destroy_cq(struct ibv_cq *cq)
{
    int (*next)(struct ibv_cq *);

    *(void **) &next = next_of("ibv_destroy_cq");
    write_line("cq entries %d\n", cq->cqe);
    return next(cq);
}

static bool is_too_large(size_t length)
{
    const char *most = getenv("BTL_IB_VERBS_MR_MAX");

    return most != NULL && length > strtoull(most, NULL, 10);
}

#undef ibv_reg_mr
__attribute__((visibility("default"))) struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr,
                                                                 size_t length, int access)
{
    struct ibv_mr *(*next)(struct ibv_pd *, void *, size_t, int);

    if (is_too_large(length)) {
        errno = EINVAL;
        return NULL;
    }
    *(void **) &next = next_of("ibv_reg_mr");
    return next(pd, addr, length, access);
}

/* What ibv_reg_mr() calls where rights are no constant. */
__attribute__((visibility("default"))) struct ibv_mr *
ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
    struct ibv_mr *(*next)(struct ibv_pd *, void *, size_t, uint64_t, unsigned int);

    if (is_too_large(length)) {
        errno = EINVAL;
        return NULL;
    }
    *(void **) &next = next_of("ibv_reg_mr_iova2");
    return next(pd, addr, length, iova, access);
}
