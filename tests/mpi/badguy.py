#!/usr/bin/env python3
# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Throws bad datagrams at the UDP ports of a running job, in this network namespace only.

Random ones, and mutations, replays and truncations of the job's own, with the source addresses that
those had. A mutation never keeps the token: without authentication who knows the token is the peer
(--insider keeps it, to see how much of that is found out all the same). Bounded in number and time. Targets are this host's own addresses, and only those that are
loopback or in --net. Needs root (raw and packet sockets).
"""

import argparse
import ipaddress
import random
import socket
import struct
import sys
import time

ETH_P_IP = 0x0800
PROTO_UDP = 17
TOKEN = range(8, 16)  # its bytes in a header, see engine/btl_ib_wire.h


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


class Thrower:
    def __init__(self, rng, insider):
        self.rng = rng
        self.insider = insider
        self.plain = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self.thrown = {"random": 0, "mutated": 0, "replayed": 0}

    def plain_random(self, target):
        size = self.rng.choice((0, 1, 8, 16, 24, 32, 48, 64, 100, 128, 500, 1472))
        self.plain.sendto(self.rng.randbytes(size), target)
        self.thrown["random"] += 1

    def forged(self, source, target, payload, kind):
        """A datagram that claims to come from `source`."""
        length = 8 + len(payload)
        ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + length, 0, 0, 64, PROTO_UDP, 0,
                         socket.inet_aton(source[0]), socket.inet_aton(target[0]))
        # Checksum 0: none was made.
        udp = struct.pack("!HHHH", source[1], target[1], length, 0)
        self.raw.sendto(ip + udp + payload, (target[0], 0))
        self.thrown[kind] += 1

    def mutate(self, payload):
        data = bytearray(payload)
        for _ in range(self.rng.randint(1, 4)):
            what = self.rng.randrange(5)
            if not data:
                break
            # Mostly in the header: the payload has no structure to get wrong.
            at = self.rng.randrange(min(len(data), 64))
            if what == 0:
                data[at] ^= 1 << self.rng.randrange(8)
            elif what == 1:
                data[at] = self.rng.choice((0, 1, 0x7F, 0x80, 0xFF))
            elif what == 2:
                del data[self.rng.randrange(len(data)):]
            elif what == 3:
                data += self.rng.randbytes(self.rng.randrange(1, 64))
            else:
                data[at:at + 4] = self.rng.choice((b"\xff" * 4, b"\0" * 4, self.rng.randbytes(4)))
        if not self.insider and min(len(data), len(payload)) >= TOKEN.stop:
            at = self.rng.choice(TOKEN)
            data[at] = payload[at] ^ self.rng.randrange(1, 256)
        return bytes(data[:1472])


def udp_of(frame):
    """Source, target and payload of an IPv4 UDP packet without options, else None."""
    if len(frame) < 28 or frame[0] != 0x45 or frame[9] != PROTO_UDP:
        return None
    source, target, length = struct.unpack_from("!HHH", frame, 20)
    return ((socket.inet_ntoa(frame[12:16]), source), (socket.inet_ntoa(frame[16:20]), target),
            frame[28:20 + length])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--net", required=True, help="network that targets must be in")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--count", type=int, default=50000)
    parser.add_argument("--insider", action="store_true", help="keep tokens")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    net = ipaddress.ip_network(options.net)
    mine = own_addresses(net)
    thrower = Thrower(random.Random(options.seed), options.insider)
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP))
    tap.settimeout(0.01)
    end = time.monotonic() + options.seconds
    seen, ports, looked = [], set(), 0.0

    while time.monotonic() < end and sum(thrower.thrown.values()) < options.count:
        if time.monotonic() - looked > 0.2:
            looked = time.monotonic()
            ports = own_ports()
        try:
            packet = udp_of(tap.recv(65536))
        except TimeoutError:
            packet = None
        if packet and packet[1][0] in mine and len(packet[2]) <= 1472:
            seen = seen[-200:] + [packet]
        for address, port in ports:
            for target in mine if address == "0.0.0.0" else {address} & mine:
                try:
                    thrower.plain_random((target, port))
                except OSError:
                    continue
        if seen:
            source, target, payload = thrower.rng.choice(seen)
            try:
                thrower.forged(source, target, thrower.mutate(payload), "mutated")
                thrower.forged(source, target, payload, "replayed")
            except OSError:
                continue

    counts = ", ".join(f"{n} {kind}" for kind, n in thrower.thrown.items())
    print(f"badguy: threw {sum(thrower.thrown.values())} datagrams ({counts})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
