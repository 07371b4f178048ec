# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""A package of Spack (1.0): in a repository of packages it is packages/openmpi_btl_ib/package.py.

An earlier form was installed by Spack 0.23, whose recipes have no language "c" and another import,
with Debian's packages as externals, and used by a job; not by Spack 1.0, with whose builtin
repository of July 2026 it was compared. Spack's openmpi has no variant for development headers
(--with-devel-headers): where they are not, they come from its source, which is configured with the
options that it was built with. Add the version that is wanted to the list."""

import os
from typing import List

from spack_repo.builtin.build_systems.autotools import AutotoolsPackage

from spack.package import *


class OpenmpiBtlIb(AutotoolsPackage):
    """MPI over UDP, RoCE, InfiniBand or iWARP, reliable in software: BTL ib of Open MPI."""

    homepage = "https://example.org/btl_ib"
    git = "https://example.org/btl_ib.git"

    maintainers("btl_ib")

    license("BSD-3-Clause")

    version("main", branch="main")
    # tools/release adds a version below this line, and commit= to the recipe that is published
    version("0.3.0", tag="v0.3.0")
    version("0.2.0", tag="v0.2.0")

    variant("ofi", default=True, description="Transport ofi, by libfabric")
    variant("verbs", default=True, description="Transport verbs, by rdma-core")
    variant("crypto", default=True, description="btl_ib_protection, by OpenSSL")

    depends_on("c", type="build")
    depends_on("autoconf", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("perl", type="build")
    # It is loaded by the series that it was built for.
    depends_on("openmpi@4.1,5.0,6.0", type=("build", "link", "run"))
    depends_on("pmix", when="^openmpi@5:")
    depends_on("hwloc@2.1:")
    depends_on("libfabric@1.9:", when="+ofi")
    depends_on("rdma-core@35:", when="+verbs")
    depends_on("openssl@3:", when="+crypto")
    # ib_doctor, ib_top and others
    depends_on("python@3:", type="run")

    for openmpi_version, checksum in (
        ("5.0.8", "53131e1a57e7270f645707f8b0b65ba56048f5b5ac3f68faabed3eb0d710e449"),
        ("5.0.7", "119f2009936a403334d0df3c0d74d5595a32d99497f9b1d41e90019fee2fc2dd"),
        ("4.1.8", "466f68e3132a1dc02710cc2011fafced8336d98359fa2dae4dddcfd5719f12a9"),
    ):
        resource(
            name="openmpi-source",
            url="https://download.open-mpi.org/release/open-mpi/"
            f"v{openmpi_version[:3]}/openmpi-{openmpi_version}.tar.bz2",
            sha256=checksum,
            when=f"^openmpi@={openmpi_version}",
            destination="",
            placement="openmpi-source",
        )

    def autoreconf(self, spec: Spec, prefix: Prefix) -> None:
        Executable("./autogen.sh")()

    def configure_args(self) -> List[str]:
        # Open MPI's own prefix stays as it is.
        openmpi = self.spec["openmpi"].prefix
        args = [f"--with-openmpi={openmpi}", f"--with-plugindir={self.prefix.lib.openmpi}"]
        source = join_path(self.stage.source_path, "openmpi-source")
        if os.path.isdir(source) and not find(openmpi, "opal_config.h"):
            args.append(f"--with-openmpi-source={source}")
        for variant, option in (("ofi", "ofi"), ("verbs", "ib-verbs"), ("crypto", "ib-crypto")):
            args.append(f"--with-{option}={'yes' if self.spec.satisfies(f'+{variant}') else 'no'}")
        return args

    def setup_run_environment(self, env: EnvironmentModifications) -> None:
        # Others may be there before; Open MPI's own places come last.
        name = "OMPI_MCA_opal_mca_base_component_path"
        env.prepend_path(name, self.prefix.lib.openmpi)
        env.append_path(name, "SYS_DEFAULT")
        env.append_path(name, "USER_DEFAULT")
