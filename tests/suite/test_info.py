# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""ib_info: what it says of devices, beside what a job does with them; its arguments; its page; the
examples of docs/guide/ib-info.md."""

import os
import re

import pytest

from runner.places import BUILD, ROOT

pytestmark = pytest.mark.mpi
INFO = BUILD / "ib_info"
LINES = INFO, "--parsable"
GUIDE = ROOT / "docs/guide/ib-info.md"
# A host whose fab0 leads to another namespace, which no longer is there but for it; fab1 is down.
HOST = """ip link set lo up && ip link add fab0 mtu 1400 type veth peer name end0 netns $$ &&
    ip link add fab1 type veth peer name end1 && ip address add 10.254.253.1/24 dev fab0 &&
    ip address add 10.254.252.1/24 dev fab1 && ip link set end0 up && ip link set fab0 up &&
    exec "$@" """


@pytest.fixture
def host(component):
    """The words before a command that is to run on that host."""
    if os.geteuid():
        pytest.skip("network namespaces need root")
    return "unshare", "--net", "sh", "-c", HOST, "sh"


def parameters(**settings):
    return {f"OMPI_MCA_btl_ib_{name}": str(value) for name, value in settings.items()}


def facts(output):
    """{(transport, name): {fact: value}} of text; of several devices of a name the first."""
    found = {}
    for line in output.splitlines():
        words = re.match(r"device (\S+) (.+) (\w+): (.*)", line)
        if words:
            transport, name, fact, value = words.groups()
            found.setdefault((transport, name), {}).setdefault(fact, value)
    return found


def test_info_devices(run, mpi, host):
    """What is known of a device, and why another is not used, is what a job says and does."""
    said = run.output(*host, *LINES, env=parameters(transport="udp"))
    job = mpi.alone(run, before=host, transport="udp")
    devices = facts(said)
    used = devices["udp", "fab0"]
    assert used["address"] == "10.254.253.1/24"
    assert used["mtu"] == "1400 bytes"
    assert used["driver"] == "veth"
    assert (used["used"], used["rail"]) == ("yes", "0")
    rail = re.search(r"rail 0 is udp/fab0: (\d+) bytes a datagram, .*queues (\S+)", job)
    assert rail, "the job took another device"
    assert (used["datagram"], used["queues"]) == (f"{rail[1]} bytes", rail[2])
    assert devices["udp", "fab1"] == {"used": "no", "reason": "it is down"}
    assert devices["udp", "lo"]["reason"] == "it reaches this host only, and there are others"
    if mpi.has("OFI"):
        assert devices["ofi", "fab0"]["reason"] == "btl_ib_transport is udp"
    assert "used devices: 1\n" in said


def test_info_parameters(run, host):
    """They count as in a job; what is wrong with them is told as there."""
    said = facts(run.output(*host, *LINES, env=parameters(receive_queues="P,4096,10")))
    assert said["udp", "fab0"]["queues"] == "P,4096,10,5,2,9"
    said = facts(run.output(*host, *LINES, env=parameters(
        receive_queues="P,4096,10", am_credits_slack=0)))
    assert said["udp", "fab0"]["queues"] == "P,4096,10,5,1,9"
    # An empty text is the default, as if nothing were set.
    default = facts(run.output(*host, *LINES))["udp", "fab0"]["queues"]
    said = facts(run.output(*host, *LINES, env=parameters(receive_queues="")))
    assert said["udp", "fab0"]["queues"] == default
    # Open MPI itself takes any time for 0, which would be less than btl_ib_rto_min.
    said = run.output(*host, *LINES, env=parameters(rto_max="300ms", mtu=1024))
    assert facts(said)["udp", "fab0"]["datagram"] == "992 bytes"
    said = run.output(*host, *LINES, env=parameters(if_exclude="fab0,lo"), ok=False)
    assert facts(said)["udp", "fab0"]["reason"] == "in btl_ib_if_exclude"
    assert "The ib BTL finds no device that it could use" in said
    assert "used devices: 0\n" in said
    said = run.output(*host, *LINES, env=parameters(port_min="3000ms"), ok=False)
    assert "btl_ib_port_min has a value that cannot be used" in said
    assert "device" not in said
    said = run.output(*host, INFO, env={"OMPI_MCA_btl_base_verbose": "10"})
    assert "btl:ib: rail 0 is udp/fab0" in said


def test_info_arguments(run, component):
    """What is wrong with them is told, and the status is that of it."""
    for arguments, wrong in (
        ("--nonsense", "--nonsense"),
        ("here", "here: this is no option"),
        ("--np 0", "--np 0: it is too small; 1 to"),
        ("--np 5x", "--np 5x: something follows the number"),
        ("--np", "--np"),
        ("--transport tcp", "--transport tcp: udp, ofi, ud, rc or verbs were right"),
        ("--ppn 4", "--ppn and --busy go with --queues"),
        ("--busy 4", "--ppn and --busy go with --queues"),
        ("--busy 0", "--busy 0: it is too small; 1 to"),
        ("--budget 0", "--budget 0: it is too small"),
        ("--budget 5q", "what follows the number is none of its units"),
        (9 * "--queues P,256,16 ", "these are more than 8"),
    ):
        assert run.status(INFO, *arguments.split()) == 2, arguments
        assert wrong in run.output(INFO, *arguments.split(), ok=False)
    said = run.output(INFO, "--queues", "P,256,16:X,1024,8", ok=False)
    assert "--queues P,256,16:X,1024,8: queue 2" in said


def test_info_help(run, component):
    """--help, its manual page and what options there are agree."""
    text = run.output(INFO, "--help")
    page = run.output("man", "-l", BUILD / "ib_info.1", env={"MANWIDTH": "200"})
    source = (ROOT / "info/ib_info.c").read_text()
    options = set(re.findall(r'\{"(\w+)", \w+_argument', source))
    assert options == set(re.findall(r"^  --(\w+)", text, re.M))
    assert options == set(re.findall(r"^ +--(\w+)", page, re.M))
    for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "OUTPUT", "EXIT STATUS"):
        assert f"\n{heading}\n" in page
    assert re.fullmatch(r"ib_info \d+\.\d+\.\d+\n", run.output(INFO, "--version"))


def cost(run, queues, transport, *words, ok=True, env=None):
    """{fact: bytes} of memory that these queues take; parts by their names."""
    arguments = ["--queues", queues, "--transport", transport, *words]
    output = run.output(*LINES, *arguments, ok=ok, env=env)
    lines = re.findall(rf"^memory {transport} \S+ (.+): (\d+)(?: bytes)?$", output, re.M)
    return {fact: int(value) for fact, value in lines}


def test_info_memory(run, component):
    """Queues of each peer grow with peers, shared ones do not; a node has so many processes; sums
    are those of the parts."""
    own, few = (cost(run, "P,65536,64", "rc", "--np", np, "--ppn", "4") for np in ("512", "2"))
    # 64 buffers, 7 for credits and 1 to connect with, of 64 KiB.
    assert own["process"] - few["process"] == pytest.approx(510 * 72 * 65536, rel=0.05)
    assert own["node"] == 4 * own["process"]
    for sizes, word in ((own, "held"), (few, "held"), (own, "most")):
        parts = [sizes[fact] for fact in sizes if re.match(f"part process, .*: {word}$", fact)]
        assert sum(parts) == sizes["process" if word == "held" else "process at most"]
    shared = cost(run, "S,65536,64", "rc", "--np", "512")
    assert shared["process"] < own["process"] / 100
    # 64 buffers of 64 KiB; 16 at first.
    assert shared["process at most"] >= shared["process"] + 48 * 65536
    # Over udp the queues are the socket's buffer, which the kernel has.
    udp = [cost(run, queues, "udp") for queues in ("P,1472,16", "P,1472,4096")]
    assert udp[0]["process"] == udp[1]["process"]
    assert udp[0]["kernel"] > 2 * 212992
    assert cost(run, "P,4096,64", "udp", env=parameters(socket_buffer=65536))["kernel"] == 2 * 2 * (
        65536 + 65536
    )


def test_info_channels(run, component):
    """Endpoints and completion queues as channels have them: their own, or all one."""
    queues = "P,256,64:P,1024,64:S,4096,64"
    for transport, settings, endpoints, completions in (
        ("ofi", {}, 1, 1),
        ("ofi", {"channels": "own"}, 3, 1),
        ("ofi", {"channels": "own", "cq": "own"}, 3, 3),
        ("ud", {}, 3, 1),
        ("ud", {"cq": "own"}, 3, 3),
        ("ud", {"channels": "shared", "cq": "own"}, 1, 1),
    ):
        said = cost(run, queues, transport, env=parameters(**settings))
        assert (said["endpoints"], said["completion queues"]) == (endpoints, completions), transport
    assert cost(run, queues, "rc", "--np", "11")["endpoints"] == 10 * (3 + 1)
    # The sends of each channel: 16 bytes more of a queue pair for each, its completion included.
    few, many = (cost(run, queues, "ud", env=parameters(send_depth=depths))["device"]
                 for depths in ("128", "128,256"))
    assert many - few == 2 * 64 * 2 * 128


def test_info_busy(run, component):
    """Over rc connections of peers that a process does not talk to cost nothing, but by the first
    queue; unless they are never closed."""
    queues, few = "P,256,128:P,8192,64", ("--np", "512", "--busy", "16")
    taken = {
        (busy, idle, keepalive): cost(
            run,
            queues,
            "rc",
            *(few if busy else few[:2]),
            env=parameters(rc_idle=idle, keepalive=keepalive),
        )
        for busy, idle, keepalive in ((0, 300, 30), (1, 300, 30), (1, 300, 0), (1, 0, 30))
    }
    part = [
        {
            number: next(
                size for name, size in sizes.items() if f", queue {number}: connections, " in name
            )
            for number in (1, 2)
        }
        for sizes in taken.values()
    ]
    for number, shares in ((1, (1, 1, 16 / 511, 1)), (2, (1, 16 / 511, 16 / 511, 1))):
        for sizes, share in zip(part, shares):
            assert sizes[number] == pytest.approx(share * part[0][number], rel=0.01)
    assert "busy" in run.output(INFO, *few, "--transport", "rc", "--queues", queues)


def test_info_memory_table(run, component):
    """The guide's table of memory against peers is what ib_info says."""
    page = (ROOT / "docs/guide/ib-info.md").read_text()
    rows = re.findall(r"^\|([\d,]+)\|" + 5 * r"([\d,.]+)\|" + "$", page, re.M)
    own, shared = re.search(r"P being `(\S+)` and S `(\S+)`", page).groups()
    assert [row[0] for row in rows][-1] == "1,000,000" and len(rows) == 6
    for peers, *told in rows:
        processes = str(int(peers.replace(",", "")) + 1)
        for value, transport, queues in zip(
            told, ("udp", "ud", "ud", "rc", "rc"), (own, own, shared, own, shared)
        ):
            taken = cost(run, queues, transport, "--np", processes)["process"]
            assert float(value.replace(",", "")) * 1e6 == pytest.approx(taken, rel=0.02)


def shown(value):
    """Bytes as tables show them."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("too many")


def test_info_tables(run, host):
    """People see each known fact of a device below its heading, and in the heading what becomes of
    it."""
    devices = facts(run.output(*host, *LINES))
    blocks = {}
    for block in re.split(r"\n(?=\S|\n)", run.output(*host, INFO)):
        heading = re.fullmatch(r"\n?(\S+) (.+?): (rail \d+|not used: .*)", block.split("\n  ")[0])
        if heading:
            rows = dict(re.findall(r"^  (\w+) +(.*)", block, re.M))
            blocks.setdefault((heading[1], heading[2]), (heading[3], rows))
    assert set(blocks) == set(devices)
    for name, expected in devices.items():
        heading, rows = blocks[name]
        used, rail, reason = (expected.pop(word, "") for word in ("used", "rail", "reason"))
        assert heading == (f"rail {rail}" if used == "yes" else f"not used: {reason}")
        assert rows == {fact: value for fact, value in expected.items() if value != "unknown"}


def test_info_queues(run, component):
    """People see a block for each string, with a row for each part of it; its figures are those of
    the lines."""
    strings = ("P,4096,64", "S,4096,64")
    words = [word for queues in strings for word in ("--queues", queues)]
    output = run.output(INFO, *words, "--np", "100", "--ppn", "3", "--transport", "rc")
    blocks = dict(re.findall(r"^rc (\S+) +now +at most\n((?:  .*\n)+)", output, re.M))
    assert set(blocks) == set(strings)
    for queues, block in blocks.items():
        rows = {name: sizes for name, *sizes in (re.split(r" {2,}", row.strip()) for row in block.splitlines())}
        alone = cost(run, queues, "rc", "--np", "100", "--ppn", "3")
        for name, sizes in rows.items():
            if name.startswith("part "):
                assert sizes == [shown(alone[f"{name}: {word}"]) for word in ("held", "most")], name
            elif name not in ("queues", "peers", "endpoints"):
                assert sizes == [shown(alone[name]), shown(alone[f"{name} at most"])], name
        assert len(rows) == 3 + (len(alone) - 2) / 2
    output = run.output(INFO, "--np", "100", "--transport", "rc", "--budget", "1G")
    said = run.output(*LINES, "--np", "100", "--transport", "rc", "--budget", "1G")
    queues, size = (re.search(rf"suggestion rc {fact}: (\S+)", said)[1] for fact in ("queues", "process"))
    assert f"\nrc: a process with 99 peers takes {shown(int(size))}\n" in output
    assert re.search(rf"^  queues +{re.escape(queues)}$", output, re.M)


def test_info_budget(run, component):
    """What is suggested fits, less gives less, and where nothing fits that is an error."""
    taken = []
    for budget in ("4G", "60M", "30M"):
        output = run.output(*LINES, "--budget", budget, "--np", "512", "--transport", "rc")
        queues = re.search("suggestion rc queues: (.*)", output)[1]
        taken.append(int(re.search(r"suggestion rc process: (\d+)", output)[1]))
        assert taken[-1] <= int(budget[:-1]) << {"M": 20, "G": 30}[budget[-1]]
        assert taken[-1] >= cost(run, queues, "rc", "--np", "512")["process"]
    assert taken == sorted(set(taken), reverse=True)
    # Of a process that talks to few of its peers at a time, as --busy says, as much as --queues tells.
    few, idle = ("--np", "512", "--busy", "16"), parameters(rc_idle=300)
    output = run.output(*LINES, "--budget", "4G", *few, "--transport", "rc", env=idle)
    queues, size = (re.search(rf"suggestion rc {fact}: (\S+)", output)[1] for fact in ("queues", "process"))
    assert int(size) == cost(run, queues, "rc", *few, env=idle)["process"] < taken[0] / 10
    output = run.output(INFO, "--budget", "1M", "--np", "512", "--transport", "rc", ok=False)
    assert re.search(r"no queues fit into 1048576 bytes of a process; the least takes \d{7,}", output)


def test_memory_report(run, mpi):
    """A job tells of its device what ib_info tells of the same queues."""
    queues = "P,256,128,64,32,7:P,1472,64,32,16,7"
    told = cost(run, queues, "udp", "--np", "3")
    settings = {"transport": "udp", "receive_queues": queues, "mtu": "1500", "memory_report": "1"}
    words = [word for name in settings for word in ("--mca", f"btl_ib_{name}", settings[name])]
    output = mpi.job(run, 3, "--mca", "btl", "ib,self", *words, mpi.program("ring"), "laps=1")
    lines = re.findall(
        r"memory of \w+: (\w+): (.*): (\d+) bytes now, (\d+) with 2 peers, (\d+) at most", output
    )
    said = {}
    for owner, what, now, then, most in lines:
        assert int(now) <= int(then) <= int(most)
        said[owner, what] = int(then), int(most)
    assert said["process", "all"] == (told["process"], told["process at most"])
    assert said["kernel", "all"] == (told["kernel"], told["kernel at most"])
    for fact in told:
        if part := re.match(r"part (\w+), (.*): held", fact):
            assert said[part[1], part[2]][0] == told[fact]
    assert output.count("process: all") == 1
    assert "memory of" not in mpi.job(
        run, 2, "--mca", "btl", "ib,self", mpi.program("ring"), "laps=1"
    )


def test_memory_max(run, mpi):
    """A limit that is passed is told once a host, with figures, and the job goes on; within a limit
    the device takes no more, and nothing is told."""

    def job(limit):
        settings = {"transport": "udp", "memory_report": "1", "memory_max": limit}
        words = [word for name in settings for word in ("--mca", f"btl_ib_{name}", settings[name])]
        output = mpi.job(run, 3, "--mca", "btl", "ib,self", *words, mpi.program("ring"), "laps=1")
        assert "OK ring" in output
        return output, int(re.search(r"process: all: .* (\d+) with 2 peers", output)[1])

    output, taken = job("3M")
    line = (
        rf"btl_ib: \w+: with 2 peers it takes {taken} bytes of each process with receive queues"
        rf" (\S+); btl_ib_memory_max leaves it {2**20}: \1 are used, with which it takes {taken},"
        r" as none take less$"
    )
    assert len(re.findall(line, output, re.M)) == 1
    output, taken = job(f"{3 * taken}")
    assert "btl_ib_memory_max" not in output
    output, taken = job("50%")
    assert "btl_ib_memory_max" not in output


def examples():
    """(command, lines that it prints) of the guide."""
    for command, lines in re.findall(r"^```console by test_info.py\n\$ (.*)\n((?:(?!```).*\n)*)", GUIDE.read_text(), re.M):
        yield command, lines.splitlines()


def test_info_guide(run, host):
    """Its examples print what is written there, of which ... may be anything; a line of it any
    lines."""
    assert len(list(examples())) > 5
    for command, expected in examples():
        said = run.output(*host, "sh", "-c", f'PATH="{BUILD}:$PATH"; {command}', ok=None)
        pattern = "\n".join(
            "(?:.*\n)*?.*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*")
            for line in expected
        )
        assert re.search(f"^{pattern}\n", said, re.M), f"{command} does not print that"
