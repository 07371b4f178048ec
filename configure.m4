# -*- shell-script -*-
#
# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# What both builds share: Open MPI's configure finds these macros by their names when this
# directory is opal/mca/btl/ib of its source tree; configure.ac beside this file calls them for the
# build against an installed Open MPI, after defining btl_ib_out_of_tree.

# MCA_opal_btl_ib_POST_CONFIG(should_build)
# -----------------------------------------
# Conditionals must be defined whether or not the component is built, and in both builds.
AC_DEFUN([MCA_opal_btl_ib_POST_CONFIG],[
    AM_CONDITIONAL([BTL_IB_OUT_OF_TREE],[m4_ifdef([btl_ib_out_of_tree],[true],[false])])
    AM_CONDITIONAL([BTL_IB_HAVE_OPENMPI],[m4_ifdef([btl_ib_out_of_tree],[test "x$with_openmpi" != xno],[true])])
    AM_CONDITIONAL([BTL_IB_HAVE_OFI],[test "x$btl_ib_ofi_happy" = xyes])
    AM_CONDITIONAL([BTL_IB_HAVE_VERBS],[test "x$btl_ib_verbs_happy" = xyes])
    AM_CONDITIONAL([BTL_IB_HAVE_CRYPTO],[test "x$btl_ib_crypto_happy" = xyes])
    AM_CONDITIONAL([BTL_IB_HAVE_HWLOC],[test "x$btl_ib_hwloc_happy" = xyes])
    AM_CONDITIONAL([BTL_IB_HAVE_CMOCKA],[test "x$btl_ib_cmocka" = xyes])
    AM_CONDITIONAL([BTL_IB_FUZZERS],[test "x$enable_fuzzers" = xyes])
    AM_CONDITIONAL([BTL_IB_CROSS],[test "x$cross_compiling" = xyes])
])dnl

# MCA_opal_btl_ib_CONFIG([action-if-can-compile],[action-if-cannot-compile])
# --------------------------------------------------------------------------
AC_DEFUN([MCA_opal_btl_ib_CONFIG],[
    m4_ifdef([btl_ib_out_of_tree],
        [AC_CONFIG_FILES([Makefile])],
        [AC_CONFIG_FILES([opal/mca/btl/ib/Makefile])])

    AC_ARG_WITH([ib-btl],
        [AS_HELP_STRING([--without-ib-btl],[do not build the ib BTL])])

    # Windows of sequence numbers, timers and batches of system calls assume a 64-bit Linux.
    AC_CHECK_SIZEOF([void *])
    btl_ib_happy=yes
    AC_MSG_CHECKING([whether the ib BTL can be built for this system])
    AS_CASE([$host_os],[*linux*],[],[btl_ib_happy="no, only for Linux"])
    AS_IF([test "$ac_cv_sizeof_void_p" -ne 8],[btl_ib_happy="no, only for 64 bits"])
    AS_IF([test "x$with_ib_btl" = xno],[btl_ib_happy="no, turned off"])
    AC_MSG_RESULT([$btl_ib_happy])

    AC_CHECK_TOOLS([BTL_IB_READELF],[readelf llvm-readelf eu-readelf])
    btl_ib_runpath=
    _BTL_IB_CHECK_DLOPEN
    _BTL_IB_CHECK_OFI
    _BTL_IB_CHECK_VERBS
    _BTL_IB_CHECK_CRYPTO
    _BTL_IB_CHECK_HWLOC
    AC_SUBST([BTL_IB_RUNPATH],[$btl_ib_runpath])

    m4_ifdef([btl_ib_out_of_tree],[],[
        # 5.0 names its library in OPAL_LIB_NAME, 4.1 puts a prefix before its fixed name.
        AS_IF([test -n "$OPAL_LIB_NAME"],
            [BTL_IB_OPAL_LIBS='$(top_builddir)/opal/lib'"$OPAL_LIB_NAME.la"],
            [BTL_IB_OPAL_LIBS='$(top_builddir)/opal/lib'"${OPAL_LIB_PREFIX}open-pal.la"])
        OPAL_SUMMARY_ADD([[Transports]],[[Datagram fabrics (ib)]],[[btl_ib]],[$btl_ib_happy])
        dnl Open MPI's wrapper compilers add this where the component is part of a static libopen-pal.
        btl_ib_LIBS=$BTL_IB_DL_LIBS
        _BTL_IB_CHECK_CMOCKA
    ])
    AC_SUBST([BTL_IB_OPAL_LIBS])

    AS_IF([test "$btl_ib_happy" = yes],[$1],[$2])
])dnl

# _BTL_IB_CHECK_DLOPEN
# --------------------
# Sets BTL_IB_DL_LIBS, which is empty with glibc 2.34 and later.
AC_DEFUN([_BTL_IB_CHECK_DLOPEN],[
    btl_ib_save_LIBS=$LIBS
    BTL_IB_DL_LIBS=
    AC_SEARCH_LIBS([dlopen],[dl],[AS_CASE([$ac_cv_search_dlopen],[-l*],[BTL_IB_DL_LIBS=$ac_cv_search_dlopen])])
    LIBS=$btl_ib_save_LIBS
    AC_SUBST([BTL_IB_DL_LIBS])
])dnl

# _BTL_IB_LOADED(variable, name, libraries, function)
# ---------------------------------------------------
# Sets the variable to what the component loads, libNAME.so.1 or so: what it would need if it was linked with these
# libraries. Where the linker found that outside of the system's directories it is looked for there, too.
AC_DEFUN([_BTL_IB_LOADED],[
    btl_ib_save_LIBS=$LIBS
    LIBS="$3 $LIBS"
    $1=
    AC_MSG_CHECKING([which lib$2 is loaded])
    AC_LINK_IFELSE([AC_LANG_CALL([],[$4])],
        [$1=`$BTL_IB_READELF -d conftest$EXEEXT | sed -n 's/.*NEEDED.*\@<:@\(lib$2\.so@<:@^@:>@@:>@*\).*/\1/p'`
         btl_ib_dir=`$CC $CFLAGS $LDFLAGS -o conftest$EXEEXT conftest.$ac_ext -Wl,-t $LIBS 2>&1 |
            sed -n 's,^\(/.*\)/lib$2\.so@<:@.0-9@:>@*$,\1,p' | sed 1q`
         AS_CASE([$btl_ib_dir],
            [""|/lib*|/usr/lib*],[],
            [btl_ib_runpath="$btl_ib_runpath -R $btl_ib_dir"])])
    LIBS=$btl_ib_save_LIBS
    AC_MSG_RESULT([${$1:-none}])
])dnl

# _BTL_IB_CHECK_CMOCKA
# --------------------
# Sets btl_ib_cmocka and CMOCKA_LIBS, inside Open MPI, which does not know pkg-config's macros in all releases.
AC_DEFUN([_BTL_IB_CHECK_CMOCKA],[
    btl_ib_cmocka=no
    AC_CHECK_HEADER([cmocka.h],
        [AC_CHECK_LIB([cmocka],[_cmocka_run_group_tests],
            [btl_ib_cmocka=yes
             CMOCKA_LIBS=-lcmocka])],[],
        [#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>])
    AC_SUBST([CMOCKA_CFLAGS])
    AC_SUBST([CMOCKA_LIBS])
])dnl

# _BTL_IB_CHECK_CRYPTO
# --------------------
# Sets btl_ib_crypto_happy and BTL_IB_CRYPTO_CPPFLAGS: libcrypto of OpenSSL 3.0 or later, which knows
# EVP_KDF_fetch. Without it only btl_ib_protection none is possible.
AC_DEFUN([_BTL_IB_CHECK_CRYPTO],[
    btl_ib_crypto_happy=no
    AC_ARG_WITH([ib-crypto],
        [AS_HELP_STRING([--with-ib-crypto=auto|yes|no],
            [btl_ib_protection by libcrypto of OpenSSL 3 @<:@auto@:>@])],
        [],[with_ib_crypto=auto])
    AS_CASE([$with_ib_crypto],[auto|yes|no],[],
        [AC_MSG_ERROR([--with-ib-crypto is auto, yes or no; for a libcrypto elsewhere set CPPFLAGS and LDFLAGS])])
    AS_IF([test "$with_ib_crypto" != no],
        [AC_CHECK_HEADER([openssl/kdf.h],
            [AC_CHECK_LIB([crypto],[EVP_KDF_fetch],
                [_BTL_IB_LOADED([btl_ib_crypto_file],[crypto],[-lcrypto],[EVP_KDF_fetch])
                 AS_IF([test -n "$btl_ib_crypto_file"],[btl_ib_crypto_happy=yes])])])
         AS_IF([test "$btl_ib_crypto_happy$with_ib_crypto" = noyes],
            [AC_MSG_ERROR([libcrypto of OpenSSL 3 was not found (Debian: libssl-dev)])])])
    BTL_IB_CRYPTO_CPPFLAGS="-DBTL_IB_CRYPTO_FILE='\"$btl_ib_crypto_file\"'"
    AC_SUBST([BTL_IB_CRYPTO_CPPFLAGS])
])dnl

# _BTL_IB_CHECK_HWLOC
# -------------------
# Sets btl_ib_hwloc_happy, BTL_IB_HWLOC_CPPFLAGS, and BTL_IB_HWLOC_LIBS for tests: hwloc 2.1 or later, the one that Open MPI
# uses, or another beside it. Without it btl_ib_locality does nothing.
AC_DEFUN([_BTL_IB_CHECK_HWLOC],[
    btl_ib_hwloc_happy=no
    AC_ARG_WITH([ib-hwloc],
        [AS_HELP_STRING([--with-ib-hwloc=auto|yes|no],
            [btl_ib_locality by hwloc @<:@auto@:>@])],
        [],[with_ib_hwloc=auto])
    AS_CASE([$with_ib_hwloc],[auto|yes|no],[],
        [AC_MSG_ERROR([--with-ib-hwloc is auto, yes or no; for an hwloc elsewhere set CPPFLAGS and LDFLAGS])])
    AS_IF([test "$with_ib_hwloc" != no],
        [AC_CHECK_DECL([HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED],
            [AC_CHECK_LIB([hwloc],[hwloc_topology_abi_check],
                [_BTL_IB_LOADED([btl_ib_hwloc_file],[hwloc],[-lhwloc],[hwloc_topology_abi_check])
                 AS_IF([test -n "$btl_ib_hwloc_file"],[btl_ib_hwloc_happy=yes])])],[],
            [#include <hwloc.h>])
         AS_IF([test "$btl_ib_hwloc_happy$with_ib_hwloc" = noyes],
            [AC_MSG_ERROR([hwloc 2.1 or later was not found (Debian: libhwloc-dev)])])])
    AS_IF([test "$btl_ib_hwloc_happy" = yes],
        [BTL_IB_HWLOC_CPPFLAGS="-DBTL_IB_HAVE_HWLOC=1 -DBTL_IB_HWLOC_FILE='\"$btl_ib_hwloc_file\"'"
         BTL_IB_HWLOC_LIBS=-lhwloc])
    AC_SUBST([BTL_IB_HWLOC_CPPFLAGS])
    AC_SUBST([BTL_IB_HWLOC_LIBS])
])dnl

# _BTL_IB_CHECK_VERBS
# -------------------
# Sets btl_ib_verbs_happy and BTL_IB_VERBS_CPPFLAGS: libibverbs of rdma-core 35 or later, which tells whether a
# process may fork (ibv_is_fork_initialized), and librdmacm.
AC_DEFUN([_BTL_IB_CHECK_VERBS],[
    btl_ib_verbs_happy=no
    AC_ARG_WITH([ib-verbs],
        [AS_HELP_STRING([--with-ib-verbs=auto|yes|no],
            [transport verbs by rdma-core @<:@auto@:>@])],
        [],[with_ib_verbs=auto])
    AS_CASE([$with_ib_verbs],[auto|yes|no],[],
        [AC_MSG_ERROR([--with-ib-verbs is auto, yes or no; for an rdma-core elsewhere set CPPFLAGS and LDFLAGS])])
    AS_IF([test "$with_ib_verbs" != no],
        [AC_CHECK_HEADER([infiniband/verbs.h],
            [AC_CHECK_HEADER([rdma/rdma_cma.h],
                [AC_CHECK_LIB([ibverbs],[ibv_is_fork_initialized],
                    [AC_CHECK_LIB([rdmacm],[rdma_create_id],
                        [_BTL_IB_LOADED([btl_ib_verbs_file],[ibverbs],[-libverbs],[ibv_is_fork_initialized])
                         _BTL_IB_LOADED([btl_ib_verbs_cm_file],[rdmacm],[-lrdmacm -libverbs],[rdma_create_id])
                         AS_IF([test -n "$btl_ib_verbs_file" && test -n "$btl_ib_verbs_cm_file"],
                            [btl_ib_verbs_happy=yes])],
                        [],[-libverbs])])])])
         AS_IF([test "$btl_ib_verbs_happy$with_ib_verbs" = noyes],
            [AC_MSG_ERROR([rdma-core 35 or later was not found (Debian: libibverbs-dev librdmacm-dev)])])])
    BTL_IB_VERBS_CPPFLAGS="-DBTL_IB_VERBS_FILE='\"$btl_ib_verbs_file\"' -DBTL_IB_VERBS_CM_FILE='\"$btl_ib_verbs_cm_file\"'"
    AC_SUBST([BTL_IB_VERBS_CPPFLAGS])
    # For the log only: no header tells it.
    BTL_IB_VERBS_VERSION=`${PKG_CONFIG:-pkg-config} --modversion libibverbs 2>/dev/null`
    AS_IF([test -z "$BTL_IB_VERBS_VERSION"],[BTL_IB_VERBS_VERSION=unknown])
    AC_SUBST([BTL_IB_VERBS_VERSION])
])dnl

# _BTL_IB_CHECK_OFI
# -----------------
# Sets btl_ib_ofi_happy and BTL_IB_OFI_CPPFLAGS, and BTL_IB_OFI_LDFLAGS and BTL_IB_OFI_LIBS for tests. Inside Open
# MPI its own check answers, so that its --with-ofi=DIR holds for us too.
AC_DEFUN([_BTL_IB_CHECK_OFI],[
    btl_ib_ofi_happy=no
    m4_ifdef([btl_ib_out_of_tree],[
        AC_ARG_WITH([ofi],
            [AS_HELP_STRING([--with-ofi=auto|yes|no],
                [transport ofi by libfabric, found through pkg-config @<:@auto@:>@])],
            [],[with_ofi=auto])
        AS_CASE([$with_ofi],[auto|yes|no],[],
            [AC_MSG_ERROR([--with-ofi is auto, yes or no; for a libfabric elsewhere set PKG_CONFIG_PATH])])
        AS_IF([test "$with_ofi" != no],
            [PKG_CHECK_MODULES([LIBFABRIC],[libfabric >= 1.9],
                [btl_ib_ofi_happy=yes
                 BTL_IB_OFI_CPPFLAGS=$LIBFABRIC_CFLAGS
                 BTL_IB_OFI_LIBS=$LIBFABRIC_LIBS],
                [AS_IF([test "$with_ofi" = yes],
                    [AC_MSG_ERROR([libfabric 1.9 or later was not found by pkg-config (Debian: libfabric-dev)])])])])
    ],[
        dnl 5.0 answers in variables with the prefix that it is given, 4.1 takes none and answers in opal_ofi_*.
        OPAL_CHECK_OFI([btl_ib_opal_ofi])
        AS_IF([test "x$opal_ofi_happy" = xyes],
            [btl_ib_ofi_happy=yes
             BTL_IB_OFI_CPPFLAGS="$btl_ib_opal_ofi_CPPFLAGS $opal_ofi_CPPFLAGS"
             BTL_IB_OFI_LDFLAGS="$btl_ib_opal_ofi_LDFLAGS $opal_ofi_LDFLAGS"
             BTL_IB_OFI_LIBS="$btl_ib_opal_ofi_LIBS $opal_ofi_LIBS"])
    ])
    AS_IF([test "$btl_ib_ofi_happy" = yes],
        [_BTL_IB_LOADED([btl_ib_ofi_file],[fabric],[$BTL_IB_OFI_LDFLAGS $BTL_IB_OFI_LIBS],[fi_getinfo])
         BTL_IB_OFI_CPPFLAGS="$BTL_IB_OFI_CPPFLAGS -DBTL_IB_OFI_FILE='\"$btl_ib_ofi_file\"'"
         AS_IF([test -z "$btl_ib_ofi_file"],
            [AS_IF([test "x$with_ofi" = xyes],[AC_MSG_ERROR([libfabric is no shared library])])
             btl_ib_ofi_happy=no])])
    AC_SUBST([BTL_IB_OFI_CPPFLAGS])
    AC_SUBST([BTL_IB_OFI_LDFLAGS])
    AC_SUBST([BTL_IB_OFI_LIBS])
])dnl
