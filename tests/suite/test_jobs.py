# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Jobs over transport udp: every program, on one host and on several, over good and bad links
(tests/mpi/run)."""

import pytest

from runner.jobs import job, job_of

pytestmark = pytest.mark.mpi

PROGRAMS = (
    "ring", "alltoall", "randsize", "anysource", "datatypes", "sink", "spawn", "early_finalize",
    "threads", "churn")
EACH_FAULT = ("ring", "randsize", "threads")

# Ranks, hosts and fault of those that are part of the default run, beside those of --quick: each way
# with a program or two.
SAMPLE = {
    "ring": [(2, 2, "clean"), (4, 4, "all")], "alltoall": [(4, 4, "clean")],
    "randsize": [(4, 1, "clean"), (2, 2, "loss5"), (2, 2, "reorder1")],
    "threads": [(2, 2, "dup1"), (4, 4, "all")], "spawn": [(2, 2, "clean")],
    "churn": [(2, 2, "loss5")], "datatypes": [(4, 4, "all")], "anysource": [(4, 4, "all")]}


def marks_of(program, *where):
    return "full" * (where not in SAMPLE.get(program, ()))


# Repeated or overtaken datagrams alone, and the same losses among four hosts, show little that all
# of it together does not.
EVERY_PROGRAM = [row for program in PROGRAMS for row in (
    job("mpi", program, 2, marks="quick"),
    job("mpi", program, 2, 2, "loss1", limit=90, marks="quick"),
    *(job("mpi", program, *where, limit=90, marks=marks_of(program, *where))
      for where in ((4, 1, "clean"), (2, 2, "clean"), (4, 4, "clean"), (2, 2, "loss5"),
                    (4, 4, "all"))),
    *(job("mpi", program, 2, 2, fault, limit=90,
          marks=marks_of(program, 2, 2, fault) if program in EACH_FAULT else "long")
      for fault in ("dup1", "reorder1")),
    job("mpi", program, 4, 4, "loss5", limit=90, marks="long"))]

# What sends and receives many datagrams at once meets other losses, and none, where the network
# moves them at once; and other links: jumbo frames, IPv6, two links of each host; bridges of
# containers, which lead nowhere.
LINKS = [row for program in ("ring", "randsize") for row in (
    *(job("mpi", program, 2, 2, fault, limit=90,
          marks="full" * ((program, fault) != ("randsize", "burst5")))
      for fault in ("burst1", "burst5")),
    *(job(f"mpi,{links}", program, ranks, ranks, fault, options=f"--links {links}", limit=90,
          marks="full" * ((program, ranks) != ("randsize", 2)))
      for links in ("mtu9000", "ipv6", "second") for ranks, fault in ((2, "loss1"), (3, "clean"))),
    job("mpi,offloads=off", program, 2, 2, options="--offloads off", limit=90,
        marks="full" * (program == "ring")))] + [
    row for links in ("docker0", "dockers") for row in (
        job(f"mpi,{links}", "randsize", 4, 2, options=f"--links {links}",
            marks="full" * (links == "dockers")),
        job(f"mpi,{links},named", "randsize", 4, 2, options=f"--links {links}",
            mpirun="--mca btl_ib_if_include eth0,docker0", marks="full" * (links == "docker0")))] + [
    job("mpi", "randsize", 2, 2, "loss1", name="mpi/channels/randsize",
        mpirun="--mca btl_ib_channels own", limit=90, marks="full"),
    *(job("mpi,rails2", program, 3, 3, "loss1", mpirun="--mca btl_ib_qps_per_port 2", limit=90,
          marks="full" * (program == "onesided"))
      for program in ("randsize", "onesided")),
    job("mpi,second,rails2", "alltoall", 3, 3, options="--links second",
        mpirun="--mca btl_ib_qps_per_port 2", marks="full"),
    job("mpi", "randsize", 3, name="mpi/randsize,loopback/3-ranks",
        mpirun="--mca btl_ib_if_include lo"),
    job("mpi,vader", "beside iterations=20000 far=2000", 3, 2, options="--btl ib,vader",
        marks="alone"),
    job("mpi,vader", "randsize", 4, 2, options="--btl ib,vader")]

# Who computes without calling MPI, and what it sent, and what is sent to it. Lost for certain,
# right before it computes.
COMPUTING = [
    job("mpi", "compute seconds=5", marks="alone full"),
    job("mpi", "compute seconds=20", marks="alone long"),
    job("mpi", "twosends seconds=5", marks="alone full"),
    job("mpi", "twosends seconds=20", marks="alone long"),
    job("mpi", "twosends seconds=3 first=1", marks="alone"),
    # A thread that delivers wakes up for all timers of the engine, those of idle peers, too.
    job("mpi", "sleeper", mpirun="--mca btl_ib_progress serve", marks="alone full"),
    job("mpi", "sleeper thread=0", name="mpi/sleeper,thread=0/2-ranks",
        mpirun="--mca btl_ib_progress polling", marks="alone full"),
    job("mpi", "sleeper wakes_most=300", marks="full",
        mpirun="--mca btl_ib_progress deliver --mca btl_ib_progress_wakeups 100"),
    job("mpi", "sleeper wakes_least=350", marks="full", mpirun="--mca btl_ib_progress deliver"),
    job("mpi", "sleeper waits=1", mpirun="--mca mpi_yield_when_idle 1"),
    job("mpi", "compute seconds=5", 2, 2, marks="alone full"),
    job("mpi", "compute seconds=20", 2, 2, marks="alone long"),
    # Nobody sent to it before: its thread answers, so that it is not taken for somebody behind a
    # firewall.
    job("mpi", "compute seconds=9 first=1", 2, 2, name="mpi/compute,first=1/2-ranks/2-hosts",
        mpirun="--mca btl_ib_connect_timeout 3", marks="alone"),
    job("mpi", "compute seconds=5", 3, 3, "loss1", limit=90, marks="alone"),
    # Without the thread such an exchange takes 28 calls: one for each window of a stock buffer.
    job("mpi", "seldom rounds=10 calls=15", 2, 2, mpirun="--mca btl_ib_socket_buffer 212992",
        marks="alone"),
    job("mpi", "twosends seconds=5", 2, 2, marks="alone full"),
    job("mpi", "twosends seconds=20", 2, 2, marks="alone long"),
    job("mpi", "twosends seconds=3 first=1", 2, 2, marks="alone full"),
    job("mpi", "twosends seconds=5 bytes=850 bound=1000", 2, 2, "lost1", marks="alone full"),
    job("mpi", "twosends seconds=20 bytes=850 bound=1000", 2, 2, "lost1", marks="alone long"),
    job("mpi", "twosends seconds=3 bytes=850 bound=1000", 2, 2, "lost4", marks="alone"),
    job("mpi", "twosends seconds=5 bound=1000", 2, 2, "loss5", marks="alone full"),
    job("mpi", "twosends seconds=5 bound=1000 first=1", 2, 2, "loss5", marks="alone full")]

# A thread that delivers: the other is done before who is away comes back, though all of it asks for
# answers; and what any program does is right in that mode as well.
def delivered(program, *where, what="", marks="", **more):
    return job("mpi,deliver", program, *where, mpirun=f"--mca btl_ib_progress deliver {what}",
               marks=marks, **more)


DELIVERED = [
    delivered("overlap seconds=0.3"),
    delivered("overlap seconds=0.3 sleep=1 rounds=4", 4, marks="full"),
    delivered("overlap seconds=0.5 window=1", 2, 2, "loss1"),
    delivered("randsize", 4, 4, "all", limit=90),
    delivered("spawn", 2, 2, "loss1", limit=90),
    delivered("threads", 2, 2, "loss1", limit=90, marks="full"),
    delivered("killed waiting=1", 3, 3, limit=40),
    *(delivered(program, *where, limit=90, marks="full")
      for program in PROGRAMS for where in ((2,), (4, 2, "loss1")) if program != "threads"),
    delivered("beside iterations=20000 far=2000", 3, 2, options="--btl ib,vader",
              marks="alone full")]

# Deaths; links that vanish for a while or for ever; hosts that refuse; large datagrams that vanish.
TROUBLE = [
    job("mpi", "killed", 3, limit=40),
    job("mpi", "recovers", 4),
    *(job("mpi", "killed", ranks, hosts, fault, limit=40, marks="full" * (fault == "clean"))
      for ranks, hosts, fault in ((3, 3, "clean"), (2, 2, "clean"), (3, 3, "loss1"))),
    job("mpi", "killed waiting=1", 3, 3, limit=40),
    # Nothing but the runtime tells of the death: with ULFM, and without.
    job("mpi", "killed waiting=1 after=3", 3, 3, "silent",
        name="mpi/killed,silent,ulfm/3-ranks/3-hosts", mpirun="--with-ft ulfm"),
    job("mpi", "killed after=3", 3, 3, "silent", name="mpi/killed,silent/3-ranks/3-hosts",
        mpirun="--runtime-options recoverable,notifyerrors"),
    job("mpi", "ring", 2, 2, "firewall", name="mpi/ring/2-ranks/2-hosts/firewall", marks="full"),
    job("mpi", "alltoall", 2, 2, "firewall1", name="mpi/alltoall/2-ranks/2-hosts/firewall1"),
    job("mpi", "randsize", 2, 2, "hole1300"),
    job("mpi", "ring", 3, 3, "hole1400", marks="full"),
    # With offloads on, datagrams that are joined vanish; single ones pass.
    job("mpi", "randsize", 2, 2, "hole1600", options="--offloads on",
        name="mpi/randsize/2-ranks/2-hosts/joined1600"),
    job("mpi", "randsize", 2, 2, "hole20000", options="--offloads on", marks="full",
        name="mpi/randsize/2-ranks/2-hosts/joined20000"),
    job("mpi", "survive seconds=13 stop=10 pause=9", 2, 2, marks="full"),
    job("mpi", "survive seconds=14 pause=9", 3, 3, "cut10", marks="full"),
    job("mpi", "survive seconds=5 stop=3 pause=2", 2, 2, marks="quick"),
    job("mpi", "survive seconds=60", 2, 2, "cutoff"),
    job("mpi", "survive seconds=60", 4, 4, "cutoff", marks="full"),
    # Those of 5.0 spawn once only, over any BTL.
    job("mpi", "dynamic times=20", 2, 2, limit=120),
    job("mpi", "dynamic times=50", 4, 2, limit=240, marks="full"),
    job("mpi", "dynamic times=1000", 2, 2, limit=1800, marks="long"),
    job("mpi,second", "randsize", 2, 4, "reject0", options="--links second"),
    job("mpi,second", "alltoall", 2, 4, "reject1", options="--links second", marks="full"),
    job("mpi,second", "port_back", 2, 2, options="--links second",
        mpirun="--mca btl_ib_down_limit 1", marks="full"),
    job("mpi,second", "survive seconds=5 pause=0.1", 2, 2, "cutreject", options="--links second",
        marks="full"),
    job("mpi,second", "survive seconds=5 pause=0.1", 3, 3, "cutlink", options="--links second"),
    # Pieces of a message in another order than they were sent are more than the convertor of Open
    # MPI bears.
    job("mpi,second", "datatypes", 3, 3, options="--links second", marks="full")]

# Many to one, a link and a receiver that are too slow, small messages beside long ones: nothing is
# lost or mixed up, and few segments are sent twice. Their speed is told, not demanded: see
# docs/measurements.md.
CROWDS = [
    *(job("mpi", what, hosts, hosts, fault, options="--resent 5", marks=f"alone {more}")
      for what, hosts, fault, more in (
          ("incast seconds=2", 4, "clean", ""), ("incast seconds=2", 4, "loss1", "full"),
          ("incast seconds=2 bytes=8000 window=16", 4, "clean", "full"),
          ("mixed seconds=1", 2, "clean", "full"), ("mixed seconds=1 both=1", 2, "loss1", ""))),
    # Swift bears an eighth: a bucket lets bursts through without a delay, and its queue overflows
    # unseen.
    *(job("mpi", what, ranks, hosts, "rate200", options="--resent 15", marks=f"alone {more}")
      for what, ranks, hosts, more in (
          ("incast seconds=2", 4, 4, ""), ("incast seconds=2 bytes=8000 window=16", 4, 4, "full"),
          ("incast seconds=2 pairs=1", 4, 2, "full"), ("mixed seconds=1", 2, 2, "full"))),
    # Buffers of a slow receiver overflow each time that it does not look.
    *(job("mpi", f"incast seconds=2 {slow}", 4, 4, options="--resent 20", marks=f"alone {more}")
      for slow, more in (("slow=1000", ""), ("slow=5000 bytes=8000 window=16", "full")))]

# One-sided functions of ib, called directly, also with the wrong handles of a window; its send
# functions, with descriptors as no PML here makes them; peers that stand still, are deleted and
# die, with endpoints that are not MPI's.
DIRECT = [
    job("mpi", "direct", 1, marks="full"),
    job("mpi", "direct", 2, marks="quick"),
    job("mpi", "direct", 2, 2, "loss1", limit=90),
    job("mpi", "handles", 1, marks="full"),
    job("mpi", "handles", 3),
    job("mpi", "handles", 2, 2, "loss1", limit=90, marks="full"),
    job("mpi", "direct", 3, name="mpi/direct,all-atomics", mpirun="--mca btl_ib_atomics_all 1"),
    job("mpi", "direct", 2, name="mpi/direct,limits",
        mpirun="--mca btl_ib_put_limit 4194304 --mca btl_ib_get_limit 4194304", marks="full"),
    *(job("mpi", "direct", 3, 3, fault, limit=90, marks="full" * (fault != "all"))
      for fault in ("loss5", "dup1", "reorder1", "all")),
    *(job("mpi", f"direct seed={seed}", 4, 4, "all", limit=90, marks="long" if seed > 2 else "full")
      for seed in (2, 3, 4)),
    job("mpi", "direct rounds=1 huge=4200", 2, limit=600, marks="full"),
    job("mpi", "stack seconds=0.3 limit=48"),
    job("mpi", "stack seconds=0.3", 4, 2, "loss1"),
    job("mpi,second", "stack", 2, 2, "cutlink", options="--links second", limit=90, marks="full"),
    # Open MPI has to wait for a descriptor all the time, but never for ever.
    job("mpi", "randsize", name="mpi/randsize,free_list_max=1/2-ranks", options="--flags send",
        mpirun="--mca btl_ib_free_list_num 1 --mca btl_ib_free_list_inc 1"
               " --mca btl_ib_free_list_max 1", limit=90, marks="full"),
    job("mpi", "sends", 1, marks="full"),
    job("mpi", "sends", 3, marks="quick"),
    job("mpi", "sends", 2, 2, "loss1"),
    *(job("mpi", f"sends seed={seed}", 3, 3, "all", marks="long" if seed > 2 else "full")
      for seed in (2, 3)),
    *(job("mpi", f"parting delete={when}", 3, name=f"mpi/parting,delete={when}/3-ranks",
          options="--btl ib,tcp --flags send,put --transport udp",
          mpirun="--mca btl_ib_exclusivity 50", marks="full" * (when != "told"))
      for when in ("never", "told", "next")),
    job("mpi", "parting delete=rail", 3, options="--btl ib,tcp --transport udp",
        mpirun="--mca btl_ib_exclusivity 50 --mca btl_ib_flags send,put"
               " --mca btl_ib_qps_per_port 2")]

# Memory that devices may use by themselves; datagrams that are protected.
PROTECTED = [job("mpi", "pages rounds=3"),
             job("mpi", "pages", 2, 2, "loss1", limit=90, marks="full")] + [
    job("mpi", "randsize", 2, 2, "loss1", name=f"mpi/randsize,protection={value}/2-ranks/2-hosts/loss1",
        mpirun=f"--mca btl_ib_protection {value}", limit=90, marks=marks)
    for value, marks in (("crc32c", ""), ("integrity", "full"), ("encrypt", "quick"))]


@pytest.mark.parametrize(
    "row", EVERY_PROGRAM + LINKS + COMPUTING + DELIVERED + TROUBLE + CROWDS + DIRECT + PROTECTED)
def test_job(run, mpi, request, row):
    job_of(run, mpi, request, row)
