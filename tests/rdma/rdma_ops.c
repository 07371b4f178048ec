/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * Operations on memory by a real device: two transports, of two processes on one host or on two.
 *
 * * rdma_ops [DEVICE] both on this host (a child process is the other side) rdma_ops [DEVICE]
 * --serve PORT the other side of... rdma_ops [DEVICE] --with HOST PORT ...this one
 *
 * * The sides tell each other of addresses and keys by TCP, and the one that is served asks the
 * other what his memory is like. Writes, reads and atomics of all sizes; many at once; such that
 * the device must refuse; and the end of a peer with operations under way. Prints a line for each
 * part, "OK rdma_ops" at the end. Exit status 77: no device.
 */

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "transport.h"

enum {
    BYTES = 4 << 20, /* of the memory of each side */
    GUARD = 4096,    /* of it, at its end, that nobody may write */
    ROUNDS = 400,
    AT_ONCE = 512,
    WAIT_S = 120,
    OWN_PORT = 18515,
};

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fail(__LINE__, #condition, __VA_ARGS__);                                               \
        }                                                                                          \
    } while (0)

/* What a side tells of itself. */
typedef struct card {
    uint8_t address[BTL_IB_ADDR_BYTES];
    uint32_t address_len;
    uint32_t key;      /* of all of the memory, for everything */
    uint32_t key_look; /* of all of it, to be read only */
    uint64_t base;
} card_t;

/* What the other side is asked for. */
typedef struct question {
    char what; /* 's': the sum of a range; 'w': withdraw the key for looking; 'q': quit */
    uint64_t offset;
    uint64_t size;
} question_t;

typedef struct side {
    btl_ib_transport_t *t;
    uint8_t *memory;
    void *mem;
    void *mem_look;
    card_t own, other;
    btl_ib_addr_t to;
    int wire;
} side_t;

/* An operation under way. */
typedef struct done {
    int events;
    int error;
} done_t;

static side_t self;

__attribute__((format(printf, 3, 4), noreturn)) static void fail(int line, const char *condition,
                                                                 const char *format, ...)
{
    va_list args;

    fprintf(stderr, "rdma_ops: line %d: %s does not hold: ", line, condition);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    exit(1);
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec * 1e-9;
}

/* Polls the device with the time, as an engine does: it is looked at, and roused, by that. */
static int poll_device(btl_ib_event_t *events, int max)
{
    return self.t->ops->poll(self.t, (uint64_t) (now_s() * 1e6), events, max);
}

static uint64_t sum_of(const uint8_t *at, uint64_t size)
{
    uint64_t sum = 1469598103934665603u;

    for (uint64_t i = 0; i < size; i++) {
        sum = (sum ^ at[i]) * 1099511628211u;
    }
    return sum;
}

/* ---- the way by TCP ---- */

static void tell(const void *what, size_t size)
{
    CHECK(send(self.wire, what, size, MSG_NOSIGNAL) == (ssize_t) size, "%s", strerror(errno));
}

/* The other side may need our device meanwhile, so it is polled. Returns whether anything came. */
static bool hear(void *what, size_t size)
{
    size_t got = 0;

    while (got < size) {
        struct pollfd fd = {.fd = self.wire, .events = POLLIN};
        btl_ib_event_t events[16];
        (void) poll_device(events, 16);
        if (poll(&fd, 1, 1) <= 0) {
            continue;
        }
        const ssize_t n = read(self.wire, (uint8_t *) what + got, size - got);
        if (n <= 0) {
            return false;
        }
        got += (size_t) n;
    }
    return true;
}

static uint64_t ask(char what, uint64_t offset, uint64_t size)
{
    const question_t question = {.what = what, .offset = offset, .size = size};
    uint64_t answer;

    tell(&question, sizeof(question));
    CHECK(hear(&answer, sizeof(answer)), "the other side went away");
    return answer;
}

static int listen_at(uint16_t port)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const int one = 1;
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};

    (void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    CHECK(bind(fd, (struct sockaddr *) &in, sizeof(in)) == 0 && listen(fd, 1) == 0, "port %u: %s",
          port, strerror(errno));
    return fd;
}

static int connect_to(const char *host, const char *port)
{
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    const double until = now_s() + WAIT_S;
    struct addrinfo *list;

    CHECK(getaddrinfo(host, port, &hints, &list) == 0, "%s", host);
    while (now_s() < until) {
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, list->ai_addr, list->ai_addrlen) == 0) {
            freeaddrinfo(list);
            return fd;
        }
        (void) close(fd);
        (void) usleep(100 * 1000);
    }
    fail(__LINE__, "connected", "%s port %s: %s", host, port, strerror(errno));
}

/* ---- a side ---- */

static void say(void *context, int level, const char *format, ...)
{
    va_list args;

    (void) context;
    if (level > 1 && getenv("VERBOSE") == NULL) {
        return;
    }
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
}

/* Returns whether there is a device. */
static bool open_transport(const char *name)
{
    const btl_ib_search_t search = {.gid_index = -1, .log = {.print = say}};
    const btl_ib_open_params_t params = {
        .queue_count = 1,
        .queue = {{.size = 256, .num = 16, .reserve = 4}},
        .rc = {.timeout = 14,
               .retry = 7,
               .rnr_retry = 7,
               .bounce_size = 8192,
               .relaxed = getenv("RELAXED") != NULL},
        .log = {.print = say},
    };
    btl_ib_device_t *list;
    const int count = btl_ib_verbs_rc_type.devices(&search, &list);
    int error = -ENODEV;

    for (int i = 0; i < count && error == -ENODEV; i++) {
        if (name == NULL || strcmp(name, list[i].name) == 0) {
            error = btl_ib_verbs_rc_type.open(&list[i], &params, &self.t);
            CHECK(error == 0, "open: %s", strerror(-error));
        }
    }
    if (count >= 0) {
        btl_ib_verbs_rc_type.devices_free(list, count);
    }
    return error == 0;
}

static void expose(unsigned access, void **mem, uint32_t *key)
{
    const int error =
        self.t->ops->rdma->expose(self.t, self.memory, BYTES - GUARD, access, mem, key);

    CHECK(error == 0, "expose: %s", strerror(-error));
}

/* Memory, keys, and whom it is about. */
static void meet(void)
{
    const bool atomics = self.t->attr.rdma_atomics != BTL_IB_RDMA_ATOMICS_NONE;

    self.memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expose(BTL_IB_RDMA_MAY_READ | BTL_IB_RDMA_MAY_WRITE | (atomics ? BTL_IB_RDMA_MAY_ATOMIC : 0),
           &self.mem, &self.own.key);
    expose(BTL_IB_RDMA_MAY_READ, &self.mem_look, &self.own.key_look);
    self.own.base = (uintptr_t) self.memory;
    self.own.address_len = self.t->address_len;
    memcpy(self.own.address, self.t->address, self.t->address_len);
    tell(&self.own, sizeof(self.own));
    CHECK(hear(&self.other, sizeof(self.other)), "the other side went away");
    const int error =
        self.t->ops->addr_add(self.t, self.other.address, self.other.address_len, &self.to);
    CHECK(error == 0, "addr_add: %s", strerror(-error));
}

static void withdraw_look(void)
{
    if (self.mem_look != NULL) {
        self.t->ops->rdma->withdraw(self.t, self.mem_look);
        self.mem_look = NULL;
    }
}

static void part(void)
{
    self.t->ops->stop(self.t);
    self.t->ops->rdma->withdraw(self.t, self.mem);
    withdraw_look();
    self.t->ops->close(self.t);
    (void) munmap(self.memory, BYTES);
    (void) close(self.wire);
}

static int serve(void)
{
    question_t question;

    meet();
    while (hear(&question, sizeof(question)) && question.what != 'q') {
        uint64_t answer = 0;
        if (question.what == 's') {
            answer = sum_of(self.memory + question.offset, question.size);
        } else {
            withdraw_look();
        }
        tell(&answer, sizeof(answer));
    }
    part();
    return 0;
}

/* ---- operations ---- */

static void look(void)
{
    btl_ib_event_t events[16];
    const int count = poll_device(events, 16);

    for (int i = 0; i < count; i++) {
        if (events[i].type == BTL_IB_EVENT_RDMA) {
            done_t *done = events[i].context;
            done->events++;
            done->error = events[i].error;
        }
    }
}

/* Begin as soon as there is room. Returns whether the transport does such a thing. */
static bool begin(btl_ib_rdma_work_t *work, done_t *done)
{
    const double until = now_s() + WAIT_S;
    int error;

    *done = (done_t){0};
    work->to = self.to;
    work->context = done;
    while ((error = self.t->ops->rdma->start(self.t, work)) == -EAGAIN || error == -EHOSTUNREACH) {
        CHECK(now_s() < until, "start: %s for %d s", strerror(-error), WAIT_S);
        look();
    }
    CHECK(error == 0 || error == -EOPNOTSUPP, "start: %s", strerror(-error));
    return error == 0;
}

/* Wait for the end of each of `n`. Returns how many came to a bad one. */
static int end(const done_t *done, int n)
{
    const double until = now_s() + WAIT_S;
    int bad = 0;

    for (int i = 0; i < n; i++) {
        while (done[i].events == 0) {
            CHECK(now_s() < until, "operation %d of %d has no event", i, n);
            look();
        }
        CHECK(done[i].events == 1, "%d events", done[i].events);
        bad += done[i].error != 0;
    }
    return bad;
}

static int do_one(btl_ib_rdma_kind_t kind, uint8_t *local, bool registered, uint64_t offset,
                  uint32_t key, uint64_t size)
{
    btl_ib_rdma_work_t work = {
        .kind = kind,
        .local = local,
        .mem = registered ? self.mem : NULL,
        .remote = self.other.base + offset,
        .key = key,
        .size = size,
    };
    done_t done;

    if (!begin(&work, &done)) {
        return EOPNOTSUPP;
    }
    (void) end(&done, 1);
    return done.error;
}

static void scribble(uint8_t *at, uint64_t size, uint64_t seed)
{
    for (uint64_t i = 0; i < size; i++) {
        at[i] = (uint8_t) ((seed + i) * 2654435761u >> 13);
    }
}

/* Written, seen by the other side as soon as that is over, and read back. */
static void writes_and_reads(void)
{
    const uint64_t sizes[] = {1, 8, 255, 4096, self.t->attr.rdma_copied, 65537, 1 << 20};
    uint8_t *back = self.memory + BYTES / 2;

    srand(1);
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t size = sizes[i % 7];
        const uint64_t offset = (uint64_t) rand() % (BYTES / 2 - size);
        const bool registered = i % 2 == 0 || size > self.t->attr.rdma_copied;
        scribble(self.memory, size, (uint64_t) i);
        int error =
            do_one(BTL_IB_RDMA_WRITE, self.memory, registered, offset, self.other.key, size);
        CHECK(error == 0, "write of %llu: %s", (unsigned long long) size, strerror(error));
        CHECK(ask('s', offset, size) == sum_of(self.memory, size), "write %d", i);
        error = do_one(BTL_IB_RDMA_READ, back, registered, offset, self.other.key_look, size);
        CHECK(error == 0, "read of %llu: %s", (unsigned long long) size, strerror(error));
        CHECK(memcmp(back, self.memory, size) == 0, "read %d", i);
    }
    printf("rdma_ops: %d writes and reads\n", ROUNDS);
}

/* Reads of what lies on two pages are right, or not taken. */
static void page_edges(void)
{
    const uint64_t edge = 4096 - self.other.base % 4096;
    uint8_t *back = self.memory + BYTES / 2;
    int taken = 0;

    for (uint64_t size = 2; size <= 256; size++) {
        const uint64_t offset = edge + 4096 - size / 2;
        scribble(self.memory, size, size);
        int error = do_one(BTL_IB_RDMA_WRITE, self.memory, true, offset, self.other.key, size);
        CHECK(error == 0, "write of %llu: %s", (unsigned long long) size, strerror(error));
        error = do_one(BTL_IB_RDMA_READ, back, true, offset, self.other.key_look, size);
        if (error != EOPNOTSUPP) {
            CHECK(error == 0, "read of %llu: %s", (unsigned long long) size, strerror(error));
            CHECK(memcmp(back, self.memory, size) == 0, "read of %llu", (unsigned long long) size);
            taken++;
        }
    }
    CHECK(taken > 100, "only %d reads were taken", taken);
    printf("rdma_ops: %d reads of two pages\n", taken);
}

/* As many at once as go, of both kinds, with and without registered memory. */
static void many(void)
{
    static done_t done[AT_ONCE];
    const uint64_t size = 1000;

    scribble(self.memory, AT_ONCE * size, 4711);
    for (int i = 0; i < AT_ONCE; i++) {
        btl_ib_rdma_work_t work = {
            .kind = BTL_IB_RDMA_WRITE,
            .local = self.memory + (uint64_t) i * size,
            .mem = i % 3 == 0 ? NULL : self.mem,
            .remote = self.other.base + (uint64_t) i * size,
            .key = self.other.key,
            .size = size,
        };
        CHECK(begin(&work, &done[i]), "operation %d is not supported", i);
    }
    CHECK(end(done, AT_ONCE) == 0, "a write failed");
    CHECK(ask('s', 0, AT_ONCE * size) == sum_of(self.memory, AT_ONCE * size), "%d writes", AT_ONCE);
    for (int i = 0; i < AT_ONCE; i++) {
        btl_ib_rdma_work_t work = {
            .kind = BTL_IB_RDMA_READ,
            .local = self.memory + BYTES / 2 + (uint64_t) i * size,
            .mem = i % 3 == 0 ? NULL : self.mem,
            .remote = self.other.base + (uint64_t) i * size,
            .key = self.other.key,
            .size = size,
        };
        CHECK(begin(&work, &done[i]), "operation %d is not supported", i);
    }
    CHECK(end(done, AT_ONCE) == 0, "a read failed");
    CHECK(memcmp(self.memory, self.memory + BYTES / 2, AT_ONCE * size) == 0, "%d reads", AT_ONCE);
    printf("rdma_ops: %d at once\n", 2 * AT_ONCE);
}

static uint64_t atomic(btl_ib_rdma_kind_t kind, uint64_t operand, uint64_t compare)
{
    uint64_t old = 0;
    btl_ib_rdma_work_t work = {
        .kind = kind,
        .local = &old,
        .remote = self.other.base + 64,
        .key = self.other.key,
        .size = sizeof(old),
        .operand = operand,
        .compare = compare,
    };
    done_t done;

    CHECK(begin(&work, &done), "atomics are not supported");
    CHECK(end(&done, 1) == 0, "%s", strerror(done.error));
    return old;
}

static void atomics(void)
{
    uint64_t word = 5;

    if (self.t->attr.rdma_atomics == BTL_IB_RDMA_ATOMICS_NONE) {
        printf("rdma_ops: no atomics\n");
        return;
    }
    CHECK(do_one(BTL_IB_RDMA_WRITE, (uint8_t *) &word, false, 64, self.other.key, sizeof(word))
              == 0,
          "write");
    for (uint64_t i = 0; i < 100; i++) {
        CHECK(atomic(BTL_IB_RDMA_ADD, 1u << 31, 0) == 5 + (i << 31), "round %d", (int) i);
    }
    word = 5 + (100ull << 31);
    CHECK(atomic(BTL_IB_RDMA_CSWAP, 1, word + 1) == word, "not equal");
    CHECK(atomic(BTL_IB_RDMA_CSWAP, 7, word) == word, "equal");
    CHECK(atomic(BTL_IB_RDMA_CSWAP, 7, 7) == 7, "swapped");
    printf("rdma_ops: atomics\n");
}

/* What the device of the other side must refuse; afterwards all goes on. iWARP says no more than
 * that the connection ended. */
static void refused(const char *what, btl_ib_rdma_kind_t kind, uint64_t offset, uint32_t key,
                    uint64_t size)
{
    const uint64_t before = ask('s', 0, BYTES);
    const int error = do_one(kind, self.memory, true, offset, key, size);

    CHECK(error == EACCES || error == EPIPE, "%s: %s", what, strerror(error));
    CHECK(ask('s', 0, BYTES) == before, "%s: it was written", what);
    CHECK(do_one(BTL_IB_RDMA_READ, self.memory, true, 0, self.other.key, 4096) == 0, "after %s",
          what);
    printf("rdma_ops: refused (%s): %s\n", what, strerror(error));
}

static void refusals(void)
{
    refused("no right to write", BTL_IB_RDMA_WRITE, 0, self.other.key_look, 4096);
    refused("no such key, written", BTL_IB_RDMA_WRITE, 0, self.other.key ^ 0x5500, 64);
    refused("no such key, read", BTL_IB_RDMA_READ, 0, self.other.key ^ 0x5500, 64);
    refused("out of bounds, written", BTL_IB_RDMA_WRITE, BYTES - GUARD - 32, self.other.key, 64);
    refused("out of bounds, read", BTL_IB_RDMA_READ, BYTES - GUARD - 32, self.other.key, 256);
    (void) ask('w', 0, 0);
    refused("withdrawn", BTL_IB_RDMA_READ, 0, self.other.key_look, 64);
}

/* addr_remove() with reads under way: no events of them come, and nothing is written after it. */
static void removed(void)
{
    static done_t done[16];
    const uint64_t size = 64 << 10;
    int begun = 0;

    memset(self.memory, 0, BYTES);
    for (int i = 0; i < 16; i++) {
        btl_ib_rdma_work_t work = {
            .to = self.to,
            .kind = BTL_IB_RDMA_READ,
            .local = self.memory + (uint64_t) i * size,
            .mem = self.mem,
            .remote = self.other.base,
            .key = self.other.key,
            .size = size,
            .context = &done[begun],
        };
        done[begun] = (done_t){0};
        begun += self.t->ops->rdma->start(self.t, &work) == 0;
    }
    CHECK(begun > 0, "none begun");
    self.t->ops->addr_remove(self.t, self.to);
    memset(self.memory, 0x5a, BYTES);
    (void) usleep(200 * 1000);
    look();
    for (int i = 0; i < BYTES; i++) {
        CHECK(self.memory[i] == 0x5a, "byte %d was written afterwards", i);
    }
    for (int i = 0; i < begun; i++) {
        CHECK(done[i].events == 0, "event of %d", i);
    }
    printf("rdma_ops: %d under way at the end\n", begun);
}

static int use(void)
{
    meet();
    printf("rdma_ops: %s, operations of up to %llu bytes, %u without registration, atomics %d\n",
           self.t->name, (unsigned long long) self.t->attr.rdma_max, self.t->attr.rdma_copied,
           self.t->attr.rdma_atomics);
    writes_and_reads();
    page_edges();
    many();
    atomics();
    refusals();
    removed();
    const question_t quit = {.what = 'q'};
    tell(&quit, sizeof(quit));
    part();
    return 0;
}

int main(int argc, char **argv)
{
    const char *device = argc > 1 && argv[1][0] != '-' ? argv[1] : NULL;
    char **rest = argv + (device != NULL ? 2 : 1);
    const int left = argc - (int) (rest - argv);
    char port[8];
    int status = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (left == 2 && strcmp(rest[0], "--serve") == 0) {
        const int listener = listen_at((uint16_t) atoi(rest[1]));
        self.wire = accept(listener, NULL, NULL);
        return open_transport(device) ? serve() : 77;
    }
    if (left == 3 && strcmp(rest[0], "--with") == 0) {
        self.wire = connect_to(rest[1], rest[2]);
        status = open_transport(device) ? use() : 77;
    } else {
        CHECK(left == 0, "usage: rdma_ops [DEVICE] [--serve PORT | --with HOST PORT]");
        snprintf(port, sizeof(port), "%d", OWN_PORT);
        const int listener = listen_at(OWN_PORT);
        const pid_t child = fork();
        if (child == 0) {
            self.wire = accept(listener, NULL, NULL);
            return open_transport(device) ? serve() : 77;
        }
        self.wire = connect_to("127.0.0.1", port);
        status = open_transport(device) ? use() : 77;
        if (status == 77) {
            (void) close(self.wire);
        }
        int other;
        CHECK(waitpid(child, &other, 0) == child && (other == 0 || status == 77),
              "the other side: %d", other);
    }
    if (status == 0) {
        printf("OK rdma_ops\n");
    }
    return status;
}
