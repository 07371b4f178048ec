/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Situation and sentence: what a box says of a peer follows from what was counted and heard, each
 * of which is set here by itself. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "btl_ib_peer_report.h"
#include "opal/mca/btl/base/base.h"
#include "opal/util/output.h"
#include "unit.h"

/* ---- what is printed ---- */

static char printed[8192];

/* Calls `report`, and keeps what that prints, with spaces for line ends: sentences are wrapped. */
static void keep_printed(void (*report)(const void *), const void *given)
{
    FILE *file = tmpfile();
    const int before = dup(STDERR_FILENO);

    assert_non_null(file);
    (void) fflush(stderr);
    assert_int_equal(dup2(fileno(file), STDERR_FILENO), STDERR_FILENO);
    report(given);
    (void) fflush(stderr);
    assert_int_equal(dup2(before, STDERR_FILENO), STDERR_FILENO);
    (void) close(before);
    rewind(file);
    const size_t size = fread(printed, 1, sizeof(printed) - 1, file);
    printed[size] = '\0';
    (void) fclose(file);
    for (char *at = strchr(printed, '\n'); at != NULL; at = strchr(at, '\n')) {
        *at = ' ';
    }
}

/* ---- situations ---- */

enum { MS = 1000, S = 1000 * MS };

typedef enum box { NEVER_ANSWERED, NO_ANSWER, PEER_LOST, UNSENT, MOVED } box_t;

/* What is known. All that is not set: nothing is. */
typedef struct evidence {
    const char *name;
    box_t box;
    bool heard;     /* something of its was accepted */
    bool answers;   /* its process answers also while it computes */
    bool reachable; /* other processes show that its host can be reached */
    bool other_btl; /* another one would carry it */
    int connect_timeout;
    uint32_t left_aside; /* addresses of this host that are not used */
    btl_ib_death_t reason;
    btl_ib_silence_t silence;
    btl_ib_diagnosis_t diagnosis;
    const char *call;     /* of an RDMA library that is refused, or what came in its place */
    int call_error;       /* with which it is; 0: in its place */
    const char *says[4];  /* sentences, in the box */
    const char *never[3]; /* and such that would not be true */
} evidence_t;

#define OURS   "10.1.0.1"
#define THEIRS "10.1.0.2"

#define NOTHING_HEARD "nothing that it sends has arrived here, either"
#define ONLY_HEARD    "what it sends arrives here, but not what is sent from here"
#define LEFT_ASIDE                                                                                 \
    "Do: name a network of both hosts in btl_ib_if_include: of this host 8 addresses are not "     \
    "used, as 32 are the most."
#define NOBODY_SAID "Errors told by the network: none"

static const evidence_t situations[] = {
    /* a first contact that nothing answers */
    {.name = "nothing heard, nothing said",
     .box = NEVER_ANSWERED,
     .answers = true,
     .connect_timeout = 60,
     .says = {NOTHING_HEARD, "Do: let the firewalls of both hosts pass UDP", NOBODY_SAID,
              "The job ends if that does not change within 60 s of the first attempt"},
     .never = {ONLY_HEARD, "its datagrams come from", "continue that process"}},
    {.name = "its own datagrams arrive",
     .box = NEVER_ANSWERED,
     .heard = true,
     .answers = true,
     .connect_timeout = 60,
     .says = {ONLY_HEARD, "let the firewalls of both hosts pass UDP", NOBODY_SAID},
     .never = {NOTHING_HEARD}},
    {.name = "they arrive from elsewhere",
     .box = NEVER_ANSWERED,
     .answers = true,
     .connect_timeout = 60,
     .diagnosis = {.foreign = 61, .from = "10.9.0.9:77"},
     .says = {"its datagrams come from 10.9.0.9:77, it published " THEIRS ":5: dropped (61)",
              "Do: let the router between the hosts leave addresses alone", "(NAT)"},
     .never = {NOTHING_HEARD, ONLY_HEARD, "firewalls of both hosts"}},
    {.name = "from elsewhere, and the transport cannot tell from where",
     .box = NEVER_ANSWERED,
     .answers = true,
     .connect_timeout = 60,
     .diagnosis = {.foreign = 2},
     .says = {"its datagrams come from an address that it did not publish: dropped (2)", "(NAT)"},
     .never = {NOTHING_HEARD, "come from ,"}},
    {.name = "some accepted, others from elsewhere",
     .box = NEVER_ANSWERED,
     .heard = true,
     .answers = true,
     .connect_timeout = 60,
     .diagnosis = {.foreign = 3, .from = "10.9.0.9:77"},
     .says = {"come from 10.9.0.9:77"},
     .never = {NOTHING_HEARD}},
    {.name = "it may compute",
     .box = NEVER_ANSWERED,
     .connect_timeout = 60,
     .says = {"It may only compute, so this process goes on waiting for it."},
     .never = {"The job ends"}},
    {.name = "its host is reached, so it is stopped",
     .box = NEVER_ANSWERED,
     .answers = true,
     .reachable = true,
     .connect_timeout = 60,
     .says = {NOTHING_HEARD, "Do: continue that process: its host can be reached",
              "within 900 s (btl_ib_silence_limit"},
     .never = {"firewalls of both hosts", "within 60 s"}},
    {.name = "it is waited for without end",
     .box = NEVER_ANSWERED,
     .answers = true,
     .says = {"This process goes on waiting (btl_ib_connect_timeout is 0)."},
     .never = {"The job ends"}},
    {.name = "another BTL would carry it",
     .box = NEVER_ANSWERED,
     .answers = true,
     .other_btl = true,
     .connect_timeout = 60,
     .says = {"Or leave ib out, without it \"tcp\" carries this: --mca btl tcp,"}},
    /* what the network says, and whose word that is */
    {.name = "nobody has that address",
     .box = NEVER_ANSWERED,
     .answers = true,
     .connect_timeout = 60,
     .diagnosis = {.said = EHOSTUNREACH, .by = OURS},
     .says = {"host unreachable, says " OURS ", this host: nobody in its network answers for that "
              "address (ARP)",
              "Do: look whether the host is up"},
     .never = {NOBODY_SAID, "firewalls of both hosts"}},
    {.name = "a router knows no way",
     .box = NEVER_ANSWERED,
     .answers = true,
     .connect_timeout = 60,
     .diagnosis = {.said = ENETUNREACH, .by = "10.1.0.254"},
     .says = {"network unreachable, says 10.1.0.254, a router or a firewall on the way"},
     .never = {"(ARP)", "firewall of", "that host itself"}},
    {.name = "that host's firewall",
     .box = NEVER_ANSWERED,
     .answers = true,
     .connect_timeout = 60,
     .diagnosis = {.said = EACCES, .by = THEIRS},
     .says = {"administratively prohibited, says " THEIRS ": a firewall of that host",
              "Do: open the ports in that firewall"},
     .never = {"firewall of this host", "on the way"}},
    {.name = "this host's firewall",
     .box = NEVER_ANSWERED,
     .answers = true,
     .connect_timeout = 60,
     .diagnosis = {.said = EACCES, .by = OURS},
     .says = {": a firewall of this host", "Do: open the ports in that firewall"},
     .never = {"firewall of that host", "(ARP)"}},
    {.name = "a firewall between them",
     .box = NEVER_ANSWERED,
     .answers = true,
     .connect_timeout = 60,
     .diagnosis = {.said = EACCES, .by = "10.1.0.20"}, /* begins as that host's address does */
     .says = {"says 10.1.0.20: a firewall on the way"},
     .never = {"firewall of that host", "firewall of this host"}},
    {.name = "nobody says who",
     .box = NEVER_ANSWERED,
     .answers = true,
     .connect_timeout = 60,
     .diagnosis = {.said = EACCES},
     .says = {"the network says: administratively prohibited"},
     .never = {"says ,", "firewall of"}},
    {.name = "a port that is closed",
     .box = NEVER_ANSWERED,
     .answers = true,
     .connect_timeout = 60,
     .diagnosis = {.said = ECONNREFUSED, .by = THEIRS},
     .says = {"port unreachable, says " THEIRS ", that host itself",
              "Do: let the firewall of that host accept UDP"},
     .never = {NOBODY_SAID}},
    /* addresses of this host that there is no place for */
    {.name = "a router knows no way, and other addresses are not used",
     .box = NEVER_ANSWERED,
     .answers = true,
     .connect_timeout = 60,
     .left_aside = 8,
     .diagnosis = {.said = ENETUNREACH, .by = "10.1.0.254"},
     .says = {LEFT_ASIDE, "Or look whether the host is up"}},
    {.name = "nothing heard, nothing said, and other addresses are not used",
     .box = NEVER_ANSWERED,
     .answers = true,
     .connect_timeout = 60,
     .left_aside = 8,
     .says = {LEFT_ASIDE, "Or let the firewalls of both hosts pass UDP"}},
    {.name = "its own datagrams arrive here, so there is a way",
     .box = NEVER_ANSWERED,
     .heard = true,
     .answers = true,
     .connect_timeout = 60,
     .left_aside = 8,
     .says = {"Do: let the firewalls of both hosts pass UDP"},
     .never = {"are not used"}},
    {.name = "its host is reached, so there is a way",
     .box = NEVER_ANSWERED,
     .answers = true,
     .reachable = true,
     .connect_timeout = 60,
     .left_aside = 8,
     .says = {"Do: continue that process"},
     .never = {"are not used"}},
    {.name = "a firewall says no, whatever addresses there are",
     .box = NEVER_ANSWERED,
     .answers = true,
     .connect_timeout = 60,
     .left_aside = 8,
     .diagnosis = {.said = EACCES, .by = THEIRS},
     .says = {"Do: open the ports in that firewall"},
     .never = {"are not used"}},
    {.name = "this host knows no way, and other addresses are not used",
     .box = UNSENT,
     .left_aside = 8,
     .diagnosis = {.unsent = ENETUNREACH},
     .says = {"(errno 101)", LEFT_ASIDE, "Or give this host its route and address back"}},
    {.name = "this host knows no way, and all addresses are used",
     .box = UNSENT,
     .diagnosis = {.unsent = ENETUNREACH},
     .says = {"Do: give this host its route and address back"},
     .never = {"are not used", "btl_ib_if_include"}},
    {.name = "the device refuses a call",
     .box = UNSENT,
     .diagnosis = {.unsent = EHOSTUNREACH},
     .call = "rdma_create_qp",
     .call_error = ENOMEM,
     .says = {"rdma_create_qp: Cannot allocate memory (errno 12)", "Do: look at the device"},
     .never = {"No route to host"}},
    {.name = "this host knows no way any more",
     .box = UNSENT,
     .left_aside = 8,
     .diagnosis = {.answered = true, .unsent = ENETUNREACH},
     .says = {"Do: give this host its route and address back"},
     .never = {"are not used"}},
    {.name = "never answered to the end, and other addresses are not used",
     .box = PEER_LOST,
     .reason = BTL_IB_DEATH_UNANSWERED,
     .left_aside = 8,
     .diagnosis = {.unsent = ENETUNREACH},
     .says = {LEFT_ASIDE, "Or give this host its route and address back"}},
    {.name = "silent after it had answered, whatever addresses there are",
     .box = PEER_LOST,
     .reason = BTL_IB_DEATH_SILENCE,
     .left_aside = 8,
     .diagnosis = {.answered = true, .said = ENETUNREACH},
     .says = {"Do: look whether the host is up"},
     .never = {"are not used"}},
    /* in mid-job */
    {.name = "silent, and its host as well",
     .box = NO_ANSWER,
     .answers = true,
     .silence = {.asked_for = 5 * S, .answered_ago = 6 * S, .heard_ago = 6 * S, .questions = 20},
     .says = {"its last answer came 6000 ms ago; nothing has come since from it, 6000 ms ago",
              "Do: look whether its host is up", "Asked from p to q, 20 times.", NOBODY_SAID},
     .never = {"other ports", "conntrack"}},
    {.name = "a dead flow: it is heard, and does not answer",
     .box = NO_ANSWER,
     .answers = true,
     .silence = {.asked_for = 5 * S,
                 .answered_ago = 6 * S,
                 .heard_ago = 3 * MS,
                 .questions = 20,
                 .others_tried = true},
     .says = {"other datagrams come from it, 3 ms ago",
              "Do: look whether a firewall, a router or a NAT has forgotten these ports",
              "20 times, other ports were tried, too."},
     .never = {"nothing has come since", "is up and can be reached"}},
    {.name = "from elsewhere since a router has begun",
     .box = NO_ANSWER,
     .answers = true,
     .silence = {.asked_for = 5 * S, .answered_ago = 6 * S, .heard_ago = 6 * S, .questions = 20},
     .diagnosis = {.answered = true, .foreign = 12, .from = "10.9.0.9:77"},
     .says = {"its last answer came 6000 ms ago; its datagrams come from 10.9.0.9:77, it "
              "published " THEIRS ":5: dropped (12)",
              "Do: let the router between the hosts leave addresses alone"},
     .never = {"nothing has come since"}},
    {.name = "stopped: others of its host answer",
     .box = NO_ANSWER,
     .answers = true,
     .reachable = true,
     .silence = {.asked_for = 5 * S, .answered_ago = 6 * S, .heard_ago = 6 * S, .questions = 20},
     .says = {"Do: continue that process: its host can be reached"},
     .never = {"conntrack"}},
    {.name = "a firewall that was raised",
     .box = NO_ANSWER,
     .answers = true,
     .silence = {.asked_for = 5 * S, .answered_ago = 6 * S, .heard_ago = 6 * S, .questions = 20},
     .diagnosis = {.answered = true, .said = EACCES, .by = THEIRS},
     .says = {"Do: open the ports in that firewall", "a firewall of that host"},
     .never = {NOBODY_SAID}},
    {.name = "it computes: a line, and no box",
     .box = NO_ANSWER,
     .silence = {.asked_for = 5 * S, .answered_ago = 6 * S, .heard_ago = 6 * S, .questions = 20},
     .says = {"rank 1 on host there has not answered for 5 s: p to q, asked 20 times; its last "
              "answer came 6000 ms ago; nothing has come since from it",
              "It may only compute. Errors: none"},
     .never = {"The ib BTL", "Do:"}},
    /* the end */
    {.name = "never answered",
     .box = PEER_LOST,
     .reason = BTL_IB_DEATH_UNANSWERED,
     .says = {"it never answered, although its process would", "Do: let the firewalls"},
     .never = {"the network says", "leave addresses alone"}},
    {.name = "never answered, from elsewhere",
     .box = PEER_LOST,
     .reason = BTL_IB_DEATH_UNANSWERED,
     .diagnosis = {.foreign = 9, .from = "10.9.0.9:77"},
     .says = {"it never answered, although its process would even while it computes; its datagrams "
              "come from 10.9.0.9:77",
              "Do: let the router between the hosts leave addresses alone", "(NAT)"},
     .never = {"let the firewalls"}},
    {.name = "silent, from elsewhere",
     .box = PEER_LOST,
     .reason = BTL_IB_DEATH_SILENCE,
     .diagnosis = {.answered = true, .foreign = 9, .from = "10.9.0.9:77"},
     .says = {"nothing was accepted from it for the silence limit; its datagrams come from "
              "10.9.0.9:77",
              "leave addresses alone"},
     .never = {"nothing was heard"}},
    {.name = "refused before it ever answered",
     .box = PEER_LOST,
     .reason = BTL_IB_DEATH_REFUSED,
     .diagnosis = {.said = ECONNREFUSED, .by = THEIRS},
     .says = {"its host says that nobody is at that port; port unreachable, says " THEIRS,
              "Do: let the firewall of that host accept UDP"},
     .never = {"any more"}},
    {.name = "refused after that",
     .box = PEER_LOST,
     .reason = BTL_IB_DEATH_REFUSED,
     .diagnosis = {.answered = true, .said = ECONNREFUSED, .by = THEIRS},
     .says = {"its host says that nobody is there any more", "Do: look at that rank's own output"},
     .never = {"accept UDP (nft"}},
    {.name = "some data never acknowledged, and a router says why",
     .box = PEER_LOST,
     .reason = BTL_IB_DEATH_NO_PROGRESS,
     .diagnosis = {.answered = true, .said = EHOSTUNREACH, .by = "10.1.0.254"},
     .says = {"some data were never acknowledged; host unreachable, says 10.1.0.254"},
     .never = {"are large datagrams lost"}},
    {.name = "some data never acknowledged, nobody says why",
     .box = PEER_LOST,
     .reason = BTL_IB_DEATH_NO_PROGRESS,
     .diagnosis = {.answered = true},
     .says = {"are large datagrams lost?", "ping -M do"}},
    {.name = "the own system sends nothing",
     .box = PEER_LOST,
     .reason = BTL_IB_DEATH_SILENCE,
     .diagnosis = {.answered = true, .unsent = EPERM, .said = EHOSTUNREACH, .by = OURS},
     .says = {"this host's own system refuses to send", "(errno 1)",
              "Do: allow it in the firewall of this host"},
     .never = {"(ARP)", "nothing was heard from it"}},
    {.name = "the device sends nothing",
     .box = PEER_LOST,
     .reason = BTL_IB_DEATH_UNANSWERED,
     .diagnosis = {.unsent = EHOSTUNREACH},
     .call = "rdma_create_qp",
     .call_error = ENOMEM,
     .says = {"this host's own system refuses a call: rdma_create_qp: Cannot allocate memory.",
              "Do: look at the device and its driver"},
     .never = {"No route to host", "route and address back"}},
    {.name = "the other side rejects connections",
     .box = PEER_LOST,
     .reason = BTL_IB_DEATH_UNANSWERED,
     .diagnosis = {.unsent = EHOSTUNREACH},
     .call = "it rejects connections: its device refuses them",
     .says = {"lost the connection with a process: it rejects connections: its device refuses them",
              "Do: look at what that process says of its device"},
     .never = {"No route to host", "route and address back", "this host's own system"}},
    {.name = "the host is gone",
     .box = PEER_LOST,
     .reason = BTL_IB_DEATH_HOST_LOST,
     .says = {"its host cannot be reached any more", "lost its power or its network"}},
    {.name = "the runtime says so, whatever the network says",
     .box = PEER_LOST,
     .reason = BTL_IB_DEATH_ENDED,
     .diagnosis = {.answered = true, .said = EHOSTUNREACH, .by = OURS, .foreign = 3},
     .says = {"the runtime (mpirun, PMIx) says that it failed"},
     .never = {"(ARP)", "(NAT)", "leave ib out"}},
    {.name = "a new process took its place",
     .box = PEER_LOST,
     .reason = BTL_IB_DEATH_RESTARTED,
     .says = {"a new process has taken its place"},
     .never = {"firewall"}},
    {.name = "the own device failed",
     .box = PEER_LOST,
     .reason = BTL_IB_DEATH_DEVICE,
     .says = {"the local device failed", "Do: look at the device, its cable"}},
    {.name = "the own address changed, nothing said",
     .box = MOVED,
     .says = {"The address of a device changed", NOBODY_SAID}},
    {.name = "the own address changed, and the old one is asked for",
     .box = MOVED,
     .diagnosis = {.answered = true, .said = EHOSTUNREACH, .by = OURS},
     .says = {"host unreachable, says " OURS, "(ARP)"}},
};

/* ---- boxes ---- */

static void report(const void *given)
{
    const evidence_t *evidence = given;
    const btl_ib_params_t params = {.connect_timeout = evidence->connect_timeout,
                                    .silence_limit = 900};
    const btl_ib_ends_t ends = {.our_rank = "0",
                                .device = "udp/eth0",
                                .our_address = OURS ":4",
                                .rank = "1",
                                .host = "there",
                                .address = THEIRS ":5"};
    const btl_ib_device_t device = {.interface = "none0"};
    const btl_ib_refused_send_t refused = {.error = evidence->diagnosis.unsent,
                                           .call = evidence->call,
                                           .call_error = evidence->call_error};
    btl_ib_peer_reports_t reports;

    btl_ib_peer_reports_init(&reports, 0, &params, NULL, NULL);
    btl_ib_peer_reports_note_left_aside(&reports, evidence->left_aside);
    switch (evidence->box) {
    case NEVER_ANSWERED:
        btl_ib_report_unanswered(&reports, &ends, evidence->heard, evidence->answers,
                                 evidence->reachable, &evidence->diagnosis);
        break;
    case NO_ANSWER:
        btl_ib_report_silent(&reports, &ends, "p to q", &evidence->silence, evidence->answers,
                             evidence->reachable, &evidence->diagnosis);
        break;
    case PEER_LOST:
        btl_ib_report_peer_lost(&reports, &ends, evidence->reason, &evidence->diagnosis, &refused);
        break;
    case UNSENT:
        btl_ib_report_unsent(&reports, &ends, &refused, evidence->diagnosis.answered, &device);
        break;
    case MOVED:
        btl_ib_report_moved_unanswered(&ends, &evidence->diagnosis);
        break;
    }
}

static void without_double_spaces(char *text)
{
    char *to = text;

    for (const char *from = text; *from != '\0'; from++) {
        if (*from != ' ' || to == text || to[-1] != ' ') {
            *to++ = *from;
        }
    }
    *to = '\0';
}

TEST(test_sentences)
{
    mca_btl_base_component_t tcp = {.btl_version = {.mca_component_name = "tcp"}};
    mca_btl_base_selected_module_t selected = {.btl_component = &tcp};

    OBJ_CONSTRUCT(&selected, mca_btl_base_selected_module_t);
    selected.btl_component = &tcp;
    for (size_t i = 0; i < sizeof(situations) / sizeof(situations[0]); i++) {
        const evidence_t *evidence = &situations[i];

        if (evidence->other_btl) {
            opal_list_append(&mca_btl_base_modules_initialized, &selected.super);
        }
        keep_printed(report, evidence);
        without_double_spaces(printed);
        if (evidence->other_btl) {
            opal_list_remove_item(&mca_btl_base_modules_initialized, &selected.super);
        }
        for (size_t j = 0; j < 4 && evidence->says[j] != NULL; j++) {
            if (strstr(printed, evidence->says[j]) == NULL) {
                fail_msg("%s: \"%s\" is not in: %s", evidence->name, evidence->says[j], printed);
            }
        }
        for (size_t j = 0; j < 3 && evidence->never[j] != NULL; j++) {
            if (strstr(printed, evidence->never[j]) != NULL) {
                fail_msg("%s: \"%s\" is in: %s", evidence->name, evidence->never[j], printed);
            }
        }
    }
    OBJ_DESTRUCT(&selected);
}

static void show_pending(const void *given)
{
    btl_ib_peer_reports_t *reports = *(btl_ib_peer_reports_t *const *) given;

    assert_true(btl_ib_report_is_pending(reports));
    btl_ib_report_pending(reports);
    assert_false(btl_ib_report_is_pending(reports));
}

/* What large datagrams met is to be shown by the next progress call, each by itself and once. */
TEST(test_pending)
{
    static const btl_ib_black_hole_t hole = {.lost = 1400, .most = 1200, .carries = 1400};
    static const btl_ib_gso_loss_t loss = {.lost = 44000};
    const btl_ib_params_t params = {.silence_limit = 900};
    btl_ib_peer_reports_t reports, *const at = &reports;

    btl_ib_peer_reports_init(&reports, 0, &params, NULL, NULL);
    assert_false(btl_ib_report_is_pending(&reports));
    btl_ib_report_gso_lost(&reports, &loss);
    keep_printed(show_pending, &at);
    assert_non_null(strstr(printed, "44000"));
    btl_ib_report_black_hole(&reports, &hole);
    keep_printed(show_pending, &at);
    assert_non_null(strstr(printed, "1200"));
    btl_ib_report_gso_lost(&reports, &loss);
    btl_ib_report_black_hole(&reports, &hole);
    assert_false(btl_ib_report_is_pending(&reports));
}

static void show_no_network(const void *given)
{
    const btl_ib_modex_t peer = {.host = "there"};

    btl_ib_report_no_network(*(btl_ib_peer_reports_t *const *) given, &peer, 1);
}

/* Why there is no device that fits: the one that would have fitted was turned down. */
TEST(test_no_network_says_what_is_not_used)
{
    const btl_ib_params_t params = {.silence_limit = 900};
    const btl_ib_modex_t self = {.host = "here"};
    btl_ib_peer_reports_t reports, *const at = &reports;

    btl_ib_peer_reports_init(&reports, 0, &params, NULL, &self);
    snprintf(reports.not_used, sizeof(reports.not_used),
             "  verbs/rxe0: ibv_open_device: Operation not permitted\n");
    keep_printed(show_no_network, &at);
    assert_non_null(strstr(printed, "rxe0: ibv_open_device: Operation not permitted"));
}

/* With all that is below @details. */
static int show_details(void **state)
{
    opal_process_info.nodename = strdup("here");
    OBJ_CONSTRUCT(&mca_btl_base_modules_initialized, opal_list_t);
    opal_btl_base_framework.framework_output = opal_output_open(NULL);
    opal_output_set_verbosity(opal_btl_base_framework.framework_output, 1);
    return 0;
}

UNIT_MAIN(show_details, NULL)
