# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Builds of this tree: each once in a run, by the process that needs it first. tools/lib.sh knows
how."""

import contextlib
import fcntl
import functools
import os
import subprocess

import pytest

from runner import waits
from runner.command import SKIPPED, Failed
from runner.places import BUILD, ROOT, RUN_ID, logs


def _library(what, script, *words):
    """Runs lines of bash that call functions of tools/lib.sh; with a log of its own."""
    log = logs() / f"build.{what}.log"
    with log.open("w") as output:
        status = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f'. "$0/tools/lib.sh"; {script}', str(ROOT), *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        ).returncode
    if status:
        raise Failed(
            f"{what} was not built (all of it: {log}):\n"
            + "\n".join(log.read_text().splitlines()[-30:])
        )


def _once(directory, what, build):
    """Only the first of this run's processes has to do it; others wait."""
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / ".built", "a+") as done:
        waits.lock(done, fcntl.LOCK_EX)
        done.seek(0)
        lines = done.read().splitlines()
        if f"{RUN_ID} {what}" in lines:
            return
        build()
        done.seek(0)
        done.truncate()
        done.writelines(f"{line}\n" for line in lines if line.startswith(f"{RUN_ID} "))
        done.write(f"{RUN_ID} {what}\n")


@functools.cache
def component():
    """tools/check has built it before."""
    if "BTL_IB_COMPONENT_BUILT" not in os.environ:
        _once(BUILD, "component", lambda: _library("component", 'build_component ""'))
    return BUILD


@functools.cache
def make(directory, *targets):
    what = " ".join(targets)
    _once(
        directory,
        what,
        lambda: _library(
            f"{directory.name}.{targets[-1]}", 'make_in "$@"', str(directory), *targets
        ),
    )
    return directory


@functools.cache
def configured(directory, *arguments, targets):
    _once(
        directory,
        "configured",
        lambda: _library(
            f"{directory.name}.configure", 'configure_in "$@"', str(directory), *arguments
        ),
    )
    return make(directory, *targets)


@contextlib.contextmanager
def tarball_lock():
    """make dist writes into build/, whoever calls it."""
    with open(BUILD / "check/dist.lock", "w") as held:
        waits.lock(held, fcntl.LOCK_EX)
        yield


def elsewhere(series):
    """In a root of the Debian that has another Open MPI; the command that runs something there.
    What is built for it is to be there soon, not fast."""
    soon = "BTL_IB_CONFIGURE=--disable-lto CFLAGS=-O1"
    command = ["env", soon, ROOT / "tests/openmpi/root", "--series", series]
    log = BUILD / f"check/build.openmpi-{series}.log"
    BUILD.joinpath("check").mkdir(parents=True, exist_ok=True)
    with open(log.with_suffix(".state"), "a+") as state:
        waits.lock(state, fcntl.LOCK_EX)
        state.seek(0)
        words = state.read().split(" ", 2)
        if words[0] != RUN_ID:
            with log.open("w") as output:
                status = subprocess.run(
                    [*command, "tools/check", "--build-only", "--mpi"],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                ).returncode
            words = [RUN_ID, str(status), (log.read_text(errors="replace").splitlines() or [""])[-1]]
            state.truncate(0)
            state.write(" ".join(words))
    if int(words[1]) == SKIPPED:
        pytest.skip(words[2])
    if int(words[1]):
        raise Failed(f"it was not built for Open MPI {series} (all of it: {log}): {words[2]}")
    return command
