# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""One line for each test as it ends, with what tests/seconds.txt says that it takes; where none ends
for a while, what runs, and how long all of it will take; of those that failed the command, the end of
the log, and how to run it alone; last, which tests took much longer than that file says."""

import json
import re
import threading
import time

import pytest

from runner import waits
from runner.choose import name_of, plan_file
from runner.command import Failed
from runner.places import ROOT, log_of
from runner.retry import SECOND

# A terminal that says nothing for longer looks like one that hangs.
SILENCE = 30
TOOK = pytest.StashKey()
COMPLAINT = re.compile(r"FAIL|ERROR|error:|Sanitizer")


def pytest_addoption(parser):
    parser.getgroup("btl_ib").addoption(
        "--status-of-one",
        action="store_true",
        help="exit status 77 if the test was skipped, and why on the last line",
    )


def the_end_of(log):
    """The first complaints, where they are not in what comes last."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    complaints = [line for line in lines[:-20] if COMPLAINT.search(line)][:10]
    return [f"     | {line}" for line in complaints + lines[-20:]]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    name = name_of(item)
    report.user_properties.append(("name", name))
    # Most of the time of those that build is in their set-up.
    item.stash[TOOK] = (
        item.stash.get(TOOK, 0) * (call.when != "setup") + call.duration - waits.take()
    )
    report.user_properties.append(("seconds", item.stash[TOOK]))
    if not report.failed:
        return
    run, log = item.funcargs.get("run"), log_of(name)
    lines = []
    if call.excinfo.errisinstance(Failed):
        lines.append(f"{name}: {call.excinfo.value}")
    if run and run.commands:
        lines.append(f"command: {run.commands[-1]}")
    lines += the_end_of(log)
    nightly = " --nightly" * (item.get_closest_marker("long") is not None)
    lines += [f"log:     {log}", f"alone:   tools/check{nightly} --only '{name}'"]
    if call.excinfo.errisinstance(Failed):
        report.longrepr = "\n".join(lines)
    else:
        report.sections.append(("how to go on", "\n".join(lines)))


def property_of(report, key):
    return dict(report.user_properties).get(key)


def pytest_report_teststatus(report):
    """What pytest would print is left out: pytest_runtest_logreport() prints a line."""
    if report.when == "call" or not report.passed:
        return "error" if report.failed and report.when != "call" else report.outcome, "", ""
    return None


def minutes(seconds):
    return f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"


class Lines:
    """In the process that reports, which with xdist is not the one that tests."""

    def __init__(self, config):
        self.config = config
        self.passed = self.failed = self.skipped = self.second = 0
        self.why = ""
        # Of this run's tests names and expected seconds, by pytest's identifier; of those that run now
        # when they began; of those that ended (name, seconds, expected).
        self.plan, self.running, self.ended = {}, {}, []
        self.begun = self.written = time.monotonic()
        self.lock, self.over = threading.Lock(), threading.Event()

    def write(self, line):
        self.written = time.monotonic()
        self.config.pluginmanager.get_plugin("terminalreporter").write_line(line)

    def pytest_sessionstart(self):
        threading.Thread(target=self.tell_progress, daemon=True).start()

    def pytest_runtest_logstart(self, nodeid):
        with self.lock:
            self.plan = self.plan or json.loads(plan_file().read_text())
            self.running[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid):
        with self.lock:
            self.running.pop(nodeid, None)

    def tell_progress(self):
        """Until the session ends: a line wherever there was none for long."""
        while not self.over.wait(1):
            with self.lock:
                if self.running and time.monotonic() - self.written > SILENCE:
                    self.write(self.progress())

    def progress(self):
        now = time.monotonic()
        running = [
            f"{self.plan[nodeid][0]} ({minutes(now - since)} of {minutes(self.plan[nodeid][1])})"
            for nodeid, since in self.running.items()
        ]
        # What the table says is scaled by how it was right so far.
        ended = sum(expected for _, _, expected in self.ended)
        begun = sum(
            min(now - since, self.plan[nodeid][1]) for nodeid, since in self.running.items()
        )
        left = sum(expected for _, expected in self.plan.values()) - ended - begun
        took = (now - self.begun) / max(ended + begun, 1)
        failed = f", {self.failed} failed" if self.failed else ""
        return (
            f"...  {self.passed} of {len(self.plan)} passed{failed}; some {minutes(left * took)} left;"
            f" running: {', '.join(running)}"
        )

    def pytest_runtest_logreport(self, report):
        name = property_of(report, "name")
        second = ", the second time" if property_of(report, SECOND) else ""
        with self.lock:
            expected = self.plan.get(report.nodeid, (name, 0))[1]
            seconds = property_of(report, "seconds")
            if report.when == "call":
                self.ended.append((name, seconds, expected))
            took = f"{seconds:.1f} of {expected:g} s"
            if report.failed:
                self.failed += 1
                log = log_of(name)
                why = str(report.longrepr).splitlines()[0]
                where = log.relative_to(ROOT) if log.exists() else why
                self.write(f"FAIL {name} ({took}){second}; {where}")
            elif report.skipped:
                self.skipped += 1
                self.why = report.longrepr[2].removeprefix("Skipped: ")
                self.write(f"skip {name}: {self.why}")
            elif report.when == "call":
                self.passed += 1
                self.second += bool(second)
                if second:
                    first = log_of(name).with_suffix(".first.log").relative_to(ROOT)
                    second += f"; of the first: {first}"
                self.write(f"ok   {name} ({took}){second}")

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter):
        expected = sum(seconds for _, _, seconds in self.ended)
        took = sum(seconds for _, seconds, _ in self.ended)
        if len(self.ended) > 1:
            self.write(f"tests took {took:.0f} s, tests/seconds.txt says {expected:.0f} s")
        slow = [test for test in self.ended if test[1] > 5 and test[1] > 3 * test[2]]
        for name, seconds, expected in sorted(slow, key=lambda test: test[2] - test[1])[:10]:
            self.write(f"     {name} took {seconds:.0f} s instead of {expected:g}")
        if self.second:
            self.write(f"{self.second} passed the second time only: a fault to be looked for")

    def pytest_sessionfinish(self, session):
        self.over.set()
        only_skipped = self.skipped and not self.passed and not session.testsfailed
        if self.config.option.status_of_one and only_skipped:
            self.write(self.why)
            session.exitstatus = 77


def pytest_configure(config):
    option = config.option
    if not (hasattr(config, "workerinput") or option.list_names or option.plan):
        config.pluginmanager.register(Lines(config), "btl_ib lines")
