/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib.h"

#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "btl_ib_params_rules.h"
#include "btl_ib_param_values.h"

/* A parameter of ours that is a number. */
typedef struct number {
    const char *name;
    const char *help; /* without range and default */
    const char *unit;
    size_t offset; /* in btl_ib_params_t */
    bool is_size;  /* size_t, else int */
    int64_t standard;
    int64_t low;
    int64_t high;
    mca_base_var_info_lvl_t level;
} number_t;

#define INT_PARAM(field, standard, low, high, unit, level, help)                                   \
    {                                                                                              \
#field, help, unit, offsetof(btl_ib_params_t, field), false, standard, low, high,          \
            OPAL_INFO_LVL_##level                                                                  \
    }
#define SIZE_PARAM(field, standard, low, high, unit, level, help)                                  \
    {                                                                                              \
#field, help, unit, offsetof(btl_ib_params_t, field), true, standard, low, high,           \
            OPAL_INFO_LVL_##level                                                                  \
    }

/* clang-format off */
static const number_t numbers[] = {
    INT_PARAM(poll_burst, 64, 1, 4096, "datagrams", 6,
              "Receive at most this many in one call of the progress function; a low value shares "
              "the processor more evenly with other components"),
    INT_PARAM(poll_busy, 16, 1, 65536, "calls", 6,
              "Beside another BTL that polls (vader), look at the devices in each so manyth progress "
              "call while data or answers are on the way; in each call right after something came or "
              "was sent, and after 10 microseconds if calls come that often"),
    INT_PARAM(poll_recent, 128, 1, 65536, "calls", 6,
              "The same within a millisecond after something came, if nothing is on the way"),
    INT_PARAM(poll_idle, 512, 1, 65536, "calls", 6,
              "The same when nothing came for longer"),
    INT_PARAM(depth_peer, 16384, 2, 65536, "segments", 5,
              "Keep at most this many in flight to one peer"),
    INT_PARAM(depth_total, 24576, 2, 1048576, "segments", 5,
              "Keep at most this many to all peers together that are not acknowledged"),
    SIZE_PARAM(depth_bytes, 32 << 20, 64 << 10, INT64_C(1) << 34, "bytes", 5,
               "Keep at most this many to all peers together that are not acknowledged"),
    INT_PARAM(window_max, 49152, 16, 49152, "sequence numbers", 8,
              "Send at most this far beyond the oldest segment that was not acknowledged"),
    INT_PARAM(ack_delay, 50, 0, 10000, "microseconds", 6,
              "Hold an acknowledgement back at most this long, so that it can travel with data; "
              "peers are told and allow for it"),
    INT_PARAM(rto_min, 250, 50, 1000000, "microseconds", 6,
              "Shortest retransmission timeout; it doubles with each attempt. What other segments "
              "show to be lost, and a first probe for a lost tail, go earlier"),
    INT_PARAM(rto_max, 200000, 1000, 10000000, "microseconds", 6,
              "Longest pause between two attempts to reach a peer that does not answer"),
    INT_PARAM(rto_initial, 2000, 50, 10000000, "microseconds", 6,
              "Send a segment again after this time while the round trip to its peer is not known"),
    INT_PARAM(silence_limit, 900, 0, 86400, "seconds", 4,
              "Give a peer up when it was silent for this long while data were due. A process that "
              "computes without calling MPI is silent, too. 0: never"),
    INT_PARAM(connect_timeout, 60, 0, 86400, "seconds", 4,
              "Give a peer up that never answered for this long, if its process answers even while it "
              "computes (a firewall, or no route). After 5 s that is told in any case. 0: never"),
    INT_PARAM(down_limit, 180, 0, 86400, "seconds", 5,
              "A port that went down may come back for so long; then its device counts as failed, "
              "and what has no other way ends. 0: for ever"),
    INT_PARAM(passive_max, 4096, 1, 1048576, "connections", 8,
              "Accept at most this many from processes that this one never talked to itself"),
    INT_PARAM(lookups_max, 2000, 1, 1000000, "lookups", 9,
              "Ask the runtime at most this often in a second who an unknown sender is"),
    INT_PARAM(idle_ms, 2000, 1, 3600000, "milliseconds", 8,
              "Give memory and spare credits of a peer back after this time without traffic"),
    INT_PARAM(reassembly_max, 512, 1, 65536, "buffers", 7,
              "Reassemble at most this many messages at once beyond one for each peer; each takes "
              "as many bytes as the largest of btl_ib_eager_limit and btl_ib_max_send_size"),
    INT_PARAM(ops_max, 128, 1, BTL_IB_OPS_MAX, "operations", 7,
              "Run at most this many one-sided operations with one peer at a time; further ones wait"),
    INT_PARAM(credit_init, 16, 1, 65536, "credits", 7,
              "What a new or idle peer may send to a queue of type P before it is granted more"),
    INT_PARAM(credit_pool, 4096, 0, 1048576, "credits", 7,
              "Grant at most this many of one queue of type P to all peers together, and no more "
              "than its share of the device's receive buffers. 0: that share"),
    INT_PARAM(rx_depth, 0, 0, 1048576, "buffers", 7,
              "Receive buffers posted on each device; the device's own limit may be lower. 0: the "
              "sum of the nums of btl_ib_receive_queues"),
    INT_PARAM(socket_buffer, 0, 0, 1073741824, "bytes", 6,
              "Transport udp: ask for this much in each of a socket's two buffers; the system grants at most "
              "net.core.rmem_max and net.core.wmem_max. 0: 4 MiB, and no complaint about less if that is at "
              "least 212992"),
    INT_PARAM(connected_max, 4, 0, 16, "sockets", 6,
              "Transport udp: so many peers of each device have connected sockets, which send faster: the first "
              "that were sent 512 short messages"),
    INT_PARAM(port_min, 0, 0, 65535, "port", 4,
              "Transports udp and verbs (rc): the first port that may be used, for firewalls. 0: any"),
    INT_PARAM(port_range, 1024, 1, 65535, "ports", 4,
              "Transports udp and verbs (rc): how many from btl_ib_port_min on, if that is not 0; each process takes one "
              "for each device, over udp two side by side (btl_ib_bulk_apart)"),
    INT_PARAM(gid_index, -1, -1, 255, "place", 4,
              "Transport verbs, ud: the place of the address (GID) in the table of each port, as ibv_devinfo -v shows "
              "them. -1: RoCE v2 before v1, those that can be routed before link-local ones"),
    INT_PARAM(pkey, 0, 0, 65535, "P_Key", 4,
              "Transport verbs, ud: the partition, with or without its first bit; the same on all hosts. 0: the first "
              "one of each port's table. Over rc the partition is that of the interface"),
    INT_PARAM(service_level, 0, 0, 15, "level", 5,
              "Transport verbs, ud: service level on InfiniBand; on RoCE the priority, where the network goes by that"),
    INT_PARAM(traffic_class, 0, 0, 255, "class", 5,
              "Transport verbs: traffic class of packets that are routed; of RoCE v2 four times the DSCP, and 2 if "
              "switches may mark congestion (ECN). Losing packets is repaired, so a lossless class is not needed"),
    INT_PARAM(rc_max_peers, 64, 0, 1048576, "processes", 4,
              "Transport verbs, btl_ib_wire auto: take connections (rc) if the runtime has places for at most "
              "this many processes, and the device queue pairs for them, and else ud, whose memory does not grow with them"),
    INT_PARAM(rc_timeout, 14, 0, 31, "exponent", 6,
              "Transport verbs, rc: the device sends again what was not acknowledged after 4.096 microseconds x "
              "2^this; not for iWARP, where TCP does it. 0: what the connection manager takes"),
    INT_PARAM(rc_retry, 7, 0, 7, "times", 6,
              "Transport verbs, rc: then as often, before the connection is given up and made anew"),
    INT_PARAM(rnr_retry, 7, 0, 7, "times", 6,
              "Transport verbs, rc: the same when the receiver of a queue of type S had no buffer. 7: "
              "without end"),
    SIZE_PARAM(pin_max_region, INT64_C(1) << 46, 0, INT64_C(1) << 46, "bytes", 5,
               "Let RDMA devices move memory by themselves only where the region is not longer than this; processors "
               "move what is. 0: none; the default, 2^46: any"),
    INT_PARAM(max_eager_rdma, 0, 0, 64, "processes", 5,
              "Transport verbs, rc: at most this many peers, those that send most, write short messages into rings here (eager "
              "RDMA), which saves completions and receive requests; not over iWARP. 0: none does"),
    INT_PARAM(eager_rdma_num, 16, 1, 1024, "messages", 6,
              "Transport verbs, rc: each of these rings has room for this many, rounded down to a power of two"),
    INT_PARAM(eager_rdma_threshold, 16, 1, 1000000, "messages", 6,
              "Transport verbs, rc: a peer gets a ring after so many short messages within btl_ib_eager_rdma_period_ms, and loses "
              "it where there are fewer"),
    INT_PARAM(eager_rdma_period_ms, 1000, 1, 3600000, "milliseconds", 7,
              "Transport verbs, rc: how often it is looked who sends most"),
    INT_PARAM(drain_ms, 1000, 0, 60000, "milliseconds", 7,
              "Wait at most this long for last acknowledgements when MPI ends"),
    INT_PARAM(kicker_ms, 10, 1, 10000, "milliseconds", 6,
              "While something is unacknowledged, or memory is registered for peers, and the application "
              "makes no progress for this long, a thread works in its place (btl_ib_kicker)"),
    SIZE_PARAM(kicker_store, 4 << 20, 0, INT64_C(1) << 34, "bytes", 7,
               "Messages of one segment that arrive meanwhile are kept in at most this much memory; what "
               "is more is left to come again"),
    SIZE_PARAM(copy_limit, 8192, 0, INT64_C(1) << 30, "bytes", 5,
               "Copy fragments up to this size, so that their memory is free at once; longer ones "
               "that are contiguous are sent from where they are, and their memory is free when "
               "they were acknowledged"),
    INT_PARAM(free_list_num, 32, 0, 4096, "descriptors", 8,
              "Make this many of each size in advance"),
    INT_PARAM(free_list_inc, 32, 1, 4096, "descriptors", 8,
              "Make this many more of a size when none are left"),
};
/* clang-format on */

#define NUMBER_COUNT (sizeof(numbers) / sizeof(numbers[0]))

#define BOOL_RULE(field, name, standard)                                                           \
    {                                                                                              \
        name, BTL_IB_RULE_BOOL, false, offsetof(btl_ib_params_t, field), "", 0, 1, standard, 0     \
    }
#define LIMIT_RULE(field, type, unit, low, high, standard)                                         \
    {                                                                                              \
#field, BTL_IB_RULE_##type, true, offsetof(mca_btl_base_module_t, btl_##field), unit, low, \
            high, standard, 0                                                                      \
    }

/* clang-format off */
/* Of all others that are no text: what their help texts tell. */
static const btl_ib_rule_t rules[] = {
    BOOL_RULE(use_auto, "auto", "0"),
    BOOL_RULE(stats, "stats", "0"),
    BOOL_RULE(kicker, "kicker", "1"),
    BOOL_RULE(fork_safe, "fork_safe", "1"),
    BOOL_RULE(bulk_apart, "bulk_apart", "1"),
    BOOL_RULE(atomics_all, "atomics_all", "0"),
    /* ob1 aborts the job if its largest header does not fit into an eager message: 256 is safe. */
    LIMIT_RULE(eager_limit, SIZE, "bytes", 256, 1 << 20,
               "66560; 12288 where the device moves registered memory by itself"),
    LIMIT_RULE(rndv_eager_limit, SIZE, "bytes", 0, 1 << 20, "12288"),
    LIMIT_RULE(max_send_size, SIZE, "bytes", 256, 1 << 20, "65536"),
    LIMIT_RULE(get_limit, SIZE, "bytes", 4096, SIZE_MAX, "18446744073709551615"),
    LIMIT_RULE(put_limit, SIZE, "bytes", 4096, SIZE_MAX, "18446744073709551615"),
    LIMIT_RULE(get_alignment, SIZE, "bytes", 0, 0, "0"),
    LIMIT_RULE(put_alignment, SIZE, "bytes", 0, 0, "0"),
    LIMIT_RULE(rdma_pipeline_send_length, SIZE, "bytes", 0, 1 << 30, "0"),
    LIMIT_RULE(rdma_pipeline_frag_size, SIZE, "bytes", 0, 1 << 30, "4194304"),
    LIMIT_RULE(min_rdma_pipeline_size, SIZE, "bytes", 0, 1 << 30,
               "0, raised to btl_ib_eager_limit + btl_ib_rdma_pipeline_send_length"),
    LIMIT_RULE(exclusivity, UNSIGNED, "rank", 0, 65536, "1024"),
    LIMIT_RULE(latency, UNSIGNED, "microseconds", 1, 1000000, "10"),
    LIMIT_RULE(bandwidth, UNSIGNED, "Mbit/s", 0, 4000000, "0, what the device says"),
    LIMIT_RULE(flags, FLAGS, "", 0, 0, "all of these"),
};
/* clang-format on */

#define RULE_COUNT (sizeof(rules) / sizeof(rules[0]))

bool btl_ib_params_rule(size_t i, btl_ib_rule_t *rule)
{
    if (i >= NUMBER_COUNT) {
        *rule = i < NUMBER_COUNT + RULE_COUNT ? rules[i - NUMBER_COUNT] : (btl_ib_rule_t){0};
        return i < NUMBER_COUNT + RULE_COUNT;
    }
    *rule = (btl_ib_rule_t){
        .name = numbers[i].name,
        .type = numbers[i].is_size ? BTL_IB_RULE_SIZE : BTL_IB_RULE_INT,
        .offset = numbers[i].offset,
        .unit = numbers[i].unit,
        .low = numbers[i].low,
        .high = (uint64_t) numbers[i].high,
        .standard_number = numbers[i].standard,
    };
    return true;
}

static const mca_base_component_t *component_version(void)
{
    return &mca_btl_ib_component.super.btl_version;
}

/* Is it registered? A text that Open MPI itself refused leaves the default, which is told later. */
static bool registered(int index)
{
    return 0 <= index || OPAL_ERR_VALUE_OUT_OF_BOUNDS == index || OPAL_ERR_BAD_PARAM == index;
}

/* What ompi_info says of the unit. */
static const char *unit_shown(const char *unit)
{
    switch (btl_ib_value_unit(unit)) {
    case BTL_IB_VALUE_BYTES:
        return " or with k, M, G";
    case BTL_IB_VALUE_COUNT:
        return "";
    default:
        return " or with us, ms, s, min";
    }
}

static bool register_number(btl_ib_params_t *params, const number_t *number)
{
    void *storage = (char *) params + number->offset;
    const btl_ib_value_unit_t unit = btl_ib_value_unit(number->unit);
    const bool is_time = BTL_IB_VALUE_COUNT != unit && BTL_IB_VALUE_BYTES != unit;
    char help[512];

    snprintf(help, sizeof(help), "%s (%s%s, %" PRId64 " to %" PRId64 ", default: %" PRId64 ")",
             number->help, number->unit, unit_shown(number->unit), number->low, number->high,
             number->standard);
    if (number->is_size) {
        *(size_t *) storage = (size_t) number->standard;
    } else {
        *(int *) storage = (int) number->standard;
    }
    return registered(mca_base_component_var_register(
        component_version(), number->name, help,
        number->is_size ? MCA_BASE_VAR_TYPE_SIZE_T : MCA_BASE_VAR_TYPE_INT,
        is_time && !number->is_size ? &btl_ib_compat_time_enum : NULL, 0, 0, number->level,
        MCA_BASE_VAR_SCOPE_READONLY, storage));
}

/* Returns the variable's index, negative on error. */
static int register_string(char **storage, const char *name, const char *help,
                           mca_base_var_info_lvl_t level)
{
    return mca_base_component_var_register(component_version(), name, help,
                                           MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, level,
                                           MCA_BASE_VAR_SCOPE_READONLY, storage);
}

static bool register_bool(bool *storage, const char *name, const char *help,
                          mca_base_var_info_lvl_t level)
{
    return registered(mca_base_component_var_register(component_version(), name, help,
                                                      MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, level,
                                                      MCA_BASE_VAR_SCOPE_READONLY, storage));
}

/* Did somebody set this variable, or is it the default? */
static bool set_by_user(int index)
{
    mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_DEFAULT;

    return 0 <= index && OPAL_SUCCESS == mca_base_var_get_value(index, NULL, &source, NULL)
           && MCA_BASE_VAR_SOURCE_DEFAULT != source;
}

/* Of what RDMA devices do by themselves. */
static bool register_device_strings(btl_ib_params_t *params)
{
    bool ok = true;

    params->max_pinned = (char *) "50%";
    ok =
        0 <= register_string(
            &params->max_pinned, "max_pinned",
            "Memory that each process keeps registered with RDMA devices at most, in use or "
            "cached; "
            "processors move what is more (text: a number of bytes, 0 to 18446744073709551615, "
            "also with k, M, G, or a part of the host's "
            "memory, "
            "that the processes of the job there share, 0% to 100%; never more than may be locked; "
            "default: 50%)",
            OPAL_INFO_LVL_4)
        && ok;
    params->atomics = (char *) "auto";
    ok =
        0 <= register_string(
            &params->atomics, "atomics",
            "Who changes the words of registered memory by atomics, where devices move memory by "
            "themselves: device, host (the processor of its owner) or auto (the device where that "
            "is "
            "atomic for processors as well, else the host: Open MPI's osc/rdma lets processors "
            "change "
            "words of its own window where all processes of a window are on one host); the same on "
            "all hosts (text, default: auto)",
            OPAL_INFO_LVL_5)
        && ok;
    return ok;
}

static bool register_strings(btl_ib_params_t *params)
{
    int queues;
    bool ok = register_device_strings(params);

    params->transport = (char *) "auto";
    params->cc = (char *) "auto";
    params->wire = (char *) "auto";
    ok =
        0 <= register_string(&params->transport, "transport",
                             "What moves the datagrams (text: auto or the name of a transport that "
                             "was built in, for instance ofi; default: auto, the first one that "
                             "finds a device)",
                             OPAL_INFO_LVL_3);
    ok = 0 <= register_string(
             &params->if_include, "if_include",
             "Use only these devices (text: names of devices, also with a port as "
             "mlx5_0:1, names of network interfaces, or subnets as 10.0.0.0/8, "
             "separated by commas; names joined by + as mlx5_0+mlx5_1:2 are used all "
             "or none; default: empty, all that fit). Not together with btl_ib_if_exclude",
             OPAL_INFO_LVL_1)
         && ok;
    ok = 0 <= register_string(&params->if_exclude, "if_exclude",
                              "Do not use these devices (text: as btl_ib_if_include; default: "
                              "empty, none)",
                              OPAL_INFO_LVL_1)
         && ok;
    ok =
        0 <= register_string(&params->ofi_provider, "ofi_provider",
                             "Transport ofi uses only this provider of libfabric (text: its name, "
                             "for instance udp, verbs, usnic or efa; default: empty, the best that "
                             "is there)",
                             OPAL_INFO_LVL_3)
        && ok;
    ok = 0 <= register_string(
             &params->wire, "wire",
             "How transport verbs uses a device (text: ud, datagrams; rc, connections made on "
             "demand, which iWARP needs; or auto, see btl_ib_rc_max_peers; the same on all "
             "hosts; default: auto)",
             OPAL_INFO_LVL_3)
         && ok;
    params->ordering = (char *) "strict";
    ok = 0 <= register_string(
             &params->ordering, "memory_ordering",
             "Transport verbs, rc: in which order devices place what they write into registered "
             "memory "
             "(text: strict; or relaxed: as they like, faster on some machines, and each put "
             "is followed by a read before it is done; default: strict)",
             OPAL_INFO_LVL_6)
         && ok;
    params->checksum = (char *) "none";
    ok = 0 <= register_string(&params->checksum, "checksum",
                              "Checksum of header and data of each datagram, beyond what the "
                              "network itself checks; the same on all hosts (text: none or crc32c, "
                              "4 bytes found by the processor's own instruction if it has one; "
                              "RDMA devices move no memory by themselves then; "
                              "default: none)",
                              OPAL_INFO_LVL_4)
         && ok;
    ok = 0 <= register_string(&params->cc, "cc",
                              "Congestion control (text: auto, none, swift or cubic; default: "
                              "auto, none where the transport loses nothing, else swift)",
                              OPAL_INFO_LVL_5)
         && ok;
    params->auth = (char *) "none";
    ok = 0 <= register_string(
             &params->auth, "auth",
             "Protect each datagram against others on the network by a key that "
             "only the processes of the job know, each from the runtime; "
             "makes btl_ib_checksum superfluous; what more than 2048 later datagrams of a "
             "sender overtake is dropped and sent again: not for networks that spread "
             "one stream over paths of very different length; RDMA devices move no memory by "
             "themselves then; the same on all hosts (text: none, "
             "integrity, forged or repeated datagrams are found, or encrypt, and "
             "nobody else can read them; default: none)",
             OPAL_INFO_LVL_4)
         && ok;
    queues =
        register_string(&params->receive_queues, "receive_queues",
                        "Receive queues (text: one or more of P,size,num[,low_watermark"
                        "[,window[,reserve]]] for buffers of each peer and S,size,num"
                        "[,low_watermark[,max_pending_sends[,init[,limit]]]] for buffers that "
                        "all peers share, in ascending order of size, separated by colons; "
                        "sizes in bytes, 104 to 1048576, the last at least 112, with btl_ib_auth "
                        "136; num 2 to 1048576, the others from 1; default: empty, "
                        "what suits the transport)",
                        OPAL_INFO_LVL_4);
    ok = 0 <= queues && ok;
    params->queues_by_user = set_by_user(queues);
    return ok;
}

/* Sizes count the PML's header and data; they have nothing to do with the size of a datagram. */
static void default_limits(mca_btl_base_module_t *limits, bool all_atomics)
{
    limits->btl_exclusivity = MCA_BTL_EXCLUSIVITY_DEFAULT;
    limits->btl_eager_limit = 65 * 1024; /* 64 KiB and any header of ob1's */
    limits->btl_rndv_eager_limit = 12 * 1024;
    limits->btl_max_send_size = 64 * 1024;
    limits->btl_rdma_pipeline_send_length = 0;
    limits->btl_rdma_pipeline_frag_size = 4 * 1024 * 1024;
    limits->btl_min_rdma_pipeline_size = 0;
    limits->btl_latency = 10;
    limits->btl_bandwidth = 0;
    limits->btl_flags = BTL_IB_FLAGS;
    limits->btl_atomic_flags = BTL_IB_ATOMIC_FLAGS | (all_atomics ? BTL_IB_ATOMIC_FLAGS_MORE : 0);
    limits->btl_registration_handle_size = sizeof(struct mca_btl_base_registration_handle_t);
    limits->btl_get_limit = SIZE_MAX;
    limits->btl_put_limit = SIZE_MAX;
    limits->btl_get_local_registration_threshold = SIZE_MAX;
    limits->btl_put_local_registration_threshold = SIZE_MAX;
    /* Open MPI registers parameters and keeps flags only of functions that are there. */
    btl_ib_module_functions(limits);
}

static bool register_limit(const char *name, const char *help, mca_base_var_type_t type,
                           mca_base_var_info_lvl_t level, void *storage)
{
    return registered(mca_base_component_var_register(component_version(), name, help, type, NULL,
                                                      0, 0, level, MCA_BASE_VAR_SCOPE_READONLY,
                                                      storage));
}

/* For ob1's pipeline of puts, which it takes if btl_ib_flags has no get, or without
 * mpi_leave_pinned. */
static bool register_pipeline(mca_btl_base_module_t *limits)
{
    const mca_base_var_type_t size = MCA_BASE_VAR_TYPE_SIZE_T;
    bool ok = register_limit(
        "rdma_pipeline_send_length",
        "Of a long message that goes by put, send this much in fragments "
        "(bytes or with k, M, G, 0 to 1073741824, default: 0: registration costs nothing where "
        "processors move memory, and what RDMA devices know is cached)",
        size, OPAL_INFO_LVL_6, &limits->btl_rdma_pipeline_send_length);

    ok = register_limit(
             "rdma_pipeline_frag_size",
             "Put a long message in pieces of at most this size, four at a time "
             "(bytes or with k, M, G, 0 or 4096 to 1073741824, default: 4194304; 0: all at once)",
             size, OPAL_INFO_LVL_6, &limits->btl_rdma_pipeline_frag_size)
         && ok;
    return register_limit("min_rdma_pipeline_size",
                          "Send messages below this size in fragments instead of the pipeline of "
                          "puts (bytes or with k, M, G, 0 to 1073741824, default: 0, raised to "
                          "btl_ib_eager_limit + btl_ib_rdma_pipeline_send_length)",
                          size, OPAL_INFO_LVL_6, &limits->btl_min_rdma_pipeline_size)
           && ok;
}

/* What Open MPI may use of ours, and what it need not heed. */
static bool register_abilities(mca_btl_base_module_t *limits)
{
    const mca_base_component_t *version = component_version();
    const char *text =
        "How addresses for %s must be aligned (bytes, always 0: not at all, default: 0)";
    char get[96];
    char put[96];

    snprintf(get, sizeof(get), text, "gets");
    snprintf(put, sizeof(put), text, "puts");
    return registered(mca_base_component_var_register(
               version, "flags",
               "What Open MPI may use (names with commas: send, which is needed, put, get, "
               "atomics, "
               "fetching-atomics, rdma-flush, default: all of them; without put and get long "
               "messages "
               "go in fragments, without all but send there are no MPI windows by osc/rdma)",
               MCA_BASE_VAR_TYPE_UNSIGNED_INT, &mca_btl_base_flag_enum->super, 0, 0,
               OPAL_INFO_LVL_5, MCA_BASE_VAR_SCOPE_READONLY, &limits->btl_flags))
           && registered(mca_base_component_var_register(
               version, "get_alignment", get, MCA_BASE_VAR_TYPE_SIZE_T, NULL, 0, 0, OPAL_INFO_LVL_9,
               MCA_BASE_VAR_SCOPE_CONSTANT, &limits->btl_get_alignment))
           && registered(mca_base_component_var_register(
               version, "put_alignment", put, MCA_BASE_VAR_TYPE_SIZE_T, NULL, 0, 0, OPAL_INFO_LVL_9,
               MCA_BASE_VAR_SCOPE_CONSTANT, &limits->btl_put_alignment));
}

/* Before Open MPI's own registration of the same fields, whose texts tell neither range nor
 * default: the first text stays. */
static bool register_limits(btl_ib_params_t *params, mca_btl_base_module_t *limits)
{
    const mca_base_var_type_t size = MCA_BASE_VAR_TYPE_SIZE_T;
    const mca_base_var_type_t number = MCA_BASE_VAR_TYPE_UNSIGNED_INT;
    bool ok;
    int eager;

    default_limits(limits, params->atomics_all);
    ok = register_abilities(limits);
    eager = mca_base_component_var_register(
        component_version(), "eager_limit",
        "Send messages up to this size at once, without asking whether the "
        "receiver is ready; the PML's header counts, the size of a datagram does "
        "not matter; the same on all hosts (bytes or with k, M, G, 256 to 1048576, default: 66560; "
        "12288 where the device moves registered memory by itself)",
        size, NULL, 0, 0, OPAL_INFO_LVL_4, MCA_BASE_VAR_SCOPE_READONLY, &limits->btl_eager_limit);
    ok = 0 <= eager && ok;
    params->eager_by_user = set_by_user(eager);
    ok = register_limit(
             "rndv_eager_limit",
             "Of a longer message send this much together with the question, and no more "
             "than btl_ib_eager_limit (bytes or with k, M, G, 0 to 1048576, default: 12288)",
             size, OPAL_INFO_LVL_4, &limits->btl_rndv_eager_limit)
         && ok;
    ok = register_limit("max_send_size",
                        "Cut the rest of a longer message into fragments of at most this size; the "
                        "same on all hosts (bytes or with k, M, G, 256 to 1048576, default: 65536)",
                        size, OPAL_INFO_LVL_4, &limits->btl_max_send_size)
         && ok;
    ok = register_limit("get_limit",
                        "Get at most this much in one operation; ob1 and osc/rdma cut longer ones "
                        "(bytes or with k, M, G, from 4096, default: 18446744073709551615)",
                        size, OPAL_INFO_LVL_6, &limits->btl_get_limit)
         && ok;
    ok = register_limit("put_limit",
                        "Put at most this much in one operation; ob1 and osc/rdma cut longer ones "
                        "(bytes or with k, M, G, from 4096, default: 18446744073709551615)",
                        size, OPAL_INFO_LVL_6, &limits->btl_put_limit)
         && ok;
    ok = register_pipeline(limits) && ok;
    ok = register_limit("exclusivity",
                        "Of several BTLs that reach a peer only those with the highest value are "
                        "used (rank, 0 to 65536, default: 1024)",
                        number, OPAL_INFO_LVL_7, &limits->btl_exclusivity)
         && ok;
    ok = register_limit(
             "latency",
             "How this BTL ranks among others that reach the same peer, the lowest wins; "
             "the same for all devices (microseconds or with us, ms, s, 1 to 1000000, default: 10)",
             number, OPAL_INFO_LVL_5, &limits->btl_latency)
         && ok;
    ok = register_limit("bandwidth",
                        "Bandwidth of each device, by which long messages are divided among them "
                        "(Mbit/s, 0 to 4000000, default: 0, what the device says)",
                        number, OPAL_INFO_LVL_5, &limits->btl_bandwidth)
         && ok;
    return OPAL_SUCCESS
               == mca_btl_base_param_register(&mca_btl_ib_component.super.btl_version, limits)
           && ok;
}

int btl_ib_params_register(btl_ib_params_t *params, mca_btl_base_module_t *limits)
{
    bool ok = true;

    memset(params, 0, sizeof(*params));
    ok =
        register_bool(&params->use_auto, "auto",
                      "Use ib although it was not named in the selection of BTLs (0 or 1, default: "
                      "0, only if it was named: --mca btl ib,self)",
                      OPAL_INFO_LVL_2);
    ok = register_bool(&params->stats, "stats",
                       "Print one line with what was sent, received, repeated and dropped when MPI "
                       "ends, from each process (0 or 1, default: 0)",
                       OPAL_INFO_LVL_4)
         && ok;
    params->kicker = true;
    ok = register_bool(
             &params->kicker, "kicker",
             "Let a thread send again, acknowledge, and serve the puts, gets and atomics of "
             "peers while the application computes without calling MPI; it sleeps while "
             "nothing is on the way and no memory is registered for peers (0 or 1, default: "
             "1)",
             OPAL_INFO_LVL_4)
         && ok;
    params->fork_safe = true;
    ok = register_bool(
             &params->fork_safe, "fork_safe",
             "Transport verbs: let the application fork() without harm to what devices send and "
             "receive; costs nothing with Linux 5.12 and later, before that a system call for "
             "each registration, and devices move no memory of the application by themselves (0 or "
             "1, default: 1)",
             OPAL_INFO_LVL_5)
         && ok;
    params->bulk_apart = true;
    ok = register_bool(
             &params->bulk_apart, "bulk_apart",
             "Transport udp: long messages have a socket of their own while there are small ones, "
             "so that these do not wait behind them; it takes two ports side by side for each "
             "process and device (0 or 1, default: 1)",
             OPAL_INFO_LVL_6)
         && ok;
    ok = register_bool(
             &params->atomics_all, "atomics_all",
             "Offer MIN, MAX and floating point as atomics, too. Open MPI's osc/rdma uses "
             "them also where they are not what MPI means: signed for unsigned integers, "
             "double for float complex (0 or 1, default: 0, osc/rdma takes a lock and gets, "
             "computes and puts)",
             OPAL_INFO_LVL_6)
         && ok;
    ok = register_strings(params) && ok;
    for (size_t i = 0; i < NUMBER_COUNT; ++i) {
        ok = register_number(params, &numbers[i]) && ok;
    }
    ok = register_limits(params, limits) && ok;
    btl_ib_params_read(params, limits);
    /* Open MPI looked at its own values when it registered them. */
    params->registered = OPAL_SUCCESS == mca_btl_base_param_verify(limits) && ok;
    return OPAL_SUCCESS;
}
