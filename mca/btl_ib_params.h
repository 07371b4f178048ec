/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The MCA parameters: one table says name, unit, range, default and help text of every number.
 * ompi_info --param btl ib --level 9 is the documentation that comes out of it.
 */

#ifndef BTL_IB_PARAMS_H
#define BTL_IB_PARAMS_H

#include <stdbool.h>
#include <stddef.h>

#include <stdint.h>

#include "btl_ib_compat.h"
#include "btl_ib_guard.h"

/* Bytes beyond the limits that the user sets, in fragments and in reassembly: a PML header and a
 * registration handle of the largest size allowed. */
#define BTL_IB_HEADER_ROOM (MCA_BTL_REG_HANDLE_MAX_SIZE + 256u)

typedef struct btl_ib_params {
    const mca_base_component_t *component; /* whose parameters they are */
    bool use_auto;                         /* offer ib although nobody named it */
    bool stats;                            /* print a line of counters at the end */
    bool progress_thread;                  /* there may be one */
    bool fork_safe;       /* children of fork() leave memory that RDMA devices use alone */
    bool bulk_lane;       /* udp: bulk has a socket of its own */
    bool atomics_all;     /* those that osc/rdma takes for something else, too */
    char *transport;      /* "auto" or a transport's name */
    char *if_include;     /* NULL or empty: all */
    char *if_exclude;     /* NULL or empty: none */
    char *ofi_provider;   /* NULL or empty: any */
    char *wire;           /* "auto", "ud" or "rc" */
    char *cc;             /* "auto" or a congestion control's name */
    char *receive_queues; /* NULL: the transport's own default */
    char *ordering;       /* btl_ib_memory_ordering: "strict" or "relaxed" */
    char *checksum;       /* "none" or "crc32c" */
    char *auth;           /* "none", "integrity" or "encrypt" */
    char *max_pinned;     /* bytes, or with a % that part of the host's memory */
    char *atomics;        /* "auto", "device" or "host" */
    int poll_burst;       /* datagrams in one progress call */
    int poll_busy;        /* beside other BTLs that poll: progress calls for one look */
    int poll_recent;      /* the same, when nothing is under way */
    int poll_idle;        /* the same, when nothing was for 1 ms */
    int depth_peer;       /* segments in flight to one peer */
    int depth_total;      /* segments in flight in all */
    size_t depth_bytes;   /* bytes in flight in all */
    int window_max;       /* sequences between the oldest and the newest in flight */
    int ack_delay;        /* us */
    int rto_min;          /* us */
    int rto_max;          /* us */
    int rto_initial;      /* us */
    int silence_limit;    /* s, 0: none */
    int connect_timeout;  /* s, 0: none */
    int down_limit;       /* s, 0: none */
    int passive_max;      /* connections from peers that were never added */
    int lookups_max;      /* of unknown senders in a second */
    int idle_ms;          /* without traffic before a peer shrinks */
    int ops_max;
    int reassembly_max; /* buffers beyond one for each peer */
    int credit_init;    /* P: of a new peer; 0: by the number of processes */
    int credit_pool;    /* P: of one queue in all, 0: its share of buffers */
    int rx_depth;       /* receive buffers of a device, 0: as receive_queues says */
    int socket_buffer;  /* bytes, 0: what the transport likes */
    int connected_max;  /* sockets of single peers */
    int port_min;       /* 0: any */
    int port_range;     /* ports from there on */
    int gid_index;      /* -1: the best */
    int pkey;           /* 0: the first */
    int service_level;
    int traffic_class;
    int max_eager_rdma; /* peers; 0: none */
    int eager_rdma_num; /* slots of a ring */
    int eager_rdma_threshold;
    int eager_rdma_period_ms;       /* ms */
    int rc_max_peers;               /* wire auto: rc up to so many */
    int rc_timeout;                 /* of an acknowledgement, 4.096 us x 2^n; 0: the device's */
    int rc_retry;                   /* times */
    int rnr_retry;                  /* times, 7: without end */
    int rnr_timer;                  /* code of a time */
    int rc_reads;                   /* and atomics under way with one peer */
    int send_depth;                 /* sends, 0: the transport's own */
    int cq_depth;                   /* entries, 0: as many as are needed */
    int max_inline_data;            /* bytes */
    size_t pin_max_region;          /* bytes of a region that devices move by themselves */
    int drain_ms;                   /* ms */
    int progress_thread_ms;         /* without progress before the thread takes over */
    size_t progress_thread_backlog; /* bytes of messages that it may keep for progress */
    size_t copy_limit;              /* bytes: what is longer is sent from where it is */
    int free_list_num;              /* descriptors made at first */
    int free_list_inc;              /* and each time they run out */
    bool registered;                /* Open MPI took all of them */
    bool queues_by_user;            /* receive_queues was set by the user */
    bool eager_by_user;             /* and eager_limit */
} btl_ib_params_t;

typedef enum btl_ib_rule_type {
    BTL_IB_RULE_INT,
    BTL_IB_RULE_UNSIGNED,
    BTL_IB_RULE_SIZE,
    BTL_IB_RULE_BOOL,
    BTL_IB_RULE_FLAGS,
} btl_ib_rule_type_t;

/* What a parameter may be. Those that are text for Open MPI, too, have none. */
typedef struct btl_ib_rule {
    const char *name;
    btl_ib_rule_type_t type;
    bool of_limits;   /* a field of mca_btl_base_module_t, else of btl_ib_params_t */
    size_t offset;    /* of the field */
    const char *unit; /* of numbers, as low and high */
    int64_t low;
    uint64_t high;
    const char *standard; /* the default, in words; NULL: the number below */
    int64_t standard_number;
} btl_ib_rule_t;

/*
 * Register all parameters of `component`, those of a module's own fields included, whose defaults
 * are set here; the functions of `limits` are set already, since Open MPI keeps flags only of
 * functions that are there. btl_ib_params_read() comes next.
 */
void btl_ib_params_register(btl_ib_params_t *params, mca_btl_base_module_t *limits,
                            mca_base_component_t *component);

/* Does Open MPI refuse what was read of its own values (params->registered)? */
void btl_ib_params_verify(btl_ib_params_t *params, mca_btl_base_module_t *limits);

/* Rule number `i`, from 0. Returns whether there is one. */
bool btl_ib_params_rule(size_t i, btl_ib_rule_t *rule);

/* The deprecated name of a parameter, or NULL. */
const char *btl_ib_params_synonym(const char *name);

/* The default of a parameter that has one in words. */
const char *btl_ib_params_default(const char *name);

/* What is to protect datagrams, as valid parameters say. */
btl_ib_guard_kind_t btl_ib_params_guard(const btl_ib_params_t *params);

#endif
