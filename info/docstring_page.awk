# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Makes a man page (name=..., version=...) of what a program of Python says of itself.
BEGIN {
    printf ".TH %s 1 \"\" \"btl_ib %s\" \"btl_ib\"\n.SH NAME\n", toupper(name), version
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
index($0, "  " name " ") == 1 {
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
