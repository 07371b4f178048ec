# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""tools/site-report: what is in the report, what is not, and what fails."""

import os
import re

import pytest

from runner.places import BUILD, ROOT

pytestmark = [pytest.mark.mpi, pytest.mark.limit(90)]
REPORT = ROOT / "tools/site-report"
# Of a site that is not there: an agent whose hosts have all that is asked for, and jobs that say much.
AGENT = """#!/bin/sh
case $2 in *"${HANGS-hangs}"*) exec sleep 60 ;; esac
case $2 in *"hostname -f"*)
    echo "$1"
    echo "$1.cluster.example.org"
    echo "2: eth0    inet 20.0.0.7/24 brd 20.0.0.255 scope global eth0" ;;
esac
"""
MPIRUN = """#!/bin/sh
case $* in
*/ring*) echo "no route from nodea to nodeb.cluster.example.org"; exit 3 ;;
*/anysource*) exec sleep 60 ;;
*/datatypes*) seq 500; exit 4 ;;
*/atomics*) echo nothing; exit 0 ;;
esac
echo "[nodea:123] btl:ib: rail 0: jane on nodea, 20.0.0.7, 52:54:00:12:34:56, fe80::5054:ff:fe12:3456, /home/jane/x,"
echo "[nodea:123] btl:ib: rail 0: TREE/build, secret, running 1.14.44.0, Jane, janes, 10.1.2.3, 2001:4860::8888, p:jane"
echo "[nodea:123] btl:ib: rail 1: 198.41.0.4:53, 198.41.0.4-198.41.0.9, 127.0.0.1, 169.254.3.4, 255.255.255.0, 1.2.3.4.5,"
echo "[nodea:123] btl:ib: rail 1: version 1.14.44.0, firmware-version: 8.30.0.1, built with libibverbs 1.14.44.0, 300.1.2.3"
echo "btl_ib: rank 0 host nodea sent 7 segments"
for program in "$@"; do :; done
echo "OK randsize alltoall onesided"
"""

LIBRARY = """build=${BASH_SOURCE[0]%/*}/../build
build_component() { : >"$build/env.sh"; }
job_environment() { . "$build/env.sh"; }
"""


@pytest.fixture
def site(run, component, tmp_path):
    """Runs it for that site; returns what the report has."""
    for name, text in (("agent", AGENT), ("mpirun", MPIRUN.replace("TREE", str(ROOT)))):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    def report(*words, hosts="nodea,nodeb", ok=True, **environment):
        file = tmp_path / "report.txt"
        run.output(REPORT, "--agent", tmp_path / "agent", "--mpirun", tmp_path / "mpirun", "--output", file,
                   *words, hosts, ok=ok, env={"LOGNAME": "jane", "USER": "jane", "HOME": "/home/jane", **environment})
        return file.read_text()

    return report


def test_site_report_names(site):
    """Nobody and nothing of theirs is named, and what stands for it is always the same."""
    said = site("--what", "hello", "--transports", "udp", "--hide", "secret")
    lines = re.findall(r"btl:ib: rail \d: (.*)", said)
    assert lines == [
        "user on host1, address1, mac1, address4, HOME/x,",
        "BTL_IB/build, hidden1, running 1.14.44.0, Jane, janes, 10.1.2.3, address5, p:user",
        "address2:53, address2-address3, 127.0.0.1, 169.254.3.4, 255.255.255.0, 1.2.3.4.5,",
        "version 1.14.44.0, firmware-version: 8.30.0.1, built with libibverbs 1.14.44.0, 300.1.2.3",
    ]
    assert "[host1:123]" in said and "rank 0 host host1 sent 7" in said
    assert not re.search("node[ab]|cluster|example", said)


def test_site_report_failures(site):
    """What fails is named at the beginning, and its log is there, cut in the middle; the rest goes on, each way has its
    turn with each program, and what finds no time is named in one line."""
    said = site("--what", "hello,data", "--transports", "udp,ud", "--limit", "6", ok=False)
    head, *parts = said.split("\n== ")
    assert re.search(r"^ok +\d+ s  hello over udp$", head, re.M)
    for way in ("udp", "ud"):
        assert re.search(rf"^FAILED +\d+ s  ring over {way}: status 3$", head, re.M)
    assert re.search(r"^FAILED +\d+ s  anysource over udp: ended after \d s, as the time for all was over", head, re.M)
    assert re.search(r"^not run, as no time was left: .*, atomics over udp, atomics over ud$", head, re.M)
    assert not [part for part in parts if part.startswith("atomics")]
    (ring,) = (part for part in parts if part.startswith("ring over udp"))
    assert ring.startswith("ring over udp: FAILED: status 3\n\nno route from host1 to host2.domain")


def test_site_report_hangs(site):
    """Where ib_info hangs, as a driver may, the report says so, and the other ways are tried."""
    said = site("--what", "hello", "--transports", "udp,ud", "--limit", "8", ok=False, HANGS="ib_wire=ud")
    assert "\n2 hosts; transports and wires: udp\n" in said
    assert re.search(r"^FAILED +2 s  ib_info for ud on host1: ended after 2 s$", said, re.M)
    assert re.search(r"^ok +\d+ s  hello over udp$", said, re.M)


def test_site_report_logs(site, run, tmp_path):
    """Of a long log both ends; a program that ends well without its OK has failed."""
    (tmp_path / "sleep").write_text("#!/bin/sh\n")
    (tmp_path / "sleep").chmod(0o755)
    said = site("--what", "data", "--transports", "rc", ok=False, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert "\n60\n[380 lines left out]\n441\n" in said
    assert "atomics over rc: FAILED: no OK from atomics\n\nnothing\n" in said
    assert re.search(r"^ok +\d+ s  randsize over rc$", said, re.M)
    assert run.status(REPORT, "--what", "nothing") == 2
    assert "nothing: no nothing; facts" in run.output(REPORT, "--what", "nothing", ok=False)
    assert "one host or two" in run.output(REPORT, "a,b,c", ok=False)
    for agent, problem in (("false", "n1 cannot be reached: false n1:"), ("none-such", "No such file")):
        assert problem in run.output(REPORT, "--agent", agent, "--output", tmp_path / "x", "n1,n2", ok=False)


def test_site_report_builds(run, tmp_path):
    """Programs without build/env.sh, as after a quickstart that was interrupted and a make, are no build yet."""
    for name, text in (("tools/site-report", REPORT.read_text()), ("tools/lib.sh", LIBRARY),
                       ("build/plugin/mca_btl_ib.so", ""), ("build/tests/mpi/ring", "")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    words = "python3", tmp_path / "tools/site-report", "--agent", "false", "--output", tmp_path / "x", "n1,n2"
    assert "n1 cannot be reached" in run.output(*words, ok=False)


@pytest.mark.full
def test_site_report(run, mpi, hosts, tmp_path):
    """Of two hosts: what they are, what ib_info and ib_doctor say, a first job over ib."""
    if not hosts:
        pytest.skip("several hosts need root")
    nshosts, file = ROOT / "tools/nshosts", tmp_path / "report.txt"
    words = (REPORT, "--transports", "udp,ud", "--agent", f"{nshosts} rsh", "--mpirun", f"{nshosts} run",
             "--output", file, f"{hosts}1,{hosts}2")
    run.output(*words, "--what", "facts,info,doctor,hello", env={**mpi.environment, "NSPFX": hosts})
    said = file.read_text()
    assert "\n2 hosts; transports and wires: udp\n" in said
    assert hosts not in said and str(BUILD) not in said
    for heading in ("host1", "host2", "Open MPI", "ib_info on host1", "ib_info on host2", "ib_doctor", "hello over udp"):
        assert f"\n== {heading}\n" in said
    assert "udp eth0: rail 0" in said and "OK    host2  device: udp eth0" in said
    assert len(re.findall(r"^btl_ib: rank \d host host[12] sent [1-9]", said, re.M)) == 2
    # Where nothing can be used the report says that.
    run.output(*words, "--what", "hello", ok=False, env={**mpi.environment, "NSPFX": hosts, "OMPI_MCA_btl_ib_if_include": "eth7"})
    assert re.search("^FAILED +0 s  transports: the hosts have none in common$", file.read_text(), re.M)
