/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the tests of transports have in common: two of them in one process over the loopback
 * device, and datagrams that say where they belong, between them.
 */

#ifndef BTL_IB_TEST_TRANSPORTS_H
#define BTL_IB_TEST_TRANSPORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport.h"
#include "unit.h"

#define PATIENCE_MS 5000
#define BATCH_MAX   64

/* What there is to test. */
typedef struct test_bed {
    const btl_ib_transport_type_t *type; /* NULL: not built in */
    btl_ib_device_t *devices;
    int device_count;
    const btl_ib_device_t *device; /* a loopback device, NULL: there is none */
} test_bed_t;

extern test_bed_t bed;

/* Fill in the bed; `family` may be AF_UNSPEC. free_devices() empties it. */
void find_device(const char *type, const char *provider, sa_family_t family);
int free_devices(void **state);

uint64_t now_ms(void);

/* Poll, at the time that the clock tells. */
int poll_now(btl_ib_transport_t *t, btl_ib_event_t *events, int max);

/* Whatever can go wrong in these fails the test. */
btl_ib_transport_t *open_with(btl_ib_open_params_t params);
void close_transport(btl_ib_transport_t *t);
btl_ib_addr_t add(btl_ib_transport_t *t, const btl_ib_transport_t *peer);

/* Memory to send from: a slot for each datagram of a batch. */
typedef struct slots {
    uint8_t *base;
    size_t stride;
    void *mem;
} slots_t;

slots_t make_slots(btl_ib_transport_t *t);
void free_slots(btl_ib_transport_t *t, const slots_t *slots);

/* One datagram of `size` bytes that say its size, slot and place, in `niov` pieces that lie
 * apart. */
btl_ib_tx_t make_tx(const btl_ib_transport_t *t, const slots_t *slots, uint32_t slot,
                    btl_ib_addr_t to, uint32_t size, uint32_t niov);

/* It arrived as it was made. Returns its slot. */
uint32_t assert_intact(const btl_ib_event_t *event);

/* The next event, or datagram, that is there within our patience. */
btl_ib_event_t wait_event(btl_ib_transport_t *t);
btl_ib_event_t wait_recv(btl_ib_transport_t *t);
void repost(btl_ib_transport_t *t, const btl_ib_event_t *event);

/* Hand over all of a batch; what was sent before may have to be collected for that. Returns how
 * many BTL_IB_EVENT_SENT it saw. */
int send_all(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n);

/* A datagram makes its way from `a` to `to`, which is `b`. Returns the peer that `b` took it
 * for. */
btl_ib_addr_t assert_reaches(btl_ib_transport_t *a, btl_ib_addr_t to, btl_ib_transport_t *b,
                             uint32_t size);
void assert_idle(btl_ib_transport_t *t);

/* Two that know each other; the slots are of `a`. */
typedef struct pair {
    btl_ib_transport_t *a, *b;
    btl_ib_addr_t b_at_a, a_at_b;
    slots_t slots;
} pair_t;

pair_t open_pair(btl_ib_open_params_t params);
void close_pair(pair_t *pair);

/* Every datagram of the batch arrives once, intact, from its sender; and gives its memory back
 * once, if it needed it. Asks for `max` events at a time. */
void exchange(const pair_t *pair, const btl_ib_tx_t *batch, int n, int max);

#endif
