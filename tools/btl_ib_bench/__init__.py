# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""The parts of tools/bench: candidates, plan, places, runner, results, report, plots."""
