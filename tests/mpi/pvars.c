/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * A tool that looks at ib by MPI_T while ranks 0 and 1 exchange messages: prints how a counter
 * grows ("pvars: rank R after S s: <counter> = N"), and all counters of the process when the
 * messages are through ("pvars: rank R: <name> = N"). Fails if a name occurs twice, a counter goes
 * back, or what devices and peers count is not what the process counts.
 *
 *   seconds=S (2), bytes=N (1000), watch=NAME (btl_ib_retransmits)
 */

#include "common.h"

#include <stdbool.h>

enum { VARIABLES_MAX = 512, VALUES_MAX = 1024, WINDOW = 64 };

typedef unsigned long long value_t;

typedef struct variable {
    char name[96];
    int index, values;
    MPI_T_pvar_handle handle; /* while `values` is not 0 */
} variable_t;

static variable_t variables[VARIABLES_MAX];
static int variable_count;
static MPI_T_pvar_session session;

static bool begins(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool is_peer(const variable_t *v)
{
    return begins(v->name, "btl_ib_peer_");
}

static bool is_of_process(const variable_t *v)
{
    return !is_peer(v) && !begins(v->name, "btl_ib_device_") && !begins(v->name, "btl_ib_channel_");
}

/* Notes the variable, if it is one of ib's. */
static void note(int index)
{
    variable_t *v = &variables[variable_count];
    char text[512];
    int name_length = sizeof(v->name), text_length = sizeof(text);
    int level, class, bind, readonly, continuous, atomic;
    MPI_Datatype type;
    MPI_T_enum items;

    if (MPI_T_pvar_get_info(index, v->name, &name_length, &level, &class, &type, &items, text,
                            &text_length, &bind, &readonly, &continuous, &atomic)
            != MPI_SUCCESS
        || !begins(v->name, "btl_ib_")) {
        return;
    }
    if (type != MPI_UNSIGNED_LONG_LONG || bind != MPI_T_BIND_NO_OBJECT || !readonly || !continuous
        || text_length < 8) {
        fail("%s is not what btl_ib_stats.h says", v->name);
    }
    for (int i = 0; i < variable_count; i++) {
        if (strcmp(variables[i].name, v->name) == 0) {
            fail("%s is there twice", v->name);
        }
    }
    v->index = index;
    if (++variable_count == VARIABLES_MAX) {
        fail("more than %d variables", VARIABLES_MAX);
    }
}

/* What is bound before MPI_Init() counts from there on. How many peers there are shows later. */
static void bind_all(bool peers)
{
    for (int i = 0; i < variable_count; i++) {
        variable_t *v = &variables[i];
        if (is_peer(v) == peers
            && (MPI_T_pvar_handle_alloc(session, v->index, NULL, &v->handle, &v->values)
                    != MPI_SUCCESS
                || v->values > VALUES_MAX || (peers && size != v->values))) {
            fail("%s cannot be bound, or has %d values", v->name, v->values);
        }
    }
}

static const variable_t *named(const char *prefix, const char *name)
{
    char full[128];

    snprintf(full, sizeof(full), "%s%s", prefix, name);
    for (int i = 0; i < variable_count; i++) {
        if (strcmp(variables[i].name, full) == 0) {
            return &variables[i];
        }
    }
    return NULL;
}

static value_t read_sum(const variable_t *v)
{
    value_t values[VALUES_MAX], sum = 0;

    if (MPI_T_pvar_read(session, v->handle, values) != MPI_SUCCESS) {
        fail("%s cannot be read", v->name);
    }
    for (int i = 0; i < v->values; i++) {
        sum += values[i];
    }
    return sum;
}

/* Does the sum over devices, or peers, agree with the process? What others send meanwhile is
 * excused: it is read until nothing changed between. Those of peers count from later on. */
static void compare(const variable_t *of_process)
{
    const char *name = of_process->name + strlen("btl_ib_");
    const variable_t *others[] = {named("btl_ib_device_", name), named("btl_ib_peer_", name),
                                  named("btl_ib_channel_", name)};
    value_t before, sum[3], after;

    do {
        before = read_sum(of_process);
        for (int i = 0; i < 3; i++) {
            sum[i] = others[i] != NULL ? read_sum(others[i]) : before;
        }
        after = read_sum(of_process);
    } while (before != after);
    if (sum[0] != before || sum[1] > before || (before > 1000 && sum[1] == 0)) {
        fail("%s is %llu, of all devices %llu, of all peers %llu", name, before, sum[0], sum[1]);
    }
    if (sum[2] != before && (begins(name, "sent_") || sum[2] > before)) {
        fail("%s is %llu, of all channels %llu", name, before, sum[2]);
    }
}

/* A window of messages each way, or rank 0's decision that it was the last. */
static bool exchange(char *out, char *in, int bytes, bool last)
{
    MPI_Request requests[2 * WINDOW];
    const int other = 1 - rank;
    int decision = last;

    for (int i = 0; i < WINDOW; i++) {
        MPI_Irecv(in + (size_t) i * (size_t) bytes, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD,
                  &requests[i]);
    }
    for (int i = 0; i < WINDOW; i++) {
        MPI_Isend(out, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, &requests[WINDOW + i]);
    }
    MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE);
    if (rank == 0) {
        MPI_Send(&decision, 1, MPI_INT, other, 2, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&decision, 1, MPI_INT, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return decision != 0;
}

static void watch(const variable_t *v, int bytes, double seconds)
{
    char *out = get_memory((size_t) bytes), *in = get_memory((size_t) bytes * WINDOW);
    const double begun = seconds_now();
    double shown = begun;
    value_t value = 0;

    memset(out, 1, (size_t) bytes);
    for (bool last = false; !last;) {
        const double now = seconds_now();
        const value_t more = read_sum(v);
        if (more < value) {
            fail("%s was %llu and is %llu", v->name, value, more);
        }
        value = more;
        if (now - shown >= seconds / 5) {
            printf("pvars: rank %d after %.1f s: %s = %llu\n", rank, now - begun, v->name, value);
            shown = now;
        }
        last = exchange(out, in, bytes, now - begun > seconds);
    }
    free(out);
    free(in);
}

static void show_all(void)
{
    for (int i = 0; i < variable_count; i++) {
        if (is_of_process(&variables[i])) {
            compare(&variables[i]);
            printf("pvars: rank %d: %s = %llu\n", rank, variables[i].name, read_sum(&variables[i]));
        }
    }
    if (read_sum(named("btl_ib_peer_", "srtt")) == 0) {
        fail("no round trip was measured");
    }
}

int main(int argc, char **argv)
{
    int provided, count;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_get_num(&count);
    for (int i = 0; i < count; i++) {
        note(i);
    }
    bind_all(false);
    begin(&argc, &argv, "pvars");
    bind_all(true);
    const variable_t *watched = named("", arg_text(argc, argv, "watch", "btl_ib_retransmits"));
    if (size != 2 || watched == NULL) {
        fail("there is no such variable, among %d, or there are not two ranks", variable_count);
    }
    watch(watched, (int) arg(argc, argv, "bytes", 1000), arg(argc, argv, "seconds", 2));
    MPI_Barrier(MPI_COMM_WORLD);
    show_all();
    for (int i = 0; i < variable_count; i++) {
        MPI_T_pvar_handle_free(session, &variables[i].handle);
    }
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize(); /* after MPI_Finalize() Open MPI 4.1 crashes in it, over any BTL */
    finish();
    return 0;
}
