# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Runs jobs within their time, reads their figures, and sees to it that nothing of them is left."""

import contextlib
import itertools
import os
import re
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

MARK = "BTL_IB_BENCH"  # in the environment of whatever a job starts on this machine
LINE = re.compile(r"\b(\w+) bytes=(\d+) (.*)")
FIGURE = re.compile(r"([\w/.]+)=([0-9.]+)")


@dataclass
class Outcome:
    figures: dict = field(default_factory=dict)  # size -> {figure: value}
    failure: str = ""  # why it failed, in a line; '' if it did not
    output: str = ""  # what it said, if it failed


def read_figures(program, text):
    """The figures in lines "<program> bytes=<size> <figure>=<value> ..."."""
    found = {}
    for line in LINE.finditer(text):
        if line[1] == program:
            found[int(line[2])] = {name: float(value) for name, value in FIGURE.findall(line[3])}
    return found


def complaint(text):
    """What a failed job said first: a line of ours, the first paragraph of a box of Open MPI's, or a line."""
    lines = [line.strip() for line in text.splitlines()]
    for line in lines:
        if line.startswith("FAIL"):
            return line
    for i, line in enumerate(lines):
        if re.fullmatch(r"[-=]{20,}", line) and i + 1 < len(lines):
            box = itertools.takewhile(lambda said: re.search(r"\w", said), lines[i + 1:])
            if paragraph := " ".join(box):
                return paragraph[:200]
    return next((line for line in lines if re.search(r"[A-Za-z]{3}", line)), "it said nothing")


def outcome_of(program, text, status, limit):
    failure = ""
    if status is None:
        failure = f"cut off after {limit:.0f} s"
    elif status:
        failure = complaint(text)
    elif not re.search(rf"^OK {program}\b", text, re.M):
        failure = f"no OK from {program}"
    return Outcome(read_figures(program, text), failure, text if failure else "")


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Runner:
    def __init__(self, env):
        self.mark = f"{os.getpid()}-{time.time_ns()}"
        self.env = {**env, MARK: self.mark}
        self.processes = []

    def jobs(self, commands, program, limit):
        """Runs these command lines of a program at the same time, at most `limit` seconds; an Outcome each.
        Figures that came before the limit count."""
        with contextlib.ExitStack() as files:
            outputs = [files.enter_context(tempfile.TemporaryFile("w+")) for _ in commands]
            for words, output in zip(commands, outputs):
                # Of its own: an mpirun that ends removes directories that another one is just making.
                place = files.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
                env = {**self.env, "OMPI_MCA_orte_tmpdir_base": place, "PRTE_MCA_prte_tmpdir_base": place}
                self.processes.append(subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=output,
                                                       stderr=subprocess.STDOUT, start_new_session=True))
            ends = time.monotonic() + limit
            statuses = [self.wait(process, ends - time.monotonic()) for process in self.processes]
            self.end()
            for output in outputs:
                output.seek(0)
            return [outcome_of(program, output.read(), status, limit)
                    for output, status in zip(outputs, statuses)]

    @staticmethod
    def wait(process, seconds):
        """The exit status, or None if it runs still."""
        try:
            return process.wait(max(seconds, 0))
        except subprocess.TimeoutExpired:
            return None

    def leftovers(self):
        mark = f"{MARK}={self.mark}".encode()
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name)
            except OSError:
                pass  # it has ended, or is somebody else's

    def end(self):
        """Ends the jobs and all that they started on this machine; first mpirun may do that itself."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            running = [process for process in self.processes if process.poll() is None]
            for process in running:
                process.send_signal(sign)
            ends = time.monotonic() + 3
            for process in running:
                self.wait(process, ends - time.monotonic())
        begun = time.monotonic()
        while left := list(self.leftovers()):
            waited = time.monotonic() - begun
            if waited > 10:
                raise RuntimeError(f"processes that do not end: {', '.join(map(str, left))}")
            if waited > 2:
                for pid in left:
                    kill(pid)
            time.sleep(0.02)
        self.processes = []
