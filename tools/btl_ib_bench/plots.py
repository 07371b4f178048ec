# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Plots of the medians over the size of messages: SVG by itself, logarithmic axes, a curve a candidate."""

import math
from dataclasses import dataclass
from html import escape
from pathlib import Path

from .networks import FLOOR
from .plan import size_text

WIDTH, HEIGHT = 620, 400
LEFT, RIGHT, TOP, BOTTOM = 76, 108, 48, 58
COLUMNS = 2
# Okabe and Ito's, told apart also by the colour-blind; and a mark each, for print without colours.
COLOURS = {"ib": "#0072b2", "tcp": "#d55e00", "rxm": "#009e73", "rxd": "#cc79a7", "ucx": "#e69f00",
           FLOOR: "#555555"}
MORE_COLOURS = ("#56b4e9", "#8c6d00", "#7b3294", "#008080", "#a50026")
MARKS = ("circle", "square", "triangle", "diamond", "cross", "plus")
# Opaque: the same on light and dark pages.
STYLE = """text { font-family: 'DejaVu Sans', Verdana, Arial, sans-serif; font-size: 12px; fill: #222 }
.title { font-size: 14px; font-weight: bold } .grid { stroke: #ddd }
.frame { fill: none; stroke: #888 } .curve { fill: none; stroke-width: 2 }"""


@dataclass
class Axis:
    """A logarithmic axis from low to high, drawn between two places."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value):
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)


def ticks(low, high):
    """1, 2 and 5 of each power of ten within; of more than two powers only the 1."""
    steps = (1, 2, 5) if high / low <= 200 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [s * 10.0**p for p in powers for s in steps if low * 0.999 <= s * 10.0**p <= high * 1.001]


def tick_text(value):
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    return f"{value / 1e3:g} k" if value >= 1e4 else f"{value:g}"


def mark(kind, x, y, colour):
    r = 4
    shapes = {
        "circle": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}"',
        "square": f'<rect x="{x - r:.1f}" y="{y - r:.1f}" width="{2 * r}" height="{2 * r}"',
        "triangle": f'<path d="M{x:.1f} {y - 5:.1f}l5 9h-10z"',
        "diamond": f'<path d="M{x:.1f} {y - 6:.1f}l5 6l-5 6l-5 -6z"',
        "cross": f'<path d="M{x - r:.1f} {y - r:.1f}l8 8m0 -8l-8 8" stroke="{colour}" stroke-width="2"',
        "plus": f'<path d="M{x:.1f} {y - 5:.1f}v10m-5 -5h10" stroke="{colour}" stroke-width="2"',
    }
    return f'{shapes[kind]} fill="{colour}"/>'


def spread(places, least, top, bottom):
    """Moves labels (sorted downwards) so that no two are nearer than `least`."""
    moved = list(places)
    for i in range(1, len(moved)):
        moved[i] = max(moved[i], moved[i - 1] + least)
    if moved and moved[-1] > bottom:
        moved[-1] = bottom
        for i in range(len(moved) - 2, -1, -1):
            moved[i] = min(moved[i], moved[i + 1] - least)
    return [max(place, top) for place in moved]


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

    def panel(self, turn, figure, curves):
        sizes = [size for points in curves.values() for size, _ in points]
        values = [value for points in curves.values() for _, value in points]
        wide = 1.3 if min(sizes) < max(sizes) else 2
        x = Axis(min(sizes) / wide, max(sizes) * wide, LEFT, WIDTH - RIGHT)
        y = Axis(min(values) / 1.4, max(values) * 1.4, HEIGHT - BOTTOM, TOP)
        parts = self.grid(x, y, sorted(set(sizes)))
        labels = []
        for name, points in reversed(curves.items()):  # the first one, ib, on top of the others
            if not points:
                continue
            places = [(x.at(size), y.at(value)) for size, value in points]
            dash = ' stroke-dasharray="6 4"' if name == FLOOR else ""
            line = " ".join(f"{px:.1f},{py:.1f}" for px, py in places)
            parts.append(f'<polyline class="curve" stroke="{self.colour[name]}"{dash} points="{line}"/>')
            parts += [mark(self.mark[name], px, py, self.colour[name]) for px, py in places]
            labels.append((places[-1][1], name))
        parts += self.labels(labels)
        unit = turn.what.unit if figure in turn.what.unit else f"{figure}, {turn.what.unit}"
        parts.append(f'<text class="title" x="{LEFT}" y="24">{escape(turn.what.name)}, '
                     f'{escape(str(turn.condition))}</text>')
        parts.append(f'<text x="{LEFT}" y="41">{escape(unit)} '
                     f'({"more" if turn.what.more_is_better else "less"} is better)</text>')
        return "\n".join(parts)

    def grid(self, x, y, sizes):
        parts = []
        for value in ticks(y.low, y.high):
            at = y.at(value)
            parts.append(f'<path class="grid" d="M{x.start} {at:.1f}H{x.end}"/>')
            parts.append(f'<text x="{x.start - 8}" y="{at + 4:.1f}" text-anchor="end">{tick_text(value)}</text>')
        last = -math.inf
        for size in sizes:
            at = x.at(size)
            parts.append(f'<path class="grid" d="M{at:.1f} {y.start}V{y.end}"/>')
            if at - last >= 48:
                last = at
                parts.append(f'<text x="{at:.1f}" y="{y.start + 18}" text-anchor="middle">{size_text(size)}</text>')
        parts.append(f'<rect class="frame" x="{x.start}" y="{y.end}" width="{x.end - x.start}"'
                     f' height="{y.start - y.end}"/>')
        parts.append(f'<text x="{(x.start + x.end) / 2}" y="{y.start + 40}" text-anchor="middle">'
                     'size of a message</text>')
        return parts

    def labels(self, labels):
        """Names at the ends of the curves, with their marks."""
        labels.sort()
        places = spread([at for at, _ in labels], 16, TOP + 8, HEIGHT - BOTTOM)
        parts = []
        for place, (_, name) in zip(places, labels):
            at = WIDTH - RIGHT + 16
            parts.append(mark(self.mark[name], at, place, self.colour[name]))
            parts.append(f'<text x="{at + 10}" y="{place + 4:.1f}">{escape(name)}</text>')
        return parts

    def picture(self, panels):
        columns = min(COLUMNS, len(panels))
        rows = -(-len(panels) // columns)
        width, height = columns * WIDTH, rows * HEIGHT
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
                 f' height="{height}">', f"<style>{STYLE}</style>",
                 f'<rect width="{width}" height="{height}" fill="#fff"/>']
        for i, panel in enumerate(panels):
            parts.append(f'<g transform="translate({i % columns * WIDTH} {i // columns * HEIGHT})">')
            parts.append(self.panel(*panel))
            parts.append("</g>")
        return "\n".join([*parts, "</svg>", ""])

    def write(self, path):
        """All in one file, if that is one; else a file each into the directory. Returns the files."""
        if not self.panels:
            return []
        if path.suffix == ".svg":
            path.write_text(self.picture(self.panels))
            return [path]
        path.mkdir(parents=True, exist_ok=True)
        files = []
        for turn, figure, curves in self.panels:
            words = f"{turn.what.name} {turn.condition} {figure}"
            words = words.replace("%", "percent").replace(",", "").replace("/", "-").replace(" ", "-")
            files.append(Path(path, f"{words}.svg"))
            files[-1].write_text(self.picture([(turn, figure, curves)]))
        return files
