/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_params_engine.h"

uint32_t btl_ib_params_message_max(const mca_btl_base_module_t *limits)
{
    const size_t max = limits->btl_eager_limit > limits->btl_max_send_size
                           ? limits->btl_eager_limit
                           : limits->btl_max_send_size;

    return (uint32_t) max + BTL_IB_HEADER_ROOM;
}

size_t btl_ib_params_eager_limit(const btl_ib_params_t *params, const mca_btl_base_module_t *limits,
                                 const btl_ib_transport_attr_t *attr, bool by_device)
{
    const size_t most = by_device             ? BTL_IB_EAGER_BY_DEVICE
                        : attr->gso_bytes > 0 ? BTL_IB_EAGER_BY_BURSTS
                                              : BTL_IB_EAGER_BY_DATAGRAMS;

    return params->eager_by_user ? limits->btl_eager_limit : most;
}

void btl_ib_params_engine(const btl_ib_params_t *params, const mca_btl_base_module_t *limits,
                          btl_ib_engine_config_t *config)
{
    btl_ib_engine_config_default(config);
    config->guard = btl_ib_params_guard(params);
    config->eager_max = btl_ib_params_message_max(limits);
    config->ack_delay = (uint32_t) params->ack_delay;
    config->rto_min = (uint32_t) params->rto_min;
    config->rto_max = (uint32_t) params->rto_max;
    config->rto_initial = (uint32_t) params->rto_initial;
    config->silence_limit = (uint64_t) params->silence_limit * 1000000u;
    config->connect_timeout = (uint64_t) params->connect_timeout * 1000000u;
    config->down_limit = (uint64_t) params->down_limit * 1000000u;
    config->depth_peer = (uint32_t) params->depth_peer;
    config->depth_total = (uint32_t) params->depth_total;
    config->depth_bytes = params->depth_bytes;
    config->window_max = (uint32_t) params->window_max;
    config->passive_max = (uint32_t) params->passive_max;
    config->lookups_max = (uint32_t) params->lookups_max;
    config->idle_after = (uint64_t) params->idle_ms * 1000u;
    config->ops_max = (uint32_t) params->ops_max;
    config->reassembly_max = (uint32_t) params->reassembly_max;
    config->backlog_max = params->progress_thread_backlog;
    config->credit_init = (uint32_t) params->credit_init;
    config->credit_pool = (uint32_t) params->credit_pool;
    (void) btl_ib_cc_parse(params->cc, &config->cc); /* it was checked */
}
