# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Jobs of Open MPI: by tests/mpi/run, by mpirun, or a process alone."""

import functools
import os
import subprocess

import pytest

from runner.places import BUILD, ROOT


def job(
    kind,
    what,
    ranks=2,
    hosts=1,
    fault="clean",
    *,
    options="",
    mpirun="",
    marks="",
    limit=60,
    name=None,
):
    """A row of a table: `what` is "program name=value ..."; `options` are those of tests/mpi/run,
    `mpirun` of mpirun."""
    if not name:
        name = f"{kind}/{','.join(what.split())}/{ranks}-ranks"
        if hosts > 1:
            name += f"/{hosts}-hosts/{fault}"
    words = [*options.split(), "--np", str(ranks)]
    if hosts > 1:
        words += ["--hosts", str(hosts), "--fault", fault]
    words += what.split()
    if mpirun:
        words += ["--", *mpirun.split()]
    marks = [getattr(pytest.mark, mark) for mark in marks.split()]
    return pytest.param((words, hosts), id=name, marks=[pytest.mark.limit(limit), *marks])


def job_of(run, mpi, request, row):
    """Runs one."""
    words, hosts = row
    if hosts > 1:
        run.environment["NSPFX"] = request.getfixturevalue("hosts")
    run(ROOT / "tests/mpi/run", "--build", BUILD, *words)


class Mpi:
    """What job_environment() of tools/lib.sh says."""

    def __init__(self):
        script = """
            . "$0/tools/lib.sh"
            job_environment
            printf "%s\\0" "$shared_memory" "${mpirun[*]}"
            env -0"""
        shell = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script, str(ROOT)],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        self.shared_memory, self.mpirun, *variables = shell.stdout.rstrip("\0").split("\0")
        self.mpirun = self.mpirun.split()
        environment = dict(variable.split("=", 1) for variable in variables)
        self.environment = {
            key: value for key, value in environment.items() if os.environ.get(key) != value
        }
        self.btls = environment["BTL_IB_BTLS"]

    @functools.cached_property
    def series(self):
        return library("openmpi_series")

    def has(self, feature):
        """OFI or VERBS: was it there when build/ was configured?"""
        return f"BTL_IB_HAVE_{feature}_TRUE=''\n" in (BUILD / "config.log").read_text(
            errors="replace"
        )

    def program(self, name):
        return BUILD / "tests/mpi" / name

    def job(self, run, ranks, *words, env=None, ok=True):
        """mpirun, by PML ob1."""
        return run.output(
            *self.mpirun,
            "-np",
            ranks,
            "--mca",
            "pml",
            "ob1",
            *words,
            env={**self.environment, **(env or {})},
            ok=ok,
        )

    def alone(
        self, run, program=("alltoall", "rounds=1"), env=None, ok=True, before=(), **settings
    ):
        """A process without mpirun, which loses help texts at random, verbose; `settings` are
        parameters btl_ib_..."""
        parameters = {
            "OMPI_MCA_pml": "ob1",
            "OMPI_MCA_btl": "ib,self",
            "OMPI_MCA_btl_base_verbose": "1",
            **{f"OMPI_MCA_btl_ib_{name}": str(value) for name, value in settings.items()},
            **(env or {}),
        }
        return run.output(
            *before,
            self.program(program[0]),
            *program[1:],
            env={**self.environment, **parameters},
            ok=ok,
        )


def preloaded(run, name, code):
    """A library whose functions stand in for the system's."""
    library = BUILD / f"check/{name}.so"
    library.with_suffix(".c").write_text(code)
    run(os.environ.get("CC", "gcc"), "-shared", "-fPIC", "-o", library, library.with_suffix(".c"))
    return {"LD_PRELOAD": str(library)}


def with_kernel(run, release):
    """A library with which the kernel says that it is another release of Linux."""
    return preloaded(
        run,
        f"kernel_{release}",
        f"""
#define _GNU_SOURCE
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

int uname(struct utsname *name)
{{
    const int result = (int) syscall(SYS_uname, name);

    if (0 == result) {{
        strcpy(name->release, "{release}");
    }}
    return result;
}}
""",
    )


@functools.cache
def library(function, *words):
    """What a function of tools/lib.sh prints."""
    return subprocess.run(
        [
            "bash",
            "-euo",
            "pipefail",
            "-c",
            f'. "$0/tools/lib.sh"; {function} "$@"',
            str(ROOT),
            *words,
        ],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout.strip()
