/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "btl_ib_file_name.h"
#include "unit.h"

static const btl_ib_file_name_info_t info = {
    .host = "node7",
    .suffix = ".json",
    .job = 0xab01,
    .rank = 12,
    .pid = 4711,
};

static void makes(const char *pattern, const char *expected)
{
    char out[BTL_IB_FILE_NAME_MAX];

    assert_null(btl_ib_file_name_problem(pattern));
    assert_true(btl_ib_file_name_make(pattern, &info, out));
    assert_string_equal(out, expected);
}

TEST(names)
{
    makes("stats.%r", "stats.12");
    makes("/scratch/%h/%j-%r-%p.json", "/scratch/node7/0000ab01-12-4711.json");
    makes("%p", "4711");
    /* Processes must differ. */
    makes("stats", "stats.12");
    makes("%h-%j.json", "node7-0000ab01.json.12");
    makes("100%%", "100%.12");
    makes("%%r", "%r.12");
    /* Directories. */
    makes("out/", "out/btl_ib-0000ab01-12.json");
    makes("/", "/btl_ib-0000ab01-12.json");
    makes("%h/", "node7/btl_ib-0000ab01-12.json");
}

TEST(problems)
{
    static char longest[BTL_IB_FILE_NAME_MAX];

    assert_string_equal(btl_ib_file_name_problem(""), "it is empty");
    assert_string_equal(btl_ib_file_name_problem("%"), "what follows a % is none of these");
    assert_string_equal(btl_ib_file_name_problem("a%%%"), "what follows a % is none of these");
    assert_string_equal(btl_ib_file_name_problem("%d"), "what follows a % is none of these");
    assert_string_equal(btl_ib_file_name_problem("%%%s"), "what follows a % is none of these");
    memset(longest, 'x', sizeof(longest) - 1);
    assert_string_equal(btl_ib_file_name_problem(longest), "it is too long");
}

/* The longest that is allowed fits, unless what is filled in makes it too long. */
TEST(lengths)
{
    char pattern[BTL_IB_FILE_NAME_MAX / 4 + 1] = "";
    char host[64];
    char out[BTL_IB_FILE_NAME_MAX];
    btl_ib_file_name_info_t other = info;

    for (size_t i = 0; i + 2 < sizeof(pattern); i += 2) {
        memcpy(pattern + i, "%r", 3);
    }
    assert_null(btl_ib_file_name_problem(pattern));
    assert_true(btl_ib_file_name_make(pattern, &info, out));
    assert_int_equal(strlen(out), strlen(pattern));
    for (size_t i = 0; pattern[i] != '\0'; i += 2) {
        pattern[i + 1] = 'h';
    }
    memset(host, 'y', sizeof(host));
    host[sizeof(host) - 1] = '\0';
    other.host = host;
    assert_false(btl_ib_file_name_make(pattern, &other, out));
}

/* ---- making files ---- */

static void make_file(const char *name)
{
    struct stat status;
    const int fd = btl_ib_file_create(name);

    assert_in_range(fd, 0, INT32_MAX);
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(write(fd, "new", 3), 3);
    assert_int_equal(close(fd), 0);
}

static void assert_content(const char *name, const char *expected)
{
    char content[16] = "";
    const int fd = open(name, O_RDONLY);

    assert_in_range(fd, 0, INT32_MAX);
    assert_int_equal(read(fd, content, sizeof(content)), strlen(expected));
    assert_string_equal(content, expected);
    close(fd);
}

/* A second run replaces the file of the first. What others may have put there is neither followed
 * nor written over. */
TEST(creates)
{
    char directory[] = "/tmp/btl_ib_file_XXXXXX";

    assert_non_null(mkdtemp(directory));
    assert_int_equal(chdir(directory), 0);
    make_file("file");
    assert_int_equal(link("file", "precious"), 0);
    const int fd = open("precious", O_WRONLY | O_TRUNC);
    assert_int_equal(write(fd, "precious", 8), 8);
    close(fd);
    make_file("file");
    assert_content("file", "new");
    assert_content("precious", "precious");
    assert_int_equal(symlink("precious", "link"), 0);
    assert_int_equal(btl_ib_file_create("link"), -ELOOP);
    assert_content("precious", "precious");
    assert_int_equal(symlink("nowhere", "dangling"), 0);
    assert_int_equal(btl_ib_file_create("dangling"), -ELOOP);
    assert_int_equal(access("nowhere", F_OK), -1);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_int_equal(btl_ib_file_create("fifo"), -EEXIST);
    assert_int_equal(btl_ib_file_create("."), -EISDIR);
    assert_int_equal(btl_ib_file_create("none/file"), -ENOENT);
    if (geteuid() == 0) {
        assert_int_equal(chown("file", 1, 1), 0);
        assert_int_equal(btl_ib_file_create("file"), -EEXIST);
    }
    static const char *const made[] = {"file", "precious", "link", "dangling", "fifo"};
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
        assert_int_equal(unlink(made[i]), 0);
    }
    assert_int_equal(rmdir(directory), 0);
}

UNIT_MAIN(NULL, NULL)
