/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Memory as a transport. */

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "memory_transport.h"
#include "wire.h"

enum {
    SLOTS = 128, /* datagrams on their way to one side; a power of two */
};

typedef struct slot {
    uint32_t size;
    uint8_t data[DATAGRAM] __attribute__((aligned(8)));
} slot_t;

/* One end, and what is on its way to it. */
typedef struct end {
    btl_ib_transport_t transport;
    struct end *other;
    uint32_t first, next;
    slot_t slots[SLOTS];
} end_t;

const char wire_queues[] = "P,256,256,128,32:S,1472,1024,512,64";

static int wire_send(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error)
{
    end_t *to = ((end_t *) (void *) t)->other;

    for (int i = 0; i < n; i++) {
        if (to->next - to->first == SLOTS) {
            *error = EAGAIN;
            return i;
        }
        slot_t *slot = &to->slots[to->next++ % SLOTS];
        uint8_t *at = slot->data;
        for (uint32_t k = 0; k < batch[i].niov; k++) {
            memcpy(at, batch[i].iov[k].iov_base, batch[i].iov[k].iov_len);
            at += batch[i].iov[k].iov_len;
        }
        slot->size = batch[i].size;
    }
    return n;
}

/* All that are handed over are given back before the next poll. */
static int wire_poll(btl_ib_transport_t *t, uint64_t now, btl_ib_event_t *events, int max)
{
    end_t *end = (end_t *) (void *) t;
    int n = 0;

    if (end->first != end->next) {
        wire_received();
    }
    for (uint32_t at = end->first; at != end->next && n < max; at++, n++) {
        slot_t *slot = &end->slots[at % SLOTS];
        events[n] = (btl_ib_event_t){
            .type = BTL_IB_EVENT_RECV, .size = slot->size, .from = 0, .data = slot->data};
    }
    return n;
}

static void wire_repost(btl_ib_transport_t *t, void *const *buffers, int n)
{
    ((end_t *) (void *) t)->first += (uint32_t) n;
}

btl_ib_transport_t *wire_open(void)
{
    static end_t ends[2];
    static int opened;
    end_t *end = &ends[opened];

    end->other = &ends[1 - opened++];
    end->transport = wire_transport(0, SLOTS);
    return &end->transport;
}
