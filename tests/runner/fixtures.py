# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""What tests ask for: commands (run), builds, hosts, and what a job of Open MPI needs (mpi)."""

import os
import subprocess

import pytest

from runner import builds
from runner.choose import name_of
from runner.command import Failed, Run, processor_seconds
from runner.jobs import Mpi, library
from runner.places import BUILD, ROOT, RUN, logs, worker


@pytest.fixture
def run(request, record_property):
    limit, before = request.node.get_closest_marker("limit"), processor_seconds()
    run = Run(name_of(request.node), limit.args[0] if limit else 60, worker(request.config), {})
    yield run
    run.finish()
    record_property("processor_seconds", round(processor_seconds() - before, 1))


@pytest.fixture(scope="session")
def component():
    """build/ with the component in it."""
    return builds.component()


def _programs(what):
    """A build/ with what that target of make makes."""
    return pytest.fixture(scope="session", name=f"{what}_programs")(
        lambda component: builds.make(component, f"{what}-programs")
    )


unit_programs, sim_programs, cost_programs, tsan_programs, second_programs = map(
    _programs, ("unit", "sim", "cost", "tsan", "second")
)
mpi_programs, rdma_programs = map(_programs, ("mpi", "rdma"))


SOON_BUILT = "CFLAGS=-O1 -g1"  # with sanitizers in half the time of -O2 -g


@pytest.fixture(scope="session")
def asan(component):
    return builds.configured(
        BUILD / "asan",
        "--enable-sanitizers",
        "--enable-werror",
        SOON_BUILT,
        targets=("unit-programs", "sim-programs"),  # the component could not be loaded
    )


@pytest.fixture(scope="session")
def fuzz(component):
    return builds.configured(
        BUILD / "fuzz",
        "--enable-fuzzers",
        "--enable-werror",
        "CC=clang",
        SOON_BUILT,
        targets=("fuzz-programs",),
    )


@pytest.fixture(scope="session")
def clang(fuzz):
    """Unit tests and simulator by clang, with its sanitizers."""
    return builds.make(fuzz, "unit-programs", "sim-programs")


@pytest.fixture(scope="session")
def mpi(mpi_programs):
    """What a job needs."""
    return Mpi()


@pytest.fixture(scope="session")
def hosts(request, tmp_path_factory):
    """The prefix of four hosts, made of network namespaces (tools/nshosts), which this process has
    for itself."""
    if os.geteuid():
        pytest.skip("several hosts need root")
    prefix = f"c{RUN}{worker(request.config)}h"
    environment = {**os.environ, "NSPFX": prefix}
    up = subprocess.run(
        [ROOT / "tools/nshosts", "up", "4"], env=environment, capture_output=True, text=True
    )
    (logs() / f"nshosts.{worker(request.config)}.log").write_text(up.stdout + up.stderr)
    if up.returncode:
        subprocess.run([ROOT / "tools/nshosts", "down"], env=environment)
        raise Failed(f"tools/nshosts up 4: {up.stderr.strip()}")
    yield prefix
    subprocess.run([ROOT / "tools/nshosts", "down"], env=environment)


@pytest.fixture(scope="session")
def openmpi_5(component):
    """The command that runs something where Open MPI 5.0 is, with what its jobs need built
    there."""
    if library("openmpi_series") == "5.0":
        pytest.skip("Open MPI 5.0 is what all tests here run with")
    return builds.elsewhere("5.0")
