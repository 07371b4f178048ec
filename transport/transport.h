/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The interface between the engine and transports, which move datagrams. A transport knows nothing
 * of reliability, connections or MPI. It may lose, repeat and reorder datagrams, and it never
 * blocks. Everything is done in batches: one call sends many datagrams, one call collects many
 * events, one call gives many buffers back.
 *
 * The engine assumes nothing of a transport beyond `attr`. docs/transports.md says how each kind of
 * fabric fits.
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

/* ---- attributes ---- */

/* Atomics that a device has, on words of 8 bytes that are aligned to 8. */
typedef enum btl_ib_rdma_atomics {
    BTL_IB_RDMA_ATOMICS_NONE,
    BTL_IB_RDMA_ATOMICS_DEVICE, /* atomic among those that this device executes (IBV_ATOMIC_HCA) */
    BTL_IB_RDMA_ATOMICS_GLOBAL, /* also among processors and other devices (IBV_ATOMIC_GLOB) */
} btl_ib_rdma_atomics_t;

/* Bulk to one peer leaves by at most this many flows at once, the usual one included. */
enum { BTL_IB_FLOWS_MAX = 8 };

/* Sizes are in bytes. */
typedef struct btl_ib_transport_attr {
    const char *refused; /* the system call (a literal) for which query() failed; NULL: none */
    /* The largest datagram, on the path that carries most; the transport's own prefixes do not
     * count. */
    uint32_t max_datagram;
    uint32_t max_off_host; /* the largest that leaves this host, if that is smaller; else 0 */
    /* After a send of up to this size the caller's memory is free when send() returns, and no
     * BTL_IB_EVENT_SENT follows. 0: of no size. */
    uint32_t inline_size;
    uint32_t max_iov;   /* pieces that one datagram may be gathered from, at least 1 */
    uint32_t max_batch; /* datagrams that one send() can make use of */
    /* Datagrams of one size, up to this many bytes in all, cost both hosts as much as one
     * (segmentation offload). 0: no such offload. */
    uint32_t gso_bytes;
    uint32_t tx_depth;        /* datagrams that can be on their way out at once */
    uint32_t rx_depth;        /* datagrams that can arrive between two polls */
    uint32_t headroom;        /* writable bytes that send() needs in front of each iov[0] */
    uint32_t bandwidth;       /* of the device in Mbit/s, 0: unknown */
    uint32_t registered_page; /* see mem_register(); 0: any memory will do */
    /* The transport never loses or repeats a datagram, and keeps the order within a channel, except
     * where BTL_IB_EVENT_BROKEN says so (RC). */
    bool reliable;
    /* Each queue of the open parameters has buffers of its own, and rx_depth does not count their
     * reserves; else rx_depth counts the reserve of the first queue. */
    bool queue_buffers;
    bool send_queues; /* each channel has a send queue of its own */
    bool bulk_lane;   /* other datagrams do not wait behind bulk that was sent before them */
    bool bulk_apart;  /* bulk always takes its lane; else in latency mode only */
    /* Number of flows: ways to the same address that differ in ports, and that the network may
     * treat differently. Flow 0 is the usual one. 0 counts as 1. With a bulk lane
     * BTL_IB_FLOWS_OF_LANES or 1. */
    uint8_t flows;
    /* There is a spare flow, whose number is `flows`. It leaves by a port that peers do not know;
     * they recognise its datagrams by ops->from_host(). */
    bool spare_flow;
    /* Number of further flows by which bulk may leave at once, less than BTL_IB_FLOWS_MAX. They are
     * numbered from `flows` + 1 on. Each leaves by a port of its own that peers do not know, as the
     * spare flow does. */
    uint8_t paths;
    bool partial_poll; /* poll() may return fewer events than asked for while there are more */
    bool knows_source; /* events name the source of a datagram if it was added by addr_add() */
    bool ecn;          /* btl_ib_tx_t.ect has an effect, and events have codepoints */
    bool rdma;         /* the device moves memory by itself: ops->rdma */
    /* The next four are known once the transport is open. */
    uint64_t rdma_max;        /* the largest write or read */
    uint64_t rdma_region_max; /* the largest region for expose(); 0: not known */
    uint32_t rdma_copied;     /* the largest operation that needs no handle of the local memory */
    btl_ib_rdma_atomics_t rdma_atomics;
    uint32_t connections_max; /* of the device, for all processes of the host; 0: it uses none */
    uint32_t shared_max;      /* buffers of a queue that all connections share; 0: no such queues */
    uint32_t queue_max;       /* buffers of a queue, as far as the device tells; 0: not known */
} btl_ib_transport_attr_t;

/* ---- sending and receiving ---- */

/* Flows of a transport with a lane for bulk. */
enum {
    BTL_IB_FLOW_USUAL,   /* bulk by its lane, everything else by the other */
    BTL_IB_FLOW_BULK,    /* everything by the lane for bulk */
    BTL_IB_FLOW_LATENCY, /* everything by the other lane */
    BTL_IB_FLOWS_OF_LANES,
};

/* Codepoints of ECN in an IP header (RFC 3168, 5). */
typedef enum btl_ib_codepoint {
    BTL_IB_CODEPOINT_NOT_ECT,
    BTL_IB_CODEPOINT_ECT1,
    BTL_IB_CODEPOINT_ECT0,
    BTL_IB_CODEPOINT_CE,
} btl_ib_codepoint_t;

/* Bytes. No datagram of a batch has ECT(0) if the first one is shorter than this. So a receiver of
 * short datagrams need not ask the system for codepoints: udp begins to do so when the first
 * datagram of this size has arrived, which it reports as "not ECT". */
#define BTL_IB_ECT_LEAST 512u

/* One datagram to send. */
typedef struct btl_ib_tx {
    btl_ib_addr_t to;
    uint32_t niov;   /* 1..max_iov */
    uint32_t size;   /* sum of the pieces, 1..max_datagram */
    uint8_t channel; /* the receive queue it is for, if the transport keeps queues apart */
    bool bulk;       /* part of something long: takes the bulk lane (attr.bulk_lane) */
    bool ect;        /* leaves with ECT(0) (attr.ecn); else with "not ECT" */
    /* 0..attr.flows - 1; attr.flows is the spare flow (attr.spare_flow); bulk may use
     * attr.paths flows more. */
    uint8_t flow;
    /* The largest GSO burst, bytes, that may begin with this datagram; 1: it is joined with no
     * other; 0: attr.gso_bytes. */
    uint32_t gso_most;
    /* Buffers of the peer's first queue that must stay free for control traffic (`reserve` of
     * receive_queues); 0 for control traffic itself. For transports with buffers for each peer. */
    uint32_t spare;
    /* Segments that only continue another one have the same members up to here. */

    struct iovec iov[3]; /* iov[0] is the header, with `headroom` writable bytes before it */
    void *mem;           /* registration handle of iov[0] (mem_register), NULL if none is needed */
    void *context;       /* comes back in BTL_IB_EVENT_SENT unless size <= inline_size */
} btl_ib_tx_t;

/* Returns how many datagrams, from the first on, may leave as one GSO burst of up to `gso_bytes`:
 * those to one peer by one flow, with one codepoint and of one size; the last one may be smaller. A
 * transport may join fewer. */
static inline int btl_ib_gso_run(const btl_ib_tx_t *first, int n, uint32_t gso_bytes)
{
    const uint32_t most =
        first->gso_most == 0 || first->gso_most > gso_bytes ? gso_bytes : first->gso_most;
    uint32_t bytes = first->size;
    int run = 1;

    while (run < n && first[run].to == first[0].to && first[run].flow == first[0].flow
           && first[run - 1].size == first[0].size && first[run].size <= first[0].size
           && bytes + first[run].size <= most && first[run].ect == first[0].ect) {
        bytes += first[run++].size;
    }
    return run;
}

typedef enum btl_ib_event_type {
    BTL_IB_EVENT_RECV,     /* a datagram: data, size, from, buffer */
    BTL_IB_EVENT_SENT,     /* the memory of a send is free again: context */
    BTL_IB_EVENT_REFUSED,  /* `origin` says that nobody is at `from`; error: ECONNREFUSED */
    BTL_IB_EVENT_BROKEN,   /* a connection to `from` ended; unacknowledged data may be lost */
    BTL_IB_EVENT_PATH_MTU, /* `origin` says that the path to `from` carries datagrams of at most
                            * `size` bytes */
    BTL_IB_EVENT_FAILED,   /* the device failed for good; error is the errno */
    BTL_IB_EVENT_DOWN,     /* the port is down (error ENETDOWN), or its address or partition is gone
                            * (others); it may come back, and send() gives ENETDOWN until then */
    BTL_IB_EVENT_UP,       /* the port is back */
    BTL_IB_EVENT_RDMA,     /* an operation on memory is over: context, error (btl_ib_rdma_ops_t) */
    /* `origin` says that nothing gets to `from` now, which may be over soon. error: EHOSTUNREACH,
     * ENETUNREACH, EACCES (administratively prohibited) */
    BTL_IB_EVENT_UNREACHABLE,
} btl_ib_event_type_t;

/* The origin of REFUSED, UNREACHABLE and PATH_MTU. */
typedef enum btl_ib_origin {
    BTL_IB_ORIGIN_NETWORK, /* an ICMP message, which anybody can forge: the engine believes it only
                            * if the part of our datagram that it quotes has a token of ours */
    BTL_IB_ORIGIN_LOCAL,   /* this host's kernel, or the device by a protocol of its own */
} btl_ib_origin_t;

/* An event quotes at most this much of a datagram: its beginning, as it was handed to send(). */
#define BTL_IB_QUOTED_MAX 16u

typedef struct btl_ib_event {
    btl_ib_event_type_t type;
    int error;
    uint32_t size;
    uint8_t origin;      /* btl_ib_origin_t */
    uint8_t quoted_size; /* bytes of `quoted`, 0..BTL_IB_QUOTED_MAX */
    uint8_t codepoint;   /* RECV: btl_ib_codepoint_t of the datagram; without attr.ecn 0 */
    btl_ib_addr_t from;  /* BTL_IB_ADDR_UNKNOWN: the transport does not know */

    union {
        struct {           /* RECV */
            uint8_t *data; /* the datagram, aligned to 8; in memory of the transport, valid until
                            * repost() */
            void *buffer;  /* for repost() */
        };

        uint8_t quoted[BTL_IB_QUOTED_MAX]; /* REFUSED, UNREACHABLE, PATH_MTU of the network */
    };

    void *context;
} btl_ib_event_t;

/* ---- operations on memory (attr.rdma) ---- */

/* Access rights of exposed memory, of peers; READ_INTO is ours: our own reads may place data there.
 * (On iWARP that implies that everyone who knows the key may write.) */
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

/* One operation. Atomics are on words of 8 bytes in the byte order of the target's processor; the
 * old value comes to *local, which may be any 8 bytes (`mem` is ignored). */
typedef struct btl_ib_rdma_work {
    btl_ib_addr_t to;
    btl_ib_rdma_kind_t kind;
    void *local;
    void *mem;       /* what expose() returned for `local`; NULL: at most attr.rdma_copied bytes */
    uint64_t remote; /* address in the peer's memory, as the peer told */
    uint32_t key;    /* of that memory, as the peer told */
    uint64_t size;   /* bytes, 1..attr.rdma_max; of atomics 8 */
    uint64_t operand;
    uint64_t compare;
    void *context; /* comes back in BTL_IB_EVENT_RDMA */
} btl_ib_rdma_work_t;

/*
 * Operations of devices on memory. Each operation that was started makes one BTL_IB_EVENT_RDMA,
 * unless it is cancelled before. Operations with one peer may end in any order. The event's
 * `error`:
 *
 *     0          done; a write is in the peer's memory, and visible to threads that learn of it
 *     EACCES     the peer's device rejected it (key, right or range); part of it may be placed
 *     EPIPE      the connection broke, or the device failed; how much was done is unknown
 *     EIO        the local device rejected it, or any other error
 *
 * Operations that failed with the device end before BTL_IB_EVENT_FAILED. addr_remove() cancels
 * operations with that peer. After stop() there are no events, and no local memory is touched.
 */
typedef struct btl_ib_rdma_ops {
    /*
     * Make memory fit for operations. `access`: rights (BTL_IB_RDMA_...); 0: it is the source of
     * our own writes only. Peers name the memory by *key and its address in this process. For
     * fork() see mem_register(). Returns 0 or a negative errno: -ENOMEM (also for locked memory),
     * -EINVAL, -EFAULT... It may take seconds, so it may be called while another thread is in any
     * function but close().
     */
    int (*expose)(btl_ib_transport_t *t, void *base, size_t size, unsigned access, void **handle,
                  uint32_t *key);

    /* Undo expose(): later operations of peers on that memory are rejected. No operation of ours
     * may be using it. */
    void (*withdraw)(btl_ib_transport_t *t, void *handle);

    /*
     * Begin an operation. Returns 0, or a negative errno and nothing was begun: -EAGAIN (not
     * connected yet, or too many under way: poll() and try again), -EHOSTUNREACH (the last attempt
     * to connect failed, as for send()), -ENETDOWN (the device failed, or its port is down),
     * -EINVAL (size), -EOPNOTSUPP (atomics, or what the peer's device does not serve), -EIO.
     */
    int (*start)(btl_ib_transport_t *t, const btl_ib_rdma_work_t *work);

    /*
     * End all operations with a peer. After the return their local memory is not touched, and they
     * make no events, even those that had ended. Works on a failed device, too. An operation that
     * is started later connects anew.
     */
    void (*cancel)(btl_ib_transport_t *t, btl_ib_addr_t to);
} btl_ib_rdma_ops_t;

/* ---- the operations of a transport ---- */

typedef struct btl_ib_transport_ops {
    /*
     * Hand `n` datagrams to the fabric, in order. Returns how many it took, 0..n; if fewer than n,
     * *error says what stopped the next one: EAGAIN (earlier sends must end first), ENOBUFS (the
     * system refuses it, though the transport knows of room: if one datagram gets this for long,
     * the engine counts it as lost), EMSGSIZE (larger than the path carries), EHOSTUNREACH,
     * ENETDOWN, EIO...
     */
    int (*send)(btl_ib_transport_t *t, const btl_ib_tx_t *batch, int n, int *error);

    /* Collect up to `max` events without waiting. Returns how many. `now` is the time, us. */
    int (*poll)(btl_ib_transport_t *t, uint64_t now, btl_ib_event_t *events, int max);

    /* Write the source of a received datagram, as its sender would publish it, to `address`. May be
     * called until the datagram's buffer is reposted. Returns the length; 0: unknown. NULL: it is
     * never known. */
    uint32_t (*source)(const btl_ib_transport_t *t, const btl_ib_event_t *event,
                       uint8_t address[BTL_IB_ADDR_BYTES]);

    /* Write the address and port that a received datagram came from as text, published or not.
     * Returns false if they are unknown. NULL: they are never known. */
    bool (*source_text)(const btl_ib_transport_t *t, const btl_ib_event_t *event, char *out,
                        size_t len);

    /* Write to `address` the address that a peer published, as a router (NAT) rewrote it: with the
     * host and port that a datagram came from, and all else as published; and to *flow the flow by
     * which an answer goes to that port. May be called as source() may. Returns the length; 0:
     * unknown. NULL: no router rewrites addresses. */
    uint32_t (*rewritten)(const btl_ib_transport_t *t, const btl_ib_event_t *event,
                          const void *published, size_t len, uint8_t address[BTL_IB_ADDR_BYTES],
                          uint8_t *flow);

    /* True if a received datagram came from the host of an added address, from any port. May be
     * called as source() may. NULL: no peer has a spare flow. */
    bool (*from_host)(const btl_ib_transport_t *t, const btl_ib_event_t *event, btl_ib_addr_t addr);

    /* Move a flow whose port peers do not know (attr.spare_flow, attr.paths) to another port,
     * unless that was tried less than a second ago. Called if nothing is answered by it. `now`, us.
     * NULL: there is no such flow. */
    void (*flow_renew)(btl_ib_transport_t *t, uint32_t flow, uint64_t now);

    /* Give `n` buffers of received datagrams back. */
    void (*repost)(btl_ib_transport_t *t, void *const *buffers, int n);

    /*
     * Resolve an address that a peer published. Returns 0 and *addr, or a negative errno:
     * -EINVAL (not an address of this transport), -EHOSTUNREACH, -ENOMEM.
     */
    int (*addr_add)(btl_ib_transport_t *t, const void *bytes, size_t len, btl_ib_addr_t *addr);

    /* Forget an address; called as often as it was added. */
    void (*addr_remove)(btl_ib_transport_t *t, btl_ib_addr_t addr);

    /* Change to the device's present address, if it no longer has the one in t->address: send and
     * receive by it, and set t->address. Added addresses and registered memory stay. Returns true
     * if the address changed. Makes system calls; called at most four times a second, while nothing
     * arrives at the device. NULL: addresses do not change. */
    bool (*rebind)(btl_ib_transport_t *t);

    /* Write a published address as text, with its port if it has one. Returns false if it is no
     * address. NULL: there is no such text. */
    bool (*address_text)(const void *bytes, size_t len, char *out, size_t out_len);

    /* Write the addresses and ports that a flow uses for datagrams that are no bulk, as text.
     * Returns false if they are unknown. NULL: they are never known. */
    bool (*flow_text)(const btl_ib_transport_t *t, btl_ib_addr_t addr, uint32_t flow, char *out,
                      size_t len);

    /* Write, as text, the address of the host that last reported by ICMP (REFUSED, UNREACHABLE)
     * that nothing gets to an added address. Returns false if no host did. NULL: it is not
     * known. */
    bool (*offender_text)(const btl_ib_transport_t *t, btl_ib_addr_t addr, char *out, size_t len);

    /* Write, as text for the log, what is in use towards an added address (lanes, connected
     * sockets, GSO). NULL: nothing to write. */
    void (*in_use_text)(const btl_ib_transport_t *t, btl_ib_addr_t addr, char *out, size_t len);

    /* Return the size of the largest datagram to and from an added address, as far as is known now:
     * at most attr.max_datagram. May make system calls. NULL: attr.max_datagram. */
    uint32_t (*path_datagram)(const btl_ib_transport_t *t, btl_ib_addr_t addr);

    /* Make memory fit to send from. It must be whole pages of attr.registered_page bytes with
     * nothing else on them, because children of fork() may not get these pages (ibv_fork_init(3)).
     * If attr.registered_page is 0 both functions do nothing (handle NULL). Returns 0 or a negative
     * errno. */
    int (*mem_register)(btl_ib_transport_t *t, void *base, size_t size, void **handle);
    void (*mem_deregister)(btl_ib_transport_t *t, void *handle);

    /* Return how many datagrams of `size` bytes can arrive between two polls, if all have that
     * size. NULL: attr.rx_depth, whatever the size. */
    uint32_t (*rx_depth)(const btl_ib_transport_t *t, uint32_t size);

    /* Return a descriptor that is readable while poll() would find something; -1: none. Valid only
     * after a poll() that returned less than it was asked for. */
    int (*wait_fd)(btl_ib_transport_t *t);

    /* End sending and receiving. After the return the transport touches none of the caller's
     * memory. Only mem_deregister() and close() may follow. */
    void (*stop)(btl_ib_transport_t *t);

    /* After stop(): free everything, the transport included. */
    void (*close)(btl_ib_transport_t *t);

    const btl_ib_rdma_ops_t *rdma; /* NULL without attr.rdma */
} btl_ib_transport_ops_t;

/* ---- log and diagnostics ---- */

/* The detailed level of the log: every dropped datagram, and the life of each connection. Level 1
 * has what was chosen and why, 10 what was turned down. */
#define BTL_IB_LOG_DETAILED 100

/* Prints a line of the log, given without a newline at its end. */
typedef void (*btl_ib_log_fn_t)(void *context, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Reasons why a device cannot be used that an administrator or the user can mend, and failures of
 * devices in use. After the ';' each comment says what `detail` has. */
typedef enum btl_ib_diagnostic {
    BTL_IB_DIAG_NO_LIBRARY,    /* a library that its transport needs cannot be loaded; why */
    BTL_IB_DIAG_NO_FILES,      /* its file in /dev/infiniband is missing; which */
    BTL_IB_DIAG_NO_PERMISSION, /* it may not be opened */
    BTL_IB_DIAG_PORT_DOWN,     /* the port is not active; its state */
    BTL_IB_DIAG_LOCKED_MEMORY, /* more memory would have to be locked than allowed; the limit */
    BTL_IB_DIAG_PARTITION,     /* the port is not in the partition that was asked for; which */
    BTL_IB_DIAG_UNREACHABLE,   /* no path to a peer's address; which */
    BTL_IB_DIAG_SUBNET,        /* a peer is in another subnet, without a path; its address */
    BTL_IB_DIAG_MTU,           /* a peer's port has another MTU; its address and both MTUs */
    BTL_IB_DIAG_PORT_ERROR,    /* the port went down in use; the device's event */
    BTL_IB_DIAG_IDENTITY, /* the port's address or partition changed in use; the device's event */
    BTL_IB_DIAG_FATAL,    /* the device, or a queue that all peers share, failed; the event */
    BTL_IB_DIAG_REFUSED,  /* what connections that peers ask for need; the call and its error */
    BTL_IB_DIAG_MIGRATED, /* a connection moved to another path, or could not; the event */
    BTL_IB_DIAGS,
} btl_ib_diagnostic_t;

/* Shows a help text, or keeps it to be shown. `device` and `detail` are valid during the call. */
typedef void (*btl_ib_diagnostic_fn_t)(void *context, btl_ib_diagnostic_t what, const char *device,
                                       const char *detail);

/* Notes that a device of `transport`, or the transport itself (""), is not used. `reason` is text,
 * valid during the call. */
typedef void (*btl_ib_turned_down_fn_t)(void *context, const char *transport, const char *device,
                                        const char *reason);

/* Functions to report by. Any of them may be NULL: then nothing is reported. */
typedef struct btl_ib_log {
    btl_ib_log_fn_t print;
    btl_ib_diagnostic_fn_t diagnostic;
    btl_ib_turned_down_fn_t turned_down;
    void *context;
    bool detailed; /* lines of BTL_IB_LOG_DETAILED are wanted; else they are not even made */
} btl_ib_log_t;

/* ---- devices ---- */

/* Ranks of devices: when their rails are used for a peer. The numbers are published, so they must
 * not change. */
typedef enum btl_ib_rank {
    BTL_IB_RANK_FIRST = 0,   /* from the beginning */
    BTL_IB_RANK_ADDRESS = 1, /* another address of an interface: if no FIRST pair answers */
    BTL_IB_RANK_LAST = 2,    /* a tunnel, an address that expires...: if no ADDRESS pair answers */
    BTL_IB_RANKS,
} btl_ib_rank_t;

/* A device on which a transport can be opened. A device with several addresses is listed once for
 * each. */
typedef struct btl_ib_device {
    char transport[16];                /* "udp", "ofi", "verbs" */
    char provider[32];                 /* below the transport: "udp", "verbs", "ud"...; "": none */
    char name[64];                     /* the device or domain: "eth0", "mlx5_0", "usnic_0" */
    char interface[32];                /* its network interface; "": none */
    struct sockaddr_storage ip;        /* its IP address; ss_family AF_UNSPEC: none */
    struct sockaddr_storage published; /* the address that peers use instead of `ip` (NAT); port 0:
                                        * the same port. ss_family AF_UNSPEC: they use `ip` */
    uint8_t prefix_bits;               /* of the subnet of `ip` */
    uint8_t port;  /* of an RDMA device; `name` ends with it (":1") if there are several. 0: none */
    bool loopback; /* reaches this host only */
    uint8_t rank;  /* btl_ib_rank_t */
    const char *last_resort; /* a literal: why it is used only if no other is left; NULL: usable */
    bool plain;              /* goes through the kernel's network stack; false: an RDMA device */
    uint32_t bandwidth;      /* Mbit/s, 0: unknown */
    uint32_t vendor_id;      /* of RDMA devices (ibv_query_device()); 0: unknown, as a rule */
    uint32_t part_id;        /* the vendor's number for the kind of device; 0: unknown */
    void *handle;            /* the transport type's own */
} btl_ib_device_t;

/* What a search for devices takes into account. */
typedef struct btl_ib_search {
    const char *provider; /* of libfabric; NULL or "": any, and other transports as well */
    bool fork_safe;       /* memory that devices use must be safe from fork() */
    int gid_index;        /* index of the GID of RDMA ports; -1: the best */
    btl_ib_log_t log;
} btl_ib_search_t;

/* ---- opening ---- */

#define BTL_IB_OPEN_QUEUES_MAX 16

/* A receive queue that a module asks for. A transport that keeps no queues apart uses one. */
typedef struct btl_ib_open_queue {
    uint32_t size; /* bytes of ours that a buffer must hold */
    uint32_t num;  /* buffers: for each peer, if the transport can; else for all */
    /* Further buffers for what needs no credit: for each peer, if the transport can; else for
     * all. */
    uint32_t reserve;
    /* Further buffers for each peer where num is for all, if the transport can. */
    uint32_t per_peer;
    uint32_t init;   /* buffers of num that are made at first; 0: all */
    uint32_t limit;  /* the buffers are doubled if fewer than this are posted; 0: never */
    uint32_t low;    /* buffers are posted again if at most this many are posted; 0: half of num */
    uint32_t window; /* after this many are posted again the sender learns of it; 0: half of low */
    uint32_t tx_depth; /* sends of its channel wanted at once; 0: as btl_ib_open_params_t says */
    bool shared;       /* one pool for all peers */
} btl_ib_open_queue_t;

/* Limits of members of btl_ib_open_params_t: the most that a user, or the table of devices, may ask
 * for (bytes, peers, operations), and the least MTU that is not 0. */
#define BTL_IB_BOUNCE_MAX      65536u
#define BTL_IB_INLINE_MAX      1024
#define BTL_IB_MTU_LEAST       256
#define BTL_IB_MTU_MAX         65535
#define BTL_IB_EAGER_PEERS_MAX 64
#define BTL_IB_READS_MAX       128

/* Parameters of connections (verbs RC). */
typedef struct btl_ib_open_rc {
    uint8_t timeout; /* for an acknowledgement: 4.096 us x 2^timeout, 1..31; 0: the device's own */
    uint8_t retry;   /* retransmissions, 0..7 */
    uint8_t rnr_retry;    /* retransmissions when no buffer was there, 0..6; 7: without end */
    uint8_t rnr_timer;    /* how long a sender waits then, 1..31 as in IBTA 9.7.5.2.8; 0: 0.16 ms */
    uint8_t reads;        /* reads and atomics of a peer under way at once, as far as the device
                           * serves them; 0: the default */
    uint32_t bounce_size; /* bytes of the largest operation that is copied, so that local memory
                           * need not be registered; at most BTL_IB_BOUNCE_MAX, 0: none is */
    uint32_t bounce_num;  /* bounce buffers of each peer; 0: 16 */
    uint64_t bounce_total; /* bytes of all peers' bounce buffers; 0: any number */
    uint32_t eager_peers;  /* at most this many peers use eager RDMA; 0: none */
    uint32_t eager_slots;  /* datagrams of each such peer under way by eager RDMA; rounded down to a
                            * power of two, at most 32768; 0: none */
    uint32_t eager_size;   /* bytes of the longest of them; 0: as many as go inline */
    uint32_t eager_threshold; /* after this many short datagrams a peer may use it; 0: default */
    uint32_t eager_period; /* seconds; a peer that sent fewer in one loses its place to a peer that
                            * waits; 0: it has the place until its connection ends */
    uint32_t idle;         /* seconds; an unused connection is closed after them, until it is needed
                      * again; 0: never */
    bool idle_first;       /* `idle` applies to the connection of the first queue, too */
    uint32_t busy;         /* for memory_estimate(): at most this many peers are not idle; 0: all */
    /* Devices may write exposed memory in any order: faster on some machines, but each write is
     * followed by a read before it is done. */
    bool relaxed;
} btl_ib_open_rc_t;

/* Whether each channel has an endpoint, queue pair or socket of its own. */
typedef enum btl_ib_open_channels {
    BTL_IB_CHANNELS_AUTO,   /* as is best for the transport */
    BTL_IB_CHANNELS_OWN,    /* each has its own, as far as the transport can */
    BTL_IB_CHANNELS_SHARED, /* all share one */
} btl_ib_open_channels_t;

/* Parameters with which a module opens a device. */
typedef struct btl_ib_open_params {
    uint32_t queue_count;                              /* 0: one, of rx_size and rx_depth */
    btl_ib_open_queue_t queue[BTL_IB_OPEN_QUEUES_MAX]; /* by channel: sizes ascend */
    uint32_t rx_depth;      /* receive buffers wanted (the device's own limit may be lower) */
    uint32_t rx_size;       /* bytes of ours that each must hold; 0: the largest datagram */
    uint32_t tx_depth;      /* sends wanted at once, of each queue; 0: the transport's default */
    int32_t inline_max;     /* bytes that a request may carry itself, for the device to take from
                             * there; 0: the transport's default; -1: none */
    uint32_t socket_buffer; /* bytes of each buffer of a socket; 0: the transport's default */
    uint32_t connected_max; /* sockets of single peers, besides those that all peers share */
    uint32_t busy_poll;     /* us for which a read polls the network card; 0: the system's value */
    bool bulk_lane;         /* bulk has a socket of its own */
    bool no_gso;            /* a socket is given single datagrams only */
    uint32_t udp_flows;     /* bulk may leave by at most this many flows at once; 0 is 1 */
    bool no_gro;            /* the system does not join received datagrams */
    bool ecn;               /* datagrams may leave with ECT(0), where the transport can */
    uint16_t port_min;      /* the first port that may be bound to; 0: any */
    uint32_t port_count;    /* number of ports from port_min on */
    uint16_t pkey;          /* partition of an RDMA port; 0: the first one that the port is in */
    uint32_t mtu;           /* bytes of the largest packet of the network; 0: all that it carries */
    uint8_t service_level;  /* of InfiniBand; on RoCE the priority, if the network uses it; of a
                             * socket its priority */
    uint8_t traffic_class;  /* in routing headers; of IP the DSCP and two bits for ECN */
    btl_ib_open_channels_t channels;
    bool cq_own;     /* each endpoint or queue pair has a completion queue of its own */
    uint32_t cq_num; /* entries of each completion queue, with fewer sends and buffers if they are
                      * too few; 0: as many as are needed */
    btl_ib_open_rc_t rc;
    btl_ib_log_t log;
    const char **refused; /* if the open fails by a call of the system or of a library, *refused
                           * becomes its name (a literal); else it stays; may be NULL */
} btl_ib_open_params_t;

/* Returns how many sends at once are wanted for a channel; `usual` is the transport's default. */
static inline uint32_t btl_ib_open_tx_depth(const btl_ib_open_params_t *params, uint32_t channel,
                                            uint32_t usual)
{
    const uint32_t wanted = params->queue[channel].tx_depth;

    return wanted != 0 ? wanted : params->tx_depth != 0 ? params->tx_depth : usual;
}

/* Returns how many buffers of a queue may wait to be posted again together: those above the low
 * watermark. */
static inline uint32_t btl_ib_open_batch(const btl_ib_open_queue_t *queue)
{
    const uint32_t low = queue->low > 0 ? queue->low : queue->num / 2;

    return low < queue->num ? queue->num - low : 1;
}

/* ---- memory forecast ---- */

/* An estimate of memory, part by part, that is made before anything is allocated. The code that
 * allocates a part also adds it to the estimate, from the same sizes. */

#define BTL_IB_ESTIMATE_PARTS 40

/* Owners of memory. */
typedef enum btl_ib_estimate_owner {
    BTL_IB_ESTIMATE_PROCESS, /* this process: allocations of ours */
    BTL_IB_ESTIMATE_KERNEL,  /* the kernel: buffers of sockets */
    BTL_IB_ESTIMATE_DEVICE,  /* a device or its library: queues; a rough estimate */
    BTL_IB_ESTIMATE_OWNERS,
} btl_ib_estimate_owner_t;

/* Names of owners, for people. */
extern const char *const btl_ib_estimate_owners[BTL_IB_ESTIMATE_OWNERS];

typedef struct btl_ib_estimate_bytes {
    uint64_t held; /* at rest, after messages went over every queue in both directions */
    uint64_t most; /* at most, under load; at least `held` */
} btl_ib_estimate_bytes_t;

typedef struct btl_ib_estimate_part {
    char what[48];
    btl_ib_estimate_owner_t owner;
    btl_ib_estimate_bytes_t bytes;
} btl_ib_estimate_part_t;

/* All zero: no part was added. */
typedef struct btl_ib_memory_estimate {
    btl_ib_estimate_bytes_t all[BTL_IB_ESTIMATE_OWNERS]; /* the sums of the parts */
    uint64_t endpoints;         /* of libfabric, queue pairs or sockets, for all peers */
    uint32_t completion_queues; /* 0: none, or not known before peers connect */
    uint32_t count;
    btl_ib_estimate_part_t part[BTL_IB_ESTIMATE_PARTS];
} btl_ib_memory_estimate_t;

/* Adds a part, `held` and `most` in bytes; if there is no place it is added to the last part.
 * `most` below `held` counts as `held`. */
void btl_ib_estimate_add(btl_ib_memory_estimate_t *estimate, btl_ib_estimate_owner_t owner,
                         uint64_t held, uint64_t most, const char *what, ...)
    __attribute__((format(printf, 5, 6)));

/* Notes how many endpoints and completion queues there are. */
void btl_ib_estimate_queues(btl_ib_memory_estimate_t *estimate, uint64_t endpoints,
                            uint32_t completion_queues);

/* Returns the places of a table that doubles from `first` on until `count` fit; 0 if none are
 * needed. */
static inline uint64_t btl_ib_estimate_doubled(uint64_t first, uint64_t count)
{
    uint64_t places = count > 0 ? first : 0;

    while (places < count) {
        places *= 2;
    }
    return places;
}

/* Returns `bytes` rounded up to whole pages. */
static inline uint64_t btl_ib_estimate_pages(uint64_t bytes, uint64_t page)
{
    return (bytes + page - 1) / page * page;
}

/* ---- tables of addresses ---- */

/* The memory of a table of addresses, whose entries are found by index, and by hash: buckets begin
 * lists of entries. */

/* Entries of a new table. */
#define BTL_IB_ADDR_TABLE_FIRST 16u

/* All zero: empty. */
typedef struct btl_ib_addr_table {
    uint32_t count; /* entries that fit; 0 or a power of 2 */
    void *entry;
    void *bucket;
} btl_ib_addr_table_t;

/*
 * Doubles a table, or gives it its first entries. Entries have `entry` bytes each, the new ones are
 * zero; buckets have `bucket` bytes for each entry, all of them are zero: the caller links its
 * entries anew. Returns false if memory is short; then nothing has changed.
 */
bool btl_ib_addr_table_grow(btl_ib_addr_table_t *table, size_t entry, size_t bucket);

/* Returns the entries of a table that holds `count` of them. */
static inline uint64_t btl_ib_addr_table_places(uint32_t count)
{
    return btl_ib_estimate_doubled(BTL_IB_ADDR_TABLE_FIRST, count);
}

/* ---- kinds of transports ---- */

struct btl_ib_facts; /* net_interfaces.h */

/* Bits for numbers of a shared receive queue (receive_queues) that a transport does not use. */
enum {
    BTL_IB_SHARED_NUM = 1,
    BTL_IB_SHARED_LOW = 2,
    BTL_IB_SHARED_GROWTH = 4, /* init and limit */
};

/* A kind of transport: how to find its devices and open one. */
typedef struct btl_ib_transport_type {
    const char *name; /* the value of btl_ib_transport that selects it */
    const char *wire; /* the value of btl_ib_wire that selects it among types that share a name;
                       * else NULL */
    const char *default_queues; /* its default of btl_ib_receive_queues */
    const char *shared_queues;  /* its default for many peers, of the same sizes; NULL: the same */
    unsigned shared_unused;     /* BTL_IB_SHARED_...: numbers that it does not use */

    /*
     * List the devices that it could be opened on, best first. Returns their number (0 is no
     * error), and an array for devices_free() in *list; or a negative errno.
     */
    int (*devices)(const btl_ib_search_t *search, btl_ib_device_t **list);
    void (*devices_free)(btl_ib_device_t *list, int count);

    /* Fill in the attributes that a device opened with `mtu`, as in its parameters, would have.
     * Returns 0, or a negative errno, and only attr->refused is filled in. */
    int (*query)(const btl_ib_device_t *device, uint32_t mtu, btl_ib_transport_attr_t *attr);

    /* Open a device. Returns 0 and *out, or a negative errno after logging why. */
    int (*open)(const btl_ib_device_t *device, const btl_ib_open_params_t *params,
                btl_ib_transport_t **out);

    /* Add to *estimate the memory of a device opened with these parameters, whose attributes are
     * those of query(), with `peers` peers. */
    void (*memory_estimate)(const btl_ib_open_params_t *open, const btl_ib_transport_attr_t *attr,
                            uint32_t peers, btl_ib_memory_estimate_t *estimate);

    /* Fill in what is known of a device that devices() listed. */
    void (*facts)(const btl_ib_device_t *device, struct btl_ib_facts *facts);

    /* Write as text which version of the library below we were built with, and which one runs or
     * why none does. devices() loads the library; with `load` this function does. NULL: it uses
     * only the C library. */
    void (*library)(bool load, char *out, size_t len);
} btl_ib_transport_type_t;

/* udp: the kernel's own sockets, for any machine with a network interface. Many datagrams move in
 * one system call (UDP_SEGMENT, UDP_GRO, sendmmsg, recvmmsg), where the kernel has that. */
extern const btl_ib_transport_type_t btl_ib_udp_type;

/* ofi: libfabric's datagram endpoints (FI_EP_DGRAM), over any provider that has them: usnic, efa,
 * verbs (UD), udp. */
extern const btl_ib_transport_type_t btl_ib_ofi_type;

/* verbs: RDMA devices through rdma-core (libibverbs). ud: unreliable datagrams, one queue pair for
 * each port. rc: reliable connections, one for each peer, for iWARP, which has no UD, and for
 * operations of devices on memory. */
extern const btl_ib_transport_type_t btl_ib_verbs_ud_type;
extern const btl_ib_transport_type_t btl_ib_verbs_rc_type;

/* All types that were built in, in the order of preference; the last is NULL. */
extern const btl_ib_transport_type_t *const btl_ib_transport_types[];

/* Settings of the system that limit a transport. */
typedef struct btl_ib_limit {
    const char *sysctl[2]; /* their names, literals; NULL: none */
    uint32_t is[2];        /* their values */
    uint32_t needed;       /* the value that both should have at least */
} btl_ib_limit_t;

/* Every transport's own struct starts with this. */
struct btl_ib_transport {
    const btl_ib_transport_ops_t *ops;
    btl_ib_transport_attr_t attr;
    char name[64];                      /* "ofi/udp:eth0", for logs */
    uint8_t address[BTL_IB_ADDR_BYTES]; /* what peers pass to addr_add() */
    uint32_t address_len;
    /* Bytes of `address` that releases up to 0.3.0 read, which are enough to reach this transport;
     * 0: they read all. */
    uint32_t address_base;
    btl_ib_limit_t limit; /* found when it was opened */
    const char *refused;  /* after FAILED: the call (a literal) that failed; NULL: none */
    /* The call (a literal) for which send() refused a datagram last, and its errno, where what
     * send() returned does not say that; NULL: it does. */
    const char *unsent_call;
    int unsent_error;
    /* Counters, as far as the system tells. */
    uint64_t overflows;       /* datagrams that found no room in a receive buffer */
    uint64_t received_bursts; /* bursts that the system had joined (GRO) */
    uint64_t broken_bursts;   /* bursts that were dropped because they cannot be split */
};

#endif
