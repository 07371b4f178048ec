# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""What is measured: programs, sizes, figures, and how long a job of it takes."""

import re
from dataclasses import dataclass

KIB, MIB = 1 << 10, 1 << 20
START_SECONDS = 1.0  # of a job, until it measures
SLOT_PROGRAMS = ("pingpong", "stream", "collectives")  # they take slots=, see tests/mpi/slots.h


@dataclass(frozen=True)
class What:
    name: str
    program: str
    arguments: tuple
    figures: tuple  # the first is the one that is compared and plotted
    unit: str
    more_is_better: bool
    sizes: tuple
    ranks: int = 2
    floor: bool = True  # can bare sockets do that?
    cores: int = 0  # in namespaces: so many for all ranks; 0: one for each rank, if there are as many
    lossy_sizes: tuple = ()  # under loss, if nobody asked for others; none: not measured then

    def has_slots(self):
        return self.program in SLOT_PROGRAMS


LATENCY_FIGURES = ("p50", "mean", "p99", "p99.9", "max")
COLLECTIVE_FIGURES = ("mean", "p50", "p99")
SHARED_CORES = "us, 4 ranks on 2 cores"
BESIDE_FIGURES = ("p50", "p99", "max")
LONG = (64 * KIB, 256 * KIB, MIB, 4 * MIB)
STREAMING = (4 * KIB, 16 * KIB, *LONG)

WHATS = {
    what.name: what
    for what in (
        What("latency", "pingpong", ("iterations=200000",), LATENCY_FIGURES, "us one way", False,
             (8, 512, 4 * KIB, 64 * KIB, MIB), lossy_sizes=(8, 64 * KIB)),
        What("rate", "stream", ("window=64",), ("messages/s",), "messages/s, window 64", True,
             (8, 64, 512)),
        What("streaming", "stream", (), ("GB/s",), "GB/s", True, STREAMING,
             lossy_sizes=(64 * KIB, MIB)),
        What("both-ways", "stream", ("both=1",), ("GB/s",), "GB/s, sum of both directions", True,
             LONG),
        What("streaming-hot", "stream", ("window=4",), ("GB/s",), "GB/s, four buffers in turn", True, LONG,
             floor=False),
        What("both-ways-hot", "stream", ("window=4", "both=1"), ("GB/s",),
             "GB/s, sum of both directions, four buffers in turn", True, LONG, floor=False),
        What("allreduce", "collectives", ("what=allreduce",), COLLECTIVE_FIGURES, "us, 4 ranks on 4 hosts", False,
             (8, 4 * KIB, 256 * KIB), ranks=4, floor=False),
        What("alltoall", "collectives", ("what=alltoall",), COLLECTIVE_FIGURES, "us, 4 ranks on 4 hosts", False,
             (8, 4 * KIB, 256 * KIB), ranks=4, floor=False),
        What("allreduce-2-cores", "collectives", ("what=allreduce",), COLLECTIVE_FIGURES, SHARED_CORES,
             False, (8, 4 * KIB, 256 * KIB), ranks=4, floor=False, cores=2),
        What("alltoall-2-cores", "collectives", ("what=alltoall",), COLLECTIVE_FIGURES, SHARED_CORES,
             False, (8, 4 * KIB, 256 * KIB), ranks=4, floor=False, cores=2),
        What("beside-bulk", "mixed", ("bulk=1048576",), BESIDE_FIGURES,
             "us one way, while 1 MiB messages go to the same rank", False, (8,), floor=False),
        What("beside-other-bulk", "mixed", ("bulk=1048576", "to=2"), BESIDE_FIGURES,
             "us one way, while 1 MiB messages go to a third rank", False, (8,), ranks=3, floor=False),
        What("bulk-beside", "mixed", ("bulk=1048576", "to=2"), ("GB/s",),
             "GB/s of 1 MiB messages, beside a ping-pong of this size with a third rank", True, (8,),
             ranks=3, floor=False),
        What("incast", "incast", ("warmup=0.1",), ("MB/s", "least"),
             "MB/s of 3 senders to one, and the least share (1 is fair)", True, (4 * KIB, 64 * KIB),
             ranks=4, floor=False),
        What("peers", "peers", ("what=turns",), LATENCY_FIGURES, "us one way, one rank with 8 in turn",
             False, (8,), ranks=9, floor=False),
        What("peers-rate", "peers", ("what=rate",), ("messages/s",),
             "messages/s, one rank to 8, window 64 each", True, (8,), ranks=9, floor=False),
    )
}
DEFAULT_WHATS = ("latency", "rate", "streaming", "both-ways")


def parse_sizes(text):
    """8,64K,1M -> numbers; `sweep` is 1 byte to 4 MiB by fours."""
    if text == "sweep":
        return tuple(4**i for i in range(12))
    sizes = []
    for word in text.split(","):
        match = re.fullmatch(r"(\d+)([kKmM]?)(i?B)?", word)
        if not match:
            raise ValueError(f"--sizes {text}: numbers with K or M, with commas, or sweep")
        size = int(match[1]) << {"": 0, "k": 10, "m": 20}[match[2].lower()]
        if not 1 <= size <= 1 << 30:
            raise ValueError(f"--sizes {text}: {word} is not 1 to 1024M")
        sizes.append(size)
    return tuple(sorted(set(sizes)))


def size_text(size):
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


@dataclass(frozen=True)
class Condition:
    """Of the links: percent of the packets lost, and which offloads they have."""

    loss: float = 0.0
    offloads: str = "on"

    def __str__(self):
        loss = f"{self.loss:g} % loss" if self.loss else "clean"
        return loss if self.offloads == "on" else f"{loss}, offloads {self.offloads}"


@dataclass(frozen=True)
class Turn:
    """One what under one condition: the floor and all candidates measure it once a round."""

    condition: Condition
    what: What
    sizes: tuple
    seconds: float  # for each size

    def planned(self):
        """Seconds that a job of it takes, about."""
        return START_SECONDS + len(self.sizes) * (1.4 * self.seconds + 0.1)


def turns(conditions, whats, sizes, seconds, asked_whats):
    """All of a round. Under loss figures need longer, and by default there are fewer of them."""
    result = []
    for condition in conditions:
        for name in whats:
            what = WHATS[name]
            if condition.loss and not asked_whats and not what.lossy_sizes:
                continue
            own = what.lossy_sizes if condition.loss and what.lossy_sizes else what.sizes
            result.append(Turn(condition, what, sizes or own, seconds * (5 if condition.loss else 1)))
    return result
