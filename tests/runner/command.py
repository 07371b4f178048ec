# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Commands that a test runs: with a time limit, a log, and nothing left behind."""

import os
import resource
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest

from runner.places import ROOT, RUN, log_of

SKIPPED = 77
# Limits are those of a quiet machine: who hangs on a busy one is found later.
PATIENCE = 4


class Failed(Exception):
    """What a test has to say: no place in Python's code that anybody would want to see."""


def marked(mark):
    """Processes whose environment has that mark, which is how those are found that a test left
    behind."""
    wanted = f"BTL_IB_CHECK={mark}".encode()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted in environ.read_bytes().split(b"\0"):
                yield int(environ.parent.name)
        except OSError:
            pass


def end_marked(mark, seconds):
    """Waits for them; ends them, and returns False, if they did not end by themselves."""
    give_up = time.monotonic() + seconds
    while pids := list(marked(mark)):
        if time.monotonic() > give_up:
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            return False
        time.sleep(0.1)
    return True


def processor_seconds():
    """What commands, and all that they waited for, have taken so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Run:
    """The commands of one test."""

    def __init__(self, name, limit, worker, environment):
        self.name, self.limit, self.commands = name, limit * PATIENCE, []
        self.mark = f"{RUN}-{worker}-{time.monotonic_ns()}"
        self.environment = {**os.environ, "BTL_IB_CHECK": self.mark, **environment}
        self.log = log_of(name)
        self.log.write_text("")
        self.until = None

    def _start(self, words, environment, **options):
        words = [str(word) for word in words]
        settings = [f"{key}={value}" for key, value in (environment or {}).items()]
        self.commands.append(shlex.join([*settings, *words]).replace(f"{ROOT}/", ""))
        # The limit is for all commands of the test.
        self.until = self.until or time.monotonic() + self.limit
        limit = max(1, self.until - time.monotonic())
        process = subprocess.Popen(
            ["timeout", "-k", "20", f"{limit:.1f}", *words],
            stdin=subprocess.DEVNULL,
            env={**self.environment, **(environment or {})},
            **options,
        )
        try:
            output = process.communicate()[0]
        except BaseException:  # an interrupt
            process.terminate()
            process.wait()
            raise
        if process.returncode in (124, 137):
            with self.log.open("a") as log:
                log.write(output or "")
            raise Failed(f"time limit of {self.limit} s")
        return process.returncode, output

    def status(self, *words, env=None, cwd=ROOT):
        """Exit status of a command whose output goes into the log."""
        with self.log.open("ab") as log:
            return self._start(words, env, cwd=cwd, stdout=log, stderr=subprocess.STDOUT)[0]

    def __call__(self, *words, env=None, cwd=ROOT):
        """A command whose exit status tells: 0, failed, or 77, skipped for the reason in its last
        line."""
        status = self.status(*words, env=env, cwd=cwd)
        if status == SKIPPED:
            pytest.skip(
                (self.log.read_text(errors="replace").strip() or "no reason given").splitlines()[-1]
            )
        if status:
            raise Failed(f"exit status {status}")

    def output(self, *words, env=None, cwd=ROOT, ok=True):
        """What a command says, which also goes into the log; `ok`: it must end well, may not (None)
        or must not (False)."""
        status, output = self._start(
            words,
            env,
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        with self.log.open("a") as log:
            log.write(f"$ {self.commands[-1]}\n{output}")
        if ok is not None and ok == bool(status):
            raise Failed(f"exit status {status}")
        return output

    def finish(self):
        if not end_marked(self.mark, 30):
            raise Failed("processes were left behind")
