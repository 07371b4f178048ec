/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What usnic, efa and verbs want, in one provider: room before a datagram in one direction or both,
 * registered memory, the context of an operation for itself. It runs out of room, and fails on
 * demand. */

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "fake_provider.h"
#include "refusals.h"
#include "unit.h"

/* Found as functions of a preloaded library are (btl_ib_library.h). */
#pragma GCC visibility push(default)

enum { GARBAGE = 0xee };

fake_t fake;
int live;

struct endpoint endpoints[ENDPOINTS];

/* ---- the provider's objects ---- */

static int close_any(struct fid *fid)
{
    if (fid->fclass == FI_CLASS_EP) {
        ((struct endpoint *) (void *) fid)->open = false;
    } else {
        free(fid);
    }
    live--;
    return 0;
}

static int bind_any(struct fid *fid, struct fid *other, uint64_t flags)
{
    if (refusal_of("fi_ep_bind") != 0) {
        return -errno;
    }
    if (other->fclass == FI_CLASS_CQ) {
        ((struct endpoint *) (void *) fid)->cq = (const struct fid_cq *) (const void *) other;
    }
    return 0;
}

static int control_any(struct fid *fid, int command, void *argument)
{
    if (refusal_of("fi_enable") != 0) {
        return -errno;
    }
    return command == FI_ENABLE ? 0 : -FI_ENOSYS;
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

static region_t *regions[16];

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
    if (refusal_of("fi_mr_reg") != 0) {
        return -errno;
    }
    region_t *region;
    size_t place = COUNT(regions);

    (void) access, (void) offset, (void) flags, (void) context;
    for (size_t i = 0; i < COUNT(regions); i++) {
        if (regions[i] == NULL) {
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
    if (refusal_of("fi_recvmsg") != 0) {
        return -errno;
    }
    struct endpoint *ep = (struct endpoint *) (void *) fid;
    item_t *item;

    if (fake.no_room > 0) {
        fake.no_room--;
        return -FI_EAGAIN;
    }
    assert_int_equal(msg->iov_count, 1);
    assert_registered(msg->msg_iov->iov_base, msg->msg_iov->iov_len,
                      msg->desc != NULL ? msg->desc[0] : NULL);
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
    if (refusal_of("fi_inject") != 0) {
        return -errno;
    }
    assert_in_range(size, 1, INJECT);
    return fake.refuse_error != 0 ? refused()
                                  : put_on_wire((struct endpoint *) (void *) fid, data, size, to);
}

static ssize_t send_message(struct fid_ep *fid, const void *data, size_t size, void *desc,
                            fi_addr_t to, void *context)
{
    if (refusal_of("fi_send") != 0) {
        return -errno;
    }
    struct endpoint *ep = (struct endpoint *) (void *) fid;
    item_t *item;

    if (fake.refuse_error != 0) {
        return refused();
    }
    assert_registered(data, size, desc);
    if (fake.send_error == 0) {
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

/* Returns an endpoint that has a completion for a queue, the last that was made first: bulk goes
 * before commands here. NULL: none has. */
static struct endpoint *find_done(const struct fid_cq *cq)
{
    struct endpoint *found = NULL;

    for (size_t i = 0; i < ENDPOINTS; i++) {
        struct endpoint *ep = &endpoints[i];

        if (!ep->open || ep->cq != cq) {
            continue;
        }
        if (is_empty(&ep->done) && !is_empty(&ep->wire) && !is_empty(&ep->posted)) {
            arrive(ep);
        }
        found = is_empty(&ep->done) ? found : ep;
    }
    return found;
}

/* One completion a call. */
static ssize_t read_from(struct fid_cq *cq, void *entries, size_t count, fi_addr_t *from)
{
    if (refusal_of("fi_cq_read") != 0) {
        return -errno;
    }
    struct endpoint *ep = find_done(cq);
    struct fi_cq_msg_entry *entry = entries;
    const item_t *done;

    fake.reads++;
    assert_in_range(count, 1, SIZE_MAX);
    if (ep == NULL) {
        return -FI_EAGAIN;
    }
    if (ep->done.item[ep->done.head % QUEUE].error != 0) {
        return -FI_EAVAIL;
    }
    done = pop(&ep->done);
    entry->op_context = done->context;
    entry->flags = done->flags;
    entry->len = done->size;
    if (from != NULL) {
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
    struct endpoint *ep = find_done(cq);
    const item_t *done;

    assert_non_null(ep);
    done = pop(&ep->done);
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
    if (refusal_of("fi_av_insert") != 0) {
        return -errno;
    }
    (void) av, (void) flags, (void) context;
    assert_int_equal(count, 1);
    memcpy(out, address, sizeof(*out));
    *out &= 0xff;
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
    if (refusal_of("fi_getname") != 0) {
        return -errno;
    }
    const struct endpoint *ep = (const struct endpoint *) (const void *) fid;
    const size_t size = fake.unlike ? 40 : sizeof(ep->index);

    assert_in_range(*len, size, SIZE_MAX);
    memset(name, fake.unlike ? (int) ep->index + 1 : 0, size);
    memcpy(name, &ep->index, 1);
    *len = size;
    return 0;
}

static struct fi_ops_cm cm_ops = {.size = sizeof(cm_ops), .getname = get_name};

static int open_av(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **out,
                   void *context)
{
    if (refusal_of("fi_av_open") != 0) {
        return -errno;
    }
    (void) domain, (void) attr, (void) context;
    *out = make(sizeof(**out), FI_CLASS_AV);
    (*out)->ops = &av_ops;
    return 0;
}

static int open_cq(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **out,
                   void *context)
{
    if (refusal_of("fi_cq_open") != 0) {
        return -errno;
    }
    (void) domain, (void) context;
    assert_int_equal(attr->format, FI_CQ_FORMAT_MSG);
    fake.cq_size = attr->size;
    *out = make(sizeof(**out), FI_CLASS_CQ);
    (*out)->ops = &cq_ops;
    return 0;
}

static int open_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **out,
                         void *context)
{
    if (refusal_of("fi_endpoint") != 0) {
        return -errno;
    }
    (void) domain, (void) info, (void) context;
    if (fake.no_endpoint > 0 && --fake.no_endpoint == 0) {
        return -FI_ENOSPC;
    }
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
    if (refusal_of("fi_domain") != 0) {
        return -errno;
    }
    (void) fabric, (void) info, (void) context;
    *out = make(sizeof(**out), FI_CLASS_DOMAIN);
    (*out)->ops = &domain_ops;
    (*out)->mr = &mr_ops;
    return 0;
}

static struct fi_ops_fabric fabric_ops = {.size = sizeof(fabric_ops), .domain = open_domain};

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
    if (refusal_of("fi_fabric") != 0) {
        return -errno;
    }
    (void) attr, (void) context;
    *out = make(sizeof(**out), FI_CLASS_FABRIC);
    (*out)->ops = &fabric_ops;
    return 0;
}

/* ---- finding it ---- */

const offer_t *offers;
size_t offer_count;

static void set_address(struct fi_info *info, const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    const bool is_v4 = inet_pton(AF_INET, text, &v4.sin_addr) == 1;

    info->addr_format = is_v4 ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
    info->src_addrlen = is_v4 ? sizeof(v4) : sizeof(v6);
    info->src_addr = calloc(1, info->src_addrlen);
    assert_non_null(info->src_addr);
    if (!is_v4) {
        assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    }
    memcpy(info->src_addr, is_v4 ? (void *) &v4 : (void *) &v6, info->src_addrlen);
}

/* Like verbs: a caller that does not know all of these gets nothing. */
#define VERBS_MR (FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY)

static struct fi_link_attr nic_link = {.speed = 25000000000};

static struct fi_info *make_info(const offer_t *offer)
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
    info->domain_attr->mr_mode = fake.local ? VERBS_MR : 0;
    info->domain_attr->name = strdup(offer->domain);
    info->fabric_attr->name = strdup("fabric");
    info->fabric_attr->prov_name = strdup(offer->provider);
    if (offer->ip != NULL) {
        set_address(info, offer->ip);
    }
    if (offer->nic != NULL) {
        info->nic = make(sizeof(*info->nic), FI_CLASS_NIC);
        info->nic->device_attr = calloc(1, sizeof(*info->nic->device_attr));
        assert_non_null(info->nic->device_attr);
        info->nic->device_attr->name = strdup(offer->nic);
        info->nic->link_attr = &nic_link;
    }
    return info;
}

static int close_nic(struct fid *fid)
{
    struct fid_nic *nic = (struct fid_nic *) (void *) fid;

    free(nic->device_attr->name);
    free(nic->device_attr);
    free(nic);
    live--;
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
    copy->link_attr = nic->link_attr;
    copy->device_attr = calloc(1, sizeof(*copy->device_attr));
    assert_non_null(copy->device_attr);
    copy->device_attr->name = strdup(nic->device_attr->name);
    *(struct fid_nic **) argument = copy;
    live++;
    return 0;
}

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
               const struct fi_info *hints, struct fi_info **out)
{
    if (refusal_of("fi_getinfo") != 0) {
        return -errno;
    }
    const uint64_t modes = FI_MSG_PREFIX | FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
    struct fi_info **end = out;

    (void) version, (void) node, (void) service, (void) flags;
    assert_int_equal(hints->ep_attr->type, FI_EP_DGRAM);
    *out = NULL;
    if (hints->caps & FI_SOURCE && !fake.source) {
        return -FI_ENODATA;
    }
    if (modes != (hints->mode & modes) && hints->domain_attr->name == NULL) {
        return -FI_ENODATA;
    }
    if (fake.local && (hints->domain_attr->mr_mode & VERBS_MR) != VERBS_MR) {
        return -FI_ENODATA;
    }
    for (size_t i = 0; i < offer_count; i++) {
        *end = make_info(&offers[i]);
        if ((*end)->nic != NULL) {
            (*end)->nic->fid.ops = &nic_ops;
        }
        end = &(*end)->next;
    }
    return *out != NULL ? 0 : -FI_ENODATA;
}

static struct sockaddr_in interface_ip[2];
static struct sockaddr_in interface_mask;
static struct ifaddrs interfaces[2];

/* up0 has 198.51.100.1/24, and a carrier since just now (IFF_LOWER_UP of linux/if.h); idle0, a
 * bridge without members, has 203.0.113.1/24. */
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
            .ifa_flags = IFF_UP | (i == 0 ? 1U << 16 : 0),
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
