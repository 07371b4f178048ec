#!/usr/bin/env python3
# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Throws bad datagrams at the UDP ports of a running job, in this network namespace only.

Each class of them is named (--classes, see CLASSES); most are made from the job's own datagrams, with
the source addresses that those had. Outsiders do not know the present token, insiders keep it. A
last line for each class says how many were thrown, and which counters they belong to.

Bounded in number and time. Targets are this host's own addresses, and only those that are loopback
or in --net. Needs root (raw and packet sockets).
"""

import argparse
import collections
import ipaddress
import pickle
import random
import socket
import struct
import sys
import time

ETH_P_IP = 0x0800
PROTO_ICMP, PROTO_UDP = 1, 17
UNREACHABLE, PORT_UNREACHABLE, TOO_LARGE = 3, 3, 4
QUOTED_MTU = 600  # that messages of too large a datagram claim
LONGEST = 1472
WAIT_MAX = 30  # seconds that a job may take to begin

# engine/btl_ib_wire.h
HEADER = struct.Struct("<BBBBIQIIHHIIHH")
FIELDS = ("version_type", "flags", "spaces", "tag", "connection", "token", "seq", "ack", "credits",
          "length", "stamp", "echo", "hold", "away")
CONNECT = struct.Struct("<QIIBBHI")
CHUNK = struct.Struct("<IIHH")
BLOCK = struct.Struct("<BBHII")
RANGE = struct.Struct("<HH")
TARGET = struct.Struct("<QQQQII")
ATOMIC = struct.Struct("<QQQQQIBBH")
GOT = struct.Struct("<III")
REPLY = struct.Struct("<QII")
TOKEN = slice(8, 16)
(TYPE_DATA, TYPE_CHUNK, TYPE_SKIP, TYPE_ACK, TYPE_CLOSE, TYPE_PUT, TYPE_GET, TYPE_ATOMIC, TYPE_GOT,
 TYPE_REPLY, TYPE_VOID, TYPE_REJECTED) = range(1, 13)
REQUESTS = (TYPE_PUT, TYPE_GET, TYPE_ATOMIC)
# engine/btl_ib_rma.h
CODES, TYPE_INT32, TYPE_FLOAT = range(1, 12), 1, 3
CODE_ADD, CODE_AND = 1, 2
FLAG_CONNECT, FLAG_ECHO, FLAG_NO_TAG = 0x01, 0x08, 0x20
NUMBER_AND_TAG = 24  # what authentication adds, see engine/btl_ib_protection.h


class Forgery:
    """A header made from a sniffed one, with a body of its own."""

    def __init__(self, payload, kind, body=b"", **changes):
        self.fields = dict(zip(FIELDS, HEADER.unpack_from(payload)))
        self.fields.update(version_type=(payload[0] & 0xF0) | kind, flags=0, spaces=0, tag=0,
                           credits=0, echo=0, hold=0, away=0)
        self.fields.update(changes)
        self.body = body

    def __bytes__(self):
        self.fields["length"] = len(self.body)
        return HEADER.pack(*(self.fields[name] for name in FIELDS)) + self.body


def far(rng):
    return rng.choice((1 << 20, 1 << 24, 1 << 30, 0x7FFFFFFF))


# ---- outsiders ----

def garbage(rng, _payload):
    return rng.randbytes(rng.choice((0, 1, 8, 39, 40, 64, 100, 500, LONGEST)))


def truncate(rng, payload):
    return payload[:rng.randrange(len(payload))]


def token(rng, payload):
    """Any change besides, but never the right token."""
    data = bytearray(payload)
    for _ in range(rng.randint(0, 4)):
        data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
    at = rng.randrange(8, 16)
    data[at] = payload[at] ^ rng.randrange(1, 256)
    return bytes(data)


def sequence(rng, payload):
    return bytes(Forgery(payload, TYPE_DATA, rng.randbytes(16), token=rng.getrandbits(64),
                         seq=rng.randrange(10000)))


def connection(rng, payload):
    right = struct.unpack_from("<I", payload, 4)[0]
    return payload[:4] + struct.pack("<I", right ^ 1 << rng.randrange(32)) + payload[8:]


def close(rng, payload):
    return bytes(Forgery(payload, TYPE_CLOSE, token=rng.getrandbits(64)))


def contact(rng, payload):
    """First contacts of processes that do not exist."""
    body = CONNECT.pack(rng.getrandbits(64), rng.randrange(1, 99), 1, 0, 0, 0, 0) + b"hello"
    forgery = Forgery(payload, TYPE_DATA, body, token=rng.getrandbits(64), connection=0, seq=1)
    forgery.fields["flags"] = FLAG_CONNECT
    return bytes(forgery)


def same(_rng, payload):
    return payload


# ---- insiders: the right token, claims that cannot be ----

def acks(rng, payload):
    ack = struct.unpack_from("<I", payload, 20)[0] + far(rng) & 0xFFFFFFFF
    return bytes(Forgery(payload, TYPE_ACK, BLOCK.pack(rng.randrange(2), 0, 0, ack, ack)))


def ranges(rng, payload):
    """As many as a datagram holds: overlapping, descending, empty, of no window."""
    pairs = [RANGE.pack(rng.randrange(65536), rng.randrange(65536)) for _ in range(250)]
    return bytes(Forgery(payload, TYPE_ACK, BLOCK.pack(1, 250, 0, 1, 1) + b"".join(pairs)))


def blocks(_rng, payload):
    """The same space again and again."""
    return bytes(Forgery(payload, TYPE_ACK, BLOCK.pack(1, 0, 0, 1, 1) * 100))


def limits(rng, payload):
    return bytes(Forgery(payload, TYPE_ACK, BLOCK.pack(0, 0, 0, 0, far(rng) & 0x3FFFFFFF)))


def window(rng, payload):
    seq = struct.unpack_from("<I", payload, 16)[0] + far(rng) & 0xFFFFFFFF
    return bytes(Forgery(payload, TYPE_DATA, b"12345678", seq=seq, spaces=1))


def channel(rng, payload):
    return bytes(Forgery(payload, TYPE_DATA, b"12345678", spaces=rng.randrange(9, 16)))


def skips(rng, payload):
    return bytes(Forgery(payload, TYPE_SKIP, struct.pack("<I", 200000), spaces=0,
                         seq=struct.unpack_from("<I", payload, 16)[0] + far(rng) & 0xFFFFFFFF))


def fragments(rng, payload):
    chunk = rng.choice((CHUNK.pack(1, 0, 0, 8), CHUNK.pack(1, 100, 0, 0),
                        CHUNK.pack(1, 100, 60000, 8), CHUNK.pack(1, 0xFFFFFFFF, 0, 9)))
    return bytes(Forgery(payload, TYPE_CHUNK, chunk + b"12345678", spaces=1))


def clocks(rng, payload):
    forgery = Forgery(payload, TYPE_ACK, stamp=rng.getrandbits(32))
    forgery.fields.update(flags=FLAG_ECHO | rng.choice((0, FLAG_NO_TAG)), echo=rng.getrandbits(32),
                          hold=rng.getrandbits(16), away=rng.getrandbits(16))
    return bytes(forgery)


def bits(rng, payload):
    """Damage that a network's own checksum did not see."""
    data = bytearray(payload)
    for _ in range(rng.randint(1, 3)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def sealed(rng, payload):
    """Any of these claims under authentication: with a number that is due, without the key."""
    make = rng.choice((acks, limits, window, skips, fragments, clocks, close, bits))
    number = struct.unpack_from("<Q", payload, len(payload) - NUMBER_AND_TAG)[0]
    trailer = struct.pack("<Q", number + rng.randrange(1, 200)) + rng.randbytes(16)
    whole = make(rng, payload[:-NUMBER_AND_TAG])
    return (payload[:16] + whole[16:] if make is close else whole) + trailer


# ---- messages of the network about datagrams of this host, none of which is one that it sent ----

def quoted(rng, payload):
    """What somebody knows who knows all of a header but its token."""
    return payload[:TOKEN.start] + rng.randbytes(8) + payload[TOKEN.stop:]


def unquoted(_rng, _payload):
    """No more than the header of UDP, as RFC 792 has it: nothing that could be checked."""
    return b""


# ---- one-sided operations ----

def region_of(rng, payload):
    """Id and secret of the region that a request is about, or a guess."""
    if payload[0] & 0x0F in REQUESTS:
        return struct.unpack_from("<QQ", payload, HEADER.size)
    return rng.randrange(1, 16) << 24 | rng.randrange(16), rng.getrandbits(64)


def operation(kind):
    """What looks right in everything but the token."""
    def make(rng, payload):
        region, secret = region_of(rng, payload)
        name = rng.randrange(1, 1 << 16)
        body = {
            TYPE_PUT: lambda: TARGET.pack(region, secret, 64, 80, name, 0) + rng.randbytes(16),
            TYPE_GET: lambda: TARGET.pack(region, secret, 0, 4096, name, 0),
            TYPE_ATOMIC: lambda: ATOMIC.pack(region, secret, 8 * rng.randrange(64), 1, 0, name,
                                             CODE_ADD, TYPE_INT32, 0),
            TYPE_GOT: lambda: GOT.pack(0, 0, name) + rng.randbytes(64),
            TYPE_REPLY: lambda: REPLY.pack(rng.getrandbits(64), name, rng.randrange(2)),
            TYPE_VOID: lambda: b"",
            TYPE_REJECTED: lambda: struct.pack("<I", name),
        }[kind]()
        seq = struct.unpack_from("<I", payload, 16)[0] + rng.randrange(1, 100) & 0xFFFFFFFF
        return bytes(Forgery(payload, kind, body, token=rng.getrandbits(64), seq=seq,
                             spaces=rng.randrange(2)))
    return make


def regions(rng, payload):
    """Insiders, far ahead of what was sent (as only a shared queue allows): regions that are not there,
    secrets that were guessed, bytes beyond the end of a region that is there. Not taken in, so the
    sequence is not used up."""
    if payload[2] & 0x0F != 1:
        return None
    region, secret = region_of(rng, payload)
    change = rng.randrange(3)
    region ^= 1 << rng.randrange(64) if change == 0 else 0
    secret ^= 1 << rng.randrange(64) if change == 1 else 0
    offset = 1 << 40 if change == 2 else 0
    body = TARGET.pack(region, secret, offset, offset + 16, 0xFFFF0000 | rng.getrandbits(16), 0)
    seq = struct.unpack_from("<I", payload, 16)[0] + rng.randrange(1000, 20000) & 0xFFFFFFFF
    return bytes(Forgery(payload, TYPE_PUT, body + rng.randbytes(16), seq=seq, spaces=1))


def again(rng, payload):
    """Insiders: operations on regions that are there, as sequences that were taken in long ago."""
    seq = struct.unpack_from("<I", payload, 16)[0]
    if seq < 1000:
        return None
    kind, body = payload[0] & 0x0F, bytearray(payload[HEADER.size:])
    if kind == TYPE_ATOMIC:
        body[24:32] = rng.randbytes(8)
    elif kind == TYPE_GOT:
        body[GOT.size:] = rng.randbytes(len(body) - GOT.size)
    elif kind == TYPE_PUT:
        body[TARGET.size:] = rng.randbytes(len(body) - TARGET.size)
    elif kind == TYPE_REPLY:
        body[0:8] = rng.randbytes(8)
    return bytes(Forgery(payload, kind, bytes(body), spaces=payload[2] & 0x0F,
                         seq=rng.randint(max(1, seq - 30000), seq - 900)))


def malformed(rng, payload):
    """Insiders: operations that contradict themselves."""
    region, secret = region_of(rng, payload)
    kind, body = rng.choice((
        (TYPE_PUT, TARGET.pack(region, secret, 16, 8, 1, 0) + b"12345678"),
        (TYPE_PUT, TARGET.pack(region, secret, 0, 8, 1, 0) + b"123456789"),
        (TYPE_PUT, TARGET.pack(region, secret, 0, 8, 1, 0)),
        (TYPE_PUT, TARGET.pack(region, secret, 0, 8, 1, 1) + b"12345678"),
        (TYPE_PUT, TARGET.pack(region, secret, 0, 8, 1, 0)[:-1]),
        (TYPE_GET, TARGET.pack(region, secret, 1, 0, 1, 0)),
        (TYPE_GET, TARGET.pack(region, secret, 0, 8, 1, 0) + b"1"),
        (TYPE_ATOMIC, ATOMIC.pack(region, secret, 0, 1, 0, 1, 0, TYPE_INT32, 0)),
        (TYPE_ATOMIC, ATOMIC.pack(region, secret, 0, 1, 0, 1, CODES[-1] + 1, TYPE_INT32, 0)),
        (TYPE_ATOMIC, ATOMIC.pack(region, secret, 0, 1, 0, 1, CODE_ADD, 5, 0)),
        (TYPE_ATOMIC, ATOMIC.pack(region, secret, 0, 1, 0, 1, CODE_AND, TYPE_FLOAT, 0)),
        (TYPE_ATOMIC, ATOMIC.pack(region, secret, 0, 1, 0, 1, CODE_ADD, TYPE_INT32, 1)),
        (TYPE_GOT, GOT.pack(0, 0, 1)),
        (TYPE_GOT, GOT.pack(0, 0, 1)[:-1]),
        (TYPE_REPLY, b""),
        (TYPE_REPLY, REPLY.pack(0, 1, 2)),
        (TYPE_REPLY, REPLY.pack(0, 1, 0) + b"1"),
        (TYPE_VOID, b"1"),
        (TYPE_REJECTED, b"123"),
    ))
    return bytes(Forgery(payload, kind, body))


def refusals(rng, payload):
    """Insiders: of operations that do not run."""
    return bytes(Forgery(payload, TYPE_REJECTED, struct.pack("<I", 0xFFFF0000 | rng.getrandbits(16))))


# Name: what makes one (None: not from this datagram), the counters that they belong to ("drop": any
# but duplicates; "": none, they are harmless), whether the source is a wrong one, and of which types
# the datagrams are that it is made from, the older ones too; none: of any, the latest.
CLASSES = {
    "put": (operation(TYPE_PUT), "token", False, ()),
    "get": (operation(TYPE_GET), "token", False, ()),
    "atomic": (operation(TYPE_ATOMIC), "token", False, ()),
    "got": (operation(TYPE_GOT), "token", False, ()),
    "reply": (operation(TYPE_REPLY), "token", False, ()),
    "void": (operation(TYPE_VOID), "token", False, ()),
    "rejected": (operation(TYPE_REJECTED), "token", False, ()),
    "regions": (regions, "region bounds", False, (TYPE_DATA, TYPE_CHUNK, TYPE_PUT, TYPE_GOT)),
    "again": (again, "duplicate", False, REQUESTS + (TYPE_GOT, TYPE_REPLY)),
    "late": (same, "duplicate", False, (TYPE_PUT,)),
    "malformed": (malformed, "op type length short", False, ()),
    "refusals": (refusals, "", False, ()),
    "garbage": (garbage, "drop", False, ()),
    "truncate": (truncate, "short length", False, ()),
    "token": (token, "drop", False, ()),
    "source": (same, "source", True, ()),
    "sequence": (sequence, "token", False, ()),
    "connection": (connection, "unknown token", False, ()),
    "close": (close, "token", False, ()),
    "contact": (contact, "unknown lookup", False, ()),
    "replay": (same, "duplicate replay sequence", False, ()),  # by age
    "earlier": (same, "drop", False, ()),
    "acks": (acks, "ack", False, ()),
    "ranges": (ranges, "ack", False, ()),
    "blocks": (blocks, "ack", False, ()),
    "limits": (limits, "credit", False, ()),
    "window": (window, "sequence", False, ()),
    "channel": (channel, "channel", False, ()),
    "skips": (skips, "sequence", False, ()),
    "fragments": (fragments, "chunk", False, ()),
    "clocks": (clocks, "", False, ()),
    "bits": (bits, "checksum forged replay", False, ()),
    "sealed": (sealed, "forged replay", False, ()),
    "icmp": (quoted, "icmp", False, ()),
    "icmp8": (unquoted, "icmp_short", False, ()),
}
# Of these, the ones that are quoted by ICMP messages.
ICMP_CLASSES = ("icmp", "icmp8")


def own_ports():
    """UDP ports that sockets of this namespace are bound to, and the addresses they have."""
    found = set()
    with open("/proc/self/net/udp", encoding="ascii") as table:
        for line in table.readlines()[1:]:
            address, port = line.split()[1].split(":")
            address = socket.inet_ntoa(struct.pack("<I", int(address, 16)))
            found.add((address, int(port, 16)))
    return found


def own_addresses(net):
    addresses = {"127.0.0.1"}
    with open("/proc/self/net/fib_trie", encoding="ascii") as table:
        last = None
        for line in table:
            words = line.split()
            if words[:1] == ["|--"]:
                last = words[1]
            elif words[:3] == ["/32", "host", "LOCAL"] and ipaddress.ip_address(last) in net:
                addresses.add(last)
    return addresses


def ip_header(source, target, protocol, length):
    return struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + length, 0, 0, 64, protocol, 0,
                       socket.inet_aton(source[0]), socket.inet_aton(target[0]))


def udp_packet(source, target, payload):
    length = 8 + len(payload)
    # Checksum 0: none was made.
    udp = struct.pack("!HHHH", source[1], target[1], length, 0)
    return ip_header(source, target, PROTO_UDP, length) + udp + payload


def internet_checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data[:len(data) & ~1]))
    total += data[-1] << 8 if len(data) % 2 else 0
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Thrower:
    def __init__(self, rng):
        self.rng = rng
        self.raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)

    def throw(self, source, target, payload):
        """A datagram that claims to come from `source`."""
        self.raw.sendto(udp_packet(source, target, payload), (target[0], 0))

    def throw_icmp(self, source, target, payload):
        """The host of `source` claims that nobody is there, or the way to it that a datagram is too
        large, and quotes one that `target` is said to have sent."""
        code, mtu = self.rng.choice(((PORT_UNREACHABLE, 0), (TOO_LARGE, QUOTED_MTU)))
        body = struct.pack("!HH", 0, mtu) + udp_packet(target, source, payload)[:548]
        checksum = internet_checksum(struct.pack("!BBH", UNREACHABLE, code, 0) + body)
        icmp = struct.pack("!BBH", UNREACHABLE, code, checksum) + body
        header = ip_header(source, target, PROTO_ICMP, len(icmp))
        self.raw.sendto(header + icmp, (target[0], 0))


def udp_of(frame):
    """Source, target and payload of an IPv4 UDP packet without options, else None."""
    if len(frame) < 28 or frame[0] != 0x45 or frame[9] != PROTO_UDP:
        return None
    source, target, length = struct.unpack_from("!HHH", frame, 20)
    return ((socket.inet_ntoa(frame[12:16]), source), (socket.inet_ntoa(frame[16:20]), target),
            frame[28:20 + length])


class Listener:
    """The job's datagrams for this host: the latest few hundred, or all of them, and many of each type."""

    def __init__(self, mine, keep):
        self.mine = mine
        self.keep = keep
        self.seen = []
        self.by_type = collections.defaultdict(lambda: collections.deque(maxlen=4 * keep))
        self.tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP))
        self.tap.settimeout(0.01)

    def listen(self):
        try:
            frame, where = self.tap.recvfrom(65536)
        except TimeoutError:
            return
        # What is thrown comes by the loopback: bad datagrams are not made from bad ones, or two changes
        # of one bit would make a good one.
        packet = udp_of(frame) if where[0] != "lo" else None
        if packet and packet[1][0] in self.mine and HEADER.size <= len(packet[2]) <= LONGEST:
            self.seen = self.seen[-self.keep:] + [packet]
            if not packet[2][1] & FLAG_CONNECT:
                self.by_type[packet[2][0] & 0x0F].append(packet)

    def wait_for_job(self):
        """Until its first datagram; returns when that was."""
        patience = time.monotonic() + WAIT_MAX
        while not self.seen and time.monotonic() < patience:
            self.listen()
        return time.monotonic()

    def choose(self, rng, types):
        """One of these types, or of any; None if none came so far."""
        if not types:
            return rng.choice(self.seen) if self.seen else None
        there = [self.by_type[kind] for kind in types if self.by_type[kind]]
        return rng.choice(rng.choice(there)) if there else None


def record(listener, path, seconds):
    end = listener.wait_for_job() + seconds
    while time.monotonic() < end:
        listener.listen()
    with open(path, "wb") as file:
        pickle.dump([payload for _, _, payload in listener.seen], file)
    print(f"badguy: recorded {len(listener.seen)} datagrams")


def throw_all(listener, thrower, names, options, earlier):
    """One of each class for each datagram that comes by, from the first of the job on."""
    thrown = dict.fromkeys(names, 0)
    rng = thrower.rng
    begun = listener.wait_for_job()
    while time.monotonic() < begun + options.seconds:
        listener.listen()
        # No more than the job's receive buffers hold: what is lost there is counted nowhere.
        if sum(thrown.values()) > options.rate * (time.monotonic() - begun):
            continue
        for name in names:
            make, _, strange, types = CLASSES[name]
            chosen = listener.choose(rng, types)
            if chosen is None:
                continue
            source, target, payload = chosen
            if name == "earlier":
                payload = rng.choice(earlier)
            elif payload[1] & FLAG_CONNECT and name != "replay":
                continue  # what is made from a header needs one of a connection that is there
            if strange:
                source = (source[0], rng.randrange(1024, 65536))
            bad = make(rng, payload)
            if bad is None:
                continue
            throw = thrower.throw_icmp if name in ICMP_CLASSES else thrower.throw
            try:
                throw(source, target, bad[:LONGEST])
            except OSError:
                continue
            thrown[name] += 1
    return thrown


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--net", required=True, help="network that targets must be in")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rate", type=int, default=3000, help="datagrams in a second")
    parser.add_argument("--classes", default="garbage,token,replay", help="several with commas")
    parser.add_argument("--record", help="throw nothing, keep the job's datagrams in this file")
    parser.add_argument("--earlier", help="a file of --record, for the class `earlier`")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    names = options.classes.split(",")
    if not set(names) <= set(CLASSES):
        parser.error(f"classes are {', '.join(CLASSES)}")
    mine = own_addresses(ipaddress.ip_network(options.net))
    if options.record:
        record(Listener(mine, 20000), options.record, options.seconds)
        return 0
    earlier = []
    if options.earlier:
        with open(options.earlier, "rb") as file:
            earlier = pickle.load(file)
    thrown = throw_all(Listener(mine, 200), Thrower(random.Random(options.seed)), names, options,
                       earlier)
    for name in names:
        print(f"badguy: {name}: threw {thrown[name]}, causes {CLASSES[name][1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
