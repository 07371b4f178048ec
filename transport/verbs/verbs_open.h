/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* An open device: taking it over, what it reports without being asked, and sleeping until there
 * is something to poll. */

#ifndef BTL_IB_VERBS_OPEN_H
#define BTL_IB_VERBS_OPEN_H

#include "verbs_port.h"

/* ---- opening ---- */

/* Take over the open context of a device: what UD and RC do alike with it. */

/* Set what needs no call that can fail; `name` is for people. */
void btl_ib_verbs_init(btl_ib_verbs_t *verbs, const btl_ib_transport_ops_t *ops,
                       const btl_ib_log_t *log, const char *wire, const char *name);

/* Query the port, make its events non-blocking, and allocate a protection domain. `mtu` is that of
 * the open parameters. Returns 0 or a negative errno after logging why; verbs->context is the
 * port's in either case. */
int btl_ib_verbs_open(btl_ib_verbs_t *verbs, struct ibv_context *context, uint8_t port,
                      uint32_t mtu);

/* Free the protection domain; log what the port refused meanwhile. */
void btl_ib_verbs_close(btl_ib_verbs_t *verbs);

/* ---- asynchronous events ---- */

/*
 * What a device reports without being asked (ibv_get_async_event(3)), and what becomes of the port
 * by it: up, down until it comes back, or failed for good.
 */

/* Is the port of use? Both kinds of failure are reported by poll() once. */
typedef struct btl_ib_verbs_state {
    int error; /* errno; not 0: the device has failed for good */
    bool error_reported;
    int down; /* errno; not 0: the port, its address or partition is gone, and may come back */
    bool down_reported;
} btl_ib_verbs_state_t;

/* The device has failed with that errno. The first one counts. */
static inline void btl_ib_verbs_state_fail(btl_ib_verbs_state_t *state, int error)
{
    state->error = state->error != 0 ? state->error : error;
}

/* The port is of no use because of that errno, but may come back. The first reason counts. */
static inline void btl_ib_verbs_state_down(btl_ib_verbs_state_t *state, int error)
{
    state->down = state->down != 0 ? state->down : error;
}

static inline void btl_ib_verbs_state_up(btl_ib_verbs_state_t *state)
{
    state->down = 0;
}

/* Is there an event to make? */
static inline bool btl_ib_verbs_state_changed(const btl_ib_verbs_state_t *state)
{
    return state->error != 0 ? !state->error_reported : (state->down != 0) != state->down_reported;
}

/* Make an event of what has changed, if there is room for one. Returns how many. */
int btl_ib_verbs_state_report(btl_ib_verbs_state_t *state, btl_ib_event_t *events, int max);

/* Is an event about our port? Only port events name one. */
bool btl_ib_verbs_event_is_ours(const btl_ib_verbs_t *verbs, const struct ibv_async_event *event);

/* Log an event, and show the help text for `error`, the errno that it means for this port (0: it
 * goes on). */
void btl_ib_verbs_event_log(const btl_ib_verbs_t *verbs, const struct ibv_async_event *event,
                            int error);

/* Is the port active? */
bool btl_ib_verbs_port_up(const btl_ib_verbs_t *verbs);

/* ---- completion channel ---- */

/*
 * Sleeping until a completion queue has something: a completion channel, and one descriptor (epoll)
 * that becomes readable with it or with other descriptors of the transport.
 */

typedef struct btl_ib_verbs_comp {
    struct ibv_comp_channel *channel; /* of all completion queues */
    int fd;                           /* to sleep on */
} btl_ib_verbs_comp_t;

/* Make a descriptor non-blocking. Returns 0 or a negative errno after logging why. */
int btl_ib_verbs_nonblocking(const btl_ib_verbs_t *verbs, int fd);

/* Returns 0 or a negative errno after logging why; close follows in either case, if `fd` was -1
 * before. */
int btl_ib_verbs_comp_open(btl_ib_verbs_comp_t *comp, const btl_ib_verbs_t *verbs,
                           const int *others, int count);
void btl_ib_verbs_comp_close(btl_ib_verbs_comp_t *comp);

/* Read and acknowledge the events of the channel, so that it becomes readable again. Returns
 * whether any was there. */
bool btl_ib_verbs_comp_read(const btl_ib_verbs_comp_t *comp);

#endif
