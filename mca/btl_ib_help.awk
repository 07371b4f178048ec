# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Makes of a file of Open MPI's help texts what stands between the braces of an array in C: a pair of
# strings for each topic. A form feed stands where details begin.
/^#/ { next }
/^\[.*\]$/ {
    if (topic) print "    },"
    topic = substr($0, 2, length($0) - 2)
    printf "    {\n        \"%s\",\n", topic
    next
}
/^@details$/ {
    print "        \"\\f\""
    next
}
topic {
    gsub(/"/, "\\\"")
    printf "        \"%s\\n\"\n", $0
}
END { if (topic) print "    }," }
