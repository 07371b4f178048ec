/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_pacer.h"

void btl_ib_pacer_begin(btl_ib_pacer_t *pacer)
{
    pacer->at = 0;
}

void btl_ib_pacer_spend(btl_ib_pacer_t *pacer, const btl_ib_cc_t *cc, uint64_t now, int count)
{
    if (cc->pace != 0) {
        now *= 1000;
        pacer->at = (pacer->at > now ? pacer->at : now) + (uint64_t) count * cc->pace;
    }
}

void btl_ib_pacer_take_back(btl_ib_pacer_t *pacer, const btl_ib_cc_t *cc)
{
    pacer->at -= cc->pace;
}

uint32_t btl_ib_pacer_room(const btl_ib_pacer_t *pacer, const btl_ib_cc_t *cc, uint64_t now,
                           bool behind)
{
    if (cc->pace == 0 || (behind && cc->burst > 1)) {
        return UINT32_MAX;
    }
    now *= 1000;
    const uint64_t ahead = pacer->at > now ? (pacer->at - now - 1) / cc->pace + 1 : 0;
    return ahead < cc->burst ? cc->burst - (uint32_t) ahead : 0;
}

void btl_ib_pacer_wait(btl_ib_pacer_t *pacer, btl_ib_hotel_t *hotel)
{
    btl_ib_hotel_check_in(hotel, &pacer->timer.guest, pacer->at / 1000 + 1);
}

void btl_ib_pacer_forgive(btl_ib_pacer_t *pacer, const btl_ib_cc_t *cc, btl_ib_hotel_t *hotel,
                          uint64_t now)
{
    const uint64_t most = now * 1000 + (uint64_t) cc->burst * cc->pace;

    if (pacer->at <= most) {
        return;
    }
    pacer->at = most;
    if (btl_ib_hotel_staying(&pacer->timer.guest)) {
        btl_ib_pacer_wait(pacer, hotel);
    }
}
