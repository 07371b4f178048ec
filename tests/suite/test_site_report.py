# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""ib_site_report: what is in the report, what is not, and what fails."""

import os
import re
import runpy
import shutil
import subprocess

import pytest

from runner.places import BUILD, ROOT

pytestmark = [pytest.mark.mpi, pytest.mark.limit(90)]
REPORT = ROOT / "info/ib_site_report"
LOADED = runpy.run_path(str(REPORT), run_name="loaded")
# Of a site that is not there: an agent whose hosts have all that is asked for, and jobs that say much.
AGENT = """#!/bin/sh
echo "Welcome to the cluster of Example University"
echo sunshine
echo "Whatever you do is recorded" >&2
[ "$1" != "$AWAY" ] || { echo "$1: nobody answers" >&2; exit 255; }
script=$(cat)
[ -z "$SEEN" ] || echo "$2: $script" >>"$SEEN"
echo "ib_site_report: begins"
case $script in *"${STOPS-stops}"*) kill -TERM $PPID; exec sleep 60 ;; esac
case $script in *"${HANGS-hangs}"*) exec sleep 60 ;; esac
case $script in
*"hostname -f"*)
    echo "name $1"
    echo "name $1.${DOMAIN-cluster.example.org}"
    echo "2: eth0    inet 20.0.0.7/24 brd 20.0.0.255 scope global eth0" ;;
*"${FAILS-fails}"*) echo "ib_info: libmpi.so.40: no such file"; exit 127 ;;
*parsable*)
    echo "transport any used: yes"
    echo "used devices: 1" ;;
esac
"""
MPIRUN = """#!/bin/sh
[ -z "$SEEN" ] || echo "mpirun $*, agents $OMPI_MCA_plm_rsh_agent and $PRTE_MCA_plm_ssh_agent" >>"$SEEN"
case $* in *"${BREAKS-breaks}"*) echo "ssh: Could not resolve hostname nodeb"; exit 1 ;; esac
case $* in
*/ring*) echo "Whatever you do is recorded"; echo "no route from nodea to nodeb.cluster.example.org"; exit 3 ;;
*/anysource*) exec sleep 60 ;;
*/datatypes*) seq 500; exit 4 ;;
*/atomics*) echo nothing; exit 0 ;;
esac
echo "[nodea:123] btl:ib: rail 0: jane on nodea, 20.0.0.7, 52:54:00:12:34:56, fe80::5054:ff:fe12:3456, /home/jane/x,"
echo "[nodea:123] btl:ib: rail 0: TREE/build, secret, running 1.14.44.0, Jane, janes, 10.1.2.3, 2001:4860::8888, p:jane"
echo "[nodea:123] btl:ib: rail 1: 198.41.0.4:53, 198.41.0.4-198.41.0.9, 127.0.0.1, 169.254.3.4, 255.255.255.0, 1.2.3.4.5,"
echo "[nodea:123] btl:ib: rail 1: version 1.14.44.0, firmware-version: 8.30.0.1, built with libibverbs 1.14.44.0, 300.1.2.3"
echo "btl_ib: rank 0 host nodea sent 7 segments"
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
        report.said = run.output(REPORT, "--agent", tmp_path / "agent", "--mpirun", tmp_path / "mpirun", "--output", file,
                                 *words, hosts, ok=ok, env={"LOGNAME": "jane", "USER": "jane", "HOME": "/home/jane", **environment})
        return file.read_text()

    return report


def test_site_report_names(site):
    """Nobody and nothing of theirs is named, and what stands for it is always the same."""
    said = site("--what", "hello", "--transports", "udp", "--hide", "secret")
    lines = re.findall(r"btl:ib: rail \d: (.*)", said)
    assert lines == [
        "user on host1, address1, mac1, link-local1, HOME/PATH1,",
        "BTL_IB/build, hidden1, running 1.14.44.0, user, janes, 10.1.2.3, address4, p:user",
        "address2:53, address2-address3, 127.0.0.1, 169.254.3.4, 255.255.255.0, 1.2.3.4.5,",
        "version 1.14.44.0, firmware-version: 8.30.0.1, built with libibverbs 1.14.44.0, 300.1.2.3",
    ]
    assert "[host1:123]" in said and "rank 0 host host1 sent 7" in said
    assert not re.search("node[ab]|cluster|example", said)


# Of hosts with their domain: lines, and what the report has of them.
HIDES = {
    "nodes": ("node1,node2", "ib", (
        ("NODE1 and node1.ib, node17.ib, Node22", "host1 and host1.domain, otherhost1.domain, otherhost2"),
        ("node[001-004,7], node1x, anode1, node", "otherhosts1, node1x, anode1, node"),
        ("btl_ib, --mca btl.ib, mca_btl_ib.so, 5.0, ib", "btl_ib, --mca btl.domain, mca_btl_ib.so, 5.0, ib"),
        ("Jane JANE jane_x /usr/lib/jane, jane.doe@mail.example.org", "user user user_x /usr/lib/user, mail1"),
    )),
    "local": ("node1,node2", "local", (
        ("node1.local: locality, transport/local/local.c, localhost", "host1.domain: locality, transport/local/local.c, localhost"),
    )),
    "domain": ("n1,n2", "cluster.example.org", (
        ("n1.Cluster.Example.org n2.other.example.org", "host1.domain host2.domain"),
        ("n1-ib0.cluster.example.org login-ib0.cluster.example.org", "host1-ib0.domain domain"),
        ("www.example.org example.org. myexample.org", "domain domain. myexample.org"),
        ("n2 N1 n3 p50", "host2 host1 n3 p50"),
    )),
    "letters": ("A,B", "ib", (
        ("A device of B on host B fails: [A:123] and [B:5]", "A device of B on host host2 fails: [host1:123] and [host2:5]"),
        ("OK    A eth0 -> B eth0  route: A to B", "OK    host1 eth0 -> host2 eth0  route: A to B"),
        ("BAD   A - B  network: a B", "BAD   host1 - host2  network: a B"),
        ("A: no route; -H A:2,B:2; Local host: A", "host1: no route; -H host1:2,host2:2; Local host: host1"),
        ("A.ib B.lan A.B", "host1.domain B.lan A.B"),
    )),
    "devices": ("ib1,node", "ib", (
        ("ib0 ib1 --map-by node, on host ib1, [node:5]", "ib0 ib1 --map-by node, on host host1, [host2:5]"),
    )),
    "hardware": ("nodea,nodeb", "ib", (
        ("enx0050b6abcdef, 00:50:B6:ab:cd:ef, wlx0050b6abcde0", "enxmac1, mac1, wlxmac2"),
        ("0x0050b60300abcdef, 0050:b603:00AB:cdef, 0xfffffffffffff000", "guid1, guid1, 0xfffffffffffff000"),
        ("0000:0000:0000:0000:0000:ffff:0808:0808 8.8.8.8 ::ffff:10.1.2.3", "address1 address1 ::ffff:10.1.2.3"),
        ("FE80::0250:B6ff:feab:cdef 0x00007f0012345678 0x7f0012345678", "link-local1 0x00007f0012345678 0x7f0012345678"),
        ("udp:eth0 on fe80::/64, on node nodea-ib0.ib, prefix fe80::", "udp:eth0 on fe80::/64, on node host1-ib0.domain, prefix fe80::"),
    )),
    "paths": ("nodea,nodeb", "ib", (
        ("/gpfs/p/smith/bin/mpirun -I/gpfs/p/smith/include:/scratch/smith", "PATH1/mpirun -IPATH2:PATH3"),
        ('"/opt/openmpi/5.0.7/lib" /usr/bin/mpirun /dev/infiniband/uverbs0 /tmp', None),
        ("(/gpfs/p/smith/lib/libmpi.so.40), file:///scratch/smith. /tmp/ompi.nodea.0/x",
         "(PATH4/libmpi.so.40), file:PATH3. PATH5"),
        ("and/or GB/s, kB /s, 10.1.0.0/16 fd00::/64 https://github.com/open-mpi/ompi s/^x/y/ ../a/b <device>/ports/<port>/x", None),
        ("no file '/data/Smith Group/x' in ~smith/x", "no file 'PATH6' in PATH7"),
        ("/home/jane /home/jane/x /home/janet/x /work/../home/jane/x", "HOME HOME/PATH8 PATH9 PATH10"),
    )),
}


@pytest.mark.parametrize("what", [pytest.param(name, id=f"site_report_hides/{name}") for name in HIDES])
def test_site_report_hides(what):
    """What is found by its shape, or as a word in whatever case; and what only looks like it stays (None)."""
    hosts, domain, lines = HIDES[what]
    names = LOADED["Names"]()
    names.add("jane", "user")
    names.add_path("/home/jane", "HOME")
    for number, host in enumerate(hosts.split(","), 1):
        names.add_host(f"{host}.{domain}", f"host{number}")
    assert [names.hide(line) for line, _ in lines] == [hidden or line for line, hidden in lines]


def test_site_report_others(monkeypatch, tmp_path):
    """Hosts that a job has besides the two, and those that are called like any of these."""
    (tmp_path / "nodes").write_text("gpu7\ngpu7\nnode1\n")
    monkeypatch.setenv("PBS_NODEFILE", str(tmp_path / "nodes"))
    names = LOADED["Names"]()
    names.add_host("node1", "host1")
    LOADED["names_of_others"](names, ["node1", "login.site.org"])
    hidden = "host1 otherhost1 otherhost2 otherhost3 otherhosts1 otherhost4"
    assert names.hide("node1 LOGIN gpu7 gpu8 gpu[1-3] node20") == hidden


def test_site_report_settings(site, tmp_path):
    """Hosts and jobs have what finds libraries, and what rules them; whatever shell the user has, as none sees it."""
    site("--what", "hello", "--transports", "udp", SEEN=str(tmp_path / "seen"), LD_LIBRARY_PATH="/usr/lib/x y!",
         FI_PROVIDER="udp;ofi_rxd")
    seen = (tmp_path / "seen").read_text()
    assert "sh -s: export " in seen and "export FI_PROVIDER='udp;ofi_rxd'\n" in seen
    assert "\nexport LD_LIBRARY_PATH='/usr/lib/x y!'\n" in seen and "export OMPI_MCA_" in seen
    (starts, job) = re.findall("^mpirun (.*)", seen, re.M)
    assert "-H nodea:1,nodeb:1 -x " not in starts and " hostname, agents " in starts
    assert "-x LD_LIBRARY_PATH" in job and "-x FI_PROVIDER" in job
    # mpirun reaches hosts as the report itself does.
    assert job.endswith(f", agents {tmp_path}/agent and {tmp_path}/agent")


def test_site_report_failures(site):
    """What fails is named at the beginning, and its log is there, cut in the middle; the rest goes on, each way has its
    turn with each program, and what finds no time is named in one line."""
    said = site("--what", "hello,data", "--transports", "udp,ud", "--limit", "6", ok=False)
    head, *parts = said.split("\n== ")
    assert re.search(r"^ok +\d+ s  hello over udp$", head, re.M)
    for way in ("udp", "ud"):
        assert re.search(rf"^FAILED +\d+ s  ring over {way}: status 3$", head, re.M)
    assert re.search(r"^CUT +\d+ s  anysource over udp: ended after \d s, as its share of the time was over", head, re.M)
    assert re.search(r"^not run, as no time was left: .*, atomics over udp, atomics over ud$", head, re.M)
    assert not [part for part in parts if part.startswith("atomics")]
    (ring,) = (part for part in parts if part.startswith("ring over udp"))
    assert ring.startswith("ring over udp: FAILED: status 3\n\n[what a host says at login]\nno route from host1 to host2.domain")


def test_site_report_shares(site):
    """Programs that hang leave time for figures."""
    said = site("--what", "data,bench", "--transports", "udp", "--limit", "8", ok=False)
    assert re.search(r"^not run, as no time was left: datatypes over udp, .*, atomics over udp$", said, re.M)
    assert re.search(r"^(FAILED|CUT) +\d+ s  bench of udp: ", said, re.M)


def test_site_report_one_cause(site, tmp_path):
    """Where mpirun starts nothing, or the first job over a way fails, that is one line, and what wants it is not run."""
    said = site(ok=False, BREAKS="hostname")
    assert re.findall(r"^FAILED +\d+ s  (.*)", said, re.M) == ["mpirun starts processes: status 1"]
    assert "\n\nssh: Could not resolve hostname host2\n" in said
    assert "\nnot run, as mpirun starts no processes: hello, data, bench\n" in said
    said = site("--what", "hello,data", "--transports", "udp,ud", "--limit", "8", ok=False, BREAKS="--hello",
                SEEN=str(tmp_path / "seen"))  # fmt: skip
    failed = re.findall(r"^FAILED +\d+ s  (.*)", said, re.M)
    assert failed == ["hello over udp: status 1", "hello over ud: status 1"]
    assert "\nnot run, as hello over udp failed: data over udp\n" in said
    assert "/ring" not in (tmp_path / "seen").read_text()


def test_site_report_clock(site):
    """The seconds that it says are left never grow."""
    site("--what", "hello,data,bench", "--transports", "udp", "--limit", "5", ok=False)
    left = [int(each) for each in re.findall(r"\((\d+) s left\)", site.said)]
    assert len(left) > 4 and left == sorted(left, reverse=True)


def test_site_report_absent(tmp_path):
    """A program that only tells more is not missed by a shell's error."""
    said = subprocess.run(["/bin/sh", "-s"], input=LOADED["FACTS"], env={"PATH": "/nowhere"}, capture_output=True, text=True,
                          check=False).stdout  # fmt: skip
    for name in ("fi_info", "ucx_info"):
        if not shutil.which(name, path="/usr/sbin:/sbin"):
            assert f"\n{name} is not installed: ib does not need it" in said and f"{name}: not found" not in said
    # A small system has these, and no more.
    for name in "sh awk basename cat dpkg env grep head ls nproc sed sort timeout uname uniq".split():
        (tmp_path / name).symlink_to(shutil.which(name))
    facts = LOADED["FACTS"].replace("PATH=$PATH:/usr/sbin:/sbin\n", "")
    said = subprocess.run(["/bin/sh", "-s"], input=facts, env={"PATH": str(tmp_path)}, capture_output=True, text=True,
                          check=False).stdout  # fmt: skip
    assert "rmem_max" in said and "lspci is not installed" in said and "not found" not in said


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
    for agent, problem in (("false", "not reached: status 1"), ("none-such", "none-such: No such file")):
        assert problem in run.output(REPORT, "--agent", agent, "--output", tmp_path / "x", "n1,n2", ok=False)


def test_site_report_builds(run, tmp_path):
    """Programs without build/env.sh, as after a quickstart that was interrupted and a make, are no build yet."""
    for name, text in (("info/ib_site_report", REPORT.read_text()), ("tools/lib.sh", LIBRARY),
                       ("btl_ib.h", '#define BTL_IB_VERSION "0"'), ("build/plugin/mca_btl_ib.so", ""), ("build/tests/mpi/ring", "")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    words = "python3", tmp_path / "info/ib_site_report", "--agent", "false", "--output", tmp_path / "x", "n1,n2"
    assert "FAILED: host1 is there: not reached: status 1" in run.output(*words, ok=False)
    # Where it cannot be built that is in the report.
    (tmp_path / "tools/lib.sh").write_text(LIBRARY.replace(": >", "echo no compiler in /home/x/y >&2; exit 9; : >"))
    (tmp_path / "build/env.sh").unlink()
    run.output(*words, ok=False)
    assert "build: FAILED: status 9\n\nno compiler in PATH1\n" in (tmp_path / "x").read_text()
    # An earlier report stays until there is something for another.
    (tmp_path / "tools/lib.sh").write_text(LIBRARY.replace(": >", "kill -TERM $PPID; sleep 60; : >"))
    assert "stopped before anything was looked at\n" in run.output(*words, ok=False)
    assert "build: FAILED: status 9\n" in (tmp_path / "x").read_text() and not (tmp_path / "x.new").exists()


def test_site_report_one_away(site):
    """Where one host is not reached the report says so, and has what the other one can tell. The same of an ib_info that
    fails."""
    said = site("--what", "facts,hello,doctor", "--transports", "udp", ok=False, AWAY="nodea")
    assert "\n1 host; transports and wires: udp\n" in said
    assert "host1 is there: FAILED: not reached: status 255\n\nhost1: nobody answers\n" in said
    for name in ("host2 is there", "host2", "hello over udp", "ib_doctor"):
        assert re.search(rf"^ok +\d+ s  {name}$", said, re.M)
    said = site("--what", "hello", "--transports", "udp,ud", ok=False, FAILS="ib_wire=ud")
    assert "ib_info for ud on host1: FAILED: status 127\n\nib_info: libmpi.so.40: no such file\n" in said
    assert re.search(r"^ok +\d+ s  hello over udp$", said, re.M)


def test_site_report_stopped(site):
    """A signal ends it with what there is."""
    for at, name in (("hostname -f", "host1 is there"), ("ib_wire=ud", "ib_info for ud on host1")):
        said = site("--transports", "udp,ud", ok=False, STOPS=at)
        assert f"{name}: stopped by a signal\n" in said


@pytest.fixture
def two_hosts(run, mpi, hosts, tmp_path):
    """Runs it for two hosts; returns what the report has."""
    nshosts, file = ROOT / "tools/nshosts", tmp_path / "report.txt"

    def report(*words, ok=True, program=REPORT, second=2, **environment):
        report.said = run.output(
            program, "--agent", f"{nshosts} rsh", "--mpirun", f"{nshosts} run", "--output", file, *words,
            f"{hosts}1,{hosts}{second}", ok=ok, env={**mpi.environment, "NSPFX": hosts, **environment})  # fmt: skip
        return file.read_text()

    return report


@pytest.mark.full
def test_site_report(two_hosts, hosts):
    """Of two hosts: what they are, what ib_info and ib_doctor say, a first job over ib."""
    ways = "--transports", "udp,ud"
    said = two_hosts(*ways, "--what", "facts,info,doctor,hello")
    assert "\n2 hosts; transports and wires: udp\n" in said
    assert hosts not in said and str(BUILD) not in said
    for heading in ("host1", "host2", "Open MPI", "ib_info on host1", "ib_info on host2", "ib_doctor", "hello over udp"):
        assert f"\n== {heading}\n" in said
    assert "udp eth0: rail 0" in said and "OK    host2  device: udp eth0" in said
    assert len(re.findall(r"^btl_ib: rank \d host host[12] sent [1-9]", said, re.M)) == 2
    # Where nothing can be used the report says that.
    said = two_hosts(*ways, "--what", "hello", ok=False, OMPI_MCA_btl_ib_if_include="eth7")
    assert re.search("^FAILED +0 s  transports: the hosts have none in common$", said, re.M)


@pytest.mark.full
def test_site_report_joined(two_hosts, run, mpi, hosts):
    """Of two hosts between which joined datagrams vanish: the report begins with what failed, and says so."""
    environment = {**mpi.environment, "NSPFX": hosts}
    run.output(ROOT / "tools/nsbad", "hole", "1600", env=environment)
    try:
        said = two_hosts("--transports", "udp", "--what", "doctor", ok=False)
    finally:
        run.output(ROOT / "tools/nsbad", "off", env=environment)
    assert re.search(r"^FAILED +\d+ s  ib_doctor: status 1$", said.split("\n== ")[0], re.M)
    for ends in ("host1 eth0 -> host2 eth0", "host2 eth0 -> host1 eth0"):
        assert re.search(f"^BAD   {ends}  joined datagrams: single ones of 1472 bytes arrive, but joined ones "
                         rf"\(UDP_SEGMENT\) vanish on the way from 2944 bytes on; fix: on {ends[:5]}, ethtool -K eth0", said, re.M)


@pytest.mark.full
def test_site_report_installed(two_hosts, run, mpi, tmp_path):
    """What `make install` leaves needs nothing of the source: it ends well with all parts that it
    has, says which it has not, and which host it does not reach, or is without ib."""
    run("make", "install", f"DESTDIR={tmp_path}", cwd=BUILD)
    (program,) = tmp_path.rglob("ib_site_report")
    (component,) = tmp_path.rglob("mca_btl_ib.so")
    (name,) = (each for each in mpi.environment if each.endswith("mca_base_component_path"))
    installed = {name: f"{component.parent}:SYS_DEFAULT:USER_DEFAULT"}
    said = two_hosts("--transports", "udp", program=program, **installed)
    assert "\n2 hosts; transports and wires: udp\n" in said and "FAILED" not in said
    for heading in ("host2", "Open MPI", "ib_info on host2", "ib_doctor", "hello over udp"):
        assert f"\n== {heading}\n" in said
    assert len(re.findall(r"^btl_ib: rank \d host host[12] sent [1-9]", said, re.M)) == 2
    assert len(re.findall(r"^rank [01] of 2: the sum of all ranks is 1$", said, re.M)) == 2
    assert "\ndata and bench want the source of ib " in said and str(tmp_path) not in said
    assert "data and bench want the source" in run.output(program, "--what", "hello,data", ok=False)
    only = "--transports", "udp", "--what", "hello"
    said = two_hosts(*only, program=program, second=9, ok=False, **installed)
    assert re.search(r"^FAILED +\d+ s  host2 is there: not reached: ", said, re.M)
    assert re.search(r"^ok +\d+ s  hello over udp$", said, re.M)
    agent = tmp_path / "agent"  # to a host that has the system's files, and not these
    agent.write_text(f"#!/bin/sh\nexec {ROOT}/tools/nshosts rsh"
                     f' "$1" "mount -t tmpfs none {tmp_path}/usr; $2"\n')  # fmt: skip
    agent.chmod(0o755)
    said = two_hosts(*only, "--agent", agent, program=program, ok=False, **installed)
    assert "host1 is there: it has no BTL_IB/ib_info: all hosts want ib at the same place\n" in said


@pytest.mark.full
@pytest.mark.limit(180)
def test_site_report_data(two_hosts):
    """Of two hosts: each program has checked its data over each transport."""
    said = two_hosts("--transports", "udp,ofi", "--what", "data")
    for name, *_ in LOADED["CHECKS"]:
        for way in ("udp", "ofi"):
            assert f"\n== {name} over {way}\n\nOK {name} (" in said


@pytest.mark.full
@pytest.mark.limit(120)
def test_site_report_figures(two_hosts):
    """Of two hosts: each transport has figures beside tcp, also if time is over before all of them are there."""
    said = two_hosts("--transports", "udp,ofi", "--what", "bench", "--limit", "200", ok=None)
    columns = re.search(r"^ +size +figure +(tcp .*?)  ib-udp : best", said, re.M)[1].split()
    figures = re.search(r"^ +8 B +p50 +(.*)", said, re.M)[1].split()
    for name in ("tcp", "ib-udp", "ib-ofi"):
        assert float(figures[columns.index(name)].replace(",", "")) > 0
