#!/bin/sh
# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# A short simulator run for `make check`; tools/check runs more seeds.
exec tests/sim/btl_ib_sim --seeds "${BTL_IB_SIM_SEEDS:-100}"
