# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""A second implementation of docs/protocol.md, written from that document alone.

One process with one rail and one peer. It sends and takes in DATA, BUNDLE, CHUNK, SKIP, ACK, RNR,
PUT, GET, ATOMIC and CLOSE, and raises Fault where the other side does what the document forbids.
Numbers in comments are chapters.
"""

import struct
from collections import Counter, deque

from wire import (ATOMIC, BLOCK, CHUNK, CONNECT, ENTRY, F_ACK, F_ACK_NOW, F_CONNECT, F_ECHO,
                  F_PATH, F_READY, F_RETRANSMISSION, GOT, HEADER, MASK, PAD_MAX, PART, PARTED,
                  RANGE, REPLY, SEQUENCED, T, TARGET, TYPES, WINDOW, before, crc32c, demand,
                  siphash)


class Segment:
    """A segment that this side sends, and its copies (7.1)."""

    def __init__(self, kind, channel, tag, body, done=None, connect=b""):
        self.kind, self.channel, self.tag, self.body, self.done = kind, channel, tag, body, done
        self.connect = connect
        self.seq = self.copies = self.sent = self.first = 0
        self.state = "queued"
        self.deferred_copy = 0


class Outgoing:
    """A sequence space of the peer's channel."""

    def __init__(self, queue):
        self.queue = queue
        self.next = 1
        self.limit = 1 + max(1, min(queue.num, queue.init)) if queue.kind == b"P" else 0
        self.kept = {}  # sequence -> Segment, until acknowledged


class Incoming:
    """A sequence space of one of our channels, with its credits (7.2, 9.1)."""

    def __init__(self, queue):
        self.queue = queue
        self.credited = queue.kind == b"P"
        self.next = 1
        self.ahead = set()
        self.newest = 0
        self.due = False
        self.duplicates = self.duplicates_reported = 0
        self.retransmitted = deque(maxlen=8)
        self.rnr = {}  # sequence -> cause, while it is missing
        self.rnr_last = 0
        self.seen = {}  # sequence -> what every copy must repeat
        self.parts = {}  # sequence -> what came of it in parts
        self.initial = self.grant = max(1, min(queue.num, queue.init))
        self.used = self.since = 0
        self.limit = self.told = 1 + self.grant

    def place(self, seq):
        ahead = (seq - self.next) & MASK
        if ahead < WINDOW:
            return "duplicate" if seq in self.ahead else "new"
        return "duplicate" if ahead >= (1 << 32) - WINDOW else "outside"

    def note(self, seq):
        self.ahead.add(seq)
        self.newest = seq
        while self.next in self.ahead:
            self.ahead.remove(self.next)
            self.next = (self.next + 1) & MASK

    def reposted(self, in_order):
        """Counts a buffer that was used, and grants credits at the low watermark."""
        self.used += 1
        self.since += 1
        num = self.queue.num
        if self.grant - self.since > self.queue.low * self.grant // num:
            return
        self.since = 0
        share = max(min(self.initial, 16), num)
        if self.grant > share and in_order:
            less = min(self.grant - share, self.used)
            self.grant -= less
            self.used -= less
        self.limit += self.used
        self.used = 0
        if self.grant < share:
            more = min(share - self.grant, self.grant, num - self.grant)
            self.grant += more
            self.limit += more

    def tell_limit(self):
        self.limit += self.used
        self.used = 0
        self.told = self.limit & MASK
        return self.told

    def credits_due(self):
        banked = self.limit + self.used - self.told
        outstanding = self.told - self.next - len(self.ahead)
        return self.credited and banked > 0 and (
            banked >= min(self.queue.window, self.grant - self.grant // 4)
            or outstanding <= 0)

    def runs(self, numbers):
        """Returns [offset, count] of the runs of sequences, ascending from the oldest missing."""
        found = []
        for offset in sorted((seq - self.next) & MASK for seq in numbers):
            if found and sum(found[-1]) == offset:
                found[-1][1] += 1
            else:
                found.append([offset, 1])
        return found

    def newest_first(self, runs, newest, count):
        """Returns as many runs, with the one that holds the newest sequence among them."""
        offset = (newest - self.next) & MASK
        runs.sort(key=lambda run: not run[0] <= offset < sum(run))
        return sorted(runs[:count])


class Peer:
    """A process, its rail, and its one connection."""

    def __init__(self, rng, ours, name, theirs, their_name, transmit, log=None):
        self.rng, self.ours, self.name = rng, ours, name
        self.theirs, self.their_name = theirs, their_name
        self.transmit = transmit  # transmit(datagram, key): True if a copy gets through
        self.log = log or (lambda *_: None)
        self.trailer = 4 if ours.protection == 1 else 0
        self.largest = min(theirs.max_datagram, theirs.queues[-1].size, 65575)
        self.regions = {}  # id -> (secret, bytearray)
        self.deliver = lambda tag, data: None
        self.listens = lambda tag: True
        self.buffers = 1000
        self.epoch = self.floor = self.id = 0
        self.drops = Counter()
        self.clock = rng.randrange(1 << 32)  # what stamps are counted from
        self.closed = 0
        self.begin()

    # ---- incarnations (4, 5.1)

    def token(self, key, name, secret, epoch):
        return siphash(*key, struct.pack("<QQQII", name, *secret, epoch, 0))

    def begin(self):
        """Begins an incarnation of our own."""
        self.epoch += 1
        self.id = self.rng.randrange(1, 1 << 32)
        self.tx_token = self.token(self.theirs.secret, self.name, self.ours.secret, self.epoch)
        self.out = [Outgoing(queue) for queue in self.theirs.queues]
        self.waiting = deque()
        self.fragment = 0
        self.operations = {}
        self.operation = 0
        self.window, self.cut = 64.0, 0
        self.srtt = self.rttvar = 0
        self.probes, self.asked, self.arrived = 0, 0, 0
        self.peer_knows = False
        self.unbind()

    def unbind(self):
        self.bound = False
        self.peer_id = self.peer_epoch = self.rx_token = 0
        self.spaces = [Incoming(queue) for queue in self.ours.queues]
        self.stamp = self.last_echo = None
        self.fragments, self.fragment_next = {}, 0
        self.ready = {}  # cause -> [channel, seq, is it over]
        self.rejected = []
        self.its_id_told = False
        self.answer_now = False
        self.poll_gap = 0

    def lose_peer(self):
        """Ends the receiving half; the epoch gets its tombstone (5.1)."""
        if self.bound:
            self.floor = max(self.floor, self.peer_epoch + 1)
            self.finish_fragments()
        self.unbind()

    def reset(self):
        self.lose_peer()
        self.begin()

    def close(self, now):
        """Sends one CLOSE (3.6, 5.3)."""
        self.datagram(T["CLOSE"], F_CONNECT, 0, 0, 0, self.connect(), now, "CLOSE", bare=True)

    # ---- sending

    def connect(self):
        return CONNECT.pack(self.name, self.id, self.epoch, 0, 0, 0, self.floor)

    def datagram(self, kind, flags, channel, tag, seq, body, now, key, bare=False, acked=None):
        """Fills in what each copy says of its moment, and transmits."""
        ack = credits = echo = hold = away = 0
        if acked is not None:
            space = self.spaces[acked]
            flags |= F_ACK
            channel |= acked << 4
            ack = space.next
            if space.credited:
                credits = min(65535, (space.tell_limit() - ack) & MASK)
            if not space.ahead and space.duplicates == space.duplicates_reported:
                space.due = False
        if not bare and self.stamp is not None:
            flags |= F_ECHO
            echo, hold, away = self.stamp, min(65535, now - self.stamp_came), self.poll_gap
        to = 0 if bare else self.peer_id
        head = HEADER.pack(0x10 | kind, flags, channel, tag, to, self.tx_token, seq, ack, credits,
                           len(body), (now + self.clock) & MASK, echo, hold, away)
        whole = head + body
        if self.trailer:
            whole += struct.pack("<I", crc32c(whole))
        if self.transmit(whole, key) and to:
            self.its_id_told = True

    def send_segment(self, segment, now, ack_now=False):
        flags = F_RETRANSMISSION if segment.copies else 0
        if segment.connect:
            flags |= F_CONNECT
        pending = sum(1 for out in self.out for s in out.kept.values() if s.state == "flight")
        if ack_now or pending + 1 >= self.window or pending % 8 == 7:
            flags |= F_ACK_NOW
            self.asked = now
        acked = None
        if self.bound:
            due = [n for n, space in enumerate(self.spaces) if space.due]
            acked = self.rng.choice(due or range(len(self.spaces)))
        segment.copies += 1
        segment.first = segment.first or now
        segment.sent, segment.state = now, "flight"
        if self.asked == 0 or pending == 0:
            self.asked = now
        self.datagram(segment.kind, flags, segment.channel, segment.tag, segment.seq,
                      segment.connect + segment.body, now,
                      (TYPES[segment.kind], segment.channel, segment.seq), acked=acked)

    def room(self):
        """Returns what the largest datagram and each queue hold behind header and trailer."""
        less = HEADER.size + self.trailer + (0 if self.peer_knows else CONNECT.size)
        return self.largest - less, [min(self.largest, q.size) - less for q in self.theirs.queues]

    def message(self, tag, data):
        self.waiting.append(("message", tag, data))

    def put(self, region, secret, offset, data, done):
        self.waiting.append(("put", (region, secret, offset, data), done))

    def get(self, region, secret, offset, size, done):
        self.waiting.append(("get", (region, secret, offset, size), done))

    def atomic(self, region, secret, offset, operand, done):
        self.waiting.append(("atomic", (region, secret, offset, operand), done))

    def new_operation(self, *what):
        self.operation += 1
        self.operations[self.operation] = list(what)
        return self.operation

    def packetize(self):
        """Returns the segments of what waits first (10.1, 13)."""
        largest, rooms = self.room()
        connect = b"" if self.peer_knows else self.connect()
        last = next(n for n, room in enumerate(rooms) if room >= largest)
        what, first, second = self.waiting.popleft()

        def make(kind, body, tag=0, done=None, channel=None):
            if channel is None:
                channel = next(n for n, room in enumerate(rooms) if len(body) <= room)
            return Segment(T[kind], channel, tag, body, done, connect)

        if what == "message":
            if len(second) <= largest:
                if self.waiting and self.waiting[0][0] == "message" and self.rng.random() < 0.5:
                    return [self.bundle(first, second, largest, make)]
                return [make("DATA", second, first)]
            unit = largest - CHUNK.size - self.rng.randrange(3)
            number, self.fragment = self.fragment, self.fragment + 1
            return [make("CHUNK", CHUNK.pack(number, len(second), index, unit)
                         + second[at:at + unit], first, channel=last)
                    for index, at in enumerate(range(0, len(second), unit))]
        region, secret, offset, data = first
        if what == "put":
            unit = largest - TARGET.size
            end, pieces = offset + len(data), range(0, max(1, len(data)), unit)
            name = self.new_operation("put", len(pieces), second)

            def placed():
                operation = self.operations[name]
                operation[1] -= 1
                if operation[1] == 0:
                    operation[2](self.operations.pop(name)[3:] or "done")

            return [make("PUT", TARGET.pack(region, secret, offset + at, end, name, 0)
                         + data[at:at + unit], done=placed, channel=last) for at in pieces]
        if what == "get":
            name = self.new_operation("get", bytearray(data), data, second)
            return [make("GET", TARGET.pack(region, secret, offset, offset + data, name, 0))]
        name = self.new_operation("atomic", second)
        return [make("ATOMIC", ATOMIC.pack(region, secret, offset, data, 0, name, 1, 2, 0))]

    def bundle(self, tag, data, largest, make):
        """Returns a BUNDLE of that message and those that follow, or DATA if none fits with it."""
        body, count = self.entry(tag, data), 1
        while self.waiting and self.waiting[0][0] == "message":
            more = self.entry(*self.waiting[0][1:])
            if len(body) + len(more) > largest:
                break
            body, count = body + more, count + 1
            self.waiting.popleft()
        return make("BUNDLE", body) if count > 1 else make("DATA", data, tag)

    @staticmethod
    def entry(tag, data):
        return ENTRY.pack(len(data), tag, 0) + data + bytes(-len(data) % 4)

    def pending(self):
        return [s for out in self.out for s in out.kept.values()]

    def idle(self):
        """True if all that this side sent has been acknowledged and answered."""
        return not (self.waiting or self.pending() or self.operations)

    def may_send(self, segment, in_flight):
        out = self.out[segment.channel]
        if out.queue.kind == b"P":
            if not before(out.next, out.limit):
                return False
        elif sum(1 for s in out.kept.values() if s.state == "flight") >= out.queue.max_pending:
            return False
        oldest = next(iter(out.kept), out.next)
        return (out.next - oldest) & MASK < 49152 and in_flight < self.window

    def turn(self, now):
        """Sends what may be sent: lost segments, new ones, ACKs, probes."""
        kept = self.pending()
        in_flight = sum(1 for s in kept if s.state == "flight")
        for segment in kept:
            if segment.state == "deferred" and now - segment.sent > 200000:
                segment.state = "lost"
            if segment.state == "lost" and in_flight < self.window:
                self.send_segment(segment, now)
                in_flight += 1
        while self.waiting:
            if self.waiting[0][0] != "segments":
                self.waiting.appendleft(("segments", deque(self.packetize()), None))
            queue = self.waiting[0][1]
            if not self.may_send(queue[0], in_flight):
                break
            segment = queue.popleft()
            out = self.out[segment.channel]
            segment.seq, out.next = out.next, (out.next + 1) & MASK
            out.kept[segment.seq] = segment
            self.send_segment(segment, now)
            in_flight += 1
            if not queue:
                self.waiting.popleft()
        if self.bound:
            self.send_acks(now)
        self.probe(now)

    def probe(self, now):
        """Asks when nothing comes (11.4)."""
        kept = self.pending()
        if not kept and not self.waiting and not self.operations:
            self.probes = 0
            return
        rto = max(self.srtt + max(4 * self.rttvar, 50) + self.theirs.ack_delay, 10000)
        if now - self.asked < min(rto << min(self.probes, 6), 200000):
            return
        n, self.probes, self.asked = self.probes, self.probes + 1, now
        flight = sorted((s for s in kept if s.state == "flight"), key=lambda s: s.sent)
        lost = sorted((s for s in kept if s.state != "flight"), key=lambda s: s.sent)
        if not kept or (n >= 4 and n % 2 == 0):
            self.send_ack(now, [], F_ACK_NOW | F_CONNECT)
        elif n == 0 and flight:
            self.send_segment(flight[-1], now, ack_now=True)
        else:
            self.send_segment((lost + flight)[0], now, ack_now=True)

    # ---- acknowledgements (8)

    def send_acks(self, now):
        for space in self.spaces:
            space.due = space.due or space.credits_due()
        due = [n for n, space in enumerate(self.spaces) if space.due]
        while due or self.answer_now:
            self.answer_now = False
            due = self.send_ack(now, due)
        for operation in self.rejected:
            self.datagram(T["REJECTED"], 0, 0, 0, 0, struct.pack("<I", operation), now, "REJECTED",
                          acked=0)
        self.rejected = []

    def send_ack(self, now, due, flags=0):
        """Sends an ACK with a block for each due channel that fits, and returns the others."""
        channel = seq = 0
        clear = [entry for entry in self.ready.values() if entry[2]]
        if clear:
            flags |= F_READY
            channel, seq, _ = self.rng.choice(clear)
        if not self.peer_knows:
            flags |= F_CONNECT
        body = self.connect() if flags & F_CONNECT else b""
        room = min(256, self.theirs.queues[0].size) - HEADER.size - self.trailer - len(body)
        blocks, named, left = b"", b"", list(due)
        for number in due:
            space = self.spaces[number]
            fits = (room - len(blocks) - len(named) - 2 * BLOCK.size) // RANGE.size
            if fits < 2:
                break
            left.remove(number)
            space.due = False
            runs, rnr = space.runs(space.ahead), space.runs(space.rnr)
            if len(runs) + len(rnr) > fits:
                rnr, runs = space.newest_first(rnr, space.rnr_last, 1), space.newest_first(
                    runs, space.newest, fits - 1)
            space.duplicates_reported = space.duplicates
            limit = space.tell_limit() if space.credited else 0
            blocks += BLOCK.pack(number, len(runs), space.duplicates & 0xffff, space.next, limit)
            blocks += b"".join(RANGE.pack(*run) for run in runs)
            if rnr:
                some = sum(run[1] for run in rnr) != len(space.rnr)
                named += BLOCK.pack(0x80 | number, len(rnr), some, space.next, 0)
                named += b"".join(RANGE.pack(*run) for run in rnr)
        self.datagram(T["ACK"], flags, channel, 0, seq, body + blocks + named, now, "ACK")
        return left

    def acknowledge(self, number, ack, runs, now, echo):
        """Takes in what one channel's state says (8)."""
        out = self.out[number]
        last = ack if not runs else (ack + sum(runs[-1])) & MASK
        demand(not before(out.next, last), "dropped_ack: what was never sent is acknowledged")
        gone = [s for s in out.kept.values() if before(s.seq, ack) or any(
            (s.seq - ack) & MASK >= offset and (s.seq - ack) & MASK < offset + count
            for offset, count in runs)]
        for segment in gone:
            del out.kept[segment.seq]
            demand(segment.state != "queued", "dropped_ack: not sent")
            if echo is None or segment.copies == 1 or not before(echo, self.at(segment.sent)):
                self.arrived = max(self.arrived, segment.sent)
            self.window += 1 / max(1.0, self.window)
        if gone:
            self.probes, self.asked = 0, now
            for segment in self.pending():
                if segment.state == "deferred":
                    segment.state = "lost"
        for segment in gone:
            if segment.done:
                segment.done()

    def at(self, time):
        return (time + self.clock) & MASK

    def lose(self, now):
        """Finds what later segments overtook (11.3)."""
        late = self.arrived - max(self.srtt // 4, 1000)
        for segment in self.pending():
            if segment.state == "flight" and segment.sent < late:
                segment.state = "lost"
                if now - self.cut > max(self.srtt, 1000):
                    self.cut, self.window = now, max(4.0, self.window / 2)

    def take_limit(self, number, limit):
        out = self.out[number]
        demand(not before((out.next + out.queue.num) & MASK, limit), "dropped_credit")
        if before(out.limit, limit):
            out.limit = limit

    def read_ack(self, body, size, now, echo):
        demand(size <= self.ours.queues[0].size, "an ACK longer than the first queue's buffers")
        at, last, seen = 0, -1, []
        while at < len(body):
            demand(len(body) - at >= BLOCK.size, "dropped_ack: cut")
            channel, ranges, duplicates, ack, limit = BLOCK.unpack_from(body, at)
            at += BLOCK.size
            demand(channel > last, "dropped_ack: blocks do not ascend")
            # protocol: R17
            demand(channel != 0x40, "dropped_channel: an ECN block, though ecn was not published")
            last, number, rnr, runs = channel, channel & 0x7f, channel & 0x80, []
            demand(number < len(self.out), "dropped_channel: acknowledged")
            for _ in range(ranges):
                demand(len(body) - at >= RANGE.size, "dropped_ack: cut")
                runs.append(RANGE.unpack_from(body, at))
                at += RANGE.size
            end = -1 if rnr else 0
            for offset, count in runs:
                demand(count and offset > end, "dropped_ack: ranges")
                end = offset + count
            demand(end <= WINDOW, "dropped_ack: too far above")
            demand(not rnr or (runs and duplicates < 2 and limit == 0), "dropped_ack: RNR block")
            seen.append((number, rnr, runs, ack, limit))
        for number, rnr, runs, ack, limit in seen:
            if rnr:
                self.defer(number, runs, ack, echo)
                continue
            self.acknowledge(number, ack, runs, now, echo)
            if self.out[number].queue.kind == b"P":
                self.take_limit(number, limit)

    def defer(self, number, runs, ack, echo):
        for offset, count in runs:
            for seq in range(ack + offset, ack + offset + count):
                segment = self.out[number].kept.get(seq & MASK)
                if segment is None or segment.deferred_copy == segment.copies:
                    continue
                if echo is not None and not before(echo, self.at(segment.sent)):
                    segment.state, segment.deferred_copy = "deferred", segment.copies

    # ---- receiving (6)

    def drop(self, why):
        self.drops[why] += 1
        self.log("drop", why)

    def receive(self, data, now, away):
        """Uses or drops one datagram."""
        if self.trailer:
            demand(len(data) >= 4 and crc32c(data[:-4]) == struct.unpack("<I", data[-4:])[0],
                   "dropped_checksum")
            data = data[:-4]
        demand(len(data) >= HEADER.size, "dropped_short")
        header = HEADER.unpack_from(data)
        kind, flags, body = header[0] & 15, header[1], data[HEADER.size:]
        (channels, tag, to, token, seq, ack, credits, length, stamp, echo, hold,
         was_away) = header[2:]
        demand(header[0] >> 4 == 1, "dropped_version")
        demand(not flags & F_PATH, "a challenge, though the source is the published one")
        demand(length == len(body), "dropped_length")
        # protocol: R9
        demand(flags & F_ECHO or not (echo or hold or was_away), "echo, hold, away must be 0")
        demand(flags & F_ACK or not (ack or credits or channels >> 4), "ack, credits must be 0")
        demand(kind in SEQUENCED or flags & F_READY or not seq, "seq must be 0")
        demand(tag == 0 or kind in (T["DATA"], T["CHUNK"], T["ACK"]), "tag must be 0")
        demand(kind == T["ACK"] or not flags & F_READY, "dropped_type: READY")
        demand(kind != T["ACK"] or not flags & F_ACK, "flag ACK in an ACK")
        connect = None
        if flags & F_CONNECT:
            demand(len(body) >= CONNECT.size, "dropped_short")
            connect, body = CONNECT.unpack_from(body), body[CONNECT.size:]
            demand(connect[5] == 0 and connect[1], "dropped_type: CONNECT")
        if kind == T["PATH_RESPONSE"]:
            demand(not body and not flags, "dropped_type: PATH_RESPONSE")
            self.probes = 0
            return
        if not self.is_for_us(kind, to, token, connect, seq):
            return
        if to == self.id:
            self.peer_knows = True
            if kind in SEQUENCED or kind == T["REJECTED"]:
                # protocol: R41
                demand(flags & F_ACK, "a segment to a bound peer without flag ACK")
        elif kind == T["ACK"]:
            self.answer_now = self.answer_now or bool(flags & F_ACK_NOW)
            return self.drop("stale")
        else:
            flags &= ~(F_ACK | F_ECHO)
        # protocol: R11
        demand(connect or self.its_id_told, "no CONNECT before it can know that we have its id")
        self.take_header(kind, flags, channels, seq, ack, credits, stamp, echo, hold, now, away)
        echoed = echo if flags & F_ECHO else None
        if kind == T["CLOSE"]:
            demand(connect and not to and not body, "CLOSE")
            self.closed += 1
            self.reset()
        elif kind == T["ACK"]:
            self.read_ack(body, len(data) + self.trailer, now, echoed)
            if flags & F_READY:
                self.take_ready(channels & 15, seq, echoed, now)
            if flags & F_ACK_NOW:
                self.answer_now = True
                for space in self.spaces:
                    space.due = True
        elif kind == T["REJECTED"]:
            self.take_rejected(struct.unpack("<I", body)[0])
        else:
            demand(kind in SEQUENCED, f"dropped_type: {kind}")
            self.take_segment(kind, flags, channels & 15, tag, seq, connect, body)
        self.lose(now)

    def is_for_us(self, kind, to, token, connect, seq):
        """Answers chapter 5.2: whose datagram is it?"""
        if self.bound and to == self.id and token == self.rx_token:
            return True
        if connect is None:
            self.drop("token" if to == self.id else "unknown")
            return False
        name, their_id, epoch, from_rail, to_rail, _, floor = connect
        demand(name == self.their_name and from_rail == to_rail == 0, "CONNECT: name or rails")
        demand(token == self.token(self.ours.secret, name, self.theirs.secret, epoch),
               "CONNECT: token")
        if self.bound and epoch == self.peer_epoch:
            demand(their_id == self.peer_id, "another id in the same epoch")
            return True
        if floor and before((self.epoch + 1) & MASK, floor):
            self.drop("stale floor")
            return False
        if before(epoch, self.peer_epoch if self.bound else self.floor):
            self.drop("stale epoch")
            self.answer_now = self.answer_now or kind != T["CLOSE"]
            return False
        if self.bound:
            if self.peer_knows:
                self.reset()
            else:
                self.lose_peer()
        if floor and before(self.epoch, floor):
            self.reset()
        self.bound, self.peer_id, self.peer_epoch, self.rx_token = True, their_id, epoch, token
        self.probes = 0
        return True

    def take_header(self, kind, flags, channels, seq, ack, credits, stamp, echo, hold, now, away):
        if self.stamp is None or before(self.stamp, stamp):
            self.stamp, self.stamp_came, self.poll_gap = stamp, now, min(65535, away)
        if flags & F_ECHO and hold < 65535 and (self.last_echo is None
                                                or before(self.last_echo, echo)):
            self.last_echo = echo
            sample = (self.at(now) - echo - hold) & MASK
            demand(not before(self.at(now), echo), "an echo of a stamp that was not sent yet")
            if sample >= 1 << 31:
                sample = 0  # it counts `hold` from before it read
            if self.srtt:
                self.rttvar += (abs(self.srtt - sample) - self.rttvar) // 4
                self.srtt += (sample - self.srtt) // 8
            else:
                self.srtt, self.rttvar = sample, sample // 2
        if flags & F_ACK:
            number = channels >> 4
            demand(number < len(self.out), "dropped_channel: acknowledged")
            self.acknowledge(number, ack, [], now, echo if flags & F_ECHO else None)
            if self.out[number].queue.kind == b"P":
                self.take_limit(number, (ack + credits) & MASK)
            else:
                demand(credits == 0, "credits of a shared queue")

    def take_ready(self, number, seq, echo, now):
        demand(number < len(self.out), "dropped_channel: READY")
        demand(before(seq, self.out[number].next), "dropped_ack: READY of what was not sent")
        segment = self.out[number].kept.get(seq)
        if segment and echo is not None and not before(echo, self.at(segment.sent)):
            self.send_segment(segment, now, ack_now=True)

    def take_rejected(self, name):
        if name in self.operations:
            self.operations[name].append("rejected")
            for segment in self.pending():
                if segment.kind == T["PUT"] and TARGET.unpack_from(segment.body)[4] == name:
                    segment.kind, segment.body, segment.state = T["VOID"], b"", "lost"

    def check_channel(self, kind, number, size, connect):
        """A channel may have been chosen when a CONNECT block counted (10.1)."""
        most = size if connect else size + CONNECT.size
        # protocol: R55
        smaller = [q for q in self.ours.queues[:number] if q.size >= most]
        demand(kind != T["DATA"] or not smaller, "DATA on another channel than the first that fits")

    def take_segment(self, kind, flags, number, tag, seq, connect, body):
        demand(number < len(self.spaces), "dropped_channel: not ours")
        space = self.spaces[number]
        size = HEADER.size + self.trailer + len(body) + (CONNECT.size if connect else 0)
        demand(size <= space.queue.size, "dropped_channel: longer than its queue's buffers")
        self.check_channel(kind, number, size, connect)
        demand(tag < 255, "dropped_type: tag")
        # protocol: R37
        demand(not space.credited or before(seq, space.told), "dropped_sequence: no credit")
        place = space.place(seq)
        demand(place != "outside", "dropped_sequence: outside the window")
        if kind not in (T["VOID"], T["PART"]):
            # protocol: R8
            same = space.seen.setdefault(seq, (kind, tag, body, connect))
            demand(same == (kind, tag, body, connect), "copies of a segment differ")
        if flags & F_ACK_NOW:
            space.due = self.answer_now = True
        for cause in [c for c, entry in self.ready.items() if entry[:2] == [number, seq]]:
            del self.ready[cause]
        if place == "duplicate":
            if flags & F_RETRANSMISSION or seq in space.retransmitted:
                space.duplicates += 1
            space.due = self.answer_now = True
            return self.drop("duplicate")
        if kind == T["PART"]:
            kind, tag, body = self.join_parts(space, seq, body)
            if kind is None:
                return None
            same = space.seen.setdefault(seq, (kind, tag, body, connect))
            demand(same[:3] == (kind, tag, body), "parts are not those of the segment")
        if kind == T["SKIP"]:
            return self.take_skip(space, seq, struct.unpack("<I", body)[0])
        cause = getattr(self, "take_" + TYPES[kind])(body, tag)
        if cause == "rejected":
            return self.drop(cause)
        if cause:
            return self.not_ready(space, number, seq, cause)
        space.rnr.pop(seq, None)
        if flags & F_RETRANSMISSION:
            space.retransmitted.append(seq)
        space.note(seq)
        if space.credited:
            space.reposted(not before(space.next, seq))
        space.due = True
        return None

    def join_parts(self, space, seq, body):
        """Keeps a part, and returns the segment once it is whole (3.10, 10.3)."""
        offset, total, kind, tag, zero = PART.unpack_from(body)
        data, end = body[PART.size:], offset + len(body) - PART.size
        demand(kind in PARTED and not zero and tag < 255, "dropped_type: PART")
        demand(data and offset % 8 == 0 and end <= total and (end == total or end % 8 == 0),
               "dropped_length: PART")
        kept = space.parts.setdefault(seq, (total, kind, tag, bytearray(total), set()))
        demand(kept[:3] == (total, kind, tag), "a part contradicts an earlier one")
        kept[3][offset:end] = data
        kept[4].update(range(offset, end, 8))
        if len(kept[4]) < -(-total // 8):
            return None, 0, b""
        del space.parts[seq]
        return kind, tag, bytes(kept[3])

    def not_ready(self, space, number, seq, cause):
        """Notes RNR: an ACK names the segment, and READY follows when the cause is gone (8)."""
        self.drop(cause)
        space.rnr[seq], space.rnr_last, space.due = cause, seq, True
        entry = self.ready.get(cause)
        if entry is None or (entry[0] == number and before(seq, entry[1])):
            self.ready[cause] = [number, seq, False]

    def cause_gone(self, cause):
        for space in self.spaces:
            space.rnr = {seq: why for seq, why in space.rnr.items() if why != cause}
        if cause in self.ready and not self.ready[cause][2]:
            self.ready[cause][2] = self.answer_now = True

    def take_skip(self, space, seq, count):
        first = (seq - count + 1) & MASK
        demand(space.credited and first == space.next and not space.ahead & set(
            range(first, first + count)), "dropped_sequence: SKIP")
        demand(count <= space.grant - space.used and count < space.grant, "SKIP of too many")
        for one in range(first, first + count):
            space.note(one & MASK)
        space.grant -= count
        space.due = self.answer_now = True

    def take_DATA(self, body, tag):
        if not self.listens(tag):
            return "rnr_tag"
        return self.deliver(tag, body)

    def take_BUNDLE(self, body, _):
        messages, at = [], 0
        while at < len(body):
            size, tag, zero = ENTRY.unpack_from(body, at)
            at += ENTRY.size
            demand(not zero and tag < 255 and at + size <= len(body), "BUNDLE: entry")
            messages.append((tag, body[at:at + size]))
            padding = body[at + size:at + size + -size % 4]
            demand(padding == bytes(-size % 4), "BUNDLE: padding")
            at += size + len(padding)
        demand(messages, "BUNDLE: empty")
        if not all(self.listens(tag) for tag, _ in messages):
            return "rnr_tag"
        for tag, data in messages:
            self.deliver(tag, data)
        return None

    def take_CHUNK(self, body, tag):
        number, total, index, unit = CHUNK.unpack_from(body)
        at, payload = index * unit, body[CHUNK.size:]
        demand(unit >= 4 and at < total <= self.ours.message_max, "dropped_chunk: sizes")
        want = min(unit, total - at)
        pad = payload[want:]
        demand(len(payload) >= want and not any(pad) and len(pad) <= min(PAD_MAX, unit - want),
               "dropped_chunk: payload")
        demand(not before(number, self.fragment_next), "dropped_chunk: of a finished fragment")
        if not self.listens(tag):
            return "rnr_tag"
        if number not in self.fragments:
            unfinished = sum(1 for f in self.fragments.values() if f[3])
            if number != self.fragment_next and unfinished >= self.buffers:
                return "rnr_reassembly"
            self.fragments[number] = [tag, bytearray(total), unit, set(range(-(-total // unit)))]
        fragment = self.fragments[number]
        demand(fragment[0] == tag and len(fragment[1]) == total and fragment[2] == unit
               and index in fragment[3], "dropped_chunk: contradicts an earlier one")
        fragment[3].remove(index)
        fragment[1][at:at + want] = payload[:want]
        self.finish_fragments()
        return None

    def finish_fragments(self):
        """Delivers complete fragments in the order of their numbers (10.2)."""
        while self.fragment_next in self.fragments and not self.fragments[self.fragment_next][3]:
            tag, data, _, _ = self.fragments.pop(self.fragment_next)
            self.fragment_next += 1
            self.deliver(tag, bytes(data))
            self.cause_gone("rnr_reassembly")

    def take_PUT(self, body, _):
        region, secret, offset, end, operation, reserved = TARGET.unpack_from(body)
        data = body[TARGET.size:]
        demand(not reserved and operation and offset + len(data) <= end, "PUT: target")
        demand(data or offset == end, "PUT: without bytes")
        known, memory = self.regions.get(region, (None, b""))
        if known != secret or not 0 <= offset <= end <= len(memory):
            if operation not in self.rejected:
                self.rejected.append(operation)
            return "rejected"
        memory[offset:offset + len(data)] = data
        return None

    def take_VOID(self, body, _):
        demand(not any(body), "VOID: not zeros")

    def take_GOT(self, body, _):
        offset, name = GOT.unpack_from(body)
        operation, data = self.operations.get(name), body[GOT.size:]
        demand(data and operation and operation[0] == "get", "GOT: operation")
        demand(offset + len(data) <= len(operation[1]), "GOT: bounds")
        operation[1][offset:offset + len(data)] = data
        operation[2] -= len(data)
        if operation[2] == 0:
            self.operations.pop(name)[3](bytes(operation[1]))

    def take_REPLY(self, body, _):
        demand(body and len(body) % REPLY.size == 0, "REPLY: length")
        for result, name, status in REPLY.iter_unpack(body):
            operation = self.operations.pop(name, None)
            demand(operation, "REPLY: operation")
            operation[-1]("rejected" if status else result)
