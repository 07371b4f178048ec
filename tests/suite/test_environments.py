# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Under valgrind, over RDMA devices, with other Open MPIs; mpi4py's own tests; what a message
costs; tools/bench."""

import os
import sys

import pytest

from runner.jobs import job, job_of
from runner.places import BUILD, ROOT

VALGRIND = [
    job(
        "valgrind",
        "ring laps=2 max=2000",
        name="valgrind/eager",
        options="--valgrind eager",
        limit=300,
    ),
    job(
        "valgrind",
        "randsize rounds=2",
        name="valgrind/rendezvous",
        options="--valgrind rendezvous",
        limit=300,
    ),
]


@pytest.mark.mpi
@pytest.mark.parametrize("row", VALGRIND)
def test_valgrind(run, mpi, request, row):
    job_of(run, mpi, request, row)


@pytest.mark.mpi
@pytest.mark.alone
@pytest.mark.limit(300)
def test_message_budget(run, mpi):
    """What a message costs, against tests/mpi/budget.txt."""
    run(ROOT / "tests/mpi/budget", "--build", BUILD)


@pytest.mark.mpi
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(words, id=f"mpi4py/{name}", marks=[pytest.mark.limit(900), *marks])
        for words, name, *marks in (
            ([2], "2-ranks"),
            (["--rma", 2], "rma/2-ranks"),
            ([3], "3-ranks", pytest.mark.long),
            (["--rma", 1], "rma/1-rank", pytest.mark.long),
            (["--rma", 3], "rma/3-ranks", pytest.mark.long),
        )
    ],
)
def test_mpi4py(run, mpi, arguments):
    run(ROOT / "tests/mpi/mpi4py", *arguments)


@pytest.mark.mpi
@pytest.mark.bench
@pytest.mark.parametrize(
    "part",
    [
        pytest.param(part, id=f"bench/{name}", marks=[pytest.mark.limit(limit), *marks])
        for part, name, limit, *marks in (
            ("Parts", "parts", 30),
            ("Against", "against", 30),
            ("OverDevices", "over-devices", 30),
            ("Hosts", "hosts", 120),
            ("Namespaces", "namespaces", 240, pytest.mark.full),
        )
    ],
)
def test_bench(run, mpi, part):
    if part == "Namespaces" and os.geteuid():
        pytest.skip("network namespaces need root")
    run(sys.executable, ROOT / "tests/tools/test_bench.py", part, env={"BUILD": str(BUILD)})


# Of the sets of tests/rdma/run, what stands for each wire in the default run.
RDMA_SAMPLE = {
    "roce": (
        "ring/ud", "atomics/ud", "budget/ud", "no-files/ud", "randsize/rc", "onesided/rc",
        "devices/atomics", "packets/rc", "refused/ud/ibv_poll_cq/*",
        "refused/rc/rdma_create_qp/*/told",
    ),
    "iwarp": ("ring/rc", "devices/onesided/iwarp"),
}  # fmt: skip


@pytest.mark.rdma
def test_rdma(run, mpi, rdma_programs, request, case):
    """In virtual machines: a set of tests each. Those that want two machines take minutes more."""
    level = request.config.option.level
    options = ["--full"] if level == "nightly" else []
    if level == "default":
        options = [word for name in RDMA_SAMPLE[case] for word in ("--only", name)]
    run(ROOT / "tests/rdma/run", *options, case)


test_rdma.table = lambda option: [
    *(
        pytest.param(
            each,
            id=f"rdma/{each}" + "-sample" * (option.level == "default"),
            marks=pytest.mark.limit(7800 if option.level == "nightly" else 1000),
        )
        for each in ("roce", "iwarp")
    ),
    *(
        pytest.param(each, id=f"rdma/{each}", marks=[pytest.mark.limit(7800), pytest.mark.long])
        for each in ("pair", "mpi4py")
    ),
]


# Some of all that with Open MPI 5.0, and a sample of it; all of it: tools/check --openmpi 5.0.
SOME = {
    "symbols": "",
    "unit/registration_cache": "full",
    "bad_values*": "full",
    "ib_not_named": "full",
    "mpi/ring/4-ranks": "full",
    "mpi/randsize/2-ranks/2-hosts/loss1": "",
    "mpi/spawn/2-ranks": "full",
    "mpi/sends/3-ranks": "",
    "mpi/recovers/4-ranks": "",
    "exits/callback5": "",
    "exits/one5": "full",
    "exits/host_lost": "full",
    "mpi/killed,silent/3-ranks/3-hosts": "",
    "rma/onesided/2-ranks": "full",
    "rma/onesided/2-ranks/2-hosts/loss1": "",
    "rma/onesided,flags/2-ranks/2-hosts": "full",
}


@pytest.mark.openmpi
@pytest.mark.called("openmpi-5.0/build")
def test_openmpi_build(openmpi_5):
    """The component and the programs are built there."""


@pytest.mark.openmpi
@pytest.mark.limit(900)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            id=f"openmpi-5.0/{name.rstrip('*')}",
            marks=[getattr(pytest.mark, mark) for mark in marks.split()],
        )
        for name, marks in SOME.items()
    ],
)
def test_openmpi(run, openmpi_5, name):
    run(*openmpi_5, "tools/check", "--run-test", name)


@pytest.mark.openmpi
@pytest.mark.limit(300)
@pytest.mark.called("openmpi-5.0/installed")
def test_openmpi_installed(run, openmpi_5):
    """After make install, or in a home directory, with nothing set by hand."""
    run(*openmpi_5, "tests/openmpi/installed")


@pytest.mark.intree
@pytest.mark.limit(1800)
@pytest.mark.parametrize(
    "series", [pytest.param(series, id=f"intree/{series}") for series in ("4.1", "5.0")]
)
def test_intree(run, series):
    run(ROOT / "tests/openmpi/intree", series)
