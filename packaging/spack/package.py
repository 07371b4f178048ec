# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""A package of Spack (1.0): in a repository of packages it is packages/openmpi_btl_ib/package.py.

Installed by Spack 0.23, whose recipes have no language "c" and another import, with Debian's packages as
externals, and used by a job; not by Spack 1.0, with whose builtin repository of July 2026 it was compared.
Components are built against Open MPI's headers for developers (--with-devel-headers; configure says so where
they are not). Spack's openmpi has no variant for that: take an external one that has them, or add the option to
configure_args of its recipe."""

from spack_repo.builtin.build_systems.autotools import AutotoolsPackage

from spack.package import *


class OpenmpiBtlIb(AutotoolsPackage):
    """MPI over UDP, RoCE, InfiniBand or iWARP, reliable in software: BTL ib of Open MPI."""

    homepage = "https://example.org/btl_ib"
    git = "https://example.org/btl_ib.git"

    license("BSD-3-Clause")

    version("main", branch="main")
    version("0.2.0", tag="v0.2.0")
    # tools/release: versions are added above this line

    variant("ofi", default=True, description="Transport ofi, by libfabric")
    variant("verbs", default=True, description="Transport verbs, by rdma-core")
    variant("crypto", default=True, description="btl_ib_protection, by OpenSSL")

    depends_on("c", type="build")
    depends_on("autoconf", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("pkgconfig", type="build")
    # It is loaded by the series that it was built for.
    depends_on("openmpi@4.1:")
    depends_on("pmix", when="^openmpi@5:")
    depends_on("hwloc@2.1:")
    depends_on("libfabric@1.9:", when="+ofi")
    depends_on("rdma-core@35:", when="+verbs")
    depends_on("openssl@3:", when="+crypto")

    def autoreconf(self, spec, prefix):
        Executable("./autogen.sh")()

    def configure_args(self):
        # Open MPI's own prefix stays as it is.
        args = [
            f"--with-openmpi={self.spec['openmpi'].prefix}",
            f"--with-plugindir={self.prefix.lib.openmpi}",
        ]
        for variant, option in (("ofi", "ofi"), ("verbs", "ib-verbs"), ("crypto", "ib-crypto")):
            args.append(f"--with-{option}={'yes' if self.spec.satisfies(f'+{variant}') else 'no'}")
        return args

    def setup_run_environment(self, env):
        name = "OMPI_MCA_opal_mca_base_component_path"
        env.set(name, f"{self.prefix.lib.openmpi}:SYS_DEFAULT:USER_DEFAULT")
