/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The table of MCA parameters: name, unit, range, default, level and help text of each. A new
 * parameter is a row of btl_ib_param_table and a field of btl_ib_params_t. What
 * ompi_info --param btl ib --level 9 prints comes from there.
 */

#ifndef BTL_IB_PARAM_TABLE_H
#define BTL_IB_PARAM_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "btl_ib_ompi_compat.h"

/* ---- fields and rows ---- */

/* Bytes beyond the limits that the user sets, in fragments and in reassembly: a PML header and a
 * registration handle of the largest size allowed. */
#define BTL_IB_HEADER_ROOM (MCA_BTL_REG_HANDLE_MAX_SIZE + 256u)

/* Parameters that are one of a few words. */
#define BTL_IB_CHOICES 11

/* Bytes up to which messages are eager, unless the user says how many: a rendezvous costs three
 * short datagrams, an eager message one copy more at the receiver, on both sides where the device
 * moves memory by itself. Where the kernel takes bursts (GSO) a short datagram costs as much as the
 * copy of 64 KiB. With 256 KiB and any header of ob1's: */
#define BTL_IB_EAGER_BY_BURSTS    (257u * 1024)
#define BTL_IB_EAGER_BY_DATAGRAMS (65u * 1024)
#define BTL_IB_EAGER_BY_DEVICE    (12u * 1024)

typedef struct btl_ib_params {
    const mca_base_component_t *component; /* whose parameters they are */
    bool use_auto;                         /* offer ib although nobody named it */
    char *stats;                           /* lines of counters: when */
    char *stats_file;                      /* and a file of them */
    char *trace;                           /* a file of events */
    char *connectivity_map;                /* a file of what each process reaches */
    bool memory_report;                    /* tell at the start what memory devices take */
    bool registration_cache;               /* keep registrations that nobody uses */
    bool fork_safe;              /* children of fork() leave memory that RDMA devices use alone */
    bool pin_probe;              /* find out what devices can register */
    bool warn_known_faults;      /* show a help text about kernels and firmware */
    bool bulk_lane;              /* udp: bulk has a socket of its own */
    bool ecn;                    /* udp: bulk leaves with ECT(0) */
    bool atomics_all;            /* those that osc/rdma takes for something else, too */
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
    char *memory_max;            /* the same that ib takes by itself; "0": no limit */
    char *max_pinned;            /* of a host: bytes, or with a % that part of its memory */
    const char *atomics;         /* "auto", "device" or "host" */
    int depth_peer;              /* segments in flight to one peer */
    int depth_total;             /* segments in flight in all */
    size_t depth_bytes;          /* bytes in flight in all */
    int long_depth;              /* one-sided operations in flight to one peer */
    int long_depth_total;        /* the same in all, 0: any number */
    int reassembly_buffers;      /* beyond one of each peer */
    int reassembly_buffers_peer; /* of them for one peer; 0: all */
    int ack_delay;               /* us */
    int rto_min;                 /* us */
    int rto_max;                 /* us */
    int rto_initial;             /* us */
    int silence_limit;           /* s, 0: none */
    int connect_timeout;         /* s, 0: none */
    int keepalive;               /* s, 0: never */
    int dump_signal;             /* number, 0: none */
    int down_limit;              /* s, 0: none */
    int credit_init;             /* P: of a new peer; 0: by the number of processes */
    int credit_pool;             /* P: of one queue in all, 0: its share of buffers */
    int am_credits_slack; /* P: banked before an explicit return; -1: as receive_queues says */
    int rx_depth;         /* receive buffers of a device, 0: as receive_queues says */
    int socket_buffer;    /* bytes, 0: what the transport likes */
    int connected_max;    /* sockets of single peers */
    int udp_flows;        /* that bulk to one peer leaves by at once */
    int udp_busy_poll;    /* us, 0: as the system does */
    char *udp_address;    /* what routers have for our addresses; NULL: the same */
    int port_min;         /* 0: any */
    int port_range;       /* ports from there on */
    int qps_per_port;     /* rails */
    int max_btls;         /* devices, 0: any number */
    int gid_index;        /* -1: the best */
    int pkey;             /* 0: the first */
    int mtu;              /* bytes, 0: what the network carries */
    int service_level;
    int traffic_class;
    int max_eager_rdma;         /* peers; 0: none */
    int eager_rdma_num;         /* slots of a ring */
    int eager_rdma_size;        /* bytes of a message, 0: inline size */
    int eager_rdma_threshold;   /* messages */
    int eager_rdma_period;      /* seconds, 0: none */
    int rc_idle;                /* seconds, 0: never */
    int rc_max_peers;           /* wire auto: rc up to so many */
    int rc_srq_min_peers;       /* rc: shared default queues from so many on; 0: never */
    int rc_timeout;             /* of an acknowledgement, 4.096 us x 2^n; 0: the device's */
    int rc_retry;               /* times */
    int rnr_retry;              /* times, 7: without end */
    int rnr_timer;              /* code of a time */
    size_t rc_bounce_size;      /* bytes */
    size_t put_bounce_cutover;  /* bytes of a put that is copied, within that */
    size_t get_bounce_cutover;  /* of a get */
    int bounce_num;             /* buffers of such operations of a peer */
    size_t bounce_size;         /* bytes of all peers' buffers, 0: any number */
    int rc_reads;               /* and atomics under way with one peer */
    char *send_depth;           /* sends of each channel, as btl_ib_params_send_depth() reads it */
    int cq_num;                 /* entries of a completion queue, 0: as many as are needed */
    int max_inline_data;        /* bytes */
    size_t pin_max_region;      /* bytes that devices register at once */
    int pin_max_regions;        /* of a process; 0: any number */
    int poll_burst;             /* datagrams of a turn */
    int free_list_num;          /* descriptors made at first */
    int free_list_inc;          /* and each time none is left */
    int free_list_max;          /* of fragments of a size; -1 or 0: any number */
    int drain_ms;               /* ms that whoever leaves waits for last acknowledgements */
    int exit_timeout;           /* s that an end may take beyond what it waits for, 0: any */
    int progress_thread_ms;     /* without progress before the thread takes over */
    int progress_wakeups;       /* of that thread in a second, if it delivers */
    size_t copy_limit;          /* bytes: what is longer is sent from where it is */
    int chosen[BTL_IB_CHOICES]; /* the places of words, as Open MPI shows them */
    bool registered;            /* Open MPI took all of them */
    bool queues_by_user;        /* receive_queues names queues */
    bool eager_by_user;         /* and eager_limit */
} btl_ib_params_t;

typedef enum btl_ib_param_kind {
    BTL_IB_PARAM_INT,
    BTL_IB_PARAM_UNSIGNED,
    BTL_IB_PARAM_SIZE,
    BTL_IB_PARAM_BOOL,
    BTL_IB_PARAM_FLAGS,
    BTL_IB_PARAM_WORD, /* one of a few, the first of which is the default */
    BTL_IB_PARAM_TEXT,
} btl_ib_param_kind_t;

/* A row of the table. */
typedef struct btl_ib_param {
    const char *name;
    btl_ib_param_kind_t kind;
    /* A field of mca_btl_base_module_t, else of btl_ib_params_t. Open MPI registers those, too,
     * with help that tells neither range nor default: what is registered first stays. */
    bool of_limits;
    size_t offset;    /* of the field */
    const char *unit; /* of numbers, as low and high; NULL: none */
    int64_t low;
    uint64_t high;
    int64_t standard; /* the default of numbers and switches of ours */
    /* Of limits the default in words, of texts the default (NULL: empty), of switches what is said
     * behind it (NULL: nothing). */
    const char *text;
    const char *const *words; /* end with NULL; NULL: auto, and the transports that are built in */
    mca_base_var_info_lvl_t level;
    const char *help; /* of numbers and switches of ours without range and default */
    const char *when; /* to change it: a sentence behind them; NULL: it is in help */
} btl_ib_param_t;

#define BTL_IB_WORDS_MAX 16

/* All parameters; ends with one whose name is NULL. */
extern const btl_ib_param_t btl_ib_param_table[];

/* Returns the parameter of this name, which there must be. */
const btl_ib_param_t *btl_ib_param(const char *name);

/* Lists what a choice may be, with NULL at the end. */
void btl_ib_param_words(const btl_ib_param_t *param, const char *words[BTL_IB_WORDS_MAX]);

/* ---- their descriptions ---- */

#define BTL_IB_PARAM_HELP_MAX 768 /* bytes, with the end of the string */

/* Returns the whole help text of a parameter, for ompi_info and the manual page: its own, or what
 * is composed in `room` of the sentence, unit, range, default, and when to change it. */
const char *btl_ib_param_help(const btl_ib_param_t *param, char room[BTL_IB_PARAM_HELP_MAX]);

#endif
