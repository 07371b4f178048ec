# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Makes a man page (version=...) of what ib_doctor says of itself.
BEGIN {
    printf ".TH IB_DOCTOR 1 \"\" \"btl_ib %s\" \"btl_ib\"\n.SH NAME\n", version
}
/^"""/ && inside { exit }
!inside && !/^"""/ { next }
{ gsub(/\\/, "\\e"); gsub(/-/, "\\-") }
/^"""/ {
    inside = 1
    sub(/^"""/, "")
    print $0 "\n.SH SYNOPSIS"
    next
}
/^  ib_doctor / {
    sub(/^  /, "")
    sub(/  +also: /, "\n.br\n.B ")
    print ".B " $0 "\n.SH DESCRIPTION"
    next
}
/^$/ { if (described) print ".PP"; next }
{ described = 1 }
/^  \\-\\-/ {
    sub(/^  /, "")
    text = $0
    sub(/^.*  +/, "", text)
    sub(/  +.*$/, "")
    print ".TP\n.B " $0 "\n" text
    next
}
{ sub(/^ +/, ""); sub(/^\./, "\\\\\\&."); print }
