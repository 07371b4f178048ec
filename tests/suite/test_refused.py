# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""A system that refuses calls of ib, as filters of system calls, containers, limits and other
kernels do: the job has its data all the same, or ends soon and says which call was refused and why.
tests/refused/refuse.c refuses them. docs/guide/containers.md says which calls are needed."""

import errno
import fnmatch
import os
import re
import subprocess

import pytest

from runner.places import TESTS

pytestmark = [pytest.mark.mpi, pytest.mark.limit(60)]

TRAFFIC = "randsize", "rounds=40", "messages=32", "max=1000000"
WAITS = "pauses", "rounds=3", "longest=1"
PING_PONG = "pingpong", "bytes=8", "iterations=2000"
# What systems and filters say where an option is not known, not allowed, or has no room.
OPTION = "ENOPROTOOPT EPERM EINVAL EOPNOTSUPP ENOMEM"
FILTERED = "EPERM ENOSYS"
FILES = "ENOENT EACCES EMFILE"


class Row:
    """`call` and `option` as in refuse.c; `errors`: names of each errno; `settings`: of ib; `also`:
    further calls that are refused; `after`: calls that pass before. Where ib cannot do without the
    call, `ends` says when it is found: at the "start", or in the "job"."""

    def __init__(self, call, option, errors, *, ends=None, also=(), after=0, traffic=TRAFFIC,
                 **settings):  # fmt: skip
        self.call, self.option, self.errors = call, option, errors.split()
        self.ends, self.also, self.after, self.traffic = ends, also, after, traffic
        self.settings = settings


# What ib can do without. Options have one name for IPv4 and one for IPv6.
FASTER = [
    Row("setsockopt", "IP*_MTU_DISCOVER", OPTION),
    Row("setsockopt", "IPV6_V6ONLY", OPTION),
    Row("setsockopt", "IP_BIND_ADDRESS_NO_PORT", OPTION),
    Row("setsockopt", "IP*_RECVT*", OPTION, ecn=1),
    Row("setsockopt", "IP*_T[OC]*", OPTION, traffic_class=32),
    Row("setsockopt", "SO_PRIORITY", OPTION, service_level=3),
    Row("setsockopt", "SO_BUSY_POLL", OPTION, udp_busy_poll=50),
    Row("setsockopt", "SO_PREFER_BUSY_POLL", OPTION, udp_busy_poll=50),
    Row("setsockopt", "SO_RXQ_OVFL", OPTION),
    Row("setsockopt", "SO_PEEK_OFF", OPTION),
    Row("setsockopt", "SO_RCVBUF", OPTION),
    Row("setsockopt", "SO_SNDBUF", OPTION),
    Row("setsockopt", "SO_REUSEPORT", OPTION, traffic=PING_PONG),
    Row("setsockopt", "UDP_GRO", OPTION),
    Row("setsockopt", "UDP_SEGMENT", OPTION),
    Row("getsockopt", "SO_RCVBUF", OPTION),
    Row("getsockopt", "SO_SNDBUF", OPTION),
    Row("getsockopt", "IP*_MTU", OPTION),
    Row("ioctl", "SIOCETHTOOL", "EOPNOTSUPP EPERM ENOSYS"),
    Row("socket", "AF_NETLINK", "EPERM EAFNOSUPPORT EMFILE EPROTONOSUPPORT"),
    Row("socket", "AF_INET6", "EPERM EAFNOSUPPORT"),
    Row("send", "-", FILTERED),
    Row("recv", "-", FILTERED),
    Row("getifaddrs", "-", "EPERM EAFNOSUPPORT"),
    Row("connect", "-", FILTERED + " EINVAL"),
    Row("sendmmsg", "*", FILTERED + " EINVAL"),
    Row("sendmsg", "UDP_SEGMENT", "EINVAL EIO EOPNOTSUPP EPERM"),
    Row("recvmmsg", "*", FILTERED + " EINVAL"),
    Row("epoll_create1", "-", FILTERED + " EMFILE", traffic=WAITS),
    Row("epoll_ctl", "EPOLL_CTL_ADD", FILTERED + " ENOMEM ENOSPC", traffic=WAITS),
    Row("epoll_wait", "-", FILTERED, traffic=PING_PONG),
    Row("eventfd", "-", FILTERED + " EMFILE ENOMEM"),
    Row("poll", "-", FILTERED + " ENOMEM", traffic=WAITS),
    Row("ppoll", "-", FILTERED + " ENOMEM", traffic=WAITS),
    Row("pthread_create", "-", "EAGAIN EPERM"),
    Row("pthread_getcpuclockid", "-", "ENOENT ESRCH"),
    Row("pthread_setname_np", "-", "EPERM"),
    Row("prctl", "*", FILTERED),
    Row("membarrier", "MEMBARRIER_CMD_QUERY", FILTERED + " EINVAL"),
    Row("membarrier", "MEMBARRIER_CMD_*EXPEDITED", FILTERED + " EINVAL ENOMEM"),
    Row("open", "*", FILES),
    Row("fopen", "*", FILES),
    Row("opendir", "*", FILES),
    Row("readlink", "*", "ENOENT EACCES ENOSYS"),
    Row("stat", "*", FILES),
    Row("uname", "-", FILTERED),
    Row("getrlimit", "-", FILTERED),
    Row("if_nametoindex", "-", "ENODEV"),
    Row("fi_getinfo", "-", FILTERED, after=1, transport="ofi"),  # its second question
]

# What it cannot do without.
NEEDED = [
    Row("socket", "AF_INET*", "EPERM EACCES EAFNOSUPPORT EMFILE ENOBUFS", ends="start"),
    Row("ioctl", "SIOCGIFMTU", "EPERM ENOSYS EOPNOTSUPP", ends="start"),
    Row("setsockopt", "IP*_RECVERR", OPTION, ends="start"),
    Row("bind", "-", "EPERM EACCES ENOSYS", ends="start"),
    Row("getsockname", "-", "EPERM ENOSYS", ends="start"),
    Row("getrandom", "-", "EPERM ENOSYS", ends="start"),
    Row("fi_getinfo", "-", FILTERED, ends="start", transport="ofi"),
    Row("fi_fabric", "-", "EPERM ENOMEM", ends="start", transport="ofi"),
    Row("recvmsg", "*", "EPERM ENOSYS EINVAL", ends="job"),
    Row("recvmsg", "plain", "EPERM", ends="job", after=200),
    Row("sendmsg", "*", "EPERM ENOSYS", ends="job", also=["sendmmsg"], connect_timeout=5),
]


# Nobody refuses it, or it has no answer that is used.
ANYTHING = Row("sched_yield", "-", "")


@pytest.fixture(scope="session")
def refuse(tmp_path_factory):
    """The library."""
    path = tmp_path_factory.mktemp("refuse") / "refuse.so"
    subprocess.run(
        [os.environ.get("CC", "gcc"), "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
         "-o", path, TESTS / "refused/refuse.c", "-ldl"],
        check=True,
    )  # fmt: skip
    return path


def rules(row, error):
    """REFUSE of refuse.c."""
    number = getattr(errno, error)
    calls = [(row.call, row.option.replace("/", ","))] + [(call, "*") for call in row.also]
    return " ".join(f"{call}/{option}/{number}/{row.after}" for call, option in calls)


# Part of the default: what containers and sandboxes are known for, and what ends jobs.
SAMPLE = (
    "setsockopt/UDP_GRO/ENOPROTOOPT", "setsockopt/UDP_SEGMENT/ENOPROTOOPT", "socket/AF_NETLINK/EPERM",
    "membarrier/MEMBARRIER_CMD_QUERY/EPERM", "eventfd/-/ENOSYS", "sendmmsg/*/ENOSYS",
    "recvmmsg/*/ENOSYS", "open/*/EACCES", "socket/AF_INET*/EPERM", "ioctl/SIOCGIFMTU/EPERM",
    "setsockopt/IP*_RECVERR/ENOPROTOOPT", "recvmsg/*/ENOSYS", "recvmsg/plain/EPERM/after200",
)  # fmt: skip


def cases():
    for row in FASTER + NEEDED:
        for error in row.errors:
            name = f"{row.call}/{row.option}/{error}" + f"/after{row.after}" * bool(row.after)
            yield pytest.param(
                row, error, id=f"refused/{name}", marks=[pytest.mark.full] * (name not in SAMPLE)
            )


def refused(row, error, library, said):
    """The environment of a process whose calls are refused; the library writes to `said`."""
    return {
        "LD_PRELOAD": str(library), "REFUSE": rules(row, error), "REFUSE_SAYS": str(said),
    }  # fmt: skip


def job(run, mpi, row, environment):
    """What a job of two ranks says."""
    settings = [
        word for name, value in row.settings.items()
        for word in ("--mca", f"btl_ib_{name}", value)
    ]  # fmt: skip
    return mpi.job(
        run, 2, "--mca", "btl", "ib,self", "--mca", "orte_base_help_aggregate", 0, "--mca",
        "mpi_yield_when_idle", 1, *settings,
        "env", *(f"{name}={value}" for name, value in environment.items()),
        mpi.program(row.traffic[0]), *row.traffic[1:], ok=not row.ends,
    )  # fmt: skip


@pytest.mark.parametrize("row, error", list(cases()))
def test_refused(run, mpi, refuse, tmp_path, row, error):
    if row.settings.get("transport") == "ofi" and not mpi.has("OFI"):
        pytest.skip("built without libfabric")
    said = tmp_path / "said"
    environment = refused(row, error, refuse, said)
    output = job(run, mpi, row, environment)
    calls = said.read_text().splitlines()
    made = any(line.startswith(f"refused {row.call} ") for line in calls)
    if not made and row.option in ("AF_INET6", "IPV6_V6ONLY"):
        pytest.skip("no device has an IPv6 address")
    assert made, "the call is not made"
    if not row.ends:
        assert f"OK {row.traffic[0]}" in output
        return
    if row.ends == "start":  # mpirun may lose what is said before MPI_Init fails
        environment |= {"OMPI_MCA_btl_base_verbose": "0"}
        output = mpi.alone(run, env=environment, **row.settings)
    assert re.search(rf"\b{row.call}\b", output)
    assert os.strerror(getattr(errno, error)) in output


@pytest.mark.called("refused/all")
def test_all(run, mpi, refuse, tmp_path):
    """Each call that ib makes here has a row."""
    said = tmp_path / "said"
    environment = {"LD_PRELOAD": str(refuse), "REFUSE_SAYS": str(said)}
    for traffic in TRAFFIC, PING_PONG, WAITS:
        job(run, mpi, Row("", "", "", traffic=traffic), environment)
    made = {tuple(line.split()[1:]) for line in said.read_text().splitlines()}
    assert ("recvmsg", "plain") in made
    assert not [
        (call, option) for call, option in sorted(made)
        if not any(row.call == call and fnmatch.fnmatchcase(option, row.option)
                   for row in FASTER + NEEDED + [ANYTHING])
    ]  # fmt: skip
