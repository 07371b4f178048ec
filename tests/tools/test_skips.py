#!/usr/bin/env python3
# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""What tests/runner/skips.py lets be skipped."""

import sys
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))
from runner.skips import refusal  # noqa: E402

LINES = [
    "# a comment",
    "",
    "mpi/old* | mpirun of Open MPI 4 | [[ -e /proc/self ]]",
    "mpi/new* | mpirun of Open MPI 4 | [[ -e /proc/no-such-thing ]] || false",
    "lib/* | no mpicc | [[ -n $(openmpi_version) ]]",
]


class Skips(unittest.TestCase):
    def test_condition_holds(self):
        self.assertIsNone(refusal("mpi/old/2-ranks", "mpirun of Open MPI 4 is old", LINES))

    def test_condition_does_not_hold(self):
        why = refusal("mpi/new/2-ranks", "mpirun of Open MPI 4 is old", LINES)
        self.assertIn("here it is not so that [[ -e /proc/no-such-thing ]] || false", why)

    def test_other_reason(self):
        self.assertIn("not as tests/skips.txt", refusal("mpi/old", "the compiler crashed", LINES))

    def test_other_name(self):
        self.assertIn("not as tests/skips.txt", refusal("unit/x", "mpirun of Open MPI 4", LINES))

    def test_functions_of_the_library(self):
        self.assertIsNone(refusal("lib/x", "no mpicc", LINES))

    def test_each_line_has_a_condition(self):
        for line in (TESTS / "skips.txt").read_text().splitlines():
            if line and not line.startswith("#"):
                self.assertTrue(all(part.strip() for part in line.split("|", 2)), line)
                self.assertGreaterEqual(line.count("|"), 2, line)


if __name__ == "__main__":
    unittest.main()
