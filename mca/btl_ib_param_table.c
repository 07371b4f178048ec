/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include "btl_ib_param_table.h"

#include "btl_ib_engine.h"
#include "btl_ib_help.h"
#include "btl_ib_param_parse.h"
#include "transport.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* ---- the table of parameters ---- */

static const char *const wires[] = {"auto", "ud", "rc", NULL};
static const char *const localities[] = {"near", "rank", "ignore", NULL};
static const char *const orderings[] = {"strict", "relaxed", NULL};
static const char *const protections[] = {"none", "crc32c", "integrity", "encrypt", NULL};
static const char *const atomics[] = {"auto", "device", "host", NULL};
static const char *const progresses[] = {"serve", "polling", "deliver", NULL};
static const char *const gsos[] = {"auto", "0", "1", NULL};
static const char *const ccs[] = {"auto", "none", "swift", "cubic", NULL};
static const char *const channels[] = {"auto", "own", "shared", NULL};
static const char *const cqs[] = {"shared", "own", NULL};

/* Each row of the table is made by one of these. */

#define NUMBER(field, kind_, standard_, low_, high_, unit_, level_, help_, when_)                  \
    {                                                                                              \
        .name = #field, .kind = kind_, .offset = offsetof(btl_ib_params_t, field), .unit = unit_,  \
        .low = low_, .high = high_, .standard = standard_, .level = OPAL_INFO_LVL_##level_,        \
        .help = help_, .when = when_                                                               \
    }
#define INT_PARAM(field, ...)  NUMBER(field, BTL_IB_PARAM_INT, __VA_ARGS__)
#define SIZE_PARAM(field, ...) NUMBER(field, BTL_IB_PARAM_SIZE, __VA_ARGS__)

#define BOOL_PARAM(field, name_, standard_, level_, help_, note, when_)                            \
    {                                                                                              \
        .name = name_, .kind = BTL_IB_PARAM_BOOL, .offset = offsetof(btl_ib_params_t, field),      \
        .standard = standard_, .text = note, .level = OPAL_INFO_LVL_##level_, .help = help_,       \
        .when = when_                                                                              \
    }

#define TEXT_PARAM(field, name_, standard_, level_, help_)                                         \
    {                                                                                              \
        .name = name_, .kind = BTL_IB_PARAM_TEXT, .offset = offsetof(btl_ib_params_t, field),      \
        .text = standard_, .level = OPAL_INFO_LVL_##level_, .help = help_                          \
    }

#define CHOICE_PARAM(field, name_, words_, level_, help_)                                          \
    {                                                                                              \
        .name = name_, .kind = BTL_IB_PARAM_WORD, .offset = offsetof(btl_ib_params_t, field),      \
        .words = words_, .level = OPAL_INFO_LVL_##level_, .help = help_                            \
    }

#define LIMIT_PARAM(field, type, unit_, low_, high_, standard_, level_, help_)                     \
    {                                                                                              \
        .name = #field, .kind = BTL_IB_PARAM_##type, .of_limits = true,                            \
        .offset = offsetof(mca_btl_base_module_t, btl_##field), .unit = unit_, .low = low_,        \
        .high = high_, .text = standard_, .level = OPAL_INFO_LVL_##level_, .help = help_           \
    }

/* clang-format off */
const btl_ib_param_t btl_ib_param_table[] = {
    INT_PARAM(depth_peer, 16384, 2, 65536, "segments", 5,
              "Keep at most this many segments in flight to one peer",
              "Lower it where long messages of many peers swamp one"),
    INT_PARAM(depth_total, 24576, 2, 1048576, "segments", 5,
              "Keep at most this many segments to all peers together that are not acknowledged",
              "Lower it to save memory; raise it where a process feeds many peers over a long way"),
    SIZE_PARAM(depth_bytes, 32 << 20, 64 << 10, INT64_C(1) << 34, "bytes", 5,
               "Keep at most this many bytes to all peers together that are not acknowledged",
               "Lower it where long messages of many peers swamp one; raise it where "
               "btl_ib_stats says blocked and the way is long and fast"),
    INT_PARAM(long_depth, 128, 1, BTL_IB_OPS_MAX, "operations", 9,
              "Keep at most this many puts, gets and atomics in flight to one peer; others wait",
              "Lower it where gets of many peers swamp one"),
    INT_PARAM(long_depth_total, 0, 0, INT_MAX, "operations", 9,
              "Keep at most this many puts, gets and atomics in flight to all peers together, "
              "beside the first that a device does for each peer of a rail, and the first that "
              "goes as messages. 0: any number",
              "Lower it where the answers to a process's gets swamp it"),
    INT_PARAM(ack_delay, 150, 0, 10000, "microseconds", 6,
              "Delay an acknowledgement at most this long, so that it can travel with data; a "
              "third of this time if the application did not answer the last message. Peers learn "
              "this time, and allow for it in their timeouts. With mpi_yield_when_idle, as where a "
              "host has more processes than processors, it is 1000 unless set",
              "Lower it where senders wait for acknowledgements (blocked window in the line of "
              "btl_ib_stats)"),
    INT_PARAM(rto_min, 250, 50, 1000000, "microseconds", 6,
              "Shortest retransmission timeout; it doubles with each attempt. Segments that "
              "acknowledgements of later ones show to be lost are sent again earlier, and so is a "
              "first probe for a lost tail",
              "Raise it where btl_ib_stats counts spurious retransmissions, as with fewer "
              "processors than processes"),
    INT_PARAM(rto_max, 200000, 1000, 10000000, "microseconds", 6,
              "Longest pause between two attempts to reach a peer that does not answer",
              "Raise it where thousands of processes wait for one that computes"),
    INT_PARAM(rto_initial, 2000, 50, 10000000, "microseconds", 6,
              "Send a segment again after this time while the round trip to its peer is not known",
              "Raise it where the first contact takes longer, as over a way of kilometres"),
    INT_PARAM(silence_limit, 900, 0, 86400, "seconds", 3,
              "Give up a peer that was silent for this long while data were due. A process that "
              "computes without calling MPI is silent, too. 0: never",
              "Raise it if ranks compute for longer without MPI and without "
              "btl_ib_progress; lower it to have a dead host found sooner"),
    INT_PARAM(connect_timeout, 60, 0, 86400, "seconds", 3,
              "Give up a peer that has never answered for this long, as behind a firewall or "
              "without a route. This holds if the peer has a progress thread, which would answer "
              "while the peer computes. If its host is known to be reachable the peer counts as "
              "stopped, and btl_ib_silence_limit holds. After 5 s without an answer a message "
              "tells of it in any case. 0: never",
              "Raise it where hosts start at very different times"),
    INT_PARAM(keepalive, 30, 0, 86400, "seconds", 5,
              "Ask a connected peer that was silent for this long whether it is there, again and "
              "again, four peers a second at most. After four questions without an answer the job "
              "ends if the network says that the peer's host is unreachable. 0: never",
              "Lower it to have the end of a host found sooner by processes that only wait"),
    INT_PARAM(down_limit, 180, 0, 86400, "seconds", 5,
              "Wait this long for a port that went down to come back; then its device counts as "
              "failed, and connections without another device end. 0: for ever",
              "Raise it if switches take longer to restart"),
    INT_PARAM(reassembly_buffers, 512, 0, 65536, "buffers", 9,
              "Keep at most this many messages that arrive in several datagrams and are not "
              "complete, beside one of each peer; each takes as much memory as it is long, up to "
              "btl_ib_eager_limit or btl_ib_max_send_size. What finds no buffer is sent again",
              "Lower it to save memory where many peers send at once; raise it if "
              "btl_ib_rnr_reassembly counts"),
    INT_PARAM(reassembly_buffers_peer, 0, 0, 65536, "buffers", 9,
              "Of btl_ib_reassembly_buffers give at most this many to one peer. 0: all",
              "Set it where one peer that sends much must not keep buffers from others"),
    INT_PARAM(credit_init, 0, 0, 65536, "credits", 7,
              "Credits that a new or idle peer has for each queue of type P before it is granted "
              "more. 0: a quarter of an equal share of the receive buffers for each process of "
              "the job, from 16 to num",
              "Raise it if peers begin with bursts and wait for credits"),
    INT_PARAM(credit_pool, 4096, 0, 1048576, "credits", 7,
              "Grant at most this many credits of one queue of type P to all peers together, and "
              "no more than the queue's share of the device's receive buffers. 0: that share",
              "Raise it if many peers send at once and buffers suffice"),
    INT_PARAM(am_credits_slack, -1, -1, 1048576, "credits", 9,
              "Bank up to this many credits of each queue of type P before a message that carries "
              "nothing else returns them, instead of one less than its window "
              "(btl_ib_receive_queues); at least a quarter is left to the peer. -1: as its window "
              "says",
              "Lower it if peers wait for credits and nothing is sent to them; raise it to have "
              "fewer such messages"),
    INT_PARAM(rx_depth, 0, 0, 1048576, "buffers", 7,
              "Receive buffers posted on each device; the device's own limit may be lower. 0: "
              "the sum of the nums of btl_ib_receive_queues and the reserve of the first",
              "Raise it if btl_ib_stats counts overflows"),
    INT_PARAM(socket_buffer, 0, 0, 1073741824, "bytes", 6,
              "Transport udp: ask for this much in each of a socket's two buffers; the system "
              "grants at most net.core.rmem_max and net.core.wmem_max. 0: 4 MiB, and no "
              "complaint about less if that is at least 212992",
              "Raise it, and these limits, if btl_ib_stats counts overflows"),
    INT_PARAM(connected_max, 4, 0, 16, "sockets", 6,
              "Transport udp: give at most this many peers of each device a connected socket, "
              "which sends faster: the first peers to which 512 short messages were sent",
              "Raise it for programs that send short messages to a few more peers"),
    INT_PARAM(udp_flows, 4, 1, BTL_IB_FLOWS_MAX, "flows", 5,
              "Transport udp: let bulk to one peer leave from so many ports at once, where one "
              "seems to be capped: a cloud limits each flow. Others are opened only then. 1: "
              "from one",
              "Raise it where each flow gets less than a fourth of what the network carries"),
    INT_PARAM(udp_busy_poll, 0, 0, 1000000, "microseconds", 5,
              "Transport udp: busy polling of sockets (SO_BUSY_POLL): a read that finds nothing "
              "polls the network card itself, and does not wait for its interrupt. Above "
              "net.core.busy_read it needs CAP_NET_ADMIN. 0: as net.core.busy_read says",
              "Set it to 50 on a card that delays its interrupts, with a core for each process"),
    INT_PARAM(port_min, 0, 0, 65535, "port", 2,
              "Transports udp and verbs (rc): the first port that may be used, for firewalls. 0: "
              "any",
              "Set it if a firewall lets only some ports pass"),
    INT_PARAM(port_range, 1024, 1, 65535, "ports", 2,
              "Transports udp and verbs (rc): the number of ports from btl_ib_port_min on, if "
              "that is not 0. Each process takes one port for each device, over udp two side by "
              "side (btl_ib_bulk_lane), times btl_ib_qps_per_port",
              "Raise it if a host has more processes"),
    INT_PARAM(qps_per_port, 1, 1, 8, "rails", 9,
              "Use each device as this many rails, each with sockets, queue pairs and buffers of "
              "its own, over which long messages are spread; 16 rails in all; the same on all "
              "hosts",
              "Raise it where one queue, as of an Ethernet card, does not fill the line"),
    INT_PARAM(max_btls, 0, 0, 16, "devices", 9,
              "Use at most this many devices: one of each network in turn, the nearest first. "
              "Processes of a host take different devices where several are alike. 0: all that "
              "btl_ib_locality leaves",
              "Lower it to leave devices to others, or to compare"),
    INT_PARAM(gid_index, -1, -1, 255, "place", 3,
              "Transport verbs: the place of the address (GID) in the table of each port, as "
              "ibv_devinfo -v shows them. -1: RoCE v2 before v1, those that can be routed before "
              "link-local ones; over rc any",
              "Set it if the chosen address is not the one that the network routes, as with "
              "several VLANs"),
    INT_PARAM(pkey, 0, 0, 65535, "P_Key", 3,
              "Transport verbs: the partition, with or without its first bit; the same on "
              "all hosts. 0: the first one of each port's table. Over rc the interface must "
              "be in it",
              "Set it if the job belongs into another partition than the first"),
    INT_PARAM(mtu, 0, 0, BTL_IB_MTU_MAX, "bytes", 9,
              "Send no packet that is larger than this, as the MTU of an interface (udp) or a port "
              "(verbs: 256, 512, 1024, 2048 or 4096, else the next below; not iWARP), or as a "
              "message of the provider (ofi); 256 at least. 0: what the network carries",
              "Lower it if a switch on the way carries less than the interfaces say"),
    INT_PARAM(service_level, 0, 0, 15, "level", 5,
              "Transport verbs: service level on InfiniBand; on RoCE the priority, where the "
              "network goes by that; 0 over rc: what the route says. Transport udp: priority of "
              "the socket (SO_PRIORITY; above 6 it needs CAP_NET_ADMIN)",
              "Set it as the network's administrator says"),
    INT_PARAM(traffic_class, 0, 0, 255, "class", 5,
              "Transports verbs and udp: traffic class of packets that are routed; of RoCE v2 and "
              "IP four times the DSCP; of RoCE v2 plus 2 if switches may mark congestion (ECN), "
              "for which udp has btl_ib_ecn. What is lost is repaired, so a lossless class is not "
              "needed",
              "Set it as the network's administrator says"),
    INT_PARAM(rc_max_peers, 64, 0, 1048576, "processes", 4,
              "Transport verbs, btl_ib_wire auto: use connections (rc) if the runtime has room "
              "for at most this many processes and the device has queue pairs for them; otherwise "
              "use ud, whose memory does not grow with the number of processes",
              "Lower it if connections take too much memory; raise it if the device moves memory "
              "for larger jobs"),
    INT_PARAM(rc_srq_min_peers, 16, 0, 1048576, "processes", 9,
              "Transport verbs, rc: let all peers share the larger receive queues (type S) if the "
              "runtime has room for at least this many processes and the device can (not over "
              "iWARP), unless btl_ib_receive_queues is set; 0: never",
              "Lower it if queues of single peers take too much memory"),
    INT_PARAM(rc_timeout, 14, 0, 31, "exponent", 6,
              "Transport verbs, rc: the device sends a message again that was not acknowledged "
              "after 4.096 microseconds x 2^this; not for iWARP, where TCP does it. 0: the "
              "connection manager's value",
              "Raise it if connections break on a congested network"),
    INT_PARAM(rc_retry, 7, 0, 7, "times", 6,
              "Transport verbs, rc: how often the device sends a message again that was not "
              "acknowledged (btl_ib_rc_timeout) before it gives the connection up, which ib then "
              "makes anew",
              "Lower it to have a broken path found sooner"),
    INT_PARAM(rnr_retry, 7, 0, 7, "times", 6,
              "Transport verbs, rc: how often the device sends a message again that found no "
              "buffer in the receiver's queue of type S before it gives the connection up. 7: "
              "without end",
              "Lower it only to find receivers that are too slow"),
    INT_PARAM(rnr_timer, 8, 1, 31, "code", 9,
              "Transport verbs, rc: how long a sender whose message found no buffer in a queue of "
              "type S waits before it tries again, as InfiniBand writes it (1: 0.01 ms, 8: 0.16 "
              "ms, 14: 1.28 ms, 31: 491 ms)",
              "Raise it if receivers are often late; lower it if buffers come back at once"),
    INT_PARAM(rc_reads, 64, 1, BTL_IB_READS_MAX, "operations", 9,
              "Transport verbs, rc: at most this many reads and atomics of one peer are under "
              "way at once, in each direction; the device's own limit may be lower",
              "Lower it if the device, or a long way, does worse with many"),
    INT_PARAM(rc_idle, 0, 0, 86400, "seconds", 9,
              "Transport verbs, rc: close a connection by which nothing went for this long, with "
              "its queue pair and buffers; the next message connects again, which takes some "
              "milliseconds. The first queue's stay open unless btl_ib_keepalive is 0. 0: never",
              "Set it to 300 or so if each process talks to few peers at a time and memory is "
              "short"),
    SIZE_PARAM(rc_bounce_size, 8192, 0, BTL_IB_BOUNCE_MAX, "bytes", 9,
               "Transport verbs, rc: copy what a device puts or gets of at most this size through "
               "memory of its own (btl_ib_bounce_num times as much for each peer), so that the "
               "application's memory need not be registered for it. 0: nothing",
               "Raise it if short puts and gets rarely use the same memory twice"),
    SIZE_PARAM(put_bounce_cutover, BTL_IB_BOUNCE_MAX, 0, BTL_IB_BOUNCE_MAX, "bytes", 9,
               "Transport verbs, rc: register the application's memory for what is put and longer "
               "than this, or than btl_ib_rc_bounce_size",
               "Lower it if long puts use the same memory again and again"),
    SIZE_PARAM(get_bounce_cutover, BTL_IB_BOUNCE_MAX, 0, BTL_IB_BOUNCE_MAX, "bytes", 9,
               "Transport verbs, rc: register the application's memory for what is got and longer "
               "than this, or than btl_ib_rc_bounce_size",
               "Lower it if long gets use the same memory again and again"),
    INT_PARAM(bounce_num, 16, 2, 1024, "buffers", 9,
              "Transport verbs, rc: make room for this many puts and gets of a peer that are "
              "copied (btl_ib_rc_bounce_size)",
              "Raise it if many puts of this size follow each other"),
    SIZE_PARAM(bounce_size, 0, 0, INT64_C(1) << 40, "bytes", 9,
               "Transport verbs, rc: let the buffers of puts and gets that are copied take at most "
               "this much memory for each device, beside 4096 for each peer; the first peers get "
               "theirs, and processors move what does not fit in those of later ones. 0: any "
               "number",
               "Set it where many peers put and get, and memory is short"),
    INT_PARAM(cq_num, 0, 0, 4194304, "completions", 9,
              "Transports verbs and ofi: room of a completion queue of the device; over rc of the "
              "first one, at least. If that is less than what may be under way so many sends and "
              "buffers fewer are used (ud, of each queue pair 256 at least; ofi). 0: as much as is "
              "needed; over rc 4096, and more queues as connections need them",
              "Lower it if the device has few entries for all processes of a host"),
    INT_PARAM(max_inline_data, 256, 0, BTL_IB_INLINE_MAX, "bytes", 9,
              "Transport verbs: the processor hands messages up to this size to the device "
              "itself, which need not fetch them; the device's own limit may be lower",
              "Lower it if the device is slower with long ones, which a ping-pong shows"),
    SIZE_PARAM(pin_max_region, INT64_C(1) << 46, 0, INT64_C(1) << 46, "bytes", 5,
               "Register at most this much memory with RDMA devices at once, rounded down to a "
               "power of two; longer regions are registered in eight such pieces at most, and "
               "processors move the data of what is longer yet. 0: devices move no memory by "
               "themselves; the default, 2^46: any region at once",
               "Set it to 0 where devices must not reach the application's memory, and lower it "
               "where they register no long regions"),
    INT_PARAM(pin_max_regions, 0, 0, INT_MAX, "regions", 9,
              "Keep at most this many regions of memory registered with RDMA devices, in use or "
              "cached; cached regions that were unused for longest go first. 0: as many as the "
              "devices take",
              "Set it if a device slows down with many regions"),
    INT_PARAM(max_eager_rdma, 0, 0, BTL_IB_EAGER_PEERS_MAX, "processes", 5,
              "Transport verbs, rc: let at most this many peers, the first that send some short "
              "messages (btl_ib_eager_rdma_threshold), write more of them into rings of this "
              "process (eager RDMA). This saves completions and receive requests; not over iWARP. "
              "0: no peer",
              "Raise it to 8 or so if the application is bound by the latency of short messages, "
              "and measure"),
    INT_PARAM(eager_rdma_num, 16, 1, 1024, "messages", 6,
              "Transport verbs, rc: each ring of eager RDMA (btl_ib_max_eager_rdma) has room for "
              "this many messages, rounded down to a power of two",
              "Raise it if bursts of short messages are longer"),
    INT_PARAM(eager_rdma_size, 0, 0, 4080, "bytes", 9,
              "Transport verbs, rc: send messages of at most this many bytes, ib's and Open MPI's "
              "headers included, by eager RDMA (btl_ib_max_eager_rdma); the size is rounded up so "
              "that 16 bytes more fill cache lines, and each queue whose messages may be as short "
              "has rings. 0: all that go inline (btl_ib_max_inline_data), of the "
              "first queue only",
              "Raise it to 1280 or so if messages of a kilobyte are to go by rings, and measure; "
              "lower it to save memory of many rings"),
    INT_PARAM(poll_burst, 64, 1, 4096, "datagrams", 9,
              "Receive at most this many datagrams in one turn, as one call of Open MPI's progress "
              "makes, before queued messages are sent and other components are called",
              "Lower it to share the processor more evenly with other components; raise it where "
              "many peers send at once"),
    INT_PARAM(free_list_num, 32, 0, 4096, "descriptors", 9,
              "Make this many descriptors of each size of fragments, of operations and of "
              "registrations at the start",
              "Lower it to save memory; raise it where first messages must not wait for memory"),
    INT_PARAM(free_list_inc, 32, 1, 4096, "descriptors", 9,
              "Make this many more descriptors of a size when none is left",
              "Lower it to save memory"),
    INT_PARAM(free_list_max, -1, -1, 1048576, "descriptors", 9,
              "Make at most this many descriptors of each size of fragments; Open MPI waits when "
              "none is left. More are made where none of those that are used would let it go on. "
              "-1 or 0: as many as are needed",
              "Set it to bound the memory of a process that sends much at once"),
    INT_PARAM(drain_ms, 1000, 0, 60000, "milliseconds", 9,
              "Wait at most this long for last acknowledgements when MPI ends, or processes are "
              "disconnected; peers that are silent for longer have most likely left before. 0: not "
              "at all",
              "Raise it where the way to peers is so bad that last messages need longer; lower it "
              "where an end must be quick"),
    INT_PARAM(exit_timeout, 300, 0, 86400, "seconds", 9,
              "End this process, by SIGTERM, after it said where it hangs, if the abort of a job "
              "that lost a process does not come about in this time, or what ib does in "
              "MPI_Finalize, or to disconnect, takes so much longer than btl_ib_drain_ms. How long "
              "peers compute is nothing to it. Inside a debugger only if it is set. 0: never",
              "Raise it where devices take long to close; lower it to be rid of processes that "
              "hang sooner"),
    INT_PARAM(eager_rdma_threshold, 16, 1, 1000000, "messages", 9,
              "Transport verbs, rc: let a peer write into rings (btl_ib_max_eager_rdma) after this "
              "many short messages",
              "Raise it if peers that send a few messages take the places of others"),
    INT_PARAM(eager_rdma_period, 1, 0, 86400, "seconds", 9,
              "Transport verbs, rc: look each time so long has passed which peers sent fewer short "
              "messages than btl_ib_eager_rdma_threshold into their rings; where others wait, they "
              "have those places. 0: a peer keeps its place until its connection ends",
              "Raise it, or set it to 0, if peers take turns and each comes back"),
    INT_PARAM(progress_thread_ms, 10, 1, 10000, "milliseconds", 6,
              "Let a thread make progress (btl_ib_progress) when the application has made none "
              "for this long, and something is unacknowledged or memory is registered for peers. "
              "After a 64th of it, but 150 us at least, while long messages wait for calls that "
              "come seldom",
              "Lower it if peers wait for ranks that compute; raise it if the thread disturbs "
              "them"),
    INT_PARAM(progress_wakeups, 20000, 100, 1000000, "wake-ups a second", 6,
              "With btl_ib_progress deliver: let devices wake the thread at most this often; "
              "messages that arrive between two wake-ups wait for the second",
              "Lower it if the thread takes too much from the application"),
    SIZE_PARAM(copy_limit, 8192, 0, INT64_C(1) << 30, "bytes", 5,
               "Copy messages and fragments up to this size, so that the application has its "
               "memory back at once. Longer contiguous ones are sent from the application's "
               "memory, which is free when they are acknowledged; an eager one is copied after "
               "all while its sender waits for that",
               "Raise it if buffers are reused at once; lower it if copies bound the speed"),
    BOOL_PARAM(use_auto, "auto", false, 2,
               "Use ib although it was not named in the selection of BTLs",
               "only if it was named: --mca btl ib,self",
               "Set it in a site's openmpi-mca-params.conf, so that users need not name ib"),
    BOOL_PARAM(memory_report, "memory_report", false, 9,
               "Print at the start the memory of each queue, window and pool of each device: now, "
               "with all peers of the job, and at most; one process of each host prints it",
               NULL,
               "Set it to learn where memory goes"),
    BOOL_PARAM(fork_safe, "fork_safe", true, 5,
               "Transport verbs: let the application fork() without harm to what devices send and "
               "receive. This costs nothing with Linux 5.12 and later. With older kernels it "
               "costs a system call for each registration, and devices move no memory of the "
               "application by themselves",
               NULL,
               "Set it to 0 with an old kernel, if nothing forks"),
    BOOL_PARAM(registration_cache, "registration_cache", true, 9,
               "Keep memory registered with RDMA devices when nobody uses it any more, for the "
               "next use. Without this each use registers it, which takes longer than copying what "
               "is short",
               NULL,
               "Set it to 0 to find out whether a wrong result comes from memory that was unmapped "
               "without Open MPI's notice"),
    BOOL_PARAM(pin_probe, "pin_probe", false, 9,
               "Find out at the start how much memory RDMA devices really register, and lower "
               "btl_ib_max_pinned to that; one process of each host does it, and takes a second "
               "for each few gigabytes",
               NULL,
               "Set it if registrations fail long before btl_ib_max_pinned"),
    BOOL_PARAM(warn_known_faults, "warn_known_faults", true, 9,
               "Show a help text, once for each job, where the kernel of the first process' host "
               "or the firmware of its devices is known to be bad",
               NULL,
               "Set it to 0 in a site's openmpi-mca-params.conf if its distribution has mended it"),
    BOOL_PARAM(ecn, "ecn", false, 9,
               "Transport udp: send long messages so that a network with ECN marks them where a "
               "queue grows, and send less once it does (ECT(0) and CE in the IP header), with "
               "peers that do so, too. ib notices networks that drop or spoil what may be marked, "
               "and goes on without. Not with btl_ib_service_level",
               NULL,
               "Set it to 1 where switches mark instead of dropping; elsewhere long messages take "
               "1 to 3 % longer, and short ones as long as without"),
    BOOL_PARAM(bulk_lane, "bulk_lane", true, 6,
               "Transport udp: give long messages a socket of their own while there are short "
               "ones, so that short ones do not wait behind long ones; this takes two ports side "
               "by side for each process and device",
               NULL,
               "Set it to 0 if a firewall leaves one port for each process"),
    BOOL_PARAM(atomics_all, "atomics_all", false, 6,
               "Offer MIN, MAX and floating point as atomics, too. Open MPI's osc/rdma uses them "
               "also where their results are wrong: signed ones for unsigned integers, double for "
               "float complex",
               "osc/rdma takes a lock and gets, computes and puts",
               "Set it if the application uses none of these types, or not with MIN and MAX"),
    INT_PARAM(dump_signal, 0, 0, 64, "signal", 4,
              "At this signal each process says what it waits for, in its next call of MPI: peers "
              "with something unacknowledged or queued, windows, credits, the oldest segment, when "
              "it last heard of them. SIGUSR1, SIGUSR2 or a real-time signal, unless the program "
              "handles it; 0: none",
              "Set it to 12 (SIGUSR2), and kill -USR2 mpirun or a rank of a job that hangs"),
    TEXT_PARAM(stats, "stats", "0", 2,
               "Print one line with what was sent, received, repeated and dropped, from each "
               "process (text: 0 or no; 1 or yes, when MPI ends; or a time, 2 to 86400 seconds, or "
               "with ms, s, min after it from 1s on: also each time so long has passed, within a "
               "call of MPI; default: 0). "
               "Set it to see what was lost, and what sending waited for"),
    TEXT_PARAM(stats_file, "stats_file", NULL, 2,
               "When MPI ends, and at each interval of btl_ib_stats, write a file in JSON with all "
               "that each process counted, which ib_top shows while the job runs and ib_stats "
               "sums and plots (text: a name, in which %h stands for the host, %r for "
               "the rank, %j for the job, %p for the process id and %% for %, or a directory, with "
               "/ at its end; without %r and %p the rank is appended; default: empty, none). "
               "Set it to look at a job's counters"),
    TEXT_PARAM(trace, "trace", NULL, 9,
               "Write each event of the protocol (datagrams, acknowledgements, losses, timeouts, "
               "stalls, connections) to a file of each process, which ib_trace sums and plots; "
               "while it does, each datagram takes longer (text: a name as of btl_ib_stats_file; "
               "default: empty, none). "
               "Set it to find out why a message was late"),
    TEXT_PARAM(connectivity_map, "connectivity_map", NULL, 3,
               "At the start contact all processes of the job by all devices, and write a file of "
               "what each reaches, with the sizes of datagrams that get there, which "
               "ib_connectivity joins; waits at most btl_ib_connect_timeout, or 60 s if that is "
               "0 (text: a name, as of btl_ib_stats_file; default: empty, none). "
               "Set it to check a new network, or after a host was not reached"),
    TEXT_PARAM(memory_max, "memory_max", "0", 9,
               "Limit the memory that ib takes in all processes of a host together, in equal "
               "shares. If the receive queues would take more in a job of this size ib uses shared "
               "ones and fewer buffers, and a line says so; see ib_info --budget (text: a number "
               "of bytes, 0 to 18446744073709551615, also with k, M, G, or a part of the host's "
               "memory, 0% to 100%, 0.0 to 1.0, or as 2/3; default: 0, no limit). "
               "Set it where ib's buffers take memory that applications need"),
    TEXT_PARAM(max_pinned, "max_pinned", "50%", 3,
               "Keep at most this much memory registered with RDMA devices, in use or cached, in "
               "all processes of the job on a host together, in equal shares; processors move the "
               "rest "
               "(text: a number of bytes, 0 to 18446744073709551615, also with k, M, G, or a part "
               "of the host's memory, 0% to 100%, 0.0 to 1.0, or as 2/3; no process more than it "
               "may lock; default: 50%). "
               "Lower it if other programs need memory that is not locked; raise it if the line "
               "of btl_ib_stats says not pinned"),
    TEXT_PARAM(send_depth, "send_depth", "0", 9,
               "Transports verbs and ofi: so many sends fit into a queue of the device, for verbs "
               "rounded down to a power of two, at least 128 (ud) or 16 (rc) (text: one number for "
               "all channels, or one for each queue of btl_ib_receive_queues in their order, "
               "separated by commas, the last for all that follow; 0 to 16384 sends; 0 is 256 for "
               "ud and ofi, 128 for rc; channels that share an endpoint have the largest; "
               "default: 0). "
               "Raise it if btl_ib_stats says that sends are blocked by the transport"),
    TEXT_PARAM(if_include, "if_include", NULL, 1,
               "Use only these devices (text: names of devices, also with a port as mlx5_0:1, "
               "names of network interfaces, or subnets as 10.0.0.0/8, separated by commas; "
               "what is joined by +, as mlx5_0+mlx5_1 or the ports of mlx5_0:1+2, is used all or "
               "none; default: empty, all that fit). Not together with btl_ib_if_exclude. "
               "Set it if hosts have networks that do not reach each other"),
    TEXT_PARAM(if_exclude, "if_exclude", NULL, 1,
               "Do not use these devices (text: as btl_ib_if_include; default: empty, none). "
               "Set it if one device is to be left alone"),
    TEXT_PARAM(udp_address, "udp_address", NULL, 3,
               "Over udp tell peers another address than that of the interface (text: "
               "PUBLIC[:PORT] or, for several interfaces, a list of IFACE=PUBLIC[:PORT] separated "
               "by commas; an IPv6 address with a port in brackets; PORT is what btl_ib_port_min "
               "is there, "
               "default: the same ports; default: empty, each interface's own). "
               "Set it where a router or a container's engine forwards an address to this host"),
    TEXT_PARAM(ofi_provider, "ofi_provider", NULL, 3,
               "Transport ofi uses only this provider of libfabric (text: its name, for "
               "instance udp, verbs, usnic or efa; default: empty, the best that is there). "
               "Set it if libfabric has several for a device"),
    TEXT_PARAM(receive_queues, "receive_queues", NULL, 4,
               "Receive queues (text: one or more of "
               "P,size,num[,low_watermark[,window[,reserve]]] for buffers of each peer and "
               "S,size,num[,low_watermark[,max_pending_sends[,init[,limit]]]] for buffers that "
               "all peers share, in ascending order of size, separated by colons; sizes in "
               "bytes, 104 to 1048576, the last at least 112, with a key (btl_ib_protection) 136; "
               "num 2 to 1048576, the others from 1, or empty for what follows from num; default: "
               "empty, what suits the transport). "
               "Change it if btl_ib_stats says blocked for credit, or memory is short"),
    CHOICE_PARAM(atomics, "atomics", atomics, 5,
                 "Who changes the words of registered memory by atomics, where devices move "
                 "memory by themselves: device, host (the processor of its owner) or auto (the "
                 "device where that is atomic for processors as well, else the host: Open MPI's "
                 "osc/rdma lets processors change words of its own window where all processes of "
                 "a window are on one host); the same on all hosts (text, default: auto). "
                 "Set it to host if a device's atomics are slow or wrong"),
    CHOICE_PARAM(progress, "progress", progresses, 4,
                 "What works while the application computes without calling MPI (text: polling, "
                 "nothing; serve, a thread that sends again, acknowledges, and serves the puts, "
                 "gets and atomics of peers; or deliver, a thread that also hands messages to "
                 "Open MPI, so that long ones move and requests end meanwhile; it sleeps until "
                 "devices wake it; default: serve). "
                 "Set it to deliver to overlap messages with computing, to polling if each "
                 "processor is to be the application's alone"),
    CHOICE_PARAM(transport, "transport", NULL, 3,
                 "What moves the datagrams (text: auto, verbs, udp or ofi, as far as they were "
                 "built in; default: auto, RDMA devices with an active port by verbs, else by ofi, "
                 "and where there is none that can be opened network interfaces by udp). "
                 "Set it to compare, or where the transport that auto takes makes trouble"),
    CHOICE_PARAM(udp_gso, "udp_gso", gsos, 5,
                 "Transport udp: join datagrams of one size for one peer, which the device or the "
                 "kernel segments (UDP_SEGMENT; text: auto, but not with kernels that are known to "
                 "lose them; 0, never; or 1, with all kernels; with auto and 1 as long as they get "
                 "through so; default: auto). "
                 "Set it to 0 if a driver or a tunnel drops what is joined, to 1 if the kernel is "
                 "well though auto takes it for a bad one"),
    CHOICE_PARAM(wire, "wire", wires, 3,
                 "How transport verbs uses a device (text: ud, datagrams; rc, connections made on "
                 "demand, which iWARP needs; or auto, see btl_ib_rc_max_peers; the same on all "
                 "hosts; default: auto). "
                 "Set it to rc if the device is to move memory in larger jobs, to ud if "
                 "connections take too much memory"),
    CHOICE_PARAM(locality, "locality", localities, 9,
                 "Which devices a process uses, by the NUMA distance from the processors that it "
                 "is bound to (text: near, all but those with a nearer one of the same network and "
                 "speed; rank, all in order of distance; ignore, all as they are found; "
                 "default: near). "
                 "Set it to ignore where the order of devices does not matter or is wrong"),
    CHOICE_PARAM(ordering, "memory_ordering", orderings, 6,
                 "Transport verbs, rc: in which order devices place what they write into "
                 "registered memory (text: strict; or relaxed: as they like, faster on some "
                 "machines, and each put is followed by a read before it is done; "
                 "default: strict). "
                 "Set it to relaxed where the device's writes are slow, as on machines with "
                 "several sockets, and measure"),
    CHOICE_PARAM(cc, "cc", ccs, 5,
                 "Congestion control (text: auto, none, swift or cubic; default: auto, none where "
                 "the transport loses nothing, else swift). "
                 "Set it to none on a network of your own without loss"),
    CHOICE_PARAM(channels, "channels", channels, 9,
                 "What the channels (queues of btl_ib_receive_queues) have of a device (text: own, "
                 "an endpoint or queue pair each, the fourth for all that follow, over udp a "
                 "socket for bulk and one for all else; shared, one for all; auto, own over ud, "
                 "shared over ofi, over udp see btl_ib_bulk_lane; default: auto). Over rc each has "
                 "connections. "
                 "Set it to own over ofi or udp if short messages wait behind long ones, to shared "
                 "if the device has few queues"),
    CHOICE_PARAM(cq, "cq", cqs, 9,
                 "Completion queues of the channels that have an endpoint or queue pair of their "
                 "own, over ofi and verbs ud (text: shared, one for all, which takes one look each "
                 "time; own, one each, that of the first channel is looked at first; default: "
                 "shared). "
                 "Set it to own if completions of short messages wait behind those of long ones"),
    CHOICE_PARAM(protection, "protection", protections, 3,
                 "Protect each datagram, the same on all hosts (text: none; crc32c, a checksum "
                 "beyond what the network checks; integrity, a key that only the job knows, by "
                 "which forged, changed and repeated datagrams are found; or encrypt, and nobody "
                 "else can read them, either; default: none). RDMA devices move no memory by "
                 "themselves then. With a key a datagram that more than 2048 later ones overtake "
                 "is sent again. Set it where others can reach the network, or crc32c where it "
                 "damages data"),
    /* ob1 aborts the job if its largest header does not fit into an eager message: 256 is safe. */
    LIMIT_PARAM(eager_limit, SIZE, "bytes", 256, 1 << 20,
                "263168 over udp with GSO, 66560 over others; 12288 where the device moves "
                "registered memory by itself",
                4,
                "Send messages up to this size at once, without asking whether the receiver is "
                "ready; the PML's header counts, the size of a datagram does not matter; the "
                "same on all hosts (bytes or with k, M, G, 256 to 1048576, default: "
                "263168 over udp with GSO, 66560 over others; 12288 where the device moves "
                "registered memory by itself). "
                "Lower it if messages come long before they are received; raise it if many of "
                "just above it are exchanged"),
    LIMIT_PARAM(rndv_eager_limit, SIZE, "bytes", 0, 1 << 20,
                "12288", 4,
                "Send this much of a longer message together with the request to send "
                "(rendezvous), and no more than btl_ib_eager_limit (bytes or with k, M, G, 0 to "
                "1048576, default: 12288). Lower it if the request is to be short"),
    LIMIT_PARAM(max_send_size, SIZE, "bytes", 256, 1 << 20,
                "65536", 4,
                "Cut the rest of a longer message into fragments of at most this size; the same "
                "on all hosts (bytes or with k, M, G, 256 to 1048576, default: 65536). "
                "Raise it if long messages go in fragments over a device that is faster with "
                "longer ones"),
    LIMIT_PARAM(get_limit, SIZE, "bytes", 4096, SIZE_MAX,
                "18446744073709551615", 6,
                "Get at most this much in one operation; ob1 and osc/rdma cut longer ones "
                "(bytes or with k, M, G, from 4096, default: 18446744073709551615). "
                "Lower it only to test, or if a device fails with long operations"),
    LIMIT_PARAM(put_limit, SIZE, "bytes", 4096, SIZE_MAX,
                "18446744073709551615", 6,
                "Put at most this much in one operation; ob1 and osc/rdma cut longer ones "
                "(bytes or with k, M, G, from 4096, default: 18446744073709551615). "
                "Lower it only to test, or if a device fails with long operations"),
    LIMIT_PARAM(rdma_pipeline_send_length, SIZE, "bytes", 0, 1 << 30,
                "0", 6,
                "Send this much of a long message that goes by put in fragments (bytes or with "
                "k, M, G, 0 to 1073741824, default: 0: registration costs nothing where "
                "processors move memory, and what RDMA devices know is cached). "
                "Raise it if registration of new memory takes long"),
    LIMIT_PARAM(rdma_pipeline_frag_size, SIZE, "bytes", 0, 1 << 30,
                "4194304", 6,
                "Put a long message in pieces of at most this size, four at a time (bytes or "
                "with k, M, G, 0 or 4096 to 1073741824, default: 4194304; 0: all at once). "
                "Lower it if registration of a piece should overlap more with the one before"),
    LIMIT_PARAM(min_rdma_pipeline_size, SIZE, "bytes", 0, 1 << 30,
                "0, raised to btl_ib_eager_limit + btl_ib_rdma_pipeline_send_length", 6,
                "Send messages below this size in fragments instead of the pipeline of puts "
                "(bytes or with k, M, G, 0 to 1073741824, default: 0, raised to "
                "btl_ib_eager_limit + btl_ib_rdma_pipeline_send_length). "
                "Raise it if messages of middle size are faster in fragments"),
    LIMIT_PARAM(exclusivity, UNSIGNED, "rank", 0, 65536,
                "1024", 7,
                "Of several BTLs that reach a peer only those with the highest value are used "
                "(rank, 0 to 65536, default: 1024). "
                "Lower it to use another BTL as well, or instead"),
    LIMIT_PARAM(latency, UNSIGNED, "microseconds", 1, 1000000,
                "10", 5,
                "How this BTL ranks among others that reach the same peer, the lowest wins; the "
                "same for all devices (microseconds or with us, ms, s, 1 to 1000000, default: "
                "10). "
                "Raise it to prefer another BTL for short messages"),
    LIMIT_PARAM(bandwidth, UNSIGNED, "Mbit/s", 0, 4000000,
                "0, what the device says", 5,
                "Bandwidth of each device, by which long messages are divided among them "
                "(Mbit/s, 0 to 4000000, default: 0, what the device says). "
                "Set it where devices do not tell the truth, as in a virtual machine"),
    LIMIT_PARAM(flags, FLAGS, "", 0, 0,
                "all of these", 5,
                "What Open MPI may use (names with commas: send, which is needed, inplace, put, "
                "get, atomics, fetching-atomics, rdma-flush, default: all of them; without inplace "
                "each eager message is copied before it leaves, without put and get long "
                "messages go in fragments, without put, get and atomics there are no MPI windows "
                "by osc/rdma; Open MPI 4.1 uses atomics only where its osc/pt2pt is not to be "
                "used, or if they are named here). "
                "Change it to compare, or to go without what a device does wrong"),
    {.name = NULL},
};
/* clang-format on */

const btl_ib_param_t *btl_ib_param(const char *name)
{
    const btl_ib_param_t *param = btl_ib_param_table;

    while (param->name != NULL && strcmp(param->name, name) != 0) {
        ++param;
    }
    return param;
}

void btl_ib_param_words(const btl_ib_param_t *param, const char *words[BTL_IB_WORDS_MAX])
{
    size_t count = 0;

    for (; param->words != NULL && param->words[count] != NULL; ++count) {
        words[count] = param->words[count];
    }
    if (param->words == NULL) {
        words[count++] = "auto";
        for (size_t i = 0; btl_ib_transport_types[i] != NULL && count + 1 < BTL_IB_WORDS_MAX; ++i) {
            /* The wires of a transport follow each other, and have the same name. */
            const char *name = btl_ib_transport_types[i]->name;

            if (strcmp(words[count - 1], name) != 0) {
                words[count++] = name;
            }
        }
    }
    words[count] = NULL;
}

/* ---- help texts of parameters ---- */

const char *btl_ib_param_help(const btl_ib_param_t *param, char room[BTL_IB_PARAM_HELP_MAX])
{
    const btl_ib_value_unit_t unit = btl_ib_value_unit(param->unit);
    const char *units = unit == BTL_IB_VALUE_COUNT   ? ""
                        : unit == BTL_IB_VALUE_BYTES ? " or with k, M, G"
                                                     : " or with us, ms, s, min";

    if (param->when == NULL) {
        return param->help;
    }
    if (param->kind == BTL_IB_PARAM_BOOL) {
        snprintf(room, BTL_IB_PARAM_HELP_MAX, "%s (0 or 1, default: %d%s%s). %s", param->help,
                 (int) param->standard, param->text != NULL ? ", " : "",
                 param->text != NULL ? param->text : "", param->when);
    } else {
        snprintf(room, BTL_IB_PARAM_HELP_MAX,
                 "%s (%s%s, %" PRId64 " to %" PRIu64 ", default: %" PRId64 "). %s", param->help,
                 param->unit, units, param->low, param->high, param->standard, param->when);
    }
    return room;
}
