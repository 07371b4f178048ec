/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the tests of transport verbs over UD have in common: a pair of transports on devices that
 * are not there (fake_verbs.h). Whatever can go wrong in these functions fails the test.
 */

#ifndef BTL_IB_TEST_UD_PAIR_H
#define BTL_IB_TEST_UD_PAIR_H

#include "fake_device.h"
#include "fake_verbs.h"
#include "ud_inside.h"
#include "unit.h"

enum {
    SIZE = 600,
    SLOTS = 512,
    CHANNELS = 2,
    SMALL = 0,
    LARGE = 1,
    NUM_SMALL = 32,
    NUM_LARGE = 64,
    BATCH_SMALL = 5, /* posted again by one call */
    BATCH_LARGE = 9,
};

extern const btl_ib_transport_type_t *type;
extern const btl_ib_open_params_t usual; /* two queues, the smaller one with credits */
extern const btl_ib_log_t log_all;       /* said.h */
extern uint8_t memory[SLOTS][SIZE];      /* to send from */

/* One device, nothing said. At the end nothing is left of anything. */
int set_up(void **state);
int tear_down(void **state);

/* Returns the result of open() of the first device there is. */
int try_open(btl_ib_open_params_t params, int gid_index, btl_ib_transport_t **t);
btl_ib_transport_t *open_one(btl_ib_open_params_t params);
void close_one(btl_ib_transport_t *t);

btl_ib_addr_t add(btl_ib_transport_t *t, const btl_ib_transport_t *peer);
uint32_t qpn_of(const btl_ib_transport_t *t, uint32_t queue);

/* `a` knows `b`, and sends from `memory`. */
typedef struct pair {
    btl_ib_transport_t *a, *b;
    btl_ib_addr_t to_b;
    void *mem;
} pair_t;

pair_t open_pair(btl_ib_open_params_t params);
void close_pair(pair_t *pair);

/* Send datagrams of slots from `first` on. Returns how many left; send_all() demands that all
 * did. */
int send_some(const pair_t *pair, uint32_t first, int count, uint32_t size, uint8_t channel,
              int *error);
void send_all(const pair_t *pair, uint32_t first, int count, uint32_t size, uint8_t channel);

/* Poll once; all events must be of that type. Returns how many. */
int poll_for(btl_ib_transport_t *t, btl_ib_event_type_t expected, btl_ib_event_t *events, int max);

/* Poll until nothing comes, and give buffers back. Returns how many events there were, all of that
 * type. */
int poll_all(btl_ib_transport_t *t, btl_ib_event_type_t expected);

/* The next event, and the only one, says that the device failed, and why. */
void assert_failed(btl_ib_transport_t *t, int error);

#define UD_TEST(name) TEST_WITH(name, set_up, tear_down)

#endif
