#!/bin/sh
# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Makes ./configure, for the build against an installed Open MPI. Inside an Open MPI source tree
# this is not used: run Open MPI's own autogen.pl there.
set -eu
cd "$(dirname "$0")"
mkdir -p config
exec autoreconf --install --force "$@"
