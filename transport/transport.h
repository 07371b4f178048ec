/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What the engine asks of whatever moves datagrams. A transport knows nothing of reliability,
 * connections or MPI; it may lose, repeat and reorder, and it never blocks. Everything is batches:
 * one call sends many, one call collects many, one call gives many buffers back.
 *
 * The engine asks (`attr`), it never assumes. docs/transports.md says how each kind of fabric
 * fits: kernel UDP with segmentation offload, libfabric, verbs UD, verbs RC.
 */

#ifndef BTL_IB_TRANSPORT_H
#define BTL_IB_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

typedef struct btl_ib_transport btl_ib_transport_t;

/* A peer's address as the transport resolved it; opaque to everyone else. */
typedef uint64_t btl_ib_addr_t;
#define BTL_IB_ADDR_UNKNOWN UINT64_MAX

/* The longest address that any transport publishes (a GID with QPN and more, a sockaddr_in6). */
#define BTL_IB_ADDR_BYTES 64

/* Which atomics a device has, on words of 8 bytes that are aligned to 8. */
typedef enum btl_ib_rdma_atomics {
    BTL_IB_RDMA_ATOMICS_NONE,
    BTL_IB_RDMA_ATOMICS_DEVICE, /* atomic among those that this device does for anybody (IBV_ATOMIC_HCA) */
    BTL_IB_RDMA_ATOMICS_GLOBAL, /* and with those of processors and other devices (IBV_ATOMIC_GLOB) */
} btl_ib_rdma_atomics_t;

typedef struct btl_ib_transport_attr {
    uint32_t
        max_datagram; /* bytes of ours that one datagram carries (prefixes already taken off), on
                             * whatever path carries most */
    uint32_t inline_size; /* a send of up to this many bytes leaves nothing of ours in use when
                             * send() returns, and makes no BTL_IB_EVENT_SENT; 0: none does */
    uint32_t max_iov;     /* pieces that one datagram may be gathered from, at least 1 */
    uint32_t max_batch;   /* datagrams that one send() can make use of */
    uint32_t joins; /* so many bytes in them, if they are of one size, go through both hosts as one;
                             * 0: none do */
    uint32_t tx_depth;        /* datagrams that can be on their way out at once */
    uint32_t rx_depth;        /* datagrams that can arrive before anyone polls */
    uint32_t headroom;        /* writable bytes that it wants in front of iov[0] of each send */
    uint32_t bandwidth;       /* Mbit/s of the device, 0: unknown */
    uint32_t registered_page; /* bytes, see mem_register(); 0: any memory will do */
    bool ordered;             /* never reorders */
    bool reliable; /* never loses or repeats, nor reorders what goes to one channel, except where
                              * BTL_IB_EVENT_BROKEN says so (RC) */
    bool
        apart; /* each queue of the open parameters has buffers of its own, which rx_depth() counts */
    bool overtakes;    /* what is no bulk does not wait for bulk sent before it */
    bool sips;         /* poll() may return fewer events than asked for while there are more */
    bool knows_source; /* received datagrams name a source that its addr_add() returned */
    bool rdma;         /* moves memory by itself: ops->rdma */
    uint64_t rdma_max; /* bytes of one write or read; known once it is open */
    uint32_t
        rdma_copied; /* bytes of one for which it needs no handle of the local memory; known once it is open */
    btl_ib_rdma_atomics_t rdma_atomics; /* known once it is open */
    uint32_t
        connections_max; /* that the device has, for all processes of the host; 0: peers need none */
} btl_ib_transport_attr_t;

/* One datagram to send. */
typedef struct btl_ib_tx {
    btl_ib_addr_t to;
    uint32_t niov;       /* 1..max_iov */
    uint32_t size;       /* sum of the pieces, 1..max_datagram */
    struct iovec iov[3]; /* iov[0] is the header, with `headroom` writable bytes before it */
    void *mem;           /* registration handle of iov[0] (mem_register), NULL if none is needed */
    void *context;       /* comes back in BTL_IB_EVENT_SENT unless size <= inline_size */
    uint8_t channel;     /* the queue it is meant for, for transports with one queue per channel */
    bool bulk; /* a piece of something long, which others are to overtake (attr.overtakes) */
} btl_ib_tx_t;

typedef enum btl_ib_event_type {
    BTL_IB_EVENT_RECV,    /* a datagram: data, size, from, buffer */
    BTL_IB_EVENT_SENT,    /* the memory of a send is free again: context */
    BTL_IB_EVENT_REFUSED, /* nobody is at `from`, says `origin`; error: ECONNREFUSED */
    BTL_IB_EVENT_BROKEN, /* a connection to `from` ended: what was sent and not acknowledged may be lost */
    BTL_IB_EVENT_PATH,   /* the path to `from` carries no more than `size` bytes in one datagram,
                          * says `origin` */
    BTL_IB_EVENT_FAILED, /* the device itself is gone; error is the errno */
    BTL_IB_EVENT_DOWN, /* its port is down, but may come back: send() answers ENETDOWN till then */
    BTL_IB_EVENT_UP,   /* it is back */
    BTL_IB_EVENT_RDMA, /* an operation on memory is over: context; error, see btl_ib_rdma_ops_t */
} btl_ib_event_type_t;

/* Who says so, of REFUSED and PATH. An event that does not tell is not to be believed without a
 * proof. */
typedef enum btl_ib_origin {
    BTL_IB_ORIGIN_NETWORK, /* a message from the network, which anybody can forge (ICMP): what it
                            * quotes of our datagram is the proof */
    BTL_IB_ORIGIN_LOCAL,   /* this host's kernel, or the device by a protocol of its own */
} btl_ib_origin_t;

/* Bytes that an event quotes of a datagram at most: its beginning, as it was handed to send(). */
#define BTL_IB_QUOTED_MAX 16u

typedef struct btl_ib_event {
    btl_ib_event_type_t type;
    int error;
    uint32_t size;
    uint8_t origin;      /* btl_ib_origin_t */
    uint8_t quoted_size; /* bytes of `quoted`, 0..BTL_IB_QUOTED_MAX */
    btl_ib_addr_t from;  /* BTL_IB_ADDR_UNKNOWN if it cannot tell */

    union {
        struct { /* RECV */
            uint8_t
                *data;    /* the datagram, the transport's own until repost(), aligned to 8 bytes */
            void *buffer; /* for repost() */
        };

        uint8_t quoted[BTL_IB_QUOTED_MAX]; /* REFUSED, PATH of the network */
    };

    void *context;
} btl_ib_event_t;

/* ---- operations on memory (attr.rdma) ---- */

/* What peers may do with memory; and whether our own reads may go there too, which on iWARP takes the right to write:
 * who knows the key has it then. */
enum {
    BTL_IB_RDMA_MAY_READ = 1,
    BTL_IB_RDMA_MAY_WRITE = 2,
    BTL_IB_RDMA_MAY_ATOMIC = 4,
    BTL_IB_RDMA_READ_INTO = 8,
};

typedef enum btl_ib_rdma_kind {
    BTL_IB_RDMA_WRITE, /* local memory to the peer's */
    BTL_IB_RDMA_READ,  /* the peer's to local memory */
    BTL_IB_RDMA_ADD,   /* word += operand */
    BTL_IB_RDMA_CSWAP, /* if word == compare: word = operand */
} btl_ib_rdma_kind_t;

/* One operation. Atomics are on words of 8 bytes in the order of the target's processor; what was there before comes to
 * *local, which may be any 8 bytes (mem is not looked at). */
typedef struct btl_ib_rdma_work {
    btl_ib_addr_t to;
    btl_ib_rdma_kind_t kind;
    void *local;
    void *mem;       /* what expose() returned for it; NULL: at most attr.rdma_copied bytes */
    uint64_t remote; /* address in the peer's memory, as he told */
    uint32_t key;    /* of it, as he told */
    uint64_t size;   /* bytes, 1..attr.rdma_max; of atomics 8 */
    uint64_t operand;
    uint64_t compare;
    void *context; /* comes back in BTL_IB_EVENT_RDMA */
} btl_ib_rdma_work_t;

/*
 * Each operation that was started makes one BTL_IB_EVENT_RDMA, unless it was cancelled before; those to one peer may end
 * in any order. What `error` says:
 *
 *     0          done; of a write: placed in the peer's memory, and visible there to who hears of it from us
 *     EACCES     the peer's device refused: no such key, not that right, not those bytes. What was placed is not said
 *     EPIPE      the connection broke, or the device failed: how far it came is not known
 *     EIO        the local device refused, or anything else
 *
 * What failed before FAILED is said before it. addr_remove() comes when nothing is under way, or cancels. After stop()
 * there are no events, and no local memory is touched.
 */
typedef struct btl_ib_rdma_ops {
    /*
     * Make memory fit to be used by operations: `access` of peers (BTL_IB_RDMA_MAY_...), 0: as the local end of our own
     * only, of any kind. `key` is what peers have to name; the address that they name is the memory's own. fork(): as for
     * mem_register().
     * Returns 0 or a negative errno: -ENOMEM (of locked memory as well), -EINVAL, -EFAULT... It may take seconds, so it
     * may be called while another thread is in any other function of the transport but close().
     */
    int (*expose)(btl_ib_transport_t *t, void *base, size_t size, unsigned access, void **handle,
                  uint32_t *key);

    /* Nobody uses it from now on: operations of peers that come later are refused. No operation of ours may be using it. */
    void (*withdraw)(btl_ib_transport_t *t, void *handle);

    /*
     * Begin. Returns 0, or a negative errno and nothing was begun: -EAGAIN (not connected yet, or as many as can be are
     * under way; poll() and come again), -EHOSTUNREACH (the last attempt to connect failed; as a send()), -ENETDOWN (the
     * device failed, or its port is down), -EINVAL (size), -EOPNOTSUPP (atomics; or what the peer's device does not serve),
     * -EIO.
     */
    int (*start)(btl_ib_transport_t *t, const btl_ib_rdma_work_t *work);

    /*
     * End all operations with that peer: from the return on their local memory is not touched, and no event of them
     * comes, not even of those that ended before. Works where the device failed, too. What is started later connects
     * anew.
     */
    void (*cancel)(btl_ib_transport_t *t, btl_ib_addr_t to);
} btl_ib_rdma_ops_t;

typedef struct btl_ib_transport_ops {
    /*
     * Hand `n` datagrams to the fabric, in order. Returns how many it took, 0..n; if fewer than n,
     * *error says what stopped the next one: EAGAIN or ENOBUFS (try again later), EMSGSIZE
     * (larger than the path lets through), EHOSTUNREACH, ENETDOWN, EIO...
     */
    int (*send)(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error);

    /* Collect up to `max` events without waiting. Returns how many. */
    int (*poll)(btl_ib_transport_t *t, btl_ib_event_t *events, int max);

    /* Where a received datagram came from, as its sender would publish it: into `address`. Valid until its buffer is
     * reposted. Returns the length, 0: that cannot be told. NULL: it never can. */
    uint32_t (*source)(const btl_ib_transport_t *t, const btl_ib_event_t *event,
                       uint8_t address[BTL_IB_ADDR_BYTES]);

    /* The same for people: the very address and port that it came from, whether anybody published it or not. False if
     * that cannot be told. NULL: it never can. */
    bool (*source_text)(const btl_ib_transport_t *t, const btl_ib_event_t *event, char *out,
                        size_t len);

    /* Give `n` buffers of received datagrams back. */
    void (*repost)(btl_ib_transport_t *t, void *const *buffers, int n);

    /*
     * Resolve an address that a peer published. Returns 0 and *addr, or a negative errno:
     * -EINVAL (not an address of ours), -EHOSTUNREACH, -ENOMEM.
     */
    int (*addr_add)(btl_ib_transport_t *t, const void *bytes, size_t len, btl_ib_addr_t *addr);
    void (*addr_remove)(btl_ib_transport_t *t, btl_ib_addr_t addr);

    /* A published address for people, with the port where it has one. False if it is none. NULL: there is no such text. */
    bool (*address_text)(const void *bytes, size_t len, char *out, size_t out_len);

    /* Bytes that a datagram to and from an added address can have, as far as was known when it was added: at most
     * attr.max_datagram. NULL: that. */
    uint32_t (*path)(const btl_ib_transport_t *t, btl_ib_addr_t addr);

    /* Make memory fit to send from: whole pages of attr.registered_page bytes with nothing else on them, because
     * fork() must not share those (ibv_fork_init(3)). Both do nothing (handle NULL) if that is 0. Returns 0 or a
     * negative errno. */
    int (*mem_register)(btl_ib_transport_t *t, void *base, size_t size, void **handle);
    void (*mem_deregister)(btl_ib_transport_t *t, void *handle);

    /* How many datagrams of up to `size` bytes can arrive before anyone polls, if all are of that size.
     * NULL: attr.rx_depth of any size. */
    uint32_t (*rx_depth)(const btl_ib_transport_t *t, uint32_t size);

    /* A descriptor that becomes readable when poll() has something, or -1. To be waited on only after a poll() that
     * returned less than it was asked for. */
    int (*wait_fd)(btl_ib_transport_t *t);

    /* Neither send nor receive any more: no memory of ours is touched after this, whatever is still
     * on its way. Only mem_deregister() and close() may follow. */
    void (*stop)(btl_ib_transport_t *t);

    /* After stop(): free everything, the transport included. */
    void (*close)(btl_ib_transport_t *t);

    const btl_ib_rdma_ops_t *rdma; /* NULL without attr.rdma */
} btl_ib_transport_ops_t;

/* Where facts for the log go: one line each, no newline at the end. Levels: 1 what was chosen and
 * why, 10 what was turned down, BTL_IB_LOG_DETAILED each dropped datagram and what becomes of each
 * connection. */
#define BTL_IB_LOG_DETAILED 100
typedef void (*btl_ib_log_fn_t)(void *context, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What keeps a device from being used that an administrator, or who starts the job, can change; and what befalls one. */
typedef enum btl_ib_trouble {
    BTL_IB_TROUBLE_NO_FILES, /* the device's file in /dev/infiniband is missing; which: the detail */
    BTL_IB_TROUBLE_NO_PERMISSION, /* it may not be opened */
    BTL_IB_TROUBLE_PORT_DOWN,     /* the port is not active; its state */
    BTL_IB_TROUBLE_LOCKED_MEMORY, /* more memory would have to be locked than may be; how much may */
    BTL_IB_TROUBLE_PARTITION,     /* the port is not in the partition that was asked for; which */
    BTL_IB_TROUBLE_UNREACHABLE,   /* no way to a peer's address; which */
    BTL_IB_TROUBLE_SUBNET, /* a peer is in another subnet, and there is no way between them; its address */
    BTL_IB_TROUBLE_MTU,        /* a peer's port has another MTU; its address, its MTU and ours */
    BTL_IB_TROUBLE_PORT_ERROR, /* the port went down while it was used; what the device said */
    BTL_IB_TROUBLE_IDENTITY, /* what peers know the port by is no longer so: its address, its partition; what the
                                  device said */
    BTL_IB_TROUBLE_FATAL, /* the device, or what all peers share, says that it failed; what it said */
    BTL_IB_TROUBLE_MIGRATED, /* a connection goes by another path, or could not; what the device said */
    BTL_IB_TROUBLES,
} btl_ib_trouble_t;

/* `device` and `detail` are text. */
typedef void (*btl_ib_trouble_fn_t)(void *context, btl_ib_trouble_t what, const char *device,
                                    const char *detail);

/* A device of `transport`, or the transport itself (""), is not used. `reason` is text, good for the
 * time of the call. */
typedef void (*btl_ib_turned_down_fn_t)(void *context, const char *transport, const char *device,
                                        const char *reason);

typedef struct btl_ib_log {
    btl_ib_log_fn_t print;       /* NULL: nobody listens */
    btl_ib_trouble_fn_t trouble; /* NULL: the same */
    btl_ib_turned_down_fn_t turned_down; /* NULL: the same */
    void *context;
    bool detailed; /* somebody listens to BTL_IB_LOG_DETAILED; else nothing is computed for it */
} btl_ib_log_t;

/* Something that a transport could be opened on. */
typedef struct btl_ib_device {
    char transport[16];         /* "udp", "ofi", "verbs" */
    char provider[32];          /* what is below it: "udp", "verbs", "ud"... "" if nothing */
    char name[64];              /* the device or domain: "eth0", "mlx5_0", "usnic_0" */
    char interface[32];         /* its network interface, "" if it has none */
    struct sockaddr_storage ip; /* its address; ss_family AF_UNSPEC if it has none */
    uint8_t prefix_bits;        /* of that address's subnet */
    uint8_t port;  /* of an RDMA device; `name` ends with it (":1") if there are several. 0: none */
    bool loopback; /* reaches this host only */
    const char
        *why_last;      /* why others are taken before it (a literal); NULL: it is as good as any */
    bool plain;         /* no RDMA device: goes through the kernel's network stack */
    uint32_t bandwidth; /* Mbit/s, 0: unknown */
    void *handle;       /* the transport type's own */
} btl_ib_device_t;

#define BTL_IB_OPEN_QUEUES_MAX 16

/* A receive queue that a module wants, for transports that can keep them apart. */
typedef struct btl_ib_open_queue {
    uint32_t size;     /* bytes of ours that a buffer must hold */
    uint32_t num;      /* buffers: for each peer, if the transport can; else for all */
    uint32_t reserve;  /* further ones for each peer, for what needs no credit */
    uint32_t per_peer; /* further ones for each peer where num is for all, if the transport can */
    uint32_t init;     /* so many of num will do at first... */
    uint32_t limit;    /* ...until fewer than this are posted; 0: never */
    bool shared;       /* one pool for all peers */
} btl_ib_open_queue_t;

/* Which devices are looked for. */
typedef struct btl_ib_search {
    const char *provider; /* of libfabric's; NULL or "": any, and other transports as well */
    bool fork_safe;       /* children of fork() shall leave memory that devices use alone */
    int gid_index; /* of RDMA ports: the place of the address to use in their tables; -1: the best */
    btl_ib_log_t log;
} btl_ib_search_t;
/* Of connections (verbs RC). */
typedef struct btl_ib_open_rc {
    uint8_t timeout; /* for an acknowledgement: 4.096 us x 2^timeout, 1..31; 0: the device's own */
    uint8_t retry;   /* times that is sent again, 0..7 */
    uint8_t rnr_retry;        /* the same when no buffer was there; 7: without end */
    uint32_t eager_peers;     /* eager RDMA from at most so many peers; 0: none */
    uint32_t eager_slots;     /* datagrams of each that can be on their way by it; rounded down to a
 power of two, 32768 at most; 0: none */
    uint32_t eager_threshold; /* a peer has it after so many short datagrams... */
    uint32_t eager_period_ms; /* ...within this time, and loses it where there are fewer */
    bool
        relaxed; /* devices may place what is exposed in any order: faster on some machines, and each write
                     is followed by a read before it is done */
} btl_ib_open_rc_t;

/* What a module wants when it opens a device. */
typedef struct btl_ib_open_params {
    uint32_t queue_count;                              /* 0: one, of rx_size and rx_depth */
    btl_ib_open_queue_t queue[BTL_IB_OPEN_QUEUES_MAX]; /* by channel: sizes ascend */
    uint32_t rx_depth;      /* receive buffers wanted (the device's own limit may be lower) */
    uint32_t rx_size;       /* bytes of ours that each must hold; 0: the largest datagram */
    uint32_t tx_depth;      /* sends wanted at once; 0: what the device likes */
    uint32_t socket_buffer; /* bytes of each of a socket's buffers; 0: what the transport likes */
    uint32_t connected_max; /* sockets of single peers beside those that serve all */
    bool bulk_apart;        /* bulk has a socket of its own */
    uint16_t port_min;      /* the first port that may be bound to; 0: any */
    uint32_t port_count;    /* how many from there on, if it is not */
    uint16_t pkey;          /* partition of an RDMA port; 0: the first one that the port is in */
    uint8_t
        service_level; /* of InfiniBand, and the priority on RoCE where the network goes by it */
    uint8_t traffic_class; /* in routing headers: of RoCE v2 the DSCP and two bits for ECN */
    btl_ib_open_rc_t rc;
    btl_ib_log_t log;
} btl_ib_open_params_t;

/* A kind of transport: how to find its devices and open one. */
typedef struct btl_ib_transport_type {
    const char *name; /* the value of btl_ib_transport that selects it */
    const char *wire; /* the value of btl_ib_wire, of types that share a name; else NULL */
    const char *default_queues; /* its own default of btl_ib_receive_queues */

    /*
     * List what it could be opened on, best first.
     * Returns the number (0 is no error) and an array that devices_free() takes back, or a
     * negative errno.
     */
    int (*devices)(const btl_ib_search_t *search, btl_ib_device_t **list);
    void (*devices_free)(btl_ib_device_t *list, int count);

    /* The attributes an open would have, without opening. Returns 0 or a negative errno. */
    int (*query)(const btl_ib_device_t *device, btl_ib_transport_attr_t *attr);

    /* Open a device. Returns 0 and *out, or a negative errno after saying why in the log. */
    int (*open)(const btl_ib_device_t *device, const btl_ib_open_params_t *params,
                btl_ib_transport_t **out);

    /* For people: driver, firmware, link speed and MTU of a device that devices() listed. */
    void (*describe)(const btl_ib_device_t *device, char *out, size_t len);

    /* For people: the library that it goes through, as built with and as it runs. NULL: none but the C library. */
    void (*library)(char *out, size_t len);
} btl_ib_transport_type_t;

/* All that were built in, in the order of preference; ends with NULL. */
extern const btl_ib_transport_type_t *const btl_ib_transport_types[];

/* Has this host any RDMA device? All kinds that Linux knows (InfiniBand, RoCE, iWARP, usNIC, EFA) are in
 * one place. Asked because finding out what they are takes libfabric 0.2 s. */
bool btl_ib_rdma_present(void);

/* A setting of the system that holds a transport back. */
typedef struct btl_ib_limit {
    const char *sysctl; /* its name, a literal; NULL: nothing does */
    uint32_t is;
    uint32_t needed;
} btl_ib_limit_t;

/* Every transport's own struct starts with this. */
struct btl_ib_transport {
    const btl_ib_transport_ops_t *ops;
    btl_ib_transport_attr_t attr;
    char name[64];                      /* "ofi/udp:eth0", for logs */
    uint8_t address[BTL_IB_ADDR_BYTES]; /* what peers pass to addr_add() */
    uint32_t address_len;
    btl_ib_limit_t limit; /* found when it was opened */
};

#endif
