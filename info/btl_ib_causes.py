# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Is it a host or the network that holds a job up: what ib_stats and ib_top conclude from counters."""

AWAY = 0.05  # of a rank's time
LOST = 0.001  # of segments
LEAST = 20  # fewer of anything tell nothing


def percent(value):
    return f"{100 * value:.2g} %"


def away(counters, seconds):
    """The part of the time in which datagrams came while the rank made no call."""
    return counters.get("paused_us", 0) / 1e6 / max(seconds, 0.001)


def of_host(counters, seconds):
    """How the host of a rank held up those that send to it: texts, by the rank's own counters."""
    rnr = sum(value for name, value in counters.items() if name.startswith("rnr_"))
    overflows = counters.get("overflows", 0)
    if (part := away(counters, seconds)) >= AWAY:
        yield f"no call for {percent(part)} of the time while datagrams came"
    if overflows >= LEAST:
        yield f"{overflows} datagrams without room in its buffers"
    if rnr >= LEAST:
        yield f"not ready for {rnr} segments (RNR)"


def of_slow_receiver(pair):
    """The same, by what a sender to that rank counted."""
    rounds = pair.get("host_rounds", 0)
    if rounds >= LEAST and rounds > pair.get("queued_rounds", 0):
        yield f"slower than its network in {rounds} round trips"


def of_network(pair, overflows):
    """What the network did to what one rank sent to another, by the counters of that pair; the other one's host counted
    so many overflows, each of which may be many datagrams that it joined."""
    needed = pair.get("retransmits", 0) - pair.get("retransmits_spurious", 0)
    sent = pair.get("sent_segments", 0)
    rounds = pair.get("queued_rounds", 0)
    if needed >= LEAST and needed >= LOST * sent and overflows < LEAST:
        yield f"{percent(needed / max(sent, 1))} lost"
    if rounds >= LEAST and rounds >= pair.get("host_rounds", 0):
        yield f"{rounds} round trips longer by a queue"
