/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Who connects, who accepts, when again. All of it by rdma_cm, which does it alike on InfiniBand, RoCE and iWARP;
 * its events are read from a channel that never blocks.
 *
 *      who has something to send                    the other
 *      RESOLVING  address
 *      ROUTING    route; queue pair, buffers
 *      ASKING     request --------------------->    queue pair, buffers
 *      OPEN       <-------------------- reply       ACCEPTED
 *                 empty first message ---------->   OPEN
 *
 * The first message is there for iWARP, where the side that accepted must not be the first to send (RFC 6581);
 * it does no harm elsewhere.
 *
 * Both at once: each request names both sides by their cookies. Who has a request of his own on its way when one
 * comes in refuses it if his cookie is the smaller one (CROSSING), else gives up his own and accepts. Requests
 * are numbered (`attempt`), and a reply says which of its sender's are void: one that was given up, and comes late, is
 * told from the next one.
 */

#include "verbs_rc_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    BACKLOG = 1024,
    RESOLVE_MS = 2000,
    CROSSING_US = 100 * 1000, /* the other's request is on its way */
    RETRY_US = 10 * 1000,     /* after a failure; twice as long after each that follows */
    RETRY_DOUBLINGS = 7,
    NO_WAY_AFTER = 2,            /* failures without an answer in between */
    SHORT_LIFE_US = 1000 * 1000, /* a pipe that breaks sooner is likely to break again */
    /* What waits for a pipe for longer may as well have been lost. The kernel repeats what the network loses of a request each
     * 4.3 s, and many processes that share a processor are slow to answer. */
    PATIENCE_US = 10 * 1000 * 1000,
    DOUBT_US = 200 * 1000, /* between what a port that goes down makes fail and its new state, on slow hosts */
    EVENTS = 64,                 /* in one go */
    POLLS = 64,                  /* without a look at the connection manager */
    POLLS_PENDING = 8,           /* the same while a connection is being made */
    NO_LISTENER = 8,             /* IB_CM_REJ_INVALID_SERVICE_ID (IBTA 12.6.7.2) */
    BY_CONSUMER = 28,            /* IB_CM_REJ_CONSUMER_DEFINED */
};

/* An event that was taken in and acknowledged: nothing of it is the library's any more. */
typedef struct news {
    enum rdma_cm_event_type type;
    struct rdma_cm_id *id;
    int status;
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];
    size_t len;
} news_t;

uint64_t btl_ib_rc_now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000u + (uint64_t) now.tv_nsec / 1000u;
}

static void tell(const btl_ib_rc_t *rc, int level, const btl_ib_rc_peer_t *peer, uint8_t channel,
                 const char *what, const char *detail)
{
    char text[BTL_IB_RC_NAME_TEXT];
    char link[16] = "RDMA";

    if (channel != BTL_IB_RC_RDMA) {
        snprintf(link, sizeof(link), "queue %u", channel);
    }
    BTL_IB_VERBS_LOG(&rc->verbs, level, "%s: peer %s, %s: %s%s%s", rc->verbs.base.name,
                     btl_ib_rc_name_format(&peer->name, text, sizeof(text)), link, what,
                     detail[0] != '\0' ? ": " : "", detail);
}

/* ---- ends ---- */

/* Errors of an attempt that say nothing of the next one. */
static bool may_pass(int error)
{
    return error == ETIMEDOUT || error == EAGAIN;
}

/* An attempt of ours came to nothing. `refused`: because nobody is there. */
static void failed(btl_ib_rc_pipe_t *pipe, bool refused, const char *what, int error)
{
    btl_ib_rc_t *rc = pipe->rc;
    btl_ib_rc_peer_t *peer = pipe->peer;
    btl_ib_rc_link_t *link = &peer->link[pipe->channel];

    tell(rc, 10, peer, pipe->channel, what, error != 0 ? strerror(error) : "");
    if (pipe->asked) {
        link->retry_at = btl_ib_rc_now_us() + ((uint64_t) RETRY_US << link->failures);
        link->failures += link->failures < RETRY_DOUBLINGS;
        link->hopeless = refused || !may_pass(error);
    }
    btl_ib_rc_pipe_close(pipe);
    if (refused) {
        peer->refused = ECONNREFUSED;
        btl_ib_rc_peer_news(&rc->peers, peer);
    }
    btl_ib_rc_peer_let_go(&rc->peers, peer);
}

/* The next pipe comes at once, unless the last ones broke as soon as they were open: nothing is to be made anew, with
 * all in flight sent again, in a tight loop. */
static void pause_after(const btl_ib_rc_pipe_t *pipe)
{
    btl_ib_rc_link_t *link = &pipe->peer->link[pipe->channel];
    const uint64_t now = btl_ib_rc_now_us();

    if (pipe->stage == BTL_IB_RC_OPEN && now - pipe->opened_at >= SHORT_LIFE_US) {
        link->short_lives = 0;
        return;
    }
    if (link->short_lives > 0) {
        link->retry_at = now + ((uint64_t) RETRY_US << (link->short_lives - 1));
    }
    link->short_lives += link->short_lives <= RETRY_DOUBLINGS;
}

/* Messages may be lost with a pipe. Operations on memory say themselves what became of them. */
static void lost(const btl_ib_rc_pipe_t *pipe)
{
    if (pipe->rdma == NULL) {
        pipe->peer->broken = true;
        btl_ib_rc_peer_news(&pipe->rc->peers, pipe->peer);
    }
}

void btl_ib_rc_cm_broke(btl_ib_rc_pipe_t *pipe, const char *why)
{
    btl_ib_rc_t *rc = pipe->rc;
    btl_ib_rc_peer_t *peer = pipe->peer;

    if (btl_ib_rc_events_port_down(rc)) { /* it is made anew when the port is up again */
        return;
    }
    tell(rc, 10, peer, pipe->channel, "the connection broke", why);
    pause_after(pipe);
    lost(pipe);
    btl_ib_rc_pipe_close(pipe);
    btl_ib_rc_peer_let_go(&rc->peers, peer);
}

void btl_ib_rc_cm_doubt(btl_ib_rc_pipe_t *pipe)
{
    if (pipe->doubt_until == 0) {
        pipe->doubt_until = btl_ib_rc_now_us() + DOUBT_US;
        pipe->rc->doubted++;
    }
}

/* Those that were doubted for long enough are broken; all of them wait if the port is down. */
static void end_doubts(btl_ib_rc_t *rc)
{
    const uint64_t now = btl_ib_rc_now_us();

    for (uint32_t i = 0; i < rc->slots && !btl_ib_rc_events_port_down(rc); i++) {
        btl_ib_rc_pipe_t *pipe = rc->slot[i].pipe;
        if (pipe != NULL && pipe->doubt_until != 0 && now >= pipe->doubt_until) {
            btl_ib_rc_cm_broke(pipe, ibv_wc_status_str(IBV_WC_LOC_QP_OP_ERR));
        }
    }
}

/* What was sent in vain before, as good as lost, is to go again now. */
static void opened(btl_ib_rc_pipe_t *pipe, const char *how)
{
    btl_ib_rc_peer_t *peer = pipe->peer;
    btl_ib_rc_link_t *link = &peer->link[pipe->channel];
    char after[32];

    btl_ib_rc_pipe_open(pipe);
    snprintf(after, sizeof(after), "after %.3f s",
             (double) (pipe->opened_at - pipe->begun_at) * 1e-6);
    tell(pipe->rc, 10, peer, pipe->channel, how, after);
    link->failures = 0;
    link->wanted_at = 0;
    if (link->gave_up) {
        link->gave_up = false;
        lost(pipe);
    }
}

void btl_ib_rc_cm_heard(btl_ib_rc_pipe_t *pipe)
{
    opened(pipe, "connected by the peer");
}

/* ---- our requests ---- */

static struct rdma_conn_param params_of(const btl_ib_rc_pipe_t *pipe, const uint8_t *bytes)
{
    const btl_ib_rc_t *rc = pipe->rc;
    const uint8_t reads = pipe->rdma != NULL ? rc->reads : 0;
    const bool told = pipe->rdma != NULL && !pipe->asked; /* how many the other one serves */

    return (struct rdma_conn_param){
        .private_data = bytes,
        .private_data_len = BTL_IB_RC_PRIVATE_MAX,
        .initiator_depth = told ? (uint8_t) pipe->rdma->reads_max : reads,
        .responder_resources = reads,
        .retry_count = rc->retry,
        .rnr_retry_count = rc->rnr_retry,
    };
}

static void set_option(const btl_ib_rc_pipe_t *pipe, int option, uint8_t value, const char *what)
{
    if (value != 0
        && rdma_set_option(pipe->id, RDMA_OPTION_ID, option, &value, sizeof(value)) != 0) {
        tell(pipe->rc, 10, pipe->peer, pipe->channel, what, strerror(errno));
    }
}

/* The system knows no way there. That may pass, as when the other host is still on its way up: it is told when it was
 * asked in vain for the third time. */
static void no_way(btl_ib_rc_pipe_t *pipe, const char *what, int error)
{
    const btl_ib_verbs_t *verbs = &pipe->rc->verbs;
    char text[BTL_IB_RC_NAME_TEXT];

    if (pipe->peer->link[pipe->channel].failures == NO_WAY_AFTER) {
        btl_ib_verbs_trouble(&verbs->log, BTL_IB_TROUBLE_UNREACHABLE, verbs->base.name,
                             btl_ib_rc_name_format(&pipe->peer->name, text, sizeof(text)));
    }
    failed(pipe, false, what, error);
}

static void ask(btl_ib_rc_t *rc, btl_ib_rc_peer_t *peer, uint8_t channel)
{
    btl_ib_rc_pipe_t *pipe = btl_ib_rc_pipe_new(rc, peer, channel);
    struct sockaddr_storage from;

    if (pipe == NULL) {
        return;
    }
    pipe->asked = true;
    pipe->stage = BTL_IB_RC_RESOLVING;
    rc->attempts++;
    if (rdma_create_id(rc->events, &pipe->id, pipe, RDMA_PS_TCP) != 0) {
        pipe->id = NULL;
        failed(pipe, false, "rdma_create_id", errno);
        return;
    }
    set_option(pipe, RDMA_OPTION_ID_TOS, rc->tos, "its traffic class cannot be set");
    memset(&from, 0, sizeof(from));
    if (rc->self.any.sa_family == AF_INET) {
        memcpy(&from, &rc->self.v4, sizeof(rc->self.v4));
        ((struct sockaddr_in *) (void *) &from)->sin_port = 0;
    } else {
        memcpy(&from, &rc->self.v6, sizeof(rc->self.v6));
        ((struct sockaddr_in6 *) (void *) &from)->sin6_port = 0;
    }
    if (rdma_resolve_addr(pipe->id, (struct sockaddr *) (void *) &from, &peer->name.any, RESOLVE_MS)
        != 0) {
        no_way(pipe, "rdma_resolve_addr", errno);
    }
}

static void address_resolved(btl_ib_rc_pipe_t *pipe)
{
    if (pipe->id->verbs != pipe->rc->verbs.context) {
        no_way(pipe, "the way to it begins at another device", 0);
        return;
    }
    pipe->stage = BTL_IB_RC_ROUTING;
    if (!pipe->rc->iwarp) { /* which has TCP's */
        set_option(pipe, RDMA_OPTION_ID_ACK_TIMEOUT, pipe->rc->ack_timeout,
                   "its timeout cannot be set");
    }
    if (rdma_resolve_route(pipe->id, RESOLVE_MS) != 0) {
        failed(pipe, false, "rdma_resolve_route", errno);
    }
}

static void route_resolved(btl_ib_rc_pipe_t *pipe)
{
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];
    btl_ib_rc_hello_t hello;
    int rc = btl_ib_rc_pipe_equip(pipe);

    if (rc != 0) {
        failed(pipe, false, "no queue pair", -rc);
        return;
    }
    pipe->stage = BTL_IB_RC_ASKING;
    btl_ib_rc_pipe_describe(pipe, &hello);
    btl_ib_rc_hello_pack(&hello, bytes);
    struct rdma_conn_param param = params_of(pipe, bytes);
    if (rdma_connect(pipe->id, &param)
        != 0) { /* soft iWARP asks for a TCP connection there and then */
        failed(pipe, errno == ECONNREFUSED, "rdma_connect", errno);
        return;
    }
    pipe->answer_due = pipe->rc->iwarp;
}

static void accepted(btl_ib_rc_pipe_t *pipe, const news_t *news)
{
    btl_ib_rc_hello_t hello;

    if (btl_ib_rc_hello_unpack(news->bytes, news->len, &hello) != 0
        || hello.channel != pipe->channel || hello.from != pipe->peer->name.cookie
        || hello.to != pipe->rc->self.cookie) {
        failed(pipe, false, "its reply is none of ours", 0);
        return;
    }
    pipe->peer->link[pipe->channel].peer_attempt = hello.attempt;
    btl_ib_rc_pipe_join(pipe, &hello);
    opened(pipe, "connected");
    if (btl_ib_rc_send_first(pipe) != 0) {
        btl_ib_rc_cm_broke(pipe, "the first message cannot be posted");
    }
}

/* Does the status of a refusal say that no process of ours is there? */
static bool nobody_there(int status)
{
    return status == NO_LISTENER || status == BY_CONSUMER || status == -ECONNREFUSED
           || status == -ECONNRESET;
}

static void rejected(btl_ib_rc_pipe_t *pipe, const news_t *news)
{
    switch (btl_ib_rc_refusal_unpack(news->bytes, news->len)) {
    case BTL_IB_RC_CROSSING:
        pipe->peer->link[pipe->channel].retry_at = btl_ib_rc_now_us() + CROSSING_US;
        tell(pipe->rc, 10, pipe->peer, pipe->channel, "its own request goes first", "");
        btl_ib_rc_pipe_close(pipe); /* we know the peer, or would not have asked: he stays */
        break;
    case BTL_IB_RC_STRANGER:
        failed(pipe, true, "another process is there", 0);
        break;
    case BTL_IB_RC_STALE:
        failed(pipe, false, "a newer request came before ours", EAGAIN);
        break;
    case BTL_IB_RC_SHORTAGE:
        failed(pipe, false, "it is short of memory", 0);
        break;
    default:
        failed(pipe, nobody_there(news->status), "refused", 0);
        break;
    }
}

/* ---- requests of peers ---- */

static void refuse(const btl_ib_rc_t *rc, struct rdma_cm_id *id, btl_ib_rc_reason_t reason)
{
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];
    const uint8_t len = btl_ib_rc_refusal_pack(reason, bytes);

    BTL_IB_VERBS_LOG(&rc->verbs, 10, "%s: a request was refused, reason %d", rc->verbs.base.name,
                     reason);
    (void) rdma_reject(id, bytes, len);
    (void) rdma_destroy_id(id);
}

/* Make room for a peer's new request. Returns whether it may have it. */
static bool give_way(btl_ib_rc_t *rc, btl_ib_rc_peer_t *peer, const btl_ib_rc_hello_t *hello)
{
    btl_ib_rc_pipe_t *pipe = peer->link[hello->channel].pipe;

    if (pipe == NULL) {
        return true;
    }
    if (pipe->stage < BTL_IB_RC_ACCEPTED) {
        if (rc->self.cookie < hello->from) {
            return false;
        }
        tell(rc, 10, peer, hello->channel, "its request goes before our own", "");
    } else { /* he would not ask again if he had not lost it */
        tell(rc, 10, peer, hello->channel, "connects anew", "");
        lost(pipe);
    }
    btl_ib_rc_pipe_close(pipe);
    return true;
}

/* Accept a request, for which there is room. Returns 0 or a negative errno; the id is the pipe's if there is one. */
static int accept_request(btl_ib_rc_pipe_t *pipe, const btl_ib_rc_hello_t *hello)
{
    uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];
    btl_ib_rc_hello_t reply;
    int rc = pipe->id->verbs == pipe->rc->verbs.context ? btl_ib_rc_pipe_equip(pipe) : -ENODEV;

    if (rc != 0) {
        return rc;
    }
    btl_ib_rc_pipe_join(pipe, hello);
    btl_ib_rc_pipe_describe(pipe, &reply);
    btl_ib_rc_hello_pack(&reply, bytes);
    struct rdma_conn_param param = params_of(pipe, bytes);
    return rdma_accept(pipe->id, &param) == 0 ? 0 : -errno;
}

static btl_ib_rc_peer_t *asker(btl_ib_rc_t *rc, const btl_ib_rc_hello_t *hello)
{
    btl_ib_rc_peer_t *peer = btl_ib_rc_peer_find(&rc->peers, hello->from);

    return peer == NULL && rc->peers.strangers < rc->strangers_max
               ? btl_ib_rc_peer_get(&rc->peers, hello->from)
               : peer;
}

static void take_request(btl_ib_rc_t *rc, struct rdma_cm_id *id, btl_ib_rc_peer_t *peer,
                         const btl_ib_rc_hello_t *hello)
{
    btl_ib_rc_pipe_t *pipe = btl_ib_rc_pipe_new(rc, peer, hello->channel);

    if (pipe == NULL) {
        refuse(rc, id, BTL_IB_RC_SHORTAGE);
        btl_ib_rc_peer_let_go(&rc->peers, peer);
        return;
    }
    pipe->stage = BTL_IB_RC_ACCEPTED;
    pipe->id = id;
    id->context = pipe;
    peer->link[hello->channel].peer_attempt = hello->attempt;
    int error = accept_request(pipe, hello);
    if (error != 0) {
        uint8_t bytes[BTL_IB_RC_PRIVATE_MAX];
        (void) rdma_reject(id, bytes, btl_ib_rc_refusal_pack(BTL_IB_RC_SHORTAGE, bytes));
        failed(pipe, false, "its request cannot be accepted", -error);
    }
}

/* Our own request, for operations on our own memory that have to be done by the device. Its other end is a peer whose
 * cookie nobody has but by a chance of 2^-64. */
static btl_ib_rc_peer_t *mirror(btl_ib_rc_t *rc, const btl_ib_rc_hello_t *hello)
{
    const btl_ib_rc_peer_t *self = btl_ib_rc_peer_find(&rc->peers, rc->self.cookie);
    btl_ib_rc_peer_t *peer = NULL;

    if (self != NULL && hello->channel == BTL_IB_RC_RDMA) {
        peer = btl_ib_rc_peer_get(&rc->peers, ~rc->self.cookie);
    }
    if (peer != NULL) {
        peer->mirror = true;
    }
    return peer;
}

static void requested(btl_ib_rc_t *rc, const news_t *news)
{
    btl_ib_rc_hello_t hello;

    if (btl_ib_rc_hello_unpack(news->bytes, news->len, &hello) != 0
        || hello.to != rc->self.cookie) {
        refuse(rc, news->id, BTL_IB_RC_STRANGER);
        return;
    }
    btl_ib_rc_peer_t *peer = hello.from == rc->self.cookie ? mirror(rc, &hello) : asker(rc, &hello);
    if (peer == NULL) {
        refuse(rc, news->id, BTL_IB_RC_SHORTAGE);
    } else if ((int32_t) (hello.attempt - peer->link[hello.channel].peer_attempt) <= 0) {
        refuse(rc, news->id, BTL_IB_RC_STALE);
    } else if (!give_way(rc, peer, &hello)) {
        refuse(rc, news->id, BTL_IB_RC_CROSSING);
    } else {
        take_request(rc, news->id, peer, &hello);
    }
}

/* ---- events ---- */

static void disconnected(btl_ib_rc_pipe_t *pipe)
{
    if (pipe->stage >= BTL_IB_RC_ACCEPTED) {
        btl_ib_rc_cm_broke(pipe, "the peer ended it");
    } else {
        failed(pipe, false, "the peer ended it", 0);
    }
}

static bool is_answer(enum rdma_cm_event_type type)
{
    return type == RDMA_CM_EVENT_ESTABLISHED || type == RDMA_CM_EVENT_REJECTED
           || type == RDMA_CM_EVENT_CONNECT_ERROR || type == RDMA_CM_EVENT_UNREACHABLE
           || type == RDMA_CM_EVENT_DISCONNECTED;
}

static void handle_pipe(btl_ib_rc_pipe_t *pipe, const news_t *news)
{
    const bool closed = pipe->stage == BTL_IB_RC_CLOSED;

    if (is_answer(news->type)) {
        btl_ib_rc_pipe_answered(pipe);
    }
    if (closed) {
        return;
    }
    switch (news->type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        address_resolved(pipe);
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        route_resolved(pipe);
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        if (pipe->stage == BTL_IB_RC_ASKING) {
            accepted(pipe, news);
        }
        break;
    case RDMA_CM_EVENT_REJECTED:
        rejected(pipe, news);
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
        disconnected(pipe);
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
        no_way(pipe, rdma_event_str(news->type), news->status < 0 ? -news->status : 0);
        break;
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
        failed(pipe, news->status == -ECONNREFUSED, rdma_event_str(news->type),
               news->status < 0 ? -news->status : 0);
        break;
    default: /* what is said of the end of what was ended */
        break;
    }
}

static void handle(btl_ib_rc_t *rc, const news_t *news)
{
    if (news->type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
        rc->failed = ENODEV;
    } else if (news->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        requested(rc, news);
    } else if (news->id != rc->listener) {
        handle_pipe(news->id->context, news);
    }
}

/* Take in one event. Returns whether there was any. */
static bool take(btl_ib_rc_t *rc, news_t *news)
{
    struct rdma_cm_event *event;

    if (rdma_get_cm_event(rc->events, &event) != 0) {
        return false;
    }
    const struct rdma_conn_param *param = &event->param.conn;
    *news = (news_t){.type = event->event, .id = event->id, .status = event->status};
    if (param->private_data != NULL) {
        news->len = param->private_data_len < sizeof(news->bytes) ? param->private_data_len
                                                                  : sizeof(news->bytes);
        memcpy(news->bytes, param->private_data, news->len);
    }
    (void) rdma_ack_cm_event(event); /* before its id may be destroyed, which would wait for that */
    return true;
}

/* A look is a system call, so not each poll has one; but who polls seldom must not wait for that. */
static bool is_due(btl_ib_rc_t *rc)
{
    struct timespec now;

    if (++rc->polls < (rc->pending + rc->doubted > 0 ? POLLS_PENDING : POLLS)) {
        clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
        const uint64_t tick = (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
        if (tick == rc->asked_at) {
            return false;
        }
        rc->asked_at = tick;
    }
    rc->polls = 0;
    return true;
}

bool btl_ib_rc_cm_progress(btl_ib_rc_t *rc)
{
    news_t news;

    if (rc->failed != 0 || !is_due(rc)) {
        return false;
    }
    btl_ib_rc_events_read(rc);
    if (rc->doubted > 0 && !rc->down) {
        end_doubts(rc);
    }
    btl_ib_rc_eager_review(rc);
    for (int i = 0; i < EVENTS && rc->failed == 0 && !rc->down && take(rc, &news); i++) {
        handle(rc, &news);
    }
    return !rc->down;
}

/* Is what waits for a pipe as good as lost? One that was begun just now began after `now`. */
static bool is_hopeless(const btl_ib_rc_link_t *link, uint64_t now)
{
    if (link->pipe != NULL) {
        return now >= link->pipe->begun_at + PATIENCE_US;
    }
    return link->failures > 0 && (link->hopeless || now >= link->wanted_at + PATIENCE_US);
}

int btl_ib_rc_cm_ask(btl_ib_rc_t *rc, btl_ib_rc_peer_t *peer, uint8_t channel)
{
    btl_ib_rc_link_t *link = &peer->link[channel];
    const uint64_t now = btl_ib_rc_now_us();
    link->wanted_at = link->wanted_at == 0 ? now : link->wanted_at;
    if (link->pipe == NULL && now >= link->retry_at) {
        ask(rc, peer, channel);
    }
    const bool hopeless = is_hopeless(link, now);
    link->gave_up = link->gave_up || hopeless;
    return hopeless ? EHOSTUNREACH : EAGAIN;
}

/* ---- beginning and end ---- */

/* A port from the range that was asked for, or any. */
static int bind_listener(btl_ib_rc_t *rc, const btl_ib_open_params_t *params)
{
    const uint32_t count = params->port_min != 0 && params->port_count > 0 ? params->port_count : 1;
    int error = EADDRINUSE;

    for (uint32_t i = 0; i < count && error == EADDRINUSE; i++) {
        const uint16_t port = params->port_min == 0 ? 0 : htons((uint16_t) (params->port_min + i));
        if (rc->self.any.sa_family == AF_INET) {
            rc->self.v4.sin_port = port;
        } else {
            rc->self.v6.sin6_port = port;
        }
        error = rdma_bind_addr(rc->listener, &rc->self.any) == 0 ? 0 : errno;
    }
    return error;
}

static void set_port(btl_ib_rc_name_t *name, uint16_t port)
{
    if (name->any.sa_family == AF_INET) {
        name->v4.sin_port = port;
    } else {
        name->v6.sin6_port = port;
    }
}

int btl_ib_rc_cm_open(btl_ib_rc_t *rc, const char *device, const btl_ib_open_params_t *params)
{
    rc->events = rdma_create_event_channel();
    if (rc->events == NULL) {
        return btl_ib_verbs_failed(&rc->verbs, "rdma_create_event_channel", errno);
    }
    int error = btl_ib_verbs_never_wait(&rc->verbs, rc->events->fd);
    if (error != 0) {
        return error;
    }
    if (rdma_create_id(rc->events, &rc->listener, NULL, RDMA_PS_TCP) != 0) {
        rc->listener = NULL;
        return btl_ib_verbs_failed(&rc->verbs, "rdma_create_id", errno);
    }
    error = bind_listener(rc, params);
    if (error != 0) {
        return btl_ib_verbs_failed(&rc->verbs, "rdma_bind_addr", error);
    }
    const struct ibv_context *context = rc->listener->verbs;
    if (context == NULL || strcmp(ibv_get_device_name(context->device), device) != 0) {
        return btl_ib_verbs_failed(&rc->verbs, "its address belongs to another device", ENODEV);
    }
    if (rdma_listen(rc->listener, BACKLOG) != 0) {
        return btl_ib_verbs_failed(&rc->verbs, "rdma_listen", errno);
    }
    set_port(&rc->self, rdma_get_src_port(rc->listener));
    rc->verbs.context = rc->listener->verbs;
    rc->verbs.port = rc->listener->port_num;
    rc->iwarp = context->device->transport_type == IBV_TRANSPORT_IWARP;
    btl_ib_rc_events_join(rc);
    return btl_ib_verbs_never_wait(&rc->verbs, rc->verbs.context->async_fd);
}

void btl_ib_rc_cm_close(btl_ib_rc_t *rc)
{
    btl_ib_rc_events_leave(rc);
    if (rc->listener != NULL) {
        (void) rdma_destroy_id(rc->listener);
        rc->listener = NULL;
    }
    if (rc->events != NULL) {
        rdma_destroy_event_channel(rc->events);
        rc->events = NULL;
    }
}
