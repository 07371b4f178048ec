# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""A run of tools/bench: from its options to the plan, through all rounds, to the results."""

import contextlib
import itertools
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import btl_ib_plotting as plotting

from . import baseline, devices, facts, places, plan
from . import candidates as cands
from .networks import FLOOR, NETWORKS
from .plots import Plots
from .report import Report, as_markdown, as_text
from .results import Results
from .runner import Runner

ROOT = Path(__file__).resolve().parents[2]
HANDOVER = "handover"  # the program that tells whether two cores share a cache
AGAINST_SLOTS = 200  # ms, of --against
RETRIES = 2  # of rounds whose floor is out of range, for each round that was asked for
PREPARE = """set -euo pipefail
. "$1/tools/lib.sh"
build=$2
case $3 in
build) build_component mpi-programs >&2 ;;
packages)
    mkdir -p "$build"
    need_packages "${build_packages[@]}" "${bench_packages[@]}" >&2
    build_component mpi-programs >&2 ;;
esac
job_environment
env -0"""


class Stopped(Exception):
    """A signal came."""

    def __str__(self):
        return self.args[0].name


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def listed(text, allowed, option):
    words = text.split(",")
    for word in words:
        if word not in allowed:
            raise ValueError(f"{option} {text}: no {word or 'empty word'}; {', '.join(allowed)}")
    return list(dict.fromkeys(words))


def choose_place(options, whats, network):
    ranks = max(plan.WHATS[name].ranks for name in whats)
    if options.hosts and options.namespaces:
        raise ValueError("--hosts or --namespaces, not both")
    if network.is_rdma:
        refuse(options, ("namespaces",), f"Ethernet, not for --over {network.name}")
    if options.hosts or network.is_rdma or (os.geteuid() and not options.namespaces):
        return own_hosts(options, network)
    return namespaces(options, whats, ranks)


def refuse(options, names, why):
    for name in names:
        if getattr(options, name):
            raise ValueError(f"--{name} is for {why}")


def own_hosts(options, network):
    refuse(options, ("mtu", "unpinned", "loss"), "namespaces")
    mpirun = shlex.split(options.mpirun) if options.mpirun else [places.default_mpirun()]
    if not mpirun or not shutil.which(mpirun[0]):
        raise ValueError(f"no command {' '.join(mpirun) or '(empty)'}, see --mpirun")
    hosts = [] if options.loopback or not options.hosts else options.hosts.split(",")
    interface = options.interface
    if network.is_rdma:
        interface = devices.choose(interface, not hosts, f"--over {network.name}")
    elif interface:
        interface = places.interface_of(interface)
    return places.Hosts(hosts, mpirun, interface, network)


def namespaces(options, whats, ranks):
    refuse(options, ("interface", "mpirun"), "hosts of your own")
    if os.geteuid():
        raise ValueError("--namespaces needs root")
    count, mtu = options.namespaces or ranks, options.mtu or 1500
    if not options.loopback and not ranks <= count <= 250:
        raise ValueError(f"--namespaces {count}: {ranks} to 250 for {', '.join(whats)}")
    if not 576 <= mtu <= 65535:
        raise ValueError(f"--mtu {mtu}: 576 to 65535")
    return places.Namespaces(count, mtu, options.loopback, options.unpinned)


@contextlib.contextmanager
def neighbours(count):
    """So many processes that compute meanwhile. The kernel ends them if this one is killed."""
    words = ["setpriv", "--pdeathsig", "KILL", "sh", "-c", "while :; do :; done"]
    running = [subprocess.Popen(words, stdin=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def choose_conditions(options, place):
    text = options.loss or ("0,1" if place.lossy else "0")
    try:
        losses = list(dict.fromkeys(float(word) for word in text.split(",")))
    except ValueError:
        losses = [-1]
    if not all(0 <= loss < 100 for loss in losses):
        raise ValueError(f"--loss {text}: percent, with commas, each below 100")
    if not place.lossy and options.offloads != "auto":
        raise ValueError("--offloads is for namespaces; your links are as they are")
    auto = options.offloads == "auto"
    return [plan.Condition(loss, ("off" if loss else "on") if auto else options.offloads) for loss in losses]


class Bench:
    def __init__(self, options):
        asked = options.what is not None
        whats = listed(options.what, plan.WHATS, "--what") if asked else plan.DEFAULT_WHATS
        for name, value, least in (("rounds", options.rounds, 1), ("seconds", options.seconds, 0.001),
                                   ("limit", options.limit, 0), ("range", options.range, 0),
                                   ("busy", options.busy, 0)):
            if not least <= value <= 1e6:
                raise ValueError(f"--{name} {value}: {least} to 1000000")
        if options.svg:
            plotting.pyplot("--svg")  # not only after all was measured
        for path in (options.json, options.svg):
            if path and not path.absolute().parent.is_dir():
                raise ValueError(f"{path}: no directory {path.absolute().parent}")
        if options.slots and not all(plan.WHATS[name].has_slots() for name in whats):
            without = ", ".join(name for name in whats if not plan.WHATS[name].has_slots())
            if options.against is None:
                raise ValueError(f"--slots {options.slots:g}: not with {without}")
        if options.slots and (options.hosts or not 1 <= options.slots <= 10000):
            raise ValueError(f"--slots {options.slots:g}: 1 to 10000, on one machine (its clock)")
        self.options = options
        self.network = NETWORKS[options.over]
        names = options.candidates.split(",") if options.candidates is not None else None
        self.slots = options.slots
        self.baseline = None
        if options.against is not None:
            self.baseline = baseline.Baseline(ROOT, options.against, (options.build or ROOT / "build") / "against")
            names = names or ["ib"]
            if "ib" not in names:
                raise ValueError(f"--against {options.against}: ib is not among the candidates")
            if not options.slots and not options.hosts:
                self.slots = AGAINST_SLOTS
        self.candidates = cands.make(names, options.candidate, self.network)
        self.place = choose_place(options, whats, self.network)
        sizes = plan.parse_sizes(options.sizes) if options.sizes else ()
        self.turns = plan.turns(choose_conditions(options, self.place), whats, sizes, options.seconds, asked)
        self.results = Results(options.range / 100)
        self.runner = Runner(os.environ)
        self.retries = RETRIES * options.rounds
        self.began_rounds = self.abandoned = 0
        self.done = 0.0  # seconds, as planned, of the jobs that ran
        self.began = 0.0

    def prepare(self):
        """Builds what is needed; the environment of jobs."""
        build = (self.options.build or ROOT / "build").resolve()
        if self.baseline:
            say(f"building {self.baseline.name}, if it is not there")
            build.mkdir(exist_ok=True)
            self.baseline.build(build / "against.log")
        # The Open MPI of one's own hosts need not be Debian's.
        how = "as-it-is" if self.options.build else "packages" if self.place.lossy else "build"
        done = subprocess.run(["bash", "-c", PREPARE, "bench", ROOT, build, how], env=self.runner.env,
                              stdout=subprocess.PIPE, check=False)
        if done.returncode:
            raise RuntimeError(f"{build} cannot be used")
        env = dict(line.split("=", 1) for line in done.stdout.decode().split("\0") if "=" in line)
        self.programs = build / "tests/mpi"
        for name in {turn.what.program for turn in self.turns} | {self.network.floor, HANDOVER}:
            if not (self.programs / name).exists():
                hint = ", which is built with transport verbs only" if self.network.is_rdma else ""
                raise RuntimeError(f"no program {self.programs / name}{hint}")
        self.runner.env = env
        if self.baseline:
            variable = next(name for name in env if name.endswith("mca_base_component_path"))
            self.candidates += cands.make([], [self.baseline.definition(variable)], self.network)[-1:]
        cands.look(self.candidates, self.place.ompi_info(), env)
        for candidate in self.candidates:
            if candidate.missing:
                say(f"{candidate.name}: not there: {candidate.missing}")
            if self.place.interface:
                candidate.use_interface(self.place.interface, self.network)

    def command(self, turn, candidate, what, sizes, more=()):
        """The command line of a candidate's job."""
        is_floor = candidate.name == FLOOR
        program = self.network.floor if is_floor else what.program
        arguments = [f"bytes={','.join(map(str, sizes))}", f"seconds={turn.seconds}", *more]
        if is_floor:
            arguments += [f"what={what.name}", *self.network.floor_command(self.place.interface)]
        else:
            arguments += what.arguments
        ranks = 2 if is_floor else what.ranks
        words = [*self.place.command(ranks), *candidate.options]
        for key, value in self.options.mca:
            words += ["--mca", key, value]
        if ranks > 2:
            words += ["--mca", "mpi_yield_when_idle", "1"]
        return words + self.place.program([str(self.programs / program), *arguments], ranks,
                                          0 if is_floor else what.cores)

    def handover(self):
        """GB/s from one core of a job of two ranks to the other, or None."""
        cores = self.place.two_cores()
        if not cores:
            return None
        words = [str(self.programs / HANDOVER), "cores={},{}".format(*cores)]
        figures = self.runner.jobs([words], HANDOVER, self.options.limit)[0].figures
        return next((found.get("GB/s") for found in figures.values()), None)

    def job(self, words, program, turn):
        """Its Outcome, and the less of what a core handed over to the other before and after it."""
        before = self.handover()
        outcome = self.runner.jobs([words], program, self.options.limit + 3 * turn.planned())[0]
        after = self.handover()
        return outcome, min(before, after) if before and after else None

    def one_after_the_other(self, number, turn, candidates):
        """A job of each: its candidate, its Outcome, and what was handed over."""
        for candidate in candidates:
            self.progress(number, turn, candidate.name)
            words = self.command(turn, candidate, turn.what, turn.sizes)
            yield candidate, *self.job(words, turn.what.program, turn)

    def in_slots(self, number, turn, candidates):
        """The same, but the jobs alternate within a fraction of a second, see tests/mpi/slots.h."""
        self.progress(number, turn, ", ".join(c.name for c in candidates))
        count, length = len(candidates), self.slots / 1000
        start = time.monotonic() + count * plan.START_SECONDS
        commands = [self.command(turn, candidate, turn.what, turn.sizes, (f"slots={i}/{count}/{length}/{start}",))
                    for i, candidate in enumerate(candidates)]
        limit = self.options.limit + 3 * count * turn.planned()
        return zip(candidates, self.runner.jobs(commands, turn.what.program, limit), itertools.repeat(None))

    def progress(self, number, turn, candidate):
        if self.done == 0:
            left = self.total
        else:
            left = max(self.total - self.done, 0) * (time.monotonic() - self.began) / self.done
        minutes, seconds = divmod(round(left), 60)
        say(f"round {number} of {self.options.rounds}, {turn.what.name}, {turn.condition}: {candidate}"
            f" ({minutes}:{seconds:02} left)")

    def measure_floor(self, number, turn, floor):
        """The floor is measured on good links; returns whether the turn can go on."""
        self.progress(number, turn, floor.name)
        self.began_rounds += 1
        self.place.links(plan.Condition(0, turn.condition.offloads))
        what, sizes = (turn.what, turn.sizes) if turn.what.floor else (plan.WHATS["latency"], (8,))
        words = self.command(turn, floor, what, sizes)
        outcome, handover = self.job(words, self.network.floor, turn)
        self.done += turn.planned()
        if outcome.failure:
            self.fail(turn, floor, outcome)
            return True
        figure = what.figures[0]
        self.results.check(turn, number, {size: f[figure] for size, f in outcome.figures.items()},
                           what.more_is_better)
        if self.results.worse(turn, number) > self.results.allowed and self.retries > 0:
            self.retries -= 1
            self.abandoned += 1
            self.total += turn.planned()
            say(f"the floor is {self.results.worse(turn, number):.0%} worse than before: once more")
            return False
        if turn.what.floor:
            self.results.add(turn, number, floor.name, outcome.figures, handover)
        return True

    def fail(self, turn, candidate, outcome):
        self.results.failures[turn, candidate.name] = outcome
        say(f"{candidate.name} failed, {turn.what.name}, {turn.condition}: {outcome.failure}")

    def one_turn(self, number, turn):
        runnable = [c for c in self.candidates
                    if not c.missing and (turn, c.name) not in self.results.failures]
        floor = next((c for c in runnable if c.name == FLOOR), None)
        while floor and not self.measure_floor(number, turn, floor):
            time.sleep(1)
        others = [c for c in runnable if c is not floor]
        first = (number - 1) % max(len(others), 1)  # nobody always follows the same one
        self.place.links(turn.condition)
        run = self.in_slots if self.slots and turn.what.has_slots() else self.one_after_the_other
        for candidate, outcome, handover in run(number, turn, others[first:] + others[:first]):
            self.done += turn.planned()
            self.results.add(turn, number, candidate.name, outcome.figures, handover)
            if outcome.failure:
                self.fail(turn, candidate, outcome)

    def measure(self):
        there = sum(not c.missing for c in self.candidates)
        self.total = self.options.rounds * there * sum(turn.planned() for turn in self.turns)
        self.began = time.monotonic()
        how = f"in slots of {self.slots:g} ms" if self.slots else "each candidate in turn"
        say(f"{self.place}; {self.options.rounds} rounds, {how}")
        for number in range(1, self.options.rounds + 1):
            for turn in self.turns:
                self.one_turn(number, turn)

    def parameters(self):
        given = {name: value for name, value in vars(self.options).items() if name != "help"}
        shown = {name: str(value) if isinstance(value, Path) else value for name, value in given.items()}
        return {"place": str(self.place), **shown}

    def write(self, report):
        if self.options.json:
            about = facts.gather(ROOT, self.place.ompi_info(), self.runner.env)
            if self.network.is_rdma:
                about["device"] = devices.about(self.place.interface)
            self.options.json.write_text(report.json(about, self.parameters(), self.candidates))
        if self.options.svg:
            for path in Plots(self.results, self.turns, self.candidates).write(self.options.svg):
                say(f"wrote {path}")

    def notes(self, unquiet):
        for candidate in self.candidates:
            if candidate.missing:
                yield f"{candidate.name} is not there: {candidate.missing}"
        for (turn, name), outcome in self.results.failures.items():
            yield f"{name} failed, {turn.what.name}, {turn.condition}: {outcome.failure}"
        if self.results.far:
            yield (f"{self.results.far} of {len(self.results.samples)} samples do not count: the two cores shared no"
                   " cache then")
        if not self.began_rounds:
            yield "no floor: nothing shows whether the machine was quiet"
            return
        discarded = self.abandoned + len(self.results.discarded)
        yield (f"{discarded} of {self.began_rounds} rounds discarded: their floor was more than"
               f" {self.options.range:g} % worse than the best")
        for turn in unquiet:
            yield f"{turn.what.name}, {turn.condition}: no round was better; do not trust these figures"

    def show_ratios(self):
        """Prints this tree beside the baseline. Returns whether a row has fallen."""
        heading, columns, rows = baseline.table(self.results, self.turns, "ib", self.baseline.name)
        block = as_markdown if self.options.markdown else as_text
        print("\n" + block(heading, columns, rows), flush=True)
        return any(row[-1] for row in rows)

    def show(self):
        """Prints all, and writes the files. Returns whether a row has fallen behind the baseline."""
        unquiet = self.results.judge()
        report = Report(self.results, self.turns, self.candidates)
        print(report.text(self.options.markdown))
        print("\n".join(["", *self.notes(unquiet)]), flush=True)
        self.write(report)
        return self.baseline is not None and self.show_ratios()

    def run(self):
        status = 0
        try:
            self.prepare()
            with self.place, neighbours(self.options.busy):
                try:
                    self.measure()
                except Stopped as why:
                    say(f"stopped by {why}; what there is:")
                    status = 128 + why.args[0]
                finally:
                    self.runner.end()
        finally:
            self.runner.end()
        fallen = self.show()
        ours = {c.name for c in self.candidates if c.is_ours()}
        return status or int(fallen or any(name in ours for _, name in self.results.failures))
