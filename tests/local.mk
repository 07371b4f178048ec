# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Part of ../Makefile.am: what `make check` builds and runs, in an Open MPI source tree too. tools/check runs the rest.

TESTS =
check_PROGRAMS =
lower_layers = libbtl_ib_engine.la libbtl_ib_transport.la libbtl_ib_crypto.la libbtl_ib_loader.la $(BTL_IB_DL_LIBS)
lower_cppflags = -I$(srcdir) $(engine_cppflags) -I$(srcdir)/transport -I$(srcdir)/transport/udp -I$(srcdir)/crypto -I$(srcdir)/loader \
    -I$(srcdir)/tests/sim -I$(srcdir)/tests/bench -D_GNU_SOURCE
# Parts of the component that know nothing of Open MPI, so that they can be tested by themselves
component_units = -I$(srcdir)/connectivity -I$(srcdir)/devices -I$(srcdir)/mca \
    -I$(srcdir)/progress -I$(srcdir)/registration -I$(srcdir)/stats
if BTL_IB_HAVE_OFI
lower_cppflags += -DBTL_IB_HAVE_OFI=1 -I$(srcdir)/transport/ofi $(BTL_IB_OFI_CPPFLAGS)
endif
if BTL_IB_HAVE_VERBS
lower_cppflags += -DBTL_IB_HAVE_VERBS=1 $(verbs_cppflags)
endif

# What has no flags and libraries of its own is a unit test, so that most of them need no lines here.
AM_CPPFLAGS = $(lower_cppflags) $(CMOCKA_CFLAGS)
LDADD = libbtl_ib_bench.la $(lower_layers) $(CMOCKA_LIBS) -lm
# For what stands in for libraries, which are loaded when they are needed (loader/).
AM_LDFLAGS += -export-dynamic

#
# The bench: whole engines with a network in the test's hands
#
check_LTLIBRARIES = libbtl_ib_bench.la
libbtl_ib_bench_la_SOURCES = \
    tests/bench/attack.c \
    tests/bench/bench.c \
    tests/bench/bench.h \
    tests/bench/counted.h \
    tests/bench/net.c \
    tests/bench/ops.c \
    tests/bench/state.c
bench_libs = libbtl_ib_bench.la $(lower_layers)

if BTL_IB_HAVE_VERBS
# Counts the verbs calls of jobs, for tests/rdma/budget. An rpath makes a shared library of it, which is not installed.
check_LTLIBRARIES += tests/rdma/verbs_count.la
tests_rdma_verbs_count_la_SOURCES = tests/rdma/verbs_count.c
tests_rdma_verbs_count_la_CPPFLAGS = -D_GNU_SOURCE
tests_rdma_verbs_count_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
tests_rdma_verbs_count_la_LIBADD = -ldl
# Asks the device for the attributes of the queues that jobs used, for tests/rdma/run.
check_LTLIBRARIES += tests/rdma/verbs_attr.la
tests_rdma_verbs_attr_la_SOURCES = tests/rdma/verbs_attr.c
tests_rdma_verbs_attr_la_CPPFLAGS = -D_GNU_SOURCE
tests_rdma_verbs_attr_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
tests_rdma_verbs_attr_la_LIBADD = -ldl

# Refuses calls of verbs to jobs, for tests/rdma/refused.
check_LTLIBRARIES += tests/rdma/verbs_refuse.la
tests_rdma_verbs_refuse_la_SOURCES = tests/rdma/verbs_refuse.c
tests_rdma_verbs_refuse_la_CPPFLAGS = -D_GNU_SOURCE
tests_rdma_verbs_refuse_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
tests_rdma_verbs_refuse_la_LIBADD = -ldl
# Operations on memory by a real device, for tests/rdma/run.
check_PROGRAMS += tests/rdma/rdma_ops
tests_rdma_rdma_ops_LDADD = $(lower_layers)
endif

# What protecting a datagram costs: docs/measurements.md
check_PROGRAMS += tests/cost/protection_cost
tests_cost_protection_cost_LDADD = $(lower_layers)

# What the engine costs, and what it costs with many peers: tests/cost/budget counts its instructions
cost_programs = tests/cost/engine_cost tests/cost/engine_scale tests/cost/udp_cost
tests_cost_engine_cost_SOURCES = tests/cost/engine_cost.c tests/cost/memory_wire.c \
    tests/cost/memory_transport.h tests/cost/stand_ins.h tests/cost/wire.h
tests_cost_engine_cost_LDADD = $(lower_layers)
tests_cost_udp_cost_SOURCES = tests/cost/engine_cost.c tests/cost/udp_wire.c tests/cost/stand_ins.h \
    tests/cost/wire.h
tests_cost_udp_cost_LDADD = $(lower_layers)
tests_cost_engine_scale_SOURCES = tests/cost/engine_scale.c tests/cost/memory_transport.h \
    tests/cost/stand_ins.h
tests_cost_engine_scale_LDADD = $(lower_layers)
# The same over transport verbs, on devices that are not there
if BTL_IB_HAVE_VERBS
if BTL_IB_HAVE_CMOCKA
cost_programs += tests/cost/rc_cost tests/cost/rc_ring_cost tests/cost/ud_cost
endif
endif
tests_cost_rc_cost_SOURCES = tests/cost/engine_cost.c tests/cost/rc_wire.c $(rc_device_sources)
tests_cost_rc_cost_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests/unit -DRINGS=0
tests_cost_rc_ring_cost_SOURCES = $(tests_cost_rc_cost_SOURCES)
tests_cost_rc_ring_cost_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests/unit -DRINGS=1
tests_cost_ud_cost_SOURCES = tests/cost/engine_cost.c tests/cost/ud_wire.c $(ud_test_sources)
tests_cost_ud_cost_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests/unit
if BTL_IB_HAVE_OPENMPI
# The component itself, for programs that call it without a runtime.
check_LTLIBRARIES += libbtl_ib_component.la
libbtl_ib_component_la_SOURCES = $(component_sources)
libbtl_ib_component_la_CPPFLAGS = $(component_cppflags)
libbtl_ib_component_la_CFLAGS = $(AM_CFLAGS) $(BTL_IB_OPAL_CFLAGS)
component_test_ldadd = libbtl_ib_component.la $(component_libadd) $(BTL_IB_OPAL_LIBS) -lpthread
cost_programs += tests/cost/component_scale
tests_cost_component_scale_SOURCES = tests/cost/component_scale.c tests/cost/lone_component.h \
    tests/cost/memory_transport.h
tests_cost_component_scale_CPPFLAGS = $(component_cppflags)
tests_cost_component_scale_CFLAGS = $(AM_CFLAGS) $(BTL_IB_OPAL_CFLAGS)
tests_cost_component_scale_LDADD = $(component_test_ldadd)
endif
check_PROGRAMS += $(cost_programs)

# An engine over transport udp without Open MPI, for another implementation of the protocol: tests/second/run
second_programs = tests/second/engine_side
check_PROGRAMS += $(second_programs)
tests_second_engine_side_SOURCES = tests/second/engine_side.c mca/btl_ib_modex_codec.c
tests_second_engine_side_CPPFLAGS = $(lower_cppflags) $(component_units)
tests_second_engine_side_LDADD = $(lower_layers)

#
# Unit tests: tests/unit/test_NAME.c, one program each. Only those that need more than the layers below the
# component and the bench have lines of their own.
#
unit_tests = \
    tests/unit/test_crc32c \
    tests/unit/test_accept \
    tests/unit/test_ack_read \
    tests/unit/test_ack_tx \
    tests/unit/test_ack_write \
    tests/unit/test_aead \
    tests/unit/test_atomic \
    tests/unit/test_batch \
    tests/unit/test_bundle \
    tests/unit/test_burst \
    tests/unit/test_cc \
    tests/unit/test_challenge \
    tests/unit/test_cc_cubic \
    tests/unit/test_cc_swift \
    tests/unit/test_conn \
    tests/unit/test_credit \
    tests/unit/test_credit_messages \
    tests/unit/test_datagram_size \
    tests/unit/test_device_filter \
    tests/unit/test_memory_estimate \
    tests/unit/test_drops \
    tests/unit/test_ecn \
    tests/unit/test_engine \
    tests/unit/test_few_credits \
    tests/unit/test_flow \
    tests/unit/test_gso \
    tests/unit/test_goodput \
    tests/unit/test_pmtud \
    tests/unit/test_exit_timeout \
    tests/unit/test_failover \
    tests/unit/test_file_name \
    tests/unit/test_events \
    tests/unit/test_biased_lock \
    tests/unit/test_tombstones \
    tests/unit/test_trace \
    tests/unit/test_trace_file \
    tests/unit/test_probe \
    tests/unit/test_protection \
    tests/unit/test_handshake \
    tests/unit/test_hostile \
    tests/unit/test_host_id \
    tests/unit/test_hotel \
    tests/unit/test_insider \
    tests/unit/test_insider_claims \
    tests/unit/test_insider_onesided \
    tests/unit/test_host_only_interfaces \
    tests/unit/test_keepalive \
    tests/unit/test_latency \
    tests/unit/test_library \
    tests/unit/test_list \
    tests/unit/test_lock_schedules \
    tests/unit/test_locality \
    tests/unit/test_loss \
    tests/unit/test_long_idle \
    tests/unit/test_modex \
    tests/unit/test_observe \
    tests/unit/test_onesided \
    tests/unit/test_overtakes \
    tests/unit/test_pacing \
    tests/unit/test_out_message \
    tests/unit/test_packetize \
    tests/unit/test_path_check \
    tests/unit/test_path_health \
    tests/unit/test_paths \
    tests/unit/test_pauses \
    tests/unit/test_predict \
    tests/unit/test_pending \
    tests/unit/test_poll_sleep \
    tests/unit/test_poll_throttle \
    tests/unit/test_refragment \
    tests/unit/test_registration_limit \
    tests/unit/test_pool \
    tests/unit/test_protocol \
    tests/unit/test_published_address \
    tests/unit/test_queues \
    tests/unit/test_rail \
    tests/unit/test_rdma_present \
    tests/unit/test_icmp \
    tests/unit/test_identity \
    tests/unit/test_incast \
    tests/unit/test_input \
    tests/unit/test_reasm \
    tests/unit/test_receive \
    tests/unit/test_reentry \
    tests/unit/test_threads \
    tests/unit/test_rma_offload \
    tests/unit/test_rma_replies \
    tests/unit/test_rma_target \
    tests/unit/test_rnr \
    tests/unit/test_rnr_entries \
    tests/unit/test_release \
    tests/unit/test_reliable \
    tests/unit/test_region \
    tests/unit/test_region_life \
    tests/unit/test_replay \
    tests/unit/test_route \
    tests/unit/test_rtt \
    tests/unit/test_admission \
    tests/unit/test_backlog \
    tests/unit/test_sched \
    tests/unit/test_send_limits \
    tests/unit/test_sentmap \
    tests/unit/test_submit \
    tests/unit/test_table \
    tests/unit/test_token \
    tests/unit/test_turn \
    tests/unit/test_transmit \
    tests/unit/test_udp \
    tests/unit/test_udp_devices \
    tests/unit/test_udp_errors \
    tests/unit/test_udp_many_rails \
    tests/unit/test_udp_connected \
    tests/unit/test_udp_bulk_lane \
    tests/unit/test_udp_spare \
    tests/unit/test_udp_path_mtu \
    tests/unit/test_udp_peers \
    tests/unit/test_udp_restarted \
    tests/unit/test_udp_socket \
    tests/unit/test_known_faults \
    tests/unit/test_param_values \
    tests/unit/test_versions \
    tests/unit/test_seq_window \
    tests/unit/test_setup \
    tests/unit/test_validation \
    tests/unit/test_windows \
    tests/unit/test_wire \
    tests/unit/test_wire_bundle \
    tests/unit/test_wire_ops \
    tests/unit/test_zcopy
if BTL_IB_HAVE_OPENMPI
unit_tests += \
    tests/unit/test_component_params \
    tests/unit/test_connectivity_file \
    tests/unit/test_ended_calls \
    tests/unit/test_endpoint_life \
    tests/unit/test_endpoint_rails \
    tests/unit/test_kept_lines \
    tests/unit/test_leaving \
    tests/unit/test_two_receivers \
    tests/unit/test_memory_handle \
    tests/unit/test_module \
    tests/unit/test_ompi_compat \
    tests/unit/test_open_devices \
    tests/unit/test_osc_lock \
    tests/unit/test_osc_ranks \
    tests/unit/test_params \
    tests/unit/test_peer_report \
    tests/unit/test_poll_yield \
    tests/unit/test_progress_thread \
    tests/unit/test_turned_down_devices \
    tests/unit/test_stats_file \
    tests/unit/test_wanted_buffers \
    tests/unit/test_wire_choice
if BTL_IB_HAVE_VERBS
unit_tests += \
    tests/unit/test_memory_max \
    tests/unit/test_registration_cache
endif
endif
if BTL_IB_HAVE_HWLOC
unit_tests += tests/unit/test_topology
tests_unit_test_topology_SOURCES = tests/unit/test_topology.c devices/btl_ib_locality.c
tests_unit_test_topology_CPPFLAGS = $(AM_CPPFLAGS) $(component_units) $(BTL_IB_HWLOC_CPPFLAGS) \
    -DBTL_IB_TOPOLOGIES='"$(abs_srcdir)/tests/unit/topology"'
tests_unit_test_topology_LDADD = $(LDADD) $(BTL_IB_HWLOC_LIBS)
endif
if BTL_IB_HAVE_OFI
unit_tests += \
    tests/unit/test_ofi \
    tests/unit/test_ofi_channels \
    tests/unit/test_ofi_modes \
    tests/unit/test_ofi_refused
endif
if BTL_IB_HAVE_VERBS
unit_tests += \
    tests/unit/test_memory_estimate_rc \
    tests/unit/test_memory_estimate_ud \
    tests/unit/test_pin_probe \
    tests/unit/test_rc_connect \
    tests/unit/test_rc_device \
    tests/unit/test_rc_eager \
    tests/unit/test_rc_idle \
    tests/unit/test_rc_many \
    tests/unit/test_rc_queues \
    tests/unit/test_rc_rdma \
    tests/unit/test_rc_rdma_ends \
    tests/unit/test_rc_refused \
    tests/unit/test_rc_traffic \
    tests/unit/test_rc_watch \
    tests/unit/test_ud_channels \
    tests/unit/test_ud_devices \
    tests/unit/test_ud_peers \
    tests/unit/test_ud_refused \
    tests/unit/test_ud_traffic \
    tests/unit/test_verbs_devices \
    tests/unit/test_verbs_gid
endif

EXTRA_DIST += \
    tests/unit/releases \
    tests/unit/topology \
    tests/unit/allocations.h \
    tests/unit/fake_device.h \
    tests/unit/fake_rdma.h \
    tests/unit/fake_rdma_state.h \
    tests/unit/fake_verbs.h \
    tests/unit/hostile.h \
    tests/unit/insider.h \
    tests/unit/pairs.h \
    tests/unit/lone_peer.h \
    tests/unit/pool_segments.h \
    tests/unit/own_network.h \
    tests/unit/rc_inside.h \
    tests/unit/rc_sides.h \
    tests/unit/rdma_sides.h \
    tests/unit/refusals.h \
    tests/unit/said.h \
    tests/unit/several_paths.h \
    tests/unit/support.h \
    tests/unit/told.h \
    tests/unit/transports.h \
    tests/unit/ud_inside.h \
    tests/unit/ud_pair.h \
    tests/unit/udp_calls.h \
    tests/unit/udp_inside.h \
    tests/unit/unit.h \
    tests/unit/wire_bytes.h \
    tests/unit/with_aead.h

if BTL_IB_HAVE_CMOCKA
check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)
endif
# These are linked by a script that makes few processes, also by `make check`. Only variables stand here: a program
# that is named in a rule gets none from automake.
linked_fast = $(unit_tests) $(cost_programs) $(fuzz_targets) $(simulator)
$(linked_fast): private LIBTOOL := $(SHELL) $(srcdir)/tools/fast-libtool $(LIBTOOL)

# Sets of programs, for pytest (tests/runner), which makes what the chosen tests need.
unit-programs: $(BUILT_SOURCES) # which their dependencies do not know before they were compiled once
	@$(MAKE) $(AM_MAKEFLAGS) $(unit_tests)
sim-programs: tests/sim/btl_ib_sim
cost-programs: $(BUILT_SOURCES)
	@$(MAKE) $(AM_MAKEFLAGS) $(cost_programs)
fuzz-programs: $(fuzz_targets)
second-programs: $(second_programs)
tsan-programs: tests/unit/tsan_biased_lock
if BTL_IB_HAVE_VERBS
rdma-programs: tests/rdma/rdma_ops tests/rdma/verbs_attr.la tests/rdma/verbs_count.la \
    tests/rdma/verbs_refuse.la
else
rdma-programs:
endif
.PHONY: unit-programs sim-programs cost-programs second-programs fuzz-programs tsan-programs rdma-programs mpi-programs

# The component's lock is the one place where threads meet; it knows nothing of Open MPI, whose own
# locks thread sanitizer takes for errors.
tests/unit/tsan_biased_lock: $(tests_unit_test_biased_lock_SOURCES)
	@$(MKDIR_P) tests/unit
	$(AM_V_CCLD)$(CC) -std=gnu11 -O1 -g -Wall -Wextra -fsanitize=thread \
	    $(tests_unit_test_biased_lock_CPPFLAGS) -o $@ $^ $(CMOCKA_LIBS) -lpthread
CLEANFILES += tests/unit/tsan_biased_lock

tests_unit_test_atomic_LDADD = $(LDADD) -lpthread
tests_unit_test_threads_LDADD = $(LDADD) -lpthread
tests_unit_test_modex_SOURCES = tests/unit/test_modex.c mca/btl_ib_modex_codec.c
tests_unit_test_modex_CPPFLAGS = $(AM_CPPFLAGS) $(component_units) \
    -DBTL_IB_CORPUS='"$(abs_srcdir)/tests/fuzz/corpus/modex"'
# Tests of what is static in a file include that file.
tests_unit_test_connectivity_file_SOURCES = tests/unit/test_connectivity_file.c \
    progress/btl_ib_biased_lock.c
tests_unit_test_connectivity_file_CPPFLAGS = $(opal_test_cppflags)
tests_unit_test_connectivity_file_CFLAGS = $(opal_test_cflags)
tests_unit_test_connectivity_file_LDADD = $(opal_test_ldadd)
tests_unit_test_release_SOURCES = tests/unit/test_release.c mca/btl_ib_modex_codec.c
tests_unit_test_release_CPPFLAGS = $(AM_CPPFLAGS) $(component_units) \
    -DBTL_IB_RELEASES='"$(abs_srcdir)/tests/unit/releases"'
# A parser of one version more than there is, which the engine's objects do not replace.
tests_unit_test_versions_SOURCES = tests/unit/test_versions.c engine/btl_ib_wire.c
tests_unit_test_versions_CPPFLAGS = $(AM_CPPFLAGS) -DBTL_IB_WIRE_VERSION=2
tests_unit_test_file_name_SOURCES = tests/unit/test_file_name.c mca/btl_ib_file_name.c
tests_unit_test_file_name_CPPFLAGS = $(AM_CPPFLAGS) $(component_units)
tests_unit_test_trace_file_SOURCES = tests/unit/test_trace_file.c stats/btl_ib_trace_file.c mca/btl_ib_file_name.c
tests_unit_test_trace_file_CPPFLAGS = $(AM_CPPFLAGS) $(component_units)
tests_unit_test_host_id_SOURCES = tests/unit/test_host_id.c mca/btl_ib_host_id.c
tests_unit_test_host_id_CPPFLAGS = $(AM_CPPFLAGS) $(component_units)
tests_unit_test_host_only_interfaces_SOURCES = tests/unit/test_host_only_interfaces.c tests/unit/own_network.c
tests_unit_test_exit_timeout_SOURCES = tests/unit/test_exit_timeout.c progress/btl_ib_exit_timeout.c progress/btl_ib_thread.c
tests_unit_test_exit_timeout_CPPFLAGS = $(AM_CPPFLAGS) $(component_units)
tests_unit_test_exit_timeout_LDADD = $(LDADD) -lpthread
tests_unit_test_biased_lock_SOURCES = tests/unit/test_biased_lock.c progress/btl_ib_biased_lock.c
tests_unit_test_biased_lock_CPPFLAGS = $(AM_CPPFLAGS) $(component_units)
tests_unit_test_lock_schedules_CPPFLAGS = $(AM_CPPFLAGS) $(component_units)
tests_unit_test_lock_schedules_LDADD = $(LDADD) -lpthread
tests_unit_test_poll_sleep_SOURCES = tests/unit/test_poll_sleep.c progress/btl_ib_poll_throttle.c
tests_unit_test_poll_sleep_CPPFLAGS = $(AM_CPPFLAGS) $(component_units)
tests_unit_test_poll_throttle_SOURCES = tests/unit/test_poll_throttle.c progress/btl_ib_poll_throttle.c
tests_unit_test_poll_throttle_CPPFLAGS = $(AM_CPPFLAGS) $(component_units)
tests_unit_test_registration_limit_SOURCES = tests/unit/test_registration_limit.c \
    registration/btl_ib_registration_limit.c mca/btl_ib_param_parse.c
tests_unit_test_registration_limit_CPPFLAGS = $(AM_CPPFLAGS) $(component_units)
tests_unit_test_turned_down_devices_SOURCES = tests/unit/test_turned_down_devices.c
tests_unit_test_turned_down_devices_CPPFLAGS = $(opal_test_cppflags)
tests_unit_test_turned_down_devices_CFLAGS = $(opal_test_cflags)
tests_unit_test_turned_down_devices_LDADD = $(opal_test_ldadd)
tests_unit_test_stats_file_SOURCES = tests/unit/test_stats_file.c stats/btl_ib_stats.c \
    progress/btl_ib_biased_lock.c
tests_unit_test_stats_file_CPPFLAGS = $(AM_CPPFLAGS) $(component_units) $(BTL_IB_OPAL_CPPFLAGS)
tests_unit_test_stats_file_CFLAGS = $(AM_CFLAGS) $(BTL_IB_OPAL_CFLAGS)
tests_unit_test_stats_file_LDADD = libbtl_ib_bench.la $(opal_test_ldadd)
tests_unit_test_kept_lines_SOURCES = tests/unit/test_kept_lines.c
tests_unit_test_kept_lines_CPPFLAGS = $(opal_test_cppflags)
tests_unit_test_kept_lines_CFLAGS = $(opal_test_cflags)
tests_unit_test_kept_lines_LDADD = $(opal_test_ldadd)
tests_unit_test_osc_lock_SOURCES = tests/unit/test_osc_lock.c
tests_unit_test_osc_lock_CPPFLAGS = $(opal_test_cppflags)
tests_unit_test_osc_lock_CFLAGS = $(opal_test_cflags)
tests_unit_test_osc_lock_LDADD = $(opal_test_ldadd)
tests_unit_test_osc_ranks_SOURCES = tests/unit/test_osc_ranks.c
tests_unit_test_osc_ranks_CPPFLAGS = $(opal_test_cppflags)
tests_unit_test_osc_ranks_CFLAGS = $(opal_test_cflags)
tests_unit_test_osc_ranks_LDADD = $(opal_test_ldadd)
tests_unit_test_known_faults_SOURCES = tests/unit/test_known_faults.c devices/btl_ib_known_faults.c
tests_unit_test_known_faults_CPPFLAGS = $(AM_CPPFLAGS) $(component_units)
tests_unit_test_param_values_SOURCES = tests/unit/test_param_values.c mca/btl_ib_old_values.c \
    mca/btl_ib_param_parse.c
tests_unit_test_param_values_CPPFLAGS = $(AM_CPPFLAGS) $(component_units)
tests_unit_test_wanted_buffers_SOURCES = tests/unit/test_wanted_buffers.c
tests_unit_test_wanted_buffers_CPPFLAGS = $(opal_test_cppflags)
tests_unit_test_wanted_buffers_CFLAGS = $(opal_test_cflags)
tests_unit_test_wanted_buffers_LDADD = $(opal_test_ldadd)
tests_unit_test_wire_choice_SOURCES = tests/unit/test_wire_choice.c
tests_unit_test_wire_choice_CPPFLAGS = $(opal_test_cppflags)
tests_unit_test_wire_choice_CFLAGS = $(opal_test_cflags)
tests_unit_test_wire_choice_LDADD = $(opal_test_ldadd)
tests_unit_test_locality_SOURCES = tests/unit/test_locality.c devices/btl_ib_locality.c
tests_unit_test_locality_CPPFLAGS = $(AM_CPPFLAGS) $(component_units)
rc_device_sources = tests/unit/fake_device.c tests/unit/fake_rdma.c tests/unit/fake_rdma_cm.c \
    tests/unit/fake_rdma_ops.c tests/unit/rc_inside.c tests/unit/refusals.c
rc_test_sources = $(rc_device_sources) tests/unit/rc_sides.c tests/unit/said.c
tests_unit_test_pin_probe_SOURCES = tests/unit/test_pin_probe.c mca/btl_ib_param_parse.c \
    $(rc_test_sources)
tests_unit_test_pin_probe_CPPFLAGS = $(AM_CPPFLAGS) $(component_units)
tests_unit_test_rc_connect_SOURCES = tests/unit/test_rc_connect.c $(rc_test_sources)
tests_unit_test_rc_device_SOURCES = tests/unit/test_rc_device.c $(rc_test_sources)
tests_unit_test_rc_device_LDADD = $(LDADD) -libverbs
tests_unit_test_rc_eager_SOURCES = tests/unit/test_rc_eager.c $(rc_test_sources)
tests_unit_test_rc_idle_SOURCES = tests/unit/test_rc_idle.c tests/unit/rdma_sides.c $(rc_test_sources)
tests_unit_test_rc_many_SOURCES = tests/unit/test_rc_many.c tests/unit/allocations.c $(rc_test_sources)
tests_unit_test_rc_many_CPPFLAGS = $(counted_cppflags)
tests_unit_test_rc_many_LDFLAGS = $(counted_ldflags)
tests_unit_test_rc_queues_SOURCES = tests/unit/test_rc_queues.c $(rc_test_sources)
tests_unit_test_rc_refused_SOURCES = tests/unit/test_rc_refused.c $(rc_test_sources)
tests_unit_test_rc_rdma_SOURCES = tests/unit/test_rc_rdma.c tests/unit/rdma_sides.c $(rc_test_sources)
tests_unit_test_rc_rdma_ends_SOURCES = tests/unit/test_rc_rdma_ends.c tests/unit/rdma_sides.c $(rc_test_sources)
tests_unit_test_rc_traffic_SOURCES = tests/unit/test_rc_traffic.c $(rc_test_sources)
tests_unit_test_rc_watch_SOURCES = tests/unit/test_rc_watch.c tests/unit/rdma_sides.c $(rc_test_sources)
# With Open MPI's headers and library.
tests_unit_test_memory_handle_SOURCES = tests/unit/test_memory_handle.c \
    registration/btl_ib_memory_handle.c
tests_unit_test_memory_handle_CPPFLAGS = $(AM_CPPFLAGS) $(component_units) $(BTL_IB_OPAL_CPPFLAGS)
tests_unit_test_memory_handle_CFLAGS = $(AM_CFLAGS) $(BTL_IB_OPAL_CFLAGS)
tests_unit_test_memory_handle_LDADD = $(LDADD) $(BTL_IB_OPAL_LIBS) -lpthread
opal_test_cppflags = $(component_cppflags) $(CMOCKA_CFLAGS) $(BTL_IB_OPAL_CPPFLAGS)
opal_test_cflags = $(component_cflags) $(BTL_IB_OPAL_CFLAGS)
opal_test_ldadd = $(component_libadd) $(CMOCKA_LIBS) $(BTL_IB_OPAL_LIBS) -lpthread
tests_unit_test_component_params_SOURCES = tests/unit/test_component_params.c
tests_unit_test_component_params_CPPFLAGS = $(opal_test_cppflags) -I$(srcdir)/tests/cost
tests_unit_test_component_params_CFLAGS = $(opal_test_cflags)
tests_unit_test_component_params_LDADD = $(CMOCKA_LIBS) $(component_test_ldadd)
tests_unit_test_module_SOURCES = tests/unit/test_module.c
tests_unit_test_module_CPPFLAGS = $(opal_test_cppflags) -I$(srcdir)/tests/cost
tests_unit_test_module_CFLAGS = $(opal_test_cflags)
tests_unit_test_module_LDADD = $(CMOCKA_LIBS) $(component_test_ldadd)
tests_unit_test_ompi_compat_SOURCES = tests/unit/test_ompi_compat.c
tests_unit_test_ompi_compat_CPPFLAGS = $(opal_test_cppflags)
tests_unit_test_ompi_compat_CFLAGS = $(opal_test_cflags)
tests_unit_test_ompi_compat_LDADD = $(CMOCKA_LIBS) $(component_test_ldadd)
tests_unit_test_open_devices_SOURCES = tests/unit/test_open_devices.c
tests_unit_test_open_devices_CPPFLAGS = $(opal_test_cppflags) -I$(srcdir)/tests/cost
tests_unit_test_open_devices_CFLAGS = $(opal_test_cflags)
tests_unit_test_open_devices_LDADD = $(opal_test_ldadd)
tests_unit_test_params_SOURCES = tests/unit/test_params.c
tests_unit_test_params_CPPFLAGS = $(opal_test_cppflags)
tests_unit_test_params_CFLAGS = $(opal_test_cflags)
tests_unit_test_params_LDADD = $(CMOCKA_LIBS) $(component_test_ldadd)
tests_unit_test_leaving_SOURCES = tests/unit/test_leaving.c
tests_unit_test_leaving_CPPFLAGS = $(opal_test_cppflags) -I$(srcdir)/tests/cost
tests_unit_test_leaving_CFLAGS = $(opal_test_cflags)
tests_unit_test_leaving_LDADD = $(CMOCKA_LIBS) $(component_test_ldadd)
tests_unit_test_poll_yield_SOURCES = tests/unit/test_poll_yield.c
tests_unit_test_poll_yield_CPPFLAGS = $(opal_test_cppflags) -I$(srcdir)/tests/cost
tests_unit_test_poll_yield_CFLAGS = $(opal_test_cflags)
tests_unit_test_poll_yield_LDADD = $(CMOCKA_LIBS) $(component_test_ldadd)
tests_unit_test_progress_thread_SOURCES = tests/unit/test_progress_thread.c
tests_unit_test_progress_thread_CPPFLAGS = $(opal_test_cppflags) -I$(srcdir)/tests/cost
tests_unit_test_progress_thread_CFLAGS = $(opal_test_cflags)
tests_unit_test_progress_thread_LDADD = $(CMOCKA_LIBS) $(component_test_ldadd)
tests_unit_test_ended_calls_SOURCES = tests/unit/test_ended_calls.c
tests_unit_test_ended_calls_CPPFLAGS = $(opal_test_cppflags) -I$(srcdir)/tests/cost
tests_unit_test_ended_calls_CFLAGS = $(opal_test_cflags)
tests_unit_test_ended_calls_LDADD = $(CMOCKA_LIBS) $(component_test_ldadd)
tests_unit_test_endpoint_life_SOURCES = tests/unit/test_endpoint_life.c
tests_unit_test_endpoint_life_CPPFLAGS = $(opal_test_cppflags) -I$(srcdir)/tests/cost
tests_unit_test_endpoint_life_CFLAGS = $(opal_test_cflags)
tests_unit_test_endpoint_life_LDADD = $(CMOCKA_LIBS) $(component_test_ldadd)
tests_unit_test_endpoint_rails_SOURCES = tests/unit/test_endpoint_rails.c
tests_unit_test_endpoint_rails_CPPFLAGS = $(opal_test_cppflags) -I$(srcdir)/tests/cost
tests_unit_test_endpoint_rails_CFLAGS = $(opal_test_cflags)
tests_unit_test_endpoint_rails_LDADD = $(CMOCKA_LIBS) $(component_test_ldadd)
tests_unit_test_two_receivers_SOURCES = tests/unit/test_two_receivers.c
tests_unit_test_two_receivers_CPPFLAGS = $(opal_test_cppflags) -I$(srcdir)/tests/cost
tests_unit_test_two_receivers_CFLAGS = $(opal_test_cflags)
tests_unit_test_two_receivers_LDADD = $(CMOCKA_LIBS) $(component_test_ldadd)
tests_unit_test_peer_report_SOURCES = tests/unit/test_peer_report.c
tests_unit_test_peer_report_CPPFLAGS = $(opal_test_cppflags)
tests_unit_test_peer_report_CFLAGS = $(opal_test_cflags)
tests_unit_test_peer_report_LDADD = $(CMOCKA_LIBS) $(component_test_ldadd)
tests_unit_test_memory_max_SOURCES = tests/unit/test_memory_max.c
tests_unit_test_memory_max_CPPFLAGS = $(opal_test_cppflags)
tests_unit_test_memory_max_CFLAGS = $(opal_test_cflags)
tests_unit_test_memory_max_LDADD = $(opal_test_ldadd)
# Over Open MPI's own cache, and so with its headers and library.
tests_unit_test_registration_cache_SOURCES = tests/unit/test_registration_cache.c \
    mca/btl_ib_param_parse.c progress/btl_ib_biased_lock.c \
    registration/btl_ib_registration_limit.c $(rc_test_sources)
tests_unit_test_registration_cache_CPPFLAGS = $(AM_CPPFLAGS) $(component_units) $(BTL_IB_OPAL_CPPFLAGS)
tests_unit_test_registration_cache_CFLAGS = $(AM_CFLAGS) $(BTL_IB_OPAL_CFLAGS)
tests_unit_test_registration_cache_LDADD = $(LDADD) $(BTL_IB_OPAL_LIBS) -lpthread
# Allocations of what is tested are counted, those of the tests' own sources are not.
counted_cppflags = $(AM_CPPFLAGS) -Dmalloc=__real_malloc -Dcalloc=__real_calloc -Drealloc=__real_realloc \
    -Daligned_alloc=__real_aligned_alloc -Dfree=__real_free -Dmmap=__real_mmap -Dmunmap=__real_munmap
counted_ldflags = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc \
    -Wl,--wrap=free,--wrap=mmap,--wrap=munmap
tests_unit_test_memory_estimate_SOURCES = tests/unit/test_memory_estimate.c tests/unit/allocations.c tests/unit/transports.c
tests_unit_test_memory_estimate_CPPFLAGS = $(counted_cppflags)
tests_unit_test_memory_estimate_LDFLAGS = $(counted_ldflags)
tests_unit_test_memory_estimate_rc_SOURCES = tests/unit/test_memory_estimate_rc.c tests/unit/allocations.c \
    $(rc_test_sources)
tests_unit_test_memory_estimate_rc_CPPFLAGS = $(counted_cppflags)
tests_unit_test_memory_estimate_rc_LDFLAGS = $(counted_ldflags)
tests_unit_test_memory_estimate_ud_SOURCES = tests/unit/test_memory_estimate_ud.c tests/unit/allocations.c \
    $(ud_test_sources)
tests_unit_test_memory_estimate_ud_CPPFLAGS = $(counted_cppflags)
tests_unit_test_memory_estimate_ud_LDFLAGS = $(counted_ldflags)
tests_unit_test_ofi_SOURCES = tests/unit/test_ofi.c tests/unit/transports.c
ofi_test_sources = tests/unit/fake_provider.c tests/unit/fake_provider.h tests/unit/refusals.c
tests_unit_test_ofi_channels_SOURCES = tests/unit/test_ofi_channels.c $(ofi_test_sources)
tests_unit_test_ofi_channels_LDADD = $(LDADD) $(BTL_IB_OFI_LIBS)
tests_unit_test_ofi_modes_SOURCES = tests/unit/test_ofi_modes.c $(ofi_test_sources)
tests_unit_test_ofi_modes_LDADD = $(LDADD) $(BTL_IB_OFI_LIBS)
tests_unit_test_ofi_refused_SOURCES = tests/unit/test_ofi_refused.c $(ofi_test_sources)
tests_unit_test_ofi_refused_LDADD = $(LDADD) $(BTL_IB_OFI_LIBS)
ud_test_sources = tests/unit/fake_device.c tests/unit/fake_verbs.c tests/unit/refusals.c tests/unit/said.c \
    tests/unit/ud_inside.c tests/unit/ud_pair.c
tests_unit_test_ud_channels_SOURCES = tests/unit/test_ud_channels.c $(ud_test_sources)
tests_unit_test_ud_channels_LDADD = $(LDADD) -libverbs
tests_unit_test_ud_devices_SOURCES = tests/unit/test_ud_devices.c $(ud_test_sources)
tests_unit_test_ud_devices_LDADD = $(LDADD) -libverbs
tests_unit_test_ud_peers_SOURCES = tests/unit/test_ud_peers.c $(ud_test_sources)
tests_unit_test_ud_refused_SOURCES = tests/unit/test_ud_refused.c $(ud_test_sources)
tests_unit_test_ud_traffic_SOURCES = tests/unit/test_ud_traffic.c $(ud_test_sources)
tests_unit_test_verbs_gid_SOURCES = tests/unit/test_verbs_gid.c tests/unit/fake_device.c \
    tests/unit/fake_verbs.c tests/unit/refusals.c
udp_test_sources = tests/unit/own_network.c tests/unit/transports.c tests/unit/udp_calls.c \
    tests/unit/udp_inside.c
tests_unit_test_udp_SOURCES = tests/unit/test_udp.c $(udp_test_sources)
tests_unit_test_udp_devices_SOURCES = tests/unit/test_udp_devices.c $(udp_test_sources)
tests_unit_test_udp_errors_SOURCES = tests/unit/test_udp_errors.c $(udp_test_sources)
tests_unit_test_udp_connected_SOURCES = tests/unit/test_udp_connected.c $(udp_test_sources)
tests_unit_test_udp_bulk_lane_SOURCES = tests/unit/test_udp_bulk_lane.c $(udp_test_sources)
tests_unit_test_udp_spare_SOURCES = tests/unit/test_udp_spare.c $(udp_test_sources)
tests_unit_test_udp_many_rails_SOURCES = tests/unit/test_udp_many_rails.c $(udp_test_sources)
tests_unit_test_udp_path_mtu_SOURCES = tests/unit/test_udp_path_mtu.c $(udp_test_sources)
tests_unit_test_udp_peers_SOURCES = tests/unit/test_udp_peers.c $(udp_test_sources)
tests_unit_test_udp_restarted_SOURCES = tests/unit/test_udp_restarted.c $(udp_test_sources)
tests_unit_test_udp_restarted_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests/cost
tests_unit_test_udp_socket_SOURCES = tests/unit/test_udp_socket.c $(udp_test_sources)

#
# The simulator
#
simulator = tests/sim/btl_ib_sim
check_PROGRAMS += $(simulator)
tests_sim_btl_ib_sim_SOURCES = \
    tests/sim/app.c \
    tests/sim/arena.c \
    tests/sim/arena.h \
    tests/sim/check.c \
    tests/sim/core.c \
    tests/sim/device.c \
    tests/sim/protection.c \
    tests/sim/grid.c \
    tests/sim/inside.c \
    tests/sim/links.c \
    tests/sim/main.c \
    tests/sim/named.c \
    tests/sim/named.h \
    tests/sim/named_list.h \
    tests/sim/named_command.c \
    tests/sim/named_contact.c \
    tests/sim/named_oversubscribed.c \
    tests/sim/named_direct.c \
    tests/sim/named_protection.c \
    tests/sim/named_failover.c \
    tests/sim/named_address.c \
    tests/sim/named_validation.c \
    tests/sim/named_zcopy.c \
    tests/sim/named_async.c \
    tests/sim/named_slow.c \
    tests/sim/named_ecn.c \
    tests/sim/named_flow.c \
    tests/sim/named_incast.c \
    tests/sim/named_loss.c \
    tests/sim/named_limits.c \
    tests/sim/named_onesided.c \
    tests/sim/named_refused.c \
    tests/sim/named_path.c \
    tests/sim/named_paths.c \
    tests/sim/named_silence.c \
    tests/sim/named_traffic.c \
    tests/sim/net.c \
    tests/sim/onesided.c \
    tests/sim/proc.c \
    tests/sim/rail.c \
    tests/sim/rare.c \
    tests/sim/random.c \
    tests/sim/run.c \
    tests/sim/self_test.c \
    tests/sim/small.c \
    tests/sim/sim.h \
    tests/sim/trace_files.c \
    tests/sim/wiretap.c \
    stats/btl_ib_trace_file.c \
    mca/btl_ib_file_name.c
tests_sim_btl_ib_sim_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/stats -I$(srcdir)/mca
tests_sim_btl_ib_sim_LDADD = $(lower_layers)

dist_check_SCRIPTS = \
    tests/sim/traces \
    tests/fuzz/replay.sh
TESTS += $(dist_check_SCRIPTS)
EXTRA_DIST += tests/sim/traces.txt tests/sim/plot_grid

#
# Fuzz targets: run by libFuzzer (--enable-fuzzers), else they only replay their corpus
#
fuzz_targets = \
    tests/fuzz/fuzz_address \
    tests/fuzz/fuzz_engine \
    tests/fuzz/fuzz_modex \
    tests/fuzz/fuzz_pair \
    tests/fuzz/fuzz_queues \
    tests/fuzz/fuzz_values \
    tests/fuzz/fuzz_wire
check_PROGRAMS += $(fuzz_targets)
if BTL_IB_FUZZERS
fuzz_main =
fuzz_ldflags = $(AM_LDFLAGS) -fsanitize=fuzzer
else
fuzz_main = tests/fuzz/replay.c
fuzz_ldflags = $(AM_LDFLAGS)
endif
fuzz_script = tests/fuzz/script.c tests/fuzz/script.h
tests_fuzz_fuzz_address_SOURCES = tests/fuzz/fuzz_address.c tests/fuzz/require.h $(fuzz_main)
tests_fuzz_fuzz_address_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_address_LDADD = $(lower_layers)
tests_fuzz_fuzz_engine_SOURCES = tests/fuzz/fuzz_engine.c $(fuzz_script) $(fuzz_main)
tests_fuzz_fuzz_engine_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_engine_LDADD = $(bench_libs)
tests_fuzz_fuzz_pair_SOURCES = tests/fuzz/fuzz_pair.c $(fuzz_script) $(fuzz_main)
tests_fuzz_fuzz_pair_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_pair_LDADD = $(bench_libs)
tests_fuzz_fuzz_modex_SOURCES = tests/fuzz/fuzz_modex.c devices/btl_ib_rail_match.c \
    mca/btl_ib_modex_codec.c $(fuzz_main)
tests_fuzz_fuzz_modex_CPPFLAGS = $(lower_cppflags) $(component_units)
tests_fuzz_fuzz_modex_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_modex_LDADD = $(lower_layers)
tests_fuzz_fuzz_queues_SOURCES = tests/fuzz/fuzz_queues.c tests/fuzz/require.h $(fuzz_main)
tests_fuzz_fuzz_queues_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_queues_LDADD = $(lower_layers)
tests_fuzz_fuzz_values_SOURCES = tests/fuzz/fuzz_values.c tests/fuzz/require.h mca/btl_ib_param_parse.c $(fuzz_main)
tests_fuzz_fuzz_values_CPPFLAGS = $(lower_cppflags) $(component_units)
tests_fuzz_fuzz_values_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_values_LDADD = $(lower_layers)
tests_fuzz_fuzz_wire_SOURCES = tests/fuzz/fuzz_wire.c tests/fuzz/require.h $(fuzz_main)
tests_fuzz_fuzz_wire_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_wire_LDADD = $(lower_layers)

#
# MPI programs: only built here; they run under mpirun by tests/mpi/run. In an Open MPI source tree there is no mpicc yet.
#
mpi_programs = \
    tests/mpi/alltoall \
    tests/mpi/anysource \
    tests/mpi/atomics \
    tests/mpi/beside \
    tests/mpi/churn \
    tests/mpi/collectives \
    tests/mpi/compute \
    tests/mpi/cvars \
    tests/mpi/datatypes \
    tests/mpi/direct \
    tests/mpi/divided \
    tests/mpi/dynamic \
    tests/mpi/early_finalize \
    tests/mpi/exits \
    tests/mpi/first_long \
    tests/mpi/floor \
    tests/mpi/handles \
    tests/mpi/handover \
    tests/mpi/idle \
    tests/mpi/incast \
    tests/mpi/killed \
    tests/mpi/lists \
    tests/mpi/lockstep \
    tests/mpi/lost_device \
    tests/mpi/mixed \
    tests/mpi/no_netlink \
    tests/mpi/onesided \
    tests/mpi/pages \
    tests/mpi/overlap \
    tests/mpi/parting \
    tests/mpi/passive \
    tests/mpi/pauses \
    tests/mpi/peers \
    tests/mpi/pingpong \
    tests/mpi/port_back \
    tests/mpi/pvars \
    tests/mpi/randsize \
    tests/mpi/recovers \
    tests/mpi/ring \
    tests/mpi/sends \
    tests/mpi/sink \
    tests/mpi/sleeper \
    tests/mpi/soak \
    tests/mpi/spawn \
    tests/mpi/seldom \
    tests/mpi/squeezed \
    tests/mpi/stack \
    tests/mpi/unknown_peers \
    tests/mpi/stream \
    tests/mpi/survive \
    tests/mpi/threads \
    tests/mpi/twosends \
    tests/mpi/windows
mpi_headers = tests/mpi/common.h tests/mpi/component.h tests/mpi/figures.h tests/mpi/floor.h \
    tests/mpi/floor_port.h tests/mpi/module.h tests/mpi/processes.h tests/mpi/slots.h
EXTRA_DIST += $(mpi_programs:=.c) tests/mpi/floor_verbs.c $(mpi_headers)
mpi_verbs_programs =
if BTL_IB_HAVE_VERBS
mpi_verbs_programs += tests/mpi/floor_verbs
endif

if BTL_IB_OUT_OF_TREE
# They are plain MPI programs, so that they can be compared over any BTL: none of our flags. Those that call
# the BTL themselves get more.
mpi_module_programs = tests/mpi/direct tests/mpi/dynamic tests/mpi/handles tests/mpi/lost_device tests/mpi/parting \
    tests/mpi/port_back tests/mpi/sends tests/mpi/squeezed
mpi_opal =
mpi_opal_libs =
mpi_verbs_libs =
$(mpi_programs) $(mpi_verbs_programs): %: %.c $(mpi_headers)
	@$(MKDIR_P) tests/mpi
	$(AM_V_CCLD)$(CC) $(MPI_CPPFLAGS) $(mpi_opal) $(CPPFLAGS) $(BTL_IB_WARN_CFLAGS) $(CFLAGS) $(LDFLAGS) \
	    -o $@ $< $(MPI_LIBS) $(mpi_opal_libs) $(mpi_verbs_libs) -lpthread -lm $(LIBS)
$(mpi_module_programs): mpi_opal = $(BTL_IB_OPAL_CPPFLAGS) $(BTL_IB_OPAL_CFLAGS) -D_GNU_SOURCE
$(mpi_module_programs): mpi_opal_libs = $(BTL_IB_OPAL_LIBS)
tests/mpi/dynamic tests/mpi/lost_device tests/mpi/port_back tests/mpi/squeezed: mpi_opal += $(component_cppflags) -std=gnu11
$(mpi_verbs_programs): mpi_verbs_libs = -libverbs

mpi-programs: $(mpi_programs) $(mpi_verbs_programs)
if BTL_IB_HAVE_OPENMPI
check-local: mpi-programs
endif

endif
