/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What tells hosts apart: equal for processes that share a kernel and a network, and for no
 * others. */

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "btl_ib_host_id.h"
#include "unit.h"

static btl_ib_host_t here(void)
{
    return btl_ib_host(BTL_IB_HOST_BOOT_ID, BTL_IB_HOST_NETWORK);
}

/* What a child that goes elsewhere first finds. Returns whether it could go. */
static int in_child(int flags, btl_ib_host_t *found)
{
    int pipe_ends[2];
    int status;

    assert_int_equal(pipe(pipe_ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        const int gone = flags == 0 || unshare(flags) == 0 || unshare(flags | CLONE_NEWUSER) == 0;
        const btl_ib_host_t host = here();

        _exit(gone && sizeof(host) == write(pipe_ends[1], &host, sizeof(host)) ? 0 : 1);
    }
    close(pipe_ends[1]);
    const ssize_t size = read(pipe_ends[0], found, sizeof(*found));
    close(pipe_ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return sizeof(*found) == size;
}

TEST(test_same)
{
    const btl_ib_host_t host = here();
    btl_ib_host_t other;

    assert_int_not_equal(host.machine, 0);
    assert_int_not_equal(host.network, 0);
    assert_int_not_equal(host.network, host.machine);
    assert_true(in_child(0, &other));
    assert_memory_equal(&host, &other, sizeof(host));
}

TEST(test_own_network)
{
    const btl_ib_host_t host = here();
    btl_ib_host_t other;

    if (!in_child(CLONE_NEWNET, &other)) {
        print_message("skipped: no network namespace of its own\n");
        skip();
    }
    assert_true(host.machine == other.machine);
    assert_int_not_equal(other.network, 0);
    assert_true(host.network != other.network);
}

/* Another kernel; also where it numbers its namespaces alike. */
TEST(test_other_machine)
{
    static const char *const ids[] = {"11111111-2222-3333-4444-555555555555\n",
                                      "11111111-2222-3333-4444-555555555556\n"};
    btl_ib_host_t hosts[2];

    for (int i = 0; i < 2; i++) {
        char name[] = "/tmp/btl_ib_host.XXXXXX";
        const int fd = mkstemp(name);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, ids[i], strlen(ids[i])), strlen(ids[i]));
        close(fd);
        hosts[i] = btl_ib_host(name, BTL_IB_HOST_NETWORK);
        unlink(name);
        assert_int_not_equal(hosts[i].machine, 0);
        assert_int_not_equal(hosts[i].network, 0);
    }
    assert_true(hosts[0].machine != hosts[1].machine);
    assert_true(hosts[0].network != hosts[1].network);
}

TEST(test_not_told)
{
    btl_ib_host_t host = btl_ib_host("/nowhere", BTL_IB_HOST_NETWORK);

    assert_true(host.machine == 0 && host.network == 0);
    host = btl_ib_host("/dev/null", BTL_IB_HOST_NETWORK);
    assert_true(host.machine == 0 && host.network == 0);
    host = btl_ib_host(BTL_IB_HOST_BOOT_ID, "/nowhere");
    assert_true(here().machine == host.machine && host.network == 0);
}

UNIT_MAIN(NULL, NULL)
