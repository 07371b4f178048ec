# shellcheck shell=bash
# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# What tools/quickstart and tools/check share: packages, the build, how jobs are started. Sourced.
# shellcheck disable=SC2034  # arrays for the scripts that source this

export LC_ALL=C
# Where apt-get and ip are for users whose PATH leaves these out.
PATH=$PATH:/usr/sbin:/sbin

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build
me=${0##*/}

say() { printf '%s: %s\n' "$me" "$*"; }
die() {
    printf '%s: %s\n' "$me" "$*" >&2
    exit 1
}

build_packages=(gcc libc6-dev make autoconf automake libtool pkg-config
    libopenmpi-dev libpmix-dev openmpi-bin libfabric-dev libhwloc-dev libibverbs-dev librdmacm-dev
    libssl-dev)
# python3: ib_doctor, ib_top and others, which README.md names.
job_packages=(netpipe-openmpi python3)
bench_packages=(ethtool iproute2 libfabric-bin nftables)
check_packages=(binutils clang dpkg-dev ethtool iproute2 libclang-rt-dev libcmocka-dev man-db nftables
    procps python3-matplotlib python3-mpi4py python3-numpy python3-pytest python3-pytest-xdist shellcheck spin
    strace valgrind)
# For builds inside Open MPI's source tree (tests/openmpi/intree). Without a C++ compiler 5.0's configure finds no attribute
# of the C compiler either.
intree_packages=(dpkg-dev flex g++ libcmocka-dev libevent-dev libhwloc-dev libpmix-dev m4 perl zlib1g-dev)
# For a cluster of Slurm (tools/nsslurm).
slurm_packages=(munge slurm-wlm)
# For virtual machines with RDMA devices (tests/rdma/guest); guest_packages are what is in them.
rdma_packages=(busybox-static cpio e2fsprogs mmdebstrap openssh-client qemu-system-x86)
guest_packages=(gdb ibverbs-providers ibverbs-utils iproute2 iputils-ping kmod libfabric-bin mount
    netbase netpipe-openmpi openmpi-bin openssh-server perftest procps python3-distutils python3-mpi4py
    python3-numpy rdma-core rdmacm-utils strace tcpdump util-linux)

installed() { # PACKAGE
    # One line for each architecture.
    dpkg-query -Wf '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed
}

all_installed() { # PACKAGE...
    local package
    for package; do installed "$package" || return 1; done
}

upstream_version() { # PACKAGE: without Debian's revision and epoch
    dpkg-query -Wf '${source:Version}' "$1" 2>/dev/null | sed 's/^[0-9]*://; s/-[^-]*$//'
}

# Installs those of the Debian packages named that are not there.
need_packages() {
    local package missing=() apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qy
        -o DPkg::Lock::Timeout=300)
    for package; do
        installed "$package" || missing+=("$package")
    done
    ((${#missing[@]})) || return 0
    command -v dpkg-query >/dev/null || die "this is no Debian; install what stands for: ${missing[*]}"
    if ((EUID)); then
        command -v sudo >/dev/null ||
            die "missing, and neither root nor sudo to install it: apt-get install ${missing[*]}"
        sudo true || die "sudo was refused; an administrator can: apt-get install ${missing[*]}"
        apt=(sudo "${apt[@]}")
    fi
    say "installing ${missing[*]}"
    # An update that fails for some other repository need not stop us.
    "${apt[@]}" update >"$build/apt.log" 2>&1 || :
    "${apt[@]}" install --no-install-recommends "${missing[@]}" >>"$build/apt.log" 2>&1 || {
        tail -n 15 "$build/apt.log" >&2
        die "apt-get failed (all of it: $build/apt.log); missing: ${missing[*]}"
    }
}

# The mirror that this machine's apt uses, or Debian's own: for what apt itself is not to install here.
debian_mirror() { # LABEL: Debian or Debian-Security
    local mirror
    # shellcheck disable=SC2016  # apt expands them
    mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
        sed -n "s/^$1 //p" | head -n 1)
    # Before an update it does not know what is where.
    # shellcheck disable=SC2016  # apt expands them
    mirror=${mirror:-$(apt-get indextargets --no-release-info --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
        grep "/${1,,}/\?$" | head -n 1)}
    echo "${mirror:-http://deb.debian.org/${1,,}}"
}

# The release of Debian that this machine takes from there. Not the code name in os-release, which says of sid what it
# will be.
debian_release() { # MIRROR
    local release
    # shellcheck disable=SC2016  # apt expands them
    release=$(apt-get indextargets --no-release-info --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
        awk -v m="$1" '$1 == m {print $2; exit}')
    # shellcheck source=/dev/null
    echo "${release:-$(
        . /etc/os-release
        echo "$VERSION_CODENAME")}"
}

# Sets apt: apt-get with lists and caches of its own in AREA, so that the machine's configuration stays as it is.
apt_of_its_own() { # AREA, which is made anew, deb or deb-src, MIRROR, RELEASE, OPTION...
    local keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    rm -rf "$1"
    mkdir -p "$1"/{lists,cache/archives}/partial
    echo "$2 [signed-by=$keyring] $3 $4 main" >"$1/sources.list"
    apt=(apt-get -q -o "Dir::Etc::sourcelist=$1/sources.list" -o Dir::Etc::sourceparts=-
        -o "Dir::State::lists=$1/lists" -o "Dir::Cache=$1/cache" -o APT::Sandbox::User=
        -o Acquire::Check-Valid-Until=false "${@:5}")
}

# Debian's source package of what is installed. Says what it does, at length.
debian_source() { # PACKAGE, VERSION, DIR for its files, patches applied, which is replaced
    local mirror area=$3.apt apt
    mirror=$(debian_mirror Debian)
    apt_of_its_own "$area" deb-src "$mirror" "$(debian_release "$mirror")"
    (cd "$area" && "${apt[@]}" update && "${apt[@]}" source --download-only "$1=$2" &&
        dpkg-source --no-check -x ./*.dsc unpacked) || return 1
    rm -rf "$3"
    mv "$area/unpacked" "$3"
    rm -rf "$area"
}

# Packages of another architecture with all that they depend on, unpacked but not installed: dpkg knows of no second
# architecture then. Says what it does, at length.
debian_foreign() { # ARCHITECTURE, DIR, which is replaced, RELEASE ('': this machine's), PACKAGE...
    local mirror area=$2.apt apt package loader
    mirror=$(debian_mirror Debian)
    apt_of_its_own "$area" deb "$mirror" "${3:-$(debian_release "$mirror")}" \
        -o "Dir::State::status=$area/status" -o "APT::Architecture=$1" -o "APT::Architectures=$1" \
        -o Acquire::Languages=none
    : >"$area/status"
    (cd "$area" && "${apt[@]}" update &&
        "${apt[@]}" install -y --no-install-recommends --download-only "${@:4}" &&
        for package in cache/archives/*.deb; do dpkg -x "$package" unpacked || exit; done) || return 1
    # Loaders are where they were before all of it moved to /usr.
    [[ -e $area/unpacked/lib ]] || ln -s usr/lib "$area/unpacked/lib"
    # From the root that it has then: qemu would look for it in this machine's.
    for loader in "$area"/unpacked/lib64/ld*; do
        [[ $(readlink "$loader") != /* ]] || ln -sfr "$area/unpacked$(readlink "$loader")" "$loader"
    done
    rm -rf "$2"
    mv "$area/unpacked" "$2"
    rm -rf "$area"
}

# The commit that this tree is, and nothing else; nothing if it is none. Whoever the owner of the tree is.
clean_commit() {
    local git=(git -c safe.directory='*' -C "$root")
    [[ -n $("${git[@]}" status --porcelain --untracked-files=no 2>&1) ]] || "${git[@]}" rev-parse HEAD 2>/dev/null || :
}

newest_of() { # FILE...: is the first newer than all others?
    local first=$1 other
    [[ -e $first ]] || return 1
    for other in "${@:2}"; do
        [[ ! $other -nt $first ]] || return 1
    done
}

# What configure may find, with its version.
libraries_there() {
    local library
    for library in cmocka libfabric libibverbs librdmacm libcrypto pmix; do
        printf '%s %s\n' "$library" "$(pkg-config --modversion "$library" 2>/dev/null || :)"
    done
    openmpi_version
}

# configure_in DIR ARGS...: configures there unless that was done, with these arguments and libraries, in this place.
configure_in() {
    local dir=$1 stamp
    shift
    mkdir -p "$dir"
    stamp="$root $dir $* $(libraries_there)"
    if ! newest_of "$dir/config.status" "$root/configure" ||
        [[ $(cat "$dir/.configured" 2>/dev/null) != "$stamp" ]]; then
        say "configuring ${dir#"$root"/}"
        rm -f "$dir/.configured"
        # What was made in another place or with other arguments must not be taken for ours.
        (cd "$dir" && rm -rf -- *.la *.lo *.o .libs .deps crypto engine transport tests &&
            "$root/configure" --quiet "$@" >configure.log 2>&1) || {
            tail -n 15 "$dir/configure.log" >&2
            die "configure failed (all of it: $dir/configure.log)"
        }
        printf '%s\n' "$stamp" >"$dir/.configured"
    fi
}

# make_in DIR TARGET...: automake's `all` is a second make; beside it the first would build the same objects at
# the same time. So `all`, which comes first, ends before the others begin. Objects and programs are
# made without libtool (tools/fast-libtool).
make_in() {
    local dir=$1 make
    shift
    make=(make -C "$dir" -j"$(nproc)" --no-print-directory
        "LIBTOOL=\$(SHELL) \$(top_srcdir)/tools/fast-libtool \$(SHELL) \$(top_builddir)/libtool")
    {
        if [[ ${1-all} == all ]]; then
            "${make[@]}" all && shift $(($# > 0))
        fi && if (($# > 0)); then
            "${make[@]}" "$@"
        fi
    } >"$dir/make.log" 2>&1 || {
        grep -E -A3 'error:|undefined reference|\*\*\*' "$dir/make.log" | head -n 40 >&2 || :
        die "make failed (all of it: $dir/make.log)"
    }
}

prepare_configure() {
    newest_of "$root/configure" "$root"/{configure.ac,configure.m4,Makefile.am,tests/local.mk} && return
    say "making configure"
    "$root/autogen.sh" >"$build/autogen.log" 2>&1 || {
        tail -n 15 "$build/autogen.log" >&2
        die "autogen.sh failed (all of it: $build/autogen.log)"
    }
}

# The mpicc that configure takes.
openmpi_mpicc() { # OPTION...
    "$(command -v mpicc.openmpi || command -v mpicc)" "$@"
}

openmpi_version() { # as 5.0.7, or 6.0.0rc2
    openmpi_mpicc --showme:version | sed -n 's/.*Open MPI \([^ ]*\).*/\1/p'
}

openmpi_series() { # as 4.1
    openmpi_version | cut -d . -f 1,2
}

# The variable for the path of Open MPI's components; see tools/env.sh.
component_path() {
    case $(openmpi_series) in
    4.*) echo OMPI_MCA_mca_base_component_path ;;
    *) echo OMPI_MCA_opal_mca_base_component_path ;;
    esac
}

# env.sh, and bin/, which that adds to PATH: programs for users, and nothing else of build/ (libtool).
# What differs between versions of Open MPI: 5.0 calls the BTL of shared memory sm.
make_env() {
    local shared_memory=vader program
    mkdir -p "$build/bin"
    for program in ib_info "$root"/info/ib_*; do
        program=${program##*/}
        [[ $program == *.* ]] || ln -sfn "../$program" "$build/bin/$program"
    done
    [[ $(openmpi_series) == 4.* ]] || shared_memory=sm
    sed "s/@SHARED_MEMORY@/$shared_memory/; s/BTL_IB_COMPONENT_PATH/$(component_path)/g" \
        "$root/tools/env.sh" >"$build/env.sh.new"
    mv "$build/env.sh.new" "$build/env.sh"
}

# Builds the component in build/ and leaves build/env.sh. One at a time for each tree.
# BTL_IB_CONFIGURE: options for configure, of tests that want a build soon.
build_component() { # [TARGET]: besides the component
    local options
    read -ra options <<<"${BTL_IB_CONFIGURE-}"
    [[ $root != *[:,]* ]] || die "Open MPI cannot load components from a path with ':' or ',': $root"
    mkdir -p "$build"
    {
        flock 9
        say "Open MPI $(openmpi_version)"
        prepare_configure
        configure_in "$build" "${options[@]}"
        say "building"
        make_in "$build" all ${1:+"$1"}
        make_env
    } 9>"$build/.lock"
}

# What any job of ours needs from the environment.
job_environment() {
    # shellcheck source=/dev/null
    . "$build/env.sh"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    shared_memory=${BTL_IB_BTLS#ib,} shared_memory=${shared_memory%,self}
    # Small machines: more ranks than cores, and no rank nailed to one.
    mpirun=(mpirun --oversubscribe --bind-to none)
    ! command -v mpirun.openmpi >/dev/null || mpirun[0]=mpirun.openmpi
}
