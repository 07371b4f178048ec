/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Derived datatypes: every pair of layouts of the same signature, one on each side, from eager to
 * rendezvous sizes. What must arrive is made from the same stream by MPI_Unpack into a second
 * buffer; comparing whole buffers shows wrong data and overwritten holes alike.
 */

#include "common.h"

#include <stddef.h>

#define UNIT  24 /* integers in one element of each layout */
#define TYPES 6

static MPI_Datatype types[TYPES];
static const char *const names[TYPES] = {"contiguous", "vector",   "indexed",
                                         "hindexed",   "subarray", "resized"};

static void make_types(void)
{
    MPI_Type_contiguous(UNIT, MPI_INT, &types[0]);
    MPI_Type_vector(8, 3, 7, MPI_INT, &types[1]);

    int lengths[] = {1, 5, 2, 9, 7};
    int displacements[] = {3, 5, 20, 11, 30};
    MPI_Type_indexed(5, lengths, displacements, MPI_INT, &types[2]);

    int hlengths[] = {10, 14};
    MPI_Aint hdisplacements[] = {400, 4};
    MPI_Type_create_hindexed(2, hlengths, hdisplacements, MPI_INT, &types[3]);

    int sizes[] = {9, 10}, subsizes[] = {4, 6}, starts[] = {2, 3};
    MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &types[4]);

    MPI_Datatype row;
    MPI_Type_vector(UNIT, 1, 2, MPI_INT, &row);
    MPI_Type_create_resized(row, -16, 16 + 4 * 2 * UNIT + 12, &types[5]);
    MPI_Type_free(&row);
    for (int i = 0; i < TYPES; i++) {
        MPI_Type_commit(&types[i]);
    }
}

/* A buffer in which `count` elements lie, whatever the lower bound. */
typedef struct room {
    unsigned char *memory;
    unsigned char *origin; /* the address to hand to MPI */
    size_t bytes;
} room_t;

static room_t make_room(MPI_Datatype type, int count, unsigned char fill)
{
    MPI_Aint lower, extent;
    MPI_Type_get_extent(type, &lower, &extent);
    room_t room;
    room.bytes = (size_t) extent * (size_t) count + 1024;
    room.memory = get_memory(room.bytes);
    room.origin = room.memory + 256;
    memset(room.memory, fill, room.bytes);
    return room;
}

/* The stream that travels: packed bytes of one element's signature after the other. */
static void exchange(MPI_Datatype out, MPI_Datatype in, int count, size_t unit_bytes,
                     const char *what)
{
    int bytes = (int) unit_bytes * count, position = 0;
    int partner = rank ^ 1;
    unsigned char *stream = get_memory((size_t) bytes);
    room_t mine = make_room(out, count, 0x11);

    pattern_fill(stream, (size_t) bytes, (uint64_t) rank);
    MPI_Unpack(stream, bytes, &position, mine.origin, count, out, MPI_COMM_SELF);

    room_t got = make_room(in, count, 0xa5);
    room_t expected = make_room(in, count, 0xa5);
    position = 0;
    pattern_fill(stream, (size_t) bytes, (uint64_t) partner);
    MPI_Unpack(stream, bytes, &position, expected.origin, count, in, MPI_COMM_SELF);

    MPI_Request requests[2];
    MPI_Irecv(got.origin, count, in, partner, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(mine.origin, count, out, partner, 3, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (memcmp(got.memory, expected.memory, got.bytes) != 0) {
        fail("%s, %d elements: data or holes differ", what, count);
    }
    free(stream);
    free(mine.memory);
    free(got.memory);
    free(expected.memory);
}

typedef struct record {
    char c;
    double d;
    int i[3];
    short s;
} record_t;

/* The same members, as C lays them out and back to front with gaps. */
static void mixed_members(const int *counts, int ncounts)
{
    int lengths[] = {1, 1, 3, 1};
    MPI_Datatype members[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT, MPI_SHORT};
    MPI_Aint forward[] = {offsetof(record_t, c), offsetof(record_t, d), offsetof(record_t, i),
                          offsetof(record_t, s)};
    MPI_Aint backward[] = {60, 40, 16, 6};
    MPI_Datatype plain, a, b;

    MPI_Type_create_struct(4, lengths, forward, members, &plain);
    MPI_Type_create_resized(plain, 0, sizeof(record_t), &a);
    MPI_Type_commit(&a);
    MPI_Type_create_struct(4, lengths, backward, members, &b);
    MPI_Type_commit(&b);
    for (int i = 0; i < ncounts; i++) {
        exchange(a, b, counts[i], 23, "struct to struct back to front");
        exchange(b, a, counts[i], 23, "struct back to front to struct");
    }
    MPI_Type_free(&plain);
    MPI_Type_free(&a);
    MPI_Type_free(&b);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv, "datatypes");
    need_ranks(2);
    static const int counts[] = {0, 1, 2, 13, 40, 130, 700, 9000};
    int ncounts = (int) (sizeof(counts) / sizeof(counts[0]));
    char what[64];

    make_types();
    if ((rank | 1) < size) {
        for (int out = 0; out < TYPES; out++) {
            for (int in = 0; in < TYPES; in++) {
                snprintf(what, sizeof(what), "%s to %s", names[out], names[in]);
                for (int i = 0; i < ncounts; i++) {
                    exchange(types[out], types[in], counts[i], UNIT * sizeof(int), what);
                }
            }
        }
        mixed_members(counts, ncounts);
    }
    for (int i = 0; i < TYPES; i++) {
        MPI_Type_free(&types[i]);
    }
    finish();
    return 0;
}
