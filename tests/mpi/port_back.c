/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The port of a second rail is down for longer than btl_ib_down_limit (to be set to 1) on rank 0,
 * and comes back: the job goes on over the other rail, and then by both, without a new connection.
 * Sockets know no ports, so what the transport says of its port or device is said here in its
 * stead; while it is down nothing goes out or comes in. Looks into the component, which is built of
 * the same headers.
 */

#include "component.h"

enum {
    BYTES = 100000,
    LIMIT = 30, /* s: a busy machine has pauses, and a path is asked about now and then */
};

static const btl_ib_transport_ops_t *real;
static bool down, told;

static btl_ib_rail_t *find_rail(uint32_t index)
{
    const btl_ib_engine_t *engine = find_component()->engine;

    if (index >= engine->rail_count) {
        fail("ib has no rail %u", index);
    }
    return engine->rails[index];
}

static int port_poll(btl_ib_transport_t *transport, uint64_t now, btl_ib_event_t *events, int max)
{
    if (down == told) {
        return down ? 0 : real->poll(transport, now, events, max);
    }
    told = down;
    events[0] = (btl_ib_event_t){.type = down ? BTL_IB_EVENT_DOWN : BTL_IB_EVENT_UP,
                                 .from = BTL_IB_ADDR_UNKNOWN,
                                 .error = down ? ENETDOWN : 0};
    return 1;
}

static int port_send(btl_ib_transport_t *transport, const btl_ib_tx_t *batch, int n, int *error)
{
    if (down) {
        *error = ENETDOWN;
        return 0;
    }
    return real->send(transport, batch, n, error);
}

static void exchange(double seconds)
{
    unsigned char *out = get_memory(BYTES), *in = get_memory(BYTES);
    const double until = seconds_now() + seconds;
    int go = 1;

    for (uint64_t round = 0; go; round++) {
        const uint64_t to = round << 8 | (uint64_t) (rank ^ 1), from = round << 8 | (uint64_t) rank;
        const int bytes = (int) (round % 3 == 0 ? BYTES : 100 + round % 1000);
        pattern_fill(out, (size_t) bytes, to);
        MPI_Sendrecv(out, bytes, MPI_BYTE, rank ^ 1, 1, in, bytes, MPI_BYTE, rank ^ 1, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        pattern_check(in, (size_t) bytes, from, "message");
        go = seconds_now() < until;
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    free(out);
    free(in);
}

/* How many connections of a rail go by it. */
static int by_its_own(const btl_ib_rail_t *rail)
{
    int number = 0;

    BTL_IB_LIST_FOREACH (btl_ib_conn_t, conn, &rail->engine->conns, all) {
        number += conn->rail == rail && conn->route.via == rail
                  && conn->identity.name != rail->engine->config.name;
    }
    return number;
}

/* Its port is down for long: rank 0 has told so, and nobody uses the rail. */
static bool given_up(const btl_ib_rail_t *rail)
{
    return rail->health.reported == (rank == 0) && by_its_own(rail) == 0;
}

static bool in_use(const btl_ib_rail_t *rail)
{
    return !rail->health.failed && by_its_own(rail) > 0;
}

/* Messages go on until both ranks are content, for LIMIT seconds at most. */
static void exchange_until(bool (*content)(const btl_ib_rail_t *), const btl_ib_rail_t *rail,
                           const char *when)
{
    const double until = seconds_now() + LIMIT;
    int all = 0;

    while (!all) {
        exchange(0.3);
        const int mine = content(rail);
        MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        if (!all && seconds_now() > until) {
            fail("%s: failed %d, told %d, %d connections use the rail", when, rail->health.failed,
                 rail->health.reported, by_its_own(rail));
        }
    }
}

int main(int argc, char **argv)
{
    static btl_ib_transport_ops_t ops;

    begin(&argc, &argv, "port_back");
    btl_ib_rail_t *rail = find_rail(1);

    need_ranks(2);
    exchange_until(in_use, rail, "at first");
    real = rail->transport->ops;
    ops = *real;
    ops.poll = port_poll;
    ops.send = port_send;
    rail->transport->ops = &ops;
    down = rank == 0;
    exchange_until(given_up, rail, "with the port down");
    down = false;
    exchange_until(in_use, rail, "with the port up again");
    finish();
    return 0;
}
