# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# Makes a man page (page=1 or 7, version=..., see=words) of what a program says of itself: of the text in the first """
# of a script, or of a whole file without its comments. With form=c it makes a literal in C of that file.
#   NAME - what it is         the first line; lines below it that begin with the name are the synopsis
#   Heading:                  alone in its line; some (INLINE) with their text behind it
#     --option X  text        an item: what it is, and two spaces before its text, or the text in lines of its own
# All else is text.
BEGIN { INLINE = "^(Exit status|Keys|Columns|Matrix): " }
/^#/ && !is_script { is_script = /python3/; next }
is_script && /^"""/ { if (inside++) { exit } }
is_script && !inside { next }
{ sub(/^"""/, "") }
form == "c" {
    gsub(/\\/, "\\\\")
    gsub(/"/, "\\\"")
    printf "    \"%s\\n\"\n", $0
    next
}
!name && /^$/ { next }
{ gsub(/\\/, "\\e"); gsub(/-/, "\\-"); sub(/^ *[.']/, "\\\\\\&&") }
!name {
    name = $1
    # No space between words is stretched, and no name is cut at the end of a line.
    printf ".TH %s %s \"\" \"btl_ib %s\" \"btl_ib\"\n.ad l\n.nh\n.SH NAME\n%s\n.SH SYNOPSIS\n", toupper(name), page, version, $0
    next
}
!described && /^$/ { next }
!described && index($0, "  ") == 1 {
    sub(/^ +/, "")
    sub(/  +also: /, "\n.br\n.B ")
    print (synopsis++ ? ".br\n" : "") ".B " $0
    next
}
!described { described = 1; if (!/^[A-Z][A-Za-z ]*:$/) { print ".SH DESCRIPTION" } }
/^([A-Z][A-Za-z ]*|Level [0-9]: .*):$/ { sub(/:$/, ""); heading($0); next }
match($0, INLINE) { heading(substr($0, 1, RLENGTH - 2)); print substr($0, RLENGTH + 1); next }
/^$/ { blank = 1; next }
/^    / && verbatim { sub(/^    /, ""); print; next }
verbatim { print ".EE"; verbatim = 0 }
/^    [^ ]/ && !item && blank { print ".PP\n.EX"; verbatim = 1; blank = 0; sub(/^    /, ""); print; next }
/^  [^ ]/ {
    if (/^  \\-\\-/ && !options++ && !headed) { heading("Options") }
    sub(/^  /, "")
    text = ""
    if (match($0, /  +/)) {
        text = substr($0, RSTART + RLENGTH)
        $0 = substr($0, 1, RSTART - 1)
    }
    print ".TP\n.B " $0
    if (text != "") { print text }
    item = 1
    blank = 0
    next
}
{
    if (blank) { print ".PP"; item = 0 }
    if (!/^ /) { if (item) { print ".PP" } item = 0 }
    blank = 0
    sub(/^ +/, "")
    print
}
function heading(text) {
    if (verbatim) { print ".EE" }
    print ".SH " (text ~ /^Level/ ? text : toupper(text))
    headed = 1
    blank = item = verbatim = 0
}
END {
    if (form == "c") { exit }
    if (verbatim) { print ".EE" }
    count = split(see, pages, " ")
    print ".SH SEE ALSO"
    for (i = 1; i <= count; ++i) {
        split(pages[i], parts, /[()]/)
        if (parts[1] != name) {
            list = list (list ? ",\n" : "") ".BR " parts[1] " (" parts[2] ")"
        }
    }
    print list
}
