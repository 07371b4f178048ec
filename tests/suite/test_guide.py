# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""What users read: the manual page of parameters."""

import re
import shutil

import pytest

from runner.places import BUILD

pytestmark = pytest.mark.mpi
PAGE = BUILD / "btl_ib.7"


def registered(output):
    """{name: {fact: value}} of ompi_info's parameters of ib, without names that are deprecated."""
    found = {}
    for name, fact, value in re.findall(r":param:(btl_ib_\w+):(level|help|deprecated):(.*)", output):
        found.setdefault(name, {})[fact] = value
    return {name: facts for name, facts in found.items() if facts["deprecated"] == "no"}


@pytest.mark.called("guide/parameters")
def test_parameters(run, mpi):
    """The page has each parameter once, in the section of its level, with all that ompi_info
    says of it, and formats without a warning."""
    output = run.output(
        *("ompi_info", "--param", "btl", "ib", "--level", "9", "--parsable"), env=mpi.environment
    )
    parameters = registered(output)
    assert len(parameters) > 90
    page = PAGE.read_text().replace("\\-", "-").replace("\\&", "").replace("\\e", "\\")
    written = {}
    for level, section in re.findall(r"^\.SH Level (\d).*\n((?:(?!\.SH ).*\n)*)", page, re.M):
        for name, text in re.findall(r"^\.TP\n\.B (\w+)\n((?:(?!\.).*\n)*)", section, re.M):
            assert name not in written, f"{name} is there twice"
            written[name] = level, text
    assert set(written) == set(parameters)
    for name, facts in parameters.items():
        level, text = written[name]
        assert level == facts["level"], name
        assert text.startswith(f"{facts['help']}.\n"), name
    assert "Values: auto, none, swift, cubic.\n" in written["btl_ib_cc"][1]
    assert "Its old name is btl_ib_kicker.\n" in written["btl_ib_progress_thread"][1]
    # What man says is in the output as well.
    assert "warning" not in run.output("man", "-l", "--warnings=w", PAGE, env={"MANWIDTH": "80"})
    if shutil.which("mandoc"):
        said = run.output("mandoc", "-T", "lint", "-W", "warning", PAGE, ok=None)
        assert not [line for line in said.splitlines() if "missing date" not in line]
