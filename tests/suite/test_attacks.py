# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Jobs that somebody throws bad datagrams at (tests/mpi/badguy.py): each is counted by its cause,
and changes nothing."""

import pytest

from runner.jobs import job, job_of

pytestmark = [pytest.mark.mpi, pytest.mark.bad]


def bad(name, classes, what, options="", **more):
    options = f"{options} --bad {classes}"
    return job("bad", what, 2, 2, name=f"bad/{name}", options=options, **{"limit": 90, **more})


# Classes of attack that have different causes, so that they can be told apart; then many at once.
SAMPLE = ("garbage", "replay", "close,channel")
CLASSES = [
    bad(each, each, "stream seconds=5",
        marks="quick" if each == "token" else "full" * (each not in SAMPLE))
    for each in (
        "garbage", "token", "connection", "replay", "earlier", "truncate,source", "sequence,limits",
        "close,channel", "contact,fragments", "acks,window", "ranges,skips", "blocks,clocks")]

PROTECTED = [
    bad("checksum/bits", "bits", "stream seconds=5", mpirun="--mca btl_ib_protection crc32c",
        marks="full"),
    *(bad(auth, "sealed,bits,replay,token", "stream seconds=5", mpirun=f"--mca btl_ib_protection {auth}",
          marks="full" * (auth != "encrypt"))
      for auth in ("integrity", "encrypt"))]

# Messages of the network about what nobody sent, or that cannot be checked: while a rank is
# stopped, so that a row of them is not broken by anything heard of it.
ICMP = [row for each in ("icmp", "icmp8") for row in (
    bad(each, each, "survive seconds=5 stop=2 pause=1", marks="full" * (each != "icmp")),
    bad(f"{each},encrypt", each, "survive seconds=5 stop=2 pause=1",
        mpirun="--mca btl_ib_protection encrypt", marks="full"))]

# One-sided operations: forged without the token; with it, but against what is registered; repeated
# late.
ONE_SIDED = [
    *(bad(f"rma/{each}", each, "atomics seconds=5", "--osc rdma",
          marks="full" * (each != "malformed,refusals"))
      for each in ("put,get,atomic,got,reply,void,refused", "again", "malformed,refusals",
                   "earlier")),
    bad("rma/regions", "regions", "onesided rounds=600", "--osc rdma", limit=120,
        mpirun="--mca btl_ib_receive_queues P,256,512,256,64:S,65536,1024,512,64", marks="full"),
    bad("rma/late", "late", "randsize seconds=5", "--flags send,put", marks="full"),
    bad("randsize", "token,acks,ranges,replay,clocks", "randsize seconds=5", limit=120)]


@pytest.mark.parametrize("row", CLASSES + PROTECTED + ICMP + ONE_SIDED)
def test_attack(run, mpi, request, row):
    job_of(run, mpi, request, row)
