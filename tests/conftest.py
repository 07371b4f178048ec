# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""How tests are chosen, run and reported is in runner/; the tests themselves are in suite/."""

import signal
import sys

# A shell's background has interrupts ignored; whoever ends this ends it in order.
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.default_int_handler)
sys.dont_write_bytecode = True
pytest_plugins = [
    "runner.choose",
    "runner.turns",
    "runner.retry",
    "runner.report",
    "runner.skips",
    "runner.fixtures",
]
