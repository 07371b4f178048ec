# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""What ib says at which verbosity, and when it is silent; another Open MPI; build/env.sh;
tests/mpi/run itself."""

import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest
from runner.jobs import library
from runner.places import BUILD, ROOT

pytestmark = pytest.mark.mpi
HOST = os.uname().nodename


@pytest.mark.quick
def test_ib_not_named(run, mpi):
    """A component that nobody asked for says nothing and carries nothing. Without shared memory, so
    that there is something left for it to displace: tcp, which Open MPI 5.0 keeps from lo."""
    others = ["--mca", "btl", f"^{mpi.shared_memory}", "--mca", "btl_ib_stats", "1"]
    output = mpi.job(
        run, 2, *others, "--mca", "btl_tcp_if_include", "lo", mpi.program("ring"), "laps=1"
    )
    assert "OK ring" in output
    # What mpirun itself has to say is none of ours.
    assert not re.search("btl[_:]ib|btl-ib|btl ib", output)
    output = mpi.job(run, 2, *others, "--mca", "btl_ib_auto", "1", mpi.program("ring"), "laps=1")
    assert re.search("sent [1-9].* segments", output), "btl_ib_auto: unused"


def test_ib_within_a_host(run, mpi):
    """Processes of one host that talk by ib although shared memory would do hear of it, once each,
    and others do not."""
    verbose, program = ["--mca", "btl_base_verbose", "1"], [mpi.program("alltoall"), "rounds=1"]
    output = mpi.job(run, 3, "--mca", "btl", "ib,self", *verbose, *program)
    assert len(re.findall(f"go by ib.*--mca btl {mpi.btls}", output)) == 3
    output = mpi.job(run, 3, "--mca", "btl", mpi.btls, *verbose, *program)
    assert "OK alltoall" in output
    assert "rail 0 is" in output
    assert "go by ib" not in output
    # A process alone has nobody to tell of.
    output = mpi.job(run, 1, "--mca", "btl", "ib,self", *verbose, *program)
    assert "rail 0 is" in output
    assert "go by ib" not in output


def test_descriptors_closed(run, mpi):
    """Who closes all descriptors is told that this ended the job, whatever others say of it."""
    output = mpi.job(run, 2, "--mca", "btl", "ib,self", "--mca", "btl_ib_transport", "udp",
                     mpi.program("killed"), "closes=1", "waiting=1", ok=False)
    assert re.search(r"has closed descriptors that belong to the ib BTL, and ends:\n\n +Process: rank 1 on .*\n"
                     r".*\n +Error: +Bad file descriptor", output)
    assert not re.search("From: rank 1 on", output)


@pytest.mark.alone
def test_stopped_rank(run, hosts):
    """A rank that was stopped before anybody sent to it is waited for beyond the connect timeout
    where its host is known to be reachable: it is our own, or another process of it answers. The
    texts name it, and no firewall."""
    output = run.output(
        ROOT / "tests/mpi/run", "--build", BUILD, "--np", 4, "--hosts", 2, "compute", "seconds=7",
        "first=1", "stopped=1", "--", "--mca", "btl_ib_connect_timeout", 3,
        env={"NSPFX": hosts},
    )  # fmt: skip
    assert "OK compute" in output
    assert "lost the connection" not in output
    assert "its host can be reached, so it is most likely stopped" in output
    assert "does not change within 900 s (btl_ib_silence_limit" in output
    assert "pass UDP" not in output


def test_verbose_versions(run, mpi):
    """At verbose 1 one process of a host tells versions, what was built, and of each device what
    drives it."""
    with open("/sys/class/net/lo/mtu") as mtu:
        expected = [
            r"version \d+\.\d+\.\d+, built for Open MPI \d+\.\d+\.\d+.*, "
            rf"running in Open MPI \d.*, on host {HOST}",
            "transports built: .*udp.*",
            f"rail 0: device lo on host {HOST}: driver .*, firmware .*, link .*, "
            f"MTU {mtu.read().strip()}",
        ]
    expected += [r"libfabric: built with \d+\.\d+, not loaded"] * mpi.has("OFI")
    expected += [r"rdma-core: built with libibverbs .*, not loaded"] * mpi.has("VERBS")
    output = mpi.job(
        run,
        2,
        *("--mca", "btl", "ib,self", "--mca", "btl_ib_if_include", "lo"),
        *("--mca", "btl_ib_transport", "udp", "--mca", "btl_base_verbose", "1"),
        mpi.program("ring"),
        "laps=1",
    )
    for line in expected:
        assert len(re.findall(f"btl:ib: {line}$", output, re.M)) == 1, line
    output = mpi.job(
        run,
        2,
        *("--mca", "btl", "ib,self", "--mca", "btl_base_verbose", "0"),
        mpi.program("ring"),
        "laps=1",
    )
    assert "transports built" not in output
    assert "driver" not in output


class Thrower(threading.Thread):
    """Throws short datagrams at the ports of a job."""

    def __init__(self, first):
        super().__init__(daemon=True)
        self.first = first
        self.done = threading.Event()

    def run(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as thrower:
            thrower.bind(("127.0.0.1", self.first + 99))
            for _ in range(300):
                for port in range(self.first, self.first + 4):
                    thrower.sendto(b"\x1f\xab\x00", ("127.0.0.1", port))
                if self.done.wait(0.02):
                    return


@pytest.mark.parametrize(
    "verbose, first",
    [
        pytest.param(20, 23400, id="bad_datagrams/20"),
        pytest.param(100, 23500, id="bad_datagrams/100"),
    ],
)
def test_bad_datagrams(run, mpi, verbose, first):
    """At verbose 100, and only there, each dropped datagram is shown, some in a second, and what
    becomes of connections. Rank 0 computes, so that its datagrams come in bundles."""
    thrower = Thrower(first)
    thrower.start()
    try:
        output = mpi.job(
            run,
            2,
            *("--mca", "btl", "ib,self", "--mca", "btl_ib_if_include", "lo"),
            *("--mca", "btl_ib_transport", "udp", "--mca", "btl_ib_port_min", first),
            *("--mca", "btl_ib_port_range", "4", "--mca", "btl_base_verbose", verbose),
            *("--mca", "btl_ib_stats", "1"),
            mpi.program("twosends"),
            "seconds=3",
        )
    finally:
        thrower.done.set()
        thrower.join()
    assert re.search(r"dropped [1-9].*short ", output)
    if verbose == 20:
        assert not re.search(r"dropped_|peer [0-9.]*: made", output)
        return
    assert "btl:ib: dropped_short: udp/lo: 3 bytes from 127.0.0.1:23599: 1f ab 00" in output
    assert " more datagrams were dropped than are shown (20 a second)" in output
    # Those of the second socket come from the very same port, too.
    assert not re.search(r"dropped_short(?!.*from 127\.0\.0\.1:23599: )", output)
    for rank in (0, 1):
        assert re.search(
            rf"btl:ib: peer \d+\.{rank}: made: from udp/lo to its rail 0 at 127\.0\.0\.1:\d+,",
            output,
        )
        assert re.search(rf"btl:ib: peer \d+\.{rank}: closed here", output)


# In the place of timeout, which starts NetPIPE: figures over ib, none in time over tcp, or over both.
SLOW = """#!/bin/sh
case $* in
*" NPopenmpi "*) ;;
*) exec /usr/bin/timeout "$@" ;;
esac
case $* in
*" ib,self "*$SLOW*) exit 124 ;;
*" ib,self "*) echo "btl_ib: rank 0 sent 7 segments"; echo 8 bytes; while [ "$1" != -o ]; do shift; done; echo 8 1 1e-5 >"$2" ;;
*) exit 124 ;;
esac
"""


@pytest.mark.called("quickstart/slow")
def test_quickstart_slow(run, component, tmp_path):
    """Where a job does not end in time tools/quickstart says so, of either BTL, and not that it failed."""
    (tmp_path / "timeout").write_text(SLOW)
    (tmp_path / "timeout").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    said = run.output(ROOT / "tools/quickstart", env={"PATH": path, "SLOW": "nowhere"})
    late = r"the job over {} did not end within \d+ s: does other work take the processors \(\d+ here\)\? \("
    assert re.search("nothing to compare with: " + late.format("tcp"), said)
    assert "        8     10.00         - " in said and "ib carried 7 segments." in said
    said = run.output(ROOT / "tools/quickstart", env={"PATH": path, "SLOW": ""}, ok=False)
    assert re.search(late.format("ib") + r"all of it: ", said)


def test_env_of_moved_tree(run, mpi, tmp_path):
    """build/env.sh where the tree was moved to, by a shell that cannot tell its file name."""
    (tmp_path / "build").mkdir()
    for name in ("env.sh", "plugin"):
        subprocess.run(["cp", "-a", BUILD / name, tmp_path / "build"], check=True)
    read = '. "$PLACE/build/env.sh"; exec "$@"'
    output = run.output(
        "env",
        "-u",
        library("component_path").strip(),
        "sh",
        "-c",
        read,
        "sh",
        *mpi.mpirun,
        "-np",
        2,
        *("--mca", "pml", "ob1", "--mca", "btl", "ib,self", "--mca", "btl_ib_stats", "1"),
        mpi.program("ring"),
        "laps=1",
        env={**mpi.environment, "PLACE": str(tmp_path)},
        cwd="/",
    )
    assert re.search("sent [1-9].* segments", output)
    # The path of components is Open MPI's, not PMIx's.
    assert "pmix_mca_" not in output
    # Which BTLs to name: shared memory has another name in each series, and must exist.
    (shared_memory,) = re.fullmatch("ib,(.*),self", mpi.btls).groups()
    assert f"\nmca:btl:{shared_memory}:version:" in run.output("ompi_info", "--parsable")
    # Who types it in a shell is told, a script is not.
    output = run.output("bash", "--norc", "-i", "-c", f". '{BUILD}/env.sh'", ok=None)
    assert f"mpirun --mca pml ob1 --mca btl {mpi.btls} " in output
    assert not run.output("bash", "-c", f". '{BUILD}/env.sh'")


@pytest.mark.openmpi
@pytest.mark.limit(300)
@pytest.mark.parametrize(
    "script",
    [
        pytest.param("other", id="openmpi/other"),
        pytest.param("configure", id="openmpi/configure", marks=pytest.mark.full),
    ],
)
def test_openmpi(run, mpi, script):
    run(ROOT / "tests/openmpi" / script)


@pytest.mark.called("run/uncut/2-hosts")
def test_uncut(run, mpi, hosts):
    """A program that never says that it is going: nothing to cut, and nobody waits for it."""
    for fault in ("cutoff", "cut10"):
        output = run.output(
            ROOT / "tests/mpi/run",
            *("--build", BUILD, "--hosts", 2, "--fault", fault, "ring", "laps=1"),
            env={"NSPFX": hosts},
            ok=False,
        )
        assert "links were not cut" in output


@pytest.mark.parametrize(
    "number",
    [pytest.param(1, id="run/terminated/1-host"), pytest.param(2, id="run/terminated/2-hosts")],
)
def test_terminated(run, mpi, request, number):
    """What tests/mpi/run began ends with it: a signal to the script alone, in the middle of a long
    job."""
    if number > 1:
        run.environment["NSPFX"] = request.getfixturevalue("hosts")
    with run.log.open("a") as log:
        script = subprocess.Popen(
            [
                ROOT / "tests/mpi/run",
                "--build",
                BUILD,
                "--hosts",
                str(number),
                "compute",
                "seconds=60",
            ],
            env=run.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    give_up = time.monotonic() + 60
    while (
        not subprocess.run(
            ["pgrep", "-P", str(script.pid), "-f", "compute"], stdout=subprocess.DEVNULL
        ).returncode
        == 0
    ):
        assert time.monotonic() < give_up, "no job"
        time.sleep(0.1)
    time.sleep(1)
    script.send_signal(signal.SIGTERM)
    script.wait(60)


def test_numbers_without_locale():
    """No number in what ib says depends on the application's locale ("2,0 s" under de_DE). ib_info sets none."""
    depends = re.compile(r'"[^"\n]*%[-+#0-9.*]*l?[aefgAEFG][^"\n]*"|\bstrtod\(')
    sources = [*ROOT.glob("*.c")]
    for folder in "connectivity crypto devices engine mca progress registration stats transport".split():
        sources += (ROOT / folder).rglob("*.[ch]")
    assert len(sources) > 100
    assert not [source for source in (ROOT / "info").glob("*.c") if "setlocale" in source.read_text()]
    assert not [source for source in sources if depends.search(source.read_text())]
