/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * What tools see of parameters by MPI_T: "<name> <type> = <value>, <n> items", where n counts
 * those of its enumeration.
 *
 *   name=btl_ib_ack_delay    which, with commas
 */

#include "common.h"

#include <inttypes.h>

typedef union value {
    int number;
    unsigned positive;
    size_t large;
    char text[4096];
} value_t;

static int find(const char *wanted)
{
    int index;

    if (MPI_T_cvar_get_index(wanted, &index) != MPI_SUCCESS) {
        fail("MPI_T knows no %s", wanted);
    }
    return index;
}

/* Of enumerations: how many items, 0 if it is none. */
static int items_of(MPI_T_enum type)
{
    char name[64];
    int length = sizeof(name);
    int items = 0;

    if (type != MPI_T_ENUM_NULL
        && MPI_T_enum_get_info(type, &items, name, &length) != MPI_SUCCESS) {
        fail("an enumeration without a name");
    }
    return items;
}

static void show(const char *wanted)
{
    char name[128];
    int length = sizeof(name);
    int level, bind, scope, count;
    MPI_Datatype type;
    MPI_T_enum items;
    MPI_T_cvar_handle handle;
    value_t value;
    const int index = find(wanted);

    if (MPI_T_cvar_get_info(index, name, &length, &level, &type, &items, NULL, NULL, &bind, &scope)
            != MPI_SUCCESS
        || MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS
        || (size_t) count > sizeof(value) || MPI_T_cvar_read(handle, &value) != MPI_SUCCESS) {
        fail("%s cannot be read", wanted);
    }
    if (type == MPI_INT) {
        printf("%s int = %d, %d items\n", name, value.number, items_of(items));
    } else if (type == MPI_UNSIGNED) {
        printf("%s unsigned = %u, %d items\n", name, value.positive, items_of(items));
    } else if (type == MPI_CHAR) {
        printf("%s char = %s, %d items\n", name, value.text, items_of(items));
    } else {
        printf("%s size_t = %zu, %d items\n", name, value.large, items_of(items));
    }
    MPI_T_cvar_handle_free(&handle);
}

int main(int argc, char **argv)
{
    char names[8192];
    char *next = names;
    char *name;
    int provided;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    begin(&argc, &argv, "cvars");
    snprintf(names, sizeof(names), "%s", arg_text(argc, argv, "name", "btl_ib_ack_delay"));
    while ((name = strsep(&next, ",")) != NULL) {
        show(name);
    }
    MPI_T_finalize(); /* after MPI_Finalize() Open MPI 4.1 crashes in it, over any BTL */
    finish();
    return 0;
}
