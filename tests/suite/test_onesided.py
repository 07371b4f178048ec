# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""One-sided communication by put, get and atomics of ib (osc/rdma); ob1's ways with long
messages."""

import pytest

from runner.jobs import job, job_of, library
from runner.places import BUILD, ROOT

pytestmark = [pytest.mark.mpi, pytest.mark.rma]

OSC = "--osc rdma"


def rma(what, *where, **options):
    return job("rma", what, *where, options=OSC, **options)


PROGRAMS = ("onesided", "onesided window=allocate", "atomics", "atomics threads=3")
QUICK = ("onesided", "atomics")
WINDOWS = [row for what in PROGRAMS for row in (
    rma(what, 2, marks="full" * (what in QUICK)),
    rma(what, 2, 2, "loss1", limit=90, marks="quick" if what in QUICK else "full"),
    rma(what, 1, marks="full"),
    rma(what, 4, limit=90, marks="full"),
    rma(what, 3, 3, limit=90, marks="full"),
    rma(what, 4, 2, limit=120, marks="full" * (what != "atomics")),
    *(rma(what, 4, 4, fault, limit=120, marks="long" if fault == "loss5" else
          "full" * ((what, fault) not in (("atomics threads=3", "loss1"), ("onesided", "all"))))
      for fault in ("loss1", "loss5", "all")))] + [
    rma("onesided bytes=4194304 rounds=8", 4, 2, "loss1", limit=120, marks="full"),
    *(rma(f"onesided seed={seed}", 3, 3, "all", limit=120, marks="long" if seed > 2 else "full")
      for seed in (2, 3, 4)),
    *(rma("onesided", 2, 2, fault, limit=90, marks="full")
      for fault in ("dup1", "reorder1", "burst1")),
    # Between hosts osc/rdma of Open MPI 4.1.4 waits for a lock that it has (btl_ib_osc.h).
    *(rma("onesided window=dynamic", ranks, marks="full" * (ranks == 3)) for ranks in (2, 3)),
    rma("onesided window=dynamic", 2, 2),
    rma("onesided window=dynamic", 6, 2, "loss5", marks="full"),
    # Whoever names all flags has what he has who names none.
    rma("onesided", 2, 2, name="rma/onesided,flags/2-ranks/2-hosts", limit=90,
        mpirun="--mca btl_ib_flags send,inplace,put,get,atomics,fetching-atomics,rdma-flush")]

# Targets that do not call MPI, served by their progress threads.
PASSIVE = [
    rma("passive", 2, 2, marks="alone"),
    rma("passive sleep=1", 2, 2, marks="alone full"),
    rma("sleeper window=1", 2, 2, marks="alone"),
    rma("squeezed", mpirun="--mca btl_ib_progress serve"),
    rma("passive", 3, 3, "loss1", marks="alone full"),
    rma("passive", 4, 4, marks="alone full")]

# Targets that do not call MPI either, accessed by processes that nobody has added.
UNKNOWN_PEERS = [
    rma("unknown_peers", 4, 2, mpirun="--mca osc_rdma_btls ib"),
    rma("unknown_peers", 4, 2, "loss1", mpirun="--mca osc_rdma_btls ib", marks="full")]

# By which component windows go: osc/pt2pt is in 4.1 only, where Debian turns it off, and has no
# threads. A thread that delivers does not serve it.
ALL_OSC = "--mca osc ^ucx"
CHOICE = [
    job("windows", "windows by=rdma dynamic=1", 4, 2, options=OSC),
    job("windows", "windows by=rdma threads=1 dynamic=1", 4, 2, mpirun=ALL_OSC),
    job("windows", "windows by=rdma dynamic=1", 4, 2, mpirun=f"{ALL_OSC} --mca osc_rdma_btls ib",
        name="windows/osc_rdma_btls"),
    job("windows", "windows dynamic=1", 4, 2, name="windows/nothing_set"),
    job("windows", "windows by=usual dynamic=1", 4, 2, name="windows/default",
        mpirun=f"{ALL_OSC} --mca btl_ib_progress serve")]

# Regions that move while others look for them; with other seeds the same.
LISTS = [
    rma("lists rounds=1 elements=100 moves=16", 4, 2),
    rma("lists", 4, limit=300, marks="full"),
    *(rma(f"lists seed={seed}", 4, limit=300, marks="long") for seed in (2, 3)),
    rma("lists spare=0 elements=500", 4, limit=120),
    rma("lists spare=0 elements=2500", 4, limit=300, marks="full")]

# Beside vader, which carries the messages within a host.
VADER = [job("rma,vader", what, ranks, hosts, options=f"{OSC} --btl ib,vader", limit=90,
             marks="full" * ((what, ranks) != ("onesided", 4)))
         for what, ranks, hosts in (("onesided", 2, 1), ("onesided", 4, 2), ("atomics", 4, 2))]

# Each way of ob1 with long messages: fragments, get, put. Most are shorter than what is eager.
EAGER = "--mca btl_ib_eager_limit 65k"
LONG_MESSAGES = [row for flags in ("send", "send,get", "send,put") for row in (
    job(flags, "randsize", 2, options=f"--flags {flags}", mpirun=EAGER, marks="full"),
    job(flags, "randsize", 2, 2, "loss1", options=f"--flags {flags}", mpirun=EAGER, limit=90),
    job(flags, "threads", 2, 2, options=f"--flags {flags}", mpirun=EAGER, limit=90,
        marks="full" * (flags != "send,put")),
    job(flags, "randsize", 4, 4, "all", options=f"--flags {flags}", mpirun=EAGER, limit=90,
        marks="full"))]


@pytest.mark.parametrize(
    "row", WINDOWS + PASSIVE + UNKNOWN_PEERS + CHOICE + LISTS + VADER + LONG_MESSAGES)
def test_job(run, mpi, request, row):
    job_of(run, mpi, request, row)


@pytest.mark.called("windows/ranks_mistaken")
def test_ranks_mistaken(run, mpi, hosts):
    """osc/rdma of Open MPI 4.1.0 to 4.1.4 takes rank 3 of 4 on 3 hosts for rank 0: ib warns. 6 on 3
    are right."""
    series, release = library("openmpi_version").rsplit(".", 1)
    wrong = series == "4.1" and release in tuple("01234")
    said = {
        ranks: run.output(
            ROOT / "tests/mpi/run", "--build", BUILD, "--np", ranks, "--hosts", 3, "--osc", "rdma",
            "windows", "by=rdma", env={"NSPFX": hosts}, ok=not wrong or ranks == 6,
        ) for ranks in (4, 6)
    }  # fmt: skip
    assert "processes on 3 hosts are wrong" not in said[6]
    if not wrong:
        assert "processes on 3 hosts are wrong" not in said[4]
        return
    assert "Windows over all 4 processes on 3 hosts are wrong" in said[4]
    assert "takes rank 3 for rank 0." in said[4]
