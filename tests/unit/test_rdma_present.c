/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What is known of RDMA devices without any library: by a /sys/class/infiniband of our own. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net_interfaces.h"
#include "unit.h"

#define CLASS "/sys/class/infiniband"

static int root = -1; /* of what stands for CLASS; -1: nothing does */

/* Opens it below root. */
static int open_ours(const char *name, int flags)
{
    const char *rest = name + strlen(CLASS);

    assert_memory_equal(name, CLASS, strlen(CLASS));
    errno = ENOENT;
    return root < 0 ? -1 : openat(root, rest[0] == '/' ? rest + 1 : ".", flags);
}

DIR *opendir(const char *name)
{
    const int fd = open_ours(name, O_RDONLY | O_DIRECTORY);

    return fd >= 0 ? fdopendir(fd) : NULL;
}

FILE *fopen(const char *name, const char *mode)
{
    const int fd = open_ours(name, O_RDONLY);

    (void) mode;
    return fd >= 0 ? fdopen(fd, "r") : NULL;
}

static void add_port(const char *device, const char *port, const char *state)
{
    char path[128];
    const char *const parts[] = {device, "ports", port};

    path[0] = '\0';
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        snprintf(path + strlen(path), sizeof(path) - strlen(path), "%s%s", i > 0 ? "/" : "",
                 parts[i]);
        assert_true(mkdirat(root, path, 0700) == 0 || errno == EEXIST);
    }
    snprintf(path + strlen(path), sizeof(path) - strlen(path), "/state");
    const int fd = openat(root, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, state, strlen(state)), strlen(state));
    (void) close(fd);
}

TEST(test_ports)
{
    char path[] = "/tmp/test_rdma_present.XXXXXX";
    char command[64];

    assert_false(btl_ib_rdma_present());
    assert_false(btl_ib_rdma_active());
    assert_non_null(mkdtemp(path));
    root = open(path, O_RDONLY | O_DIRECTORY);
    assert_true(root >= 0);
    assert_false(btl_ib_rdma_present());
    assert_false(btl_ib_rdma_active());
    add_port("rxe0", "1", "1: DOWN\n");
    add_port("mlx5_0", "1", "2: INIT\n");
    add_port("mlx5_0", "2", "");
    assert_true(btl_ib_rdma_present());
    assert_false(btl_ib_rdma_active());
    add_port("mlx5_0", "2", "4: ACTIVE\n");
    assert_true(btl_ib_rdma_present());
    assert_true(btl_ib_rdma_active());
    (void) close(root);
    snprintf(command, sizeof(command), "rm -r %s", path);
    assert_int_equal(system(command), 0);
}

UNIT_MAIN(NULL, NULL)
