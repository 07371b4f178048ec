/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The ranks that osc/rdma of Open MPI 4.1.0 to 4.1.4 takes for others: its table is filled in and
 * read here as it does. */

#include <string.h>

#include "btl_ib_osc.h"
#include "unit.h"

enum { PROCESSES = 70 };

/* Fills in the table: entry i of part n is about rank n * part + i; what stays empty about rank
 * 0. */
static uint32_t fill_in(uint32_t processes, uint32_t hosts, uint32_t table[][PROCESSES])
{
    const uint32_t part = (processes + hosts - 1) / hosts;

    for (uint32_t n = 0; n < hosts; n++) {
        memset(table[n], 0, sizeof(table[n]));
        for (uint32_t i = 0; i < part && n * part + i < processes; i++) {
            table[n][i] = n * part + i;
        }
    }
    return part;
}

TEST(all_are_found_that_its_table_has_elsewhere)
{
    static uint32_t table[PROCESSES][PROCESSES];

    for (uint32_t processes = 1; processes < PROCESSES; processes++) {
        for (uint32_t hosts = 1; hosts <= processes; hosts++) {
            const uint32_t part = fill_in(processes, hosts, table);
            uint32_t count = 0, rank = 0, other = 0, said_rank = 0, said_other = 0;
            for (uint32_t i = 0; i < processes; i++) {
                const uint32_t found = table[i * hosts / processes][i % part];
                if (found != i && count++ == 0) {
                    rank = i;
                    other = found;
                }
            }
            assert_int_equal(btl_ib_osc_mistaken_ranks(processes, hosts, &said_rank, &said_other),
                             count);
            assert_int_equal(said_rank, rank);
            assert_int_equal(said_other, other);
        }
    }
}

TEST(two_hosts_and_parts_of_one_size_have_none)
{
    uint32_t rank, other;

    for (uint32_t processes = 1; processes < 10000; processes += 7) {
        assert_int_equal(btl_ib_osc_mistaken_ranks(processes, 1, &rank, &other), 0);
        assert_int_equal(btl_ib_osc_mistaken_ranks(processes, 2, &rank, &other), 0);
        assert_int_equal(btl_ib_osc_mistaken_ranks(13 * processes, 13, &rank, &other), 0);
    }
}

TEST(behind_the_last_rank_it_reads_rank_0)
{
    uint32_t rank, other;

    assert_int_equal(btl_ib_osc_mistaken_ranks(4, 3, &rank, &other), 1);
    assert_int_equal(rank, 3);
    assert_int_equal(other, 0);
}

TEST(elsewhere_it_reads_another_rank)
{
    uint32_t rank, other;

    assert_int_equal(btl_ib_osc_mistaken_ranks(6, 4, &rank, &other), 2);
    assert_int_equal(rank, 3);
    assert_int_equal(other, 5);
}

TEST(what_the_runtime_does_not_say_is_not_judged)
{
    uint32_t rank, other;

    assert_int_equal(btl_ib_osc_mistaken_ranks(0, 3, &rank, &other), 0);
    assert_int_equal(btl_ib_osc_mistaken_ranks(4, 0, &rank, &other), 0);
}

UNIT_MAIN(NULL, NULL)
