#!/usr/bin/env bash
# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# test_configured - when do tools/quickstart and tools/check configure a tree? Once, and again when its libraries
# have changed: quickstart on a machine without cmocka, then check, which installs it, must have unit tests.
#
#   tests/tools/test_configured.sh
#
# A tree of its own with the real tools/lib.sh, a configure that only says what it found, and a pkg-config that knows the
# packages listed in a file. Takes less than a second; nothing is installed or built.
set -euo pipefail

lib=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../tools" && pwd)/lib.sh
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
errors=0

tree() { # DIR: what configure_in() needs of a source tree
    mkdir -p "$1/tools"
    cp "$lib" "$1/tools"
    cat >"$1/configure" <<'END'
#!/bin/sh
pkg-config --modversion cmocka >with-cmocka 2>/dev/null || rm -f with-cmocka
echo "$*" >>runs
test ! -e broken || exit 1
touch config.status
END
    chmod +x "$1/configure"
}

mkdir "$place/bin"
cat >"$place/bin/pkg-config" <<END
#!/bin/sh
# pkg-config --modversion NAME
sed -n "s/^\$2 //p" "$place/packages" | grep .
END
chmod +x "$place/bin/pkg-config"
echo 'libfabric 1.17.0' >"$place/packages"
PATH=$place/bin:$PATH

configure() { # TREE ARGS...: as the tools do, each in a process of its own
    bash -euo pipefail -c '. "$0/tools/lib.sh"; configure_in "$build" "$@"' "$@" >/dev/null 2>&1
}
expect() { # RUNS WHAT
    local runs
    runs=$(wc -l <"$tree/build/runs")
    ((runs == $1)) || {
        echo "$2: configured $runs times, not $1"
        errors=1
    }
}

tree=$place/tree
tree "$tree"
configure "$tree"
expect 1 "a new tree"
configure "$tree"
expect 1 "nothing changed"

echo 'cmocka 1.1.5' >>"$place/packages"
mkdir -p "$tree/build/engine"
touch "$tree/build/engine/old.o"
configure "$tree"
expect 2 "cmocka was installed"
[[ -e $tree/build/with-cmocka ]] || { echo "configure did not find cmocka"; errors=1; }
[[ ! -e $tree/build/engine/old.o ]] || { echo "what was built without cmocka is still there"; errors=1; }
configure "$tree"
expect 2 "nothing changed since"

sed -i 's/^libfabric .*/libfabric 2.1.0/' "$place/packages"
configure "$tree"
expect 3 "a library has another version"
sed -i '/^libfabric/d' "$place/packages"
configure "$tree"
expect 4 "a library is gone"
configure "$tree" --enable-werror
expect 5 "other arguments"

touch "$tree/build/broken"
! configure "$tree" || { echo "a configure that failed was taken for one that did not"; errors=1; }
expect 6 "other arguments, and it fails"
rm "$tree/build/broken"
configure "$tree" --enable-werror
expect 7 "the arguments of before, but what they had made is gone"
configure "$tree"
expect 8 "none again"

touch -d '+2 seconds' "$tree/configure"
configure "$tree"
expect 9 "a newer configure"

# A copy names directories of the original.
touch -d '-1 hour' "$tree/configure"
configure "$tree"
cp -a "$tree" "$place/copy"
tree=$place/copy
runs=$(wc -l <"$tree/build/runs")
configure "$tree"
expect $((runs + 1)) "the tree was copied"

((errors)) || echo "ok"
exit "$errors"
