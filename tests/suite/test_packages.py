# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Packages, and what a release has: files of each kind agree; built, installed, used, removed."""

import ast
import re

import pytest

from runner.places import BUILD, ROOT

pytestmark = pytest.mark.package


@pytest.mark.quick
@pytest.mark.called("package/files")
def test_files(run):
    """One version in all of them; scripts; recipes are Python; forms ask for what is needed."""
    run(ROOT / "tools/release", "--check")
    scripts = ["tests/job", "depends", "preinst.in", "postrm.in"]
    run("shellcheck", "-e", "SC2086", *(ROOT / "debian" / name for name in scripts))
    for name in ("spack/package.py", "easybuild/*.eb"):
        (file,) = (ROOT / "packaging").glob(name)
        ast.parse(file.read_text())
    form = (ROOT / ".github/ISSUE_TEMPLATE/fault.yml").read_text()
    assert "`ib_doctor" in form and "--mca btl_base_verbose 1" in form
    # What the public CI runs exists.
    steps = re.findall(r"- run: (.*)", (ROOT / ".github/workflows/check.yml").read_text())
    programs = {word for step in steps for word in re.findall(r"(?:tools|tests)/[\w/-]+", step)}
    assert len(programs) >= 4
    assert not [name for name in programs if not (ROOT / name).exists()]


@pytest.mark.full
@pytest.mark.called("package/spec")
def test_spec(run):
    run(ROOT / "tests/openmpi/rpm", "--lint")


@pytest.mark.long
@pytest.mark.limit(900)
@pytest.mark.parametrize(
    "series", [pytest.param(series, id=f"package/{series}") for series in ("4.1", "5.0", "6.0")]
)
def test_debian(run, series):
    run(ROOT / "tests/openmpi/package", "--no-check", series)


@pytest.mark.long
@pytest.mark.limit(900)
@pytest.mark.called("package/rpm")
def test_rpm(run, component):
    run(ROOT / "tests/openmpi/rpm")


@pytest.mark.full
@pytest.mark.limit(300)
@pytest.mark.called("package/versions")
def test_versions(run, component):
    """Jobs of this tree beside builds that speak later versions of datagrams."""
    run(ROOT / "tests/openmpi/versions")


@pytest.mark.full
@pytest.mark.limit(300)
@pytest.mark.called("package/same-tarball")
def test_same_tarball(run, component):
    """By another umask, at another time."""
    (first, second) = (BUILD / "check/tarballs" / name for name in ("first", "second"))
    run("rm", "-rf", first.parent)
    for place, umask in ((first, "022"), (second, "077")):
        run("bash", "-c", f'umask {umask}; make dist && mkdir -p "$0" && mv openmpi-btl-ib-*.tar.gz "$0"',
            place, cwd=BUILD)  # fmt: skip
    (tarball,) = first.iterdir()
    run("cmp", tarball, second / tarball.name)
    run("rm", "-rf", first.parent)
