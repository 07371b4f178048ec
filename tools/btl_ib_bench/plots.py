# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Plots of the medians over the size of messages: logarithmic axes, a curve a candidate."""

from pathlib import Path

import btl_ib_plotting as plotting

from .networks import FLOOR
from .plan import size_text

COLUMNS = 2
PANEL = (6.2, 4)  # inches
# Okabe and Ito's, told apart also by the colour-blind; and a mark each, for print without colours.
COLOURS = {"ib": "#0072b2", "tcp": "#d55e00", "rxm": "#009e73", "rxd": "#cc79a7", "ucx": "#e69f00",
           FLOOR: "#555555"}
MORE_COLOURS = ("#56b4e9", "#8c6d00", "#7b3294", "#008080", "#a50026")
MARKS = "os^DX+"


def value_text(value, _=None):
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    return f"{value / 1e3:g} k" if value >= 1e4 else f"{value:g}"


class Plots:
    def __init__(self, results, turns, candidates):
        self.results = results
        self.candidates = [c for c in candidates if not c.missing]
        others = iter(MORE_COLOURS * (len(candidates) + 1))
        self.colour = {c.name: COLOURS.get(c.name) or next(others) for c in self.candidates}
        self.mark = {c.name: MARKS[i % len(MARKS)] for i, c in enumerate(self.candidates)}
        self.panels = []
        for turn in turns:
            tail = ("p99.9",) if turn.what.name == "latency" else ()
            mean = ("mean",) if tail and turn.condition.loss else ()
            for figure in (turn.what.figures[0], *mean, *tail):
                curves = self.curves(turn, figure)
                if any(curves.values()):
                    self.panels.append((turn, figure, curves))

    def curves(self, turn, figure):
        """Candidate -> [(size, median)]."""
        result = {}
        for candidate in self.candidates:
            points = [(size, self.results.median(turn, candidate.name, size, figure)) for size in turn.sizes]
            result[candidate.name] = [(size, value) for size, value in points if value]
        return result

    def panel(self, axis, turn, figure, curves):
        for place, (name, points) in enumerate(curves.items()):
            if points:  # the first one, ib, on top of the others
                axis.loglog(*zip(*points), label=name, color=self.colour[name], marker=self.mark[name], markersize=5,
                            linestyle="--" if name == FLOOR else "-", zorder=len(curves) - place + 2)
        sizes = sorted({size for points in curves.values() for size, _ in points})
        shown = sizes[::-(-len(sizes) // 8)]
        axis.set_xticks(shown, [size_text(size) for size in shown])
        axis.set_xticks([], minor=True)
        for ticks in (axis.yaxis.set_major_formatter, axis.yaxis.set_minor_formatter):
            ticks(value_text)
        values = [value for points in curves.values() for _, value in points]
        if max(values) > 20 * min(values):  # else there may be no power of ten among them
            axis.yaxis.set_minor_formatter("")
        unit = turn.what.unit if figure in turn.what.unit else f"{figure}, {turn.what.unit}"
        axis.set_title(f"{turn.what.name}, {turn.condition}", loc="left")
        axis.set_ylabel(f"{unit} ({'more' if turn.what.more_is_better else 'less'} is better)")
        axis.set_xlabel("size of a message")
        axis.legend()

    def picture(self, panels, path):
        columns = min(COLUMNS, len(panels))
        rows = -(-len(panels) // columns)
        plots = plotting.pyplot("--svg")
        figure, axes = plots.subplots(rows, columns, squeeze=False, figsize=(columns * PANEL[0], rows * PANEL[1]))
        for axis in axes.flat[len(panels):]:
            axis.remove()
        for axis, panel in zip(axes.flat, panels):
            self.panel(axis, *panel)
        plotting.save(figure, path)
        plots.close(figure)

    def write(self, path):
        """All in one file, if that is one; else a file each into the directory. Returns the files."""
        if not self.panels:
            return []
        if path.suffix == ".svg":
            self.picture(self.panels, path)
            return [path]
        path.mkdir(parents=True, exist_ok=True)
        files = []
        for turn, figure, curves in self.panels:
            words = f"{turn.what.name} {turn.condition} {figure}"
            words = words.replace("%", "percent").replace(",", "").replace("/", "-").replace(" ", "-")
            files.append(Path(path, f"{words}.svg"))
            self.picture([(turn, figure, curves)], files[-1])
        return files
