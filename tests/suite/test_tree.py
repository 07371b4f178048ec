# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""The sources themselves, and what a build leaves."""

import contextlib
import re
import subprocess
import sys

import pytest

from runner import builds
from runner.command import Failed
from runner.jobs import library
from runner.places import BUILD, ROOT

pytestmark = pytest.mark.tree


def nm(*arguments):
    """Lines of nm, as words."""
    output = subprocess.run(
        ["nm", *map(str, arguments)], stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    return [line.split() for line in output.splitlines() if line]


@pytest.mark.quick
@pytest.mark.limit(120)
def test_layers(run, component):
    run(ROOT / "tests/layers/run", "--build", BUILD)


@pytest.mark.full
@pytest.mark.called("layers/rules")
def test_layers_rules(run):
    """Each rule of that is seen to fail."""
    run("python3", ROOT / "tests/layers/test_run.py")


@pytest.mark.quick
@pytest.mark.mpi
def test_symbols(component):
    plugin = BUILD / "plugin/mca_btl_ib.so"
    assert [words[-1] for words in nm("-D", "--defined-only", plugin)] == ["mca_btl_ib_component"]
    # What it cannot be loaded without every series of Open MPI has, so that it can refuse the wrong
    # one.
    everywhere = (ROOT / "tests/openmpi/symbols.txt").read_text().splitlines()
    needed = [
        words[-1]
        for words in nm("-D", "--undefined-only", plugin)
        if words[0] == "U" and re.match("(opal|ompi|mca|pmix|PMIx)_", words[-1])
    ]
    assert not set(needed) - set(everywhere), "neither weak nor in tests/openmpi/symbols.txt"
    # In tree nothing is hidden: prefixes keep our names apart from others.
    # Other builds are in directories beside those of the component.
    places = [
        BUILD,
        *(place for place in BUILD.iterdir() if not (place / "config.status").exists()),
    ]
    objects = [file for place in places for file in place.glob(".libs/*btl_ib_la-*.o")]
    assert objects
    external = nm(
        "--defined-only", "--extern-only", *(BUILD / ".libs").glob("libbtl_ib_[cdelt]*.a"), *objects
    )
    assert not [
        words[2]
        for words in external
        if len(words) == 3 and not re.match("(mca_|opal_)?btl_ib_", words[2])
    ]


@pytest.mark.quick
def test_shell_scripts(run):
    """All that a shell runs, by its first line, and tools/lib.sh; tools/env.sh is read by any
    shell."""
    scripts = [
        file
        for place in ("autogen.sh", ".ci", "tools", "tests")
        for file in ([ROOT / place] if (ROOT / place).is_file() else (ROOT / place).rglob("*"))
        if file.is_file() and re.match(rb"#!.*sh\n", file.read_bytes()[:100])
    ]
    assert len(scripts) > 10
    run("shellcheck", "-x", *(file.relative_to(ROOT) for file in scripts), "tools/lib.sh")
    run("shellcheck", "-s", "sh", "tools/env.sh")


@pytest.mark.analyze
@pytest.mark.full
@pytest.mark.limit(900)
@pytest.mark.parametrize("tool", ["tidy", "analyzer", "cppcheck"], ids="analyze/{}".format)
def test_lint(run, tool):
    """What clang-tidy, gcc's -fanalyzer and cppcheck find, against tests/lint/findings.txt."""
    run(ROOT / "tests/lint/run", "--tool", tool)


@pytest.mark.analyze
@pytest.mark.called("analyze/notices")
def test_lint_notices(run):
    """A tool that crashes, a finding that is not listed and an entry that is not found fail."""
    run(sys.executable, ROOT / "tests/tools/test_lint.py")


@pytest.mark.quick
@pytest.mark.docs
def test_docs(run):
    run(ROOT / "tests/docs/check")


@pytest.mark.quick
@pytest.mark.called("skips_listed")
def test_skips_listed(run):
    run(sys.executable, ROOT / "tests/tools/test_skips.py")


@pytest.mark.quick
def test_configured(run):
    run(ROOT / "tests/tools/test_configured.sh")


def tracked():
    """What a clone would have: tracked files, as they are now."""
    names = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout.split("\0")
    return [name for name in names if name and (ROOT / name).exists()]


@contextlib.contextmanager
def tarball(run, target, *settings):
    """The tarball that this target of make leaves; nobody else makes one as long."""
    with builds.tarball_lock():
        for old in BUILD.glob("openmpi-btl-ib-*.tar.gz"):
            old.unlink()
        run("make", "-j2", *settings, target, cwd=BUILD)
        (made,) = BUILD.glob("openmpi-btl-ib-*.tar.gz")
        yield made


def ring(run, mpi, plugin):
    """A job with the component in that directory."""
    run("mkdir", "-p", plugin)
    run("cp", plugin.parent / ".libs/mca_btl_ib.so", plugin)
    mpi.job(
        run,
        2,
        *("--mca", "btl", "ib,self"),
        *("--mca", "btl_ib_transport", "udp"),
        mpi.program("ring"),
        env={library("component_path").strip(): f"{plugin}:SYS_DEFAULT"},
    )


# Transport udp needs nothing but the kernel: what is built on a machine without a library starts a
# job.
WITHOUT = {
    "libfabric": ("--with-ofi=no", b"libfabric.so"),
    "verbs": ("--with-ib-verbs=no", b"libibverbs.so"),
    "hwloc": ("--with-ib-hwloc=no", b"libhwloc.so"),
}
UNOPTIMIZED = ("--disable-lto", "CFLAGS=-O0")


@pytest.mark.dist
@pytest.mark.limit(300)
@pytest.mark.called("dist")
def test_dist(run, component, mpi):
    """What the tarball has: all that is tracked, and what a machine without autotools and without
    any optional library builds a component of."""
    place = BUILD / "check/dist"
    run("rm", "-rf", place)
    with tarball(run, "dist") as file:
        packed = {
            name.split("/", 1)[1]
            for name in run.output("tar", "tzf", file).splitlines()
            if not name.endswith("/")
        }
        run("mkdir", "-p", place / "build")
        run("tar", "xzf", file, "--strip-components=1", "-C", place)
    names = tracked()
    assert not [
        name for name in packed if re.search(r"\.(o|lo|la|so|Po|pyc)$", name)
    ], "built, but distributed"
    assert not set(names) - packed - {".gitignore"}, "tracked, but not distributed"
    made = {"aclocal.m4", "btl_ib_help_texts.h", "configure", "Makefile.in"}
    assert not {
        name for name in packed - set(names) - made if not name.startswith("config/")
    }, "distributed, but not tracked"
    options, libraries = zip(*WITHOUT.values())
    script = '. tools/lib.sh; configure_in "$build" "$@"; make_in "$build" all'
    run("bash", "-euc", script, "dist", *UNOPTIMIZED, *options, cwd=place)
    plugin = (place / "build/.libs/mca_btl_ib.so").read_bytes()
    assert not [name for name in libraries if name in plugin]
    ring(run, mpi, place / "build/plugin")
    run("make", "install", f"DESTDIR={place}/installed", cwd=place / "build")
    if not list((place / "installed").rglob("mca_btl_ib.so")):
        raise Failed("nothing installed")
    run("rm", "-rf", place)


@pytest.mark.dist
@pytest.mark.full
@pytest.mark.limit(900)
def test_distcheck(run, component):
    with tarball(run, "distcheck", "BTL_IB_SIM_SEEDS=20"):
        pass


@pytest.mark.dist
@pytest.mark.full
@pytest.mark.limit(300)
@pytest.mark.parametrize("name", WITHOUT, ids="without-{}".format)
def test_without(run, mpi, name):
    directory = BUILD / f"check/without-{name}"
    option, needed = WITHOUT[name]
    builds.configured(directory, *UNOPTIMIZED, option, targets=("all",))
    assert needed not in (directory / ".libs/mca_btl_ib.so").read_bytes()
    ring(run, mpi, directory / "plugin")


@pytest.mark.dist
@pytest.mark.long
@pytest.mark.limit(600)
@pytest.mark.parametrize("compiler", ["gcc", "clang"], ids="strict/{}".format)
def test_strict(run, compiler):
    """Nothing to be warned of: all programs, with what distributions add for packages."""
    directory = BUILD / f"check/strict-{compiler}"
    run("rm", "-rf", directory)
    directory.mkdir(parents=True)
    options = [f"CC={compiler}", "CPPFLAGS=-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3"]
    run(ROOT / "configure", "--disable-lto", "--enable-werror", *options, cwd=directory)
    run("make", "-j2", "all", cwd=directory)
    run("make", "-j2", "check", "TESTS=", cwd=directory)
    run("rm", "-rf", directory)
