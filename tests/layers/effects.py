# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""
What does each function change that it did not make itself? From gcc's SSA dumps, with all that it
calls, through casts and structures that are not constant behind a constant one.

A value is known by its roots: where the memory that it may point to comes from. Flow does not
matter: a name has all roots that it ever gets.

  ("at", 0)        what the first parameter points to. Numbers have no roots
  ("behind", 0)    what is reached from there by further pointers
  ("local", name)  a variable of the function, which nobody else sees
  ("global",)      variables of files
  ("calls", name)  only as an effect: a function that is not ours, and not known to change nothing

Called by pointer, a function is each one that any table has under that name (".send = udp_send").
What functions of libraries do to the system is not seen, but for the lists below.
"""

import collections
import re

# Functions that change nothing, or only what the caller has just got from them: they read, format,
# allocate, open and close. A clock is read like a file.
READS = re.compile(r"""
    (mem|str|strn|strcase|strncase|wmem)cmp | strn?len | str(r|case)?str | str(r)?chr | memr?chr
    | str(spn|cspn|pbrk|tod|tou?ll?|error(_r)?) | a(bs|to[il])
    | (to|is)(alpha|alnum|digit|space|upper|lower) | (c|m|re)alloc | free | strdup | sscanf
    | f?open | pread | f?close(dir)? | opendir | readdir | getline | (l|f)?stat | access | getenv
    | secure_getenv | sysconf | getauxval | getpagesize | get[pe]?[pug]id | isatty | clock_gettime
    | socket | ioctl | [gs]etsockopt | getsockname | if_nametoindex | getifaddrs | freeifaddrs
    | [nh]to[nh][sl] | inet_(addr|ntop|pton) | fnmatch | bsearch | pthread_(self|equal)
    | dl_iterate_phdr | .*bswap.* | __ctype_\w+ | __errno_location | __assert_fail
    | __cmsg_nxthdr | __atomic_(load.*|.*_fence) | \w*_EXPR | \.\w+
    | __builtin_(?!mem|str|snprintf|v?sprintf|unwind).* | __builtin_(mem|str)\w*(cmp|len|chr)
    | ibv_query_\w+ | query_\w+ | ibv_is_fork_initialized
    | hwloc_\w*(get|check|first|next|is|type)\w* | mca_base_var_(find|get)\w*
    | opal_output_get_verbosity | opal_list_is_empty | opal_hash_table_get_value_ptr
    | opal_using_threads""", re.X)
# Functions that write what their first argument points to.
WRITES = re.compile(r"(__builtin_)?(mem(cpy|set|move)|v?snprintf|str(n?cpy|n?cat)|fgets|fread|qsort)"
                    r"(_chk)?")

GLOBAL = ("global",)
LOCATION = re.compile(r"\[([^\[\]:\s]+):(\d+):\d+(?: discrim \d+)?\] ")
NAME = r"[A-Za-z_<][\w.]*>?(?:\(D\))?"
SSA = re.compile(r"[\w.]*_\d+(\(D\))?$")
CALL = re.compile(rf"({NAME}) \((.*)\)(?: \[.*\])?$")
TYPE = re.compile(r"(?:const|struct|union|enum|unsigned|signed|long|short|int|char|void|size_t"
                  r"|_Bool|u?int\d+_t)\b")


def split(text):
    """At commas that are not within brackets or strings."""
    parts, depth, quoted, part = [], 0, False, ""
    for i, char in enumerate(text):
        if char == '"' and (i == 0 or text[i - 1] != "\\"):
            quoted = not quoted
        elif not quoted:
            if char in "([{<":
                depth += 1
            elif char in ")]}" or (char == ">" and text[i - 1] != "-"):
                depth -= 1
            elif char == "," and depth == 0:
                parts.append(part.strip())
                part = ""
                continue
        part += char
    return parts + [part.strip()] if part.strip() else parts


class Function:
    """The statements of one, and what is found out of them."""

    def __init__(self, name, source):
        self.name, self.source = name, source
        self.file, self.line, self.returns, self.parameters = None, 0, None, []
        self.variables, self.lines, self.steps = {}, [], []  # name -> type
        self.roots, self.fields = collections.defaultdict(set), {}
        self.effects, self.result = {}, set()  # effect -> (file, line, statement)
        self.calls = set()  # functions of the product
        self.unused = []  # calls whose result nobody uses: (file, line, name)

    def parse(self):
        index = {name: i for i, (_, name) in enumerate(self.parameters)}
        for name, i in index.items():
            self.variables[name] = self.parameters[i][0]
            self.add(name, {("at", i)})
        for place, text in self.lines:
            self.parse_line(place, text)

    # ---- places and values ----

    def variable(self, name):
        """The variable whose part this is ("iov.len"), or None: it is one of a file."""
        if SSA.match(name) or name.startswith("<retval>"):
            return name
        parts = name.split(".")
        for end in range(len(parts), 0, -1):
            if ".".join(parts[:end]) in self.variables or ".".join(parts[:end]) in self.roots:
                return ".".join(parts[:end])
        return None

    def place(self, text):
        """("through", name), ("in", name) or ("global",) of what is assigned or read."""
        text = text.strip().lstrip("(")
        memory = re.match(r"MEM.*?\[(.*)", text)
        if memory:
            text = re.sub(r"\([^()]*\*[^()]*\)", "", memory.group(1)).strip()
            if not text.startswith("&"):
                text = "*" + text
        found = re.match(rf"([*&]?)({NAME})(->)?", text)
        if not found:
            return ("in", "?")
        if found.group(1) == "*" or found.group(3):
            return ("through", found.group(2))
        name = self.variable(found.group(2))
        return ("in", name) if name else GLOBAL

    def operands(self, text):
        """(how, name): "value", "load" or "address" of a name, or "global"."""
        text = re.sub(r'"(?:\\.|[^"\\])*"', "0", text).strip()
        text = re.sub(r"^(?:VIEW_CONVERT_EXPR<.*?>|\([\w ][\w *]*\)) ?", "", text)
        if re.search(r" ([=!]=|[<>]=?) ", text):
            return ()
        if text.startswith("&"):
            kind, *name = self.place(text[1:])
            return ({"through": ("value", *name), "in": ("address", *name)}.get(kind, GLOBAL),)
        if re.match(rf"\*|MEM|{NAME}(->|\[)", text) or "->" in text:
            kind, *name = self.place(text)
            return ({"through": ("load", *name), "in": ("value", *name)}.get(kind, GLOBAL),)
        found = []
        for name in re.findall(rf"(?<![\w.>]){NAME}", text):
            variable = self.variable(name)
            if variable:
                found.append(("value", variable))
            elif len(text) == len(name) and "." not in name:
                found.append(("function", name))
        return tuple(found)

    def parse_line(self, place, text):
        text = text.rstrip(";").replace(" ={v} ", " = ")
        if text.startswith(("if ", "goto", "<", "//", "else", "switch", "static ", "struct ")) \
                or text.endswith("[INV]") or "{CLOBBER" in text or "__asm__" in text:
            return
        if text.startswith("return "):
            self.steps.append(("return", place, text, None, self.operands(text[7:])))
            return
        left, _, right = text.rpartition(" = ") if re.match(rf"{NAME} \(", text) is None \
            else ("", "", text)
        if left and text.index(" = ") != len(left):  # " = " within a string
            left, right = text.split(" = ", 1)
        target = self.place(left) if left else None
        if target == GLOBAL and SSA.match(left):
            target = ("in", left)
        if right.startswith("PHI <"):
            inner = LOCATION.sub("", right[right.index("<") + 1:right.rindex(">")])
            values = [self.operands(re.sub(r"\(\d+\)$", "", part)) for part in split(inner)]
            self.steps.append(("copy", place, text, target, sum(values, ())))
            return
        call = CALL.match(right)
        if call and not TYPE.match(right):
            arguments = [self.operands(part) for part in split(call.group(2))]
            self.steps.append(("call", place, text, target, (call.group(1), arguments)))
            if not left:
                self.unused.append((*place, call.group(1)))
            return
        field = re.search(r"(?:->|\.)([a-z]\w*)$", right)
        if left and field:
            self.fields[left] = field.group(1)
        elif left and right in self.fields:
            self.fields[left] = self.fields[right]
        if left:
            self.steps.append(("copy", place, text, target, self.operands(right)))

    # ---- roots ----

    def value(self, name):
        if name.endswith("(D)"):
            return self.roots.get(name[:-3].rsplit("_", 1)[0], set())
        return self.roots.get(name, set())

    def behind(self, roots):
        found = set()
        for root in roots:
            if root[0] == "local":
                found |= self.roots.get(root[1], set())
            else:
                found.add(("behind", root[1]) if root[0] == "at" else root)
        return found

    def values(self, operands):
        found = set()
        for how, *name in operands:
            if how == "value":
                found |= self.value(*name)
            elif how == "load":
                found |= self.behind(self.value(*name))
            elif how == "address":
                found.add(("local", *name))
            elif how == "global":
                found.add(GLOBAL)
        return found

    def add(self, name, roots):
        if re.fullmatch(r"(?!struct |union |void)[\w ]+", self.variables.get(name, "void")):
            return False  # a number
        before = len(self.roots[name])
        self.roots[name] |= roots
        return len(self.roots[name]) != before

    def affect(self, effect, why):
        if effect in self.effects:
            return False
        self.effects[effect] = why
        return True

    def write(self, roots, values, why):
        """Something is stored where these point to."""
        changed = False
        for root in roots:
            changed |= self.add(root[1], values) if root[0] == "local" else self.affect(root, why)
        return changed

    # ---- statements ----

    def run(self, program):
        """Once over all statements. True if anything new was found."""
        changed = False
        for kind, place, text, target, what in self.steps:
            if kind == "call":
                values, more = self.call(program, (*place, text), *what)
                changed |= more
            else:
                values = self.values(what)
            if kind == "return":
                changed |= not values <= self.result
                self.result |= values
            elif target and target[0] == "through":
                changed |= self.write(self.value(target[1]), values, (*place, text))
            elif target and target[0] == "in":
                changed |= self.add(target[1], values)
            elif target:
                changed |= self.affect(GLOBAL, (*place, text))
        return changed

    def call(self, program, why, name, arguments):
        given = [self.values(operands) for operands in arguments]
        everything = set().union(*given)
        if SSA.match(name) and name not in self.fields:  # a parameter: the caller saw which it is
            return everything, False
        callees = program.callees(self.source, self.fields.get(name, name), name in self.fields)
        name = self.fields.get(name, name)
        if not callees:
            if WRITES.fullmatch(name):
                return given[0], self.write(given[0], set().union(*given[1:]), why)
            return everything, not READS.fullmatch(name) and self.affect(("calls", name), why)
        changed, result = False, set()
        self.calls.update(callees)
        for callee in callees:
            changed |= self.take_over(callee, given, why)
            for root in callee.result:
                if root[0] in ("at", "behind") and root[1] < len(given):
                    result |= given[root[1]] if root[0] == "at" else self.behind(given[root[1]])
                elif root == GLOBAL:
                    result.add(root)
        for operands in arguments:  # a function that is handed over is called with all the rest
            for how, *passed in operands:
                for callee in program.callees(self.source, *passed, False) if how == "function" \
                        else ():
                    self.calls.add(callee)
                    changed |= self.take_over(callee, [everything] * 9, why)
        return result, changed

    def take_over(self, callee, given, why):
        changed, everything = False, set().union(*given)
        for effect in list(callee.effects):
            if effect[0] not in ("at", "behind"):
                changed |= self.affect(effect, why)
            elif effect[1] < len(given):
                roots = given[effect[1]]
                if effect[0] == "at":
                    changed |= self.write(roots, everything, why)
                else:
                    for root in self.behind(roots):
                        if root[0] != "local":
                            changed |= self.affect(root, why)
        return changed


class Program:
    """All functions, from (source, SSA dump) of each compilation. here() makes a path relative to
    the root; tables has the functions of each field: name -> {(source, function)}."""

    def __init__(self, dumps, here, tables):
        self.here, self.tables = here, tables
        self.functions, self.by_name = {}, collections.defaultdict(list)
        for source, dump in dumps:
            self.read(source, dump)
        # What Open MPI's headers define is called as its libraries are.
        self.functions = {key: function for key, function in self.functions.items()
                          if function.file}
        for function in self.functions.values():
            function.parse()
            self.by_name[function.name].append(function)
        again = set(self.functions.values())
        while again:
            changed = {function for function in self.functions.values()
                       if function in again and function.run(self)}
            again = changed | {function for function in self.functions.values()
                               if not changed.isdisjoint(function.calls)}

    def callees(self, source, name, by_field):
        if by_field:
            found = [self.functions.get(key) for key in sorted(self.tables.get(name, ()))]
            return [function for function in found if function]
        function = self.functions.get((source, name))
        return [function] if function else self.by_name.get(name, [])[:1]

    def read(self, source, dump):
        function = None
        for line in dump.split("\n"):
            if line.startswith(";; Function "):
                function = Function(line.split()[2], source)
            elif function and function.returns is None:
                at = line.find(function.name + " (")
                if at >= 0 and line[0] not in " ;":
                    function.returns = line[:at].strip()
                    self.functions[source, function.name] = function
                    for part in split(line[at + len(function.name) + 2:].rstrip().rstrip(")")):
                        found = re.match(r"(.*?)([A-Za-z_][\w.]*)(?:\[[^\]]*\])*$", part)
                        if found and found.group(1):
                            function.parameters.append((found.group(1).strip(), found.group(2)))
            elif function and line.startswith("  "):
                self.read_statement(function, line)

    def read_statement(self, function, line):
        places = LOCATION.findall(line)
        text = LOCATION.sub("", line).strip().removeprefix("# ")
        if not places and " = " not in text and text.endswith(";"):
            found = re.fullmatch(r"(.*) ([\w.]+)((?:\[[^\]]*\])*);", text)
            if found and not text.startswith("return"):
                kind = found.group(1) + ("*" if found.group(3) else "")
                function.variables[found.group(2)] = kind.removeprefix("static ")
                return
        place = (self.here(places[0][0]), int(places[0][1])) if places else (None, 0)
        if place[0] and not function.file:
            function.file, function.line = place
        function.lines.append((place, text))
