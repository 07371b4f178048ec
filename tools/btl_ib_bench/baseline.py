# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""An earlier build of the component, measured beside this tree's: which one, how it is built, and the ratios."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from .plan import size_text

PLUGIN = "mca_btl_ib.so"
FALLEN = 0.97  # a row is worse if three quarters of its rounds are below


class Baseline:
    """What --against names: a commit, which is built once and kept in `kept`, or a folder with a component."""

    def __init__(self, root, text, kept):
        self.root = root
        folder = Path(text)
        if folder.is_dir():
            self.commit = None
            self.plugin = next((f.resolve() for f in (folder, folder / "plugin", folder / "build/plugin")
                                if (f / PLUGIN).exists()), None)
            if self.plugin is None:
                raise ValueError(f"--against {text}: no {PLUGIN} in this folder, its plugin/ or build/plugin/")
            self.name = "ib-" + folder.resolve().name
            return
        found = self.git("rev-parse", "--verify", "--quiet", f"{text}^{{commit}}")
        if found.returncode:
            raise ValueError(f"--against {text}: neither a commit of this clone nor a folder")
        self.commit = found.stdout.decode().strip()
        self.tree = kept / self.commit[:12]
        self.plugin = self.tree / "build/plugin"
        self.name = "ib-" + self.commit[:8]

    def git(self, *words):
        return subprocess.run(["git", "-c", "safe.directory=*", "-C", str(self.root), *words], capture_output=True,
                              check=False)

    def build(self, log):
        """Builds the commit as its own tools/quickstart does, with all optimizations; RuntimeError if it fails."""
        if self.commit is None or (self.plugin / PLUGIN).exists():
            return
        archive = self.git("archive", self.commit)
        if archive.returncode:
            raise RuntimeError(f"{self.commit}: {archive.stderr.decode().strip()}")
        self.tree.mkdir(parents=True, exist_ok=True)
        subprocess.run(["tar", "-x", "-C", str(self.tree)], input=archive.stdout, check=True)
        with open(log, "wb") as file:
            done = subprocess.run([str(self.tree / "tools/quickstart"), "--build-only"], stdout=file,
                                  stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False)
        if done.returncode or not (self.plugin / PLUGIN).exists():
            raise RuntimeError(f"{self.commit} was not built ({log})")

    def definition(self, variable):
        """The candidate, as --candidate wants it. `variable` is where Open MPI reads its folders of components."""
        key = variable.removeprefix("OMPI_MCA_")
        return f"{self.name}=ib --mca {key} {self.plugin}:SYS_DEFAULT:USER_DEFAULT"


@dataclass
class Ratio:
    """How many times as fast this tree is in a row: of each round, their median and the middle half."""

    of: list

    @property
    def middle(self):
        return median(self.of)

    @property
    def quartiles(self):
        if len(self.of) == 1:
            return self.of[0], self.of[0]
        low, _, high = quantiles(self.of, n=4, method="inclusive")
        return low, high

    @property
    def is_fallen(self):
        return self.quartiles[1] < FALLEN


def ratio_of(results, turn, size, ours, before):
    """The Ratio of candidates of the same rounds, by the first figure of the turn; None without a common round."""
    figure = turn.what.figures[0]
    of = {(s.candidate, s.round): s.figures[figure] for s in results.samples
          if s.turn == turn and s.size == size and s.kept and s.figures.get(figure)}
    pairs = [(of[ours, number], of[before, number]) for name, number in of
             if name == ours and (before, number) in of]
    if not pairs:
        return None
    return Ratio([new / old if turn.what.more_is_better else old / new for new, old in pairs])


def table(results, turns, ours, before):
    """Heading, column names, rows: speed of this tree by that of the earlier build."""
    rows = []
    for turn in turns:
        for size in turn.sizes:
            ratio = ratio_of(results, turn, size, ours, before)
            if ratio is None:
                rows.append([turn.what.name, str(turn.condition), size_text(size), "-", "-", "0", "not measured"])
                continue
            low, high = ratio.quartiles
            rows.append([turn.what.name, str(turn.condition), size_text(size), f"{ratio.middle:.2f}",
                         f"{low:.2f} to {high:.2f}", str(len(ratio.of)), "FALLEN" if ratio.is_fallen else ""])
    heading = f"{ours} : {before}, speed: above 1 this tree is faster; the middle half of the rounds"
    return heading, ["what", "links", "size", "median", "half", "rounds", ""], rows
