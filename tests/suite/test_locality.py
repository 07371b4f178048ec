# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Devices that are near to a process, on a machine of two sockets that the tests make up: a core
and a card each, by a topology of hwloc that names interfaces of a network of their own."""

import os
import re

import pytest

from runner.places import BUILD, TESTS

pytestmark = [pytest.mark.mpi, pytest.mark.quick]
INFO = BUILD / "ib_info"
# Interfaces named as the cards, on one network, or each on one of its own.
HOST = """ip link set lo up && for i in 0 1; do
    ip link add card$i type veth peer name end$i && ip link set end$i up &&
    ip link set card$i up && ip address add 10.254.$((253 - i * {apart})).$((i + 1))/24 dev card$i
done && exec "$@" """
MACHINE = {"HWLOC_XMLFILE": str(TESTS / "unit/topology/two_cores.xml"), "HWLOC_THISSYSTEM": "1"}


@pytest.fixture
def job(run, mpi):
    """What a job of two processes says, each on a core of its own."""
    if os.geteuid():
        pytest.skip("network namespaces need root")
    if os.cpu_count() < 2 or not {0, 1} <= os.sched_getaffinity(0):
        pytest.skip("needs processors 0 and 1")
    if not mpi.has("HWLOC"):
        pytest.skip("without hwloc")
    whole = mpi.mpirun
    start = whole[: whole.index("--bind-to")]  # Open MPI 5.0 takes the option once

    def started(*words, apart=0, env=MACHINE, bind="core", **settings):
        for name, value in settings.items():
            words += ("--mca", f"btl_ib_{name}", str(value))
        mpi.mpirun = ["unshare", "--net", "sh", "-c", HOST.format(apart=apart), "sh", *start]
        output = mpi.job(
            run, 2, *f"--bind-to {bind} --mca btl ib,self --mca btl_base_verbose 1".split(), *words,
            mpi.program("ring"), "laps=1", env=env,
        )
        assert "OK ring" in output
        return output

    yield started
    mpi.mpirun = whole


def rails(output):
    return sorted(re.findall(r"rail \d is udp/(\w+):", output))


def test_locality_near(job):
    """Each process takes the card of its own socket, and says what is farther, and why not."""
    output = job()
    assert rails(output) == ["card0", "card1"]
    for near, far in ((0, 1), (1, 0)):
        assert f"locality: udp/card{near}: used, distance 0, NUMA node {near}\n" in output
        assert (
            f"locality: udp/card{far}: not used, distance 21, NUMA node {far}: farther than"
            f" card{near}: distance 21 instead of 0 (btl_ib_locality near)\n"
        ) in output


def test_locality_networks(job):
    """Cards on networks of their own are all used, or the two processes could not meet."""
    output = job(apart=1)
    assert rails(output) == ["card0", "card0", "card1", "card1"]
    assert output.count("used, distance 21, NUMA node") == 2
    # A limit takes the same network in both.
    assert rails(job(apart=1, max_btls=1)) == ["card0", "card0"]


def test_locality_rank(job):
    """The near one first, the other as well."""
    output = job(locality="rank")
    assert rails(output) == ["card0", "card0", "card1", "card1"]
    for card in (0, 1):
        assert re.search(rf"locality: udp/card{card}: used, distance 0", output)
        assert re.search(rf"rail 0 is udp/card{card}", output)
        assert re.search(rf"rail 1 is udp/card{card}", output)
    assert rails(job(locality="rank", max_btls=1)) == ["card0", "card1"]


def test_locality_ignore(job):
    """As they are found; and of cards that are alike each process takes another."""
    output = job(locality="ignore")
    assert rails(output) == ["card0", "card0", "card1", "card1"]
    assert output.count(": used, distance not asked for\n") == 4
    output = job(locality="ignore", max_btls=1)
    assert rails(output) == ["card0", "card1"]
    assert output.count(": not used, distance not asked for: btl_ib_max_btls is 1\n") == 2


@pytest.mark.parametrize("bind, env", [("none", MACHINE), ("core", {})],
                         ids=("locality_unbound", "locality_unknown"))
def test_locality_all_near(job, bind, env):
    """Who is bound nowhere, or has cards of which nobody knows where they are, uses all."""
    output = job(bind=bind, env=env)
    assert rails(output) == ["card0", "card0", "card1", "card1"]
    assert output.count(": used, distance 0") == 4


def test_locality_farther_one(job):
    """Who excludes the near card gets the other."""
    assert rails(job(if_exclude="card0")) == ["card1", "card1"]


def test_locality_info(run, job):
    """ib_info tells the NUMA nodes, and the reason why a job would not use a card."""
    said = run.output(
        "taskset", "-c", "1", "unshare", "--net", "sh", "-c", HOST.format(apart=0), "sh", INFO,
        "--parsable",
        env=MACHINE,
    )
    for card in (0, 1):
        assert f"device udp card{card} numa: {card}\n" in said
    assert "device udp lo numa: unknown\n" in said
    assert (
        "device udp card0 reason: farther than card1: distance 21 instead of 0"
        " (btl_ib_locality near)\n"
    ) in said
