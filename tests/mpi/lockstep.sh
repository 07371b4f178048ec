# shellcheck shell=bash
# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# What tests/mpi/budget and tests/rdma/budget share: jobs of `lockstep`, what was counted in them, and whether
# that is within a budget. Sourced after tools/lib.sh. A budget file has comments (#) and lines "name value".

results=()
# shellcheck disable=SC2154  # of tools/lib.sh
job_environment
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 143' TERM HUP INT

# Timers are set so that none goes off.
run_lockstep() { # WHAT ITERATIONS PAUSE MPIRUN-ARGUMENTS AND TOOL...: each rank of lockstep under that tool
    local what=$1 iterations=$2 pause=$3 options=()
    shift 3
    # shellcheck disable=SC2054  # commas within words
    options=(-np 2 --mca pml ob1 --mca btl ib,self --mca btl_ib_rto_initial 10000000
        --mca btl_ib_rto_min 1000000 --mca btl_ib_rto_max 10000000
        --mca btl_ib_ack_delay 10000 --mca btl_ib_progress_thread_ms 10000 --mca btl_ib_cc none)
    # A whole window must be able to leave before the receiver looks.
    [[ $what == stream ]] || options+=(--mca btl_ib_credit_init 4096 --mca btl_ib_credit_pool 0)
    # shellcheck disable=SC2154  # of tools/lib.sh
    timeout 120 "${mpirun[@]}" "${options[@]}" "$@" "$build/tests/mpi/lockstep" "what=$what" \
        "iterations=$iterations" "pause=$pause" </dev/null >"$scratch/log" 2>&1 || {
        cat "$scratch/log"
        die "$what of $iterations iterations with $* failed"
    }
}

add_result() { # NAME VALUE MESSAGES: for so many messages
    results+=("$1 $(awk -v value="$2" -v count="$3" 'BEGIN {printf "%.4f", value / count}')")
}

# Writes the results into the budget file; those that were not measured now stay.
set_budget() { # FILE
    ((${#results[@]})) || die "nothing was measured"
    {
        sed -n '/^#/p' "$1"
        {
            sed '/^#/d' "$1"
            printf '%s\n' "${results[@]}"
        } | awk '{if (!($1 in value)) {order[++n] = $1} value[$1] = $2}
            END {for (i = 1; i <= n; i++) {printf "%-36s %12.3f\n", order[i], value[order[i]]}}'
    } >"$scratch/new"
    cat "$scratch/new" >"$1"
    cat "$1"
}

# Prints each result with its budget and a verdict. Status 1 if one grew by more than a tenth; what shrank by as
# much is told, for then the budget should be lowered. Receive requests are posted in rows: chance may have one row more.
keep_to_budget() { # FILE
    printf '%s\n' "${results[@]}" | awk -v file="$1" '
        BEGIN {
            while ((getline line <file) > 0) {
                split(line, part, " ")
                if (line !~ /^#/) {budget[part[1]] = part[2]}
            }
        }
        {
            verdict = "ok"
            if (!($1 in budget)) {verdict = "FAIL: no budget"; bad = 1}
            else if ($2 > 1.1 * budget[$1] + ($1 ~ /receive_requests$/ ? 0.02 : 0.002)) {verdict = "FAIL: grew"; bad = 1}
            else if ($2 < 0.5 * budget[$1] - 0.1) {verdict = "FAIL: not counted, or a budget that is far too high"; bad = 1}
            else if ($2 < 0.9 * budget[$1] - 0.002) {verdict = "shrank: lower the budget"}
            printf "%-36s %12.3f, budget %12.3f  %s\n", $1, $2, budget[$1], verdict
        }
        END {exit bad}'
}
