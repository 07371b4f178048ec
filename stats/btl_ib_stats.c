/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* asprintf */
#endif

#include "btl_ib_stats.h"

#include "btl_ib_file_name.h"
#include "btl_ib_help.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- the line ---- */

/* Writes the sum of all counters that begin so, and each of them: "12 (unknown 10, token 2)", or
 * "0". */
static void format_causes(const btl_ib_counters_t *counters, const char *prefix, char *out,
                          size_t size)
{
    const size_t skip = strlen(prefix);
    uint64_t sum = 0;
    char causes[512] = "";
    size_t len = 0;

    for (const btl_ib_counter_info_t *info = btl_ib_counter_infos; info->name != NULL; ++info) {
        const uint64_t value = btl_ib_counter_value(info, counters);

        if (value == 0 || strncmp(info->name, prefix, skip) != 0 || len >= sizeof(causes)) {
            continue;
        }
        sum += value;
        len += (size_t) snprintf(causes + len, sizeof(causes) - len, "%s%s %" PRIu64,
                                 len > 0 ? ", " : "", info->name + skip, value);
    }
    if (sum == 0) {
        snprintf(out, size, "0");
    } else {
        snprintf(out, size, "%" PRIu64 " (%s)", sum, causes);
    }
}

/* ---- values ---- */

const btl_ib_counter_info_t btl_ib_device_counter_infos[] = {
#define BTL_IB_COUNTER_INFO(field, text) {#field, offsetof(btl_ib_device_counters_t, field), text},
    BTL_IB_DEVICE_COUNTERS(BTL_IB_COUNTER_INFO)
#undef BTL_IB_COUNTER_INFO
        {NULL, 0, NULL},
};

/* ---- records ---- */

/* Samples are thinned out when there are so many: a job of any length takes at most 0.8 MB. */
#define SAMPLES_MAX 1000u

/* Makes room for a record more. Returns whether there is. */
static bool records_make_room(btl_ib_stats_records_t *records)
{
    const uint32_t room = records->peer_room == 0 ? 16 : 2 * records->peer_room;
    btl_ib_peer_record_info_t *peers;

    if (records->peer_count < records->peer_room) {
        return true;
    }
    peers = realloc(records->peers, room * sizeof(*peers));
    if (peers == NULL) {
        records->incomplete = true;
        return false;
    }
    records->peers = peers;
    records->peer_room = room;
    return true;
}

void btl_ib_stats_end_peer(btl_ib_stats_t *stats, const btl_ib_conn_t *conn, const char *host,
                           const char *address)
{
    btl_ib_stats_records_t *records = &stats->records;
    const btl_ib_conn_counters_t counters = btl_ib_conn_counters(conn);
    btl_ib_peer_record_info_t *peer;

    if (stats->config.file == NULL
        || (counters.sent_segments == 0 && counters.received_segments == 0)
        || !records_make_room(records)) {
        return;
    }
    peer = &records->peers[records->peer_count++];
    *peer = (btl_ib_peer_record_info_t){
        .name = btl_ib_conn_name(conn),
        .rail = btl_ib_conn_rail(conn),
        .dead = btl_ib_conn_is_dead(conn),
        .counters = counters,
        .levels = btl_ib_conn_levels(conn),
    };
    snprintf(peer->host, sizeof(peer->host), "%s", host);
    snprintf(peer->address, sizeof(peer->address), "%s", address);
}

/* Removes every second sample. */
static void records_thin_out(btl_ib_stats_records_t *records)
{
    for (uint32_t i = 0; 2 * i + 1 < records->sample_count; ++i) {
        records->samples[i] = records->samples[2 * i + 1];
    }
    records->sample_count /= 2;
    records->every *= 2;
}

/* Records a sample, as an interval has ended. */
static void stats_record_sample(btl_ib_stats_records_t *records, uint64_t at,
                                const btl_ib_process_counters_t *counters)
{
    if (records->samples == NULL) {
        records->samples = calloc(SAMPLES_MAX, sizeof(*records->samples));
        records->every = 1;
    }
    if (records->samples == NULL) {
        records->incomplete = true;
        return;
    }
    if (++records->skipped < records->every) {
        return;
    }
    records->skipped = 0;
    records->samples[records->sample_count++] = (btl_ib_sample_info_t){at, *counters};
    if (records->sample_count == SAMPLES_MAX) {
        records_thin_out(records);
    }
}

/* ---- life ---- */

void btl_ib_stats_begin(btl_ib_stats_t *stats, const btl_ib_stats_config_t *config)
{
    *stats = (btl_ib_stats_t){
        .config = *config,
        .due = config->interval == 0 ? UINT64_MAX : config->now + config->interval,
    };
}

void btl_ib_stats_end(btl_ib_stats_t *stats)
{
    stats->config.engine = NULL;
    stats->due = UINT64_MAX;
    free(stats->records.peers);
    free(stats->records.samples);
    stats->records = (btl_ib_stats_records_t){0};
    free(stats->config.file);
    stats->config.file = NULL;
}

/* Reads the counters of a device; zeros after the end. */
static void device_counters(const btl_ib_stats_t *stats, uint32_t rail,
                            btl_ib_device_counters_t *out)
{
    const btl_ib_registration_cache_t *cache = stats->caches[rail];

    *out = stats->ended[rail];
    if (cache != NULL) {
        out->registration_hits = cache->counts.hits;
        out->registration_misses = cache->counts.misses;
        out->registration_evictions = cache->counts.evictions;
        out->registration_unmapped = btl_ib_registration_unmapped(&cache->counts);
        out->registration_failures = cache->counts.failures;
    }
    if (stats->config.engine != NULL) {
        const btl_ib_transport_t *transport =
            btl_ib_engine_rail_transport(stats->config.engine, rail);
        out->overflows = transport->overflows;
        out->received_bursts = transport->received_bursts;
        out->broken_bursts = transport->broken_bursts;
    }
}

void btl_ib_stats_remove_device(btl_ib_stats_t *stats, uint32_t rail)
{
    device_counters(stats, rail, &stats->ended[rail]);
    stats->caches[rail] = NULL;
}

static void process_counters(const btl_ib_stats_t *stats, btl_ib_process_counters_t *out)
{
    btl_ib_device_counters_t device;

    memset(out, 0, sizeof(*out));
    if (stats->config.engine == NULL) {
        return;
    }
    out->engine = *btl_ib_engine_counters(stats->config.engine);
    for (uint32_t i = 0; i < btl_ib_engine_rails(stats->config.engine); ++i) {
        device_counters(stats, i, &device);
#define BTL_IB_ADD(field, text) out->devices.field += device.field;
        BTL_IB_DEVICE_COUNTERS(BTL_IB_ADD)
#undef BTL_IB_ADD
    }
}

/* ---- shares of devices ---- */

/* Writes the devices and their shares of the payload bytes sent and received: "udp:eth0 97 %,
 * udp:eth1 3 %", or "none". What RDMA devices move by themselves is counted by operations only. */
static void format_carried(const btl_ib_stats_t *stats, char *out, size_t size)
{
    const btl_ib_engine_t *engine = stats->config.engine;
    const uint32_t rails = engine != NULL ? btl_ib_engine_rails(engine) : 0;
    uint64_t bytes[BTL_IB_RAILS_MAX];
    uint64_t sum = 0;
    size_t len = 0;

    for (uint32_t i = 0; i < rails; ++i) {
        btl_ib_rail_counters_t rail;

        btl_ib_engine_rail_counters(engine, i, &rail);
        bytes[i] = rail.sent_bytes + rail.received_bytes;
        sum += bytes[i];
    }
    snprintf(out, size, "none");
    for (uint32_t i = 0; i < rails && len < size; ++i) {
        const uint32_t percent = sum > 0 ? (uint32_t) ((bytes[i] * 100 + sum / 2) / sum) : 0;

        if (bytes[i] > 0) {
            len +=
                (size_t) snprintf(out + len, size - len, percent < 1 ? "%s%s <1 %%" : "%s%s %u %%",
                                  len > 0 ? ", " : "", btl_ib_engine_rail_name(engine, i), percent);
        }
    }
}

/* Prints the line. `when` stands behind the host: "", or for instance " after 10 s,". */
static void stats_print(const btl_ib_stats_t *stats, const char *when,
                        const btl_ib_process_counters_t *counters)
{
    const btl_ib_counters_t *c = &counters->engine;
    char carried[1024];
    char rejected[576];
    char dropped[576];
    char blocked[576];

    format_causes(c, "rejected_", rejected, sizeof(rejected));
    format_causes(c, "dropped_", dropped, sizeof(dropped));
    format_causes(c, "blocked_", blocked, sizeof(blocked));
    format_carried(stats, carried, sizeof(carried));
    fprintf(stderr,
            "btl_ib: rank %u host %s%s sent %" PRIu64 " segments %" PRIu64
            " bytes, received %" PRIu64 " segments %" PRIu64 " bytes, retransmitted %" PRIu64
            " (%" PRIu64 " spurious), timeouts %" PRIu64 ", copied late %" PRIu64
            ", failovers %" PRIu64 ", async turns %" PRIu64 ", datagrams sent %" PRIu64
            " received %" PRIu64 ", puts %" PRIu64 ", gets %" PRIu64 ", atomics %" PRIu64
            ", by device: puts %" PRIu64 " gets %" PRIu64 " atomics %" PRIu64 " returned %" PRIu64
            ", not pinned %" PRIu64 ", served elsewhere %" PRIu64 ", overflows %" PRIu64
            ", blocked %s, rejected %s, dropped %s, carried by %s\n",
            (uint32_t) stats->config.name, stats->config.host, when, c->sent_segments,
            c->sent_bytes, c->received_segments, c->received_bytes, c->retransmits,
            c->retransmits_spurious, c->timeouts, c->zcopy_kept, c->failovers, c->async_turns,
            c->sent_datagrams, c->received_datagrams, c->started_puts, c->started_gets,
            c->started_atomics, c->offload_puts, c->offload_gets, c->offload_atomics,
            c->offload_returned, counters->devices.registration_failures, c->served_elsewhere,
            counters->devices.overflows, blocked, rejected, dropped, carried);
}

void btl_ib_stats_interval(btl_ib_stats_t *stats, uint64_t now)
{
    const btl_ib_stats_config_t *config = &stats->config;
    const uint64_t at = now - config->now;
    btl_ib_process_counters_t counters;
    char when[48];

    process_counters(stats, &counters);
    if (config->prints) {
        snprintf(when, sizeof(when), " after %" PRIu64 ".%" PRIu64 " s,", at / 1000000,
                 at / 100000 % 10);
        stats_print(stats, when, &counters);
    }
    if (config->file != NULL) {
        stats_record_sample(&stats->records, at, &counters);
    }
    while (stats->due <= now) { /* the application may have computed for long */
        stats->due += config->interval;
    }
}

/* Tells at verbose 1 who carried what, and what went another way than it began. */
static void stats_tell_carried(const btl_ib_stats_t *stats,
                               const btl_ib_process_counters_t *counters)
{
    const btl_ib_counters_t *c = &counters->engine;
    const uint64_t unpinned = counters->devices.registration_failures;
    char carried[1024];
    char fell_back[256] = "nothing";

    format_carried(stats, carried, sizeof(carried));
    if (c->failovers + c->offload_returned + unpinned > 0) {
        snprintf(fell_back, sizeof(fell_back),
                 "%" PRIu64 " times to another rail, %" PRIu64
                 " operations from the device to messages, %" PRIu64
                 " times to copies as memory was not pinned",
                 c->failovers, c->offload_returned, unpinned);
    }
    BTL_IB_VERBOSE(1,
                   "%" PRIu64 " messages sent, %" PRIu64 " received, carried by %s; fell back: %s",
                   c->sent_messages, c->received_messages, carried, fell_back);
}

void btl_ib_stats_last(const btl_ib_stats_t *stats)
{
    btl_ib_process_counters_t counters;

    process_counters(stats, &counters);
    if (stats->config.prints) {
        stats_print(stats, "", &counters);
    }
    if (btl_ib_is_verbose(1)) {
        stats_tell_carried(stats, &counters);
    }
}

/* ---- the file ---- */

/* The version of the file's format, to be raised when a name changes its meaning or goes. */
#define SCHEMA_VERSION 1

/* Writes "name": "text", with what JSON does not allow in texts escaped. */
static void put_text(FILE *out, const char *name, const char *text)
{
    fprintf(out, "\"%s\": \"", name);
    for (; *text != '\0'; ++text) {
        const unsigned char c = (unsigned char) *text;

        if (c < ' ' || c > '~' || c == '"' || c == '\\') {
            fprintf(out, "\\u%04x", c);
        } else {
            fputc(c, out);
        }
    }
    fputc('"', out);
}

/* Writes "name": value of each in the table. Returns what is to stand before the next. */
static const char *put_table(FILE *out, const char *separator, const btl_ib_counter_info_t *table,
                             const void *counters)
{
    for (; table->name != NULL; ++table) {
        fprintf(out, "%s\"%s\": %" PRIu64, separator, table->name,
                btl_ib_counter_value(table, counters));
        separator = ", ";
    }
    return separator;
}

/* Writes seconds; not by %f, whose point is a comma in some locales. */
static void put_seconds(FILE *out, uint64_t us)
{
    fprintf(out, "%" PRIu64 ".%03" PRIu64, us / 1000000, us / 1000 % 1000);
}

/* Writes of each of our channels the size of its buffers, and what was counted. */
static void put_channels(FILE *out, const btl_ib_engine_t *engine, uint32_t rail)
{
    btl_ib_peer_info_t info;

    btl_ib_engine_rail_info(engine, rail, &info);
    fprintf(out, ", \"channels\": [");
    for (uint32_t c = 0; c < info.queues.count; ++c) {
        const btl_ib_channel_counters_t counters = btl_ib_engine_channel_counters(engine, rail, c);

        fprintf(out, "%s\n      {\"size\": %" PRIu32, c > 0 ? "," : "", info.queues.q[c].size);
        (void) put_table(out, ", \"counters\": {", btl_ib_channel_counter_infos, &counters);
        fprintf(out, "}}");
    }
    fprintf(out, "]");
}

static void put_devices(FILE *out, const btl_ib_stats_t *stats)
{
    const btl_ib_engine_t *engine = stats->config.engine;
    const uint32_t count = btl_ib_engine_rails(engine);

    fprintf(out, "  \"devices\": [");
    for (uint32_t i = 0; i < count; ++i) {
        btl_ib_rail_counters_t rail;
        btl_ib_device_counters_t device;
        const char *separator;

        btl_ib_engine_rail_counters(engine, i, &rail);
        device_counters(stats, i, &device);
        fprintf(out, "%s\n    {\"rail\": %" PRIu32 ", ", i > 0 ? "," : "", i);
        put_text(out, "name", btl_ib_engine_rail_name(engine, i));
        separator = put_table(out, ", \"counters\": {", btl_ib_rail_counter_infos, &rail);
        (void) put_table(out, separator, btl_ib_device_counter_infos, &device);
        fprintf(out, "}");
        put_channels(out, engine, i);
        fprintf(out, "}");
    }
    fprintf(out, "],\n");
}

/* Writes the records of peers from the `first` on. */
static void put_peers(FILE *out, const btl_ib_stats_records_t *records, uint32_t first)
{
    fprintf(out, "  \"peers\": [");
    for (uint32_t i = first; i < records->peer_count; ++i) {
        const btl_ib_peer_record_info_t *peer = &records->peers[i];

        fprintf(out,
                "%s\n    {\"job\": \"%08" PRIx32 "\", \"rank\": %" PRIu32 ", \"rail\": %" PRIu32
                ", \"dead\": %s, ",
                i > first ? "," : "", (uint32_t) (peer->name >> 32), (uint32_t) peer->name,
                peer->rail, peer->dead ? "true" : "false");
        put_text(out, "host", peer->host);
        fprintf(out, ", ");
        put_text(out, "address", peer->address);
        (void) put_table(out, ", \"counters\": {", btl_ib_conn_counter_infos, &peer->counters);
        (void) put_table(out, "}, \"levels\": {", btl_ib_conn_level_infos, &peer->levels);
        fprintf(out, "}}");
    }
    fprintf(out, "],\n");
}

/* Writes those counters of a table that ever were more than 0, each as an array. */
static const char *put_course(FILE *out, const char *separator, const btl_ib_counter_info_t *table,
                              size_t offset, const btl_ib_stats_records_t *records, uint32_t first)
{
    const btl_ib_sample_info_t *samples = records->samples;

    for (; table->name != NULL && records->sample_count > 0; ++table) {
        const char *last = (const char *) &samples[records->sample_count - 1].counters + offset;

        if (btl_ib_counter_value(table, last) == 0) {
            continue;
        }
        fprintf(out, "%s\n    \"%s\": [", separator, table->name);
        for (uint32_t i = first; i < records->sample_count; ++i) {
            fprintf(out, "%s%" PRIu64, i > first ? ", " : "",
                    btl_ib_counter_value(table, (const char *) &samples[i].counters + offset));
        }
        fprintf(out, "]");
        separator = ",";
    }
    return separator;
}

/* Writes samples from the `first` on. */
static void put_samples(FILE *out, const btl_ib_stats_records_t *records, uint32_t first)
{
    const char *separator = "";

    fprintf(out, "  \"samples\": {\"seconds\": [");
    for (uint32_t i = first; i < records->sample_count; ++i) {
        fprintf(out, "%s", i > first ? ", " : "");
        put_seconds(out, records->samples[i].at);
    }
    fprintf(out, "], \"counters\": {");
    separator = put_course(out, separator, btl_ib_counter_infos,
                           offsetof(btl_ib_process_counters_t, engine), records, first);
    (void) put_course(out, separator, btl_ib_device_counter_infos,
                      offsetof(btl_ib_process_counters_t, devices), records, first);
    fprintf(out, "}}\n");
}

static void put_all(FILE *out, const btl_ib_stats_t *stats, uint64_t now, bool running)
{
    const btl_ib_stats_config_t *config = &stats->config;
    const uint32_t samples = stats->records.sample_count;
    btl_ib_process_counters_t counters;
    const char *separator;

    process_counters(stats, &counters);
    fprintf(out, "{\n  \"schema\": \"btl_ib stats\", \"version\": %d,\n  ", SCHEMA_VERSION);
    put_text(out, "component", config->component);
    fprintf(out, ", ");
    put_text(out, "openmpi", config->openmpi);
    fprintf(out, ",\n  ");
    put_text(out, "host", config->host);
    fprintf(out,
            ", \"job\": \"%08" PRIx32 "\", \"rank\": %" PRIu32 ", \"processes\": %" PRIu32
            ", \"pid\": %ld,\n  \"running\": %s, \"ended\": %lld, \"complete\": %s, \"seconds\": ",
            (uint32_t) (config->name >> 32), (uint32_t) config->name, config->processes,
            (long) getpid(), running ? "true" : "false", (long long) time(NULL),
            stats->records.incomplete ? "false" : "true");
    put_seconds(out, now - config->now);
    separator = put_table(out, ",\n  \"counters\": {", btl_ib_counter_infos, &counters.engine);
    (void) put_table(out, separator, btl_ib_device_counter_infos, &counters.devices);
    fprintf(out, "},\n");
    put_devices(out, stats);
    put_peers(out, &stats->records, running ? stats->records.peers_written : 0);
    put_samples(out, &stats->records, running && samples > 2 ? samples - 2 : 0);
    fprintf(out, "}\n");
}

int btl_ib_stats_file_create(const char *name)
{
    const int fd = btl_ib_file_create(name);

    return fd < 0 ? -fd : close(fd) != 0 ? errno : 0;
}

/* Writes the file beside the old one, which it then replaces. Returns 0 or an errno. */
static int stats_file_write(const btl_ib_stats_t *stats, uint64_t now, bool running)
{
    const char *name = stats->config.file;
    char *next = NULL;
    int error;
    FILE *out;

    if (asprintf(&next, "%s.next", name) < 0) {
        return ENOMEM;
    }
    out = btl_ib_file_open(next, &error);
    if (out != NULL) {
        put_all(out, stats, now, running);
        error = btl_ib_file_close(out);
        if (error == 0 && rename(next, name) != 0) {
            error = errno;
        }
        if (error != 0) {
            (void) unlink(next);
        }
    }
    free(next);
    return error;
}

int btl_ib_stats_file_last(const btl_ib_stats_t *stats, uint64_t now)
{
    return stats->config.file != NULL ? stats_file_write(stats, now, false) : 0;
}

void btl_ib_stats_file_update(btl_ib_stats_t *stats, uint64_t now, uint32_t ended)
{
    if (stats_file_write(stats, now, true) == 0) {
        stats->records.peers_written = ended;
    }
    stats->records.peer_count = ended;
}

/* ---- a signal that asks for what a process waits for ---- */

static volatile sig_atomic_t dump_signal_came;

/* The signal that is handled; 0: none is. */
static int dump_signal;

static void dump_signal_note(int number)
{
    (void) number;
    dump_signal_came = 1;
}

bool btl_ib_dump_signal_take(void)
{
    const bool came = dump_signal_came != 0;

    dump_signal_came = 0;
    return came;
}

const char *btl_ib_dump_signal_watch(int number)
{
    struct sigaction action = {.sa_handler = dump_signal_note, .sa_flags = SA_RESTART}, before;

    if (number != SIGUSR1 && number != SIGUSR2 && (number < SIGRTMIN || number > SIGRTMAX)) {
        return "neither SIGUSR1 (10 on most systems), SIGUSR2 (12) nor a real-time signal";
    }
    (void) sigemptyset(&action.sa_mask);
    if (sigaction(number, NULL, &before) != 0) {
        return strerror(errno);
    }
    if ((before.sa_flags & SA_SIGINFO) != 0
        || (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)) {
        return "the program, or a library, has a handler for it already";
    }
    if (sigaction(number, &action, NULL) != 0) {
        return strerror(errno);
    }
    dump_signal = number;
    return NULL;
}

void btl_ib_dump_signal_ignore(void)
{
    struct sigaction now;

    if (dump_signal != 0 && sigaction(dump_signal, NULL, &now) == 0
        && (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == dump_signal_note) {
        (void) signal(dump_signal, SIG_IGN);
    }
    dump_signal = 0;
}

/* ---- MPI_T: performance variables ---- */

#define PREFIX "btl_ib_"

/* Variables of one kind: how their names begin, and their values. */
typedef struct kind {
    const char *prefix; /* behind PREFIX */
    const char *whose;  /* added to descriptions */
    const btl_ib_counter_info_t *tables[2];
    int class[2];
    uint32_t values; /* 0: one for each process of the job */
    /* Read the values of an entry of a table to `out`, which is 0. The engine's lock is held. */
    void (*read)(const btl_ib_stats_t *stats, int table, const btl_ib_counter_info_t *info,
                 unsigned long long *out);
} kind_t;

enum {
    COUNTER = MCA_BASE_PVAR_CLASS_COUNTER,
    LEVEL = MCA_BASE_PVAR_CLASS_LEVEL,
};

/* ---- reading ---- */

static void read_process(const btl_ib_stats_t *stats, int table, const btl_ib_counter_info_t *info,
                         unsigned long long *out)
{
    btl_ib_process_counters_t counters;

    process_counters(stats, &counters);
    *out = btl_ib_counter_value(info, table == 0 ? (const void *) &counters.engine
                                                 : (const void *) &counters.devices);
}

static void read_devices(const btl_ib_stats_t *stats, int table, const btl_ib_counter_info_t *info,
                         unsigned long long *out)
{
    btl_ib_rail_counters_t rail;
    btl_ib_device_counters_t device;

    for (uint32_t i = 0; i < btl_ib_engine_rails(stats->config.engine); ++i) {
        btl_ib_engine_rail_counters(stats->config.engine, i, &rail);
        device_counters(stats, i, &device);
        out[i] =
            btl_ib_counter_value(info, table == 0 ? (const void *) &rail : (const void *) &device);
    }
}

static void read_channels(const btl_ib_stats_t *stats, int table, const btl_ib_counter_info_t *info,
                          unsigned long long *out)
{
    const btl_ib_engine_t *engine = stats->config.engine;

    (void) table;
    for (uint32_t i = 0; i < btl_ib_engine_rails(engine); ++i) {
        for (uint32_t c = 0; c < BTL_IB_QUEUES_MAX; ++c) {
            const btl_ib_channel_counters_t counters = btl_ib_engine_channel_counters(engine, i, c);

            out[c] += btl_ib_counter_value(info, &counters);
        }
    }
}

/* Reads the counters, or levels, of peers. Counters of several rails to one process are added; of
 * levels the largest counts. */
static void read_peers(const btl_ib_stats_t *stats, int table, const btl_ib_counter_info_t *info,
                       unsigned long long *out)
{
    const btl_ib_engine_t *engine = stats->config.engine;
    const btl_ib_conn_t *conn = NULL;

    while ((conn = btl_ib_engine_next_conn(engine, conn)) != NULL) {
        const uint64_t name = btl_ib_conn_name(conn);
        const uint32_t rank = (uint32_t) name;

        if (name >> 32 != stats->config.name >> 32 || rank >= stats->config.processes) {
            continue; /* the peer is of another job */
        }
        if (table == 0) {
            const btl_ib_conn_counters_t counters = btl_ib_conn_counters(conn);

            out[rank] += btl_ib_counter_value(info, &counters);
        } else {
            const btl_ib_conn_levels_info_t levels = btl_ib_conn_levels(conn);
            const uint64_t level = btl_ib_counter_value(info, &levels);

            out[rank] = level > out[rank] ? level : out[rank];
        }
    }
}

static const btl_ib_counter_info_t none[] = {{NULL, 0, NULL}};

/* The last kind has variables whose names begin with no other prefix. */
static const kind_t kinds[] = {
    {
        .prefix = "device_",
        .whose = "of each device",
        .tables = {btl_ib_rail_counter_infos, btl_ib_device_counter_infos},
        .class = {COUNTER, COUNTER},
        .values = BTL_IB_RAILS_MAX,
        .read = read_devices,
    },
    {
        .prefix = "channel_",
        .whose = "of each queue of btl_ib_receive_queues, the smallest first: sent ones by the "
                 "peer's, received ones by ours",
        .tables = {btl_ib_channel_counter_infos, none},
        .class = {COUNTER, COUNTER},
        .values = BTL_IB_QUEUES_MAX,
        .read = read_channels,
    },
    {
        .prefix = "peer_",
        .whose = "of what goes to or comes from each process, by its rank in MPI_COMM_WORLD",
        .tables = {btl_ib_conn_counter_infos, btl_ib_conn_level_infos},
        .class = {COUNTER, LEVEL},
        .read = read_peers,
    },
    {
        .prefix = "",
        .whose = "of this process",
        .tables = {btl_ib_counter_infos, btl_ib_device_counter_infos},
        .class = {COUNTER, COUNTER},
        .values = 1,
        .read = read_process,
    },
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static const kind_t *kind_of(const mca_base_pvar_t *pvar)
{
    const kind_t *kind = kinds;

    while (strncmp(pvar->name + strlen(PREFIX), kind->prefix, strlen(kind->prefix)) != 0) {
        ++kind;
    }
    return kind;
}

static uint32_t values_of(const kind_t *kind, const btl_ib_stats_t *stats)
{
    return kind->values != 0 ? kind->values : stats->config.processes;
}

/* Finds the entry of a variable, and which of the two tables of its kind has it; NULL: this version
 * of the component has no such variable. */
static const btl_ib_counter_info_t *find_counter(const mca_base_pvar_t *pvar, const kind_t *kind,
                                                 int *table)
{
    const char *name = pvar->name + strlen(PREFIX) + strlen(kind->prefix);

    for (*table = 0; *table < 2; ++*table) {
        for (const btl_ib_counter_info_t *info = kind->tables[*table]; info->name != NULL; ++info) {
            if (strcmp(info->name, name) == 0) {
                return info;
            }
        }
    }
    return NULL;
}

static int get_values(const mca_base_pvar_t *pvar, void *value, void *object)
{
    const btl_ib_stats_t *stats = pvar->ctx;
    const kind_t *kind = kind_of(pvar);
    int table;
    const btl_ib_counter_info_t *info = find_counter(pvar, kind, &table);

    (void) object;
    memset(value, 0, values_of(kind, stats) * sizeof(unsigned long long));
    if (info == NULL || stats->config.engine == NULL) {
        return OPAL_SUCCESS;
    }
    btl_ib_biased_lock_acquire(stats->config.lock);
    if (stats->config.engine != NULL) {
        kind->read(stats, table, info, value);
    }
    btl_ib_biased_lock_release(stats->config.lock);
    return OPAL_SUCCESS;
}

/* ---- binding ---- */

/* Tells how many values a variable has. */
static int bind_values(mca_base_pvar_t *pvar, mca_base_pvar_event_t event, void *object, int *count)
{
    (void) object;
    if (event != MCA_BASE_PVAR_HANDLE_BIND) {
        return OPAL_SUCCESS;
    }
    *count = (int) values_of(kind_of(pvar), pvar->ctx);
    return *count > 0 ? OPAL_SUCCESS : OPAL_ERR_NOT_BOUND;
}

/* ---- registering ---- */

static void register_kind(const mca_base_component_t *component, const kind_t *kind,
                          btl_ib_stats_t *stats)
{
    char name[64];
    char text[256];

    for (int table = 0; table < 2; ++table) {
        for (const btl_ib_counter_info_t *info = kind->tables[table]; info->name != NULL; ++info) {
            snprintf(name, sizeof(name), "%s%s", kind->prefix, info->name);
            snprintf(text, sizeof(text), "%s, %s", btl_ib_counter_text(info), kind->whose);
            /* A variable that is refused is missing, no more. */
            (void) mca_base_component_pvar_register(
                component, name, text, OPAL_INFO_LVL_5, kind->class[table],
                MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
                MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, get_values, NULL,
                bind_values, stats);
        }
    }
}

void btl_ib_pvars_register(const mca_base_component_t *component, btl_ib_stats_t *stats)
{
    for (int i = 0; i < KINDS; ++i) {
        register_kind(component, &kinds[i], stats);
    }
}
