/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Peers that stand still, are deleted and die, seen by a rank that calls the BTL itself, as no MPI
 * program can. MPI's own messages go by another BTL, which is preferred (--mca btl_ib_exclusivity 50)
 * and does not keep ib for its puts and gets (--flags send,put), so that ib's endpoints are ours. 3 ranks on
 * one host, transport udp:
 * - flush of one endpoint does not wait for a peer that stands still; flush of all does.
 * - While a peer is deleted that stands still, the host of another one says that its port is closed. That
 *   is no news while we take leave. But we stay: then it is told, by the error callback, and only then its
 *   operations fail.
 * delete=told: the error callback deletes the dead peer, and what was to come back does not
 * delete=next: the dead peer is deleted next, as by MPI_Finalize, and nothing is told (delete=never)
 * delete=rail: of two rails (--mca btl_ib_qps_per_port 2) only the second is deleted, which carries a
 * part of a long get from a peer that stands still: the first one carries that part then
 */

#include "opal_config.h"

#include "module.h"

#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#define WORDS    64
#define LONG     (4u << 20) /* bytes of a get that is divided */
#define PATIENCE 20.0       /* seconds */
#define TURN     7          /* tag */

enum { OURS, STANDS, DIES, RANKS };

typedef mca_btl_base_registration_handle_t handle_t;

static struct {
    uint64_t address, long_address;
    pid_t pid;
    unsigned char handle[MCA_BTL_REG_HANDLE_MAX_SIZE], long_handle[MCA_BTL_REG_HANDLE_MAX_SIZE];
} offers[RANKS];

static uint64_t memory[WORDS];
static unsigned char long_memory[LONG];
static handle_t *handle, *long_handle;

/* One put to each. */
typedef struct outcome {
    int calls, status;
} outcome_t;
static outcome_t outcomes[RANKS];

static int deaths;
static const char *deleted;

static void done(mca_btl_base_module_t *module, peer_t *endpoint, void *local, handle_t *none,
                 void *context, void *data, int status)
{
    outcome_t *outcome = context;

    (void) module;
    (void) endpoint;
    (void) local;
    (void) none;
    (void) data;
    outcome->calls++;
    outcome->status = status;
}

static void put(int target)
{
    int rc;

    outcomes[target] = (outcome_t){0};
    rc = btl->btl_put(btl, peers[target], memory, offers[target].address, NULL,
                      (handle_t *) (void *) offers[target].handle, sizeof(memory), 0,
                      MCA_BTL_NO_ORDER, done, &outcomes[target], NULL);
    if (rc != OPAL_SUCCESS) {
        fail("put to %d: %d", target, rc);
    }
}

static void must_be(const char *what, int target, int calls, int status)
{
    const outcome_t *outcome = &outcomes[target];

    if (outcome->calls != calls || (calls > 0 && outcome->status != status)) {
        fail("%s: %d callbacks of the put to %d, status %d", what, outcome->calls, target,
             outcome->status);
    }
}

static void signal_to(int target, int number)
{
    if (kill(offers[target].pid, number) != 0) {
        fail("cannot send signal %d to rank %d", number, target);
    }
}

/* Stop a rank, and wait until it stands: until then it may still take what comes. */
static void stop(int target)
{
    const double begun = seconds_now();
    char path[64];
    char state = 0;

    signal_to(target, SIGSTOP);
    snprintf(path, sizeof(path), "/proc/%d/stat", (int) offers[target].pid);
    while (state != 'T') {
        FILE *file = fopen(path, "r");

        if (file == NULL || fscanf(file, "%*d (%*[^)]) %c", &state) != 1
            || seconds_now() - begun > PATIENCE) {
            fail("rank %d does not stop", target);
        }
        fclose(file);
    }
}

/* ---- the ranks ---- */

static void delete_peer(int target)
{
    btl->btl_del_procs(btl, 1, &procs[target], &peers[target]);
    peers[target] = NULL;
}

static bool is_deleted(const char *when)
{
    return strcmp(deleted, when) == 0;
}

/* Whoever still reads the endpoint finds nonsense in it. */
static void delete_for_good(int target)
{
    const size_t bytes = malloc_usable_size(peers[target]);
    void *taken[8];

    delete_peer(target);
    for (int i = 0; i < 8; i++) {
        taken[i] = get_memory(bytes);
        memset(taken[i], 0x5a, bytes);
    }
    for (int i = 0; i < 8; i++) {
        free(taken[i]);
    }
}

static void lost(mca_btl_base_module_t *module, int32_t flags, opal_proc_t *proc, char *text)
{
    (void) flags;
    (void) text;
    if (module != btl || proc != procs[DIES] || ++deaths > 1) {
        fail("the error callback came for another peer, or twice");
    }
    must_be("before its target is told dead", DIES, 0, 0);
    if (is_deleted("told")) {
        delete_for_good(DIES);
    }
}

static void flush_in_time(peer_t *endpoint)
{
    alarm((unsigned) PATIENCE); /* ends the job */
    btl->btl_flush(btl, endpoint);
    alarm(0);
}

static void flush(void)
{
    stop(STANDS);
    put(STANDS);
    put(DIES);
    flush_in_time(peers[DIES]);
    must_be("flush of its endpoint", DIES, 1, OPAL_SUCCESS);
    must_be("flush of another one's", STANDS, 0, 0);
    signal_to(STANDS, SIGCONT);
    flush_in_time(NULL);
    must_be("flush of all", STANDS, 1, OPAL_SUCCESS);
}

/* Until all is told that is to be told; then a little longer for what is too much. */
static void listen_for_news(void)
{
    const int expected = is_deleted("next") ? 0 : 1, back = is_deleted("never") ? 1 : 0;
    const double begun = seconds_now();

    while (deaths < expected || outcomes[DIES].calls < back || seconds_now() < begun + 0.1) {
        opal_progress();
        if (seconds_now() > begun + PATIENCE) {
            fail("%s", deaths < expected ? "a peer that died was never told dead"
                                         : "what died with a peer did not come back");
        }
    }
    if (deaths > expected) {
        fail("the death of a peer was told that had been deleted");
    }
    must_be("its target is dead", DIES, back, OPAL_ERR_UNREACH);
    flush_in_time(NULL); /* what nobody is told of is over, too */
}

static void take_leave(void)
{
    btl->btl_register_error(btl, lost);
    MPI_Send(NULL, 0, MPI_BYTE, DIES, TURN, MPI_COMM_WORLD);
    MPI_Recv(NULL, 0, MPI_BYTE, DIES, TURN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    stop(STANDS);
    put(STANDS);
    put(DIES);
    delete_peer(STANDS);
    if (deaths > 0) {
        fail("a peer was told dead while another one was deleted");
    }
    must_be("while another one is deleted", DIES, 0, 0);
    must_be("its target was deleted", STANDS, 0, 0);
    if (is_deleted("next")) {
        delete_for_good(DIES);
    }
    listen_for_news();
    signal_to(STANDS, SIGCONT);
}

/* ---- one rail of two ---- */

static mca_btl_base_module_t *second_rail(void)
{
    mca_btl_base_selected_module_t *item;

    OPAL_LIST_FOREACH(item, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
    {
        if (item->btl_module != btl && item->btl_module->btl_component == btl->btl_component) {
            return item->btl_module;
        }
    }
    fail("there is no second rail");
    return NULL;
}

static void delete_rail(void)
{
    mca_btl_base_module_t *const second = second_rail();
    outcome_t *outcome = &outcomes[STANDS];
    const double begun = seconds_now();
    peer_t *peer = NULL;
    int rc;

    second->btl_add_procs(second, 1, &procs[STANDS], &peer, NULL);
    put(STANDS);
    flush_in_time(NULL);
    stop(STANDS);
    *outcome = (outcome_t){0};
    rc = btl->btl_get(btl, peers[STANDS], long_memory, offers[STANDS].long_address, NULL,
                      (handle_t *) (void *) offers[STANDS].long_handle, LONG, 0, MCA_BTL_NO_ORDER,
                      done, outcome, NULL);
    if (peer == NULL || rc != OPAL_SUCCESS) {
        fail("no second endpoint, or get: %d", rc);
    }
    second->btl_del_procs(second, 1, &procs[STANDS], &peer);
    must_be("while one of two rails is deleted", STANDS, 0, 0);
    signal_to(STANDS, SIGCONT);
    while (outcome->calls == 0 && seconds_now() < begun + PATIENCE) {
        opal_progress();
    }
    must_be("one of two rails was deleted", STANDS, 1, OPAL_SUCCESS);
    pattern_check(long_memory, LONG, STANDS, "get");
}

/* ---- the ranks' frame ---- */

/* Whatever is sent to our UDP ports is refused from now on. */
static void close_ports(void)
{
    const int fresh = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    int closed = 0;

    for (int fd = 0; fd < 1024; fd++) {
        int type = 0;
        socklen_t length = sizeof(type);

        if (fd != fresh && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0
            && type == SOCK_DGRAM && dup2(fresh, fd) == fd) {
            closed++;
        }
    }
    if (closed == 0) {
        fail("there is no UDP socket");
    }
}

static void exchange_offers(void)
{
    handle =
        btl->btl_register_mem(btl, NULL, memory, sizeof(memory), MCA_BTL_REG_FLAG_REMOTE_WRITE);
    pattern_fill(long_memory, LONG, (uint64_t) rank);
    long_handle = btl->btl_register_mem(btl, NULL, long_memory, LONG, MCA_BTL_REG_FLAG_REMOTE_READ);
    if (handle == NULL || long_handle == NULL) {
        fail("no registration");
    }
    offers[rank].address = (uintptr_t) memory;
    offers[rank].long_address = (uintptr_t) long_memory;
    offers[rank].pid = getpid();
    memcpy(offers[rank].handle, handle, btl->btl_registration_handle_size);
    memcpy(offers[rank].long_handle, long_handle, btl->btl_registration_handle_size);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, offers, sizeof(offers[0]), MPI_BYTE,
                  MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int ones[RANKS] = {0}, others[RANKS];

    begin(&argc, &argv, "parting");
    if (size != RANKS) {
        fail("needs %d ranks", RANKS);
    }
    deleted = arg_text(argc, argv, "delete", "never");
    /* After this MPI has chosen its BTLs. */
    MPI_Alltoall(ones, 1, MPI_INT, others, 1, MPI_INT, MPI_COMM_WORLD);
    find_module();
    opal_progress_register(btl->btl_component->btl_progress);
    find_peers();
    exchange_offers();

    if (is_deleted("rail")) {
        if (rank == OURS) {
            delete_rail();
        }
    } else if (rank == OURS) {
        flush();
        take_leave();
    } else if (rank == DIES) {
        MPI_Recv(NULL, 0, MPI_BYTE, OURS, TURN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        close_ports();
        MPI_Send(NULL, 0, MPI_BYTE, OURS, TURN, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);

    btl->btl_register_error(btl, NULL);
    for (int r = 0; r < size; r++) {
        if (peers[r] != NULL) {
            delete_peer(r);
        }
    }
    btl->btl_deregister_mem(btl, handle);
    btl->btl_deregister_mem(btl, long_handle);
    free(procs);
    free(peers);
    finish();
    return 0;
}
