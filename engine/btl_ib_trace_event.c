/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_trace_event.h"

#include "btl_ib_wire.h"

#include <assert.h>

static_assert(sizeof(btl_ib_trace_event_t) == 64, "an event has no padding");

#define BTL_IB_TRACE_INFO(name, text) {#name, text, 0},
const btl_ib_trace_info_t btl_ib_trace_kind_infos[] = {
    BTL_IB_TRACE_KINDS(BTL_IB_TRACE_INFO){NULL, NULL, 0}};
const btl_ib_trace_info_t btl_ib_trace_cause_infos[] = {
    BTL_IB_TRACE_CAUSES(BTL_IB_TRACE_INFO){NULL, NULL, 0}};
#undef BTL_IB_TRACE_INFO

#define BTL_IB_TRACE_INFO(type, bits, name, text) {#name, text, bits},
const btl_ib_trace_info_t btl_ib_trace_field_infos[] = {
    BTL_IB_TRACE_FIELDS(BTL_IB_TRACE_INFO){NULL, NULL, 0}};
#undef BTL_IB_TRACE_INFO

const btl_ib_trace_info_t btl_ib_trace_type_infos[] = {
    [BTL_IB_TYPE_ADDRESS] = {"ADDRESS", "a rail is at another address", 0},
    [BTL_IB_TYPE_DATA] = {"DATA", "a message", 0},
    [BTL_IB_TYPE_CHUNK] = {"CHUNK", "a piece of a message", 0},
    [BTL_IB_TYPE_SKIP] = {"SKIP", "credits are given back", 0},
    [BTL_IB_TYPE_ACK] = {"ACK", "acknowledgements of all channels; has no sequence", 0},
    [BTL_IB_TYPE_CLOSE] = {"CLOSE", "the connection ends", 0},
    [BTL_IB_TYPE_PUT] = {"PUT", "a piece of a put", 0},
    [BTL_IB_TYPE_GET] = {"GET", "a get is asked for", 0},
    [BTL_IB_TYPE_ATOMIC] = {"ATOMIC", "an atomic operation is asked for", 0},
    [BTL_IB_TYPE_GOT] = {"GOT", "a piece of the answer to a get", 0},
    [BTL_IB_TYPE_REPLY] = {"REPLY", "answers to operations", 0},
    [BTL_IB_TYPE_VOID] = {"VOID", "given up, or a probe of the path MTU", 0},
    [BTL_IB_TYPE_REJECTED] = {"REJECTED", "an operation is rejected", 0},
    [BTL_IB_TYPE_BUNDLE] = {"BUNDLE", "several messages", 0},
    [BTL_IB_TYPE_PART] = {"PART", "a part of a segment that is larger than the path MTU", 0},
    [BTL_IB_TYPE_PATH_RESPONSE] = {"PATH_RESPONSE", "a first contact arrived", 0},
    {NULL, NULL, 0},
};
