# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Which libraries a job loads: those of the transport and the options that it uses."""

import os
import re

import pytest

from runner.jobs import preloaded
from runner.places import BUILD

pytestmark = pytest.mark.mpi
OURS = ("fabric", "ibverbs", "rdmacm", "crypto")


@pytest.fixture
def missing(run):
    """As if none of them was installed."""
    return preloaded(
        run,
        "no_libraries",
        """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

void *dlopen(const char *file, int flags)
{
    static const char *const names[] = {"libfabric", "libibverbs", "librdmacm", "libcrypto", "libhwloc"};
    void *(*next)(const char *, int);

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (file && !strncmp(file, names[i], strlen(names[i]))) {
            file = "/nonexistent/library.so.1";
        }
    }
    *(void **) &next = dlsym(RTLD_NEXT, "dlopen");
    return next(file, flags);
}
""",
    )


def loaded(output):
    """Which of ours the dynamic linker told of (LD_DEBUG=files)."""
    return {name for name in OURS if re.search(rf"calling init: /.*/lib{name}\.so", output)}


@pytest.mark.quick
def test_needed(run, component):
    """The component is linked with Open MPI's library alone: PMIx is one of 5.0's, and an old C
    library has several parts."""
    plugin = BUILD / "plugin/mca_btl_ib.so"
    needed = re.findall(r"NEEDED.*\[lib([\w-]+)\.so", run.output("readelf", "-d", plugin))
    assert "open-pal" in needed
    assert not set(needed) - {"open-pal", "pmix", "c", "dl", "m", "pthread"}


@pytest.mark.quick
def test_loaded(run, mpi):
    """What nobody uses is not loaded."""
    debug = {"LD_DEBUG": "files"}
    output = mpi.alone(run, env=debug, transport="udp")
    assert "calling init: " in output and "rail 0 is" in output
    assert not loaded(output)
    assert len(re.findall(r"libfabric: built with \S+, not loaded$", output, re.M)) == mpi.has("OFI")
    if not os.path.isdir("/sys/class/infiniband"):
        assert not loaded(mpi.alone(run, env=debug))
    if mpi.has("CRYPTO"):
        assert loaded(mpi.alone(run, env=debug, transport="udp", protection="encrypt")) == {"crypto"}
    if mpi.has("OFI"):
        output = mpi.alone(run, env=debug, transport="ofi")
        assert "fabric" in loaded(output)
        assert re.search(r"libfabric: built with \S+, running [\d.]+$", output, re.M)


def test_missing(run, mpi, missing):
    """A library that is not there is told to those who want it, and to nobody else."""
    reason = r"library\.so\.1: cannot open shared object file"
    output = mpi.alone(run, env=missing)
    assert "rail 0 is" in output and "-----" not in output
    if mpi.has("OFI"):
        output = mpi.alone(run, env=missing, transport="ofi")
        assert "rail 0 is" not in output
        assert re.search(f"  ofi: .*{reason}", output)
        output = run.output(BUILD / "ib_info", "--parsable", env={**mpi.environment, **missing}, ok=None)
        assert re.search(f"libfabric: .*cannot be loaded: .*{reason}", output)
    if mpi.has("CRYPTO"):
        output = mpi.alone(run, env=missing, protection="encrypt")
        assert "rail 0 is" not in output
        assert re.search(f"  Reason:  .*{reason}", output)
