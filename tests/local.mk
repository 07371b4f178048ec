# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Part of ../Makefile.am: what `make check` builds and runs. tools/check runs the rest.

if BTL_IB_OUT_OF_TREE

TESTS =
check_PROGRAMS =
lower_layers = libbtl_ib_engine.la libbtl_ib_transport.la libbtl_ib_crypto.la
lower_cppflags = -I$(srcdir)/engine -I$(srcdir)/transport -I$(srcdir)/crypto \
    -I$(srcdir)/tests/sim -I$(srcdir)/tests/bench -D_GNU_SOURCE
if BTL_IB_HAVE_OFI
lower_cppflags += -DBTL_IB_HAVE_OFI=1 $(BTL_IB_OFI_CPPFLAGS)
endif

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
libbtl_ib_bench_la_CPPFLAGS = $(lower_cppflags)
bench_libs = libbtl_ib_bench.la $(lower_layers)

# What protecting a datagram costs: docs/measurements.md
check_PROGRAMS += tests/cost/guard_cost
tests_cost_guard_cost_CPPFLAGS = $(lower_cppflags)
tests_cost_guard_cost_LDADD = $(lower_layers)

# What the engine costs: tests/cost/budget counts its instructions
check_PROGRAMS += tests/cost/engine_cost
tests_cost_engine_cost_CPPFLAGS = $(lower_cppflags)
tests_cost_engine_cost_LDADD = $(lower_layers)

#
# Unit tests: tests/unit/test_NAME.c, one program each
#
unit_tests = \
    tests/unit/test_crc32c \
    tests/unit/test_aead \
    tests/unit/test_atomic \
    tests/unit/test_bundle \
    tests/unit/test_cc \
    tests/unit/test_cc_cubic \
    tests/unit/test_cc_swift \
    tests/unit/test_credit \
    tests/unit/test_devices \
    tests/unit/test_engine \
    tests/unit/test_graves \
    tests/unit/test_guard \
    tests/unit/test_hostile \
    tests/unit/test_hotel \
    tests/unit/test_insider \
    tests/unit/test_insider_claims \
    tests/unit/test_insider_onesided \
    tests/unit/test_list \
    tests/unit/test_modex \
    tests/unit/test_onesided \
    tests/unit/test_pace \
    tests/unit/test_pool \
    tests/unit/test_protocol \
    tests/unit/test_queues \
    tests/unit/test_reasm \
    tests/unit/test_reentry \
    tests/unit/test_refusal \
    tests/unit/test_region \
    tests/unit/test_replay \
    tests/unit/test_rtt \
    tests/unit/test_store \
    tests/unit/test_table \
    tests/unit/test_token \
    tests/unit/test_udp \
    tests/unit/test_udp_devices \
    tests/unit/test_udp_errors \
    tests/unit/test_udp_peers \
    tests/unit/test_udp_socket \
    tests/unit/test_window \
    tests/unit/test_wire \
    tests/unit/test_wire_bundle \
    tests/unit/test_wire_ops
if BTL_IB_HAVE_OFI
unit_tests += \
    tests/unit/test_ofi \
    tests/unit/test_ofi_modes
endif

EXTRA_DIST += tests/unit/hostile.h tests/unit/insider.h tests/unit/support.h tests/unit/transports.h \
    tests/unit/udp_calls.h tests/unit/wire_bytes.h

if BTL_IB_HAVE_CMOCKA
check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)
endif

unit_cppflags = $(lower_cppflags) $(CMOCKA_CFLAGS)
unit_ldadd = $(lower_layers) $(CMOCKA_LIBS) -lm

tests_unit_test_crc32c_CPPFLAGS = $(unit_cppflags)
tests_unit_test_crc32c_LDADD = $(unit_ldadd)
tests_unit_test_aead_CPPFLAGS = $(unit_cppflags)
tests_unit_test_aead_LDADD = $(unit_ldadd)
tests_unit_test_atomic_CPPFLAGS = $(unit_cppflags)
tests_unit_test_atomic_LDADD = $(unit_ldadd) -lpthread
tests_unit_test_bundle_CPPFLAGS = $(unit_cppflags)
tests_unit_test_bundle_LDADD = $(bench_libs) $(CMOCKA_LIBS)
tests_unit_test_cc_CPPFLAGS = $(unit_cppflags)
tests_unit_test_cc_LDADD = $(unit_ldadd)
tests_unit_test_cc_cubic_CPPFLAGS = $(unit_cppflags)
tests_unit_test_cc_cubic_LDADD = $(unit_ldadd)
tests_unit_test_cc_swift_CPPFLAGS = $(unit_cppflags)
tests_unit_test_cc_swift_LDADD = $(unit_ldadd)
tests_unit_test_credit_CPPFLAGS = $(unit_cppflags)
tests_unit_test_credit_LDADD = $(unit_ldadd)
tests_unit_test_devices_CPPFLAGS = $(unit_cppflags)
tests_unit_test_devices_LDADD = $(unit_ldadd)
tests_unit_test_engine_CPPFLAGS = $(unit_cppflags)
tests_unit_test_engine_LDADD = $(bench_libs) $(CMOCKA_LIBS)
tests_unit_test_graves_CPPFLAGS = $(unit_cppflags)
tests_unit_test_graves_LDADD = $(unit_ldadd)
tests_unit_test_guard_CPPFLAGS = $(unit_cppflags)
tests_unit_test_guard_LDADD = $(unit_ldadd)
tests_unit_test_hostile_CPPFLAGS = $(unit_cppflags)
tests_unit_test_hostile_LDADD = $(bench_libs) $(CMOCKA_LIBS)
tests_unit_test_hotel_CPPFLAGS = $(unit_cppflags)
tests_unit_test_hotel_LDADD = $(unit_ldadd)
tests_unit_test_insider_CPPFLAGS = $(unit_cppflags)
tests_unit_test_insider_LDADD = $(bench_libs) $(CMOCKA_LIBS)
tests_unit_test_insider_claims_CPPFLAGS = $(unit_cppflags)
tests_unit_test_insider_claims_LDADD = $(bench_libs) $(CMOCKA_LIBS)
tests_unit_test_insider_onesided_CPPFLAGS = $(unit_cppflags)
tests_unit_test_insider_onesided_LDADD = $(bench_libs) $(CMOCKA_LIBS)
tests_unit_test_list_CPPFLAGS = $(unit_cppflags)
tests_unit_test_list_LDADD = $(unit_ldadd)
tests_unit_test_modex_SOURCES = tests/unit/test_modex.c btl_ib_modex_wire.c
tests_unit_test_modex_CPPFLAGS = $(unit_cppflags) -I$(srcdir)
tests_unit_test_modex_LDADD = $(unit_ldadd)
tests_unit_test_pace_SOURCES = tests/unit/test_pace.c btl_ib_pace.c
tests_unit_test_pace_CPPFLAGS = $(unit_cppflags) -I$(srcdir)
tests_unit_test_pace_LDADD = $(unit_ldadd)
tests_unit_test_ofi_SOURCES = tests/unit/test_ofi.c tests/unit/transports.c
tests_unit_test_ofi_CPPFLAGS = $(unit_cppflags)
tests_unit_test_ofi_LDADD = $(unit_ldadd)
tests_unit_test_ofi_modes_SOURCES = tests/unit/test_ofi_modes.c tests/unit/fake_provider.c \
    tests/unit/fake_provider.h
tests_unit_test_ofi_modes_CPPFLAGS = $(unit_cppflags)
tests_unit_test_ofi_modes_LDADD = $(unit_ldadd)
tests_unit_test_onesided_CPPFLAGS = $(unit_cppflags)
tests_unit_test_onesided_LDADD = $(bench_libs) $(CMOCKA_LIBS)
tests_unit_test_pool_CPPFLAGS = $(unit_cppflags)
tests_unit_test_pool_LDADD = $(unit_ldadd)
tests_unit_test_protocol_CPPFLAGS = $(unit_cppflags)
tests_unit_test_protocol_LDADD = $(bench_libs) $(CMOCKA_LIBS)
tests_unit_test_queues_CPPFLAGS = $(unit_cppflags)
tests_unit_test_queues_LDADD = $(unit_ldadd)
tests_unit_test_reasm_CPPFLAGS = $(unit_cppflags)
tests_unit_test_reasm_LDADD = $(unit_ldadd)
tests_unit_test_reentry_CPPFLAGS = $(unit_cppflags)
tests_unit_test_reentry_LDADD = $(bench_libs) $(CMOCKA_LIBS)
tests_unit_test_refusal_CPPFLAGS = $(unit_cppflags)
tests_unit_test_refusal_LDADD = $(bench_libs) $(CMOCKA_LIBS)
tests_unit_test_region_CPPFLAGS = $(unit_cppflags)
tests_unit_test_region_LDADD = $(unit_ldadd)
tests_unit_test_replay_CPPFLAGS = $(unit_cppflags)
tests_unit_test_replay_LDADD = $(unit_ldadd)
tests_unit_test_rtt_CPPFLAGS = $(unit_cppflags)
tests_unit_test_rtt_LDADD = $(unit_ldadd)
tests_unit_test_store_CPPFLAGS = $(unit_cppflags)
tests_unit_test_store_LDADD = $(unit_ldadd)
tests_unit_test_table_CPPFLAGS = $(unit_cppflags)
tests_unit_test_table_LDADD = $(unit_ldadd)
tests_unit_test_token_CPPFLAGS = $(unit_cppflags)
tests_unit_test_token_LDADD = $(unit_ldadd)
udp_test_sources = tests/unit/transports.c tests/unit/udp_calls.c
tests_unit_test_udp_SOURCES = tests/unit/test_udp.c $(udp_test_sources)
tests_unit_test_udp_CPPFLAGS = $(unit_cppflags)
tests_unit_test_udp_LDADD = $(unit_ldadd)
tests_unit_test_udp_devices_SOURCES = tests/unit/test_udp_devices.c $(udp_test_sources)
tests_unit_test_udp_devices_CPPFLAGS = $(unit_cppflags)
tests_unit_test_udp_devices_LDADD = $(unit_ldadd)
tests_unit_test_udp_errors_SOURCES = tests/unit/test_udp_errors.c $(udp_test_sources)
tests_unit_test_udp_errors_CPPFLAGS = $(unit_cppflags)
tests_unit_test_udp_errors_LDADD = $(unit_ldadd)
tests_unit_test_udp_peers_SOURCES = tests/unit/test_udp_peers.c $(udp_test_sources)
tests_unit_test_udp_peers_CPPFLAGS = $(unit_cppflags)
tests_unit_test_udp_peers_LDADD = $(unit_ldadd)
tests_unit_test_udp_socket_SOURCES = tests/unit/test_udp_socket.c $(udp_test_sources)
tests_unit_test_udp_socket_CPPFLAGS = $(unit_cppflags)
tests_unit_test_udp_socket_LDADD = $(unit_ldadd)
tests_unit_test_window_CPPFLAGS = $(unit_cppflags)
tests_unit_test_window_LDADD = $(unit_ldadd)
tests_unit_test_wire_CPPFLAGS = $(unit_cppflags)
tests_unit_test_wire_LDADD = $(unit_ldadd)
tests_unit_test_wire_bundle_CPPFLAGS = $(unit_cppflags)
tests_unit_test_wire_bundle_LDADD = $(unit_ldadd)
tests_unit_test_wire_ops_CPPFLAGS = $(unit_cppflags)
tests_unit_test_wire_ops_LDADD = $(unit_ldadd)

#
# The simulator
#
check_PROGRAMS += tests/sim/btl_ib_sim
tests_sim_btl_ib_sim_SOURCES = \
    tests/sim/app.c \
    tests/sim/check.c \
    tests/sim/core.c \
    tests/sim/guard.c \
    tests/sim/grid.c \
    tests/sim/links.c \
    tests/sim/main.c \
    tests/sim/named.c \
    tests/sim/named.h \
    tests/sim/named_contact.c \
    tests/sim/named_guard.c \
    tests/sim/named_kick.c \
    tests/sim/named_loss.c \
    tests/sim/named_limits.c \
    tests/sim/named_onesided.c \
    tests/sim/named_refused.c \
    tests/sim/named_silence.c \
    tests/sim/named_traffic.c \
    tests/sim/net.c \
    tests/sim/onesided.c \
    tests/sim/proc.c \
    tests/sim/rail.c \
    tests/sim/random.c \
    tests/sim/run.c \
    tests/sim/sim.h \
    tests/sim/wiretap.c
tests_sim_btl_ib_sim_CPPFLAGS = $(lower_cppflags)
tests_sim_btl_ib_sim_LDADD = $(lower_layers)

dist_check_SCRIPTS = \
    tests/sim/short.sh \
    tests/fuzz/replay.sh
TESTS += $(dist_check_SCRIPTS)

#
# Fuzz targets: run by libFuzzer (--enable-fuzzers), else they only replay their corpus
#
fuzz_targets = \
    tests/fuzz/fuzz_engine \
    tests/fuzz/fuzz_modex \
    tests/fuzz/fuzz_pair \
    tests/fuzz/fuzz_queues \
    tests/fuzz/fuzz_wire
check_PROGRAMS += $(fuzz_targets)
if BTL_IB_FUZZERS
fuzz_main =
fuzz_ldflags = -fsanitize=fuzzer
else
fuzz_main = tests/fuzz/replay.c
fuzz_ldflags =
endif
fuzz_script = tests/fuzz/script.c tests/fuzz/script.h
tests_fuzz_fuzz_engine_SOURCES = tests/fuzz/fuzz_engine.c $(fuzz_script) $(fuzz_main)
tests_fuzz_fuzz_engine_CPPFLAGS = $(lower_cppflags)
tests_fuzz_fuzz_engine_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_engine_LDADD = $(bench_libs)
tests_fuzz_fuzz_pair_SOURCES = tests/fuzz/fuzz_pair.c $(fuzz_script) $(fuzz_main)
tests_fuzz_fuzz_pair_CPPFLAGS = $(lower_cppflags)
tests_fuzz_fuzz_pair_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_pair_LDADD = $(bench_libs)
tests_fuzz_fuzz_modex_SOURCES = tests/fuzz/fuzz_modex.c btl_ib_modex_wire.c $(fuzz_main)
tests_fuzz_fuzz_modex_CPPFLAGS = $(lower_cppflags) -I$(srcdir)
tests_fuzz_fuzz_modex_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_modex_LDADD = $(lower_layers)
tests_fuzz_fuzz_queues_SOURCES = tests/fuzz/fuzz_queues.c $(fuzz_main)
tests_fuzz_fuzz_queues_CPPFLAGS = $(lower_cppflags)
tests_fuzz_fuzz_queues_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_queues_LDADD = $(lower_layers)
tests_fuzz_fuzz_wire_SOURCES = tests/fuzz/fuzz_wire.c $(fuzz_main)
tests_fuzz_fuzz_wire_CPPFLAGS = $(lower_cppflags)
tests_fuzz_fuzz_wire_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_wire_LDADD = $(lower_layers)

#
# MPI programs: only built here; they run under mpirun by tests/mpi/run
#
mpi_programs = \
    tests/mpi/alltoall \
    tests/mpi/anysource \
    tests/mpi/atomics \
    tests/mpi/beside \
    tests/mpi/churn \
    tests/mpi/collectives \
    tests/mpi/compute \
    tests/mpi/datatypes \
    tests/mpi/direct \
    tests/mpi/early_finalize \
    tests/mpi/floor \
    tests/mpi/incast \
    tests/mpi/killed \
    tests/mpi/lockstep \
    tests/mpi/mixed \
    tests/mpi/onesided \
    tests/mpi/passive \
    tests/mpi/pingpong \
    tests/mpi/randsize \
    tests/mpi/ring \
    tests/mpi/sends \
    tests/mpi/sink \
    tests/mpi/sleeper \
    tests/mpi/spawn \
    tests/mpi/stream \
    tests/mpi/survive \
    tests/mpi/threads \
    tests/mpi/twosends
EXTRA_PROGRAMS = $(mpi_programs)

# They are plain MPI programs, so that they can be compared over any BTL: none of our flags.
mpi_cppflags = $(MPI_CPPFLAGS)
mpi_cflags = $(BTL_IB_WARN_CFLAGS)

mpi-programs: $(mpi_programs)
check-local: mpi-programs
.PHONY: mpi-programs
tests_mpi_alltoall_SOURCES = tests/mpi/alltoall.c tests/mpi/common.h
tests_mpi_alltoall_CPPFLAGS = $(mpi_cppflags)
tests_mpi_alltoall_CFLAGS = $(mpi_cflags)
tests_mpi_alltoall_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_anysource_SOURCES = tests/mpi/anysource.c tests/mpi/common.h
tests_mpi_anysource_CPPFLAGS = $(mpi_cppflags)
tests_mpi_anysource_CFLAGS = $(mpi_cflags)
tests_mpi_anysource_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_atomics_SOURCES = tests/mpi/atomics.c tests/mpi/common.h
tests_mpi_atomics_CPPFLAGS = $(mpi_cppflags)
tests_mpi_atomics_CFLAGS = $(mpi_cflags)
tests_mpi_atomics_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_beside_SOURCES = tests/mpi/beside.c tests/mpi/common.h tests/mpi/figures.h
tests_mpi_beside_CPPFLAGS = $(mpi_cppflags)
tests_mpi_beside_CFLAGS = $(mpi_cflags)
tests_mpi_beside_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_churn_SOURCES = tests/mpi/churn.c tests/mpi/common.h
tests_mpi_churn_CPPFLAGS = $(mpi_cppflags)
tests_mpi_churn_CFLAGS = $(mpi_cflags)
tests_mpi_churn_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_collectives_SOURCES = tests/mpi/collectives.c tests/mpi/common.h tests/mpi/figures.h
tests_mpi_collectives_CPPFLAGS = $(mpi_cppflags)
tests_mpi_collectives_CFLAGS = $(mpi_cflags)
tests_mpi_collectives_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_compute_SOURCES = tests/mpi/compute.c tests/mpi/common.h
tests_mpi_compute_CPPFLAGS = $(mpi_cppflags)
tests_mpi_compute_CFLAGS = $(mpi_cflags)
tests_mpi_compute_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_datatypes_SOURCES = tests/mpi/datatypes.c tests/mpi/common.h
tests_mpi_datatypes_CPPFLAGS = $(mpi_cppflags)
tests_mpi_datatypes_CFLAGS = $(mpi_cflags)
tests_mpi_datatypes_LDADD = $(MPI_LIBS) -lpthread
# This one calls the BTL itself.
tests_mpi_direct_SOURCES = tests/mpi/direct.c tests/mpi/module.h tests/mpi/common.h
tests_mpi_direct_CPPFLAGS = $(mpi_cppflags) $(BTL_IB_OPAL_CPPFLAGS) -D_GNU_SOURCE
tests_mpi_direct_CFLAGS = $(mpi_cflags) $(BTL_IB_OPAL_CFLAGS)
tests_mpi_direct_LDADD = $(MPI_LIBS) $(BTL_IB_OPAL_LIBS) -lpthread
tests_mpi_early_finalize_SOURCES = tests/mpi/early_finalize.c tests/mpi/common.h
tests_mpi_early_finalize_CPPFLAGS = $(mpi_cppflags)
tests_mpi_early_finalize_CFLAGS = $(mpi_cflags)
tests_mpi_early_finalize_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_floor_SOURCES = tests/mpi/floor.c tests/mpi/common.h tests/mpi/figures.h
tests_mpi_floor_CPPFLAGS = $(mpi_cppflags)
tests_mpi_floor_CFLAGS = $(mpi_cflags)
tests_mpi_floor_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_incast_SOURCES = tests/mpi/incast.c tests/mpi/common.h
tests_mpi_incast_CPPFLAGS = $(mpi_cppflags)
tests_mpi_incast_CFLAGS = $(mpi_cflags)
tests_mpi_incast_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_killed_SOURCES = tests/mpi/killed.c tests/mpi/common.h
tests_mpi_killed_CPPFLAGS = $(mpi_cppflags)
tests_mpi_killed_CFLAGS = $(mpi_cflags)
tests_mpi_killed_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_lockstep_SOURCES = tests/mpi/lockstep.c tests/mpi/common.h
tests_mpi_lockstep_CPPFLAGS = $(mpi_cppflags)
tests_mpi_lockstep_CFLAGS = $(mpi_cflags)
tests_mpi_lockstep_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_mixed_SOURCES = tests/mpi/mixed.c tests/mpi/common.h tests/mpi/figures.h
tests_mpi_mixed_CPPFLAGS = $(mpi_cppflags)
tests_mpi_mixed_CFLAGS = $(mpi_cflags)
tests_mpi_mixed_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_onesided_SOURCES = tests/mpi/onesided.c tests/mpi/common.h
tests_mpi_onesided_CPPFLAGS = $(mpi_cppflags)
tests_mpi_onesided_CFLAGS = $(mpi_cflags)
tests_mpi_onesided_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_passive_SOURCES = tests/mpi/passive.c tests/mpi/common.h
tests_mpi_passive_CPPFLAGS = $(mpi_cppflags)
tests_mpi_passive_CFLAGS = $(mpi_cflags)
tests_mpi_passive_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_pingpong_SOURCES = tests/mpi/pingpong.c tests/mpi/common.h tests/mpi/figures.h
tests_mpi_pingpong_CPPFLAGS = $(mpi_cppflags)
tests_mpi_pingpong_CFLAGS = $(mpi_cflags)
tests_mpi_pingpong_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_randsize_SOURCES = tests/mpi/randsize.c tests/mpi/common.h
tests_mpi_randsize_CPPFLAGS = $(mpi_cppflags)
tests_mpi_randsize_CFLAGS = $(mpi_cflags)
tests_mpi_randsize_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_ring_SOURCES = tests/mpi/ring.c tests/mpi/common.h
tests_mpi_ring_CPPFLAGS = $(mpi_cppflags)
tests_mpi_ring_CFLAGS = $(mpi_cflags)
tests_mpi_ring_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_sends_SOURCES = tests/mpi/sends.c tests/mpi/module.h tests/mpi/common.h
tests_mpi_sends_CPPFLAGS = $(mpi_cppflags) $(BTL_IB_OPAL_CPPFLAGS) -D_GNU_SOURCE
tests_mpi_sends_CFLAGS = $(mpi_cflags) $(BTL_IB_OPAL_CFLAGS)
tests_mpi_sends_LDADD = $(MPI_LIBS) $(BTL_IB_OPAL_LIBS) -lpthread
tests_mpi_sink_SOURCES = tests/mpi/sink.c tests/mpi/common.h
tests_mpi_sink_CPPFLAGS = $(mpi_cppflags)
tests_mpi_sink_CFLAGS = $(mpi_cflags)
tests_mpi_sink_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_sleeper_SOURCES = tests/mpi/sleeper.c tests/mpi/common.h
tests_mpi_sleeper_CPPFLAGS = $(mpi_cppflags)
tests_mpi_sleeper_CFLAGS = $(mpi_cflags)
tests_mpi_sleeper_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_spawn_SOURCES = tests/mpi/spawn.c tests/mpi/common.h
tests_mpi_spawn_CPPFLAGS = $(mpi_cppflags)
tests_mpi_spawn_CFLAGS = $(mpi_cflags)
tests_mpi_spawn_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_stream_SOURCES = tests/mpi/stream.c tests/mpi/common.h tests/mpi/figures.h
tests_mpi_stream_CPPFLAGS = $(mpi_cppflags)
tests_mpi_stream_CFLAGS = $(mpi_cflags)
tests_mpi_stream_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_survive_SOURCES = tests/mpi/survive.c tests/mpi/common.h
tests_mpi_survive_CPPFLAGS = $(mpi_cppflags)
tests_mpi_survive_CFLAGS = $(mpi_cflags)
tests_mpi_survive_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_threads_SOURCES = tests/mpi/threads.c tests/mpi/common.h
tests_mpi_threads_CPPFLAGS = $(mpi_cppflags)
tests_mpi_threads_CFLAGS = $(mpi_cflags)
tests_mpi_threads_LDADD = $(MPI_LIBS) -lpthread
tests_mpi_twosends_SOURCES = tests/mpi/twosends.c tests/mpi/common.h
tests_mpi_twosends_CPPFLAGS = $(mpi_cppflags)
tests_mpi_twosends_CFLAGS = $(mpi_cflags)
tests_mpi_twosends_LDADD = $(MPI_LIBS) -lpthread

endif
