/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Transport "ofi" where calls of libfabric are refused: no device, or none that opens, with the
 * call and the cause named and nothing left; or it goes on. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fake_provider.h"
#include "refusals.h"
#include "transport.h"

#undef stop /* cmocka 2.0 has a macro of that name */

static const offer_t only_fake[] = {{"verbs", "fake0-dgram", "fake0", NULL}};

static int set_up(void **state)
{
    fake = (fake_t){.local = true};
    offers = only_fake;
    offer_count = COUNT(only_fake);
    refuse(NULL, 0, 0);
    return 0;
}

static int list_devices(btl_ib_device_t **list)
{
    return btl_ib_ofi_type.devices(&(btl_ib_search_t){.provider = "", .log = refusals_log}, list);
}

static int open_device(btl_ib_transport_t **t, const char *call, int error, int after,
                       const char **name)
{
    const btl_ib_open_params_t params = {.log = refusals_log, .refused = name};
    btl_ib_device_t *list = NULL;

    refuse(NULL, 0, 0);
    assert_int_equal(list_devices(&list), 1);
    refuse(call, error, after);
    const int rc = btl_ib_ofi_type.open(&list[0], &params, t);
    btl_ib_ofi_type.devices_free(list, 1);
    return rc;
}

static void close_device(btl_ib_transport_t *t)
{
    t->ops->stop(t);
    t->ops->close(t);
    assert_int_equal(live, 0);
}

TEST_WITH(no_device_is_found, set_up, NULL)
{
    btl_ib_device_t *list;

    for (const int *error = refusals_errors; *error != 0; error++) {
        refuse("fi_getinfo", *error, 0);
        assert_int_equal(list_devices(&list), -EIO);
        assert_true(refusals_named("fi_getinfo", *error));
    }
}

/* Opens it while a call is refused, the first time, the second ... until all are made. */
static void try_call(const char *call, int error)
{
    int after = 0;

    for (int refused = 1; refused > 0; after++) {
        const char *name = NULL;
        btl_ib_transport_t *t = NULL;
        const int rc = open_device(&t, call, error, after, &name);

        refused = refusals();
        if (refused == 0) {
            assert_int_equal(rc, 0);
            close_device(t);
        } else {
            assert_int_equal(rc, -error);
            assert_string_equal(name, call);
            assert_true(refusals_named(call, error));
        }
        assert_int_equal(live, 0);
    }
    refuse(NULL, 0, 0);
    assert_true(after > 1); /* it is made */
}

TEST_WITH(the_device_does_not_open, set_up, NULL)
{
    static const char *const calls[] = {
        "fi_fabric",  "fi_domain", "fi_av_open", "fi_cq_open", "fi_endpoint",
        "fi_ep_bind", "fi_enable", "fi_getname", "fi_mr_reg",  "fi_recvmsg",
    };

    for (size_t i = 0; i < COUNT(calls); i++) {
        for (const int *error = refusals_errors; *error != 0; error++) {
            try_call(calls[i], *error);
        }
    }
}

/* Whether datagrams tell their sources is asked for once more; without an answer they do not. */
TEST_WITH(it_goes_on_without_sources, set_up, NULL)
{
    btl_ib_transport_t *t = NULL;
    const char *name = NULL;

    assert_int_equal(open_device(&t, "fi_getinfo", EPERM, 0, &name), 0);
    assert_int_equal(refusals(), 1);
    assert_null(name);
    close_device(t);
}

TEST_WITH(a_peer_is_not_added, set_up, NULL)
{
    btl_ib_transport_t *t = NULL;
    const char *name = NULL;
    btl_ib_addr_t addr;

    for (const int *error = refusals_errors; *error != 0; error++) {
        assert_int_equal(open_device(&t, "fi_av_insert", *error, 0, &name), 0);
        assert_int_equal(t->ops->addr_add(t, t->address, t->address_len, &addr), -*error);
        assert_true(refusals_named("fi_av_insert", *error));
        refuse(NULL, 0, 0);
        assert_int_equal(t->ops->addr_add(t, t->address, t->address_len, &addr), 0);
        close_device(t);
    }
}

TEST_WITH(memory_is_not_registered, set_up, NULL)
{
    static uint8_t memory[64];
    btl_ib_transport_t *t = NULL;
    const char *name = NULL;
    void *mem;

    for (const int *error = refusals_errors; *error != 0; error++) {
        assert_int_equal(open_device(&t, NULL, 0, 0, &name), 0);
        refuse("fi_mr_reg", *error, 0);
        assert_int_equal(t->ops->mem_register(t, memory, sizeof(memory), &mem), -*error);
        assert_true(refusals_named("fi_mr_reg", *error));
        close_device(t);
    }
}

/* A queue that cannot be read is told once: the device failed. */
TEST_WITH(the_queue_is_not_read, set_up, NULL)
{
    btl_ib_transport_t *t = NULL;
    btl_ib_event_t events[4];
    const char *name = NULL;

    for (const int *error = refusals_errors; *error != 0; error++) {
        assert_int_equal(open_device(&t, "fi_cq_read", *error, 0, &name), 0);
        assert_int_equal(t->ops->poll(t, 0, events, 4), 1);
        assert_int_equal(events[0].type, BTL_IB_EVENT_FAILED);
        assert_int_equal(events[0].error, *error);
        assert_true(refusals_named("fi_cq_read", *error));
        close_device(t);
    }
}

UNIT_MAIN(NULL, NULL)
