/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The component in a job of many processes, without a runtime: what Open MPI and peers tell of them
 * is made up here, and nothing is sent. Two devices, two rails of each peer, some processes on each
 * host. Does anything take longer because there are many?
 *
 *   component_scale PEERS             their whole life: bytes of each, and nothing is left; checked
 *   component_scale PEERS WAY COUNT   that way, COUNT times: for a tool that counts instructions
 */

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lone_component.h"

enum {
    RAILS = 2,
    OF_HOST = 16, /* processes */
    PEERS_MAX = 1 << 20,
    EACH_MAX = 8192, /* bytes of a peer: two endpoints, two connections, what it published */
};

typedef struct peer {
    opal_proc_t *proc;
    btl_ib_endpoint_t *endpoint[RAILS];
} peer_t;

static struct {
    btl_ib_transport_t transport[RAILS];
    btl_ib_module_t *module[RAILS];
    btl_ib_modex_t *modex; /* of whoever is added next */
    peer_t *peers;
    uint32_t count;
} job;

static void fail(const char *what)
{
    fprintf(stderr, "component_scale: %s\n", what);
    exit(1);
}

/* ---- what processes publish ---- */

static void describe(btl_ib_modex_t *modex, uint32_t index)
{
    modex->secret.k[0] = index + 1;
    modex->where = (btl_ib_host_t){.machine = 1 + index / OF_HOST, .network = 1};
    for (uint32_t i = 0; i < RAILS; i++) {
        btl_ib_modex_rail_t *rail = &modex->rails[i];
        const uint8_t ip[4] = {(uint8_t) (10 + i), (uint8_t) (index >> 16), (uint8_t) (index >> 8),
                               (uint8_t) index};
        memcpy(rail->ip, ip, sizeof(ip));
        memcpy(rail->address, &index, sizeof(index));
    }
}

static btl_ib_modex_t *new_node(const btl_ib_queue_table_t *queues)
{
    btl_ib_modex_t *modex = new_modex(RAILS, queues);

    if (modex == NULL) {
        fail("no memory");
    }
    snprintf(modex->release, sizeof(modex->release), "%s", BTL_IB_VERSION);
    snprintf(modex->host, sizeof(modex->host), "node");
    return modex;
}

static void start(uint32_t peers)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    btl_ib_engine_config_t config;
    btl_ib_queue_table_t queues;
    btl_ib_queues_error_t error;

    btl_ib_engine_config_default(&config);
    config.peers = peers;
    config.passive_max = peers;
    if (!begin_component(peers, &config)
        || btl_ib_queues_parse("P,256,256,128,32:S,1472,1024,512,64", &queues, &error) != 0) {
        fail("no component");
    }
    for (uint32_t i = 0; i < RAILS; i++) {
        job.module[i] = begin_rail(&job.transport[i], &queues);
        if (job.module[i] == NULL) {
            fail("no rail");
        }
    }
    component->self = new_node(&queues);
    describe(component->self, peers);
    component->self->where.machine = UINT64_MAX; /* nobody else's host */
    job.modex = new_node(&queues);
    job.peers = calloc(PEERS_MAX, sizeof(*job.peers));
    if (job.peers == NULL) {
        fail("no memory");
    }
}

/* ---- ways ---- */

/* As Open MPI does. What the process published is in the table of those that are known, as if the
 * runtime had been asked. */
static void add(void)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    const uint32_t index = job.count++;
    peer_t *peer = &job.peers[index];

    describe(job.modex, index);
    btl_ib_modex_keep(&component->known, btl_ib_name_pack(name_of(index)), job.modex);
    peer->proc = OBJ_NEW(opal_proc_t);
    if (peer->proc == NULL) {
        fail("no memory");
    }
    peer->proc->proc_name = name_of(index);
    for (uint32_t i = 0; i < RAILS; i++) {
        mca_btl_base_module_t *btl = &job.module[i]->super;
        btl->btl_add_procs(btl, 1, &peer->proc, &peer->endpoint[i], NULL);
        if (peer->endpoint[i] == NULL) {
            fail("a peer was not added");
        }
    }
}

static void part(uint32_t index)
{
    peer_t *peer = &job.peers[index];

    for (uint32_t i = 0; i < RAILS; i++) {
        mca_btl_base_module_t *btl = &job.module[i]->super;
        btl->btl_del_procs(btl, 1, &peer->proc, &peer->endpoint[i]);
    }
    OBJ_RELEASE(peer->proc);
}

/* The runtime says that a process failed: which of our endpoints is it? */
static void find(void)
{
    const uint32_t last = job.count - 1;

    for (uint32_t i = 0; i < RAILS; i++) {
        if (btl_ib_endpoint_find(job.module[i], btl_ib_name_pack(name_of(last)))
            != job.peers[last].endpoint[i]) {
            fail("a peer is not found");
        }
    }
}

/* A peer does not answer: does another process of its host? None does here. */
static void reachable(void)
{
    if (btl_ib_endpoint_is_reachable(job.peers[0].endpoint[0], UINT64_MAX)) {
        fail("a host answered");
    }
}

static void ask(void)
{
    find();
    reachable();
}

/* One goes, one comes: of a host that has none left then, or had none. */
static void come_and_go(void)
{
    add();
    part(--job.count);
}

static const struct {
    const char *name;
    void (*run)(void);
} ways[] = {
    {"come-and-go", come_and_go},
    {"ask", ask},
};

/* ---- the life of all ---- */

static void live(uint32_t peers)
{
    btl_ib_component_t *component = &mca_btl_ib_component;
    const size_t before = mallinfo2().uordblks;

    for (uint32_t i = 0; i < peers; i++) {
        add();
    }
    const size_t each = (mallinfo2().uordblks - before) / peers;
    printf("%u peers, %zu bytes each\n", peers, each);
    if (each > EACH_MAX) {
        fail("peers take more than they may");
    }
    if (opal_hash_table_get_size(&component->hosts) != (peers + OF_HOST - 1) / OF_HOST) {
        fail("not each host is known once");
    }
    ask();
    for (uint32_t i = 0; i < peers; i++) {
        part(i);
    }
    if (btl_ib_endpoint_next(NULL) != NULL || opal_hash_table_get_size(&component->hosts) != 0
        || opal_hash_table_get_size(&component->known) != 0) {
        fail("something is left of peers that were deleted");
    }
}

int main(int argc, char **argv)
{
    const uint32_t peers = argc > 1 ? (uint32_t) strtoul(argv[1], NULL, 10) : 0;

    if (peers < 1 || peers > PEERS_MAX / 2 || (argc != 2 && argc != 4)) {
        fprintf(stderr, "usage: component_scale PEERS [WAY COUNT]\n");
        return 2;
    }
    start(peers);
    if (argc == 2) {
        live(peers);
        return 0;
    }
    for (uint32_t i = 0; i < peers; i++) {
        add();
    }
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (strcmp(ways[i].name, argv[2]) == 0) {
            for (unsigned long k = strtoul(argv[3], NULL, 10); k > 0; k--) {
                ways[i].run();
            }
            return 0;
        }
    }
    fprintf(stderr, "component_scale: no way %s\n", argv[2]);
    return 1;
}
