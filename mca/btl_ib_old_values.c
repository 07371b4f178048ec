/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_old_values.h"

#include <stddef.h>
#include <string.h>

/* Invariant: no text in `theirs` is a valid value of its parameter in ib. */
static const struct {
    const char *name;
    const char *theirs;
    const char *ours;
} old_values[] = {
    {"max_btls", "-1", "0"},
    {"max_inline_data", "-1", "1024"}, /* all that the device takes */
    {"mtu", "-1", "0"},
    {"mtu", "1", "256"}, /* enum ibv_mtu */
    {"mtu", "2", "512"},
    {"mtu", "3", "1024"},
    {"mtu", "4", "2048"},
    {"mtu", "5", "4096"},
    {"mtu", "256B", "256"},
    {"mtu", "512B", "512"},
    {"fork_safe", "-1", "1"},
    {"flags", "310", "send,put,get"}, /* openib sent without being told so */
    {"eager_limit", "0", "263168"},
    {"copy_limit", "-1", "1073741824"},
    {"rnr_timer", "0", "31"}, /* the code of 655 ms; 31 is the longest that is taken here */
    {"rc_reads", "0", "64"},
    {"rc_srq_min_peers", "-1", "16"},
    {"qps_per_port", "0", "1"},
    {"depth_total", "0", "24576"},
    {"progress_wakeups", "0", "1000000"},
    {"memory_ordering", "none", "relaxed"},
};

const char *btl_ib_old_value(const char *name, const char *text)
{
    for (size_t i = 0; i < sizeof(old_values) / sizeof(old_values[0]); ++i) {
        if (strcmp(old_values[i].name, name) == 0 && strcmp(old_values[i].theirs, text) == 0) {
            return old_values[i].ours;
        }
    }
    return text;
}
