/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * When a channel may try to connect again, and whether that is hopeless: the history of its
 * attempts and connections. Times are in us.
 */

#ifndef BTL_IB_VERBS_RC_BACKOFF_H
#define BTL_IB_VERBS_RC_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

typedef struct btl_ib_rc_backoff {
    uint32_t failures;    /* of our attempts in a row */
    bool hopeless;        /* the last of them failed for a reason that does not just pass */
    uint64_t wanted_at;   /* since when there is something to send, 0: the last connection opened */
    uint32_t short_lives; /* connections that broke right after they had been opened, in a row */
    uint64_t retry_at;    /* not before then */
    bool gave_up;         /* sends since the last connection were told that nobody can be reached */
} btl_ib_rc_backoff_t;

/* There is something to send. */
void btl_ib_rc_backoff_wanted(btl_ib_rc_backoff_t *backoff, uint64_t now);

/* Is what waits to be sent as good as lost? The attempt under way began at `begun_at`; 0: there is
 * none. */
bool btl_ib_rc_backoff_hopeless(btl_ib_rc_backoff_t *backoff, uint64_t now, uint64_t begun_at);

/* The peer connects itself. */
void btl_ib_rc_backoff_crossed(btl_ib_rc_backoff_t *backoff, uint64_t now);

/* An attempt failed; `passes`: that says nothing of the next one. */
void btl_ib_rc_backoff_failed(btl_ib_rc_backoff_t *backoff, uint64_t now, bool passes);

/* Is it time to tell the user that the peer cannot be reached? Once, before the third failure in a
 * row is counted: it may pass, as when the other host is still booting. */
bool btl_ib_rc_backoff_should_warn(const btl_ib_rc_backoff_t *backoff);

/* A connection opened. Returns whether sends were given up as lost before that, and have to be
 * repeated. */
bool btl_ib_rc_backoff_opened(btl_ib_rc_backoff_t *backoff);

/* A connection that opened at `opened_at` (0: it never did) broke. */
void btl_ib_rc_backoff_broke(btl_ib_rc_backoff_t *backoff, uint64_t now, uint64_t opened_at);

#endif
