/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The transport `ofi` over a provider that nobody has: it wants what usnic, efa and verbs want
 * (room before a datagram in one direction or both, registered memory, the context of an operation
 * for itself), runs out of room, and fails on demand. fi_getinfo() and fi_fabric() of this file
 * stand before those of libfabric, and getifaddrs() before that of libc.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "ofi.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum {
    LARGEST = 200,
    INJECT = 64,
    QUEUE = 32, /* of everything; a power of two */
    ENDPOINTS = 2,
    GARBAGE = 0xee,
};

/* What the provider is like, and what it is to do next. */
static struct {
    bool tx_prefix, rx_prefix, local, context, source;
    size_t prefix;
    bool cuts;        /* reports a datagram that was cut as whole, as udp does */
    int no_room;      /* so many receives are not taken */
    int recv_error;   /* of the next receive */
    int send_error;   /* of the next send's completion */
    int refuse_error; /* of the next send itself */
} fake;

static int live; /* objects that were not closed */

/* ---- queues ---- */

typedef struct item {
    uint8_t *data;
    size_t size;
    void *context;
    uint64_t flags;
    fi_addr_t from;
    int error;
    uint8_t copy[LARGEST * 2];
} item_t;

typedef struct queue {
    item_t item[QUEUE];
    unsigned head, tail;
} queue_t;

static bool is_empty(const queue_t *q)
{
    return q->head == q->tail;
}

static item_t *push(queue_t *q)
{
    item_t *item = &q->item[q->tail++ % QUEUE];

    assert_in_range(q->tail - q->head, 1, QUEUE);
    memset(item, 0, sizeof(*item));
    return item;
}

static item_t *pop(queue_t *q)
{
    assert_false(is_empty(q));
    return &q->item[q->head++ % QUEUE];
}

static struct endpoint {
    struct fid_ep fid;
    bool open;
    fi_addr_t index;
    queue_t posted, wire, done;
} endpoints[ENDPOINTS];

/* ---- the provider's objects ---- */

static int close_any(struct fid *fid)
{
    if (FI_CLASS_EP == fid->fclass) {
        ((struct endpoint *) (void *) fid)->open = false;
    } else {
        free(fid);
    }
    live--;
    return 0;
}

static int bind_any(struct fid *fid, struct fid *other, uint64_t flags)
{
    (void) flags;
    if (FI_CLASS_CQ == other->fclass) {
        other->context = fid;
    }
    return 0;
}

static int control_any(struct fid *fid, int command, void *argument)
{
    (void) fid;
    (void) argument;
    return FI_ENABLE == command ? 0 : -FI_ENOSYS;
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops), .close = close_any, .bind = bind_any, .control = control_any};

static void *make(size_t size, size_t fclass)
{
    struct fid *fid = calloc(1, size);

    assert_non_null(fid);
    fid->fclass = fclass;
    fid->ops = &fid_ops;
    live++;
    return fid;
}

/* Registered memory: found by the descriptor that an operation brings. */
typedef struct region {
    struct fid_mr fid;
    const struct fid *domain;
    const uint8_t *base;
    size_t size;
} region_t;

static region_t *regions[8];

static int close_region(struct fid *fid)
{
    for (size_t i = 0; i < COUNT(regions); i++) {
        if ((void *) regions[i] == (void *) fid) {
            regions[i] = NULL;
        }
    }
    return close_any(fid);
}

static struct fi_ops region_ops = {.size = sizeof(region_ops), .close = close_region};

static int register_memory(struct fid *domain, const void *base, size_t size, uint64_t access,
                           uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **out,
                           void *context)
{
    region_t *region;
    size_t place = COUNT(regions);

    (void) access, (void) offset, (void) flags, (void) context;
    for (size_t i = 0; i < COUNT(regions); i++) {
        if (NULL == regions[i]) {
            place = i;
        } else if (regions[i]->fid.key == key && regions[i]->domain == domain) {
            return -FI_ENOKEY;
        }
    }
    assert_in_range(place, 0, COUNT(regions) - 1);
    region = make(sizeof(*region), FI_CLASS_MR);
    region->fid.fid.ops = &region_ops;
    region->fid.key = key;
    region->fid.mem_desc = region;
    region->domain = domain;
    region->base = base;
    region->size = size;
    regions[place] = region;
    *out = &region->fid;
    return 0;
}

static void assert_registered(const void *memory, size_t size, const void *desc)
{
    const region_t *region = desc;

    if (fake.local) {
        assert_non_null(region);
        assert_true((const uint8_t *) memory >= region->base);
        assert_true((const uint8_t *) memory + size <= region->base + region->size);
    }
}

/* What was handed over is the provider's until it completes. */
static void use_context(void *context)
{
    if (fake.context) {
        memset(context, GARBAGE, sizeof(struct fi_context2));
    }
}

/* ---- its data path ---- */

static ssize_t recv_message(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct endpoint *ep = (struct endpoint *) (void *) fid;
    item_t *item;

    (void) flags;
    if (fake.no_room > 0) {
        fake.no_room--;
        return -FI_EAGAIN;
    }
    assert_int_equal(msg->iov_count, 1);
    assert_registered(msg->msg_iov->iov_base, msg->msg_iov->iov_len,
                      NULL != msg->desc ? msg->desc[0] : NULL);
    item = push(&ep->posted);
    item->data = msg->msg_iov->iov_base;
    item->size = msg->msg_iov->iov_len;
    item->context = msg->context;
    use_context(msg->context);
    memset(item->data, GARBAGE, item->size);
    return 0;
}

static int put_on_wire(struct endpoint *ep, const void *data, size_t size, fi_addr_t to)
{
    const size_t prefix = fake.tx_prefix ? fake.prefix : 0;
    item_t *item;

    assert_in_range(size, prefix + 1, prefix + LARGEST);
    assert_in_range(to, 0, ENDPOINTS - 1);
    memset((void *) (uintptr_t) data, GARBAGE, prefix);
    item = push(&endpoints[to].wire);
    item->size = size - prefix;
    item->from = ep->index;
    memcpy(item->copy, (const uint8_t *) data + prefix, item->size);
    return 0;
}

static ssize_t refused(void)
{
    const int error = fake.refuse_error;

    fake.refuse_error = 0;
    return -error;
}

static ssize_t inject(struct fid_ep *fid, const void *data, size_t size, fi_addr_t to)
{
    assert_in_range(size, 1, INJECT);
    return 0 != fake.refuse_error ? refused()
                                  : put_on_wire((struct endpoint *) (void *) fid, data, size, to);
}

static ssize_t send_message(struct fid_ep *fid, const void *data, size_t size, void *desc,
                            fi_addr_t to, void *context)
{
    struct endpoint *ep = (struct endpoint *) (void *) fid;
    item_t *item;

    if (0 != fake.refuse_error) {
        return refused();
    }
    assert_registered(data, size, desc);
    if (0 == fake.send_error) {
        put_on_wire(ep, data, size, to);
    }
    item = push(&ep->done);
    item->context = context;
    item->flags = FI_SEND;
    item->error = fake.send_error;
    fake.send_error = 0;
    use_context(context);
    return 0;
}

/* A datagram meets a buffer. */
static void arrive(struct endpoint *ep)
{
    const size_t prefix = fake.rx_prefix ? fake.prefix : 0;
    item_t *datagram = pop(&ep->wire);
    item_t *buffer = pop(&ep->posted);
    item_t *done = push(&ep->done);
    const size_t room = buffer->size - prefix;
    const bool cut = datagram->size > room;

    memcpy(buffer->data + prefix, datagram->copy, cut ? room : datagram->size);
    done->context = buffer->context;
    done->flags = FI_RECV;
    done->size = prefix + (cut ? room : datagram->size);
    done->from = fake.source ? datagram->from : FI_ADDR_NOTAVAIL;
    done->error = cut && !fake.cuts ? FI_ETRUNC : fake.recv_error;
    fake.recv_error = 0;
}

/* One completion a call. */
static ssize_t read_from(struct fid_cq *cq, void *entries, size_t count, fi_addr_t *from)
{
    struct endpoint *ep = cq->fid.context;
    struct fi_cq_msg_entry *entry = entries;
    const item_t *done;

    assert_true(ep->open);
    assert_in_range(count, 1, SIZE_MAX);
    if (is_empty(&ep->done) && !is_empty(&ep->wire) && !is_empty(&ep->posted)) {
        arrive(ep);
    }
    if (is_empty(&ep->done)) {
        return -FI_EAGAIN;
    }
    if (0 != ep->done.item[ep->done.head % QUEUE].error) {
        return -FI_EAVAIL;
    }
    done = pop(&ep->done);
    entry->op_context = done->context;
    entry->flags = done->flags;
    entry->len = done->size;
    if (NULL != from) {
        *from = done->from;
    }
    return 1;
}

static ssize_t read_plain(struct fid_cq *cq, void *entries, size_t count)
{
    return read_from(cq, entries, count, NULL);
}

static ssize_t read_error(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
    struct endpoint *ep = cq->fid.context;
    const item_t *done = pop(&ep->done);

    (void) flags;
    assert_int_not_equal(done->error, 0);
    entry->op_context = done->context;
    entry->flags = done->flags;
    entry->err = done->error;
    return 1;
}

/* ---- opening it ---- */

static struct fi_ops_cq cq_ops = {
    .size = sizeof(cq_ops), .read = read_plain, .readfrom = read_from, .readerr = read_error};
static struct fi_ops_msg msg_ops = {
    .size = sizeof(msg_ops), .recvmsg = recv_message, .send = send_message, .inject = inject};

static int insert_address(struct fid_av *av, const void *address, size_t count, fi_addr_t *out,
                          uint64_t flags, void *context)
{
    (void) av, (void) flags, (void) context;
    assert_int_equal(count, 1);
    memcpy(out, address, sizeof(*out));
    return *out < ENDPOINTS ? 1 : 0;
}

static int remove_address(struct fid_av *av, fi_addr_t *address, size_t count, uint64_t flags)
{
    (void) av, (void) address, (void) count, (void) flags;
    return 0;
}

static struct fi_ops_av av_ops = {
    .size = sizeof(av_ops), .insert = insert_address, .remove = remove_address};

static int get_name(fid_t fid, void *name, size_t *len)
{
    const struct endpoint *ep = (const struct endpoint *) (const void *) fid;

    assert_in_range(*len, sizeof(ep->index), SIZE_MAX);
    memcpy(name, &ep->index, sizeof(ep->index));
    *len = sizeof(ep->index);
    return 0;
}

static struct fi_ops_cm cm_ops = {.size = sizeof(cm_ops), .getname = get_name};

static int open_av(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **out,
                   void *context)
{
    (void) domain, (void) attr, (void) context;
    *out = make(sizeof(**out), FI_CLASS_AV);
    (*out)->ops = &av_ops;
    return 0;
}

static int open_cq(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **out,
                   void *context)
{
    (void) domain, (void) context;
    assert_int_equal(attr->format, FI_CQ_FORMAT_MSG);
    *out = make(sizeof(**out), FI_CLASS_CQ);
    (*out)->ops = &cq_ops;
    return 0;
}

static int open_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **out,
                         void *context)
{
    (void) domain, (void) info, (void) context;
    for (size_t i = 0; i < ENDPOINTS; i++) {
        if (!endpoints[i].open) {
            memset(&endpoints[i], 0, sizeof(endpoints[i]));
            endpoints[i].open = true;
            endpoints[i].index = i;
            endpoints[i].fid.fid.fclass = FI_CLASS_EP;
            endpoints[i].fid.fid.ops = &fid_ops;
            endpoints[i].fid.cm = &cm_ops;
            endpoints[i].fid.msg = &msg_ops;
            live++;
            *out = &endpoints[i].fid;
            return 0;
        }
    }
    return -FI_ENOMEM;
}

static struct fi_ops_domain domain_ops = {
    .size = sizeof(domain_ops), .av_open = open_av, .cq_open = open_cq, .endpoint = open_endpoint};
static struct fi_ops_mr mr_ops = {.size = sizeof(mr_ops), .reg = register_memory};

static int open_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **out,
                       void *context)
{
    (void) fabric, (void) info, (void) context;
    *out = make(sizeof(**out), FI_CLASS_DOMAIN);
    (*out)->ops = &domain_ops;
    (*out)->mr = &mr_ops;
    return 0;
}

static struct fi_ops_fabric fabric_ops = {.size = sizeof(fabric_ops), .domain = open_domain};

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
    (void) attr, (void) context;
    *out = make(sizeof(**out), FI_CLASS_FABRIC);
    (*out)->ops = &fabric_ops;
    return 0;
}

/* ---- finding it ---- */

static const struct offer {
    const char *provider, *domain, *nic, *ip;
} * offers;
static size_t offer_count;

static const struct offer only_fake[] = {{"verbs", "fake0-dgram", "fake0", NULL}};

static void set_address(struct fi_info *info, const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    const bool is_v4 = 1 == inet_pton(AF_INET, text, &v4.sin_addr);

    info->addr_format = is_v4 ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
    info->src_addrlen = is_v4 ? sizeof(v4) : sizeof(v6);
    info->src_addr = calloc(1, info->src_addrlen);
    assert_non_null(info->src_addr);
    if (!is_v4) {
        assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    }
    memcpy(info->src_addr, is_v4 ? (void *) &v4 : (void *) &v6, info->src_addrlen);
}

static struct fi_info *make_info(const struct offer *offer)
{
    struct fi_info *info = fi_allocinfo();

    assert_non_null(info);
    info->caps = FI_MSG | (fake.source ? FI_SOURCE : 0);
    info->addr_format = FI_ADDR_PSMX;
    info->ep_attr->type = FI_EP_DGRAM;
    info->ep_attr->max_msg_size = LARGEST;
    info->ep_attr->msg_prefix_size = fake.tx_prefix || fake.rx_prefix ? fake.prefix : 0;
    info->tx_attr->mode = fake.tx_prefix ? FI_MSG_PREFIX : 0;
    info->rx_attr->mode = fake.rx_prefix ? FI_MSG_PREFIX : 0;
    info->mode = info->tx_attr->mode | info->rx_attr->mode | (fake.context ? FI_CONTEXT2 : 0);
    info->tx_attr->inject_size = INJECT;
    info->tx_attr->size = info->rx_attr->size = QUEUE;
    info->tx_attr->iov_limit = info->rx_attr->iov_limit = 4;
    info->domain_attr->mr_mode = fake.local ? FI_MR_LOCAL : 0;
    info->domain_attr->name = strdup(offer->domain);
    info->fabric_attr->name = strdup("fabric");
    info->fabric_attr->prov_name = strdup(offer->provider);
    if (NULL != offer->ip) {
        set_address(info, offer->ip);
    }
    if (NULL != offer->nic) {
        info->nic = make(sizeof(*info->nic), FI_CLASS_NIC);
        live--; /* it goes with the info */
        info->nic->device_attr = calloc(1, sizeof(*info->nic->device_attr));
        assert_non_null(info->nic->device_attr);
        info->nic->device_attr->name = strdup(offer->nic);
    }
    return info;
}

static int close_nic(struct fid *fid)
{
    struct fid_nic *nic = (struct fid_nic *) (void *) fid;

    free(nic->device_attr->name);
    free(nic->device_attr);
    free(nic);
    return 0;
}

static int dup_nic(struct fid *fid, int command, void *argument);
static struct fi_ops nic_ops = {.size = sizeof(nic_ops), .close = close_nic, .control = dup_nic};

/* fi_dupinfo() asks for a copy this way. */
static int dup_nic(struct fid *fid, int command, void *argument)
{
    const struct fid_nic *nic = (const struct fid_nic *) (const void *) fid;
    struct fid_nic *copy = calloc(1, sizeof(*copy));

    assert_int_equal(command, FI_DUP);
    assert_non_null(copy);
    copy->fid = nic->fid;
    copy->device_attr = calloc(1, sizeof(*copy->device_attr));
    assert_non_null(copy->device_attr);
    copy->device_attr->name = strdup(nic->device_attr->name);
    *(struct fid_nic **) argument = copy;
    return 0;
}

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
               const struct fi_info *hints, struct fi_info **out)
{
    const uint64_t modes = FI_MSG_PREFIX | FI_CONTEXT | FI_CONTEXT2;
    struct fi_info **end = out;

    (void) version, (void) node, (void) service, (void) flags;
    assert_int_equal(hints->ep_attr->type, FI_EP_DGRAM);
    *out = NULL;
    if (hints->caps & FI_SOURCE && !fake.source) {
        return -FI_ENODATA;
    }
    if (modes != (hints->mode & modes) && NULL == hints->domain_attr->name) {
        return -FI_ENODATA;
    }
    for (size_t i = 0; i < offer_count; i++) {
        *end = make_info(&offers[i]);
        if (NULL != (*end)->nic) {
            (*end)->nic->fid.ops = &nic_ops;
        }
        end = &(*end)->next;
    }
    return NULL != *out ? 0 : -FI_ENODATA;
}

static struct sockaddr_in interface_ip[2];
static struct sockaddr_in interface_mask;
static struct ifaddrs interfaces[2];

/* up0 has 198.51.100.1/24; idle0, a bridge without members, 203.0.113.1/24. */
int getifaddrs(struct ifaddrs **out)
{
    static char names[2][8] = {"up0", "idle0"};
    static const char *const ips[2] = {"198.51.100.1", "203.0.113.1"};

    interface_mask.sin_family = AF_INET;
    interface_mask.sin_addr.s_addr = htonl(0xffffff00);
    for (int i = 0; i < 2; i++) {
        interface_ip[i].sin_family = AF_INET;
        inet_pton(AF_INET, ips[i], &interface_ip[i].sin_addr);
        interfaces[i] = (struct ifaddrs){
            .ifa_next = i + 1 < 2 ? &interfaces[i + 1] : NULL,
            .ifa_name = names[i],
            .ifa_flags = IFF_UP | (0 == i ? IFF_RUNNING : 0),
            .ifa_addr = (struct sockaddr *) &interface_ip[i],
            .ifa_netmask = (struct sockaddr *) &interface_mask,
        };
    }
    *out = interfaces;
    return 0;
}

void freeifaddrs(struct ifaddrs *list)
{
    assert_ptr_equal(list, interfaces);
}

/* ---- helpers ---- */

static const btl_ib_log_t silent = {.print = NULL};

static int list_devices(btl_ib_device_t **list)
{
    return btl_ib_ofi_type.devices("", &silent, list);
}

static btl_ib_transport_t *open_with(uint32_t rx_depth, uint32_t rx_size)
{
    const btl_ib_open_params_t params = {.rx_depth = rx_depth, .rx_size = rx_size};
    btl_ib_device_t *list = NULL;
    btl_ib_transport_t *t = NULL;

    offers = only_fake;
    offer_count = COUNT(only_fake);
    assert_int_equal(list_devices(&list), 1);
    assert_int_equal(btl_ib_ofi_type.open(&list[0], &params, &t), 0);
    btl_ib_ofi_type.devices_free(list, 1);
    return t;
}

/* Two transports, and memory to send from. */
typedef struct pair {
    btl_ib_transport_t *a, *b;
    btl_ib_addr_t b_at_a, a_at_b;
    uint8_t *memory;
    void *mem;
} pair_t;

enum { SLOT = 512, SLOTS = 16 };

static void open_pair(pair_t *pair, uint32_t rx_depth, uint32_t rx_size)
{
    pair->a = open_with(rx_depth, rx_size);
    pair->b = open_with(rx_depth, rx_size);
    assert_int_equal(
        pair->a->ops->addr_add(pair->a, pair->b->address, pair->b->address_len, &pair->b_at_a), 0);
    assert_int_equal(
        pair->b->ops->addr_add(pair->b, pair->a->address, pair->a->address_len, &pair->a_at_b), 0);
    pair->memory = malloc(SLOT * SLOTS);
    assert_non_null(pair->memory);
    assert_int_equal(pair->a->ops->mem_register(pair->a, pair->memory, SLOT * SLOTS, &pair->mem),
                     0);
    assert_int_equal(NULL != pair->mem, fake.local);
}

static void close_pair(pair_t *pair)
{
    pair->a->ops->stop(pair->a);
    pair->b->ops->stop(pair->b);
    pair->a->ops->mem_deregister(pair->a, pair->mem);
    free(pair->memory);
    pair->a->ops->close(pair->a);
    pair->b->ops->close(pair->b);
    assert_int_equal(live, 0);
}

static uint8_t pattern(uint32_t size, uint32_t at)
{
    return (uint8_t) (size * 7 + at * 13 + 1);
}

static int send_one(pair_t *pair, uint32_t slot, uint32_t size, int *error)
{
    uint8_t *data = pair->memory + slot * SLOT + pair->a->attr.headroom;
    const btl_ib_tx_t tx = {
        .to = pair->b_at_a,
        .niov = 1,
        .size = size,
        .iov = {{.iov_base = data, .iov_len = size}},
        .mem = pair->mem,
        .context = data,
    };

    for (uint32_t i = 0; i < size; i++) {
        data[i] = pattern(size, i);
    }
    return pair->a->ops->send(pair->a, &tx, 1, error);
}

static void must_send(pair_t *pair, uint32_t slot, uint32_t size)
{
    int error = 0;

    assert_int_equal(send_one(pair, slot, size, &error), 1);
}

static void assert_datagram(const pair_t *pair, const btl_ib_event_t *event, uint32_t size)
{
    assert_int_equal(event->type, BTL_IB_EVENT_RECV);
    assert_int_equal(event->size, size);
    assert_int_equal((uintptr_t) event->data % 8, 0);
    assert_int_equal(event->from, fake.source ? pair->a_at_b : BTL_IB_ADDR_UNKNOWN);
    for (uint32_t i = 0; i < size; i++) {
        assert_int_equal(event->data[i], pattern(size, i));
    }
}

static void must_receive(pair_t *pair, uint32_t size)
{
    btl_ib_event_t event;

    assert_int_equal(pair->b->ops->poll(pair->b, &event, 1), 1);
    assert_datagram(pair, &event, size);
    pair->b->ops->repost(pair->b, &event.buffer, 1);
}

static int forget(void **state)
{
    (void) state;
    memset(&fake, 0, sizeof(fake));
    return 0;
}

/* ---- tests ---- */

static void exchange_all(void)
{
    btl_ib_event_t event;
    pair_t pair;

    open_pair(&pair, 4, 0);
    assert_int_equal(pair.a->attr.headroom, fake.tx_prefix ? fake.prefix : 0);
    assert_int_equal(pair.a->attr.needs_registration, fake.local);
    assert_int_equal(pair.a->attr.knows_source, fake.source);
    assert_int_equal(pair.a->attr.max_datagram,
                     LARGEST - (fake.tx_prefix || fake.rx_prefix ? fake.prefix : 0));
    for (uint32_t size = 1; size <= pair.a->attr.max_datagram; size++) {
        must_send(&pair, size % SLOTS, size);
        if (size > pair.a->attr.inline_size) {
            assert_int_equal(pair.a->ops->poll(pair.a, &event, 1), 1);
            assert_int_equal(event.type, BTL_IB_EVENT_SENT);
            assert_ptr_equal(event.context,
                             pair.memory + size % SLOTS * SLOT + pair.a->attr.headroom);
        }
        must_receive(&pair, size);
        assert_int_equal(pair.a->ops->poll(pair.a, &event, 1), 0);
    }
    close_pair(&pair);
}

static void test_modes(void **state)
{
    static const size_t prefixes[] = {8, 40, 64};

    (void) state;
    for (unsigned bits = 0; bits < 32; bits++) {
        for (size_t i = 0; i < COUNT(prefixes); i++) {
            fake.tx_prefix = bits & 1;
            fake.rx_prefix = bits & 2;
            fake.local = bits & 4;
            fake.context = bits & 8;
            fake.source = bits & 16;
            fake.prefix = prefixes[i];
            exchange_all();
        }
    }
}

/* All memory that may be registered at once has keys of its own. */
static void test_keys(void **state)
{
    static uint8_t memory[64];
    void *more[3];
    pair_t pair;

    (void) state;
    fake.local = true;
    open_pair(&pair, 4, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pair.a->ops->mem_register(pair.a, memory, sizeof(memory), &more[i]), 0);
        assert_non_null(more[i]);
    }
    for (int i = 0; i < 3; i++) {
        pair.a->ops->mem_deregister(pair.a, more[i]);
    }
    close_pair(&pair);
}

/* The first after a silence at once, then all that there is, though it comes one a call. */
static void test_batches(void **state)
{
    btl_ib_event_t events[16];
    pair_t pair;

    (void) state;
    open_pair(&pair, 16, 0);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 12; i++) {
            must_send(&pair, i, i + 1);
        }
        assert_int_equal(pair.b->ops->poll(pair.b, events, 16), 1);
        assert_int_equal(pair.b->ops->poll(pair.b, events + 1, 5), 5);
        assert_int_equal(pair.b->ops->poll(pair.b, events + 6, 10), 6);
        assert_int_equal(pair.b->ops->poll(pair.b, events + 12, 4), 0);
        for (uint32_t i = 0; i < 12; i++) {
            assert_datagram(&pair, &events[i], i + 1);
            pair.b->ops->repost(pair.b, &events[i].buffer, 1);
        }
    }
    close_pair(&pair);
}

/* Buffers that could not be posted are posted later, by whichever call comes first. */
static void test_no_room(void **state)
{
    pair_t pair;
    btl_ib_event_t events[4];
    void *buffers[4];

    (void) state;
    open_pair(&pair, 4, 0);
    for (int round = 0; round < 20; round++) {
        int got = 0;

        for (uint32_t i = 0; i < 4; i++) {
            must_send(&pair, i, i + 1);
        }
        while (got < 4) {
            assert_int_equal(pair.b->ops->poll(pair.b, &events[got], 1), 1);
            assert_datagram(&pair, &events[got], (uint32_t) got + 1);
            buffers[got] = events[got].buffer;
            got++;
        }
        fake.no_room = round % 6;
        pair.b->ops->repost(pair.b, buffers, 4);
        for (int i = 0; i < 6; i++) {
            assert_int_equal(pair.b->ops->poll(pair.b, events, 1), 0);
        }
        assert_int_equal(endpoints[1].posted.tail - endpoints[1].posted.head, 4);
    }
    close_pair(&pair);
}

/* A datagram that is too long costs nothing but itself, whether the provider says so or cuts it. */
static void test_too_long(void **state)
{
    btl_ib_event_t event;
    pair_t pair;

    (void) state;
    for (int cuts = 0; cuts < 2; cuts++) {
        fake.cuts = cuts;
        open_pair(&pair, 2, 100);
        for (uint32_t size = 98; size < 110; size++) {
            must_send(&pair, 0, size);
            (void) pair.a->ops->poll(pair.a, &event, 1);
            if (size <= 100) {
                must_receive(&pair, size);
            } else {
                assert_int_equal(pair.b->ops->poll(pair.b, &event, 1), 0);
            }
        }
        assert_int_equal(endpoints[1].posted.tail - endpoints[1].posted.head, 2);
        must_send(&pair, 0, 100);
        must_receive(&pair, 100);
        close_pair(&pair);
    }
}

static void test_errors(void **state)
{
    btl_ib_event_t event;
    pair_t pair;
    int error = 0;

    (void) state;
    open_pair(&pair, 4, 0);
    /* A send that failed later: lost, and its memory is free. */
    fake.send_error = FI_EHOSTUNREACH;
    must_send(&pair, 3, INJECT + 1);
    assert_int_equal(pair.a->ops->poll(pair.a, &event, 1), 1);
    assert_int_equal(event.type, BTL_IB_EVENT_SENT);
    assert_ptr_equal(event.context, pair.memory + 3 * SLOT);
    assert_int_equal(pair.b->ops->poll(pair.b, &event, 1), 0);
    /* A send that was not taken, of either kind. */
    fake.refuse_error = FI_EAGAIN;
    assert_int_equal(send_one(&pair, 0, 10, &error), 0);
    assert_int_equal(error, EAGAIN);
    fake.refuse_error = FI_EHOSTUNREACH;
    assert_int_equal(send_one(&pair, 0, INJECT + 1, &error), 0);
    assert_int_equal(error, EHOSTUNREACH);
    fake.refuse_error = FI_EOTHER; /* none of errno's */
    assert_int_equal(send_one(&pair, 0, 10, &error), 0);
    assert_int_equal(error, EIO);
    /* As many sends as fit at once: those that were not taken kept no place. */
    for (uint32_t i = 0; i < pair.a->attr.tx_depth; i++) {
        must_send(&pair, i % SLOTS, INJECT + 1);
        pop(&endpoints[1].wire);
    }
    assert_int_equal(send_one(&pair, 0, INJECT + 1, &error), 0);
    assert_int_equal(error, EAGAIN);
    /* The device is gone. */
    must_send(&pair, 0, 10);
    fake.recv_error = FI_EIO;
    assert_int_equal(pair.b->ops->poll(pair.b, &event, 1), 1);
    assert_int_equal(event.type, BTL_IB_EVENT_FAILED);
    assert_int_equal(event.error, EIO);
    close_pair(&pair);
}

/* ---- which devices are offered ---- */

#define LAYER "udp;ofi_rxd"

static const struct {
    struct offer offers[6];
    const char *chosen[3];
    const char *interface;
} choices[] = {
    {{{"udp", "up0", NULL, "198.51.100.1"}}, {"up0"}, "up0"},
    {{{LAYER, "up0", NULL, "198.51.100.1"}, {"udp", "up0", NULL, "198.51.100.1"}}, {"up0"}, "up0"},
    {{{LAYER, "up0", NULL, "198.51.100.1"}}, {NULL}, NULL},
    {{{"udp", "idle0", NULL, "203.0.113.1"}}, {NULL}, NULL},
    {{{"udp", "idle0", NULL, "203.0.113.1"}, {"udp", "up0", NULL, "198.51.100.1"}}, {"up0"}, "up0"},
    {{{"udp", "x", NULL, "fe80::1"}}, {NULL}, NULL},
    {{{"udp", "up0", NULL, "fe80::1"}, {"udp", "up0", NULL, "198.51.100.1"}}, {"up0"}, "up0"},
    {{{"udp", "up0", NULL, "fd00::1"}, {"udp", "up0", NULL, "198.51.100.1"}}, {"up0"}, "up0"},
    {{{"udp", "up0", NULL, "198.51.100.1"}, {"udp", "up0", NULL, "fd00::1"}}, {"up0"}, "up0"},
    {{{"udp", "up0", NULL, "198.51.100.1"}, {"udp", "up0", NULL, "192.0.2.1"}}, {"up0"}, "up0"},
    {{{"udp", "x", NULL, "192.0.2.1"}, {"udp", "y", NULL, "fd00::1"}}, {"x", "y"}, ""},
    {{{"udp", "up0", NULL, "198.51.100.1"}, {"verbs", "m0-dgram", "m0", NULL}}, {"m0"}, ""},
    {{{"verbs", "m0-dgram", "m0", NULL}, {"efa", "e0-dgrm", "e0", NULL}}, {"e0"}, ""},
    {{{"efa", "e0-dgrm", "e0", NULL}, {"usnic", "usnic_0", NULL, "198.51.100.1"}},
     {"usnic_0"},
     "up0"},
    {{{"new", "n0", NULL, NULL}, {"udp", "up0", NULL, "198.51.100.1"}}, {"up0"}, "up0"},
    {{{"new", "n0", NULL, NULL}, {"other", "o0", NULL, NULL}}, {"n0", "o0"}, ""},
    /* What can't be used is no better provider. */
    {{{"usnic", "usnic_0", NULL, "203.0.113.1"}, {"udp", "up0", NULL, "198.51.100.1"}},
     {"up0"},
     "up0"},
};

static void assert_choice(size_t which)
{
    btl_ib_device_t *list = NULL;
    int wanted = 0;
    int count;

    offers = choices[which].offers;
    offer_count = 0;
    while (offer_count < 6 && NULL != offers[offer_count].provider) {
        offer_count++;
    }
    while (NULL != choices[which].chosen[wanted]) {
        wanted++;
    }
    count = list_devices(&list);
    if (count != wanted) {
        fail_msg("choice %zu: %d devices, not %d", which, count, wanted);
    }
    for (int i = 0; i < count; i++) {
        assert_string_equal(list[i].name, choices[which].chosen[i]);
    }
    if (count > 0) {
        assert_string_equal(list[0].interface, choices[which].interface);
        assert_int_equal(list[0].prefix_bits, '\0' != list[0].interface[0] ? 24 : 0);
    }
    btl_ib_ofi_type.devices_free(list, count);
}

static void test_choices(void **state)
{
    (void) state;
    for (size_t i = 0; i < COUNT(choices); i++) {
        assert_choice(i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_modes, forget),    cmocka_unit_test_setup(test_keys, forget),
        cmocka_unit_test_setup(test_batches, forget),  cmocka_unit_test_setup(test_no_room, forget),
        cmocka_unit_test_setup(test_too_long, forget), cmocka_unit_test_setup(test_errors, forget),
        cmocka_unit_test_setup(test_choices, forget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
