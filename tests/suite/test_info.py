# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""ib_info: what it says of devices, beside what a job does with them; its arguments; its page; the
examples of docs/guide/ib-info.md."""

import json
import os
import re

import pytest

from runner.places import BUILD, ROOT

pytestmark = pytest.mark.mpi
INFO = BUILD / "ib_info"
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
    said = run.output(*host, INFO, env=parameters(transport="udp"))
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


def test_info_json(run, host):
    """The same facts, by a parser that is not ours."""
    text = facts(run.output(*host, INFO))
    said = json.loads(run.output(*host, INFO, "--json"))
    assert said["used_devices"] == 1
    assert "udp" in said["transports"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", said["version"])
    seen = set()
    for device in said["devices"]:
        transport = "/".join(word for word in (device["transport"], device["wire"]) if word)
        if not device["name"] or (transport, device["name"]) in seen:
            continue
        seen.add((transport, device["name"]))
        beside = text[transport, device["name"]]
        for fact, value in device.items():
            if fact not in ("transport", "wire", "name"):
                words = {"True": "yes", "False": "no", "None": "unknown"}
                shown = words.get(str(value), str(value))
                assert beside[fact].removesuffix(" bytes").removesuffix(" Mbit/s") == shown
    assert seen == set(text)


def test_info_parameters(run, host):
    """They count as in a job; what is wrong with them is told as there."""
    said = facts(run.output(*host, INFO, env=parameters(receive_queues="P,4096,10")))
    assert said["udp", "fab0"]["queues"] == "P,4096,10,5,2,9"
    # Open MPI itself takes any time for 0, which would be less than btl_ib_rto_min.
    said = run.output(*host, INFO, env=parameters(rto_max="300ms", mtu=1024))
    assert facts(said)["udp", "fab0"]["datagram"] == "992 bytes"
    said = run.output(*host, INFO, env=parameters(if_exclude="fab0,lo"), ok=False)
    assert facts(said)["udp", "fab0"]["reason"] == "in btl_ib_if_exclude"
    assert "The ib BTL finds no device that it could use" in said
    assert "used devices: 0\n" in said
    said = run.output(*host, INFO, env=parameters(port_min="3000ms"), ok=False)
    assert "btl_ib_port_min has a value that cannot be used" in said
    assert "device" not in said
    said = run.output(*host, INFO, env={"OMPI_MCA_btl_base_verbose": "10"})
    assert "btl:ib: rail 0 is udp/fab0" in said


def test_info_table(run, host, tmp_path):
    """A table of the user's that is wrong, or not there."""
    table = tmp_path / "table.ini"
    table.write_text("[card]\nvendor_id = 1\nvendor_part_id = any\nwire = nonsense\n")
    said = run.output(*host, INFO, env=parameters(device_param_files=table), ok=False)
    assert "nonsense" in said
    assert not facts(said)


def test_info_arguments(run, component):
    """What is wrong with them is told, and the status is that of it."""
    for arguments, wrong in (
        ("--nonsense", "--nonsense"),
        ("here", "here: this is no option"),
        ("--np 0", "--np 0: it is too small; 1 to"),
        ("--np 5x", "--np 5x: something follows the number"),
        ("--np", "--np"),
    ):
        assert run.status(INFO, *arguments.split()) == 2
        assert wrong in run.output(INFO, *arguments.split(), ok=False)


def test_info_help(run, component):
    """--help, its manual page and what options there are agree."""
    text = run.output(INFO, "--help")
    page = run.output("man", "-l", BUILD / "ib_info.1", env={"MANWIDTH": "200"})
    source = (ROOT / "info/btl_ib_info_args.c").read_text()
    options = set(re.findall(r'^        \{"(\w+)", \w+_argument', source, re.M))
    assert options == set(re.findall(r"^  --(\w+)", text, re.M))
    assert options == set(re.findall(r"^ +--(\w+)", page, re.M))
    for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "OUTPUT", "EXIT STATUS"):
        assert f"\n{heading}\n" in page
    assert re.fullmatch(r"ib_info \d+\.\d+\.\d+\n", run.output(INFO, "--version"))


def examples():
    """(command, lines that it prints) of the guide: blocks that begin with a $."""
    for block in re.findall(r"(?:^    .*\n)+", GUIDE.read_text(), re.M):
        lines = [line[4:] for line in block.splitlines()]
        if lines[0].startswith("$ "):
            yield lines[0][2:], lines[1:]


def test_info_guide(run, host):
    """Its examples print what is written there, of which ... may be anything."""
    assert len(list(examples())) > 5
    for command, expected in examples():
        said = run.output(*host, "sh", "-c", f'PATH="{BUILD}:$PATH"; {command}', ok=None)
        pattern = r"\n".join(re.escape(line).replace(r"\.\.\.", ".*") for line in expected)
        assert re.search(f"^{pattern}\n", said, re.M), f"{command} does not print that"
