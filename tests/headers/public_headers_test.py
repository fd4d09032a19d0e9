# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Public and internal headers are told apart: python3 public_headers_test.py <source tree>

Public are the headers at the root of a layer's folder, and tRPC-Cpp's names in TRPC_FOLDERS; what lies in another
subfolder is internal. Public declarations name no type of an internal namespace."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
HEAD = ["// Copyright 2026 The Weft Authors.", "// SPDX-License-Identifier: Apache-2.0", "//"]
TRPC_FOLDERS = {"fiber/fiber", "fiber/testing"}

# Headers that the servers of examples/ take from Weft's own toolbox; a program of a user has its own.
EXAMPLES_MAY = {"base/report/check.h", "base/time/clock.h", "base/thread/cpu.h", "base/memory/intrusive_list.h", "base/memory/object_pool.h", "base/report/log.h", "base/thread/spin_lock.h",
                "base/thread/thread_annotations.h"}

INTERNAL_NAMESPACE = r"(?:scheduling_group|context|numa|synchronization|timer|base|detail|\w+_internal)"
# Functions of public headers that are there for the layers above.
FOR_LAYERS_ABOVE = re.compile(r"\bRunBlocking\(")
# Public types in such a namespace, and their headers.
PUBLIC_NAMES = {"base::RefPtr": "base/ref_ptr.h", "base::RefCounted": "base/ref_ptr.h",
                "base::UniqueFunction": "base/unique_function.h"}

# Where a public declaration names one nevertheless: a concept constrains a template, and no user names it.
# LimitedResult<F>, OptionalResult<F> and LimitedAwaitResult<A> are a bool or a std::optional, as F returns or A gives.
# ResultOf<F> and AwaitResult<A> are that itself; KeptOf<R> is R, or std::monostate for void.
# ClientStream is a private base.
EXCEPTIONS = {"fiber/async.h": {"detail::FiberProcedure"},
              "fiber/collect.h": {"detail::CallableRange", "detail::ForwardRange", "detail::IteratorOf", "detail::KeptOf"},
              "fiber/fiber.h": {"detail::FiberProcedure", "detail::StartProcedure"},
              "fiber/fiber_scope.h": {"detail::StartProcedure"},
              "fiber/fiber_task.h": {"detail::StartProcedure"},
              "fiber/select_tasks.h": {"detail::AwaitedRange", "detail::WaitAnyArguments",
                                 "synchronization::DoNothing"},  # the last is a default, as below
              "sync/cancel_scope.h": {"synchronization::OptionalResult", "synchronization::ResultOf"},
              "sync/select.h": {"synchronization::DoNothing"},
              "io/select_sockets.h": {"synchronization::DoNothing"},
              "io/fiber_blocking.h": {"detail::LimitedResult"},
              "interop/coroutine.h": {"detail::AwaitResult", "detail::LimitedAwaitResult"},
              "interop/grpc_client.h": {"detail::ClientStream"},
              "interop/grpc_server.h": {"detail::ServerHandler"},
              "interop/grpc_server_stream.h": {"detail::ServerHandler"},
              "timer/fiber_timer.h": {"fiber_timer_internal::Callback"}}


def layers():
    return re.search(r"^set\(WEFT_LAYERS ([^)]*)\)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1].split()


def layer_headers():
    return {path.relative_to(ROOT).as_posix() for layer in layers() for path in (ROOT / layer).rglob("*.h")}


def is_public(name):
    folder = name.rpartition("/")[0]
    return "/" not in folder or folder in TRPC_FOLDERS


def public_headers():
    return {name for name in layer_headers() if is_public(name)} | {"weft.h", "version.h"}


def included(text):
    return set(re.findall(r'#\s*include\s*["<]weft/([^">]+)[">]', text))


def head_offences(name, text):
    lines = text.splitlines()
    found = [] if lines[:3] == HEAD else ["does not begin with copyright, licence and an empty comment line"]
    if not re.match(r"// [\w`\"]", lines[3]):
        found.append("has no summary")
    guard = "WEFT_" + re.sub(r"\W", "_", name).upper() + "_"
    if f"#ifndef {guard}\n#define {guard}\n" not in text or not text.endswith(f"#endif  // {guard}\n"):
        found.append(f"has no guard {guard}")
    if "\n\n#ifndef" in text.partition("#define")[0]:
        found.append("has an empty line between its head comment and the guard")
    return [f"{name} {one}" for one in found]


def declarations(text):
    """The public declarations: without comments, bodies, private parts and internal namespaces."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    code = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', code)
    code = re.sub(r"(?m)^[ \t]*#(?:\\\n|[^\n])*", "", code)
    shown = []
    # Of each open brace: "namespace", "class" or "body"; whether what is in it is seen.
    open_braces = [("namespace", True)]
    statement = ""
    parentheses = 0
    for c in code:
        kind, seen = open_braces[-1]
        if c in "()":
            parentheses += 1 if c == "(" else -1
        if c == "{" and not parentheses:
            words = re.sub(r"\s+", " ", statement).strip()
            opened, visible = "body", False
            if match := re.match(r"(?:inline )?namespace\s*([\w:]*)", words):
                inner = match[1].split("::")[-1]
                opened, visible = "namespace", seen and inner != "detail" and not inner.endswith("_internal") and inner != ""
            elif re.match(r"(?:template ?<.*> ?)?(?:requires.*)?(?:class|struct|union)\b", words) and kind != "body":
                opened, visible = "class", seen
                if words.startswith("class") or re.search(r"> ?class\b", words):
                    visible = None if seen else False  # Private until `public:`.
            if seen and kind != "body":
                # A constructor's initialisers are no declaration.
                shown.append(re.split(r"\)\s*(?:const|noexcept|\s)*:(?!:)", words)[0] if opened == "body" else words)
            open_braces.append((opened, visible))
            statement = ""
        elif c == "}" and not parentheses:
            if len(open_braces) > 1:
                open_braces.pop()
            statement = ""
        elif c == ";" and not parentheses:
            if seen and kind != "body":
                # Nor is a member's initial value, or the body of an alias's template head.
                shown.append(re.sub(r"\s+", " ", statement).strip())
            statement = ""
        elif c == ":" and (access := re.search(r"\b(public|protected|private)\s*$", statement)) and kind == "class":
            if seen is not False:
                open_braces[-1] = (kind, True if access[1] == "public" else None)
            statement = ""
        else:
            statement += c
    # An alias, and a using-declaration, give what is internal its public name.
    return [one for one in shown if not re.match(r"friend class|using \w+ =|using [\w:]+$", one) and not FOR_LAYERS_ABOVE.search(one)]


def internal_names(text):
    found = set()
    for declaration in declarations(text):
        for qualified in re.finditer(rf"\b({INTERNAL_NAMESPACE}::)+(\w+)", declaration):
            if qualified[0] not in PUBLIC_NAMES:
                found.add(qualified[0])
    return found


class PublicHeaders(unittest.TestCase):
    def test_each_header_has_the_same_head(self):
        headers = layer_headers() | {"weft.h", "version.h"}
        self.assertGreater(len(public_headers()), 40)
        self.assertGreater(len(headers - public_headers()), 40)
        offences = []
        for name in sorted(headers):
            offences += head_offences(name, (ROOT / name).read_text())
        self.assertEqual(offences, [])

    def test_the_path_says_what_is_public(self):
        for name in ("weft.h", "io/a.h", "fiber/testing/a.h", "fiber/fiber/a.h"):
            self.assertTrue(is_public(name), name)
        for name in ("io/reactor/a.h", "fiber/start/a.h", "io/testing/a.h"):
            self.assertFalse(is_public(name), name)

    def test_documents_examples_and_samples_name_public_headers_only(self):
        public = public_headers()
        internal = layer_headers() - public
        table = set(re.findall(r"`weft/([\w/]+\.h)`", (ROOT / "docs/api.md").read_text()))
        self.assertGreater(len(table), 10)
        self.assertEqual(table - public, set())
        for path in sorted((ROOT / "docs").glob("*.md")) + [ROOT / "README.md"]:
            text = path.read_text()
            named = included(text) | set(re.findall(r"`weft/([\w/]+\.h)`", text))
            self.assertEqual(named & internal, set(), path)
        programs = [path for folder in ("examples", "tests/samples", "tests/consumer")
                    for path in (ROOT / folder).rglob("*") if path.suffix in (".h", ".cc")]
        self.assertGreater(len(programs), 20)
        for path in programs:
            # The program in embedded/ logs, to show where lines go.
            may = any(path.is_relative_to(ROOT / folder) for folder in ("examples", "tests/consumer/embedded"))
            allowed = EXAMPLES_MAY if may else set()
            self.assertEqual(included(path.read_text()) & internal - allowed, set(), path)

    def test_public_declarations_name_no_internal_type(self):
        self.assertTrue(set(PUBLIC_NAMES.values()) <= public_headers())
        found = {}
        for name in sorted(public_headers()):
            if names := internal_names((ROOT / name).read_text()) - EXCEPTIONS.get(name, set()):
                found[name] = names
        self.assertEqual(found, {})
        for name, names in EXCEPTIONS.items():
            self.assertEqual(names - internal_names((ROOT / name).read_text()), set(), f"{name}: no exception any more")

    def test_what_is_wrong_is_found(self):
        head = "\n".join(HEAD) + "\n"
        guard = "#ifndef WEFT_A_B_H_\n#define WEFT_A_B_H_\n#endif  // WEFT_A_B_H_\n"
        self.assertEqual(head_offences("a/b.h", head + "// B: it.\n" + guard), [])
        self.assertEqual(len(head_offences("a/b.h", head.replace("\n//\n", "\n\n") + "// B: it.\n" + guard)), 1)
        self.assertEqual(len(head_offences("a/b.h", head + "//\n" + guard)), 1)
        self.assertEqual(len(head_offences("a/c.h", head + "// B: it.\n" + guard)), 1)
        self.assertEqual(len(head_offences("a/b.h", head + "// B: it.\n\n" + guard)), 1)
        code = "namespace weft { class A { base::X x_; public: %s private: base::Y y_; }; %s }"
        self.assertEqual(internal_names(code % ("A() : x_(base::Z()) { base::W w; } void F(int);", "void G();")), set())
        self.assertEqual(internal_names(code % ("base::Z F();", "")), {"base::Z"})
        self.assertEqual(internal_names(code % ("void F(int, const numa::Z&) { }", "")), {"numa::Z"})
        self.assertEqual(internal_names(code % ("", "void G(fiber::detail::Z);")), {"detail::Z"})
        self.assertEqual(internal_names(code % ("", "namespace detail { base::Z z; }")), set())
        self.assertEqual(internal_names(code % ("", "base::RefPtr<int> G(); using W = base::Y; using base::Z;")), set())


if __name__ == "__main__":
    unittest.main()
