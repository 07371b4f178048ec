# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Who is compared: names, the options of mpirun that they stand for, and whether they are there."""

import re
import shlex
import shutil
import subprocess

from .networks import ETHERNET


class Candidate:
    """A name, and its words on mpirun's command line; `missing` says why it cannot run, or is ''."""

    def __init__(self, name, options):
        self.name = name
        self.options = shlex.split(options)
        self.missing = ""

    def mca(self, key):
        """The last value of an MCA parameter, or ''."""
        value = ""
        for i, word in enumerate(self.options[:-2]):
            if word in ("--mca", "-mca") and self.options[i + 1] == key:
                value = self.options[i + 2]
        return value

    def components(self):
        """What must be there: (framework, component) of everything that is selected by name."""
        for framework in ("pml", "mtl", "btl"):
            for component in self.mca(framework).split(","):
                if component and not self.mca(framework).startswith("^"):
                    yield framework, component

    def use_interface(self, interface, network):
        chosen = {component for _, component in self.components()}
        for component in chosen & network.interface_options.keys():
            self.options += network.told(network.interface_options[component], interface)

    def is_ours(self):
        return self.name.startswith("ib")


def make(names, own, network=ETHERNET):
    """Candidates of the names given, or all there are, then those of NAME=OPTIONS; ValueError says what is wrong."""
    options = dict(network.options)
    names = names or list(network.options)
    for definition in own:
        name, equals, text = definition.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z][\w.+-]*", name):
            raise ValueError(f"--candidate {definition}: NAME=OPTIONS, NAME of letters, digits, - . +")
        first, _, rest = text.strip().partition(" ")
        options[name] = f"{options[first]} {rest}" if first in options else text
        names = [*names, name] if name not in names else names
    for name in names:
        if name not in options:
            there = ", ".join(network.options)
            raise ValueError(f"no candidate {name} over {network.name}: {there}, or --candidate {name}=OPTIONS")
    return [Candidate(name, options[name]) for name in dict.fromkeys(names)]


def look(candidates, ompi_info, env):
    """Notes for each what of Open MPI or libfabric it lacks."""
    output = subprocess.run([ompi_info, "--parsable"], env=env, capture_output=True, text=True,
                            check=True).stdout
    there = set(re.findall(r"^mca:(\w+):(\w+):version", output, re.M))
    for candidate in candidates:
        for framework, component in candidate.components():
            if (framework, component) not in there:
                candidate.missing = f"this Open MPI has no {framework} {component}"
        provider = candidate.mca("mtl_ofi_provider_include")
        if provider and not candidate.missing and shutil.which("fi_info"):
            if subprocess.run(["fi_info", "-p", provider], capture_output=True).returncode:
                candidate.missing = f"libfabric has no provider {provider} here"
