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
 * fits: kernel UDP with segmentation offload, verbs UD, verbs RC.
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

typedef struct btl_ib_transport_attr {
    uint32_t
        max_datagram;     /* bytes of ours that one datagram carries (prefixes already taken off) */
    uint32_t inline_size; /* a send of up to this many bytes leaves nothing of ours in use when
                             * send() returns, and makes no BTL_IB_EVENT_SENT; 0: none does */
    uint32_t max_iov;     /* pieces that one datagram may be gathered from, at least 1 */
    uint32_t max_batch;   /* datagrams that one send() can make use of */
    uint32_t joins;     /* of them, as many of one size go through both hosts as one; 0: none do */
    uint32_t tx_depth;  /* datagrams that can be on their way out at once */
    uint32_t rx_depth;  /* datagrams that can arrive before anyone polls */
    uint32_t headroom;  /* writable bytes that it wants in front of iov[0] of each send */
    uint32_t bandwidth; /* Mbit/s of the device, 0: unknown */
    bool needs_registration; /* all memory sent from must come from mem_register() */
    bool ordered;            /* never reorders */
    bool reliable;           /* never loses or repeats while a peer is connected (RC) */
    bool sips;         /* poll() may return fewer events than asked for while there are more */
    bool knows_source; /* received datagrams name a source that its addr_add() returned */
    bool rdma;         /* moves memory by itself */
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
} btl_ib_tx_t;

typedef enum btl_ib_event_type {
    BTL_IB_EVENT_RECV,    /* a datagram: data, size, from, buffer */
    BTL_IB_EVENT_SENT,    /* the memory of a send is free again: context */
    BTL_IB_EVENT_REFUSED, /* evidence that nobody is at `from`; error is the errno (ECONNREFUSED) */
    BTL_IB_EVENT_PATH,    /* the path to `from` carries no more than `size` bytes in one datagram */
    BTL_IB_EVENT_FAILED,  /* the device itself is gone; error is the errno */
} btl_ib_event_type_t;

typedef struct btl_ib_event {
    btl_ib_event_type_t type;
    int error;
    uint32_t size;
    btl_ib_addr_t from; /* BTL_IB_ADDR_UNKNOWN if it cannot tell */
    uint8_t *data;      /* the datagram, the transport's own until repost(), aligned to 8 bytes */
    void *buffer;       /* for repost() */
    void *context;
} btl_ib_event_t;

typedef struct btl_ib_transport_ops {
    /*
     * Hand `n` datagrams to the fabric, in order. Returns how many it took, 0..n; if fewer than n,
     * *error says what stopped the next one: EAGAIN or ENOBUFS (try again later), EMSGSIZE
     * (larger than the path lets through), EHOSTUNREACH, ENETDOWN, EIO...
     */
    int (*send)(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error);

    /* Collect up to `max` events without waiting. Returns how many. */
    int (*poll)(btl_ib_transport_t *t, btl_ib_event_t *events, int max);

    /* Give `n` buffers of received datagrams back. */
    void (*repost)(btl_ib_transport_t *t, void *const *buffers, int n);

    /*
     * Resolve an address that a peer published. Returns 0 and *addr, or a negative errno:
     * -EINVAL (not an address of ours), -EHOSTUNREACH, -ENOMEM.
     */
    int (*addr_add)(btl_ib_transport_t *t, const void *bytes, size_t len, btl_ib_addr_t *addr);
    void (*addr_remove)(btl_ib_transport_t *t, btl_ib_addr_t addr);

    /* Make memory fit to send from. Both do nothing (handle NULL) if needs_registration is false.
     * Returns 0 or a negative errno. */
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
} btl_ib_transport_ops_t;

/* Where facts for the log go: one line each, no newline at the end. Levels: 1 what was chosen and
 * why, 10 what was turned down, 100 each datagram. */
typedef void (*btl_ib_log_fn_t)(void *context, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

typedef struct btl_ib_log {
    btl_ib_log_fn_t print; /* NULL: nobody listens */
    void *context;
} btl_ib_log_t;

/* Something that a transport could be opened on. */
typedef struct btl_ib_device {
    char transport[16];         /* "udp", "ofi" */
    char provider[32];          /* what is below it: "udp", "verbs"... "" if nothing */
    char name[64];              /* the device or domain: "eth0", "mlx5_0", "usnic_0" */
    char interface[32];         /* its network interface, "" if it has none */
    struct sockaddr_storage ip; /* its address; ss_family AF_UNSPEC if it has none */
    uint8_t prefix_bits;        /* of that address's subnet */
    bool loopback;              /* reaches this host only */
    bool plain;                 /* no RDMA device: goes through the kernel's network stack */
    uint32_t bandwidth;         /* Mbit/s, 0: unknown */
    void *handle;               /* the transport type's own */
} btl_ib_device_t;

/* What a module wants when it opens a device. */
typedef struct btl_ib_open_params {
    uint32_t rx_depth;      /* receive buffers wanted (the device's own limit may be lower) */
    uint32_t rx_size;       /* bytes of ours that each must hold; 0: the largest datagram */
    uint32_t tx_depth;      /* sends wanted at once; 0: what the device likes */
    uint32_t socket_buffer; /* bytes of each of a socket's buffers; 0: what the transport likes */
    uint16_t port_min;      /* the first port that may be bound to; 0: any */
    uint32_t port_count;    /* how many from there on, if it is not */
    btl_ib_log_t log;
} btl_ib_open_params_t;

/* A kind of transport: how to find its devices and open one. */
typedef struct btl_ib_transport_type {
    const char *name;           /* the value of btl_ib_transport that selects it */
    const char *default_queues; /* its own default of btl_ib_receive_queues */

    /*
     * List what it could be opened on, best first; `provider` narrows it (NULL or "": any).
     * Returns the number (0 is no error) and an array that devices_free() takes back, or a
     * negative errno.
     */
    int (*devices)(const char *provider, const btl_ib_log_t *log, btl_ib_device_t **list);
    void (*devices_free)(btl_ib_device_t *list, int count);

    /* The attributes an open would have, without opening. Returns 0 or a negative errno. */
    int (*query)(const btl_ib_device_t *device, btl_ib_transport_attr_t *attr);

    /* Open a device. Returns 0 and *out, or a negative errno after saying why in the log. */
    int (*open)(const btl_ib_device_t *device, const btl_ib_open_params_t *params,
                btl_ib_transport_t **out);
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
