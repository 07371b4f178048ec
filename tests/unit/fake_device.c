/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "fake_device.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "refusals.h"
#include "unit.h"

/* Found as functions of a preloaded library are (btl_ib_library.h). */
#pragma GCC visibility push(default)

enum { EVENTS_MAX = 64 };

typedef struct done {
    struct ibv_wc wc;
    uint32_t *freed;
    uint32_t place;
} done_t;

typedef struct fake_cq {
    struct ibv_cq cq; /* first */
    done_t *done;
    uint32_t first, count;
    bool armed;
} fake_cq_t;

int fake_objects;
int fake_cqe;
bool fake_poll_fails;
bool fake_no_rdma;
static struct ibv_async_event events[EVENTS_MAX];
static int event_count;
static int unacknowledged; /* of completion channels */

/* ---- protection domains ---- */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    if (refusal_of("ibv_alloc_pd") != 0) {
        return NULL;
    }
    struct ibv_pd *pd = calloc(1, sizeof(*pd));

    pd->context = context;
    fake_objects++;
    return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    free(pd);
    fake_objects--;
    return 0;
}

/* ---- completion channels ---- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    if (refusal_of("ibv_create_comp_channel") != 0) {
        return NULL;
    }
    struct ibv_comp_channel *channel = calloc(1, sizeof(*channel));

    channel->context = context;
    channel->fd = eventfd(0, EFD_SEMAPHORE);
    fake_objects++;
    return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    (void) close(channel->fd);
    free(channel);
    fake_objects--;
    return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
    uint64_t one;

    *cq = NULL;
    *context = NULL;
    if (read(channel->fd, &one, sizeof(one)) != sizeof(one)) {
        return -1;
    }
    unacknowledged++;
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned count)
{
    unacknowledged -= (int) count;
}

/* ---- completion queues ---- */

static uint32_t place_of(const fake_cq_t *cq, uint32_t i)
{
    return (cq->first + i) % (uint32_t) cq->cq.cqe;
}

void fake_complete(struct ibv_cq *to, const struct ibv_wc *wc, uint32_t *freed, uint32_t place)
{
    fake_cq_t *cq = (fake_cq_t *) to;
    const uint64_t one = 1;

    assert_true(cq->count < (uint32_t) to->cqe);
    cq->done[place_of(cq, cq->count++)] = (done_t){.wc = *wc, .freed = freed, .place = place};
    if (cq->armed) {
        cq->armed = false;
        assert_int_equal(write(to->channel->fd, &one, sizeof(one)), sizeof(one));
    }
}

void fake_forget_completions(struct ibv_cq *of, uint32_t qp_num)
{
    fake_cq_t *cq = (fake_cq_t *) of;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < cq->count; i++) {
        const done_t done = cq->done[place_of(cq, i)];
        if (done.wc.qp_num != qp_num) {
            cq->done[place_of(cq, kept++)] = done;
        }
    }
    cq->count = kept;
}

static int poll_cq(struct ibv_cq *from, int max, struct ibv_wc *wc)
{
    fake_cq_t *cq = (fake_cq_t *) from;
    int n = 0;

    if (fake_poll_fails) {
        return -1;
    }
    while (n < max && cq->count > 0) {
        const done_t *done = &cq->done[cq->first];
        wc[n++] = done->wc;
        if (done->freed != NULL) {
            *done->freed = done->place;
        }
        cq->first = place_of(cq, 1);
        cq->count--;
    }
    return n;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    ((fake_cq_t *) cq)->armed = true;
    return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int size, void *of,
                             struct ibv_comp_channel *channel, int vector)
{
    if (refusal_of("ibv_create_cq") != 0) {
        return NULL;
    }
    fake_cq_t *cq = calloc(1, sizeof(*cq));

    (void) vector;
    fake_cqe = size;
    cq->cq = (struct ibv_cq){.context = context, .cqe = size, .cq_context = of, .channel = channel};
    cq->done = calloc((size_t) size, sizeof(*cq->done));
    fake_objects++;
    return &cq->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    assert_int_equal(unacknowledged, 0); /* the real one would wait for ever */
    free(((fake_cq_t *) cq)->done);
    free(cq);
    fake_objects--;
    return 0;
}

/* ---- events of the device ---- */

void fake_say(const struct ibv_async_event *event)
{
    assert_true(event_count < EVENTS_MAX);
    events[event_count++] = *event;
}

void fake_unsay(const void *element)
{
    int kept = 0;

    for (int i = 0; i < event_count; i++) {
        if (events[i].element.cq != element) {
            events[kept++] = events[i];
        }
    }
    event_count = kept;
}

int fake_unheard(void)
{
    return event_count;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    if (event_count == 0) {
        errno = EAGAIN;
        return -1;
    }
    *event = events[0];
    memmove(events, events + 1, (size_t) --event_count * sizeof(events[0]));
    fake_objects++;
    return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    fake_objects--;
}

/* ---- the host ---- */

DIR *opendir(const char *name)
{
    const bool ours = strcmp(name, "/sys/class/infiniband") == 0;

    if (ours && fake_no_rdma) {
        errno = ENOENT;
        return NULL;
    }
    return fdopendir(open(ours ? "/" : name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

/* ---- all of it ---- */

void fake_device_reset(void)
{
    fake_objects = event_count = unacknowledged = 0;
    fake_poll_fails = fake_no_rdma = false;
}

void fake_device_prepare(struct ibv_context *context)
{
    context->ops.poll_cq = poll_cq;
    context->ops.req_notify_cq = req_notify_cq;
}
