/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/*
 * The BTL's send functions, called directly with what a PML does not do: descriptors of alloc and
 * prepare_src with every combination of their flags, some of which their callbacks send once more,
 * to another rank, and sendi with and without a descriptor. Some callbacks call progress. Every
 * message arrives once and whole, every callback that is due comes once, those that send do not
 * pile up on the stack, its descriptor is its own until it returns, memory that was given back is
 * not read any more, and all references to endpoints are returned. To all ranks, the own one too.
 * Some data are said to be in the memory of an accelerator: nobody but the convertor may touch
 * these. seed=N (1), messages=N (3000)
 */

#include "opal_config.h"

#include "module.h"

#include <stdbool.h>

#include "opal/class/opal_object.h"
#include "opal/datatype/opal_convertor.h"
#include "opal/datatype/opal_datatype.h"

#define TAG         (MCA_BTL_TAG_USR + 5)
#define PENDING_MAX 64
#define AGAIN_MAX   3    /* how often a callback sends its descriptor once more */
#define PATIENCE    20.0 /* seconds */

/* What a message begins with; a pattern of its number follows. */
typedef struct head {
    uint32_t from, number; /* number among those from there to here */
    uint64_t bytes;        /* behind this */
} head_t;

typedef enum source { ALLOC, PREPARE, SENDI, SOURCES } source_t;

/* A descriptor that is on its way. */
typedef struct item {
    source_t source;
    uint32_t flags;
    int to, again;
    size_t bytes;
    unsigned char *data; /* PREPARE, SENDI: where the bytes are */
    bool on_device;      /* as far as the BTL can know */
    int due, calls;      /* callbacks */
} item_t;

static uint64_t state;
static size_t bytes_max;
static int pending;
static int sends_in_callbacks;   /* that have not returned */
static size_t copied;            /* bytes, out of the memory of a device */
static uint32_t *sent;           /* to each rank */
static uint32_t *came;           /* from each rank */
static unsigned char **seen;     /* a byte for each number of each rank */
static unsigned char *assembled; /* a message in one piece */

/* ---- messages that come ---- */

static void take(const mca_btl_base_segment_t *segments, size_t count)
{
    size_t size_all = 0;
    head_t head;

    for (size_t i = 0; i < count; i++) {
        if (size_all + segments[i].seg_len > sizeof(head) + bytes_max) {
            fail("a message is longer than any that was sent");
        }
        memcpy(assembled + size_all, segments[i].seg_addr.pval, segments[i].seg_len);
        size_all += segments[i].seg_len;
    }
    memcpy(&head, assembled, sizeof(head));
    if (size_all < sizeof(head) || head.from >= (uint32_t) size
        || size_all != sizeof(head) + head.bytes) {
        fail("a message of %zu bytes is none of ours", size_all);
    }
    pattern_check(assembled + sizeof(head), head.bytes, (uint64_t) head.from << 32 | head.number,
                  "message");
    if (seen[head.from][head.number]++ != 0) {
        fail("message %u of rank %u came twice", head.number, head.from);
    }
    came[head.from]++;
}

#if OPAL_MAJOR_VERSION >= 5
static void received(mca_btl_base_module_t *module, const mca_btl_base_receive_descriptor_t *des)
{
    (void) module;
    take(des->des_segments, des->des_segment_count);
}
#else
static void received(mca_btl_base_module_t *module, mca_btl_base_tag_t tag,
                     mca_btl_base_descriptor_t *des, void *context)
{
    (void) module;
    (void) tag;
    (void) context;
    take(des->des_segments, des->des_segment_count);
}
#endif

/* ---- messages that go ---- */

static head_t next_head(const item_t *item)
{
    return (head_t){(uint32_t) rank, sent[item->to]++, item->bytes};
}

static void fill(unsigned char *to, const head_t *head)
{
    pattern_fill(to, head->bytes, (uint64_t) head->from << 32 | head->number);
}

/* Nobody has the memory any more: whoever still reads it sends something wrong. */
static void spoil(const item_t *item)
{
    if (item->data != NULL) {
        memset(item->data, 0x5a, item->bytes);
    }
}

static void finished(item_t *item)
{
    spoil(item);
    free(item->data);
    item->data = NULL;
    pending--;
}

#if OPAL_MAJOR_VERSION >= 5
#define ON_DEVICE CONVERTOR_ACCELERATOR

/* In place of what copies to and from a device. */
static void *copy_of_device(void *to, const void *from, size_t bytes, opal_convertor_t *convertor)
{
    (void) convertor;
    copied += bytes;
    return memcpy(to, from, bytes);
}

static void move_to_device(opal_convertor_t *convertor)
{
    convertor->flags |= ON_DEVICE;
    convertor->cbmemcpy = copy_of_device;
    copied = 0;
}
#else
#define ON_DEVICE CONVERTOR_CUDA

/* Built without CUDA Open MPI copies what is there itself. */
static void move_to_device(opal_convertor_t *convertor)
{
    convertor->flags |= ON_DEVICE;
    copied = convertor->local_size;
}
#endif

static void prepare_convertor(opal_convertor_t *convertor, const item_t *item)
{
    OBJ_CONSTRUCT(convertor, opal_convertor_t);
    opal_convertor_copy_and_prepare_for_send(opal_proc_local_get()->proc_convertor,
                                             &opal_datatype_uint1, item->bytes, item->data, 0,
                                             convertor);
    if (item->on_device) {
        move_to_device(convertor);
    }
}

/* Were all bytes copied, and by nobody else? */
static void check_copied(const item_t *item)
{
    if (item->on_device && copied != item->bytes) {
        fail("%zu of %zu bytes of a device were copied by the convertor", copied, item->bytes);
    }
}

static void callback(mca_btl_base_module_t *module, peer_t *endpoint,
                     mca_btl_base_descriptor_t *des, int status);

static mca_btl_base_descriptor_t *prepare(const item_t *item)
{
    opal_convertor_t convertor;
    size_t bytes = item->bytes;
    mca_btl_base_descriptor_t *des;

    prepare_convertor(&convertor, item);
    des = btl->btl_prepare_src(btl, peers[item->to], &convertor, MCA_BTL_NO_ORDER, sizeof(head_t),
                               &bytes, item->flags);
    if (des != NULL && bytes != item->bytes) {
        fail("%zu bytes prepared instead of %zu", bytes, item->bytes);
    }
    if (des != NULL && item->on_device && des->des_segment_count > 1) {
        fail("%zu bytes of a device are to be sent from where they are", bytes);
    }
    check_copied(item);
    OBJ_DESTRUCT(&convertor);
    return des;
}

/* Where the bytes of a message are: a descriptor may be sent more than once. */
static unsigned char *body_of(const mca_btl_base_descriptor_t *des)
{
    return des->des_segment_count > 1
               ? des->des_segments[1].seg_addr.pval
               : (unsigned char *) des->des_segments[0].seg_addr.pval + sizeof(head_t);
}

/* The descriptor may be gone when this returns. */
static void send_item(item_t *item, mca_btl_base_descriptor_t *des)
{
    const bool quiet = (item->flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP) != 0
                       && (item->flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK) == 0;
    const head_t head = next_head(item);
    int rc;

    memcpy(des->des_segments[0].seg_addr.pval, &head, sizeof(head));
    fill(body_of(des), &head);
    des->des_cbfunc = callback;
    des->des_cbdata = item;
    item->due++;
    rc = btl->btl_send(btl, peers[item->to], des, TAG);
    if (rc == 1 && quiet) {
        item->due--;
        finished(item);
    } else if (rc != OPAL_SUCCESS) {
        fail("send of %zu bytes to %d, flags %x: %d", item->bytes, item->to, item->flags, rc);
    }
}

/* Within a callback the transport may be finished with the descriptor. Nobody gets it before its
 * callback returns. */
static void linger(const mca_btl_base_descriptor_t *des, const item_t *item)
{
    static int depth;
    mca_btl_base_descriptor_t *other;

    if (depth > 0 || random_below(&state, 4) > 0) {
        return;
    }
    depth++;
    for (int i = 0; i < 100; i++) {
        opal_progress();
    }
    depth--;
    other = btl->btl_alloc(btl, peers[item->to], MCA_BTL_NO_ORDER, sizeof(head_t) + item->bytes,
                           item->flags);
    if (other == des || des->des_cbdata != item) {
        fail("the descriptor of a callback was given to somebody else, flags %x", item->flags);
    }
    if (other != NULL) {
        btl->btl_free(btl, other);
    }
}

static void callback(mca_btl_base_module_t *module, peer_t *endpoint,
                     mca_btl_base_descriptor_t *des, int status)
{
    item_t *item = des->des_cbdata;

    /* One may be: that of a send which the engine does not know of, and then one of the
     * engine's. */
    if (sends_in_callbacks > 1) {
        fail("callbacks send within each other, flags %x", item->flags);
    }
    linger(des, item);
    if (module != btl || endpoint != peers[item->to] || status != OPAL_SUCCESS) {
        fail("callback of a send to %d: status %d, or of another one", item->to, status);
    }
    if (++item->calls > item->due) {
        fail("a callback too many of a send to %d, flags %x", item->to, item->flags);
    }
    if ((item->flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP) != 0) {
        finished(item);
    } else if (item->again > 0) {
        item->again--;
        item->to = (item->to + 1) % size;
        sends_in_callbacks++;
        send_item(item, des);
        sends_in_callbacks--;
    } else {
        btl->btl_free(btl, des);
        finished(item);
    }
}

/* Without a descriptor: now or not at all, and then nothing has happened. */
static void send_immediately(item_t *item)
{
    mca_btl_base_descriptor_t *des = NULL;
    const bool wants = random_below(&state, 2) > 0;
    head_t head = next_head(item);
    opal_convertor_t convertor;
    int rc;

    fill(item->data, &head);
    prepare_convertor(&convertor, item);
    rc = btl->btl_sendi(btl, peers[item->to], &convertor, &head, sizeof(head), item->bytes,
                        MCA_BTL_NO_ORDER, item->flags, TAG, wants ? &des : NULL);
    if (rc != OPAL_SUCCESS) {
        if (rc != OPAL_ERR_RESOURCE_BUSY || convertor.bConverted != 0) {
            fail("sendi of %zu bytes to %d: %d, %zu bytes consumed", item->bytes, item->to, rc,
                 convertor.bConverted);
        }
        sent[item->to]--;
    } else {
        check_copied(item);
    }
    if (des != NULL) {
        btl->btl_free(btl, des);
    }
    OBJ_DESTRUCT(&convertor);
    finished(item);
}

static void draw(item_t *item)
{
    static const uint32_t flags[] = {MCA_BTL_DES_FLAGS_BTL_OWNERSHIP,
                                     MCA_BTL_DES_SEND_ALWAYS_CALLBACK, MCA_BTL_DES_FLAGS_PRIORITY};

    *item = (item_t){.source = (source_t) random_below(&state, SOURCES)};
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        item->flags |= random_below(&state, 2) > 0 ? flags[i] : 0;
    }
    item->to = (int) random_below(&state, (uint64_t) size);
    item->again = (int) random_below(&state, AGAIN_MAX + 1);
    item->bytes = random_size(&state, item->source == SENDI ? 4096 : bytes_max);
    item->data = item->source == ALLOC ? NULL : get_memory(item->bytes);
    item->on_device = item->data != NULL && random_below(&state, 4) == 0;
}

static void begin_one(item_t *item)
{
    mca_btl_base_descriptor_t *des;

    draw(item);
    pending++;
    if (item->source == SENDI) {
        send_immediately(item);
        return;
    }
    des = item->source == ALLOC ? btl->btl_alloc(btl, peers[item->to], MCA_BTL_NO_ORDER,
                                                 sizeof(head_t) + item->bytes, item->flags)
                                : prepare(item);
    if (des == NULL) {
        fail("no descriptor for %zu bytes", item->bytes);
    }
    send_item(item, des);
}

/* ---- the frame ---- */

static int32_t references(int of)
{
    return ((const opal_object_t *) (const void *) peers[of])->obj_reference_count;
}

static void wait_for(const char *what, bool (*there)(const void *), const void *context)
{
    const double end = seconds_now() + PATIENCE;

    while (!there(context)) {
        opal_progress();
        if (seconds_now() > end) {
            fail("%s: not after %.0f s", what, PATIENCE);
        }
    }
}

static bool few_pending(const void *most)
{
    return pending <= *(const int *) most;
}

static bool all_came(const void *expected)
{
    return memcmp(came, expected, sizeof(*came) * (size_t) size) == 0;
}

static bool references_are(const void *before)
{
    for (int r = 0; r < size; r++) {
        if (references(r) != ((const int32_t *) before)[r]) {
            return false;
        }
    }
    return true;
}

static void send_all(item_t *items, int messages)
{
    const int most = PENDING_MAX, none = 0;

    for (int i = 0; i < messages; i++) {
        wait_for("callbacks of a few", few_pending, &most);
        begin_one(&items[i]);
    }
    wait_for("all callbacks", few_pending, &none);
    for (int i = 0; i < messages; i++) {
        if (items[i].calls != items[i].due) {
            fail("%d callbacks of a descriptor, expected were %d", items[i].calls, items[i].due);
        }
    }
}

int main(int argc, char **argv)
{
    /* With a thread that delivers its callbacks would come from two threads at once. */
    setenv("OMPI_MCA_btl_ib_progress", "serve", 1);
    begin(&argc, &argv, "sends");
    const int messages = (int) arg(argc, argv, "messages", 3000);
    const size_t ranks = (size_t) size, most = (size_t) messages * (AGAIN_MAX + 1);
    item_t *items = get_memory(sizeof(*items) * (size_t) messages);
    uint32_t *expected = get_memory(sizeof(*expected) * ranks);
    int32_t *before = get_memory(sizeof(*before) * ranks);

    state = (uint64_t) arg(argc, argv, "seed", 1) ^ (uint64_t) rank << 40;
    find_module();
    find_peers();
    bytes_max = btl->btl_max_send_size;
    assembled = get_memory(sizeof(head_t) + bytes_max);
    sent = calloc(ranks, sizeof(*sent));
    came = calloc(ranks, sizeof(*came));
    seen = get_memory(sizeof(*seen) * ranks);
    for (int r = 0; r < size; r++) {
        seen[r] = calloc(most, 1);
        before[r] = references(r);
    }
    mca_btl_base_active_message_trigger[TAG].cbfunc = received;
    MPI_Barrier(MPI_COMM_WORLD);

    send_all(items, messages);
    MPI_Alltoall(sent, 1, MPI_UINT32_T, expected, 1, MPI_UINT32_T, MPI_COMM_WORLD);
    wait_for("all messages", all_came, expected);
    MPI_Barrier(MPI_COMM_WORLD);
    wait_for("references to endpoints", references_are, before);

    for (int r = 0; r < size; r++) {
        free(seen[r]);
    }
    free(seen);
    free(came);
    free(sent);
    free(assembled);
    free(before);
    free(expected);
    free(items);
    free(procs);
    free(peers);
    finish();
    return 0;
}
