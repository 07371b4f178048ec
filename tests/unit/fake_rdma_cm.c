/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "fake_rdma_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "refusals.h"
#include "unit.h"

/* Found as functions of a preloaded library are (btl_ib_library.h). */
#pragma GCC visibility push(default)

enum {
    PORT_FIRST = 20000,
    NO_LISTENER = 8,
    BY_CONSUMER = 28,
};

typedef struct event {
    struct event *next;
    struct rdma_cm_event cm;
    uint8_t bytes[256];
} event_t;

typedef struct channel {
    struct rdma_event_channel channel; /* first */
    event_t *first;
} channel_t;

typedef struct fake_id {
    struct rdma_cm_id id; /* first */
    struct fake_id *next;
    struct fake_id **at; /* what points to it */
    struct fake_id *peer;
    bool asking, connected;
    bool on_its_way; /* its request: to `port`, with these bytes */
    uint16_t port;
    uint8_t bytes[56];
    uint8_t len;
    uint8_t tos, ack_timeout;
    fake_qp_t *qp;    /* of its request; librdmacm need not know it */
    int depth, reads; /* reads at once: its own, and of the other side */
} fake_id_t;

static fake_id_t *ids;
static fake_id_t *listeners[1 << 16]; /* by port */
static uint16_t ports;
static struct ibv_context elsewhere; /* of a device that no rail is on */

struct rdma_event_channel *rdma_create_event_channel(void)
{
    if (refusal_of("rdma_create_event_channel") != 0) {
        return NULL;
    }
    channel_t *channel = calloc(1, sizeof(*channel));

    channel->channel.fd = eventfd(0, EFD_NONBLOCK);
    fake_objects++;
    fake_device.transport_type = fake.iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
    return &channel->channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    assert_null(((channel_t *) channel)->first);
    (void) close(channel->fd);
    free(channel);
    fake_objects--;
}

static event_t *say(fake_id_t *id, enum rdma_cm_event_type type, int status, const void *bytes,
                    uint8_t len)
{
    channel_t *channel = (channel_t *) id->id.channel;
    event_t *event = calloc(1, sizeof(*event));
    event_t **at = &channel->first;

    event->cm = (struct rdma_cm_event){.id = &id->id, .event = type, .status = status};
    if (len > 0) {
        memcpy(event->bytes, bytes, len);
        event->cm.param.conn.private_data = event->bytes;
        event->cm.param.conn.private_data_len = len;
    }
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = event;
    return event;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    channel_t *from = (channel_t *) channel;
    event_t *first = from->first;

    if (first == NULL) {
        errno = EAGAIN;
        return -1;
    }
    from->first = first->next;
    *event = &first->cm;
    if (first->cm.event == RDMA_CM_EVENT_ESTABLISHED || first->cm.event == RDMA_CM_EVENT_REJECTED) {
        ((fake_id_t *) first->cm.id)->asking = false;
    }
    return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    free((uint8_t *) event - offsetof(event_t, cm));
    return 0;
}

static fake_id_t *new_id(struct rdma_event_channel *channel, void *user)
{
    fake_id_t *id = calloc(1, sizeof(*id));

    id->id.channel = channel;
    id->id.context = user;
    id->next = ids;
    id->at = &ids;
    if (ids != NULL) {
        ids->at = &id->next;
    }
    ids = id;
    fake_objects++;
    fake.ids++;
    return id;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *user,
                   enum rdma_port_space space)
{
    if (refusal_of("rdma_create_id") != 0) {
        return -1;
    }
    *id = &new_id(channel, user)->id;
    return 0;
}

static void forget_events(const fake_id_t *id)
{
    event_t **at = &((channel_t *) id->id.channel)->first;

    while (*at != NULL) {
        event_t *event = *at;
        if (event->cm.id == &id->id) {
            *at = event->next;
            free(event);
        } else {
            at = &event->next;
        }
    }
}

/* What the other end hears of this one's end. */
static void part(fake_id_t *id)
{
    fake_id_t *peer = id->peer;

    if (peer == NULL) {
        return;
    }
    peer->peer = NULL;
    id->peer = NULL;
    if (peer->connected && fake.lose_goodbyes) {
        return;
    }
    if (peer->connected) {
        peer->connected = false;
        (void) say(peer, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
        if (peer->id.qp != NULL) {
            fake_rdma_flush((fake_qp_t *) peer->id.qp, IBV_WC_WR_FLUSH_ERR);
        }
        fake.disconnects++;
    } else if (peer->asking) {
        (void) say(peer, RDMA_CM_EVENT_REJECTED, BY_CONSUMER, NULL, 0);
    }
}

int rdma_disconnect(struct rdma_cm_id *id)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    (void) ibv_modify_qp(id->qp, &attr, IBV_QP_STATE);
    part((fake_id_t *) id);
    return 0;
}

int rdma_destroy_id(struct rdma_cm_id *gone)
{
    fake_id_t *id = (fake_id_t *) gone;

    assert_null(gone->qp);
    fake.waited += fake.iwarp && id->asking;
    *id->at = id->next;
    if (id->next != NULL) {
        id->next->at = id->at;
    }
    if (listeners[id->port] == id) {
        listeners[id->port] = NULL;
    }
    part(id);
    forget_events(id);
    free(id);
    fake_objects--;
    fake.ids--;
    return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
    if (refusal_of("rdma_bind_addr") != 0) {
        return -1;
    }
    struct sockaddr_in *in = (struct sockaddr_in *) (void *) address;
    fake_id_t *ours = (fake_id_t *) id;

    ours->port = in->sin_port != 0 ? ntohs(in->sin_port) : (uint16_t) (PORT_FIRST + ports++);
    if (listeners[ours->port] != NULL) {
        errno = EADDRINUSE;
        return -1;
    }
    id->verbs = &fake_context;
    id->port_num = 1;
    id->route.addr.addr.ibaddr.pkey = htons(fake.pkey);
    return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    if (refusal_of("rdma_listen") != 0) {
        return -1;
    }
    listeners[((fake_id_t *) id)->port] = (fake_id_t *) id;
    return 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
    return htons(((fake_id_t *) id)->port);
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t len)
{
    if (refusal_of("rdma_set_option") != 0) {
        return -1;
    }
    fake_id_t *ours = (fake_id_t *) id;

    assert_int_equal(level, RDMA_OPTION_ID);
    assert_int_equal(len, 1);
    *(name == RDMA_OPTION_ID_TOS ? &ours->tos : &ours->ack_timeout) = *(uint8_t *) value;
    return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms)
{
    if (refusal_of("rdma_resolve_addr") != 0) {
        return -1;
    }
    id->verbs = fake.other_device ? &elsewhere : &fake_context;
    id->port_num = 1;
    memcpy(&id->route.addr.dst_storage, to, sizeof(struct sockaddr_in));
    if (fake.way_error != 0) {
        (void) say((fake_id_t *) id, RDMA_CM_EVENT_ADDR_ERROR, -fake.way_error, NULL, 0);
        return 0;
    }
    (void) say((fake_id_t *) id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
    return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int ms)
{
    if (refusal_of("rdma_resolve_route") != 0) {
        return -1;
    }
    (void) say((fake_id_t *) id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
    return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    if (refusal_of("rdma_create_qp") != 0) {
        return -1;
    }
    id->qp = ibv_create_qp(pd, attr);
    return id->qp != NULL ? 0 : -1;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
    fake.waited += fake.iwarp && ((fake_id_t *) id)->asking;
    (void) ibv_destroy_qp(id->qp);
    id->qp = NULL;
}

static void arrive(fake_id_t *from)
{
    const fake_id_t *listener = listeners[from->port];

    from->on_its_way = false;
    if (listener == NULL) {
        (void) say(from, RDMA_CM_EVENT_REJECTED, NO_LISTENER, NULL, 0);
        return;
    }
    fake_id_t *server = new_id(listener->id.channel, NULL);
    server->id.verbs = fake.arrives_elsewhere ? &elsewhere : &fake_context;
    server->peer = from;
    from->peer = server;
    (void) say(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0, from->bytes, from->len);
}

static void request(fake_id_t *from, uint16_t port, const void *bytes, uint8_t len)
{
    assert_true(len <= sizeof(from->bytes));
    fake.requests++;
    from->asking = true;
    from->port = port;
    from->len = len;
    memcpy(from->bytes, bytes, len);
    from->on_its_way = fake.hold_requests;
    if (fake.connect_error != 0) {
        (void) say(from, RDMA_CM_EVENT_CONNECT_ERROR, -fake.connect_error, NULL, 0);
    } else if (!fake.hold_requests && !fake.lose_requests) {
        arrive(from);
    }
}

void fake_rdma_remove(struct rdma_cm_id *listener)
{
    (void) say((fake_id_t *) listener, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL, 0);
}

void fake_rdma_release(void)
{
    fake.hold_requests = false;
    for (fake_id_t *id = ids; id != NULL; id = id->next) {
        if (id->on_its_way) {
            arrive(id);
        }
    }
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    if (refusal_of("rdma_connect") != 0) {
        return -1;
    }
    const struct sockaddr_in *to = &id->route.addr.dst_sin;

    fake.asked = *param;
    fake.tos = ((fake_id_t *) id)->tos;
    fake.asked_timeout = ((fake_id_t *) id)->ack_timeout;
    ((fake_id_t *) id)->qp = id->qp != NULL ? (fake_qp_t *) id->qp : fake_rdma_qp(param->qp_num);
    ((fake_id_t *) id)->depth = param->initiator_depth;
    ((fake_id_t *) id)->reads = param->responder_resources;
    request((fake_id_t *) id, ntohs(to->sin_port), param->private_data, param->private_data_len);
    return 0;
}

struct rdma_cm_id *fake_rdma_intrude(struct rdma_event_channel *channel, uint16_t port,
                                     const void *bytes, uint8_t len)
{
    fake_id_t *id = new_id(channel, NULL);

    request(id, port, bytes, len);
    return &id->id;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    if (refusal_of("rdma_accept") != 0) {
        return -1;
    }
    fake_id_t *ours = (fake_id_t *) id;

    fake.accepted = *param;
    fake.accepted_timeout = ours->ack_timeout;
    if (ours->peer == NULL || ours->peer->qp == NULL) { /* he gave up meanwhile */
        errno = ECONNRESET;
        return -1;
    }
    fake_qp_t *qp = id->qp != NULL ? (fake_qp_t *) id->qp : fake_rdma_qp(param->qp_num);
    fake_qp_t *other = ours->peer->qp;
    assert_true(id->qp != NULL || qp->qp.state == IBV_QPS_RTS);
    qp->peer = other;
    other->peer = qp;
    qp->reads_max = least(param->initiator_depth, ours->peer->reads);
    other->reads_max = least(ours->peer->depth, param->responder_resources);
    ours->connected = true;
    ours->peer->connected = true;
    fake.accepts++;
    (void) say(ours, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0);
    event_t *reply =
        say(ours->peer,
            ours->peer->id.qp != NULL ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_RESPONSE,
            0, param->private_data, param->private_data_len);
    if (fake.spoil_reply >= 0) {
        reply->bytes[fake.spoil_reply] ^= 1;
    }
    return 0;
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    if (refusal_of("rdma_init_qp_attr") != 0) {
        return -1;
    }
    attr->path_mtu = IBV_MTU_4096;
    *mask = IBV_QP_STATE | (attr->qp_state == IBV_QPS_RTR ? IBV_QP_AV : 0);
    return 0;
}

int rdma_establish(struct rdma_cm_id *id)
{
    if (refusal_of("rdma_establish") != 0) {
        return -1;
    }
    assert_null(id->qp);
    assert_int_equal(((fake_id_t *) id)->qp->qp.state, IBV_QPS_RTS);
    ((fake_id_t *) id)->asking = false;
    return fake.establish_error == 0 ? 0 : (errno = fake.establish_error, -1);
}

int rdma_reject(struct rdma_cm_id *id, const void *bytes, uint8_t len)
{
    fake_id_t *ours = (fake_id_t *) id;

    fake.rejects++;
    if (ours->peer != NULL) {
        (void) say(ours->peer, RDMA_CM_EVENT_REJECTED, BY_CONSUMER, bytes, len);
        ours->peer->peer = NULL;
        ours->peer = NULL;
    }
    return 0;
}
