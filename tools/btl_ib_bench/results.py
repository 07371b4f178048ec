# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Samples, which of them count, and their medians."""

from dataclasses import dataclass
from statistics import median

from .networks import FLOOR

FAR = 0.5  # of what cores usually hand over to one another: less, and they share no cache now


def usual_handover(found):
    """Of those that were measured, their upper quartile: now and then more is seen for a moment."""
    found = sorted(value for value in found if value is not None)
    return found[len(found) * 3 // 4] if found else 0


def is_far(handover, usual):
    return handover is not None and handover < FAR * usual


@dataclass
class Sample:
    turn: object
    round: int
    candidate: str
    size: int
    figures: dict
    kept: bool = True
    handover: float | None = None  # GB/s, see tests/mpi/handover.c: the less of before and after


class Results:
    def __init__(self, allowed):
        self.allowed = allowed  # how much worse than its best the floor may be: 0.15
        self.samples = []
        self.failures = {}  # (turn, candidate) -> its Outcome
        self.checks = {}  # (turn, round) -> the floor's figures {size: value}
        self.discarded = []  # (turn, round, how much worse)
        self.far = 0  # samples that do not count since the cores were far from one another

    def add(self, turn, number, candidate, figures, handover=None):
        for size, values in figures.items():
            self.samples.append(Sample(turn, number, candidate, size, values, handover=handover))

    def drop(self, turn, number):
        self.samples = [s for s in self.samples if (s.turn, s.round) != (turn, number)]

    def check(self, turn, number, figures, more_is_better):
        """Notes how the floor did at the beginning; as costs, so that less is better."""
        self.checks[turn, number] = {
            size: 1 / value if more_is_better else value for size, value in figures.items() if value > 0
        }

    def worse(self, turn, number):
        """How much worse the floor was than the best seen in this run, the median of all sizes: 0.2."""
        mine = self.checks.get((turn, number), {})
        ratios = []
        for size, cost in mine.items():
            best = min(check[size] for (of, _), check in self.checks.items() if of == turn and size in check)
            ratios.append(cost / best - 1)
        return median(ratios) if ratios else 0.0

    def judge(self):
        """Marks what does not count. Where nothing would be left all of it does, and is said to."""
        self.discarded, unquiet = [], []
        for turn in {s.turn for s in self.samples}:
            rounds = {s.round for s in self.samples if s.turn == turn}
            bad = {n: self.worse(turn, n) for n in rounds if self.worse(turn, n) > self.allowed}
            if len(bad) == len(rounds):
                unquiet.append(turn)
                bad = {}
            for s in self.samples:
                if s.turn == turn:
                    s.kept = s.round not in bad
            self.discarded += [(turn, n, much) for n, much in sorted(bad.items())]
        self.far = self.mark_far()
        return unquiet

    def mark_far(self):
        """Samples taken while the cores shared no cache do not count where there are others, if at most times they
        shared one. Returns how many."""
        usual = usual_handover(s.handover for s in self.samples)
        groups = {}
        for s in self.samples:
            if s.kept:
                groups.setdefault((s.turn, s.candidate, s.size), []).append(s)
        marked = 0
        for group in groups.values():
            far = [s for s in group if is_far(s.handover, usual)]
            if len(far) < len(group):
                marked += len(far)
                for s in far:
                    s.kept = False
        return marked

    def median(self, turn, candidate, size, figure):
        values = [s.figures[figure] for s in self.samples
                  if s.kept and (s.turn, s.candidate, s.size) == (turn, candidate, size)
                  and figure in s.figures]
        return median(values) if values else None

    def best_peer(self, turn, size, figure, candidates):
        """(name, median) of the best that is neither ours nor the floor, or (None, None)."""
        found = [(value, c.name) for c in candidates if not c.is_ours() and c.name != FLOOR
                 if (value := self.median(turn, c.name, size, figure)) is not None]
        if not found:
            return None, None
        value, name = (max if turn.what.more_is_better else min)(found)
        return name, value
