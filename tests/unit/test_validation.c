/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Do a connection's own two rails reach the peer: what says so, what denies it, and what the user
 * is told. */

#include <errno.h>
#include <string.h>

#include "btl_ib_route.h"
#include "btl_ib_state.h"
#include "btl_ib_validation.h"
#include "pairs.h"

static btl_ib_conn_t *home, *away;      /* with the same process, by rails 0 and 1 */
static btl_ib_validation_t *validation; /* of `home` */
static btl_ib_engine_ops_t ops;         /* the bench's, but for those that a test sets */
static const btl_ib_engine_ops_t *ops_before;

/* What callbacks were told. */
static uint32_t told;
static int told_error;
static bool told_heard;
static btl_ib_silence_t told_silence;

static int set_up_two(void **state)
{
    (void) set_up(state);
    engine->clock.now = 500 * (uint64_t) SECOND;
    engine->clock.awake = 400 * (uint64_t) SECOND;
    engine->clock.ran = 300 * (uint64_t) SECOND;
    home = pair[0][0];
    away = pair[1][1];
    pair[0][1]->validation.valid = false;
    pair[1][0]->validation.valid = false;
    validation = &home->validation;
    ops_before = engine->ops;
    ops = *engine->ops;
    engine->ops = &ops;
    told = 0;
    return 0;
}

static int tear_down_two(void **state)
{
    engine->ops = ops_before;
    return tear_down(state);
}

#define TEST_OF_TWO(name) TEST_WITH(name, set_up_two, tear_down_two)

/* ---- refusals ---- */

/* A refusal counts for so long, and until something got there. */
TEST_OF_TWO(refusals_are_over)
{
    assert_false(btl_ib_validation_refuses(home));
    validation->refused_at = engine->clock.now;
    assert_true(btl_ib_validation_refuses(home));
    assert_true(btl_ib_validation_any_refused(home));
    assert_true(btl_ib_validation_any_refused(away)); /* of the same process */
    engine->clock.now += BTL_IB_REFUSED_GAP;
    assert_true(btl_ib_validation_refuses(home));
    engine->clock.now++;
    assert_false(btl_ib_validation_refuses(home));
    assert_false(btl_ib_validation_any_refused(away));
    away->validation.refused_at = engine->clock.now;
    assert_true(btl_ib_validation_any_refused(home));
    engine->rails[1]->health.down = true; /* what does not count when rails are chosen */
    assert_false(btl_ib_validation_any_refused(home));
    engine->rails[1]->health.down = false;
}

/* Refusals that follow each other within the gap are one series, which counts when it lasts. */
TEST_OF_TWO(a_series_of_refusals)
{
    home->loss.refused_at = engine->clock.now;
    assert_false(btl_ib_validation_refused_again(home));
    engine->clock.now += BTL_IB_REFUSED_LONG - 1;
    assert_false(btl_ib_validation_refused_again(home));
    engine->clock.now++;
    assert_true(btl_ib_validation_refused_again(home));
    home->loss.refused_at = engine->clock.now;
    engine->clock.now += BTL_IB_REFUSED_GAP;
    assert_true(btl_ib_validation_refused_again(home));
    engine->clock.now++;
    assert_false(btl_ib_validation_refused_again(home)); /* another series */
    assert_int_equal(validation->route_refused, engine->clock.now);
}

/* The peer echoes what was stamped at that time. */
static void echoed(uint64_t stamped_at, uint8_t flags)
{
    const btl_ib_view_t view = {.flags = flags, .echo = (uint32_t) stamped_at};

    btl_ib_validation_echoed(home, &view);
}

/* What was refused leads there again if something that was sent since is echoed. */
TEST_OF_TWO(an_echo_ends_refusals)
{
    const uint64_t refused = engine->clock.now - 1000;

    validation->refused_at = validation->route_refused = refused;
    echoed(refused + 1, 0); /* it says nothing of ours */
    echoed(refused - 1, BTL_IB_FLAG_ECHO);
    assert_int_equal(validation->refused_at, refused);
    assert_int_equal(validation->route_refused, refused);
    echoed(refused, BTL_IB_FLAG_ECHO);
    assert_int_equal(validation->refused_at, 0);
    assert_int_equal(validation->route_refused, 0);
}

/* While the connection goes by others only the question that its own rails carry says that of
 * them. */
TEST_OF_TWO(an_echo_by_others)
{
    const uint64_t refused = engine->clock.now - 1000;

    assert_true(btl_ib_route_take(home, away));
    validation->refused_at = refused;
    validation->route_refused = 0;
    echoed(refused + 1, BTL_IB_FLAG_ECHO);
    assert_int_equal(validation->refused_at, refused);
    validation->question_at = refused + 5;
    echoed(refused + 1, BTL_IB_FLAG_ECHO);
    echoed(refused + 6, BTL_IB_FLAG_ECHO);
    assert_int_equal(validation->refused_at, refused);
    echoed(refused + 5, BTL_IB_FLAG_ECHO);
    assert_int_equal(validation->refused_at, 0);
    validation->refused_at = refused + 5; /* that was refused as it was asked */
    echoed(refused + 5, BTL_IB_FLAG_ECHO);
    assert_int_equal(validation->refused_at, refused + 5);
    validation->route_refused = refused; /* of the present route each echo says it */
    echoed(refused, BTL_IB_FLAG_ECHO);
    assert_int_equal(validation->route_refused, 0);
}

/* ---- what waits for validation ---- */

/* Data wait for rails that were not validated if others to the same process were, and lead there. A
 * reliable transport needs no proof. */
TEST_OF_TWO(data_wait)
{
    assert_false(btl_ib_validation_waits(home)); /* it is valid */
    validation->valid = false;
    assert_true(btl_ib_validation_waits(home));
    away->validation.refused_at = engine->clock.now;
    assert_false(btl_ib_validation_waits(home));
    away->validation.refused_at = 0;
    away->validation.valid = false;
    assert_false(btl_ib_validation_waits(home));
    away->validation.valid = true;
    engine->rails[0]->transport->attr.reliable = true;
    assert_false(btl_ib_validation_waits(home));
    engine->rails[0]->transport->attr.reliable = false;
    assert_true(btl_ib_route_take(home, away));
    assert_false(btl_ib_validation_waits(home));
}

/* Questions are counted from the time on when another pair of rails is known to lead there. */
TEST_OF_TWO(questions)
{
    away->validation.valid = validation->valid = false;
    btl_ib_validation_probed(home);
    assert_int_equal(validation->questions, 0);
    away->validation.valid = true;
    btl_ib_validation_probed(home);
    btl_ib_validation_probed(home);
    assert_int_equal(validation->questions, 2);
    assert_true(btl_ib_route_take(home, away));
    btl_ib_validation_probed(home); /* by those others */
    assert_int_equal(validation->questions, 2);
}

/* Questions for what would go by its own rails keep a distance. */
TEST_OF_TWO(may_ask)
{
    assert_true(btl_ib_validation_may_ask(validation, 5));
    btl_ib_validation_asked(validation, 5);
    assert_false(btl_ib_validation_may_ask(validation, 4 + BTL_IB_ASK_PAUSE));
    assert_true(btl_ib_validation_may_ask(validation, 5 + BTL_IB_ASK_PAUSE));
}

/* ---- what the transport refuses ---- */

static void note_unsent(void *context, btl_ib_conn_t *conn, int error)
{
    told++;
    told_error = error;
}

/* A transport that has taken nothing for a peer for long is reported, once each time. */
TEST_OF_TWO(unsent)
{
    const uint64_t after = engine->config.unanswered_after;

    ops.unsent = note_unsent;
    engine->clock.awake += 10 * after;
    btl_ib_validation_check_unsent(home);
    assert_int_equal(told, 0);
    btl_ib_validation_unsent(validation, EPERM, engine->clock.awake);
    engine->clock.awake += after - 1;
    btl_ib_validation_unsent(validation, EINVAL, engine->clock.awake);
    btl_ib_validation_check_unsent(home);
    assert_int_equal(told, 0);
    assert_int_equal(btl_ib_conn_diagnosis(home).unsent, EINVAL);
    engine->clock.awake++;
    btl_ib_validation_check_unsent(home);
    assert_int_equal(told, 1);
    assert_int_equal(told_error, EINVAL);
    engine->clock.awake += after;
    btl_ib_validation_check_unsent(home);
    assert_int_equal(told, 1);
    btl_ib_validation_sent(validation);
    assert_int_equal(btl_ib_conn_diagnosis(home).unsent, 0);
    btl_ib_validation_unsent(validation, EPERM, engine->clock.awake);
    engine->clock.awake += after;
    ops.unsent = NULL; /* nobody wants to know */
    btl_ib_validation_check_unsent(home);
    ops.unsent = note_unsent;
    btl_ib_validation_check_unsent(home);
    assert_int_equal(told, 1);
}

/* ---- what others say ---- */

static bool source_is_told;

static bool source_text(const btl_ib_transport_t *transport, const btl_ib_event_t *event, char *out,
                        size_t len)
{
    strcpy(out, "from there");
    return source_is_told;
}

/* Datagrams of a peer from elsewhere are counted; of the last such peer it is told from where, if
 * that is known, until the peer is heard again. */
TEST_OF_TWO(foreign_sources)
{
    btl_ib_conn_t *other = make(2, 0, 0);
    const btl_ib_event_t event = {.buffer = bench}, kept = {.buffer = NULL};
    const btl_ib_transport_ops_t *const before = engine->rails[0]->transport->ops;
    btl_ib_transport_ops_t telling = *before;

    home->loss.heard_at = other->loss.heard_at = engine->clock.awake;
    btl_ib_validation_foreign(home, engine->rails[0], &kept); /* it says nothing of its source */
    assert_int_equal(btl_ib_conn_diagnosis(home).foreign, 1);
    assert_string_equal(btl_ib_conn_diagnosis(home).from, "");
    btl_ib_validation_foreign(home, engine->rails[0], &event); /* the transport has no words */
    assert_string_equal(btl_ib_conn_diagnosis(home).from, "");
    telling.source_text = source_text;
    engine->rails[0]->transport->ops = &telling;
    source_is_told = true;
    btl_ib_validation_foreign(other, engine->rails[0], &event);
    assert_string_equal(btl_ib_conn_diagnosis(other).from, "from there");
    assert_int_equal(btl_ib_conn_diagnosis(other).foreign, 1);
    assert_int_equal(btl_ib_conn_diagnosis(home).foreign, 2); /* known, but not from where */
    assert_string_equal(btl_ib_conn_diagnosis(home).from, "");
    source_is_told = false;
    btl_ib_validation_foreign(home, engine->rails[0], &event);
    assert_int_equal(btl_ib_conn_diagnosis(home).foreign, 3);
    assert_string_equal(btl_ib_conn_diagnosis(home).from, "");
    /* it counts until two seconds after the peer was last heard so */
    engine->clock.awake += SECOND;
    btl_ib_validation_foreign(home, engine->rails[0], &event);
    home->loss.heard_at = engine->clock.awake + 2 * SECOND;
    assert_int_equal(btl_ib_conn_diagnosis(home).foreign, 4);
    home->loss.heard_at++;
    assert_int_equal(btl_ib_conn_diagnosis(home).foreign, 0);
    engine->rails[0]->transport->ops = before;
}

static bool offender_is_told;

static bool offender_text(const btl_ib_transport_t *transport, btl_ib_addr_t to, char *out,
                          size_t len)
{
    strcpy(out, "a router");
    return offender_is_told;
}

/* What the network said, and who, is told until two seconds after the peer was heard. */
TEST_OF_TWO(what_the_network_said)
{
    const btl_ib_transport_ops_t *const before = engine->rails[0]->transport->ops;
    btl_ib_transport_ops_t telling = *before;

    home->loss.heard_at = engine->clock.awake;
    assert_int_equal(btl_ib_conn_diagnosis(home).said, 0);
    validation->net_error = EHOSTUNREACH;
    validation->net_error_at = engine->clock.awake - 2 * SECOND;
    assert_int_equal(btl_ib_conn_diagnosis(home).said, EHOSTUNREACH);
    assert_string_equal(btl_ib_conn_diagnosis(home).by, "");
    telling.offender_text = offender_text;
    engine->rails[0]->transport->ops = &telling;
    offender_is_told = false;
    assert_string_equal(btl_ib_conn_diagnosis(home).by, "");
    offender_is_told = true;
    assert_string_equal(btl_ib_conn_diagnosis(home).by, "a router");
    home->loss.heard_at++;
    assert_int_equal(btl_ib_conn_diagnosis(home).said, 0);
    engine->rails[0]->transport->ops = before;
}

/* ---- answers ---- */

/* The last answer is the newer one of a sample of the round trip and of any other. */
TEST_OF_TWO(answered_ago)
{
    home->loss.sample_at = validation->answered_at = 0;
    assert_true(btl_ib_conn_answered_ago(home) == UINT64_MAX);
    home->loss.sample_at = engine->clock.now - 30;
    assert_int_equal(btl_ib_conn_answered_ago(home), 30);
    btl_ib_validation_answered(validation, engine->clock.now - 10);
    assert_int_equal(btl_ib_conn_answered_ago(home), 10);
    assert_true(btl_ib_conn_diagnosis(home).answered);
    home->loss.sample_at = engine->clock.now - 5;
    assert_int_equal(btl_ib_conn_answered_ago(home), 5);
}

static void note_unanswered(void *context, btl_ib_conn_t *conn, bool heard)
{
    told++;
    told_heard = heard;
}

static bool stopped;

static bool is_reachable(void *context, const btl_ib_conn_t *conn)
{
    return stopped;
}

/* So many us pass; is the peer given up? */
static bool expires_after(uint64_t us)
{
    engine->clock.ran += us;
    return btl_ib_validation_expire(home);
}

/* A peer that never answered is reported once, and given up if it promised to answer, and its
 * process runs. */
TEST_OF_TWO(never_answered)
{
    const uint64_t after = engine->config.unanswered_after;
    const uint64_t timeout = engine->config.connect_timeout;

    ops.unanswered = note_unanswered;
    ops.is_reachable = is_reachable;
    stopped = false;
    home->loss.heard_at = 0;
    assert_false(expires_after(0)); /* the wait begins */
    assert_false(expires_after(after - 1));
    assert_int_equal(told, 0);
    assert_false(expires_after(1));
    assert_int_equal(told, 1);
    assert_false(told_heard);
    assert_false(expires_after(timeout)); /* it made no promise */
    assert_int_equal(told, 1);
    validation->promised = true;
    stopped = true;
    assert_false(expires_after(0));
    stopped = false;
    engine->config.connect_timeout = 0; /* there is no limit */
    assert_false(expires_after(0));
    engine->config.connect_timeout = timeout;
    assert_true(expires_after(0));
    ops.is_reachable = NULL;
    assert_true(expires_after(0));
    validation->asked_at = engine->clock.ran - timeout + 1;
    assert_false(expires_after(0));
    assert_true(expires_after(1));
}

/* If what it sends gets here that is said. Another of its connections that is answered is enough,
 * but the wait begins again. */
TEST_OF_TWO(never_answered_but_heard)
{
    const uint64_t after = engine->config.unanswered_after;

    ops.unanswered = note_unanswered;
    home->loss.heard_at = engine->clock.awake;
    assert_false(expires_after(0));
    away->validation.answered = true;
    assert_false(expires_after(after));
    away->validation.answered = false;
    assert_false(expires_after(after - 1));
    assert_int_equal(told, 0);
    assert_false(expires_after(1));
    assert_int_equal(told, 1);
    assert_true(told_heard);
    ops.unanswered = NULL; /* nobody wants to know */
    validation->told = false;
    assert_false(expires_after(1));
    btl_ib_validation_answered(validation, engine->clock.now);
    assert_int_equal(validation->asked_at, 0);
}

static void end_it(void *context, btl_ib_conn_t *conn, bool heard)
{
    conn->state = BTL_IB_CONN_DEAD;
}

/* The callback may have ended it. */
TEST_OF_TWO(ended_by_the_callback)
{
    ops.unanswered = end_it;
    assert_false(expires_after(0));
    assert_true(expires_after(engine->config.unanswered_after));
    home->state = BTL_IB_CONN_OPEN;
}

/* ---- silence ---- */

static void note_silent(void *context, btl_ib_conn_t *conn, const btl_ib_silence_t *silence)
{
    told++;
    told_silence = *silence;
}

/* One that has answered before, and does not for long, is reported with what is known of it, once
 * each time. */
TEST_OF_TWO(silent)
{
    const uint64_t after = engine->config.unanswered_after;
    btl_ib_loss_t *loss = &home->loss;

    ops.silent = note_silent;
    validation->answered = true;
    loss->unanswered_probes = 0;
    btl_ib_validation_check_silent(home); /* it answers: from now on */
    loss->unanswered_probes = BTL_IB_SILENT_PROBES;
    loss->asked_at = engine->clock.now - 7000;
    loss->heard_at = engine->clock.awake - 8000;
    loss->sample_at = engine->clock.now - 9000;
    validation->answered_at = 0;
    engine->clock.ran += after - 1;
    btl_ib_validation_check_silent(home);
    assert_int_equal(told, 0);
    engine->clock.ran++;
    loss->unanswered_probes = BTL_IB_SILENT_PROBES - 1;
    btl_ib_validation_check_silent(home);
    validation->answered = false;
    loss->unanswered_probes = BTL_IB_SILENT_PROBES;
    btl_ib_validation_check_silent(home);
    assert_int_equal(told, 0);
    validation->answered = true;
    btl_ib_validation_check_silent(home);
    assert_int_equal(told, 1);
    assert_int_equal(told_silence.asked_for, 7000);
    assert_int_equal(told_silence.heard_ago, 8000);
    assert_int_equal(told_silence.answered_ago, 9000);
    assert_int_equal(told_silence.questions, BTL_IB_SILENT_PROBES);
    assert_false(told_silence.others_tried);
    btl_ib_validation_check_silent(home);
    assert_int_equal(told, 1);
    loss->unanswered_probes = 0;
    btl_ib_validation_check_silent(home); /* it answered: the next time is told again */
    loss->unanswered_probes = BTL_IB_SILENT_PROBES;
    home->flow.since = loss->asked_at;
    engine->clock.ran += after;
    btl_ib_validation_check_silent(home);
    assert_int_equal(told, 2);
    assert_true(told_silence.others_tried);
    loss->unanswered_probes = 0;
    btl_ib_validation_check_silent(home);
    loss->unanswered_probes = BTL_IB_SILENT_PROBES;
    home->flow.since = loss->asked_at - 1; /* those were tried for something else */
    engine->clock.ran += after;
    btl_ib_validation_check_silent(home);
    assert_int_equal(told, 3);
    assert_false(told_silence.others_tried);
    home->flow.since = 0;
    ops.silent = NULL; /* nobody wants to know */
    validation->silent_told = false;
    btl_ib_validation_check_silent(home);
    assert_int_equal(told, 3);
}

UNIT_MAIN(NULL, NULL)
