#!/usr/bin/env python3
# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of tools/bench: its parts by themselves, and short runs. Nothing here asserts a time.

test_bench.py Parts | OverDevices | Namespaces (needs root) | Hosts, with BUILD in the environment for the last two.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ElementTree
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "tools/bench"
sys.path.insert(0, str(ROOT / "tools"))
sys.path.append(str(ROOT / "info"))
from btl_ib_bench import baseline, candidates, devices, places, plan, plots, report, runner, session  # noqa: E402
from btl_ib_bench.networks import NETWORKS  # noqa: E402
from btl_ib_bench.results import Results  # noqa: E402

CLEAN = plan.Condition()
HANGS = "hangs=tcp sh -c 'exec sleep 1000'"  # what follows are arguments of sh


def turn_of(name, *sizes):
    return plan.Turn(CLEAN, plan.WHATS[name], sizes, 0.1)


def options_of(*words):
    """As tools/bench reads them."""
    loader = SourceFileLoader("bench", str(BENCH))
    module = module_from_spec(spec_from_loader("bench", loader))
    loader.exec_module(module)
    return module.parse(words)


def bench_of(jobs, *words, cores=()):
    """A session whose jobs do not run: jobs(program, number of the call) makes their outcomes."""
    bench = session.Bench(options_of("--hosts", "localhost", "--what", "latency", "--sizes", "8", *words))
    calls = []

    def run(commands, program, limit):
        calls.append(program)
        return [jobs(program, calls.count(program)) for _ in commands]

    bench.programs = Path("/programs")
    bench.runner.jobs = run
    bench.place = mock.MagicMock(interface="eth0")
    bench.place.two_cores.return_value = cores
    with mock.patch("time.sleep"), mock.patch.object(session, "say"):
        bench.measure()
    bench.results.judge()
    return bench, calls


class Parts(unittest.TestCase):
    def test_sizes(self):
        self.assertEqual(plan.parse_sizes("64K,8,1MiB,8"), (8, 65536, 1 << 20))
        self.assertEqual(plan.parse_sizes("sweep")[-1], 4 << 20)
        for text in ("", "8,", "x", "-1", "0", "2048M", "1.5K"):
            with self.assertRaises(ValueError, msg=text):
                plan.parse_sizes(text)
        self.assertEqual([plan.size_text(n) for n in (8, 1500, 2048, 3 << 20)],
                         ["8 B", "1500 B", "2 KiB", "3 MiB"])

    def test_candidates(self):
        made = candidates.make(["ib", "floor"], ["x=tcp --mca a b", "ib=--mca btl ib", "y=--mca pml 'p q'"])
        self.assertEqual([c.name for c in made], ["ib", "floor", "x", "y"])
        self.assertEqual(made[0].options, ["--mca", "btl", "ib"])
        self.assertEqual(made[2].options[-3:], ["--mca", "a", "b"])
        self.assertEqual(made[2].mca("btl"), "tcp,self")
        self.assertEqual(made[3].options, ["--mca", "pml", "p q"])
        for names, own in ((["no"], []), (["ib"], ["x"]), (["ib"], ["7=x"]), (["ib"], ["=x"])):
            with self.assertRaises(ValueError):
                candidates.make(names, own)

    def test_what_is_under_loss_by_default(self):
        lossy = plan.Condition(1, "off")
        turns = plan.turns([CLEAN, lossy], plan.DEFAULT_WHATS, (), 0.1, False)
        self.assertEqual([t.what.name for t in turns if t.condition == lossy], ["latency", "streaming"])
        turns = plan.turns([lossy], ["rate"], (8,), 0.1, True)
        self.assertEqual([(t.what.name, t.sizes) for t in turns], [("rate", (8,))])

    def test_programs_of_a_what(self):
        """Its arguments, sizes and ranks; the floor stands in with a ping-pong where it cannot do it."""
        made = []

        def jobs(commands, program, limit):
            made.extend((program, words) for words in commands)
            return [runner.Outcome({8: {"p50": 1.0, "GB/s": 1.0}}) for _ in commands]

        bench = session.Bench(options_of("--hosts", "a,b,c", "--mpirun", "true", "--what", "bulk-beside", "--rounds",
                                         "1", "--candidates", "ib,floor"))
        bench.programs, bench.runner.jobs = Path("/programs"), jobs
        with mock.patch.object(session, "say"):
            bench.measure()
        self.assertEqual([program for program, _ in made], ["floor", "mixed"])
        self.assertIn("what=latency", made[0][1])
        for word in ("to=2", "bulk=1048576", "bytes=8", "3"):
            self.assertIn(word, made[1][1])

    def test_slots(self):
        """All but the floor run at the same time, each with slots of its own; who failed has none any more."""
        bench = session.Bench(options_of("--loopback", "--what", "latency", "--sizes", "8", "--loss", "0", "--slots",
                                         "50", "--candidates", "ib,tcp,rxm,floor", "--rounds", "2"))
        made = []

        def jobs(commands, program, limit):
            made.append((program, [word for words in commands for word in words if word.startswith("slots=")]))
            failed = len(commands) == 3
            return [runner.Outcome({8: {"p50": 1.0}}, "it broke" if failed and "tcp" in str(words) else "")
                    for words in commands]

        bench.programs, bench.runner.jobs = Path("/programs"), jobs
        bench.place = mock.MagicMock(interface="")
        bench.place.two_cores.return_value = ()
        bench.place.command.return_value, bench.place.program = ["mpirun"], lambda words, *_: words
        with mock.patch.object(session, "say"):
            bench.measure()
        self.assertEqual([program for program, _ in made], ["floor", "pingpong"] * 2)
        self.assertEqual([len(slots) for _, slots in made], [0, 3, 0, 1])
        first = [re.fullmatch(r"slots=(\d)/3/0.05/([\d.]+)", slot) for slot in made[1][1]]
        self.assertEqual([match[1] for match in first], ["0", "1", "2"])
        self.assertEqual(len({match[2] for match in first}), 1)
        self.assertRegex(made[3][1][0], "slots=0/1/")

    def test_slots_refused(self):
        for words, why in ((("--what", "latency,incast", "--loopback"), "not with incast"),
                           (("--hosts", "a,b", "--mpirun", "true"), "on one machine"), (("--loopback",), "1 to 10000")):
            slots = "0.5" if why.startswith("1") else "50"
            with self.assertRaisesRegex(ValueError, f"--slots {slots}: .*{why}"):
                session.Bench(options_of("--slots", slots, *words))

    def test_cores_that_all_ranks_share(self):
        place = places.Namespaces(4, 1500, False, False)
        with mock.patch("os.sched_getaffinity", return_value=set(range(8))):
            shared, own = place.program(["x"], 4, 2), place.program(["x"], 4)
        self.assertEqual(shared[:3], ["taskset", "-c", "0,1"])
        self.assertNotIn("0,1", own)
        self.assertEqual(plan.WHATS["alltoall-2-cores"].cores, 2)

    def test_figures_are_read(self):
        text = "noise\nstream bytes=8 window=64 messages/s=1234 GB/s=0.01\nother bytes=8 x=1\nOK stream\n"
        self.assertEqual(runner.read_figures("stream", text), {8: {"window": 64, "messages/s": 1234, "GB/s": 0.01}})

    def test_complaints(self):
        box = "[h:1] note\n" + 30 * "-" + "\nA requested thing was\nnot found.\n\nmore\n" + 30 * "-" + "\n"
        self.assertEqual(runner.complaint(box), "A requested thing was not found.")
        self.assertEqual(runner.complaint(box + "FAIL stream: wrong data\n"), "FAIL stream: wrong data")
        self.assertEqual(runner.complaint(""), "it said nothing")

    def results(self, floors):
        """Rounds of one turn whose floor took so long; ib takes as long as the round's number."""
        results, turn = Results(0.15), turn_of("latency", 8)
        for number, floor in enumerate(floors, 1):
            results.check(turn, number, {8: floor}, False)
            results.add(turn, number, "floor", {8: {"p50": floor}})
            results.add(turn, number, "ib", {8: {"p50": float(number)}})
            results.add(turn, number, "tcp", {8: {"p50": 8.0}})
        return results, turn

    def test_rounds_with_a_slow_floor_do_not_count(self):
        results, turn = self.results([3.0, 6.0, 3.1, 3.5, 2.9])
        self.assertEqual(results.judge(), [])
        self.assertEqual([number for _, number, _ in results.discarded], [2, 4])
        self.assertEqual(results.median(turn, "ib", 8, "p50"), 3)  # of 1, 3, 5
        self.assertEqual(results.median(turn, "floor", 8, "p50"), 3.0)

    def test_rates_of_the_floor_are_better_if_more(self):
        results, turn = Results(0.15), turn_of("rate", 8)
        for number, rate in enumerate((100, 80, 99), 1):
            results.check(turn, number, {8: rate}, True)
            results.add(turn, number, "ib", {8: {"messages/s": number}})
        results.judge()
        self.assertEqual([number for _, number, _ in results.discarded], [2])

    def test_if_no_round_is_quiet_all_count_and_it_is_said(self):
        results, turn = self.results([3.0, 3.0])
        results.check(turn, 3, {8: 1.0}, False)  # one that was given up at its floor
        self.assertEqual(results.judge(), [turn])
        self.assertEqual(results.discarded, [])
        self.assertEqual(results.median(turn, "ib", 8, "p50"), 1.5)

    def test_a_round_begins_again_if_its_floor_is_slow(self):
        floors = [3.0, 9.0, 9.0, 3.1, 3.0]
        bench, calls = bench_of(
            lambda program, n: runner.Outcome({8: {"p50": floors[n - 1] if program == "floor" else n}}),
            "--candidates", "ib,floor", "--rounds", "3")
        self.assertEqual(calls, ["floor", "pingpong", "floor", "floor", "floor", "pingpong", "floor", "pingpong"])
        self.assertEqual((bench.abandoned, bench.began_rounds), (2, 5))
        self.assertEqual(bench.results.median(bench.turns[0], "ib", 8, "p50"), 2)

    def test_it_does_not_begin_again_for_ever(self):
        bench, calls = bench_of(
            lambda program, n: runner.Outcome({8: {"p50": 3.0 if n == 1 else 9.0}}),
            "--candidates", "ib,floor", "--rounds", "2")
        self.assertEqual(calls.count("pingpong"), 2)
        self.assertEqual(calls.count("floor"), 2 + 2 * 2)
        self.assertEqual([number for _, number, _ in bench.results.discarded], [2])

    def test_samples_of_cores_that_share_no_cache_do_not_count(self):
        """The second job began, and the third ended, when they shared none. Where nothing else is, all count."""
        near, far = {262144: {"GB/s": 4.7}}, {262144: {"GB/s": 1.4}}
        probes = [near, near, far, near, near, far, near, near]

        def jobs(program, number):
            return runner.Outcome(probes[number - 1] if program == session.HANDOVER else {8: {"p50": number}})

        words = ("--candidates", "ib", "--rounds", "4")
        bench, calls = bench_of(jobs, *words, cores=(0, 1))
        self.assertEqual(calls, [session.HANDOVER, "pingpong", session.HANDOVER] * 4)
        self.assertEqual([s.kept for s in bench.results.samples], [True, False, False, True])
        self.assertEqual([s.handover for s in bench.results.samples], [4.7, 1.4, 1.4, 4.7])
        self.assertEqual(bench.results.far, 2)
        self.assertTrue(any("shared no cache" in note for note in bench.notes([])))
        probes = [near] * 7 + [far]
        bench, _ = bench_of(jobs, "--candidates", "ib,tcp", "--rounds", "2", cores=(0, 1))
        self.assertEqual(bench.results.far, 1)
        for probes in ([far] * 8, [{}] * 8):
            bench, _ = bench_of(jobs, *words, cores=(0, 1))
            self.assertEqual((bench.results.far, len([s for s in bench.results.samples if s.kept])), (0, 4))

    def test_one_that_failed_is_not_asked_again(self):
        bench, calls = bench_of(lambda program, n: runner.Outcome({}, "it broke"), "--candidates", "ib,floor")
        self.assertEqual(calls, ["floor", "pingpong"])
        self.assertEqual(len(list(bench.notes([]))), 3)

    def test_numbers(self):
        for value, text in ((None, "-"), (1234567.8, "1,234,568"), (123.4, "123"), (4.567, "4.57"), (0.4567, "0.457"),
                            (0.0123, "0.0123"), (0.00012, "0.000120")):
            self.assertEqual(report.number(value), text)

    def test_table(self):
        results, turn = self.results([3.0, 3.0, 3.0])
        results.failures[turn, "rxd"] = runner.Outcome(failure="cut off")
        results.judge()
        made = candidates.make(["ib", "tcp", "rxd", "ucx", "floor"], [])
        made[3].missing = "not built"
        _, columns, rows = report.Report(results, [turn], made).table(turn)
        self.assertEqual(columns, ["size", "figure", "ib", "tcp", "rxd", "floor", "ib : best peer", "ib : floor"])
        self.assertEqual(rows[0], ["8 B", "p50", "2.00", "8.00", "failed", "3.00", "0.25 tcp", "0.67"])

    def test_plots(self):
        results, turn = self.results([3.0])
        one = turn_of("rate", 8, 64)
        for size in one.sizes:
            results.add(one, 1, "a<b", {size: {"messages/s": 1000.0 * size}})
        results.judge()
        ours = [candidates.Candidate("ib", ""), candidates.Candidate("a<b", "")]
        with tempfile.TemporaryDirectory() as place:
            files = plots.Plots(results, [turn, one], ours).write(Path(place, "plots"))
            self.assertEqual([f.name for f in files], ["latency-clean-p50.svg", "rate-clean-messages-s.svg"])
            texts = [element.text for element in ElementTree.parse(files[1]).iter() if element.text]
            self.assertIn("a<b", texts)
            self.assertIn("64 B", texts)
            both = Path(place, "both.svg")
            self.assertEqual(plots.Plots(results, [turn, one], ours).write(both), [both])
            texts = [element.text for element in ElementTree.parse(both).iter() if element.text]
            self.assertTrue({"latency, clean", "rate, clean"} <= set(texts))

    def test_plots_need_matplotlib(self):
        with mock.patch.dict(sys.modules, {"matplotlib": None}), \
                self.assertRaisesRegex(RuntimeError, "^--svg needs matplotlib, .*python3-matplotlib"):
            session.Bench(options_of("--hosts", "localhost", "--svg", "x.svg"))


class Against(unittest.TestCase):
    """This tree beside an earlier build."""

    def results(self, name, new, old):
        """Rounds of one turn in which both were measured; in one more only this tree was."""
        results, turn = Results(0.15), turn_of(name, 8)
        figure = turn.what.figures[0]
        for number, (mine, before) in enumerate(zip(new, old), 1):
            results.add(turn, number, "ib", {8: {figure: mine}})
            results.add(turn, number, "ib-old", {8: {figure: before}})
        results.add(turn, len(new) + 1, "ib", {8: {figure: 1000.0}})
        return results, turn

    def row(self, name, new, old):
        results, turn = self.results(name, new, old)
        return baseline.table(results, [turn], "ib", "ib-old")[2][0][3:]

    def test_ratios_are_of_speeds_within_a_round(self):
        self.assertEqual(self.row("rate", [20.0, 10.0, 5.0], [10.0, 10.0, 5.0]), ["1.00", "1.00 to 1.50", "3", ""])
        self.assertEqual(self.row("latency", [5.0], [10.0]), ["2.00", "2.00 to 2.00", "1", ""])

    def test_a_row_has_fallen_only_beyond_its_spread(self):
        self.assertEqual(self.row("rate", [9.0, 9.5, 9.6], [10.0, 10.0, 10.0])[-1], "FALLEN")
        self.assertEqual(self.row("rate", [9.0, 9.0, 11.0], [10.0, 10.0, 10.0])[-1], "")
        self.assertEqual(self.row("latency", [11.0, 10.8, 10.6], [10.0, 10.0, 10.0])[-1], "FALLEN")

    def test_what_was_not_measured_has_not_passed(self):
        self.assertEqual(self.row("rate", [], [])[-1], "not measured")

    def test_what_it_names(self):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "old"
            (folder / "build/plugin").mkdir(parents=True)
            with self.assertRaisesRegex(ValueError, "--against .*old: no mca_btl_ib.so"):
                baseline.Baseline(ROOT, str(folder), Path(place))
            (folder / "build/plugin/mca_btl_ib.so").touch()
            found = baseline.Baseline(ROOT, str(folder), Path(place))
        self.assertEqual(found.name, "ib-old")
        definition = found.definition("OMPI_MCA_mca_base_component_path")
        made = candidates.make([], [definition])[-1]
        self.assertTrue(made.is_ours())
        self.assertRegex(made.mca("mca_base_component_path"), r"/old/build/plugin:SYS_DEFAULT:USER_DEFAULT$")
        for text in ("no-such-commit", "--help"):
            with self.assertRaisesRegex(ValueError, f"--against {text}: neither a commit"):
                baseline.Baseline(ROOT, text, Path("/nowhere"))

    def test_needs_ib(self):
        with self.assertRaisesRegex(ValueError, "ib is not among the candidates"):
            session.Bench(options_of("--loopback", "--against", str(ROOT), "--candidates", "tcp"))


class OverDevices(unittest.TestCase):
    """RDMA devices: who is compared, what is refused, what a job is told; a directory stands for the kernel's."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        for device, port, state in (("mlx5_0", 1, "1: DOWN"), ("mlx5_0", 2, "4: ACTIVE"), ("mlx5_00", 1, "4: ACTIVE"),
                                    ("off0", 1, "1: DOWN")):
            directory = Path(place.name, device, "ports", str(port))
            directory.mkdir(parents=True)
            (directory / "state").write_text(state + "\n")
            (directory / "rate").write_text("100 Gb/sec (4X EDR)\n")
        patched = mock.patch.object(devices, "SYSFS", Path(place.name))
        patched.start()
        self.addCleanup(patched.stop)

    def bench(self, *words):
        return session.Bench(options_of("--mpirun", "true", "--what", "latency", "--sizes", "8", *words))

    def refused(self, why, *words):
        with self.assertRaisesRegex(ValueError, why):
            self.bench(*words)

    def test_which_port(self):
        for asked, here, found in ((None, True, "mlx5_0:2"), ("mlx5_0", True, "mlx5_0:2"), ("mlx5_00", True, "mlx5_00:1"),
                                   ("mlx5_0:2", True, "mlx5_0:2"), ("far0", False, "far0:1"), ("far0:3", False, "far0:3")):
            self.assertEqual(devices.choose(asked, here, "--over ud"), found)
        self.assertEqual(devices.about("mlx5_0:2"), {"rate": "100 Gb/sec (4X EDR)"})

    def test_what_is_refused(self):
        over = ("--over", "ud")
        self.refused("--namespaces is for Ethernet, not for --over ud", *over, "--namespaces", "2")
        self.refused("--loss is for namespaces", *over, "--loss", "1")
        self.refused("--mtu is for namespaces", *over, "--mtu", "4096")
        self.refused("--offloads is for namespaces", *over, "--offloads", "off")
        self.refused("no such RDMA device; active: mlx5_0:2, mlx5_00:1", *over, "--interface", "rxe0")
        self.refused("mlx5_0:1: that port is not active", *over, "--interface", "mlx5_0:1")
        self.refused("off0: that port is not active", *over, "--interface", "off0")
        self.refused("wants the name of an RDMA device", *over, "--interface", "10.1.0.0/16")
        self.refused("no candidate rxm over ud: ib, rxd, ucx, floor", *over, "--candidates", "ib,rxm")
        self.refused("no candidate tcp over rc: ib, rxm, ucx, floor", "--over", "rc", "--candidates", "tcp")
        with mock.patch.object(devices, "SYSFS", Path("/proc/none")):
            self.refused("this host has no RDMA device with an active port$", *over)
            self.refused("--interface DEVICE.:PORT. says", *over, "--hosts", "a,b")

    def test_what_is_compared(self):
        for wire, names in (("ud", ["ib", "rxd", "ucx", "floor"]), ("rc", ["ib", "rxm", "ucx", "floor"])):
            bench = self.bench("--over", wire)
            self.assertEqual([c.name for c in bench.candidates], names)
            self.assertEqual(str(bench.place), f"this machine, {wire} over mlx5_0:2")
        self.assertEqual(str(self.bench("--over", "rc", "--hosts", "a,b", "--interface", "x").place),
                         "hosts a, b, rc over x:1")

    def test_everybody_is_told_the_device(self):
        told = {}
        for candidate in candidates.make(None, [], NETWORKS["ud"]):
            candidate.use_interface("mlx5_0:2", NETWORKS["ud"])
            told[candidate.name] = " ".join(candidate.options)
        self.assertRegex(told["ib"], "btl_ib_transport verbs .*btl_ib_wire ud .*btl_ib_if_include mlx5_0:2")
        self.assertRegex(told["rxd"], "verbs;ofi_rxd .*FI_UNIVERSE_SIZE=2 .*FI_VERBS_DEVICE_NAME=mlx5_0$")
        self.assertRegex(told["ucx"], "UCX_TLS=ud_v,self .*UCX_NET_DEVICES=mlx5_0:2")
        self.assertNotIn("mlx5_0", told["floor"] + " ".join(self.bench("--over", "ud").place.command(2)))

    def test_the_floor_is_of_queue_pairs(self):
        bench, commands = self.bench("--over", "rc", "--candidates", "ib,floor", "--rounds", "1"), []
        bench.programs = Path("/programs")

        def jobs(words, program, limit):
            commands.append((program, words[0]))
            return [runner.Outcome({8: {"p50": 1.0}})]

        bench.runner.jobs = jobs
        with mock.patch.object(session, "say"), mock.patch.object(bench.place, "two_cores", return_value=()):
            bench.measure()
        self.assertEqual([program for program, _ in commands], ["floor_verbs", "pingpong"])
        for word in ("what=latency", "wire=rc", "device=mlx5_0:2"):
            self.assertIn(word, commands[0][1])

    def test_a_core_for_each_rank_of_one_host(self):
        def bound(hosts, mpirun, ranks):
            return "core" in places.Hosts(hosts, mpirun, "x:1", NETWORKS["ud"]).command(ranks)

        with mock.patch("os.sched_getaffinity", return_value={0, 1}):
            self.assertTrue(bound([], ["mpirun"], 2))
            self.assertFalse(bound([], ["mpirun"], 4))
            self.assertFalse(bound(["a", "b"], ["mpirun"], 2))
            self.assertFalse(bound([], ["mpirun", "--bind-to", "none"], 2))


class Live(unittest.TestCase):
    """What Namespaces and Hosts share."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = Path(place.name)
        self.env = {**os.environ, "NSPFX": f"tb{os.getpid()}h"}

    def start(self, *arguments):
        words = [sys.executable, str(BENCH), "--build", os.environ["BUILD"], "--seconds", "0.02", "--rounds", "1", *arguments]
        process = subprocess.Popen(words, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.terminate)
        return process

    def run_it(self, *arguments):
        process = self.start(*arguments)
        out, err = process.communicate()
        return process.returncode, out, err

    def nothing_is_left(self):
        self.assertNotIn(self.env["NSPFX"], subprocess.run(["ip", "netns"], capture_output=True, text=True).stdout)
        for environ in Path("/proc").glob("[0-9]*/environ"):
            try:
                theirs = f"NSPFX={self.env['NSPFX']}".encode() in environ.read_bytes()
            except OSError:
                continue
            self.assertFalse(theirs, environ)


class Namespaces(Live):
    def test_a_run(self):
        table, svg = self.place / "results.json", self.place / "all.svg"
        status, out, err = self.run_it(
            "--candidates", "ib,floor", "--candidate", "gone=--mca pml nosuch",
            "--candidate", "broken=--mca pml ob1 --mca btl self", "--what", "latency,streaming", "--sizes", "8,16K",
            "--loss", "0,1", "--limit", "100", "--json", str(table), "--svg", str(svg))
        self.assertEqual(status, 0, out + err)
        self.nothing_is_left()
        self.assertRegex(out, r"(?m)^latency, clean: us one way, less is better$")
        self.assertRegex(out, r"(?m)^streaming, 1 % loss, offloads off: GB/s, more is better; floor without loss$")
        self.assertRegex(out, r"(?m)^ *size +figure +ib +floor +broken +ib : best peer +ib : floor$")
        self.assertRegex(out, r"(?m)^ *8 B +p99\.9 +[\d.,]+ .* failed")
        self.assertRegex(out, r"(?m)^gone is not there: this Open MPI has no pml nosuch$")
        self.assertRegex(out, r"(?m)^broken failed, latency, clean: .*\w{4}")
        self.assertRegex(err, r"round 1 of 1, latency, clean: ib \(\d+:\d\d left\)")
        self.results(json.loads(table.read_text()))
        self.plots(svg)

    def results(self, read):
        self.assertEqual([c["name"] for c in read["candidates"]], ["ib", "floor", "gone", "broken"])
        self.assertTrue(read["versions"]["Open MPI"])
        self.assertTrue(read["machine"]["kernel"].startswith("Linux"))
        measured = {(s["what"], s["loss"], s["candidate"], s["size"]) for s in read["samples"] if s["figures"]}
        for what, size in (("latency", 8), ("latency", 16384), ("streaming", 16384)):
            for loss in (0, 1):
                self.assertIn((what, loss, "ib", size), measured)
        self.assertIn(("latency", 0, "floor", 8), measured)
        self.assertFalse({name for _, _, name, _ in measured} - {"ib", "floor"})
        self.assertEqual({f["candidate"] for f in read["failures"]}, {"broken"})
        # Open MPI 4 sometimes garbles the help text that a remote rank sends to mpirun; ORTE says so then.
        self.assertRegex(read["failures"][0]["output"], "MPI|ORTE")
        self.assertEqual(len(read["medians"]), len(measured))

    def plots(self, path):
        texts = {e.text for e in ElementTree.parse(path).iter() if e.text}
        for text in ("latency, clean", "streaming, 1 % loss, offloads off", "ib", "floor", "16 KiB"):
            self.assertIn(text, texts)

    def test_one_that_hangs_is_cut_off_and_given_up(self):
        status, out, err = self.run_it("--candidates", "tcp", "--candidate", HANGS, "--what", "rate", "--sizes", "8",
                                       "--loss", "0", "--limit", "20", "--rounds", "2")
        self.assertEqual(status, 0, out + err)
        self.assertRegex(out, r"(?m)^rate, clean.*\n.*\n *8 B +messages/s +[\d.,]+ +failed$")
        self.assertRegex(out, r"(?m)^hangs failed, rate, clean: cut off after \d+ s$")
        self.assertEqual(len(re.findall(r"(?m)^bench: round \d of 2, rate, clean: tcp", err)), 2)
        self.assertEqual(len(re.findall(r"(?m)^bench: round \d of 2, rate, clean: hangs", err)), 1)
        self.nothing_is_left()

    def test_two_hosts_of_ones_own(self):
        nshosts = str(ROOT / "tools/nshosts")
        subprocess.run([nshosts, "up", "2"], env=self.env, check=True)
        self.addCleanup(subprocess.run, [nshosts, "down"], env=self.env)
        hosts = ",".join(self.env["NSPFX"] + n for n in "12")
        status, out, err = self.run_it("--hosts", hosts, "--mpirun", f"{nshosts} run", "--candidates", "ib,floor",
                                       "--what", "both-ways", "--sizes", "64K", "--limit", "100")
        self.assertEqual(status, 0, out + err)
        self.assertRegex(out, r"(?m)^64 KiB +GB/s +[\d.]+ +[\d.]+ +- +[\d.]+$")

    def test_in_slots(self):
        status, out, err = self.run_it("--candidates", "ib,tcp", "--what", "latency,streaming-hot,allreduce", "--sizes",
                                       "64K", "--slots", "20", "--seconds", "0.1", "--loss", "0", "--limit", "100")
        self.assertEqual(status, 0, out + err)
        self.assertRegex(err, r"(?m)^bench: 4 namespaces on veth, MTU 1500; 1 rounds, in slots of 20 ms$")
        for what, figure in (("latency", "p50"), ("streaming-hot", "GB/s"), ("allreduce", "mean")):
            self.assertRegex(out, rf"(?m)^{what}, clean: .*\n.*\n *64 KiB +{figure} +[\d.,]+ +[\d.,]+ +[\d.]+ tcp")

    def test_beside_and_incast(self):
        status, out, err = self.run_it("--candidates", "ib", "--what", "beside-other-bulk,bulk-beside,incast,peers-rate",
                                       "--sizes", "8", "--loss", "0", "--limit", "100")
        self.assertEqual(status, 0, out + err)
        for what, figure in (("beside-other-bulk", "p50"), ("bulk-beside", "GB/s"), ("incast", "MB/s"),
                             ("peers-rate", "messages/s")):
            self.assertRegex(out, rf"(?m)^{what}, clean: .*\n.*\n *8 B +{figure} +[\d.,]+")

    def test_collectives_and_offloads(self):
        status, out, err = self.run_it("--candidates", "ib", "--what", "allreduce,alltoall", "--sizes", "8",
                                       "--offloads", "nogso", "--loss", "0", "--mtu", "9000", "--limit", "100")
        self.assertEqual(status, 0, out + err)
        self.assertRegex(err, r"4 namespaces on veth, MTU 9000")
        for what in ("allreduce", "alltoall"):
            self.assertRegex(out, rf"(?m)^{what}, clean, offloads nogso: .*\n.*\n *8 B +mean +[\d.,]+")

    def links_are_lossy(self):
        """As nsbad and the kernel tell it."""
        rules = subprocess.run([ROOT / "tools/nsbad", "show"], env=self.env, capture_output=True, text=True).stdout
        self.assertEqual(len(re.findall("numgen random mod 10000 < 500 ", rules)), 2, rules)
        features = subprocess.run(["ip", "netns", "exec", self.env["NSPFX"] + "1", "ethtool", "-k", "eth0"],
                                  capture_output=True, text=True).stdout
        self.assertIn("tx-udp-segmentation: off", features)

    def test_stopped(self):
        process = self.start("--candidates", "ib", "--candidate", HANGS, "--what", "rate", "--loss", "5",
                             "--limit", "100")
        for line in process.stderr:
            if re.search(r"rate, 5 % loss, offloads off: hangs", line):
                break
        self.links_are_lossy()
        time.sleep(1)  # mpirun is on its way
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        self.assertEqual(process.returncode, 130, out + err)
        self.assertRegex(err, "stopped by SIGINT")
        self.assertRegex(out, r"(?m)^ *8 B +messages/s +[\d.,]+")
        self.nothing_is_left()


class Hosts(Live):
    def test_against_itself(self):
        status, out, err = self.run_it("--loopback", "--against", os.environ["BUILD"], "--what", "latency,incast", "--sizes",
                                       "8", "--slots", "20", "--limit", "100", "--loss", "0")
        name = "ib-" + Path(os.environ["BUILD"]).name
        self.assertIn(status, (0, 1), out + err)
        self.assertRegex(out, rf"(?m)^ib : {name}, speed: ")
        for what in ("latency", "incast"):
            self.assertRegex(out, rf"(?m)^ *{what} +clean +8 B +[\d.]+ +[\d.]+ to [\d.]+ +1( +FALLEN)?$")

    def test_a_run(self):
        # By lo: btl tcp of Open MPI 5.0 takes other addresses within a host only if it likes them.
        status, out, err = self.run_it("--hosts", "localhost", "--interface", "lo", "--candidates", "ib,tcp,floor",
                                       "--what", "latency,rate", "--sizes", "64", "--limit", "100", "--markdown")
        self.assertEqual(status, 0, out + err)
        self.assertRegex(out, r"(?m)^\*\*latency, clean: us one way, less is better\*\*$")
        self.assertRegex(out, r"(?m)^\| size \| figure \| ib \| tcp \| floor \| ib : best peer \| ib : floor \|$")
        self.assertRegex(out, r"(?m)^\| 64 B \| messages/s \| [\d.,]+ \| [\d.,]+ \| [\d.,]+ \| [\d.]+ tcp ")
        self.nothing_is_left()


if __name__ == "__main__":
    unittest.main()
