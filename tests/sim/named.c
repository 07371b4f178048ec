/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Scenarios for exact situations: the list of all, and what they share. Each is a function, in the
 * file of its subject (named_*.c), that sets one up and says what must come of it. */

#include <string.h>

#include "named.h"

void two(sim_t *sim)
{
    sim_procs(sim, 2, 1);
    run_defaults(sim);
}

void two_with_limit(sim_t *sim, uint64_t limit)
{
    two(sim);
    for (int i = 0; i < 2; i++) {
        sim->procs[i].config.silence_limit = limit;
    }
    run_start(sim);
}

void again(sim_t *sim, uint64_t seed)
{
    uint64_t applied[F_COUNT];
    uint64_t events = sim->events;
    const char *scenario = sim->scenario;
    bool verbose = sim->verbose, terse = sim->terse;

    memcpy(applied, sim->applied, sizeof(applied));
    sim_free(sim);
    sim_init(sim, seed, scenario);
    memcpy(sim->applied, applied, sizeof(applied));
    sim->events = events;
    sim->verbose = verbose;
    sim->terse = terse;
}

message_t *say(sim_t *sim, uint32_t from, uint32_t to, uint32_t size, uint64_t after)
{
    message_t *m = app_plan(&sim->procs[from], to, size, sim->now + after);

    m->mode = SEND_NORMAL;
    return m;
}

void finish(sim_t *sim)
{
    run_settle(sim, SIM_S(20));
    run_quiet(sim, SIM_S(60));
    run_rest_burst(sim);
    run_farewell(sim);
}

uint64_t slowest(const sim_t *sim, uint32_t from)
{
    uint64_t worst = 0;

    for (uint32_t i = from; i < sim->nmessages; i++) {
        const message_t *m = &sim->messages[i];
        uint64_t time = m->delivered_at - m->accepted_at;
        worst = time > worst ? time : worst;
    }
    return worst;
}

void must_be_within(sim_t *sim, const char *what, uint64_t value, uint64_t bound)
{
    if (value > bound) {
        sim_fail(sim, "%s: %llu, at most %llu", what, (unsigned long long) value,
                 (unsigned long long) bound);
    }
}

void must_be_at_least(sim_t *sim, const char *what, uint64_t value, uint64_t bound)
{
    if (value < bound) {
        sim_fail(sim, "%s: %llu, at least %llu", what, (unsigned long long) value,
                 (unsigned long long) bound);
    }
}

/* Let both get to know each other and the round-trip time. */
void warm_up(sim_t *sim, uint32_t a, uint32_t b)
{
    message_t *m = say(sim, a, b, 100, 1000);

    m->replies = 20;
    run_settle(sim, SIM_S(5));
    sim_run_until(sim, sim->now + SIM_MS(1));
}

static void end_event(sim_t *sim, void *arg, uint64_t how)
{
    proc_t *proc = arg;

    (void) sim;
    if (how == RESTARTED) {
        proc_restart(proc, false);
    } else {
        app_close(proc, 1 - proc->index, 0, how == DRAINED);
    }
}

void end_connection(sim_t *sim, uint32_t proc, uint64_t after, ending_t how)
{
    sim_at(sim, sim->now + after, end_event, &sim->procs[proc], how);
}

uint64_t again_sum(const sim_t *sim)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < sim->nprocs; i++) {
        sum += sim->procs[i].again;
    }
    return sum;
}

const named_scenario_t named_scenarios[] = {
    {"both_at_once", "first contact in both directions at once", both_at_once},
    {"connect_lost", "the first datagram of all is lost", connect_lost},
    {"never_added", "a peer that was never added sends, and is then answered", never_added},
    {"burst_of_unknown_peers", "eight unknown peers send a burst each at once",
     burst_of_unknown_peers},
    {"tail_loss", "the last segment of a burst is lost", tail_loss},
    {"acks_of_many_gaps", "more gaps than one ACK tells, and a transport that takes few",
     acks_of_many_gaps},
    {"tail_loss_of_bundle", "messages that travel together are lost, with nothing behind them",
     tail_loss_of_bundle},
    {"zcopy_alone", "a wait for one message alone ends in the next turn", zcopy_alone},
    {"zcopy_few", "the same for so few that the peer may wait before it acknowledges them",
     zcopy_few},
    {"zcopy_many", "of many messages only the last are copied if the ACKs of the others come",
     zcopy_many},
    {"zcopy_unanswered", "without ACKs several messages are copied, and sent again from the copies",
     zcopy_unanswered},
    {"each_lost", "each datagram of a short exchange is lost in turn", each_lost},
    {"each_duplicated", "every datagram arrives twice", each_duplicated},
    {"forged", "acknowledgements and limits that cannot be", forged},
    {"flipped", "bits change on the way, behind the network's own checksum", flipped},
    {"insider", "a peer that knows the token changes fields, with a protection", insider},
    {"replayed", "all datagrams of a life come again, in that life and in later ones", replayed},
    {"rekeyed", "a key serves its time while datagrams are lost and overtaken", rekeyed},
    {"loss_both_ways", "one loss while messages go in both directions", loss_both_ways},
    {"loss_one", "one segment is lost", loss_one},
    {"loss_of_retransmission", "a segment and its retransmission are lost", loss_of_retransmission},
    {"loss_three_times", "a segment is lost three times", loss_three_times},
    {"loss_of_tail_and_probe", "the last segment and the probe for it are lost",
     loss_of_tail_and_probe},
    {"loss_of_burst", "44 segments in a row are lost", loss_of_burst},
    {"loss_of_first_flight", "everything before the first acknowledgement is lost",
     loss_of_first_flight},
    {"loss_of_every_tenth", "every tenth segment is lost", loss_of_every_tenth},
    {"loss_of_acks", "four acknowledgements in a row are lost", loss_of_acks},
    {"reorder_only", "segments are overtaken, none is lost", reorder_only},
    {"spurious_count", "what the sender calls spurious is what the receiver saw twice",
     spurious_count},
    {"pingpong_loss", "latency of a ping-pong at 1 % loss", pingpong_loss},
    {"credit_update_lost", "news of credits is lost", credit_update_lost},
    {"small_queues_many", "the same among 16 processes at 1 % loss", small_queues_many},
    {"small_queues", "the smallest legal queues on a clean link", small_queues},
    {"both_out_of_credit", "two buffers on each side, a hundred messages each way",
     both_out_of_credit},
    {"computes", "the peer computes for 60 s", computes},
    {"computes_often", "the peer computes for 1 to 4 ms, again and again", computes_often},
    {"calls_each_ms", "both call every ms only, and exchange 1 MB", calls_each_ms},
    {"calls_each_5_ms", "both call every 5 ms only, and exchange 1 MB", calls_each_5_ms},
    {"sends_then_computes", "two sends, then the sender computes for 20 s", sends_then_computes},
    {"wakes_after_limit", "we compute for longer than the silence limit", wakes_after_limit},
    {"idle_peer_computes", "the peer computes for 60 s, and nothing is due", idle_peer_computes},
    {"async_repairs",
     "the sender computes after a send that is lost, the progress thread repairs it",
     async_repairs},
    {"async_backlog_full", "more comes in asynchronous turns than may be kept", async_backlog_full},
    {"async_backlog_ready", "what may not be kept comes when its receiver looks again",
     async_backlog_ready},
    {"async_nap_backlog",
     "a peer naps, and has no room for what comes: nothing is concluded from it",
     async_nap_backlog},
    {"async_nap_without_thread",
     "a peer naps, and nobody reads for it: nothing is concluded from it",
     async_nap_without_thread},
    {"async_nap_tag", "a peer naps, and has no receiver for a tag: nothing is concluded from it",
     async_nap_tag},
    {"async_close", "the peer closes while its messages wait", async_close},
    {"async_close_behind", "the same, and one waits behind another that was lost",
     async_close_behind},
    {"async_destroyed", "a connection is destroyed while its messages wait", async_destroyed},
    {"async_killed", "a connection is killed while its messages wait", async_killed},
    {"async_refused", "the peer's host refuses in asynchronous turns", async_refused},
    {"async_restarted",
     "the peer restarts under the same address, and is heard in asynchronous turns",
     async_restarted},
    {"async_no_memory", "no memory for what comes in asynchronous turns", async_no_memory},
    {"async_device_failure", "the device fails in an asynchronous turn", async_device_failure},
    {"async_kills_nobody", "the silence limit passes in asynchronous turns", async_kills_nobody},
    {"async_no_room", "a peer computes for longer than the silence limit, its store full",
     async_no_room},
    {"seldom", "progress is never called twice in a second", seldom},
    {"first_turn", "a message is sent before progress is called for the first time", first_turn},
    {"after_pause", "a message is sent after a pause, before the next progress call", after_pause},
    {"rail_full", "one rail cannot send, the other acknowledges", rail_full},
    {"skips_lost", "credits that idle channels give back are lost, with the smallest window",
     skips_lost},
    {"partition", "a partition of 10 s heals", partition},
    {"partition_too_long", "a partition outlasts the silence limit", partition_too_long},
    {"silent_peers_fill_depth", "more silent peers than all that may be on its way",
     silent_peers_fill_depth},
    {"one_of_two_given_up", "a peer gives up the connection by whose rails another goes",
     one_of_two_given_up},
    {"partition_one_way", "a peer is heard, but what is sent to it is lost for longer than that",
     partition_one_way},
    {"keepalive_ended", "a peer that nobody waits for has ended: found with usual pauses",
     keepalive_ended},
    {"keepalive_lost_host", "nothing is due, and the network says that the peer's host is gone",
     keepalive_lost_host},
    {"network_error_uptime", "what the network said, on a host that is up for 20, 40 and 60 days",
     network_error_uptime},
    {"keepalive_computes", "a peer computes for 60 s and is asked each second", keepalive_computes},
    {"keepalive_stopped", "the same of a peer that is stopped, and of one whose network is silent",
     keepalive_stopped},
    {"keepalive_heals", "networks that say that a host is gone, and are well again, many times",
     keepalive_heals},
    {"keepalive_many", "many idle peers are asked", keepalive_many},
    {"command_beside_bulk", "bursts of short messages, beside bulk and alone", command_beside_bulk},
    {"command_beside_repeats", "short messages while much bulk is repeated",
     command_beside_repeats},
    {"hole", "large datagrams are lost for ever, beside small ones", hole},
    {"hole_alone", "the same, and nothing else is sent", hole_alone},
    {"hole_first_contact", "the same, from the first datagram on", hole_first_contact},
    {"hole_appears", "the same, from the middle of a stream on", hole_appears},
    {"hole_little_room", "more parts of a segment than there is room for at a time",
     hole_little_room},
    {"hole_little_queue", "more parts of a segment than the sender can hand over at a time",
     hole_little_queue},
    {"hole_many_parts", "of many segments in parts some parts arrive only", hole_many_parts},
    {"hole_shrinks", "a path carries still less before that is known", hole_shrinks},
    {"hole_among_losses", "what gets through is lost at times, too", hole_among_losses},
    {"hole_heals", "the path carries large datagrams again", hole_heals},
    {"hole_narrow", "a path carries less than any should", hole_narrow},
    {"hole_for_operations", "one-sided operations, and the path carries less from then on",
     hole_for_operations},
    {"hole_after_refusal", "what is lost in it was refused before", hole_after_refusal},
    {"no_hole", "losses and refusals that are no sign of a smaller path", no_hole},
    {"path_told", "the network says that the path carries less, in the middle of a stream",
     path_told},
    {"no_tag", "a tag gets its receiver late, or never", no_tag},
    {"ready_tag", "a hundred messages wait for the receiver of their tag", ready_tag},
    {"ready_after_loss", "what waited for its receiver gives back nothing of the window",
     ready_after_loss},
    {"ready_of_lost", "nor does what was lost, and then waited for its receiver", ready_of_lost},
    {"ready_beside_others", "a hundred wait, beside messages that get through",
     ready_beside_others},
    {"ready_buffers", "fragments wait for one without a receiver for its tag, and fill all buffers",
     ready_buffers},
    {"ready_lost", "the news that the tag has its receiver is lost three times", ready_lost},
    {"refused_beside_stream",
     "a hundred messages without a receiver for their tag, beside a stream", refused_beside_stream},
    {"refused_copy_lost", "only the oldest fragment has a buffer, and copies of it are lost",
     refused_copy_lost},
    {"refused_copies_lost", "the same, and all that is sent with them", refused_copies_lost},
    {"restart", "the peer restarts, under the same and under another address", restart},
    {"refused", "the peer's host says that nobody is there", refused},
    {"forged_refusals", "a sender without the token says that a silent peer is not there",
     forged_refusals},
    {"late_refusals", "refusals of what an earlier life of the connection sent", late_refusals},
    {"device_failure", "our device fails", device_failure},
    {"failover_other_shape", "the rail that all goes on by carries less, and has other queues",
     failover_other_shape},
    {"failover_sender", "one of two devices fails in the middle of transfers", failover_sender},
    {"failover_striped", "one of two devices fails in the middle of PUTs that are striped 1 to 3",
     failover_striped},
    {"failover_many", "three devices of five processes fail", failover_many},
    {"failover_both", "both ends of a wire fail at once", failover_both},
    {"failover_idle", "a device fails that nobody uses just now", failover_idle},
    {"failover_in_async", "a device fails while its process computes", failover_in_async},
    {"failover_news_lost", "nobody hears of the failure of a device", failover_news_lost},
    {"failover_broken_way", "nothing gets through by one of two rails", failover_broken_way},
    {"failover_after_pauses", "the same, after pauses of the peer", failover_after_pauses},
    {"failover_narrow_way", "one of two ways carries 300 bytes, and answers", failover_narrow_way},
    {"failover_back", "one way breaks and heals, then the device of the other fails",
     failover_back},
    {"failover_in_turn", "one way after the other breaks and heals", failover_in_turn},
    {"failover_away", "the device fails that others had moved to", failover_away},
    {"failover_home", "a way that healed is taken back", failover_home},
    {"failover_third", "two of three ways break, the third was idle", failover_third},
    {"failover_crossed", "each of two processes loses another device", failover_crossed},
    {"failover_late", "datagrams of the old way are overtaken by those of the new one",
     failover_late},
    {"failover_disagree", "both sides move at once, to different ways", failover_disagree},
    {"failover_not_for_silence", "a peer with two rails computes for 20 s",
     failover_not_for_silence},
    {"failover_not_for_hole", "both ways swallow what is larger than 1000 bytes",
     failover_not_for_hole},
    {"slow_rail", "one of two rails has a hundredth of the rate that is taken for granted",
     slow_rail},
    {"slow_rail_of_puts", "the same for PUTs that are divided in halves", slow_rail_of_puts},
    {"slow_rail_recovers", "it is as fast as the other later, and used again", slow_rail_recovers},
    {"slow_rail_is_left_alone", "the fast one of them breaks, then the slow one is used",
     slow_rail_is_left_alone},
    {"slow_rail_as_claimed", "PUTs divided as rates are, 1 to 10: both rails stay in use",
     slow_rail_as_claimed},
    {"slow_rail_for_a_moment", "a rail is slow for 0.2 s: it stays in use", slow_rail_for_a_moment},
    {"slow_rail_compared_with_little", "a rail is slow where hardly anything goes by the other",
     slow_rail_compared_with_little},
    {"slow_rail_loses", "one of two rails loses 1 %: it stays in use", slow_rail_loses},
    {"slow_peer", "a peer computes while it owes ACKs by one of two rails: that stays in use",
     slow_peer},
    {"flow_dies", "one flow (5-tuple) leads nowhere from now on, another does", flow_dies},
    {"flow_of_answers_dies", "the same of a process that only answers", flow_of_answers_dies},
    {"flows_of_both_die", "two of three flows of one, and one of the other", flows_of_both_die},
    {"flow_comes_back", "a flow leads there again later, and is used again", flow_comes_back},
    {"flow_never_led", "a first contact by a flow that leads nowhere", flow_never_led},
    {"flow_to_peer_that_computes", "a peer computes: no flow is left for it",
     flow_to_peer_that_computes},
    {"latency_lane_dies", "the lane of short messages leads nowhere, that of bulk does",
     latency_lane_dies},
    {"bulk_lane_dies", "the lane of bulk leads nowhere, that of short messages does",
     bulk_lane_dies},
    {"bulk_tail_lost", "the end of bulk is lost while short messages go on", bulk_tail_lost},
    {"flow_spare", "all flows die but one that leaves from a port that the peer does not know",
     flow_spare},
    {"flow_spare_dies", "the same, and that one by its first two ports, too", flow_spare_dies},
    {"flows_all_die", "no flow leads there any more: told after 5 s", flows_all_die},
    {"port_flaps", "the only port goes down for a while: the job waits and goes on", port_flaps},
    {"port_flaps_of_two", "one of two ports goes down, and is used again when it is back",
     port_flaps_of_two},
    {"port_first_back", "both ports go down; the one that comes back first serves all",
     port_first_back},
    {"port_stays_down", "a port that is down for too long has failed", port_stays_down},
    {"address_changes", "the address of the only rail changes, at one end and then at the other",
     address_changes},
    {"address_changes_protected", "the same, with each kind of protection",
     address_changes_protected},
    {"address_changes_of_two", "that of one of two rails does", address_changes_of_two},
    {"address_changes_unasked", "what asks there is lost, and asked again",
     address_changes_unasked},
    {"address_changes_refused", "the peer, whose own may change later, is refused",
     address_changes_refused},
    {"address_changes_first_contact", "the first contact comes from an address nobody published",
     address_changes_first_contact},
    {"sources_rewritten", "routers rewrite the sources of both ends, from the first contact on",
     sources_rewritten},
    {"sources_rewritten_lanes", "they lead back only what answers, by pairs of ports",
     sources_rewritten_lanes},
    {"sources_rewritten_ports",
     "a router that has other ports at the same address begins in mid-job",
     sources_rewritten_ports},
    {"sources_rewritten_later", "they begin in mid-job, get other addresses, and go",
     sources_rewritten_later},
    {"sources_rewritten_forgotten", "a router forgets an idle process, and refuses what is for it",
     sources_rewritten_forgotten},
    {"sources_rewritten_replayed", "somebody repeats from elsewhere what both say of that",
     sources_rewritten_replayed},
    {"port_back_late", "a port that was down for too long is used again", port_back_late},
    {"port_back_late_at_both", "so are those of both ends of a wire", port_back_late_at_both},
    {"port_back_late_alone", "and one that was the only one, by new connections",
     port_back_late_alone},
    {"port_back_unnoticed", "a port is back before anybody was told that it was gone for too long",
     port_back_unnoticed},
    {"port_down_in_async", "a port goes down and comes back while its owner computes",
     port_down_in_async},
    {"failover_first_contact", "a first message to a rail whose device has failed",
     failover_first_contact},
    {"failover_nowhere", "all devices fail", failover_nowhere},
    {"way_silent_from_the_first", "one of two ways never led anywhere, and nobody says so",
     way_silent_from_the_first},
    {"way_refused_from_the_first", "one of two ways never led anywhere: all is refused there",
     way_refused_from_the_first},
    {"way_without_answer", "no data by a way that did not answer yet, while another did",
     way_without_answer},
    {"way_refused_later", "a firewall refuses all that goes by one of two ways, and stops to",
     way_refused_later},
    {"way_refused_at_one_end", "the same, in one direction only", way_refused_at_one_end},
    {"paths_all_refused", "a peer that all ways refuse is dead", paths_all_refused},
    {"paths_refused_and_silent", "one way refuses, the other says nothing: dead as well",
     paths_refused_and_silent},
    {"contact_while_it_computes", "a first contact with a peer that computes is answered, and kept",
     contact_while_it_computes},
    {"contact_and_close", "a first contact and the CLOSEs after it are received in one turn",
     contact_and_close},
    {"contact_of_many", "more peers ask one that computes than it may look up in a second",
     contact_of_many},
    {"contact_beyond_passive", "and more than it takes up: they wait, and nobody is given up",
     contact_beyond_passive},
    {"way_refused_one_way_for_long", "one way is refused in one direction: no going back and forth",
     way_refused_one_way_for_long},
    {"paths_work_one_way_each", "each of two ways works in one direction only",
     paths_work_one_way_each},
    {"contact_blocked", "a firewall drops all: told after 5 s, given up after a minute",
     contact_blocked},
    {"contact_restarted", "the peer restarts before the first datagram gets there",
     contact_restarted},
    {"contact_not_promised", "the same with a peer that promised nothing: told, never given up",
     contact_not_promised},
    {"contact_one_way", "a firewall drops one direction: both say which", contact_one_way},
    {"job_has_left", "a process of another job left, and its CLOSEs were lost", job_has_left},
    {"job_refused_for_a_while", "what goes to another job is refused for a while",
     job_refused_for_a_while},
    {"contact_while_it_computes_for_long",
     "first contact with a peer that computes beyond the silence limit",
     contact_while_it_computes_for_long},
    {"rank_has_left", "the same of our own job is a death", rank_has_left},
    {"close_and_reopen", "connections are closed in many states and made again", close_and_reopen},
    {"closes_lost", "no CLOSE arrives, and the peer's new life has nothing to say", closes_lost},
    {"reassembly_exhausted", "no reassembly buffer but one for each peer", reassembly_exhausted},
    {"incast", "16 senders, one small receive buffer", incast},
    {"incast_16", "16 senders to one, 10 Gbit/s", incast_16},
    {"incast_shallow", "the same, and a switch with 96 KiB of queue", incast_shallow},
    {"incast_slow_link", "16 senders to one, 1 Gbit/s", incast_slow_link},
    {"bottleneck_2", "two pairs share a link, one begins later", bottleneck_2},
    {"bottleneck_4", "four pairs share a link, one begins after the other", bottleneck_4},
    {"bottleneck_8", "eight pairs share a link", bottleneck_8},
    {"bottleneck_shallow", "four pairs share a link with a queue of 27 segments",
     bottleneck_shallow},
    {"bottleneck_cubic", "four pairs share a link, CUBIC", bottleneck_cubic},
    {"slow_receiver", "a receiver that looks seldom and holds little", slow_receiver},
    {"mixed", "small messages beside large ones", mixed},
    {"shared_processors", "both ends have a processor a third of the time", shared_processors},
    {"burst_loss", "a loss takes all datagrams of one send call", burst_loss},
    {"burst_hole", "long GSO bursts vanish one way, single datagrams pass", burst_hole},
    {"burst_refused", "the host refuses long GSO bursts (ENOBUFS), and takes them again later",
     burst_refused},
    {"small_buffers", "1, 4 and 16 senders to a receiver that holds 184 segments and computes",
     small_buffers},
    {"stream", "2 MiB on a clean network", stream},
    {"each_allocation_fails", "each allocation fails in turn", each_allocation_fails},
    {"no_memory_at_start", "no memory while the engine is made", no_memory_at_start},
    {"idle_memory", "1000 idle peers", idle_memory},
    {"oversubscribed_16", "16 processes share a processor, and all send to all", oversubscribed_16},
    {"oversubscribed_128", "128 processes share a processor, and all send to all",
     oversubscribed_128},
    {"oversubscribed_256", "256 processes share a processor, and all send to all",
     oversubscribed_256},
    {"oversubscribed_1000",
     "1000 processes share a processor, and send to the first and along a tree",
     oversubscribed_1000},
    {"contacts_lost", "a twentieth of all datagrams is lost while 127 peers are contacted",
     contacts_lost},
    {"starved_suspects_nobody", "a process that hardly runs hears nothing for 20 s",
     starved_suspects_nobody},
    {"ops_clean", "one-sided operations of all kinds and sizes on a clean network", ops_clean},
    {"ops_take_turns", "a message does not wait for what GETs asked for", ops_take_turns},
    {"ops_each_lost", "each datagram of some one-sided operations is lost in turn", ops_each_lost},
    {"ops_duplicated", "every datagram of one-sided operations arrives twice", ops_duplicated},
    {"ops_refused", "one-sided operations with everything that can be wrong with them",
     ops_refused},
    {"ops_refused_both", "windows and credits are full of refused PUTs, on both sides",
     ops_refused_both},
    {"ops_refusal_lost", "the news that a PUT is refused is lost three times", ops_refusal_lost},
    {"ops_late_put", "a PUT comes again after its region was removed", ops_late_put},
    {"ops_region_removed", "a region is removed in the middle of a GET, and of a PUT",
     ops_region_removed},
    {"ops_cut_off", "connections end with one-sided operations under way", ops_cut_off},
    {"ops_old_answers", "answers to a life that is over reach the next one", ops_old_answers},
    {"ops_answer_never", "the peer dies between a request and its answer", ops_answer_never},
    {"ops_answer_late", "a living peer answers after the silence limit", ops_answer_late},
    {"ops_no_memory", "allocations of one-sided operations fail in turn", ops_no_memory},
    {"direct_clean", "devices do one-sided operations of all kinds and sizes by themselves",
     direct_clean},
    {"direct_not_exposed", "what devices cannot do goes in segments", direct_not_exposed},
    {"direct_protected", "with protection nothing goes by devices", direct_protected},
    {"direct_peer_computes", "devices serve while their processes compute", direct_peer_computes},
    {"direct_full", "the device takes few operations at a time, and for a while none", direct_full},
    {"direct_full_beside_bursts", "the same, beside bursts of messages that leave entirely",
     direct_full_beside_bursts},
    {"direct_never_connected", "the device takes no operation for long", direct_never_connected},
    {"direct_broken", "connections of devices break with operations under way", direct_broken},
    {"direct_unreachable", "the device cannot reach the peer", direct_unreachable},
    {"direct_refused", "operations by devices with everything that can be wrong with them",
     direct_refused},
    {"direct_region_removed", "a region is removed with operations on it in the device",
     direct_region_removed},
    {"direct_cut_off", "connections end with operations in the device", direct_cut_off},
    {"direct_device_fails", "one of two devices fails with operations in it", direct_device_fails},
    {"direct_port_flaps", "a port is down while an atomic waits for its device", direct_port_flaps},
    {"direct_last_device_fails", "the only device fails with operations in it",
     direct_last_device_fails},
    {"direct_peer_gone", "the peer is gone with operations on their way to it", direct_peer_gone},
    {"direct_in_async", "operations enter and leave the device in asynchronous turns",
     direct_in_async},
    {NULL, NULL, NULL},
};
