# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""The parts of tools/bench: networks, candidates, plan, places, devices, runner, results, report, plots."""
