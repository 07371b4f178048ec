# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Lets every mpirun of this shell find the component ib beside this file, and the shell its programs
# (ib_info ...):
#   . build/env.sh
#   mpirun --mca pml ob1 --mca btl "$BTL_IB_BTLS" ...
# BTL_IB_BTLS are ib, the shared memory of this Open MPI for messages within a host, and self. An interactive shell is told.
# Works where the tree was moved to, too: the directory is that of this file. bash and zsh know it;
# for other shells it is that of the file env.sh which the shell is just reading.
if [ -n "${BASH_SOURCE:-}" ]; then
    _btl_ib_dir=$(cd "$(dirname "${BASH_SOURCE}")" && pwd)
elif [ -n "${ZSH_VERSION:-}" ]; then
    eval '_btl_ib_dir=${${(%):-%x}:A:h}'
else
    _btl_ib_dir=
    for _btl_ib_file in "/proc/$$/fd/"*; do
        _btl_ib_file=$(readlink "$_btl_ib_file")
        case $_btl_ib_file in
        */env.sh) _btl_ib_dir=${_btl_ib_file%/*} ;;
        esac
    done
    unset _btl_ib_file
fi
if [ -f "$_btl_ib_dir/plugin/mca_btl_ib.so" ]; then
    # From 5.0 on it begins with opal_: PMIx, which mpirun then is made of, knows mca_base_component_path as its own path,
    # and hands it to jobs.
    case :${BTL_IB_COMPONENT_PATH:=SYS_DEFAULT:USER_DEFAULT}: in
    *:"$_btl_ib_dir/plugin":*) ;;
    *) BTL_IB_COMPONENT_PATH=$_btl_ib_dir/plugin:$BTL_IB_COMPONENT_PATH ;;
    esac
    export BTL_IB_COMPONENT_PATH
    case :$PATH: in
    *:"$_btl_ib_dir/bin":*) ;;
    *) export PATH="$_btl_ib_dir/bin:$PATH" ;;
    esac
    export BTL_IB_BTLS=ib,@SHARED_MEMORY@,self
    case $- in
    *i*) echo "For jobs:  mpirun --mca pml ob1 --mca btl $BTL_IB_BTLS ./program" ;;
    esac
else
    echo "env.sh: no component in ${_btl_ib_dir:-this directory}/plugin" >&2
fi
unset _btl_ib_dir
