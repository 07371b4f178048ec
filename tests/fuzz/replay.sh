#!/bin/sh
# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Feeds every file of a fuzz target's corpus to it once, for `make check`.
set -u
corpus=${srcdir:-.}/tests/fuzz/corpus
status=0
for target in tests/fuzz/fuzz_*; do
    if [ ! -f "$target" ] || [ ! -x "$target" ]; then
        continue
    fi
    name=${target##*/fuzz_}
    set -- "$corpus/$name"/*
    [ -f "$1" ] || { echo "no corpus in $corpus/$name"; status=1; continue; }
    "$target" "$@" || { echo "$target failed"; status=1; }
done
exit $status
