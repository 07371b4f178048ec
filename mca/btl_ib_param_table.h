/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The table of MCA parameters: name, unit, range, default, level and help text of each. A new
 * parameter is a row of btl_ib_param_table and a field of btl_ib_params_t. The output of ompi_info
 * --param btl ib --level 9 comes from the table.
 */

#ifndef BTL_IB_PARAM_TABLE_H
#define BTL_IB_PARAM_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "btl_ib_ompi_compat.h"

/* ---- fields and rows ---- */

/* Bytes that fragments and reassembly have beyond the limits that the user sets: for a PML header
 * and a registration handle of the largest size allowed. */
#define BTL_IB_HEADER_ROOM (MCA_BTL_REG_HANDLE_MAX_SIZE + 256u)

/* The number of parameters whose value is one of a few words. */
#define BTL_IB_CHOICES 11

/* Default eager limits, bytes, with room for any header of ob1's. A rendezvous costs three short
 * datagrams. An eager message costs one more copy at the receiver, and one at the sender as well
 * where the device moves memory by itself. Where the kernel takes bursts (GSO) a short datagram
 * costs as much as copying 64 KiB. */
#define BTL_IB_EAGER_BY_BURSTS    (257u * 1024)
#define BTL_IB_EAGER_BY_DATAGRAMS (65u * 1024)
#define BTL_IB_EAGER_BY_DEVICE    (12u * 1024)

typedef struct btl_ib_params {
    const mca_base_component_t *component; /* whose parameters these are */
    bool use_auto;                         /* offer ib although nobody named it */
    char *stats;                           /* when to print lines of counters */
    char *stats_file;                      /* a file of counters */
    char *trace;                           /* a file of events */
    char *connectivity_map;                /* a file of what each process reaches */
    bool memory_report;                    /* print at the start how much memory devices take */
    bool registration_cache;               /* keep registrations that nobody uses */
    bool fork_safe;              /* children of fork() leave memory that RDMA devices use alone */
    bool pin_probe;              /* find out what devices can register */
    bool warn_known_faults;      /* show a help text about kernels and firmware */
    bool bulk_lane;              /* udp: bulk has a socket of its own */
    bool ecn;                    /* udp: bulk leaves with ECT(0) */
    bool atomics_all;            /* offer also atomics that osc/rdma misuses */
    const char *progress;        /* "serve", "polling" or "deliver" */
    const char *transport;       /* "auto" or a transport's name */
    char *if_include;            /* NULL or empty: all */
    char *if_exclude;            /* NULL or empty: none */
    char *ofi_provider;          /* NULL or empty: any */
    const char *udp_gso;         /* "auto", "0" or "1" */
    const char *wire;            /* "auto", "ud" or "rc" */
    const char *locality;        /* "near", "rank" or "ignore" */
    const char *cc;              /* "auto" or a congestion control's name */
    const char *channels;        /* "auto", "own" or "shared" */
    const char *cq;              /* "shared" or "own" */
    char *receive_queues;        /* NULL or empty: the transport's own default */
    const char *ordering;        /* btl_ib_memory_ordering: "strict" or "relaxed" */
    const char *protection;      /* "none", "crc32c", "integrity" or "encrypt" */
    char *memory_max;            /* limit of ib's own memory, as max_pinned; "0": none */
    char *max_pinned;            /* limit of a host: bytes, or a share of its memory */
    const char *atomics;         /* "auto", "device" or "host" */
    int depth_peer;              /* segments in flight to one peer */
    int depth_total;             /* segments in flight in all */
    size_t depth_bytes;          /* bytes in flight in all */
    int long_depth;              /* one-sided operations in flight to one peer */
    int long_depth_total;        /* the same in all, 0: any number */
    int reassembly_buffers;      /* besides one for each peer */
    int reassembly_buffers_peer; /* how many of them one peer may use; 0: all */
    int ack_delay;               /* us */
    int rto_min;                 /* us */
    int rto_max;                 /* us */
    int rto_initial;             /* us */
    int silence_limit;           /* s, 0: none */
    int connect_timeout;         /* s, 0: none */
    int keepalive;               /* s, 0: never */
    int dump_signal;             /* number, 0: none */
    int down_limit;              /* s, 0: none */
    int credit_init;             /* P: credits of a new peer; 0: by the number of processes */
    int credit_pool;             /* P: credits of one queue in all; 0: its share of buffers */
    int am_credits_slack;        /* P: credits banked until returned; -1: as receive_queues says */
    int rx_depth;                /* receive buffers of a device, 0: as receive_queues says */
    int socket_buffer;           /* bytes, 0: the transport's choice */
    int connected_max;           /* how many peers get a connected socket of their own */
    int udp_flows;               /* how many flows bulk to one peer may use at once */
    int udp_busy_poll;           /* us, 0: the system's setting */
    char *udp_address;           /* our addresses as others see them (NAT); NULL: the same */
    int port_min;                /* 0: any port */
    int port_range;              /* number of ports from port_min on */
    int qps_per_port;            /* rails of one port */
    int max_btls;                /* devices, 0: any number */
    int gid_index;               /* -1: the best */
    int pkey;                    /* 0: the first */
    int mtu;                     /* bytes, 0: what the network carries */
    int service_level;
    int traffic_class;
    int max_eager_rdma;         /* peers; 0: none */
    int eager_rdma_num;         /* slots of a ring */
    int eager_rdma_size;        /* bytes of a message, 0: inline size */
    int eager_rdma_threshold;   /* messages from a peer until it gets a ring */
    int eager_rdma_period;      /* seconds, 0: none */
    int rc_idle;                /* seconds until an idle queue pair is closed, 0: never */
    int rc_max_peers;           /* wire auto: rc up to this many peers */
    int rc_srq_min_peers;       /* rc: shared default queues from this many on; 0: never */
    int rc_timeout;             /* of an acknowledgement, 4.096 us x 2^n; 0: the device's */
    int rc_retry;               /* times */
    int rnr_retry;              /* times, 7: without end */
    int rnr_timer;              /* code of a time (InfiniBand) */
    size_t rc_bounce_size;      /* bytes of a bounce buffer */
    size_t put_bounce_cutover;  /* bytes up to which a put is copied, within rc_bounce_size */
    size_t get_bounce_cutover;  /* the same of a get */
    int bounce_num;             /* bounce buffers of one peer */
    size_t bounce_size;         /* bytes of all peers' bounce buffers, 0: any number */
    int rc_reads;               /* reads and atomics under way with one peer */
    char *send_depth;           /* sends of each channel, as btl_ib_params_send_depth() reads it */
    int cq_num;                 /* entries of a completion queue, 0: as many as are needed */
    int max_inline_data;        /* bytes */
    size_t pin_max_region;      /* bytes that devices register at once */
    int pin_max_regions;        /* registrations of a process; 0: any number */
    int poll_burst;             /* datagrams of a turn */
    int free_list_num;          /* descriptors made at first */
    int free_list_inc;          /* descriptors made each time none is left */
    int free_list_max;          /* fragments of each size; -1 or 0: any number */
    int drain_ms;               /* ms to wait for last acknowledgements when a process leaves */
    int exit_timeout;           /* s that an exit may take beyond what it waits for, 0: any */
    int progress_thread_ms;     /* ms without progress until the thread takes over */
    int progress_wakeups;       /* per second, of that thread if it delivers */
    size_t copy_limit;          /* bytes: longer messages are sent in place */
    int chosen[BTL_IB_CHOICES]; /* indices of words, which Open MPI registers and shows */
    bool registered;            /* Open MPI took all parameters */
    bool queues_by_user;        /* the user set receive_queues */
    bool eager_by_user;         /* the user set eager_limit */
} btl_ib_params_t;

typedef enum btl_ib_param_kind {
    BTL_IB_PARAM_INT,
    BTL_IB_PARAM_UNSIGNED,
    BTL_IB_PARAM_SIZE,
    BTL_IB_PARAM_BOOL,
    BTL_IB_PARAM_FLAGS,
    BTL_IB_PARAM_WORD, /* one of a few words, the first of which is the default */
    BTL_IB_PARAM_TEXT,
} btl_ib_param_kind_t;

/* A row of the table. */
typedef struct btl_ib_param {
    const char *name;
    btl_ib_param_kind_t kind;
    /* The field is one of mca_btl_base_module_t; else of btl_ib_params_t. Open MPI registers the
     * fields of a module, too, but its help has neither range nor default; what is registered
     * first, ours, stays. */
    bool of_limits;
    size_t offset;    /* of the field */
    const char *unit; /* of a number; NULL: none */
    int64_t low;      /* of a number, in its unit */
    uint64_t high;    /* of a number, in its unit */
    int64_t standard; /* default of a number or bool of btl_ib_params_t */
    /* By kind: of limits the default in words; of texts the default (NULL: empty); of bools a note
     * behind the default (NULL: none). */
    const char *text;
    const char *const *words; /* of a choice, the last is NULL. NULL: auto and the transports */
    mca_base_var_info_lvl_t level;
    const char *help; /* if `when` is set without range and default, which are added; else whole */
    const char *when; /* a sentence: when to change it. NULL: `help` has it */
} btl_ib_param_t;

#define BTL_IB_WORDS_MAX 16

/* All parameters. The last row has no name (NULL). */
extern const btl_ib_param_t btl_ib_param_table[];

/* Returns the parameter of this name, without btl_ib_; there must be one. */
const btl_ib_param_t *btl_ib_param(const char *name);

/* Fills in `words` with those of a choice, and NULL at the end. */
void btl_ib_param_words(const btl_ib_param_t *param, const char *words[BTL_IB_WORDS_MAX]);

/* ---- help texts of parameters ---- */

#define BTL_IB_PARAM_HELP_MAX 768 /* bytes, with the terminating zero */

/* Returns the whole help text of a parameter, for ompi_info and the manual page: `help` itself, or,
 * if `when` is set, a text composed in `room` of help, unit, range, default and `when`. */
const char *btl_ib_param_help(const btl_ib_param_t *param, char room[BTL_IB_PARAM_HELP_MAX]);

#endif
