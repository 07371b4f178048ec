# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Devices, ports and libraries that are not there, or fail: what is said, and what is used
instead."""

import errno
import os
import re
import socket
import subprocess
from contextlib import ExitStack

import pytest

from runner.jobs import preloaded, with_kernel
from runner.places import BUILD

pytestmark = pytest.mark.mpi
INFO = BUILD / "ib_info"
HOST = os.uname().nodename
NOT_BUILT = "is none of these"


def holds(pattern, output):
    """With . for any character."""
    return re.search(pattern, output, re.S)


def interfaces():
    return os.listdir("/sys/class/net")


def test_no_device_left(run, mpi):
    """Who names ib and gets no device hears of each that there is, and why not; who only allows it
    hears nothing."""
    all_of_them = ",".join(interfaces())
    output = mpi.alone(run, if_exclude=all_of_them)
    for interface in interfaces():
        assert holds(
            f"  Host:                 {HOST}\n.*  btl_ib_if_exclude:    {all_of_them}\n"
            f".*  udp/{interface}: .*The ib BTL will not be used",
            output,
        )
    assert "  udp/lo: in btl_ib_if_exclude" in output
    assert "rail 0 is" not in output
    assert holds(
        "  udp/lo: not in btl_ib_if_include.*ip address",
        mpi.alone(run, if_include="nosuch0", transport="udp"),
    )
    output = mpi.alone(run, port_min=1, port_range=1, transport="udp", if_include="10.254.253.0/30")
    assert "  udp/lo: not in btl_ib_if_include" in output
    # A range of ports is not for a transport that does not keep to it.
    output = mpi.alone(run, port_min=23000, transport="ofi")
    assert (
        holds("  ofi/.*: libfabric chooses its port, and btl_ib_port_min is set", output)
        or NOT_BUILT in output
    )
    # Nobody asked for ib by its name: the same, but silent.
    output = mpi.alone(
        run,
        env={"OMPI_MCA_btl": f"^{mpi.shared_memory}", "OMPI_MCA_btl_base_verbose": "0"},
        auto=1,
        if_exclude=all_of_them,
    )
    assert "ib BTL" not in output
    if not os.path.exists("/sys/class/infiniband"):
        output = mpi.alone(run, transport="verbs")
        assert (
            holds(
                "  btl_ib_transport:     verbs\n.*/sys/class/infiniband.*rdma link.*"
                "--device=/dev/infiniband",
                output,
            )
            or NOT_BUILT in output
        )
    output = mpi.alone(run, transport="ofi", ofi_provider="nosuch")
    assert (
        holds("  btl_ib_ofi_provider:  nosuch\n.*  ofi: .*nosuch.*fi_info", output)
        or NOT_BUILT in output
    )


@pytest.mark.called("no_device_left/down")
def test_interface_down(run, mpi):
    """A host whose only interface is down; Open MPI itself needs lo."""
    if os.geteuid():
        pytest.skip("network namespaces need root")
    script = """ip link set lo up && ip link add down0 type veth peer name bare0 &&
        ip address add 10.254.254.1/24 dev down0 && ip link set bare0 up && exec "$@" """
    output = mpi.alone(run, before=("unshare", "--net", "sh", "-c", script, "sh"), if_exclude="lo")
    assert "  udp/lo: in btl_ib_if_exclude" in output
    assert "  udp/down0: it is down\n" in output
    assert "  udp/bare0: it has no IP address\n" in output


class Held:
    """UDP ports of all addresses, held meanwhile."""

    def __init__(self, first, last):
        self.ports, self.stack = range(first, last + 1), ExitStack()

    def __enter__(self):
        for port in self.ports:
            self.stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)).bind(
                ("0.0.0.0", port)
            )

    def __exit__(self, *error):
        self.stack.close()


def test_port_range_full(run, mpi):
    """A range of ports that is full is an error, not a reason to use others: no port, no other
    transport."""
    ports = {"port_min": 23000, "port_range": 8}
    for transport in ("auto", "udp"):
        with Held(23000, 23007):
            output = mpi.alone(run, transport=transport, **ports)
        assert holds(
            f"""  Host:   {HOST}
  Device: udp/.*
  Ports:  23000 to 23007 \\(btl_ib_port_min, btl_ib_port_range\\)
  Reason: Address already in use
  Needed: 2 for each rank on each device
  Ranks:  1 of this job on this host: 2 ports of each device
.*btl_ib_bulk_lane""",
            output,
        )
        assert "rail 0 is " not in output
        assert "OK alltoall" in output
    with Held(23004, 23007):
        assert "rail 1 is udp" in mpi.alone(run, qps_per_port=2, if_include="lo", **ports)
    with Held(23002, 23007):
        output = mpi.alone(run, qps_per_port=2, **ports)
    assert "  Needed: 4 for each rank on each device\n" in output
    assert "will not be\nused by this process" in output
    # One port is enough for a process; more processes than ports are too many.
    with Held(23000, 23006):
        assert "rail 0 is udp" in mpi.alone(run, **ports)
    output = mpi.job(
        run,
        10,
        "--oversubscribe",
        *("--mca", "btl", mpi.btls, "--mca", "btl_base_verbose", "1"),
        *("--mca", "btl_ib_port_min", "23000", "--mca", "btl_ib_port_range", "8"),
        mpi.program("alltoall"),
        "rounds=1",
        ok=None,
    )
    assert "  Ranks:  10 of this job on this host: 20 ports of each device" in output
    # The last port there is ends the range.
    with Held(65534, 65535):
        output = mpi.alone(run, port_min=65534, port_range=8)
    assert "  Ports:  65534 to 65535 " in output
    assert "rail 0 is " not in output


def test_rails_of_a_port(run, mpi):
    """A device that is used as several rails: each process has sockets of its own for each, and
    long messages are spread over them, as what the system was asked to send shows."""
    preload = preloaded(
        run,
        "sent_by_port",
        """
#define _GNU_SOURCE
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned long sent[65536];

static void count(int fd, const struct msghdr *msg)
{
    struct sockaddr_in own;
    socklen_t size = sizeof(own);

    if (0 == getsockname(fd, (struct sockaddr *) &own, &size) && AF_INET == own.sin_family) {
        for (size_t i = 0; i < msg->msg_iovlen; i++) {
            sent[ntohs(own.sin_port)] += msg->msg_iov[i].iov_len;
        }
    }
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
    const ssize_t result = syscall(SYS_sendmsg, fd, msg, flags);

    if (result >= 0) {
        count(fd, msg);
    }
    return result;
}

int sendmmsg(int fd, struct mmsghdr *msg, unsigned int many, int flags)
{
    const int result = (int) syscall(SYS_sendmmsg, fd, msg, many, flags);

    for (int i = 0; i < result; i++) {
        count(fd, &msg[i].msg_hdr);
    }
    return result;
}

__attribute__((destructor)) static void tell(void)
{
    for (int port = 0; port < 65536 && NULL != getenv("OMPI_COMM_WORLD_RANK"); port++) {
        if (sent[port] > 100000) {
            printf("rank %s sent much by port %d\\n", getenv("OMPI_COMM_WORLD_RANK"), port);
        }
    }
}
""",
    )
    for rails in (1, 3):
        output = mpi.job(
            run,
            2,
            "-x",
            f"LD_PRELOAD={preload['LD_PRELOAD']}",
            *"--mca btl ib,self --mca btl_ib_if_include lo --mca btl_base_verbose 1".split(),
            *f"--mca btl_ib_qps_per_port {rails} --mca btl_ib_bulk_lane 0".split(),
            *"--mca btl_ib_connected_max 0".split(),
            mpi.program("randsize"),
            "rounds=2",
        )
        assert "OK randsize" in output
        for rank in (0, 1):
            assert output.count(f"rank {rank} sent much by port ") == rails
        assert output.count(" talks to its rail ") == 2 * rails
        for rail in range(rails):
            assert output.count(f"rail {rail} (udp/lo) talks to its rail {rail} ") == 2
        bandwidth = 1000 // rails
        assert output.count(f" bytes a datagram, {bandwidth} Mbit/s") == 2 * rails


def test_device_passed_over(run, mpi):
    """Without a wish for a transport, a device that cannot be opened is no reason to fail: others
    are used, which one process of a host tells. But if udp has none that opens, libfabric's udp,
    which no peer of another host uses, does not take its place in silence."""
    # For UDP addresses that end with an odd number are not to be had.
    preload = preloaded(
        run,
        "no_bind",
        """
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int bind(int fd, const struct sockaddr *address, socklen_t size)
{
    int type = 0;
    socklen_t len = sizeof(type);

    (void) getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len);
    if (AF_INET == address->sa_family && SOCK_DGRAM == type
        && ((const struct sockaddr_in *) address)->sin_addr.s_addr & htonl(1)) {
        errno = EPERM;
        return -1;
    }
    return (int) syscall(SYS_bind, fd, address, size);
}
""",
    )
    if not os.geteuid():
        script = """ip link set lo up && ip link add x1 type veth peer name x2 &&
            ip address add 10.254.1.1/24 dev x1 && ip address add 10.254.2.2/24 dev x2 &&
            ip link set x1 up && ip link set x2 up && exec "$@" """
        output = mpi.alone(run, env=preload, before=("unshare", "--net", "sh", "-c", script, "sh"))
        assert output.count("could not be opened. The job") == 1
        assert holds(f"  Host: {HOST}\n  Used: udp/x2\n.*  udp/x1: bind: Operation not permitted", output)
    for transport in ("auto", "udp"):
        output = mpi.alone(run, env=preload, transport=transport, if_include="127.0.0.0/8")
        assert holds("  udp/lo: .*Operation not permitted.*will not be used", output)
        assert "rail 0 is" not in output
    if mpi.has("OFI"):
        output = mpi.alone(run, env=preload, if_include="127.0.0.0/8")
        assert "  ofi: it does not reach peers that use udp (btl_ib_transport ofi)\n" in output


def test_known_fault(run, mpi):
    """A kernel that is known to be bad is told once, though it is so for each device, with what to do; nowhere if ib is
    not used, the site says that it is mended, or the user decided about joined datagrams. The log has it nevertheless."""
    for release, settings, told in (
        ("7.0.2-6-pve", {}, 1),
        ("7.0.2-6-pve", {"warn_known_faults": 0}, 0),
        ("7.0.2-6-pve", {"udp_gso": 1}, 0),
        ("5.0.7", {"udp_gso": 1}, 1),
    ):
        output = mpi.alone(run, env=with_kernel(run, release), **settings)
        assert output.count("that the ib BTL uses is known to be bad:") == told
        assert output.count(f"Linux {release}: known to be bad: Linux ") == 1
        if told:
            assert holds(f"  Version:  Linux {re.escape(release)}\n  Bad:      Linux .*\n  Effect: .*\n.*Do: take a later ", output)
    assert "known to be bad" not in mpi.alone(run, env=with_kernel(run, "7.1.5"))
    output = mpi.alone(run, env={**with_kernel(run, "7.0.2"), "OMPI_MCA_btl": "self"})
    assert "known to be bad" not in output


def test_known_fault_of_device(run, mpi):
    """ib_info says of each device what is known to be bad of its kernel, and that it joins no datagrams for that."""
    def facts(release, **settings):
        parameters = {f"OMPI_MCA_btl_ib_{name}": str(value) for name, value in settings.items()}
        said = run.output(INFO, "--parsable", env={**mpi.environment, **with_kernel(run, release), **parameters})
        return dict(re.findall(r"^device udp lo (gso|fault|remedy): (.*)$", said, re.M))

    bad = facts("7.0.2-6-pve")
    assert bad["gso"] == "no" and bad["fault"].startswith("Linux 7.0.2-6-pve: known to be bad: Linux 7.0 to 7.1.4: ")
    assert "tailscale/tailscale#19777" in bad["fault"] and "btl_ib_udp_gso is 1" in bad["remedy"]
    assert facts("7.0.2-6-pve", udp_gso=1).keys() == {"fault", "remedy"}
    assert not facts("7.1.5")
    assert facts("7.1.5", udp_gso=0) == {"gso": "no"}


def test_rejected_operation(run, mpi):
    """A one-sided operation that its target rejects is shown, once for each target, with all that
    names it."""
    output = mpi.alone(run, ("direct",), env={"OMPI_MCA_btl_base_verbose": "0"})
    assert output.count("rejected by its target") == 1
    assert holds(
        f"""\n(put|get|atomic) of \\d+ bytes at offset \\d+ is not inside memory .*
  From: rank 0 on host {HOST}, .*, address [0-9a-f.:]+
  To:   rank 0 on host {HOST}, address this process\n""",
        output,
    )


def test_device_lost_at_the_end(run, mpi):
    """A device that fails while MPI_Finalize takes leave is told as always."""
    output = mpi.alone(
        run, ("lost_device",), env={"OMPI_MCA_btl_base_verbose": "0"}, transport="udp"
    )
    assert "OK lost_device" in output
    assert holds(
        "  Device:  udp[^\n]*\n  Address: [0-9a-f.:]+:\\d+\n  Error:   No such device\n", output
    )


def test_ib_cannot_start(run, mpi, tmp_path):
    """What keeps ib from starting at all is said with its cause, and with what to do about that."""
    output = mpi.alone(
        run,
        ack_delay=50,
        env=preloaded(
            run,
            "no_random",
            """
#include <errno.h>
#include <sys/types.h>

ssize_t getrandom(void *out, size_t size, unsigned flags)
{
    (void) out;
    (void) size;
    (void) flags;
    errno = EPERM;
    return -1;
}
""",
        ),
    )
    assert holds(
        f"will not be used by this process:\n\n  Host:  {HOST}\n  Cause: the system gives no random "
        "numbers \\(getrandom\\): Operation not permitted\n\nDo: .*seccomp",
        output,
    )
    assert "rail 0 is" not in output
    # With no provider but the one that has nothing.
    null = tmp_path / "openssl.cnf"
    null.write_text(
        "openssl_conf = all\n[all]\nproviders = list\n[list]\nnull = one\n[one]\nactivate = 1\n"
    )
    output = mpi.alone(
        run,
        protection="encrypt",
        env={"OPENSSL_CONF": str(null)},
    )
    assert holds(
        "  Cause: libcrypto does not give AES-256-GCM, which btl_ib_protection encrypt needs\n\n"
        ".*openssl list.*btl_ib_protection none",
        output,
    ) or holds(f"does\nnot have:\n\n  Host:    {HOST}\n  Value:   encrypt\n", output)


def test_parameters_contradict(run, mpi):
    """What contradicts, and what is named for nothing, is told with what is there and with the
    defaults."""
    output = mpi.alone(run, rto_min="5ms", rto_max="1ms", rto_initial="1ms")
    assert (
        "  btl_ib_rto_min: 5000 microseconds (default: 250)\n"
        "  btl_ib_rto_max: 1000 microseconds (default: 200000)\n"
    ) in output
    output = mpi.alone(run, if_include="lo,nosuch0", transport="udp")
    assert holds(
        f"""  Host:              {HOST}
  Entry:             nosuch0
  btl_ib_if_include: lo,nosuch0
  Used:              udp/lo.*What else there is, and why it is not used:

.*ip address.*OK alltoall""",
        output,
    )
    output = mpi.alone(run, if_include="lo", if_exclude="eth0")
    assert (
        "  btl_ib_if_include: lo\n  btl_ib_if_exclude: eth0\n  Default:           neither is set\n"
        in output
    )


def test_progress_thread_exit(run, mpi):
    """A process that ends without MPI_Finalize ends its progress thread before libraries are
    closed."""
    output = mpi.job(run, 2, "--mca", "btl", "ib,self", mpi.program("sleeper"), "exit=1", ok=None)
    assert "sleeper: no progress thread at the end of the process" in output
    assert "FAIL" not in output


def test_progress_thread_forbidden(run, mpi):
    """What forbids the system call that it needs is named: a filter, or else the memory."""
    refusing = preloaded(
        run,
        "no_eventfd",
        """
#include <errno.h>
#include <stdlib.h>

int eventfd(unsigned count, int flags)
{
    (void) count;
    (void) flags;
    errno = atoi(getenv("REFUSED_BY"));
    return -1;
}
""",
    )
    for error, said in (
        (errno.EPERM, "filter of system calls that forbids it \\(seccomp"),
        (errno.ENOSYS, "filter of system calls that forbids it \\(seccomp"),
        (errno.ENOMEM, "memory that there is"),
    ):
        output = mpi.alone(run, env={**refusing, "REFUSED_BY": str(error)})
        assert re.search(
            f"no helper thread: eventfd: {os.strerror(error)}\\..*Please look at the {said}", output
        )


@pytest.mark.alone
def test_progress_thread_refused(run, mpi):
    """A system that refuses that thread is asked again, and each process says once what that
    means."""
    output = mpi.job(run, 2, "--mca", "btl", "ib,self", mpi.program("sleeper"), "refused=4")
    line = (
        f"btl:ib: rank [01] on host {HOST}: no helper thread: pthread_create: "
        "Resource temporarily unavailable\\."
    )
    assert len([each for each in output.splitlines() if re.search(line, each)]) == 2
    assert "OK sleeper" in output
