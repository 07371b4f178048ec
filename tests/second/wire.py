# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""The layouts of docs/protocol.md, its hash and its checksum. Numbers in comments are chapters."""

import struct

HEADER = struct.Struct("<BBBBIQIIHHIIHH")  # 3.1
CONNECT = struct.Struct("<QIIBBHI")  # 3.3
CHUNK = struct.Struct("<IIHH")  # 3.4
BLOCK = struct.Struct("<BBHII")  # 3.5
RANGE = struct.Struct("<HH")
TARGET = struct.Struct("<QQqqII")  # 3.7
ATOMIC = struct.Struct("<QQqQQIBBH")
GOT = struct.Struct("<QI")
REPLY = struct.Struct("<QII")
ENTRY = struct.Struct("<HBB")  # 3.8
PART = struct.Struct("<HHBBH")  # 3.10
TYPES = ("NONE DATA CHUNK SKIP ACK CLOSE PUT GET ATOMIC GOT REPLY VOID REJECTED BUNDLE PART "
         "PATH_RESPONSE").split()
T = {name: number for number, name in enumerate(TYPES)}
SEQUENCED = {T[name] for name in
             "DATA CHUNK SKIP PUT GET ATOMIC GOT REPLY VOID BUNDLE PART".split()}
PARTED = {T[name] for name in "DATA CHUNK PUT GOT REPLY BUNDLE".split()}
F_CONNECT, F_ACK_NOW, F_ACK, F_ECHO, F_RETRANSMISSION, F_NO_TAG, F_READY, F_PATH = (
    1 << bit for bit in range(8))
MASK = 0xffffffff
M64 = 0xffffffffffffffff
WINDOW = 65536
PAD_MAX = 128


class Fault(Exception):
    """The peer did what docs/protocol.md forbids."""


def demand(holds, what):
    if not holds:
        raise Fault(what)


def before(a, b):
    """True if a is before b, as chapter 1 says of 32 bits."""
    return (a - b) & MASK >= 1 << 31


def siphash(k0, k1, data):
    """Returns SipHash-2-4 of data, 1 for 0 (4)."""
    v = [k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d,
         k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573]

    def rotate(x, bits):
        return (x << bits | x >> (64 - bits)) & M64

    def rounds(count):
        for _ in range(count):
            v[0] = (v[0] + v[1]) & M64
            v[2] = (v[2] + v[3]) & M64
            v[1], v[3] = rotate(v[1], 13) ^ v[0], rotate(v[3], 16) ^ v[2]
            v[0] = rotate(v[0], 32)
            v[2] = (v[2] + v[1]) & M64
            v[0] = (v[0] + v[3]) & M64
            v[1], v[3] = rotate(v[1], 17) ^ v[2], rotate(v[3], 21) ^ v[0]
            v[2] = rotate(v[2], 32)

    data += bytes(7 - len(data) % 8) + bytes([len(data) & 0xff])
    for (word,) in struct.iter_unpack("<Q", data):
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xff
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3] or 1


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC_TABLE = crc32c_table()


def crc32c(data):
    crc = MASK
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xff]
    return crc ^ MASK


class Queue:
    """A row of a rail's queue table (2)."""

    def __init__(self, kind, size, num, low, window=0, reserve=0, max_pending=0, init=0, limit=0):
        self.kind, self.size, self.num, self.low, self.window = kind, size, num, low, window
        self.reserve, self.max_pending, self.init, self.limit = reserve, max_pending, init, limit

    def pack(self):
        return self.kind + struct.pack(">8I", self.size, self.num, self.low, self.window,
                                       self.reserve, self.max_pending, self.init, self.limit)


def text(length_and_text):
    return bytes([len(length_and_text)]) + length_and_text


class Block:
    """What a process publishes (2), with one rail."""

    def pack(self):
        rail = (text(b"udp") + text(self.provider) + text(self.address)
                + bytes([4, 8, 1, 0, 127, 0, 0, 1])
                + struct.pack(">IIIBBB", self.max_datagram, 0, self.ack_delay, 0, len(self.queues),
                              33)
                + b"".join(queue.pack() for queue in self.queues) + text(self.more) + b"\0")
        process = (struct.pack(">QQBBI", *self.secret, self.protection, 1, self.message_max)
                   + text(b"localhost") + struct.pack(">QQ", 0, 0))
        body = (bytes([1, 1]) + text(b"second") + struct.pack(">H", len(process)) + process
                + b"\1" + struct.pack(">H", len(rail)) + rail)
        return struct.pack(">IHHI", 0x42744962, 6, 5, 12 + len(body)) + body

    @classmethod
    def unpack(cls, data):
        block, at = cls(), 0

        def take(form):
            nonlocal at
            values = struct.unpack_from(">" + form, data, at)
            at += struct.calcsize(">" + form)
            return values if len(values) > 1 else values[0]

        def take_text():
            return take(f"{take('B')}s")

        magic, version, oldest, total = take("IHHI")
        demand((magic, version, oldest, total) == (0x42744962, 6, 5, len(data)), "block's head")
        block.wire = take("BB")
        take_text()
        end = take("H") + at
        block.secret = take("QQ")
        block.protection = take("B")
        demand(block.protection in (0, 1), "a keyed protection was not asked for")
        block.answers, block.message_max = take("BI")
        take_text()
        take("QQ")
        demand(at == end, "bytes left over in the block's process")
        demand(take("B") == 1, "one rail was expected")
        end = take("H") + at
        demand(take_text() == b"udp", "transport")
        block.provider, block.address = take_text(), take_text()
        family = take("BBBB")[0]
        take({0: "0s", 4: "4s", 6: "16s"}[family])
        block.max_datagram, _, block.ack_delay, _, count, stride = take("IIIBBB")
        demand(stride == 33 and 1 <= count <= 16, "queues")
        block.queues = [Queue(*take("c8I")) for _ in range(count)]
        block.more = take_text()
        take("B")
        demand(at == end == len(data), "bytes left over in the block")
        return block
