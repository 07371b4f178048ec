# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Which libraries a job loads: those of the transport and the options that it uses."""

import os
import re
import sysconfig
from pathlib import Path

import pytest

from runner.places import BUILD

pytestmark = pytest.mark.mpi
OURS = ("fabric", "ibverbs", "rdmacm", "crypto")


def loaded(output):
    """Which of ours the component loaded, as the dynamic linker tells (LD_DEBUG=files). Open MPI may be
    linked with some of them itself."""
    by_us = r"\.so\S* \[0\];  dynamically loaded by \S*/mca_btl_ib\.so"
    return {name for name in OURS if re.search(rf"file=\S*lib{name}{by_us}", output)}


@pytest.mark.quick
def test_libraries_linked(run, component):
    """The component is linked with Open MPI's library alone: PMIx is one of 5.0's, and an old C
    library has several parts."""
    plugin = BUILD / "plugin/mca_btl_ib.so"
    needed = re.findall(r"NEEDED.*\[lib([\w-]+)\.so", run.output("readelf", "-d", plugin))
    assert "open-pal" in needed
    assert not set(needed) - {"open-pal", "pmix", "c", "dl", "m", "pthread"}


@pytest.mark.quick
def test_libraries_loaded(run, mpi):
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
        assert re.search(r"libfabric: built with \S+, running [\d.]+$", output, re.M)


# In a mount namespace, LIBRARIES in the directory of libraries are not there, and, if RDMA, a device is that needs some.
HIDDEN = r"""
place=$1 libraries=$2 rdma=$3 directory=$4
shift 4
mkdir -p "$place/all" "$place/some"
mount --bind "$directory" "$place/all"
mount -t tmpfs some "$place/some"
ln -s "$place/all"/* "$place/some"
(cd "$place/some" && rm -r -- $libraries)
if [ -n "$rdma" ]; then
    mount -t tmpfs class /sys/class
    mkdir -p /sys/class/infiniband/none0/ports/1
    echo "4: ACTIVE" >/sys/class/infiniband/none0/ports/1/state
fi
mount --bind "$place/some" "$directory"
exec "$@"
"""
# What needs it: the feature that it is built with, its files, what asks for it, its packages.
MISSING = {
    "libfabric": ("OFI", "libfabric.so.1", {"transport": "ofi"}, "Debian: libfabric1, Fedora: libfabric"),
    "libibverbs": ("VERBS", "libibverbs.so.1", {"transport": "verbs"}, "Debian: libibverbs1, Fedora: libibverbs"),
    "librdmacm": ("VERBS", "librdmacm.so.1", {"transport": "verbs", "wire": "rc"}, "Debian: librdmacm1, Fedora: librdmacm"),
    "libcrypto": ("CRYPTO", "libcrypto.so.3", {"protection": "encrypt"}, "Debian: libssl3, Fedora: openssl-libs"),
}


@pytest.fixture
def hidden(tmp_path):
    """Begins a command for which libraries are not there."""
    if os.geteuid():
        pytest.skip("hiding libraries needs root")
    directory = Path("/usr/lib", sysconfig.get_config_var("MULTIARCH"))

    def words(*libraries, rdma=False):
        there = [name for name in libraries if any(directory.glob(name))]
        assert there
        return ("unshare", "--mount", "sh", "-euc", HIDDEN, "sh", tmp_path, " ".join(there), "1" * rdma, directory)

    return words


def asked_for(run, mpi, name, before):
    """What was asked for is not there: one line says which library, and what to install."""
    _, file, settings, packages = MISSING[name]
    output = mpi.alone(run, before=before, **settings)
    assert "rail 0 is" not in output
    found = set(re.findall(rf"^.*{file}: cannot open shared object file.*$", output, re.M))
    assert any(line.endswith(f"No such file or directory ({packages})") for line in found), found


@pytest.mark.parametrize("name", [pytest.param(name, id=f"missing/{name}") for name in MISSING])
def test_missing(run, mpi, hidden, name):
    """A library that is not there is told to those who want it, and to nobody else."""
    if not mpi.has(MISSING[name][0]):
        pytest.skip(f"built without {name}")
    before = hidden(f"{name}.so*")
    output = mpi.alone(run, before=before)
    assert "rail 0 is" in output and "-----" not in output and "cannot open" not in output
    asked_for(run, mpi, name, hidden(f"{name}.so*", rdma=True))


@pytest.mark.called("missing/all")
def test_all_missing(run, mpi, hidden):
    """Where none of them is, nor any plugin of hwloc, jobs go on as if nothing had been built with them; each
    is named as if it alone was missing, but for librdmacm, which comes after libibverbs."""
    every = [f"{name}.so*" for name in (*MISSING, "libssl")] + ["hwloc", "libibverbs"]
    words = ("--mca", "btl", "ib,self", "--mca", "btl_base_verbose", "1", mpi.program("randsize"), "rounds=2")
    environment = {**mpi.environment, "PYTHONDONTWRITEBYTECODE": "1"}
    output = run.output(*hidden(*every), *mpi.mpirun, "-np", 2, "--mca", "pml", "ob1", *words, env=environment)
    assert "OK randsize" in output and "-----" not in output
    assert len(re.findall("rail 0 is udp", output)) == 2
    for name, (feature, *_) in MISSING.items():
        if mpi.has(feature) and name != "librdmacm":
            asked_for(run, mpi, name, hidden(*every, rdma=True))
    output = run.output(*hidden(*every), BUILD / "ib_info", "--parsable", env=environment)
    assert "device udp" in output
    for name in ("libfabric", "libibverbs"):
        if mpi.has(MISSING[name][0]):
            assert re.search(rf": .*cannot be loaded: {name}\.so\.1: .*\(Debian: {name}1, ", output)
