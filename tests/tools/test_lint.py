#!/usr/bin/env python3
# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""What tests/lint/run makes of what tools say, and of tools that end too early."""

import collections
import importlib.machinery
import importlib.util
import sys
import unittest
from pathlib import Path

RUN = Path(__file__).resolve().parents[1] / "lint/run"
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("lint_run", str(RUN))
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("lint_run", loader))
loader.exec_module(run)

FOUND = f"{run.ROOT}/btl_ib.h:7:2: warning: this may be NULL [CWE-476] [-Wanalyzer-x]"
ENTRY = ("analyzer", "-Wanalyzer-x", "btl_ib.h", "this may be NULL")


class Lint(unittest.TestCase):
    def look(self, script):
        """With a shell as the tool."""
        run.WORK = run.ROOT
        run.commands = lambda tool, source, flags: ["sh", "-c", script]
        return run.look("analyzer", "a.c", [])

    def test_findings(self):
        found = self.look(f"echo '{FOUND}'; echo '{FOUND}'; echo 'a.c: In function f:'")
        self.assertEqual(list(found), [("analyzer", "btl_ib.h", "7", *ENTRY[1:2], ENTRY[3])])

    def test_crash(self):
        for script, why in (
            (f"echo '{FOUND}'; kill -SEGV $$", "status -11"),
            ("echo gone; exit 3", "status 3: gone"),
            ("exit 1", "said nothing"),
            ("echo 'a.c:1:1: fatal error: no b.h'", "no b.h"),
        ):
            with self.assertRaisesRegex(run.Unfinished, f"a.c: analyzer.*{why}"):
                self.look(script)

    def test_list(self):
        found = {("analyzer", "btl_ib.h", line, ENTRY[1], ENTRY[3]): True for line in ("7", "9")}
        for times, of_tool, lines in (
            (2, "analyzer", 0),
            (1, "analyzer", 2),
            (3, "analyzer", 1),
            (3, "tidy", 0),
        ):
            entries = collections.Counter({ENTRY: times})
            self.assertEqual(len(run.differences(found, entries, (of_tool,))), lines)


if __name__ == "__main__":
    unittest.main()
