/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Replay protection: which numbered datagrams arrived already. A bitmap that slides with the
 * highest number (RFC 4303, 3.4.3), in a ring of words, so that sliding clears only new words (RFC
 * 6479). Numbers begin with 1. What is older than the window counts as received.
 */

#ifndef BTL_IB_REPLAY_H
#define BTL_IB_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

/* One word is always partly ahead of the window. */
#define BTL_IB_REPLAY_WORDS 33u
/* More than a network reorders. What is older is treated as lost. */
#define BTL_IB_REPLAY_WINDOW ((BTL_IB_REPLAY_WORDS - 1) * 64)

typedef struct btl_ib_replay {
    uint64_t highest; /* 0: none came */
    uint64_t bits[BTL_IB_REPLAY_WORDS];
} btl_ib_replay_t;

static inline void btl_ib_replay_init(btl_ib_replay_t *replay)
{
    *replay = (btl_ib_replay_t){.highest = 0};
}

/* Is this number new? Changes nothing: the datagram is not known to be genuine yet. */
static inline bool btl_ib_replay_fresh(const btl_ib_replay_t *replay, uint64_t number)
{
    if (number > replay->highest) {
        return true;
    }
    return number != 0 && replay->highest - number < BTL_IB_REPLAY_WINDOW
           && !(replay->bits[number / 64 % BTL_IB_REPLAY_WORDS] >> number % 64 & 1);
}

/* A new, genuine datagram arrived. */
static inline void btl_ib_replay_mark(btl_ib_replay_t *replay, uint64_t number)
{
    if (number > replay->highest) {
        uint64_t words = number / 64 - replay->highest / 64;
        words = words < BTL_IB_REPLAY_WORDS ? words : BTL_IB_REPLAY_WORDS;
        for (uint64_t i = 0; i < words; i++) {
            replay->bits[(number / 64 - i) % BTL_IB_REPLAY_WORDS] = 0;
        }
        replay->highest = number;
    }
    replay->bits[number / 64 % BTL_IB_REPLAY_WORDS] |= UINT64_C(1) << number % 64;
}

#endif
