/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <stdlib.h>

#include "staging.h"

struct staged {
    bool under_way; /* its datagram is */
    bool known;     /* to the engine */
    bool copied;    /* the network made a second one of it */
};

static void release(staged_t *staged)
{
    if (!staged->under_way && !staged->known) {
        free(staged);
    }
}

uint8_t staging_begin(staging_t *staging, staged_t **staged)
{
    uint32_t at = 1;

    while (at < SIM_STAGED && staging->place[at] != NULL) {
        at++;
    }
    if (at == SIM_STAGED) {
        return 0;
    }
    *staged = malloc(sizeof(**staged));
    **staged = (staged_t){.under_way = true, .known = true};
    staging->place[at] = *staged;
    return (uint8_t) at;
}

const char *staging_end(staging_t *staging, uint8_t at, bool clean)
{
    staged_t *staged = staging->place[at];

    if (staged == NULL) {
        return "what is not staged";
    }
    if (clean && staged->under_way && !staged->copied) {
        return "a datagram that is still under way, as if nobody read it any more";
    }
    staging->place[at] = NULL;
    staged->known = false;
    release(staged);
    return NULL;
}

void staging_close(staging_t *staging)
{
    for (uint32_t at = 0; at < SIM_STAGED; at++) {
        if (staging->place[at] != NULL) {
            (void) staging_end(staging, (uint8_t) at, false);
        }
    }
}

void staging_copied(staged_t *staged)
{
    staged->copied = true;
}

void staging_read(staged_t *staged)
{
    staged->under_way = false;
    release(staged);
}
