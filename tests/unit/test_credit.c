/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#include <errno.h>

#include "btl_ib_credit.h"
#include "support.h"
#include "unit.h"

/* A receiver and what its sender knows and did. */
typedef struct pair {
    btl_ib_credit_t credit;
    btl_ib_credit_pool_t *pool;
    const btl_ib_queue_t *queue;
    uint32_t received; /* the next sequence, as nothing gets lost */
    uint32_t sent;     /* the sender's next sequence */
    uint32_t known;    /* the limit that the sender knows */
    bool gap;          /* something is missing before what is received next */
} pair_t;

static btl_ib_queue_t make_queue(uint32_t num, uint32_t low, uint32_t window)
{
    return (btl_ib_queue_t){
        .type = BTL_IB_QUEUE_PER_PEER,
        .size = 128,
        .num = num,
        .low = low,
        .window = window,
        .reserve = 1,
    };
}

static bool legal(const btl_ib_queue_t *queue)
{
    btl_ib_queue_table_t table = {.count = 1, .q = {*queue}};

    return btl_ib_queues_check(&table) == 0;
}

static void pair_init(pair_t *p, btl_ib_credit_pool_t *pool, const btl_ib_queue_t *queue,
                      uint32_t init, uint32_t first)
{
    *p = (pair_t){.pool = pool, .queue = queue, .received = first, .sent = first};
    btl_ib_credit_init(&p->credit, pool, queue, init, first, 1);
    p->known = first + btl_ib_credit_initial(queue, init);
    assert_int_equal(p->credit.limit, p->known);
    assert_int_equal(p->credit.told, p->known);
}

/* The guarantee: for each right that the peer has there is a buffer, and none is forgotten. */
static void check(const pair_t *p)
{
    uint32_t outstanding = p->credit.limit - p->received;

    assert_int_equal(p->credit.grant, outstanding + p->credit.used);
    /* No batch is left waiting. */
    uint32_t low = (uint32_t) ((uint64_t) p->queue->low * p->credit.grant / p->queue->num);
    assert_true(outstanding > low);
    assert_in_range(p->credit.grant, 1, p->queue->num);
    assert_in_range(outstanding, 1, p->credit.grant);
    assert_true((int32_t) (p->credit.limit - p->credit.told) >= 0);
}

static void receive(pair_t *p)
{
    uint32_t limit = p->credit.limit;

    p->received++;
    btl_ib_credit_use(&p->credit, p->pool, p->queue, 1, p->gap);
    assert_true((int32_t) (p->credit.limit - limit) >= 0); /* it never goes back */
    check(p);
}

static void tell(pair_t *p)
{
    const uint32_t limit = p->credit.limit;

    btl_ib_credit_top_up(&p->credit);
    assert_true((int32_t) (p->credit.limit - limit) >= 0);
    check(p);
    p->credit.told = p->credit.limit;
    p->known = p->credit.limit;
}

TEST(test_initial)
{
    const uint32_t firsts[] = {0, 5, 0xfffffff0, 0xffffffff};

    for (int i = 0; i < 4; i++) {
        btl_ib_credit_pool_t pool = {.depth = 20};
        btl_ib_queue_t queue = make_queue(16, 8, 4);
        pair_t a, b, c;

        assert_int_equal(btl_ib_credit_initial(&queue, 4), 4);
        assert_int_equal(btl_ib_credit_initial(&queue, 16), 16);
        assert_int_equal(btl_ib_credit_initial(&queue, 17), 16);
        pair_init(&a, &pool, &queue, 4, firsts[i]);
        assert_int_equal(a.credit.limit, firsts[i] + 4);
        assert_int_equal(pool.granted, 4);
        pair_init(&b, &pool, &queue, 16, firsts[i]);
        assert_int_equal(pool.granted, 20);
        /* Also from a pool that is spent: the peer counts on it already. */
        pair_init(&c, &pool, &queue, 4, firsts[i]);
        assert_int_equal(pool.granted, 24);
        check(&c);
        assert_false(btl_ib_credit_due(&c.credit, false));
        queue.window = 1; /* less than one of so small a grant: there must be something to return */
        assert_false(btl_ib_credit_due(&c.credit, false));
        btl_ib_credit_fini(&a.credit, &pool);
        btl_ib_credit_fini(&b.credit, &pool);
        btl_ib_credit_fini(&c.credit, &pool);
        assert_int_equal(pool.granted, 0);
    }
}

/* Credits come free in one batch, when `low` buffers are left. */
TEST(test_batches)
{
    for (uint32_t num = 2; num <= 40; num++) {
        for (uint32_t low = 1; low < num; low++) {
            btl_ib_credit_pool_t pool = {.depth = 0};
            btl_ib_queue_t queue = make_queue(num, low, 1);
            pair_t p;

            pair_init(&p, &pool, &queue, num, 0xffffffc0);
            for (uint32_t n = 1; n <= 5 * num; n++) {
                uint32_t batch = num - low;
                receive(&p);
                assert_int_equal(p.credit.used, n % batch);
                assert_int_equal(p.credit.limit, 0xffffffc0 + num + n / batch * batch);
                assert_int_equal(p.credit.grant, num);
            }
            assert_int_equal(pool.granted, num);
        }
    }
}

/* With the whole queue granted an explicit return is due when `window` credits are banked, or all
 * but a quarter, not one earlier, and not again before as many are. */
TEST(test_due)
{
    for (uint32_t num = 2; num <= 40; num++) {
        for (uint32_t low = 1; low < num; low++) {
            uint32_t batch = num - low;
            for (uint32_t window = 1; window <= num / batch * batch; window++) {
                btl_ib_credit_pool_t pool = {.depth = 0};
                btl_ib_queue_t queue = make_queue(num, low, window);
                pair_t p;
                uint32_t banked = 0;
                const uint32_t enough = window < num - num / 4 ? window : num - num / 4;

                pair_init(&p, &pool, &queue, num, 7);
                for (uint32_t n = 1; n <= 6 * num; n++) {
                    receive(&p);
                    banked++;
                    bool due = banked >= enough;
                    assert_int_equal(btl_ib_credit_due(&p.credit, false), due);
                    if (due) {
                        tell(&p);
                        assert_int_equal(p.known - p.received, num);
                        banked = 0;
                        assert_false(btl_ib_credit_due(&p.credit, false));
                    }
                }
            }
        }
    }
}

/* What will be told soon anyway is due only when the peer is out of credits. */
TEST(test_due_soon)
{
    btl_ib_credit_pool_t pool = {.depth = 0};
    btl_ib_queue_t queue = make_queue(16, 12, 4);
    pair_t p;

    pair_init(&p, &pool, &queue, 16, 7);
    for (int n = 1; n <= 16; n++) {
        receive(&p); /* reposted in batches of 4 */
        assert_int_equal(btl_ib_credit_due(&p.credit, false), n >= 4);
        assert_int_equal(btl_ib_credit_due(&p.credit, true), n == 16);
    }
}

/* A limit that went along with something else is no longer due. */
TEST(test_piggybacked)
{
    btl_ib_credit_pool_t pool = {.depth = 0};
    btl_ib_queue_t queue = make_queue(16, 8, 8);
    pair_t p;

    pair_init(&p, &pool, &queue, 16, 0xfffffff8);
    for (int n = 0; n < 100; n++) {
        receive(&p);
        tell(&p);
        assert_false(btl_ib_credit_due(&p.credit, false));
    }
}

/* A peer that uses its grant up gets twice as much, up to num. */
TEST(test_growth)
{
    btl_ib_credit_pool_t pool = {.depth = 1000};
    btl_ib_queue_t queue = make_queue(100, 50, 25);
    uint32_t grant = 3;
    pair_t p;

    pair_init(&p, &pool, &queue, 3, 0xfffffff0);
    while (grant < 100) {
        uint32_t low = 50 * grant / 100;
        for (uint32_t n = grant; n > low + 1; n--) {
            receive(&p);
            assert_int_equal(p.credit.grant, grant);
        }
        receive(&p);
        grant = 2 * grant < 100 ? 2 * grant : 100;
        assert_int_equal(p.credit.grant, grant);
        assert_int_equal(pool.granted, grant);
        assert_int_equal(p.credit.limit - p.received, grant);
    }
    for (int n = 0; n < 1000; n++) {
        receive(&p);
        assert_int_equal(p.credit.grant, 100);
    }
    assert_int_equal(pool.granted, 100);
}

static uint32_t part(uint32_t depth, uint32_t peers, const btl_ib_queue_t *queue)
{
    uint32_t least = btl_ib_credit_initial(queue, queue->init);
    uint32_t share = depth / peers > least ? depth / peers : least;

    return share < queue->num ? share : queue->num;
}

/* What others hold is not granted twice: all get the same, and what one leaves is the others'.
 * protocol: R49 */
TEST(test_shares)
{
    btl_ib_queue_t queue = make_queue(8, 4, 2);

    queue.init = 2;
    for (uint32_t depth = 8; depth <= 40; depth++) {
        btl_ib_credit_pool_t pool = {.depth = depth};
        pair_t p[4];

        for (int i = 0; i < 4; i++) {
            pair_init(&p[i], &pool, &queue, queue.init, 0xfffffffe);
        }
        for (int n = 0; n < 400; n++) {
            receive(&p[n % 4]);
            assert_true(pool.granted <= depth);
        }
        for (int i = 0; i < 4; i++) {
            assert_int_equal(p[i].credit.grant, part(depth, 4, &queue));
        }
        receive(&p[0]);
        btl_ib_credit_fini(&p[0].credit, &pool);
        assert_int_equal(p[0].credit.used, 0); /* a dead connection holds no buffers */
        assert_int_equal(p[0].credit.grant, 0);
        for (int n = 0; n < 400; n++) {
            receive(&p[1 + n % 3]);
            assert_true(pool.granted <= depth);
        }
        for (int i = 1; i < 4; i++) {
            assert_int_equal(p[i].credit.grant, part(depth, 3, &queue));
        }
        assert_int_equal(pool.granted, 3 * part(depth, 3, &queue));
    }
}

/* A peer that was alone had all. One that comes late gets its share as soon as the other has used
 * as much, and one that rests leaves its share to those that do not. */
TEST(test_late)
{
    btl_ib_credit_pool_t pool = {.depth = 118};
    btl_ib_queue_t queue = make_queue(1024, 512, 64);
    pair_t early, late;

    queue.init = 16;
    pair_init(&early, &pool, &queue, queue.init, 0xffffff00);
    for (int n = 0; n < 1000; n++) {
        receive(&early);
    }
    assert_int_equal(early.credit.grant, 118);
    pair_init(&late, &pool, &queue, queue.init, 1);
    for (int n = 0; n < 16; n++) {
        receive(&late);
    }
    assert_int_equal(late.credit.grant, 16); /* there is nothing */
    early.gap = true; /* perhaps of a SKIP, which counts on what was granted */
    for (int n = 0; n < 118; n++) {
        receive(&early);
        assert_int_equal(early.credit.grant, 118);
    }
    early.gap = false;
    for (int n = 0; n < 118; n++) {
        receive(&early);
        assert_true(pool.granted <= 118 + 16);
    }
    assert_int_equal(early.credit.grant, 59);
    for (int n = 0; n < 100; n++) {
        receive(&late);
        assert_true(pool.granted <= 118);
    }
    assert_int_equal(late.credit.grant, 59);
    btl_ib_credit_rest(&early.credit, &pool);
    btl_ib_credit_rest(&early.credit, &pool); /* once is enough */
    assert_int_equal(early.credit.grant, 59); /* that much it may use at once */
    btl_ib_credit_give_back(&early.credit, &pool, &queue, early.credit.limit - early.received - 16);
    for (int n = 0; n < 300; n++) {
        receive(&late);
    }
    assert_int_equal(late.credit.grant, 118 - early.credit.grant);
    btl_ib_credit_fini(&late.credit, &pool);
    btl_ib_credit_fini(&early.credit, &pool);
    assert_int_equal(pool.granted, 0);
    assert_int_equal(pool.busy, 0);
}

/* protocol: R50, R51 */
TEST(test_give_back)
{
    for (uint32_t low = 1; low < 16; low++) {
        btl_ib_credit_pool_t pool = {.depth = 16};
        btl_ib_queue_t queue = make_queue(16, low, 1);
        pair_t p;

        pair_init(&p, &pool, &queue, 16, 0xfffffffc);
        for (int round = 0; round < 50; round++) {
            /* The sender skips all but two of what it may use: those sequences never come. */
            uint32_t count = p.credit.limit - p.received - 2;
            uint32_t limit = p.credit.limit;
            uint32_t granted = pool.granted;

            btl_ib_credit_give_back(&p.credit, &pool, &queue, count);
            p.received += count;
            assert_true((int32_t) (p.credit.limit - limit) >= 0);
            assert_int_equal(pool.granted, granted - count);
            check(&p);
            while (p.credit.grant < 16) { /* and works its way up again */
                uint32_t grant = p.credit.grant;
                receive(&p);
                assert_in_range(p.credit.grant, grant, 2 * grant);
            }
            assert_int_equal(pool.granted, 16);
            for (int n = 0; n < round % 16; n++) {
                receive(&p);
            }
        }
        btl_ib_credit_fini(&p.credit, &pool);
        assert_int_equal(pool.granted, 0);
    }
}

/*
 * One-way traffic: nothing goes back but the explicit returns that are due. `late`: a return
 * arrives only when the sender has used up what it knew.
 */
static void run_one_way(const btl_ib_queue_t *queue, uint32_t init, uint32_t depth, bool late)
{
    btl_ib_credit_pool_t pool = {.depth = depth};
    pair_t p;
    uint32_t news;

    pair_init(&p, &pool, queue, init, 0xffffffe0);
    news = p.known;
    for (uint32_t n = 0; n < 5 * queue->num + 20; n++) {
        if (p.sent == p.known) {
            assert_int_not_equal(news, p.known); /* else both wait forever */
            p.known = news;
        }
        p.sent++;
        receive(&p);
        if (btl_ib_credit_due(&p.credit, false)) {
            btl_ib_credit_top_up(&p.credit);
            p.credit.told = p.credit.limit;
            news = p.credit.limit;
            if (!late) {
                p.known = news;
            }
        }
    }
    assert_int_equal(pool.granted, p.credit.grant);
}

/* Every legal queue, and that the grammar's bound is the one that matters. */
TEST(test_one_way_never_stalls)
{
    uint32_t runs = 0;

    for (uint32_t num = 2; num <= 40; num++) {
        for (uint32_t low = 1; low < num; low++) {
            btl_ib_queue_t queue = make_queue(num, low, 1);
            for (; legal(&queue); queue.window++) {
                const uint32_t inits[] = {1, 2, 3, 1 + num / 3, num - 1, num};
                for (size_t i = 0; i < sizeof(inits) / sizeof(inits[0]); i++) {
                    run_one_way(&queue, inits[i], i % 2 == 0 ? 0 : inits[i] + num / 2, true);
                    run_one_way(&queue, inits[i], i % 2 == 0 ? inits[i] : 0, false);
                    runs += 2;
                }
            }
            assert_int_equal(queue.window - 1, num / (num - low) * (num - low));
        }
    }
    assert_true(runs > 100000);
}

/* ---- limits that are lost, repeated and overtake each other ---- */

enum { PEERS = 5, ON_THE_WAY = 6 };

typedef struct network {
    pair_t p[PEERS];
    uint32_t update[PEERS][ON_THE_WAY]; /* limits that are still about */
    uint32_t updates[PEERS];
} network_t;

/* Tell the limit; the message may come late, twice or never. */
static void network_tell(network_t *net, int i)
{
    pair_t *p = &net->p[i];

    btl_ib_credit_top_up(&p->credit);
    p->credit.told = p->credit.limit;
    net->update[i][net->updates[i]++ % ON_THE_WAY] = p->credit.limit;
}

/* One of the last few messages arrives, perhaps for the second time. */
static void network_deliver(network_t *net, int i, test_random_t *r)
{
    pair_t *p = &net->p[i];

    if (net->updates[i] > 0) {
        uint32_t about = net->updates[i] < ON_THE_WAY ? net->updates[i] : ON_THE_WAY;
        uint32_t limit = net->update[i][test_random_below(r, about)];
        p->known = (int32_t) (limit - p->known) > 0 ? limit : p->known;
    }
    assert_true((int32_t) (p->credit.limit - p->known) >= 0); /* nothing invented */
}

static void network_step(network_t *net, int i, test_random_t *r)
{
    pair_t *p = &net->p[i];

    switch (test_random_below(r, 8)) {
    case 0:
        network_tell(net, i);
        break;
    case 1:
    case 2:
        network_deliver(net, i, r);
        break;
    case 3:
        if (test_random_below(r, 20) == 0 && p->known - p->sent > 1) {
            uint32_t count = p->known - p->sent - 1;
            btl_ib_credit_give_back(&p->credit, p->pool, p->queue, count);
            p->sent += count;
            p->received += count;
            check(p);
        }
        break;
    default:
        if (p->sent != p->known) {
            p->sent++;
            receive(p);
            if (btl_ib_credit_due(&p->credit, false)) {
                network_tell(net, i);
            }
        }
        break;
    }
}

TEST(test_bad_network)
{
    test_random_t r = TEST_RANDOM_SEED;

    for (int run = 0; run < 100; run++) {
        uint32_t num = 2 + test_random_below(&r, 64);
        uint32_t low = 1 + test_random_below(&r, num - 1);
        btl_ib_queue_t queue = make_queue(num, low, 1 + test_random_below(&r, num - low));
        uint32_t init = 1 + test_random_below(&r, num);
        btl_ib_credit_pool_t pool = {.depth = init * PEERS + test_random_below(&r, num * PEERS)};
        network_t net = {.updates = {0}};

        for (int i = 0; i < PEERS; i++) {
            pair_init(&net.p[i], &pool, &queue, init, 0xffffffff - test_random_below(&r, 500));
        }
        for (int step = 0; step < 5000; step++) {
            network_step(&net, (int) test_random_below(&r, PEERS), &r);
            uint32_t sum = 0;
            for (int i = 0; i < PEERS; i++) {
                sum += net.p[i].credit.grant;
            }
            assert_int_equal(pool.granted, sum);
            assert_true(sum <= pool.depth);
        }
        /* At rest: one message that gets through, and the sender knows all it has. */
        for (int i = 0; i < PEERS; i++) {
            tell(&net.p[i]);
            check(&net.p[i]);
            assert_int_equal(net.p[i].known - net.p[i].sent,
                             net.p[i].credit.grant - net.p[i].credit.used);
            btl_ib_credit_fini(&net.p[i].credit, &pool);
        }
        assert_int_equal(pool.granted, 0);
    }
}

/* Peers whose credits stand for more or less share what there is, and give back what they took. */
TEST(test_costs)
{
    static const uint32_t costs[] = {1, 3, 10};
    const btl_ib_queue_t queue = make_queue(64, 32, 16);
    btl_ib_credit_pool_t pool = {.depth = 200};
    btl_ib_credit_t credit[3];

    for (int i = 0; i < 3; i++) {
        btl_ib_credit_init(&credit[i], &pool, &queue, 4, 1, costs[i]);
    }
    assert_int_equal(pool.granted, 4 * (1 + 3 + 10));
    for (int n = 0; n < 1000; n++) {
        uint64_t granted = 0;

        btl_ib_credit_use(&credit[n % 3], &pool, &queue, 1, false);
        for (int i = 0; i < 3; i++) {
            granted += (uint64_t) credit[i].grant * costs[i];
        }
        assert_int_equal(pool.granted, granted);
        assert_in_range(granted, 1, pool.depth);
    }
    assert_int_equal(credit[0].grant, 64);
    assert_int_equal(credit[1].grant, 200 / 3 / 3);
    assert_int_equal(credit[2].grant, 200 / 3 / 10);
    const uint64_t before = pool.granted;
    btl_ib_credit_give_back(&credit[2], &pool, &queue, 2);
    assert_int_equal(pool.granted, before - 2 * 10);
    for (int i = 0; i < 3; i++) {
        btl_ib_credit_fini(&credit[i], &pool);
    }
    assert_int_equal(pool.granted, 0);
}

/* Of a pool that holds few datagrams busy peers keep a third each, not 16. */
TEST(test_few_buffers)
{
    btl_ib_queue_t queue = make_queue(64, 32, 16);
    btl_ib_credit_pool_t pool = {.depth = 24};
    btl_ib_credit_t credit[8];

    queue.init = 16;
    for (int i = 0; i < 8; i++) {
        btl_ib_credit_init(&credit[i], &pool, &queue, 16, 1, 1);
    }
    for (int n = 0; n < 1000; n++) {
        btl_ib_credit_use(&credit[n % 8], &pool, &queue, 1, false);
    }
    for (int i = 0; i < 8; i++) {
        assert_int_equal(credit[i].grant, 8);
        btl_ib_credit_fini(&credit[i], &pool);
    }
}

/* A burst uses credits as its segments would, one after the other. */
TEST(test_bursts)
{
    const btl_ib_queue_t queue = make_queue(256, 128, 64);
    test_random_t r = {.state = 11};
    btl_ib_credit_pool_t pools[2] = {{.depth = 300}, {.depth = 300}};
    btl_ib_credit_t credit[2];

    for (int i = 0; i < 2; i++) {
        btl_ib_credit_init(&credit[i], &pools[i], &queue, 8, 1, 2);
    }
    for (int n = 0; n < 2000; n++) {
        const uint32_t count = 1 + test_random_below(&r, credit[0].grant - credit[0].used);
        const bool gap = test_random_below(&r, 8) == 0;

        if (test_random_below(&r, 50) == 0) { /* others come and go */
            pools[0].busy = pools[1].busy = 1 + test_random_below(&r, 5);
        }
        btl_ib_credit_use(&credit[0], &pools[0], &queue, count, gap);
        for (uint32_t i = 0; i < count; i++) {
            btl_ib_credit_use(&credit[1], &pools[1], &queue, 1, gap);
        }
        /* Without what follows the last member, which nobody writes. */
        assert_memory_equal(&credit[0], &credit[1], offsetof(btl_ib_credit_t, over) + sizeof(bool));
        assert_memory_equal(&pools[0], &pools[1],
                            offsetof(btl_ib_credit_pool_t, busy) + sizeof(uint32_t));
    }
}

static uint32_t few_for_long(const btl_ib_transport_t *transport, uint32_t size)
{
    return size <= 256 ? 1024 : 256;
}

/* `reserve` of the first queue is no buffer that credits promise, but of buffers that all queues
 * share no more than a quarter is kept. Where each queue has its own the transport keeps them. */
TEST(test_reserve)
{
    static const btl_ib_transport_ops_t ops = {.rx_depth = few_for_long};
    static const struct {
        uint32_t reserve, other; /* of the first and the second queue */
        bool own;                /* buffers of each queue */
        uint64_t few, many;      /* datagrams of each that are promised at once */
    } cases[] = {
        {0, 0, false, 204, 204},   {0, 500, false, 204, 204},  {100, 0, false, 184, 184},
        {256, 0, false, 153, 153}, {5000, 0, false, 153, 153}, {100, 9, true, 1024, 256},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const btl_ib_transport_t transport = {.ops = &ops, .attr.queue_buffers = cases[i].own};
        btl_ib_queue_table_t queues = {.count = 2,
                                       .q = {make_queue(64, 32, 16), make_queue(64, 32, 16)}};
        btl_ib_credit_pool_t pools[2] = {{.depth = 0}, {.depth = 0}};

        queues.q[0].size = 256;
        queues.q[0].reserve = cases[i].reserve;
        queues.q[1].size = 1024;
        queues.q[1].reserve = cases[i].other;
        btl_ib_credit_share(pools, &queues, &transport);
        for (uint32_t q = 0; q < 2; q++) {
            const uint32_t cost = btl_ib_credit_cost(&pools[q], &queues.q[q], &transport, 0, 1024);
            assert_int_equal(pools[q].depth / cost, q == 0 ? cases[i].few : cases[i].many);
        }
    }
}

/* ---- what a transport holds ---- */

static uint32_t depth_of_size(const btl_ib_transport_t *transport, uint32_t size)
{
    return 128000 / size;
}

/* Shares the buffers of a transport that has room for 1,000 datagrams, or for so many as fit; two
 * queues of 128 and 512 bytes. Returns how many datagrams of the second all peers may send. */
static uint64_t shared(const btl_ib_transport_t *transport, uint32_t reserve, uint64_t *of_first)
{
    btl_ib_queue_table_t table = {.count = 2, .q = {make_queue(16, 8, 4), make_queue(16, 8, 4)}};
    btl_ib_credit_pool_t pools[2] = {{0}};

    table.q[1].size = 512;
    table.q[0].reserve = reserve;
    btl_ib_credit_share(pools, &table, transport);
    *of_first = pools[0].depth / btl_ib_credit_cost(&pools[0], &table.q[0], transport, 0, 512);
    return pools[1].depth / btl_ib_credit_cost(&pools[1], &table.q[1], transport, 0, 512);
}

/* All queues together are full with what the transport holds, beside what is kept for control
 * traffic: a quarter at most. */
TEST(test_shares_of_a_transport)
{
    btl_ib_transport_ops_t ops = {0};
    btl_ib_transport_t transport = {.ops = &ops, .attr = {.rx_depth = 1000}};
    uint64_t first;

    assert_int_equal(shared(&transport, 100, &first), 450);
    assert_int_equal(first, 450);
    assert_int_equal(shared(&transport, 400, &first), 375);
    assert_int_equal(first, 375);
    transport.attr.queue_buffers = true; /* each has its own */
    assert_int_equal(shared(&transport, 100, &first), 1000);
    assert_int_equal(first, 1000);
    transport.attr.queue_buffers = false;
    ops.rx_depth = depth_of_size; /* 1,000 of the first, or 250 of the second */
    assert_int_equal(shared(&transport, 100, &first), 180);
    assert_int_equal(first, 180);
    ops.rx_depth = NULL;
    for (uint32_t depth = 0; depth <= 1; depth++) { /* one of each is the least */
        transport.attr.rx_depth = depth;
        assert_int_equal(shared(&transport, 0, &first), 1);
        assert_int_equal(first, 1);
    }
    transport.attr.rx_depth = UINT32_MAX;
    assert_true(shared(&transport, 100, &first) > 1 << 22);
}

/* A credit costs what its datagrams take, or more, so that no more than `most` are granted. */
TEST(test_costs_of_a_transport)
{
    btl_ib_transport_ops_t ops = {.rx_depth = depth_of_size};
    btl_ib_transport_t transport = {.ops = &ops};
    btl_ib_credit_pool_t pool = {.depth = 1 << 24};
    btl_ib_queue_t queue = make_queue(16, 8, 4);

    assert_int_equal(btl_ib_credit_cost(&pool, &queue, &transport, 0, 1000), (1 << 24) / 1000);
    assert_int_equal(btl_ib_credit_cost(&pool, &queue, &transport, 0, 64), (1 << 24) / 2000);
    assert_int_equal(btl_ib_credit_cost(&pool, &queue, &transport, 2000, 1000), (1 << 24) / 1000);
    assert_int_equal(btl_ib_credit_cost(&pool, &queue, &transport, 10, 1000), (1 << 24) / 10 + 1);
    assert_int_equal(btl_ib_credit_cost(&pool, &queue, &transport, 16, 1000), 1 << 20);
    ops.rx_depth = NULL; /* a single one takes all */
    assert_int_equal(btl_ib_credit_cost(&pool, &queue, &transport, 0, 1000), 1 << 24);
}

/* No more is granted than the others left, whatever a credit costs. */
TEST(test_what_others_left)
{
    btl_ib_credit_pool_t pool = {.depth = 100};
    btl_ib_queue_t queue = make_queue(128, 64, 8);
    btl_ib_credit_t other, credit;

    btl_ib_credit_init(&other, &pool, &queue, 90, 1, 1);
    btl_ib_credit_init(&credit, &pool, &queue, 2, 1, 3);
    btl_ib_credit_use(&credit, &pool, &queue, 2, false);
    assert_int_equal(credit.grant, 3);
    assert_int_equal(pool.granted, 90 + 3 * 3);
}

/* A peer whose grant is above its share is told in batches alone, others also between them. */
TEST(test_above_its_share)
{
    btl_ib_credit_pool_t pool = {.depth = 32};
    btl_ib_queue_t queue = make_queue(32, 16, 8);
    pair_t early, late;

    pair_init(&early, &pool, &queue, 32, 1);
    pair_init(&late, &pool, &queue, 8, 1);
    for (int n = 0; n < 8; n++) {
        receive(&late);
    }
    assert_true(late.credit.busy);
    assert_int_equal(pool.busy, 1);
    for (int n = 0; n < 15; n++) {
        receive(&early);
    }
    assert_false(early.credit.over);
    assert_int_equal(early.credit.bank, 8);
    early.gap = true; /* its grant stays until that is there */
    receive(&early);
    assert_int_equal(pool.busy, 2);
    assert_true(early.credit.over);
    assert_int_equal(early.credit.grant, 32);
    assert_int_equal(early.credit.bank, 8);
    const uint32_t limit = early.credit.limit;
    receive(&early);
    btl_ib_credit_top_up(&early.credit);
    assert_int_equal(early.credit.limit, limit); /* not before the batch is full */
    early.gap = false;
    for (int n = 0; n < 64; n++) {
        receive(&early);
    }
    assert_int_equal(early.credit.grant, 16);
    assert_false(early.credit.over);
    assert_int_equal(early.credit.batch, 8);
    assert_int_equal(early.credit.bank, 8);
    btl_ib_credit_fini(&early.credit, &pool);
    btl_ib_credit_fini(&late.credit, &pool);
    assert_int_equal(pool.granted, 0);
    assert_int_equal(pool.busy, 0);
}

UNIT_MAIN(NULL, NULL)
