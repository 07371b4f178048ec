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

bool btl_ib_pacer_too_soon(const btl_ib_pacer_t *pacer, const btl_ib_cc_t *cc, uint64_t now,
                           uint32_t ahead)
{
    if (cc->pace == 0) {
        return false;
    }
    now *= 1000;
    const uint64_t at = pacer->at > now ? pacer->at : now;
    return at + (uint64_t) ahead * cc->pace > now + (uint64_t) cc->burst * cc->pace;
}

void btl_ib_pacer_wait(btl_ib_pacer_t *pacer, btl_ib_hotel_t *hotel)
{
    btl_ib_hotel_check_in(hotel, &pacer->timer.guest, pacer->at / 1000 + 1);
}

void btl_ib_pacer_forgive(btl_ib_pacer_t *pacer, const btl_ib_cc_t *cc, btl_ib_hotel_t *hotel,
                          uint64_t now)
{
    const uint64_t most = now * 1000 + (cc->burst + UINT64_C(1)) * cc->pace;

    if (pacer->at <= most) {
        return;
    }
    pacer->at = most;
    if (btl_ib_hotel_staying(&pacer->timer.guest)) {
        btl_ib_pacer_wait(pacer, hotel);
    }
}
