# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Makes of ib_info.txt a literal in C (form=c), or a man page (form=man, version=...).
function begin_page() {
    printf ".TH IB_INFO 1 \"\" \"btl_ib %s\" \"btl_ib\"\n.SH NAME\n", version
    print "ib_info \\- what Open MPI's BTL ib would do on this host\n.SH SYNOPSIS"
}
/^#/ { next }
form == "c" {
    gsub(/\\/, "\\\\")
    gsub(/"/, "\\\"")
    printf "    \"%s\\n\"\n", $0
    next
}
{ gsub(/\\/, "\\e"); gsub(/-/, "\\-"); sub(/^\./, "\\\\\\&.") }
/^Usage: / { begin_page(); print ".B " substr($0, 8); print ".SH DESCRIPTION"; next }
/^[A-Z][a-z ]*:$/ { print ".SH " toupper(substr($0, 1, length($0) - 1)); next }
/^$/ { print ".PP"; next }
/^  \\-\\-/ { sub(/^  /, ""); print ".TP\n.B " $0; next }
/^  [0-9]  / { print ".TP\n.B " $1; sub(/^  [0-9]  /, ""); print; next }
{ sub(/^ +/, ""); print }
