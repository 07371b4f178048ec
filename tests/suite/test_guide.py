# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""What users read: the manual page of parameters, and the examples of README.md, docs/hardware.md
and docs/guide/.

Each block of a page says behind ``` what it is: `sh run` are commands that must end well, `console
run` commands behind a $, and what they print, of which numbers may be others and ... may be
anything, alone in a line any lines; `as root` follows where the page's reader is root. Commands that
need what a test cannot have are `not run: REASON`; `by NAME.py`: that test runs them. `text` is none."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from runner.places import BUILD, ROOT

pytestmark = pytest.mark.mpi
PAGE = BUILD / "btl_ib.7"
FENCED = re.compile(r"^```(sh|console) run( as root)?\n(.*?)^```$", re.M | re.S)
BLOCKS = re.compile(r"^```(.*)\n(?:.*\n)*?```$|^\n    (?! )(.*)", re.M)
SAYS = re.compile(r"text|(sh|console) (run( as root)?|not run: \w.*|by (test_\w+\.py))")
PAGES = {path: path.read_text() for path in (ROOT / "README.md", ROOT / "docs/hardware.md", *(ROOT / "docs/guide").glob("*.md"))}
EXAMPLES = {path: examples for path, text in PAGES.items() if (examples := FENCED.findall(text))}
MAPPING = PAGES[ROOT / "docs/guide/parameters-from-openib.md"]
SECTIONS = {heading.split(":")[-1].split()[0]: text for heading, text in re.findall(r"^## (.*)\n((?:(?!## ).*\n)*)", MAPPING, re.M)}
# Parameters that Open MPI adds to those of each BTL, from 5.0 on.
OPEN_MPIS = re.compile("btl_ib_(accelerator_|(get|put)_alignment$)")
# A host like those of the pages, which is this one but for its name and its network, and for a user
# that has no rights, has no variables but those of a login, and reaches the tree below its home.
HOST = """set -e
    hostname node1; ip link set lo up; ip link add eth0 type veth peer name end0
    ip address add 10.1.0.1/24 dev eth0; ip link set end0 up; ip link set eth0 up
    nft 'table inet filter { chain input { type filter hook input priority 0; iifname lo accept; reject; }; }'
    mount --bind "$1" "$2/source"; mount --bind "$2/passwd" /etc/passwd
    shift 2; exec "$@" """
READER = 54321
# Processes of Open MPI share processors here, as few as there may be. The daemon that 4.1 starts
# beside a process without mpirun loses boxes of help at random ("ORTE_ERROR_LOG: Data unpack would
# read past end"), so that one prints them itself.
SHARE = {
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_ess_singleton_isolated": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":OVERSUBSCRIBE",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
}


def steps(kind, text):
    """(commands, what they are to print) of an example."""
    if kind == "sh":
        yield text, []
        return
    commands, printed = [], []
    for line in text.splitlines():
        if line.startswith("$ "):
            if commands and printed:
                yield "\n".join(commands), printed
                commands, printed = [], []
            commands.append(line[2:])
        elif not printed and commands and commands[-1].endswith("\\"):
            commands[-1] = f"{commands[-1][:-1]}{line.strip()}"
        else:
            printed.append(line)
    yield "\n".join(commands), printed


WORD = re.compile(r"(?P<any>\.\.\.)|(?P<number>\d+(?:\.\d+)*)|(?P<space>\s+)|.")
STANDS_FOR = {"any": ".*", "number": r"\d+(?:\.\d+)*", "space": r"\s+"}


def pattern(lines):
    """Of what is to be printed."""
    return "^" + "".join(
        r"(?:.*\n)*?"
        if line == "..."
        else r"[ \t]*"
        + WORD.sub(lambda word: STANDS_FOR.get(word.lastgroup, re.escape(word[0])), line.strip())
        + r"\n"
        for line in lines
    )


class Reader:
    """A user that reads a page and types what it says, in one shell of theirs, or in one of root's."""

    def __init__(self, run, place):
        self.run, self.place = run, place
        self.home, self.tree = place / "home", place / "home/btl_ib"
        place.chmod(0o755)
        for directory in ("source", "home/btl_ib", "home/tmp", "root/tmp"):
            (place / directory).mkdir(parents=True)
        for name in os.listdir(ROOT):
            (self.tree / name).symlink_to(place / "source" / name)
        (place / "passwd").write_text(
            f"{Path('/etc/passwd').read_text()}reader:x:{READER}:{READER}::{self.home}:/bin/bash\n")
        for directory in (self.home, *self.home.iterdir()):
            os.chown(directory, READER, READER)

    def types(self, commands, as_root=False, ok=True):
        """What is printed. Variables stay as commands leave them."""
        home = self.place / "root" if as_root else self.home
        rights = () if as_root else ("setpriv", "--reuid", READER, "--regid", READER, "--clear-groups", "--inh-caps=-all")
        login = {"HOME": home, "USER": "root" if as_root else "reader", "SHELL": "/bin/bash", "LANG": "C.UTF-8",
                 "TERM": "dumb", "TMPDIR": home / "tmp", "BTL_IB_CHECK": self.run.mark,
                 "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **SHARE}  # fmt: skip
        kept = f'test ! -e {home}/variables || . {home}/variables; trap "export -p >{home}/variables" EXIT; cd {self.tree}'
        return self.run.output(
            *("unshare", "--net", "--uts", "--mount", "sh", "-c", HOST, "sh", ROOT, self.place, *rights, "env", "-i"),
            *(f"{name}={value}" for name, value in login.items()),
            *("bash", "-ec", f"{kept}\n{commands}"),
            ok=ok,
        )


@pytest.fixture
def reader(run, mpi):
    if os.geteuid():
        pytest.skip("network namespaces need root")
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="guide.") as place:
        yield Reader(run, Path(place))


@pytest.mark.limit(120)
@pytest.mark.parametrize("page", [pytest.param(page, id=f"guide/{page.stem}") for page in EXAMPLES])
def test_examples(reader, page):
    """Those of a page, in their order, as its reader runs them, who has done what README.md begins with."""
    if page.name not in ("README.md", "install.md"):
        first_job = FENCED.search(PAGES[ROOT / "README.md"])[3]
        reader.types(first_job)
        reader.types(first_job.splitlines()[0], as_root=True)
    for kind, as_root, text in EXAMPLES[page]:
        for commands, expected in steps(kind, text):
            said = reader.types(commands, as_root=bool(as_root), ok=True if kind == "sh" else None)
            assert re.search(pattern(expected), said, re.M), f"{commands} does not print that"


@pytest.mark.called("guide/blocks")
def test_blocks():
    """Each block of a page is run, or the page says why it is not, or it is no command."""
    for page, text in PAGES.items():
        for block in BLOCKS.finditer(text):
            said = SAYS.fullmatch(block[1] or "")
            assert said, f"{page.name}: is this run by a test? {block[1] or block[2]}"
            assert not said[4] or page.name in (ROOT / "tests/suite" / said[4]).read_text(), f"{page.name}: {said[0]}"


def registered(output):
    """{name: {fact: value}} of ompi_info's parameters of ib."""
    found = {}
    for name, fact, value in re.findall(r":param:(btl_ib_\w+):(level|help):(.*)", output):
        found.setdefault(name, {})[fact] = value
    return found


@pytest.mark.called("guide/parameters")
def test_parameters(run, mpi):
    """The page has each parameter once, in the section of its level, with all that ompi_info
    says of it, and formats without a warning."""
    output = run.output(
        *("ompi_info", "--param", "btl", "ib", "--level", "9", "--parsable"), env=mpi.environment
    )
    parameters = registered(output)
    assert len(parameters) > 70
    page = PAGE.read_text().replace("\\-", "-").replace("\\&", "").replace("\\e", "\\")
    written = {}
    for level, section in re.findall(r"^\.SH Level (\d).*\n((?:(?!\.SH ).*\n)*)", page, re.M):
        for name, text in re.findall(r"^\.TP\n\.B (\w+)\n((?:(?!\.).*\n)*)", section, re.M):
            assert name not in written, f"{name} is there twice"
            written[name] = level, text
    assert set(written) == {name for name in parameters if not OPEN_MPIS.match(name)}
    for name, facts in [(name, parameters[name]) for name in written]:
        level, text = written[name]
        assert level == facts["level"], name
        assert text.startswith(f"{facts['help']}.\n"), name
    assert "Values: auto, none, swift, cubic.\n" in written["btl_ib_cc"][1]
    # What man says is in the output as well.
    if shutil.which("man"):
        said = run.output("man", "-l", "--warnings=w", PAGE, env={"MANWIDTH": "80"})
        assert "warning" not in said
    if shutil.which("mandoc"):
        said = run.output("mandoc", "-T", "lint", "-W", "warning", PAGE, ok=None)
        assert not [line for line in said.splitlines() if "missing date" not in line]


def in_code(cell):
    """(name, value) of each setting in a cell, the value "" if it has none."""
    return [(text.split(" ", 1) + [""])[:2] for text in re.findall(r"`([^`]*)`", cell)]


def values_of(run, mpi, settings):
    """What a job says and does with these settings, and {name: value} as MPI_T shows it at its end."""
    said = mpi.alone(run, ("cvars", "name=" + ",".join(f"btl_ib_{name}" for name in settings)), ok=None, **settings)
    return said, dict(re.findall(r"^btl_ib_(\w+) \w+ = (.*), \d+ items$", said, re.M))


@pytest.mark.limit(180)
@pytest.mark.parametrize("section", [pytest.param(name, id=f"guide/mapping/{name}") for name in SECTIONS])
def test_mapping(run, mpi, section):
    """Each line of the page that maps the parameters of openib, usnic and GASNet says the truth: what is to be written is
    accepted; what was written before under the same name means the same, or is refused with what to write; and where
    there is nothing, there is none of that name."""
    known = {name[len("btl_ib_"):] for name in registered(run.output(
        *("ompi_info", "--param", "btl", "ib", "--level", "9", "--parsable"), env=mpi.environment))}  # fmt: skip
    rows = [line.split("|")[1:4] for line in re.findall(r"^\|[^-].*\|$", SECTIONS[section], re.M)]
    rows = [(in_code(theirs), in_code(ours), ours) for theirs, ours, _ in rows if "`btl_ib_`" not in ours]
    assert rows
    accepted, before = [{}], []
    for theirs, ours, cell in rows:
        assert ours or cell.strip() == "-"
        assert {name for name, _ in ours} <= known, f"{cell}: there is no such parameter"
        for name, value in theirs:
            assert ours or name not in known, f"btl_ib_{name} does exist"
            now = dict(ours).get(name)
            if value and now is not None and value != now:
                before.append((name, value, now))
        for name, value in ours:
            if value:
                if all(name in settings for settings in accepted):
                    accepted.append({})
                next(settings for settings in accepted if name not in settings)[name] = value
    shown = {}
    for settings in accepted:
        said, values = values_of(run, mpi, settings)
        assert "rail 0 is " in said
        refused = re.findall(r"cannot be used|contradict|malformed|Problem:|Found:", said)
        assert not refused, f"{settings} is not accepted as it is"
        shown.update({(name, settings[name]): value for name, value in values.items()})
    for name, value, now in before:
        said, values = values_of(run, mpi, {name: value})
        if "rail 0 is " in said:
            assert now and values[name] == shown[name, now], f"{name} {value} means {values[name]}"
        else:
            text = said[said.index(f"btl_ib_{name}"):]
            assert now in text and "Expected:" in text and f'"{value}"' in text


@pytest.mark.parametrize("words", [
    pytest.param((name, *words), id=f"guide/head/{name.split('/')[1]}") for name, *words in (
        ("tools/bench", "--help"), ("info/ib_connectivity", "--help"), ("info/ib_site_report", "--help"),
        ("info/ib_stats", "--help"), ("info/ib_trace", "--help"), ("info/ib_top", "--help"),
        ("build/ib_doctor", "nobody.invalid"))])  # fmt: skip
def test_reader_leaves(words):
    """What reads their output may have enough of it, as head."""
    reader, writer = os.pipe()
    os.close(reader)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    ended = subprocess.run(
        words, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False, env=environment
    )
    os.close(writer)
    assert not ended.stderr and ended.returncode in (1, -signal.SIGPIPE)


@pytest.mark.called("guide/help")
def test_help(run):
    """The text at a tool's head, which says what each option does, and nothing before it."""
    for name in ("bench", "check", "coverage", "nsbad", "nshosts", "nsslurm", "quickstart", "release",
                 *(f"../info/ib_{name}" for name in ("connectivity", "site_report", "stats", "top", "trace"))):  # fmt: skip
        assert run.output(ROOT / "tools" / name, "--help").startswith(f"{Path(name).name} - ")


def curves_of(picture):
    """The coordinates of each line that shows data, in points."""
    shapes = re.findall(r'<path d="([^"]*)"\s*clip-path', picture)
    return [[float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", shape)] for shape in shapes]


@pytest.mark.called("guide/pictures")
def test_pictures(run, tmp_path):
    """They are drawn from their tables: with the words, and to half a point with the lines, of those that are there;
    how numbers are written on axes depends on matplotlib's version."""
    run(sys.executable, ROOT / "docs/figures/draw", tmp_path)
    run(sys.executable, ROOT / "tests/sim/plot_grid", ROOT / "docs/goodput.csv", tmp_path / "goodput.svg")
    for name in ("figures/by-size.svg", "figures/tcp-wins.svg", "figures/queues.svg", "goodput.svg"):
        drawn, there = (file.read_text() for file in (tmp_path / Path(name).name, ROOT / "docs" / name))
        words, expected = (re.findall(r">([^<>\n]*[A-Za-z][^<>\n]*)</text>", text) for text in (drawn, there))
        assert words and words == expected
        lines, expected = curves_of(drawn), curves_of(there)
        assert lines and [len(line) for line in lines] == [len(line) for line in expected]
        for line, other in zip(lines, expected):
            assert line == pytest.approx(other, abs=0.5), f"docs/{name} is not of its table"


@pytest.mark.called("guide/curves")
def test_curves(run, tmp_path):
    """Curves by size of message, of what tools/bench saved: medians of the rounds that count."""
    samples = [
        {"what": what, "loss": loss, "offloads": offloads, "round": number, "kept": number < 4, "candidate": name,
         "size": 4**size, "figures": {"mean": (number + 1) * 2.0**size, "GB/s": 0.1 * number}}
        for what, loss, offloads in (("latency", 0.0, "on"), ("latency", 1.0, "off"), ("streaming", 0.0, "on"),
                                     ("alltoall-2-cores", 0.0, "on"))
        for number in (1, 2, 3, 4) for name in ("ib", "tcp", "ucx", "floor") for size in range(12)
    ]  # fmt: skip
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"parameters": {"loopback": False}, "samples": samples}))
    run(sys.executable, ROOT / "docs/figures/draw", "--take", file, tmp_path)
    table = (tmp_path / "by-size.csv").read_text().splitlines()
    assert len(table) == 1 + 4 * 4 * 12
    assert "two hosts,latency,1,off,ucx,16,12" in table  # 2, 3 and 4 times 4; the last round does not count
    assert "two hosts,streaming,0,on,ib,1,0.2" in table
    drawn = (tmp_path / "by-size.svg").read_text()
    for words in ("latency, clean", "both ways, 1 % of all packets lost", "btl tcp", "UCX over tcp"):
        assert f">{words}</text>" in drawn
    assert ">alltoall," in (tmp_path / "tcp-wins.svg").read_text()
