# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Packages, and what a release has: files of each kind agree; built, installed, used, removed."""

import ast
import re
import shutil
import sys

import pytest

from runner import builds
from runner.places import BUILD, ROOT

pytestmark = pytest.mark.package


@pytest.mark.quick
@pytest.mark.called("package/files")
def test_files(run):
    """One version in all of them; scripts; recipes are Python; forms ask for what is needed."""
    run(ROOT / "tools/release", "--check")
    scripts = ["tests/job", "tests/hosts", "depends", "postinst.in", "postrm.in"]
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


@pytest.mark.quick
@pytest.mark.called("package/release")
def test_release(run, tmp_path):
    """A version is written wherever it stands; nothing is made of a commit whose tests nobody saw pass."""
    tree = tmp_path / "tree"
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", tree)
    files = run.output("git", "-c", "safe.directory=*", "-C", ROOT, "ls-files").splitlines()
    for name in files:
        if (ROOT / name).exists():  # not deleted
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    changes = tree / "CHANGELOG.md"
    text = re.sub(r"(?s)(?<=## \[Unreleased\]\n).*?(?=\n## |\Z)", "", changes.read_text())
    changes.write_text(text)
    run("git", "init", "--quiet", tree)
    run(*git, "add", "--all", "--force")
    run(*git, "commit", "--quiet", "-m", "before")
    run(*git, "tag", "v77.8.8")
    release = tree / "tools/release"

    def refused(*arguments):
        return run.output(release, *arguments, ok=False)

    assert "says nothing of it" in refused("--version", "77.8.9")
    changes.write_text(text.replace("## [Unreleased]\n", "## [Unreleased]\n\nSomething.\n\n- Other\n  things. And why.\n"))
    assert "not all is committed" in refused("--version", "77.8.9")
    run(*git, "commit", "--quiet", "-am", "what is new")
    assert "0.1.0 does not follow" in refused("--version", "0.1.0")
    assert "there is a tag v77.8.8" in refused("--version", "77.8.8")
    run(release, "--version", "77.8.9")
    named = run.output(*git, "grep", "-lF", "77.8.9").splitlines()
    assert {"btl_ib.h", "CHANGELOG.md", "debian/changelog", "packaging/openmpi-btl-ib.spec",
            "packaging/spack/package.py"} < set(named)  # fmt: skip
    assert "\n\n  * Something.\n  * Other things.\n\n -- " in (tree / "debian/changelog").read_text()
    versions = re.findall(r'version\("(.*?)"', (tree / "packaging/spack/package.py").read_text())
    assert versions[:2] == ["main", "77.8.9"]
    assert "not all is committed" in refused()
    run(*git, "commit", "--quiet", "-am", "after")
    commit = run.output(*git, "rev-parse", "HEAD").strip()
    (tree / "build/passed").write_text(f"{'0' * 40} default 2026-01-01T00:00Z\n")
    assert f"has not passed on {commit}" in refused()
    run(*git, "tag", "v77.8.9", "HEAD^")
    assert "the tag v77.8.9 is of another commit" in refused()


@pytest.mark.quick
@pytest.mark.called("package/scripts")
def test_scripts(run, tmp_path):
    """What dpkg runs writes two lines into a file of nobody's, and takes away those and no other, when it should."""
    file, line, mark = tmp_path / "override.conf", "opal_mca_base_component_path = SYS:USER", "# openmpi-btl-ib: mpirun"
    for name in ("postinst", "postrm"):
        text = (ROOT / f"debian/{name}.in").read_text()
        for key, value in (("@FILE@", str(file)), ("@LINE@", line), ("@MARK@", mark)):
            text = text.replace(key, value)
        (tmp_path / name).write_text(text)

    def after(name, *words):
        run("sh", tmp_path / name, *words)
        return file.read_text() if file.exists() else None

    ours = f"{mark}\n{line}\n"
    assert after("postinst", "configure", "") == ours == after("postinst", "configure", "1")
    assert after("postrm", "failed-upgrade", "1") == after("postrm", "abort-install", "1") == ours
    assert after("postrm", "upgrade", "2") is None
    # The administrator's: without an end, behind the marker, and as ours without it.
    file.write_text("site = 1")
    assert after("postinst", "configure", "") == f"site = 1\n{ours}"
    assert after("postrm", "remove") == "site = 1\n"
    file.write_text(f"{mark}\nsite = 1\n")
    assert after("postrm", "remove") == "site = 1\n"
    file.write_text(f"{line}\n")
    assert after("postrm", "purge") == f"{line}\n"


@pytest.mark.full
@pytest.mark.called("package/spec")
def test_spec(run):
    run(ROOT / "tests/openmpi/rpm", "--lint")


@pytest.mark.long
@pytest.mark.limit(2400)
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


@pytest.mark.long
@pytest.mark.limit(3600)
@pytest.mark.called("package/workflow")
def test_workflow(run):
    """What the public CI runs on two compilers, as it does: in clean roots."""
    run(sys.executable, ROOT / "tests/openmpi/workflow", "lint", "build")


@pytest.mark.full
@pytest.mark.limit(300)
@pytest.mark.called("package/versions")
def test_versions(run, component):
    """Jobs of this tree beside builds that speak later versions of datagrams."""
    run(ROOT / "tests/openmpi/versions")


@pytest.mark.full
@pytest.mark.limit(600)
@pytest.mark.called("package/previous-release")
def test_previous_release(run, component):
    """Jobs of this tree beside the release before it, built once and kept."""
    run(ROOT / "tests/openmpi/versions", "--release")


@pytest.mark.full
@pytest.mark.limit(300)
@pytest.mark.called("package/same-tarball")
def test_same_tarball(run, component):
    """By another umask, at another time."""
    (first, second) = (BUILD / "check/tarballs" / name for name in ("first", "second"))
    run("rm", "-rf", first.parent)
    with builds.tarball_lock():
        for place, umask in ((first, "022"), (second, "077")):
            run("bash", "-c", f'umask {umask}; make dist && mkdir -p "$0" && mv openmpi-btl-ib-*.tar.gz "$0"',
                place, cwd=BUILD)  # fmt: skip
    (tarball,) = first.iterdir()
    run("cmp", tarball, second / tarball.name)
    run("rm", "-rf", first.parent)
