# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Small trees that break one rule each: tests/layers/run says so, and nothing of a right one."""

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("layers_run", os.path.join(HERE, "run"))
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("layers_run", loader))
loader.exec_module(run)

MAKEFILE = """CC = gcc
CPPFLAGS = {includes}
mca_btl_ib_la_SOURCES = {component}
libbtl_ib_engine_la_SOURCES = {engine}
libbtl_ib_transport_la_SOURCES = {transport}
"""

# A component that uses an engine, which uses a transport; a connection owns what it consists of.
RIGHT = {
    "glue.c": '#include "engine.h"\nint glue(void);\nint glue(void)\n{\n    return engine();\n}\n',
    "engine/engine.h": "int engine(void);\n",
    "engine/engine.c": '#include "engine.h"\n#include "conn.h"\nint engine(void)\n{\n'
                       "    return conn_new();\n}\n",
    "engine/conn/conn.h": '#include "window.h"\ntypedef struct conn {\n    struct window window;\n'
                          "    int id;\n} conn_t;\nint conn_new(void);\n",
    "engine/conn/conn.c": '#include "conn.h"\n#include "transport.h"\nint conn_new(void)\n{\n'
                          "    static conn_t conn;\n    conn_t *c = &conn;\n    c->id = 1;\n"
                          "    window_open(&c->window, 2);\n    return transport(c->id);\n}\n",
    "engine/recovery/window.h": "#pragma once\nstruct window {\n    int size;\n};\n"
                                "void window_open(struct window *window, int size);\n",
    "engine/recovery/window.c": '#include "window.h"\n'
                                "void window_open(struct window *window, int size)\n"
                                "{\n    window->size = size;\n}\n",
    "transport/transport.h": "int transport(int id);\ntypedef struct btl_ib_transport_ops {\n"
                             "    int (*send)(int id);\n} btl_ib_transport_ops_t;\n",
    "transport/transport.c": '#include "transport.h"\n'
                             "int transport(int id)\n{\n    return id;\n}\n",
}


def findings(files):
    """rule -> texts, of a tree with these files."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        build = os.path.join(root, "build")
        os.makedirs(os.path.join(build, ".libs"))
        sources = {layer: [path for path in files if path.endswith(".c")
                           and not path.startswith("tests/") and run.layer_of(path) == layer]
                   for layer in run.LAYERS}
        folders = sorted({os.path.dirname(path) for path in files})
        with open(os.path.join(build, "Makefile"), "w", encoding="utf-8") as file:
            file.write(MAKEFILE.format(includes=" ".join(f"-I{root}/{folder}"
                                                         for folder in folders),
                                       **{layer: " ".join(paths) for layer,
                                          paths in sources.items()}))
        for path in sources["engine"]:
            out = os.path.join(build, path.replace("/", "_") + ".o")
            subprocess.run(["gcc", "-w", *(f"-I{root}/{folder}" for folder in folders), "-c",
                            os.path.join(root, path), "-o", out], check=True)
            subprocess.run(["ar", "rcs", os.path.join(build, ".libs", "libbtl_ib_engine.a"), out],
                           check=True)
        found = {}
        for finding in run.findings(run.Tree(root), build):
            found.setdefault(finding.rule, []).append(str(finding))
        return found


def changed(path, *replacements, **more):
    """RIGHT with replacements in one file, and other files."""
    files = dict(RIGHT)
    for old, new in replacements:
        assert old in files[path], old
        files[path] = files[path].replace(old, new)
    files.update({name.replace("__", "/").replace("_dot_", "."): text for name,
                  text in more.items()})
    return files


class Rules(unittest.TestCase):
    def expect(self, files, rule, *words):
        found = findings(files)
        self.assertIn(rule, found)
        for word in words:
            self.assertIn(word, "\n".join(found[rule]))
        return found

    def test_right(self):
        self.assertEqual(findings(RIGHT), {})

    def test_call_upwards(self):
        files = changed("transport/transport.c", ("return id;", "return engine();"),
                        ('#include "transport.h"\n', '#include "transport.h"\nint engine(void);\n'))
        self.expect(files, "layers", "transport uses engine",
                    "transport.c:transport -> engine.c:engine")

    def test_include_upwards(self):
        self.expect(changed("transport/transport.c",
                            ('transport.h"\n', 'transport.h"\n#include "engine.h"\n')),
                    "layers", "transport.c includes engine.h")

    def test_open_mpi_below(self):
        files = changed("engine/conn/conn.c", ('#include "conn.h"', '#include "conn.h"\n#if 0\n'
                                               '#include "opal/constants.h"\n#endif'))
        self.expect(files, "layers", "only the component knows Open MPI")

    def test_cycle_of_includes(self):
        files = changed("engine/recovery/window.h",
                        ("struct window {", '#include "ack.h"\nstruct window {'),
                        engine__recovery__ack_dot_h='#pragma once\n#include "window.h"\n')
        self.expect(files, "cycles", "ack -> window -> ack")

    def test_cycle_of_calls(self):
        files = changed("engine/recovery/window.c",
                        ("    window->size = size;", "    window->size = ack(size);"),
                        ("void", "int ack(int);\nvoid"))
        files["engine/recovery/ack.c"] = ('#include "window.h"\n'
                                          "int ack(int n)\n{\n    struct window w;\n"
                                          "    window_open(&w, n);\n    return n;\n}\n")
        self.expect(files, "cycles", "ack.c:ack -> window.c:window_open",
                    "window.c:window_open -> ack.c:ack")

    def test_cycle_by_an_inline_function(self):
        files = changed("engine/recovery/window.h",
                        ("struct window {", "int ack(int);\nstatic inline int "
                                                     "window_ack(int n)\n{\n    return ack(n);\n}\n"
                                                     "struct window {"))
        files["engine/recovery/ack.c"] = ('#include "window.h"\nint ack(int n)\n{\n'
                                          "    return n > 9 ? n : window_ack(n + 1);\n}\n")
        self.expect(files, "cycles", "window.h:window_ack -> ack.c:ack")

    def test_cycle_of_an_include_and_a_call(self):
        files = changed("engine/recovery/window.c",
                        ("    window->size", "    ack();\n    window->size"),
                        ("void", "void ack(void);\nvoid"))
        files["engine/recovery/ack.c"] = ('#include "window.h"\n'
                                          "void ack(void);\nvoid ack(void)\n{\n}\n")
        self.expect(files, "cycles", "ack.c includes window.h", "window.c:window_open -> ack.c:ack")

    def test_folder_upwards(self):
        files = changed("engine/recovery/window.c",
                        ("    window->size", "    id();\n    window->size"),
                        ("void", "void id(void);\nvoid"))
        files["engine/conn/id.c"] = "void id(void);\nvoid id(void)\n{\n}\n"
        found = self.expect(files, "folders", "engine/conn -> engine/recovery -> engine/conn")
        self.assertNotIn("cycles", found)

    def test_questions(self):
        """Each way in which a question changes something; and what looks like one, and is none."""
        wrong = {
            "is_first": ("bool is_first(struct it *it) { return it->count++ == 0; }",
                         "not constant", "changes its parameter it"),
            "has_room": ("bool has_room(const struct it *it) { ((struct it *) it)->count++; "
                         "return true; }", "changes its parameter it"),
            "is_due": ("bool is_due(const struct it *it) { return take(it->other); }",
                       "changes what is behind its parameter it", "take"),
            "waits_long": ("bool waits_long(const struct it *it) { struct it copy = *it; "
                           "return take(copy.other); }", "behind its parameter it"),
            "may_go": ("bool may_go(const struct it *it) { it->ops->go(it->other); return true; }",
                       "behind its parameter it"),
            "is_known": ("bool is_known(const struct it *it) { return each(it, take_other); }",
                         "behind its parameter it"),
            "is_last": ("bool is_last(int n) { last = n; return true; }", "a variable of a file"),
            "uses_lock": ("bool uses_lock(void) { return system(0); }", "a library (system)"),
            "can_fit": ("bool can_fit(int n, int *rest) { *rest = n; return n > 0; }",
                        "not constant", "changes its parameter rest"),
            "next_of": ("struct it *next_of(const struct it *it) { take(it->other); "
                        "return it->other; }", "behind its parameter it"),
        }
        right = (
            "bool is_more(const struct it *it, int n) { struct it copy = *it; copy.count += n; "
            "take(&copy); return copy.count > n; }",
            "bool has_name(const char *name) { char text[8]; snprintf(text, 8, \"%s\", name); "
            "return strcmp(text, name) == 0; }",
            "bool is_late(void *context, const struct it *it) { return it == context; }",
            "bool is_big(const struct it *it) { int from = it->count; char text[9] = {0}; "
            "memcpy(text + from, \"\", 1); return text[0] != 0; }",
            "bool go_if_due(struct it *it) { return take(it); }",
            "bool lost(struct it *it) { return take(it); }",
            "struct it *find(struct it *it) { it->count++; return it->other; }",
        )
        head = ("#include <stdbool.h>\n#include <stdio.h>\n#include <string.h>\n"
                "struct ops;\nstruct it { int count; struct it *other; const struct ops *ops; };\n"
                "struct ops { bool (*go)(struct it *); };\nint system(const char *);\n"
                "static int last;\n"
                "static bool take(struct it *it) { return --it->count > 0; }\n"
                "static bool take_other(const struct it *it) { return take(it->other); }\n"
                "static bool each(const struct it *it, bool (*f)(const struct it *)) "
                "{ return f(it); }\nstatic const struct ops ops = { .go = take };\n"
                "const void *used(void); const void *used(void) { return &ops; }\n")
        call = "void turn(struct it *it); void turn(struct it *it) { (void) is_first(it); }\n"
        body = "".join(text + "\n" for text, *_ in wrong.values())
        found = findings(changed("transport/transport.c",
                                 ('#include', head + body + "\n".join(right) + "\n" + call
                                  + '#include')))["questions"]
        for name, (_, *words) in wrong.items():
            text = "\n".join(line for line in found if f" {name}() " in line)
            for word in words:
                self.assertIn(word, text, name)
        self.assertIn("is_first() is called, and nobody looks at the answer", "\n".join(found))
        names = {line.split(": ")[1].split("()")[0] for line in found}
        self.assertEqual(names, set(wrong))

    def test_pointers(self):
        self.expect(changed("engine/conn/conn.h",
                            ("    int id;", "    int id;\n    void (*told)(int id);")),
                    "pointers", "function pointer told of conn")
        self.expect(changed("engine/conn/conn.h",
                            ("int conn_new", "void conn_call(void (*told)(int));\n"
                                                   "int conn_new")), "pointers", "told")
        files = changed("engine/conn/conn.h",
                        ("int conn_new", "typedef void conn_fn_t(int);\nint conn_new"))
        files["engine/other.h"] = "typedef struct other {\n    conn_fn_t *fn;\n} other_t;\n"
        self.expect(files, "pointers", "other.h:2: uses the function type conn_fn_t")

    def test_sizes(self):
        self.expect(changed("glue.c", ("    return", "\n" * 100 + "    return")), "functions",
                    "glue()")
        self.assertNotIn("functions",
                         findings(changed("glue.c", ("    return", "\n" * 57 + "    return"))))
        self.expect(changed("glue.c", ("int glue(void);", "int glue(void);" + "\n" * 1200)), "files",
                    "glue.c")
        self.expect(changed("glue.c", ("int glue(void);", f"int glue(void); /* {'x' * 90} */")),
                    "columns", "glue.c:2")
        for comment, right in (("Returns what an engine does.", True), ("send() of the ops.", True),
                               ("True if there is one.", True), ("The engine's.", False),
                               ("Bytes of it.", False), ("What it is.", False)):
            files = changed("glue.c", ("int glue(void)\n{", f"/* {comment} */\nint glue(void)\n{{"))
            self.assertEqual(findings(files).get("comments", []) == [], right, comment)

    def test_owners(self):
        self.expect(changed("engine/conn/conn.c",
                            ("c->id = 1;", "c->id = 1;\n    c->window.size = 3;")),
                    "owners", "window is written by 2 modules", "conn: size (conn_new)")
        self.expect(changed("engine/conn/conn.c",
                            ("c->id = 1;", "c->id = 1;\n    struct window *w = &c->window;\n"
                                                   "    w->size++;")), "owners",
                    "conn: size (conn_new)")
        self.expect(changed("engine/conn/conn.c",
                            ("c->id = 1;", "c->id = 1;\n    struct window *w = &c->window;\n"
                                                   "    *w = (struct window){0};")), "owners",
                    "conn: ")
        self.expect(changed("engine/conn/conn.c", ("c->id = 1;", "c->id = 1;\n"
                                                   "    memset(&c->window, 0, sizeof(c->window));"),
                            ('#include "conn.h"', '#include "conn.h"\n#include <string.h>')),
                    "owners", "conn: all of it (conn_new)")
        # What begins a connection gives first values.
        first = changed("engine/conn/conn.c", ("c->id = 1;", "c->id = 1;\n    c->window.size = 3;"))
        self.assertNotIn("owners", findings({path: text.replace("conn_new", "allocate_conn")
                                             for path, text in first.items()}))
        # On the stack it is a value.
        self.assertNotIn("owners", findings(changed("engine/conn/conn.c", (
            "c->id = 1;",
            "c->id = 1;\n    struct window w;\n    w.size = 3;\n    c->id = w.size;"))))

    def test_owner_of_an_embedded_structure(self):
        """Assigned as a whole it is its owner's, whatever it is embedded in."""
        files = changed("engine/recovery/window.h", (
            "void window_open", "struct conn;\nvoid window_take(struct conn *conn, "
                                "const struct window *from);\nvoid window_open"))
        files["engine/recovery/window.c"] = (
            '#include "conn.h"\nvoid window_open(struct window *window, int size)\n{\n'
            "    window->size = size;\n}\n"
            "void window_take(struct conn *conn, const struct window *from)\n{\n"
            "    conn->window = *from;\n}\n")
        self.assertNotIn("owners", findings(files))
        files["engine/conn/conn.c"] = files["engine/conn/conn.c"].replace(
            "    c->id = 1;", "    static struct window w;\n    c->id = 1;\n    c->window = w;")
        self.expect(files, "owners", "window is written by 2 modules",
                    "conn: all of it (conn_new)")

    def test_implementations_are_one_owner(self):
        files = dict(RIGHT)
        files["engine/cc/btl_ib_cc.h"] = (
            "struct cc {\n    int window, pace;\n};\nstruct btl_ib_cc_ops {\n"
            "    void (*init)(struct cc *cc);\n};\nvoid cc_init(struct cc *cc);\n")
        files["engine/cc/btl_ib_cc.c"] = ('#include "btl_ib_cc.h"\nvoid cc_init(struct cc *cc)\n'
                                          "{\n    cc->pace = 0;\n}\n")
        swift = ('#include "btl_ib_cc.h"\nvoid swift_init(struct cc *cc);\n'
                 "void swift_init(struct cc *cc)\n{\n    cc->window = 1;\n}\n")
        files["engine/cc/btl_ib_cc_swift.c"] = swift
        self.assertNotIn("owners", findings(files))
        del files["engine/cc/btl_ib_cc_swift.c"]
        files["engine/cc/swift.c"] = swift
        self.expect(files, "owners", "swift: window (swift_init)")

    def test_modules_of_a_group_are_one_owner(self):
        files = changed("engine/conn/conn.c", ("c->id = 1;", "c->id = 1;\n    c->window.size = 3;"))
        run.GROUP_OF.update(window="tx", conn="tx")
        try:
            self.assertNotIn("owners", findings(files))
        finally:
            del run.GROUP_OF["window"], run.GROUP_OF["conn"]

    def test_staged(self):
        """One writer for each field; the header's module and those that make it do not count."""
        files = dict(RIGHT)
        files["engine/send/out.h"] = (
            "typedef struct btl_ib_out {\n    int size, left, late;\n} btl_ib_out_t;\n"
            "static inline void out_late(btl_ib_out_t *out)\n{\n    out->late = 1;\n}\n")
        for name, body in (("make", "*out = (btl_ib_out_t){.size = 1};\n    out->left = 2;"),
                           ("send", "out->left = 1;\n    out_late(out);"),
                           ("again", "out_late(out);")):
            files[f"engine/send/{name}.c"] = (
                f'#include "out.h"\nvoid {name}(btl_ib_out_t *out);\n'
                f"void {name}(btl_ib_out_t *out)\n{{\n    {body}\n}}\n")
        self.assertNotIn("owners", findings(files))
        files["engine/send/again.c"] = files["engine/send/again.c"].replace("out_late(out)",
                                                                            "out->left = 0")
        self.expect(files, "owners", "btl_ib_out_t is written by 4 modules",
                    "again: left (again)", "send: left (send)")

    def test_root(self):
        self.expect(changed("glue.c", **{f"file{i}": "" for i in range(26)}), "root", "27 files")

    def test_names(self):
        self.expect(changed("glue.c", transport__conn_dot_c=""), "names", "named as")
        self.expect(changed("glue.c", engine__glue_dot_h=""), "names", "in another folder")

    def test_system(self):
        self.expect(changed("engine/engine.c", ("return", "getenv(\"HOME\");\n    return")),
                    "system", "getenv")

    def test_tests(self):
        self.assertEqual(findings(changed(
            "glue.c", tests__unit__test_conn_dot_c='#include "conn.h"\n#include "transport.h"\n',
            tests__unit__udp_inside_dot_c='#include "conn.h"\n')), {})
        for name in ("test_window_dot_c", "test_conn_window_dot_c", "helper_dot_h"):
            self.expect(changed("glue.c", **{f"tests__unit__{name}": '#include "conn.h"\n'}),
                        "tests", "includes engine/conn/conn.h", name.replace("_dot_", "."))


if __name__ == "__main__":
    unittest.main()
