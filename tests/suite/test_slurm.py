# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Jobs of Slurm (tools/nsslurm), and what docs/guide/batch.md says of them."""

import os
import re
import subprocess
import time

import pytest

from runner.command import Failed
from runner.places import ROOT, RUN, worker

pytestmark = [pytest.mark.mpi, pytest.mark.slurm, pytest.mark.full]
NSSLURM = ROOT / "tools/nsslurm"
TWO = "-N", 2, "-n", 2, "--mpi=pmix"
STATS = re.compile(r"^btl_ib: rank \d+ host \w+ sent [1-9]", re.M)


@pytest.fixture(scope="session")
def cluster(request):
    """The prefix of a cluster of two hosts."""
    if os.geteuid():
        pytest.skip("network namespaces need root")
    # They have services, which start: only for those who ask for this stage.
    wanted = "need_packages" if "slurm" in request.config.getoption("markexpr") else "all_installed"
    packages = f'. "$0/tools/lib.sh"; {wanted} "${{slurm_packages[@]}}"'
    if subprocess.run(["bash", "-euo", "pipefail", "-c", packages, ROOT]).returncode:
        pytest.skip("no Slurm: its packages are missing (--stage slurm installs them)")
    prefix = f"c{RUN}{worker(request.config)}s"
    environment = {**os.environ, "NSPFX": prefix}
    up = subprocess.run([NSSLURM, "up", "2"], env=environment, capture_output=True, text=True)
    try:
        if up.returncode:
            raise Failed(f"tools/nsslurm up 2: {up.stderr.strip()}")
        yield prefix
    finally:
        subprocess.run([NSSLURM, "down"], env=environment)


class Slurm:
    """Commands on a login node. Their exit status is in the last line of what they say: srun hands
    on that of processes, of which the runner takes some for its own."""

    def __init__(self, run, mpi, prefix, directory):
        self.run, self.mpi, self.prefix, self.directory = run, mpi, prefix, directory

    def variables(self, **settings):
        return {
            **self.mpi.environment,
            "OMPI_MCA_pml": "ob1",
            "OMPI_MCA_btl": "ib,self",
            "OMPI_MCA_btl_ib_stats": "1",
            **{f"OMPI_MCA_btl_ib_{name}": str(value) for name, value in settings.items()},
        }

    def shell(self, script, *words, **settings):
        script += "\necho status $?"
        return self.run.output(
            *(NSSLURM, "in", "sh", "-c", script, "sh", *words),
            env={"NSPFX": self.prefix, **self.variables(**settings)},
            cwd=self.directory,
        )

    def srun(self, *words, **settings):
        return self.shell('srun -Q "$@"', *words, **settings)

    def batch(self, options, script):
        """Submits a script, and returns its number."""
        (self.directory / "job").write_text(f"#!/bin/sh\n#SBATCH -o out {options}\n{script}\n")
        return self.shell("sbatch --parsable job").split()[0]

    def said(self):
        """By the script, so far."""
        return read(self.directory / "out").decode()

    def processes(self, name):
        """Numbers of those of the cluster's jobs."""
        return [
            process
            for process in filter(str.isdigit, os.listdir("/proc"))
            if read(f"/proc/{process}/comm") == f"{name}\n".encode()
            and f"SLURM_CLUSTER_NAME={self.prefix}\0".encode() in read(f"/proc/{process}/environ")
        ]


def read(path):
    """Nothing, if the process has ended."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def wait_for(condition, seconds=30):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise Failed("it does not come")
        time.sleep(0.1)


@pytest.fixture
def slurm(run, mpi, cluster, tmp_path):
    return Slurm(run, mpi, cluster, tmp_path)


def test_slurm_data(slurm):
    """First contact and checked data, within a host and between two."""
    program = slurm.mpi.program("alltoall"), "rounds=1"
    said = slurm.srun("-N", 2, "-n", 4, "--mpi=pmix", *program)
    assert "OK alltoall (4 ranks" in said
    assert len(STATS.findall(said)) == 4
    assert said.endswith("status 0\n")


def test_slurm_site_report(slurm, tmp_path):
    """In an allocation info/ib_site_report finds its hosts, and reaches them by srun."""
    said = slurm.shell(
        'salloc -Q -N 2 "$@"', ROOT / "info/ib_site_report", "--what", "doctor,hello", "--transports", "udp"
    )
    assert said.endswith("status 0\n")
    report = (tmp_path / "site-report.txt").read_text()
    assert report.startswith("btl_ib ") and "\n2 hosts; transports and wires: udp\n" in report
    assert "firewall: UDP" in report
    assert len(re.findall(r"^btl_ib: rank \d host host[12] sent [1-9]", report, re.M)) == 2
    assert slurm.prefix not in report and "\x1b" not in report


def test_slurm_status(slurm):
    """srun returns the highest exit status."""
    program = f"{slurm.mpi.program('ring')} laps=1 && exit $((7 * SLURM_PROCID))"
    said = slurm.srun(*TWO, "sh", "-c", program)
    assert "OK ring" in said
    assert said.endswith("status 7\n")


@pytest.mark.parametrize(
    "waiting", [pytest.param(0, id="slurm_killed,sends"), pytest.param(1, id="slurm_killed,waits")]
)
def test_slurm_killed(slurm, waiting):
    """A rank that is killed: ib tells, and ends the job."""
    said = slurm.srun(*TWO, slurm.mpi.program("killed"), "after=0.3", f"waiting={waiting}")
    assert "The ib BTL lost the connection with a process" in said
    assert re.search(rf"Lost: +rank 1 on host {slurm.prefix}2\n", said)
    assert re.search(r"^status [1-9]", said, re.M)
    assert not slurm.processes("killed")


def test_slurm_scancel(slurm):
    """A job that is cancelled leaves no process."""
    program = f"srun --mpi=pmix {slurm.mpi.program('compute')} seconds=100"
    job = slurm.batch("-N 2 -n 2", program)
    wait_for(lambda: len(slurm.processes("compute")) == 2)
    slurm.shell(f"scancel {job}")
    wait_for(lambda: not slurm.processes("compute"))
    assert f"JOB {job} ON {slurm.prefix}1 CANCELLED" in slurm.said()


def test_slurm_ports(slurm):
    """Two jobs share a range that has as many ports as both need."""
    program = f"srun -Q -N 2 -n 2 --mpi=pmix {slurm.mpi.program('stream')} seconds=2"
    said = slurm.shell(f"{program} & {program} & wait", port_min=20000, port_range=4)
    assert said.count("OK stream") == 2
    assert len(STATS.findall(said)) == 4


def test_slurm_export(slurm):
    """With --export=NONE a script's variables reach processes by either of the lines of the guide,
    and not without."""
    exports = "\n".join(f"export {name}='{value}'" for name, value in slurm.variables().items())
    ring = slurm.mpi.program("ring")
    job = f"srun --mpi=pmix {ring} laps=1"
    slurm.batch(
        "-N 2 -n 2 --export=NONE",
        f"{exports}\n{job}\necho by option\n{job.replace('--mpi', '--export=ALL --mpi')}\n"
        f"unset SLURM_EXPORT_ENV\necho unset\n{job}\necho by mpirun\nmpirun {ring} laps=1\n"
        "echo the end",
    )
    # sbatch --wait looks seldom.
    wait_for(lambda: slurm.said().endswith("the end\n"))
    plain, option, unset, mpirun = re.split(
        "^(?:by option|unset|by mpirun)\n", slurm.said(), flags=re.M
    )
    assert not STATS.search(plain)
    for said in (plain, option, unset, mpirun):
        assert "OK ring (2 ranks" in said
    for said in (option, unset, mpirun):
        assert len(STATS.findall(said)) == 2


def test_slurm_limits(slurm):
    """Locked memory is what the submitting shell may have, or with --propagate=NONE slurmd."""
    said = slurm.shell(
        "ulimit -l 55; srun -Q sh -c 'ulimit -l'; srun -Q --propagate=NONE sh -c 'ulimit -l'"
    ).split()
    assert said[0] == "55"
    assert said[1] != "55"


def test_slurm_guide(slurm, tmp_path):
    """The examples of docs/guide/batch.md: at the shell, as a script, and what a script may need with --export=NONE."""
    page = (ROOT / "docs/guide/batch.md").read_text()
    shell, script, variables = re.findall(r"^```(?:sh|console) by test_slurm.py\n(.*?)^```$", page, re.M | re.S)
    slurm.run("mpicc", "-o", tmp_path / "hello", ROOT / "docs/guide/hello.c")
    commands = re.findall(r"^\$ (.*)", shell, re.M)
    assert len(commands) == 2 and len(STATS.findall(slurm.shell("\n".join(commands)))) == 2
    for options, text in (("", script), ("--export=NONE ", f"#!/bin/sh\n#SBATCH -n 2\n{variables}")):
        exports = "\n".join(f"export {name}='{value}'" for name, value in slurm.variables().items())
        first, _, rest = text.rpartition("#SBATCH -n 2\n")
        (tmp_path / "job").write_text(f"{first}#SBATCH -n 2 -o out {options}\n{exports}\n{rest}\necho the end\n")
        slurm.shell("sbatch job")
        wait_for(lambda: slurm.said().endswith("the end\n"))
        assert len(STATS.findall(slurm.said())) == 2
        (tmp_path / "out").unlink()
