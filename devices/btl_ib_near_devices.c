/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_near_devices.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "btl_ib_locality.h"
#include "btl_ib_help.h"
#include "net_interfaces.h"

/* A device on its way through the choice. */
typedef struct found {
    btl_ib_device_t device;
    btl_ib_device_place_t place;
} found_t;

void btl_ib_near_devices_init(btl_ib_near_devices_t *near, const btl_ib_params_t *params,
                              btl_ib_rejected_devices_t *rejected)
{
    *near = (btl_ib_near_devices_t){.params = params, .rejected = rejected};
}

void btl_ib_near_devices_fini(btl_ib_near_devices_t *near)
{
    btl_ib_topology_close(&near->topology);
}

static btl_ib_device_place_t place_of(btl_ib_near_devices_t *near, const btl_ib_device_t *device)
{
    if (!near->looked) {
        const char *why_not = btl_ib_topology_open(&near->topology, btl_ib_compat_topology());

        near->looked = true;
        if (NULL != why_not) {
            BTL_IB_VERBOSE(1, "locality: nothing is known: %s", why_not);
        }
    }
    return btl_ib_topology_find(&near->topology, device->name, device->interface);
}

int btl_ib_near_devices_node(btl_ib_near_devices_t *near, const btl_ib_device_t *device)
{
    return place_of(near, device).node;
}

/* Do both lead to the same network, as far as this host can know? */
static bool same_network(const btl_ib_device_t *a, const btl_ib_device_t *b)
{
    const struct sockaddr *first = (const struct sockaddr *) (const void *) &a->ip;
    const struct sockaddr *second = (const struct sockaddr *) (const void *) &b->ip;
    const unsigned bits = a->prefix_bits < b->prefix_bits ? a->prefix_bits : b->prefix_bits;
    size_t len;

    if (a->loopback != b->loopback || a->ip.ss_family != b->ip.ss_family) {
        return false;
    }
    if (AF_UNSPEC == a->ip.ss_family) {
        return true;
    }
    return !btl_ib_ip_link_local(first) && !btl_ib_ip_link_local4(first)
           && btl_ib_ip_same_bits(btl_ib_ip_bytes(first, &len), btl_ib_ip_bytes(second, &len),
                                  bits);
}

static void fill(const found_t *found, uint32_t count, btl_ib_candidate_t *candidates)
{
    for (uint32_t i = 0; i < count; ++i) {
        uint32_t network = 0;

        while (network < i && !same_network(&found[network].device, &found[i].device)) {
            ++network;
        }
        candidates[i] = (btl_ib_candidate_t){
            .distance = found[i].place.distance,
            .network = network,
            .bandwidth = found[i].device.bandwidth,
        };
    }
}

static uint32_t max_of(const btl_ib_params_t *params)
{
    return 0 != params->max_btls ? (uint32_t) params->max_btls : BTL_IB_FIRST_RAILS_MAX;
}

/* Say what becomes of a device, and why. */
static void tell(const btl_ib_near_devices_t *near, const found_t *found,
                 const btl_ib_locality_choice_t *choice)
{
    const found_t *one = &found[choice->device];
    const bool over = BTL_IB_LOCALITY_OVER_MAX == choice->verdict;
    const bool stands_by = over && 0 == near->params->max_btls;
    char where[48] = "not asked for";
    char reason[128] = "";

    if (near->looked) {
        snprintf(where, sizeof(where), "%" PRIu32, one->place.distance);
    }
    if (one->place.node >= 0) {
        snprintf(where + strlen(where), sizeof(where) - strlen(where), ", NUMA node %d",
                 one->place.node);
    }
    if (BTL_IB_LOCALITY_FARTHER == choice->verdict) {
        snprintf(reason, sizeof(reason),
                 "farther than %s: distance %" PRIu32 " instead of %" PRIu32
                 " (btl_ib_locality near)",
                 found[choice->better].device.name, one->place.distance,
                 found[choice->better].place.distance);
    } else if (over) {
        snprintf(reason, sizeof(reason),
                 0 != near->params->max_btls ? "btl_ib_max_btls is %d"
                                             : "there are %d that are nearer, faster or come first",
                 (int) max_of(near->params));
    }
    BTL_IB_VERBOSE(1, "locality: %s/%s: %s, distance %s%s%s", one->device.transport,
                   one->device.name,
                   '\0' == reason[0] ? "used"
                   : stands_by       ? "stands by"
                                     : "not used",
                   where, '\0' == reason[0] ? "" : ": ", reason);
    if ('\0' != reason[0] && !stands_by) {
        btl_ib_rejected_devices_add(near->rejected, one->device.transport, one->device.name,
                                    reason);
    }
}

/* With room for all that choosing takes. */
static int choose(btl_ib_near_devices_t *near, btl_ib_device_t *list, uint32_t count,
                  found_t *found, btl_ib_candidate_t *candidates, btl_ib_locality_choice_t *choices)
{
    const btl_ib_params_t *params = near->params;
    const btl_ib_locality_rule_t rule = {
        .ranked = 0 != strcmp(params->locality, "ignore"),
        .near_only = 0 == strcmp(params->locality, "near"),
        .max = max_of(params),
        /* 65535: the runtime does not say, and any number will do */
        .position = (uint32_t) opal_process_info.my_local_rank,
    };
    uint32_t used;

    for (uint32_t i = 0; i < count; ++i) {
        found[i] = (found_t){.device = list[i], .place = {.node = -1}};
        /* Reading the topology is worth it only where there is a choice. */
        if (rule.ranked && (count > 1 || btl_ib_is_verbose(1))) {
            found[i].place = place_of(near, &list[i]);
        }
    }
    fill(found, count, candidates);
    used = btl_ib_locality_choose(candidates, count, &rule, choices);
    for (uint32_t i = 0; i < count; ++i) {
        list[i] = found[choices[i].device].device;
        tell(near, found, &choices[i]);
    }
    return (int) used;
}

int btl_ib_near_devices_choose(btl_ib_near_devices_t *near, btl_ib_device_t *list, int count)
{
    const size_t size = count > 0 ? (size_t) count : 1;
    found_t *found = calloc(size, sizeof(*found));
    btl_ib_candidate_t *candidates = calloc(size, sizeof(*candidates));
    btl_ib_locality_choice_t *choices = calloc(size, sizeof(*choices));

    if (NULL != found && NULL != candidates && NULL != choices) {
        count = choose(near, list, (uint32_t) count, found, candidates, choices);
    }
    free(choices);
    free(candidates);
    free(found);
    return count;
}
