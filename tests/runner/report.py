# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""One line for each test as it ends; of those that failed the command, the end of the log, and how
to run it alone."""

import re

import pytest

from runner.choose import name_of
from runner.command import Failed
from runner.places import ROOT, log_of
from runner.retry import SECOND

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
    if not report.failed:
        return
    run, log = item.funcargs.get("run"), log_of(name)
    lines = []
    if call.excinfo.errisinstance(Failed):
        lines.append(f"{name}: {call.excinfo.value}")
    if run and run.commands:
        lines.append(f"command: {run.commands[-1]}")
    lines += the_end_of(log)
    lines += [f"log:     {log}", f"alone:   tools/check --only '{name}'"]
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


class Lines:
    """In the process that reports, which with xdist is not the one that tests."""

    def __init__(self, config):
        self.config = config
        self.passed = self.skipped = self.second = 0
        self.why = ""

    def write(self, line):
        self.config.pluginmanager.get_plugin("terminalreporter").write_line(line)

    def pytest_runtest_logreport(self, report):
        name = property_of(report, "name")
        second = ", the second time" if property_of(report, SECOND) else ""
        if report.failed:
            log = log_of(name)
            why = str(report.longrepr).splitlines()[0]
            where = log.relative_to(ROOT) if log.exists() else why
            self.write(f"FAIL {name} ({report.duration:.1f} s){second}; {where}")
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
            self.write(f"ok   {name} ({report.duration:.1f} s){second}")

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter):
        if self.second:
            self.write(f"{self.second} passed the second time only: a fault to be looked for")

    def pytest_sessionfinish(self, session):
        only_skipped = self.skipped and not self.passed and not session.testsfailed
        if self.config.option.status_of_one and only_skipped:
            self.write(self.why)
            session.exitstatus = 77


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Lines(config), "btl_ib lines")
