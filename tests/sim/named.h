/*
 * Copyright (c) 2026 The btl_ib developers. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* What the files with named scenarios share. */

#ifndef BTL_IB_SIM_NAMED_H
#define BTL_IB_SIM_NAMED_H

#include "sim.h"

/* Two processes with one rail each. */
void two(sim_t *sim);

/* The same, started, with `limit` us of silence to wait. */
void two_with_limit(sim_t *sim, uint64_t limit);

/* A fresh simulation in place of the old one; what was counted stays. */
void again(sim_t *sim, uint64_t seed);

/* A message that is sent `after` ns from now, as soon as its sender does not compute. */
message_t *say(sim_t *sim, uint32_t from, uint32_t to, uint32_t size, uint64_t after);

static inline uint8_t type_of(const datagram_t *d)
{
    return d->data[0] & 0xf;
}

/* Let both get to know each other and the round-trip time. */
void warm_up(sim_t *sim, uint32_t a, uint32_t b);

typedef enum ending {
    DESTROYED, /* the connection, at once, */
    DRAINED,   /* or once all is done */
    RESTARTED, /* the process */
} ending_t;

/* How, `after` ns from now, one of two processes ends its connection with the other. */
void end_connection(sim_t *sim, uint32_t proc, uint64_t after, ending_t how);

/* Settle, rest, farewell. */
void finish(sim_t *sim);

/* Datagrams of all processes that were sent again. */
uint64_t again_sum(const sim_t *sim);

/* ns from acceptance to delivery, the longest of the messages from number `from` on. */
uint64_t slowest(const sim_t *sim, uint32_t from);

void must_be_within(sim_t *sim, const char *what, uint64_t value, uint64_t bound);
void must_be_at_least(sim_t *sim, const char *what, uint64_t value, uint64_t bound);

/* named_failover.c. Everybody knows everybody by each rail. */
void rails_acquainted(sim_t *sim, uint32_t procs, uint32_t rails);
/* Messages of all sizes both ways, by each rail, for some milliseconds; and: we are in the middle
 * of it. */
void rails_traffic(sim_t *sim);
void rails_in_traffic(sim_t *sim);
/* All arrived within `time`, by the connections there were. */
void rails_survive(sim_t *sim, uint64_t time);
/* Do processes 0 and 1 use (or, if `uses` is false, leave) their rail 0? */
void rails_must_use_first(sim_t *sim, bool uses, const char *when);

/* named_contact.c */
void closes_lost(sim_t *sim);
void both_at_once(sim_t *sim);
void connect_lost(sim_t *sim);
void never_added(sim_t *sim);
void burst_of_unknown_peers(sim_t *sim);
void restart(sim_t *sim);
void refused(sim_t *sim);
void forged_refusals(sim_t *sim);
void late_refusals(sim_t *sim);
void device_failure(sim_t *sim);
void close_and_reopen(sim_t *sim);

/* named_protection.c */
void flipped(sim_t *sim);
void insider(sim_t *sim);
void replayed(sim_t *sim);
void rekeyed(sim_t *sim);
void forged(sim_t *sim);

/* named_zcopy.c */
void zcopy_alone(sim_t *sim);
void zcopy_few(sim_t *sim);
void zcopy_many(sim_t *sim);
void zcopy_unanswered(sim_t *sim);

/* named_loss.c */
void loss_one(sim_t *sim);
void loss_of_retransmission(sim_t *sim);
void loss_three_times(sim_t *sim);
void loss_of_tail_and_probe(sim_t *sim);
void loss_of_burst(sim_t *sim);
void loss_of_first_flight(sim_t *sim);
void loss_of_every_tenth(sim_t *sim);
void loss_of_acks(sim_t *sim);
void reorder_only(sim_t *sim);
void spurious_count(sim_t *sim);
void tail_loss(sim_t *sim);
void acks_of_many_gaps(sim_t *sim);
void tail_loss_of_bundle(sim_t *sim);
void each_lost(sim_t *sim);
void each_duplicated(sim_t *sim);
void loss_both_ways(sim_t *sim);
void pingpong_loss(sim_t *sim);

/* named_traffic.c */
void incast_16(sim_t *sim);
void incast_shallow(sim_t *sim);
void incast_slow_link(sim_t *sim);
void bottleneck_2(sim_t *sim);
void bottleneck_4(sim_t *sim);
void bottleneck_8(sim_t *sim);
void bottleneck_shallow(sim_t *sim);
void bottleneck_cubic(sim_t *sim);
void slow_receiver(sim_t *sim);
void mixed(sim_t *sim);
void shared_processors(sim_t *sim);
void burst_loss(sim_t *sim);
void burst_hole(sim_t *sim);
void burst_refused(sim_t *sim);
void small_buffers(sim_t *sim);

/* named_async.c */
void async_repairs(sim_t *sim);
void async_backlog_full(sim_t *sim);
void async_backlog_ready(sim_t *sim);
void async_nap_backlog(sim_t *sim);
void async_nap_without_thread(sim_t *sim);
void async_nap_tag(sim_t *sim);
void async_close(sim_t *sim);
void async_close_behind(sim_t *sim);
void async_destroyed(sim_t *sim);
void async_killed(sim_t *sim);
void async_refused(sim_t *sim);
void async_restarted(sim_t *sim);
void async_no_memory(sim_t *sim);
void async_device_failure(sim_t *sim);
void async_kills_nobody(sim_t *sim);
void async_no_room(sim_t *sim);
void seldom(sim_t *sim);
void first_turn(sim_t *sim);
void after_pause(sim_t *sim);
void rail_full(sim_t *sim);

/* named_failover.c */
void failover_other_shape(sim_t *sim);
void failover_sender(sim_t *sim);
void failover_striped(sim_t *sim);
void failover_many(sim_t *sim);
void failover_both(sim_t *sim);
void failover_idle(sim_t *sim);
void failover_in_async(sim_t *sim);
void failover_news_lost(sim_t *sim);
void failover_broken_way(sim_t *sim);
void failover_after_pauses(sim_t *sim);
void failover_narrow_way(sim_t *sim);
void failover_back(sim_t *sim);
void failover_in_turn(sim_t *sim);
void failover_away(sim_t *sim);
void failover_home(sim_t *sim);
void failover_third(sim_t *sim);
void failover_crossed(sim_t *sim);
void failover_late(sim_t *sim);
void failover_disagree(sim_t *sim);
void failover_not_for_silence(sim_t *sim);
void failover_not_for_hole(sim_t *sim);
void failover_first_contact(sim_t *sim);
void port_flaps(sim_t *sim);
void port_flaps_of_two(sim_t *sim);
void address_changes(sim_t *sim);
void address_changes_protected(sim_t *sim);
void address_changes_of_two(sim_t *sim);
void address_changes_unasked(sim_t *sim);
void address_changes_refused(sim_t *sim);
void address_changes_first_contact(sim_t *sim);
void sources_rewritten(sim_t *sim);
void sources_rewritten_lanes(sim_t *sim);
void sources_rewritten_ports(sim_t *sim);
void sources_rewritten_later(sim_t *sim);
void sources_rewritten_forgotten(sim_t *sim);
void sources_rewritten_replayed(sim_t *sim);
void port_back_late(sim_t *sim);
void port_back_late_at_both(sim_t *sim);
void port_back_late_alone(sim_t *sim);
void port_back_unnoticed(sim_t *sim);
void port_first_back(sim_t *sim);
void port_stays_down(sim_t *sim);
void port_down_in_async(sim_t *sim);
void failover_nowhere(sim_t *sim);

/* named_slow.c */
void slow_rail(sim_t *sim);
void slow_rail_of_puts(sim_t *sim);
void slow_rail_recovers(sim_t *sim);
void slow_rail_is_left_alone(sim_t *sim);
void slow_rail_as_claimed(sim_t *sim);
void slow_rail_for_a_moment(sim_t *sim);
void slow_rail_compared_with_little(sim_t *sim);
void slow_rail_loses(sim_t *sim);
void slow_peer(sim_t *sim);

/* named_validation.c */
void way_silent_from_the_first(sim_t *sim);
void way_refused_from_the_first(sim_t *sim);
void way_without_answer(sim_t *sim);
void way_refused_later(sim_t *sim);
void way_refused_at_one_end(sim_t *sim);
void paths_all_refused(sim_t *sim);
void paths_refused_and_silent(sim_t *sim);
void contact_while_it_computes(sim_t *sim);
void contact_of_many(sim_t *sim);
void contact_and_close(sim_t *sim);
void contact_beyond_passive(sim_t *sim);
void way_refused_one_way_for_long(sim_t *sim);
void paths_work_one_way_each(sim_t *sim);
void contact_blocked(sim_t *sim);
void contact_restarted(sim_t *sim);
void contact_not_promised(sim_t *sim);
void contact_one_way(sim_t *sim);
void job_has_left(sim_t *sim);
void job_refused_for_a_while(sim_t *sim);
void contact_while_it_computes_for_long(sim_t *sim);
void rank_has_left(sim_t *sim);

/* named_refused.c */
void ready_tag(sim_t *sim);
void ready_after_loss(sim_t *sim);
void ready_of_lost(sim_t *sim);
void ready_beside_others(sim_t *sim);
void ready_buffers(sim_t *sim);
void ready_lost(sim_t *sim);
void refused_beside_stream(sim_t *sim);
void refused_copy_lost(sim_t *sim);
void refused_copies_lost(sim_t *sim);

/* named_silence.c */
void computes(sim_t *sim);
void computes_often(sim_t *sim);
void calls_each_ms(sim_t *sim);
void calls_each_5_ms(sim_t *sim);
void sends_then_computes(sim_t *sim);
void wakes_after_limit(sim_t *sim);
void idle_peer_computes(sim_t *sim);
void skips_lost(sim_t *sim);
void partition(sim_t *sim);
void partition_too_long(sim_t *sim);
void silent_peers_fill_depth(sim_t *sim);
void one_of_two_given_up(sim_t *sim);
void partition_one_way(sim_t *sim);
void keepalive_ended(sim_t *sim);
void keepalive_lost_host(sim_t *sim);
void network_error_uptime(sim_t *sim);
void keepalive_computes(sim_t *sim);
void keepalive_stopped(sim_t *sim);
void keepalive_heals(sim_t *sim);
void keepalive_many(sim_t *sim);
void no_tag(sim_t *sim);

/* named_oversubscribed.c */
void oversubscribed_16(sim_t *sim);
void oversubscribed_128(sim_t *sim);
void oversubscribed_256(sim_t *sim);
void oversubscribed_1000(sim_t *sim);
void contacts_lost(sim_t *sim);
void starved_suspects_nobody(sim_t *sim);

/* named_path.c */
void hole(sim_t *sim);
void hole_alone(sim_t *sim);
void hole_first_contact(sim_t *sim);
void hole_appears(sim_t *sim);
void hole_little_room(sim_t *sim);
void hole_little_queue(sim_t *sim);
void hole_many_parts(sim_t *sim);
void hole_shrinks(sim_t *sim);
void hole_among_losses(sim_t *sim);
void hole_heals(sim_t *sim);
void hole_narrow(sim_t *sim);
void hole_for_operations(sim_t *sim);
void hole_after_refusal(sim_t *sim);
void no_hole(sim_t *sim);
void path_told(sim_t *sim);

/* named_command.c */
void command_beside_bulk(sim_t *sim);
void command_beside_repeats(sim_t *sim);

/* named_limits.c */
void credit_update_lost(sim_t *sim);
void both_out_of_credit(sim_t *sim);
void small_queues(sim_t *sim);
void small_queues_many(sim_t *sim);
void reassembly_exhausted(sim_t *sim);
void incast(sim_t *sim);
void stream(sim_t *sim);
void each_allocation_fails(sim_t *sim);
void no_memory_at_start(sim_t *sim);
void idle_memory(sim_t *sim);

/* named_onesided.c */
void ops_clean(sim_t *sim);
void ops_take_turns(sim_t *sim);
void ops_each_lost(sim_t *sim);
void ops_duplicated(sim_t *sim);
void ops_refused(sim_t *sim);
void ops_refused_both(sim_t *sim);
void ops_refusal_lost(sim_t *sim);
void ops_late_put(sim_t *sim);
void ops_region_removed(sim_t *sim);
void ops_cut_off(sim_t *sim);
void ops_old_answers(sim_t *sim);
void ops_answer_never(sim_t *sim);
void ops_answer_late(sim_t *sim);
void ops_no_memory(sim_t *sim);

/* named_direct.c */
void direct_clean(sim_t *sim);
void direct_not_exposed(sim_t *sim);
void direct_protected(sim_t *sim);
void direct_peer_computes(sim_t *sim);
void direct_full(sim_t *sim);
void direct_full_beside_bursts(sim_t *sim);
void direct_never_connected(sim_t *sim);
void direct_broken(sim_t *sim);
void direct_unreachable(sim_t *sim);
void direct_refused(sim_t *sim);
void direct_region_removed(sim_t *sim);
void direct_cut_off(sim_t *sim);
void direct_device_fails(sim_t *sim);
void direct_port_flaps(sim_t *sim);
void direct_last_device_fails(sim_t *sim);
void direct_peer_gone(sim_t *sim);
void direct_in_async(sim_t *sim);

/* named_flow.c */
void flow_dies(sim_t *sim);
void flow_of_answers_dies(sim_t *sim);
void flows_of_both_die(sim_t *sim);
void flow_comes_back(sim_t *sim);
void flow_never_led(sim_t *sim);
void flow_to_peer_that_computes(sim_t *sim);
void flows_all_die(sim_t *sim);
void latency_lane_dies(sim_t *sim);
void bulk_lane_dies(sim_t *sim);
void bulk_tail_lost(sim_t *sim);
void flow_spare(sim_t *sim);
void flow_spare_dies(sim_t *sim);

#endif
