# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""The table, and the same with all samples as JSON."""

import json

from .networks import FLOOR
from .plan import size_text

OUTPUT_MAX = 4000  # characters of what a failed job said, its end


def number(value):
    """About three significant digits, thousands with a comma."""
    if value is None:
        return "-"
    for least, digits in ((100, 0), (1, 2), (0.1, 3), (0.01, 4)):
        if value >= least:
            return f"{value:,.{digits}f}"
    return f"{value:.6f}"


def ratio(value, of):
    return f"{value / of:.2f}" if value is not None and of else "-"


class Report:
    def __init__(self, results, turns, candidates):
        self.results = results
        self.turns = turns
        self.candidates = [c for c in candidates if not c.missing]
        self.ours = next((c for c in self.candidates if c.is_ours()), None)

    def figures(self, turn, size):
        """Which figures get a row: of latencies the tail where it matters."""
        what = turn.what
        if turn.condition.loss or size == turn.sizes[0]:
            return what.figures
        return what.figures[:1]

    def cell(self, turn, candidate, size, figure):
        value = self.results.median(turn, candidate.name, size, figure)
        if value is None and (turn, candidate.name) in self.results.failures:
            return "failed"
        return number(value)

    def row(self, turn, size, figure):
        cells = [size_text(size), figure]
        cells += [self.cell(turn, c, size, figure) for c in self.candidates]
        if self.ours:
            own = self.results.median(turn, self.ours.name, size, figure)
            peer, best = self.results.best_peer(turn, size, figure, self.candidates)
            cells.append(f"{ratio(own, best)} {peer}" if peer and own is not None else "-")
            cells.append(ratio(own, self.results.median(turn, FLOOR, size, figure)))
        return cells

    def table(self, turn):
        """Heading, column names, rows."""
        better = "more is better" if turn.what.more_is_better else "less is better"
        heading = f"{turn.what.name}, {turn.condition}: {turn.what.unit}, {better}"
        if turn.condition.loss and any(c.name == FLOOR for c in self.candidates):
            heading += "; floor without loss"
        columns = ["size", "figure", *(c.name for c in self.candidates)]
        if self.ours:
            columns += [f"{self.ours.name} : best peer", f"{self.ours.name} : floor"]
        rows = [self.row(turn, size, figure) for size in turn.sizes for figure in self.figures(turn, size)]
        return heading, columns, rows

    def text(self, markdown):
        blocks = []
        for turn in self.turns:
            heading, columns, rows = self.table(turn)
            blocks.append(as_markdown(heading, columns, rows) if markdown else as_text(heading, columns, rows))
        return "\n\n".join(blocks)

    def json(self, facts, parameters, all_candidates):
        """Everything, for other programs."""
        results = self.results
        return json.dumps({
            "tool": "btl_ib bench",
            **facts,
            "parameters": parameters,
            "plan": [{**about(turn), "sizes": turn.sizes, "seconds": turn.seconds, "unit": turn.what.unit}
                     for turn in self.turns],
            "candidates": [{"name": c.name, "options": c.options, "missing": c.missing or None}
                           for c in all_candidates],
            "failures": [{**about(turn), "candidate": name, "why": outcome.failure,
                          "output": outcome.output[-OUTPUT_MAX:]}
                         for (turn, name), outcome in results.failures.items()],
            "discarded": [{**about(turn), "round": number, "floor_worse_by": round(worse, 3)}
                          for turn, number, worse in results.discarded],
            "medians": [{**about(turn), "candidate": c.name, "size": size, "figures": found}
                        for turn in self.turns for c in self.candidates for size in turn.sizes
                        if (found := self.medians(turn, c, size))],
            "samples": [{**about(s.turn), "round": s.round, "kept": s.kept, "candidate": s.candidate,
                         "size": s.size, "figures": s.figures, "handover": s.handover} for s in results.samples],
        }, indent=1) + "\n"

    def medians(self, turn, candidate, size):
        found = {f: self.results.median(turn, candidate.name, size, f) for f in turn.what.figures}
        return {figure: value for figure, value in found.items() if value is not None}


def about(turn):
    return {"what": turn.what.name, "loss": turn.condition.loss, "offloads": turn.condition.offloads}


def as_text(heading, columns, rows):
    widths = [max(len(line[i]) for line in (columns, *rows)) for i in range(len(columns))]
    lines = [heading]
    for line in (columns, *rows):
        cells = [f"{cell:<{w}}" if i == 1 else f"{cell:>{w}}" for i, (cell, w) in enumerate(zip(line, widths))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def as_markdown(heading, columns, rows):
    lines = [f"**{heading}**", ""]
    for line in (columns, ["---"] * len(columns), *rows):
        lines.append(f"| {' | '.join(line)} |")
    return "\n".join(lines)
