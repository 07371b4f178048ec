# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Parts without Open MPI: unit tests, simulator, models, fuzzers, other processors; plain and with
sanitizers."""

import re

import pytest

from runner.places import BUILD, ROOT, TESTS

UNIT = sorted(file.stem.removeprefix("test_") for file in (TESTS / "unit").glob("test_*.c"))
# Those that are linked with Open MPI.
OPEN_MPIS = set(
    re.findall(
        r"^tests_unit_test_(\w+)_LDADD =.*(?:opal_test_ldadd|BTL_IB_OPAL_LIBS)",
        (TESTS / "local.mk").read_text(),
        re.MULTILINE,
    )
)
FUZZ = sorted(file.stem.removeprefix("fuzz_") for file in (TESTS / "fuzz").glob("fuzz_*.c"))
MODELS = sorted(
    file.stem for file in ROOT.rglob("model/*.pml") if "build" not in file.relative_to(ROOT).parts
)


def names(kind, stems, marks=(), limit=60):
    return [
        pytest.param(stem, id=f"{kind}/{stem}", marks=[pytest.mark.limit(limit), *marks])
        for stem in stems
    ]


def unit(run, directory, name):
    """What a program leaves out is a skip, although all else in it passed."""
    run(f"tests/unit/test_{name}", cwd=directory)
    said = run.log.read_text(errors="replace")
    left_out = sorted(set(re.findall(r"^\[  SKIPPED \] (\w+)$", said, re.MULTILINE)))
    if left_out:
        why = re.search("^skipped: (.*)$", said, re.MULTILINE)
        pytest.skip(f"{why.group(1) if why else 'no reason given'}: {', '.join(left_out)}")


@pytest.mark.unit
@pytest.mark.quick
@pytest.mark.parametrize(
    "name",
    names("unit", sorted(OPEN_MPIS), [pytest.mark.mpi])
    + names("unit", [name for name in UNIT if name not in OPEN_MPIS]),
)
def test_unit(run, unit_programs, name):
    unit(run, unit_programs, name)


@pytest.mark.unit
@pytest.mark.parametrize("name", names("asan/unit", UNIT, limit=120))
def test_unit_asan(run, asan, name):
    unit(run, asan, name)


@pytest.mark.unit
@pytest.mark.full
@pytest.mark.parametrize("name", names("clang/unit", UNIT, limit=120))
def test_unit_clang(run, clang, name):
    unit(run, clang, name)


@pytest.mark.unit
@pytest.mark.limit(120)
@pytest.mark.called("tsan/biased_lock")
def test_tsan(run, tsan_programs):
    # Without random addresses: those of newer kernels are not where the sanitizer expects them.
    run("setarch", "-R", tsan_programs / "tests/unit/tsan_biased_lock")


@pytest.mark.unit
@pytest.mark.limit(300)
@pytest.mark.called("asan/build")
def test_asan_build(asan):
    """Builds by gcc; of the other tests with it only the first would take as long."""


def simulator(run, directory, *arguments):
    run("tests/sim/btl_ib_sim", *arguments, cwd=directory)


@pytest.mark.sim
def test_sim(run, sim_programs, case):
    simulator(run, sim_programs, "--seeds", case, "--both")


test_sim.table = lambda option: [
    pytest.param(
        option.seeds,
        id=f"sim/{option.seeds}-seeds",
        marks=[pytest.mark.quick, pytest.mark.limit(60 + option.seeds // 5)],
    )
]


@pytest.mark.sim
def test_sim_ecn(run, sim_programs, case):
    """Networks that mark, and those that spoil ECN."""
    simulator(run, sim_programs, "--no-named", "--seeds", case, "--first", 30000, "--ecn")


test_sim_ecn.table = lambda option: [
    pytest.param(
        option.seeds // 4,
        id=f"sim/ecn-{option.seeds // 4}-seeds",
        marks=[pytest.mark.limit(60 + option.seeds // 10)],
    )
]


@pytest.mark.sim
@pytest.mark.quick
@pytest.mark.called("sim/self-test")
def test_sim_self(run, sim_programs):
    """Errors that are made on purpose are noticed, each by the check that is for it."""
    simulator(run, sim_programs, "--self-test")


@pytest.mark.sim
@pytest.mark.long
@pytest.mark.limit(1800)
@pytest.mark.called("sim/planted")
def test_sim_planted(run, sim_programs, tmp_path):
    """Seeds find hangs that were planted in the engine, the self-test blind spots of the checks."""
    run(TESTS / "mutate/planted", "--build", sim_programs, "--work", tmp_path)


@pytest.mark.sim
@pytest.mark.parametrize("datagrams", [
    pytest.param(4, id="sim/small-4", marks=pytest.mark.limit(120)),
    pytest.param(6, id="sim/small-6", marks=[pytest.mark.long, pytest.mark.limit(1800)]),
])
def test_sim_small(run, sim_programs, datagrams):
    """Every treatment of the first datagrams of short situations, with a restart at each place."""
    simulator(run, sim_programs, "--small", datagrams)


@pytest.mark.sim
def test_sim_asan(run, asan, case):
    simulator(run, asan, "--seeds", case)


test_sim_asan.table = lambda option: [
    pytest.param(
        option.seeds // 10,
        id=f"asan/sim/{option.seeds // 10}-seeds",
        marks=[pytest.mark.limit(60 + option.seeds // 10)],
    )
]


@pytest.mark.sim
@pytest.mark.full
def test_sim_clang(run, clang, case):
    simulator(run, clang, "--seeds", case)


test_sim_clang.table = lambda option: [
    pytest.param(
        option.seeds // 10,
        id=f"clang/sim/{option.seeds // 10}-seeds",
        marks=[pytest.mark.limit(60 + option.seeds // 5)],
    )
]


@pytest.mark.sim
@pytest.mark.called("sim/grid")
def test_grid(run, sim_programs):
    """A few cells of goodput over loss, round trip and rate, each at its goal."""
    simulator(run, sim_programs, "--grid", "--quick")


@pytest.mark.sim
@pytest.mark.quick
@pytest.mark.called("sim/replay")
def test_replay(run, sim_programs):
    """The same seed leaves the same trace."""
    words = [sim_programs / "tests/sim/btl_ib_sim", "--seed", 7, "--trace"]
    trace = run.output(*words)
    assert trace
    assert trace == run.output(*words)


@pytest.mark.cost
@pytest.mark.limit(120)
@pytest.mark.called("cost/engine")
def test_cost(run, cost_programs):
    run(ROOT / "tests/cost/budget", env={"BUILD": str(cost_programs)})


@pytest.mark.cost
@pytest.mark.parametrize(
    "peers",
    [
        pytest.param(peers, id=f"cost/scale/{peers}", marks=marks)
        for peers, *marks in ((10,), (100,), (1000,), (10000,), (16384, pytest.mark.full))
    ],
)
def test_scale(run, cost_programs, peers):
    """Memory and timers of an engine with so many connected peers, busy and idle."""
    run(cost_programs / "tests/cost/engine_scale", peers)


@pytest.mark.cost
@pytest.mark.called("cost/scale/component")
def test_component_scale(run, cost_programs):
    """The component in a job of 16,384 processes: they are added, found and deleted."""
    run(cost_programs / "tests/cost/component_scale", 16384)


# The other one takes a minute.
MODEL_SAMPLE = ("biased_lock", "contact", "onesided")


@pytest.mark.model
def test_model(run, case, request):
    full = ["--full"] if request.config.option.level == "nightly" else []
    run(ROOT / "tests/model/run", *full, case)


test_model.table = lambda option: names(
    "model",
    [name for name in MODELS if option.level != "default" or name in MODEL_SAMPLE],
    limit=3600 if option.level == "nightly" else 120,
)


@pytest.mark.protocol
def test_second(run, second_programs, case):
    """Another implementation of the protocol talks to the engine, under loss."""
    run(
        ROOT / "tests/second/run",
        "--program",
        second_programs / "tests/second/engine_side",
        "--seeds",
        case,
    )


def second_seeds(option):
    seeds = {"quick": 5, "default": 15, "stage": 100, "nightly": 2000}[option.level]
    return [
        pytest.param(
            seeds, id=f"second/{seeds}-seeds", marks=[pytest.mark.quick, pytest.mark.limit(60 + 4 * seeds)]
        )
    ]


test_second.table = second_seeds


@pytest.mark.proof
def test_proof(run, case):
    run(ROOT / "tests/proof/run", *case)


test_proof.table = lambda option: [
    pytest.param(words, id=f"proof/{name}", marks=pytest.mark.limit(1000))
    for name, words in (("all", ()), ("faults", ("--faults",)))
]


@pytest.mark.protocol
@pytest.mark.quick
@pytest.mark.called("requirements")
def test_requirements(run):
    """Each requirement of docs/protocol.md has a number, and a test that names it."""
    run(ROOT / "tests/docs/requirements")


@pytest.mark.protocol
@pytest.mark.long
@pytest.mark.limit(7200)
@pytest.mark.called("requirements/violated")
def test_requirements_violated(run, component):
    """That test fails when the code violates the requirement."""
    run(ROOT / "tests/docs/requirements", "--prove")


@pytest.mark.fuzz
@pytest.mark.limit(300)
@pytest.mark.called("fuzz/build")
def test_fuzz_build(fuzz):
    """Builds the fuzzers by clang, and with them the layers below the component."""


@pytest.mark.fuzz
def test_fuzz(run, fuzz, case):
    name, seconds = case
    found = BUILD / f"check/fuzz.{name}"
    found.mkdir(exist_ok=True)
    # What it finds stays out of the corpus that is kept: that is added to by hand.
    run(
        fuzz / f"tests/fuzz/fuzz_{name}",
        f"-max_total_time={seconds}",
        "-error_exitcode=1",
        "-timeout=10",
        "-rss_limit_mb=1024",
        "-verbosity=0",
        "-print_final_stats=1",
        f"-artifact_prefix={found}/crash.",
        found,
        TESTS / "fuzz/corpus" / name,
    )


def fuzzers(option):
    seconds = {"quick": 3, "default": 3, "stage": 30, "nightly": 300}[option.level]
    return [
        pytest.param((name, seconds), id=f"fuzz/{name}", marks=pytest.mark.limit(90 + 2 * seconds))
        for name in FUZZ
    ]


test_fuzz.table = fuzzers


@pytest.mark.cross
@pytest.mark.long
@pytest.mark.parametrize(
    "processor", names("cross", ["aarch64", "i386", "ppc64le", "riscv64", "s390x", "musl"], limit=1800)
)
def test_cross(run, processor):
    run(ROOT / "tests/cross/run", processor)


@pytest.mark.cross
@pytest.mark.full
@pytest.mark.parametrize(
    "processor", names("cross/job", ["aarch64", "i386", "ppc64le", "riscv64", "s390x"], limit=900)
)
def test_cross_job(run, processor):
    """The whole component, and a job of two ranks."""
    run(ROOT / "tests/cross/job", processor)


@pytest.mark.cross
@pytest.mark.limit(600)
@pytest.mark.called("cross/s390x-sample")
def test_cross_sample(run):
    """What a change is most likely to break: the order of bytes in datagrams."""
    run(ROOT / "tests/cross/run", "--sample", "--seeds", 40, "s390x")
