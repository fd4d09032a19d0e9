# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""tools/gdb/weft_gdb.py on processes and on cores: python3 weft_gdb_test.py <weft_gdb_program> <weft_gdb.py>

Prints "skipped: ..." where gdb may not trace a process."""

import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.abspath(sys.argv.pop(2))
PROGRAM = os.path.abspath(sys.argv.pop(1))

GDB = ["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex", "set startup-with-shell off",
       "-ex", "set width 0", "-ex", "set confirm off"]
RUN = ["break ReadyForDebugger", "run", f"source {SCRIPT}"]
BT_OF_PARKED = (r"(?s)WaitDeep \(depth=0\).*WaitDeep \(depth=1\).*WaitDeep \(depth=2\).*WaitDeep \(depth=3\).*"
                r"weft_context_start \(\)\n(?!#)")


def gdb(commands, *arguments):
    options = [option for command in commands for option in ("-ex", command)]
    result = subprocess.run([*GDB, *options, *arguments], capture_output=True, text=True, timeout=240, check=False,
                            stdin=subprocess.DEVNULL)
    return result.stdout + result.stderr


def live(*commands):
    return gdb([*RUN, *commands], PROGRAM)


def mark(name):
    """Divides an output: part() finds what comes between two marks."""
    return f"echo \\n--{name}--\\n"


def part(output, name):
    found = re.search(rf"\n--{name}--\n(.*?)(?=\n--\w+--\n|\Z)", output, re.DOTALL)
    return found[1] if found else f"(no part {name}) {output}"


class OnAProcess(unittest.TestCase):
    def test_all_fibers_are_listed_with_state_and_place(self):
        output = live(mark("all"), "weft fibers", mark("parked"), "weft fibers parked", mark("name"),
                      "weft fibers yields ready", mark("group"), "weft fibers group=0 state=new", mark("none"),
                      "weft fibers group=7", mark("named"), "weft fibers group=web", mark("reason"),
                      "weft fibers reason=event|mutex", mark("several"), "weft fibers state=new|ready", mark("id"),
                      "weft fibers id=1", mark("groups"), "weft groups", "kill")
        everything = part(output, "all")
        line = r"\(weft_gdb_program.cc:\d+\)\n"
        self.assertRegex(everything, r"\n +\d+  parked +0  waits for the end +weft::FiberEvent::Wait < WaitDeep " + line)
        self.assertRegex(everything, r"\n +\d+  parked +0  +weft::FiberEvent::Wait < (main|operator\(\)) " + line)
        self.assertRegex(everything, r"\n +\d+  running/\d+ +0  runs +Spin " + line)
        self.assertRegex(everything, r"\n +\d+  ready +0  yields +weft::FiberYield < StartSpinnerAndYield")
        self.assertRegex(everything, r"\n +\d+  new +0  has not begun\n")
        self.assertIn("\n5 of 5 fibers", everything)
        self.assertIn("2 of 5 fibers", part(output, "parked"))
        self.assertNotIn("yields", part(output, "parked"))
        self.assertIn("1 of 5 fibers", part(output, "name"))
        self.assertIn("has not begun\n1 of 5 fibers", part(output, "group"))
        self.assertEqual(part(output, "none").strip(), "0 of 5 fibers")
        self.assertIn("5 of 5 fibers", part(output, "named"))
        self.assertIn("2 of 5 fibers", part(output, "reason"))
        self.assertIn("2 of 5 fibers", part(output, "several"))
        self.assertIn("1 of 5 fibers", part(output, "id"))
        self.assertRegex(part(output, "groups"), r"\n    0 +(any|0) +1 +1 +1 +1 +0 +2  web\n")

    def test_the_page_of_diagnosing_shows_what_gdb_says(self):
        page = (pathlib.Path(SCRIPT).parents[2] / "docs/diagnosing.md").read_text()
        shown = re.search(r"\(gdb\) weft fibers\n((?:    (?!\(gdb\)).*\n)+)", page)[1]

        def without_numbers(text):
            return [re.sub(r" +\d+|\d+", " N", line.strip()) for line in text.strip().splitlines()]

        output = live(mark("all"), "weft fibers", mark("end"), "kill")
        self.assertEqual(without_numbers(shown), without_numbers(part(output, "all")))

    def test_the_page_shows_the_locks_that_gdb_shows(self):
        page = (pathlib.Path(SCRIPT).parents[2] / "docs/diagnosing.md").read_text()
        shown = re.search(r"\(gdb\) weft locks\n((?:    (?!\(gdb\)).*\n)+)", page)[1]

        def without_numbers(text):
            return [re.sub(r"0x[0-9a-f]+|\d+", "N", line.strip()) for line in text.strip().splitlines()]

        output = gdb(["break ReadyForDebugger", "run locks", f"source {SCRIPT}", mark("all"), "weft locks", mark("end"),
                      "kill"], PROGRAM)
        self.assertEqual(without_numbers(shown), without_numbers(part(output, "all")))

    def test_stacks_are_shown_and_the_selected_frame_stays(self):
        output = live(mark("parked"), "weft bt parked_id", mark("short"), "weft bt parked_id 1", mark("running"),
                      "weft bt running_id", mark("all"), "weft apply all bt", mark("here"), "frame", "bt", "kill")
        self.assertRegex(part(output, "parked"), BT_OF_PARKED)
        self.assertNotIn("ReadyForDebugger", part(output, "parked"))
        self.assertEqual(len(re.findall(r"^#", part(output, "short"), re.MULTILINE)), 1, output)
        self.assertIn("Spin ()", part(output, "running"))
        everything = part(output, "all")
        self.assertRegex(everything, BT_OF_PARKED)
        self.assertIn("StartSpinnerAndYield", everything)
        self.assertRegex(everything, r"\nfiber 'runs' \(id \d+\), running:\n(.*\n)*.*Spin \(\)")
        self.assertNotIn("has not begun", everything)
        here = r"#0  ReadyForDebugger \(\)(.*\n)*"
        self.assertRegex(part(output, "here"), "^" + here + here + r"#1 .* main \(")

    def test_a_fiber_is_selected_and_left_again_and_the_process_goes_on_unharmed(self):
        output = live("weft fiber parked_id", mark("up"), "frame function WaitDeep", "p marker", "up", "p marker", "up",
                      "p marker", "down", "p marker", mark("call"), "p Twice(21)", "p marker", mark("bt"), "bt",
                      mark("other"), "weft bt ready_id", "p marker", mark("which"), "weft fiber", mark("running"),
                      "weft fiber running_id", "frame function Spin", "info locals", mark("off"), "weft fiber off", "bt",
                      mark("again"), "weft fiber parked_id", "continue")
        self.assertEqual(re.findall(r"\$\d+ = (\d+)", part(output, "up")), ["7", "107", "207", "107"], output)
        self.assertEqual(re.findall(r"\$\d+ = (\d+)", part(output, "call")), ["42", "107"], output)
        self.assertRegex(part(output, "bt"), BT_OF_PARKED)
        self.assertIn("StartSpinnerAndYield", part(output, "other"))
        self.assertIn("= 107", part(output, "other"))
        self.assertRegex(part(output, "which"), r"fiber 'waits for the end' \(id \d+\) is shown")
        self.assertRegex(part(output, "running"), r"which thread \d+ runs\](.*\n)*turns = \d+")
        self.assertRegex(part(output, "off"), r"^#0  ReadyForDebugger")
        self.assertNotIn("WaitDeep", part(output, "off"))
        self.assertIn("it ended well", part(output, "again"))
        self.assertIn("exited normally", part(output, "again"))

    def test_what_was_shown_is_past_when_the_process_goes_on(self):
        output = live("weft fiber parked_id", "break puts", "continue", mark("after"), "bt", "weft fiber", "kill")
        self.assertRegex(part(output, "after"), r"^#0 .*puts.*\n#1 .* main \(")
        self.assertIn("no fiber is shown", part(output, "after"))

    def test_locks_are_listed_with_owners_waiters_and_cycles(self):
        output = gdb(["break ReadyForDebugger", "run locks", f"source {SCRIPT}", mark("all"), "weft locks",
                      mark("joins"), "weft locks join", mark("none"), "weft locks barrier", "kill"], PROGRAM)
        self.check_locks(part(output, "all"))
        self.assertRegex(part(output, "joins"), r"^join of fiber 'owner' \(id \d+\): 1 waiting: fiber 'joiner'.*\n?$")
        self.assertTrue(part(output, "none").startswith("no fiber waits\n"), output)

    def check_locks(self, output):
        fiber = r"fiber '{}' \(id \d+\)".format
        at = "mutex 0x[0-9a-f]+"
        for line in (f"{at}, owned by {fiber('owner')}: 2 waiting: {fiber('first')}, {fiber('second')}",
                     f"join of {fiber('owner')}: 1 waiting: {fiber('joiner')}",
                     f"event 0x[0-9a-f]+: 3 waiting: {fiber('owner')}, {fiber('waits for the end')}, "
                     r"fiber \(unnamed\) \(id \d+\)",
                     f"a cycle: {fiber('left')} waits for {at}, owned by {fiber('right')}, which waits for {at}, owned "
                     f"by {fiber('left')}"):
            self.assertRegex(output, f"(?m)^{line}$")

    def test_bad_input_is_one_clear_line(self):
        cases = {
            "weft fibers colour=red": "weft: unknown filter 'colour=red': use state=, name=, group=, reason=, id=, a",
            "weft fibers reason=mutx": "weft: unknown reason 'mutx': it is one of unspecified, mutex,",
            "weft fibers state=new|old": "weft: unknown state 'old': it is one of new,",
            "weft fibers state=asleep": "weft: unknown state 'asleep': it is one of new, ready,",
            "weft bt": "weft: weft bt ID: of which fiber?",
            "weft bt 4711": "weft: no fiber has the id 4711: it has ended, or there was none",
            "weft bt nonsense": "weft: 'nonsense' is no fiber's id: No symbol",
            "weft fiber off": "weft: no fiber is shown",
            "weft apply": "weft: weft apply all CMD: for all fibers",
            "weft apply all": "weft: weft apply all CMD: which command?",
            "weft locks nonsense": "weft: unknown kind 'nonsense': it is one of unspecified, mutex, shared_mutex,",
        }
        for command, line in cases.items():  # A failing command ends a batch.
            code = f'python\ntry: gdb.execute("{command}")\nexcept gdb.error as error: print("[%s]" % error)\n'
            cases[command] = line, code
        with tempfile.NamedTemporaryFile("w", suffix=".gdb") as file:
            for command, (_, code) in cases.items():
                file.write(f"echo \\n--{command}--\\n\n{code}end\n")
            file.flush()
            output = live(f"source {file.name}", "kill")
        for command, (line, _) in cases.items():
            found = re.search(rf"\n--{re.escape(command)}--\n(.*)\n", output)
            self.assertIn("[" + line, found[1] if found else output)
        self.assertNotIn("Traceback", output)

    def test_without_a_process_or_without_weft_it_says_so(self):
        self.assertIn("weft: there is no process and no core: run, attach, or open a core",
                      gdb([f"source {SCRIPT}", "weft fibers"], PROGRAM))
        other = shutil.which("true")
        self.assertIn("weft: no layout record in this program or its libraries",
                      gdb(["starti", f"source {SCRIPT}", "weft fibers", "kill"], other))

    def test_a_program_without_symbols_can_be_looked_into(self):
        with tempfile.TemporaryDirectory() as folder:
            stripped = str(pathlib.Path(folder) / "stripped")
            subprocess.run(["strip", "-s", "-o", stripped, PROGRAM], check=True)
            output = gdb(["run crash", f"source {SCRIPT}", "weft fibers", mark("all"), "weft apply all bt", "kill"],
                         stripped)
        self.assertRegex(output, r"\n +\d+  parked +0  waits for the end +\(no symbols\)\n")
        self.assertIn("5 of 5 fibers", output)
        self.assertEqual(len(re.findall(r"\nfiber .*\n#\d.*\n#", part(output, "all"))), 4, output)

    def test_gdb_loads_the_script_by_itself_if_it_may(self):
        content = pathlib.Path(PROGRAM).read_bytes()
        path = re.search(rb"\x01(/[^\0]*/weft_gdb.py)\0", content)[1]
        with tempfile.TemporaryDirectory() as folder:
            # As if it were installed there: a name of the same length.
            shutil.copy(SCRIPT, folder)
            here = os.path.join(folder, "weft_gdb.py").encode()
            program = pathlib.Path(folder) / "program"
            program.write_bytes(content.replace(path, here.replace(b"/w", b"/" * (1 + len(path) - len(here)) + b"w")))
            trust = ["-iex", f"add-auto-load-safe-path {folder}"]
            self.assertIn("weft: there is no process", gdb(["weft fibers"], *trust, program))
            refused = gdb(["weft fibers"], program)
            self.assertIn("auto-loading has been declined", refused)
            self.assertIn("Undefined command", refused)


class OnACore(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.core = cls.crash() or cls.copy("weft gcore", "crash", "run crash")

    @classmethod
    def crash(cls):
        """A core by the kernel, where it writes them into the folder of the process."""
        def allow():
            resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)

        subprocess.run([PROGRAM, "crash"], cwd=cls.folder.name, preexec_fn=allow, capture_output=True, timeout=60,
                       check=False)
        found = list(pathlib.Path(cls.folder.name).glob("core*"))
        return str(found[0]) if found else None

    @classmethod
    def copy(cls, command, name, run="run"):
        """A core by gdb."""
        path = str(pathlib.Path(cls.folder.name) / name)
        cls.said = gdb(["break ReadyForDebugger", run, f"source {SCRIPT}", f"{command} {path}", "kill"], PROGRAM)
        return path

    def look(self, *commands, core=None):
        return gdb([f"source {SCRIPT}", *commands], PROGRAM, core or self.core)

    def test_a_crash_shows_all_fibers_and_the_guilty_one(self):
        output = self.look(mark("all"), "weft fibers", mark("running"), "weft bt running_id", mark("parked"),
                           "weft bt parked_id", mark("fiber"), "weft fiber parked_id", "frame function WaitDeep", "up",
                           "p marker", mark("off"), "weft fiber off", mark("apply"), "weft apply all bt 3")
        self.assertRegex(part(output, "all"), r"running/\d+ +0  runs +Crash")
        self.assertIn("5 of 5 fibers", part(output, "all"))
        self.assertRegex(part(output, "running"), r"Crash \(nowhere=0x0\)(.*\n)+.* Spin \(\)")
        self.assertRegex(part(output, "parked"), BT_OF_PARKED)
        self.assertIn("= 107", part(output, "fiber"))
        self.assertNotIn("WaitDeep", part(output, "off"))
        self.assertEqual(len(re.findall(r"\nfiber ", part(output, "apply"))), 4, output)

    def test_a_core_of_another_version_of_weft_is_one_clear_line(self):
        with open(self.core, "r+b") as core:
            content = core.read()
            places = [match.start() + 16 for match in re.finditer(b"weft gdb layout\0", content)]
            self.assertNotEqual(places, [], "the record is not in the core")

            def write(version):
                for place in places:
                    core.seek(place)
                    core.write(version.to_bytes(4, "little"))
                core.flush()
                os.fsync(core.fileno())

            write(9)
            output = self.look("weft fibers")
            write(3)
        self.assertRegex(output, r"(?m)^weft: the program has Weft \d+\.\d+\.\d+ with layout 9, and this script reads "
                                 r"layout 3: source the weft_gdb.py of that Weft$")
        self.assertNotIn("Traceback", output)

    def test_weft_gcore_has_the_stacks(self):
        core = self.copy("weft gcore", "weft_gcore")
        self.assertRegex(self.said, r"weft: the stacks of 4 fibers \(\d+ KiB\) are in ")
        output = self.look("weft bt parked_id", mark("all"), "weft fibers", core=core)
        self.assertRegex(output, BT_OF_PARKED)
        self.assertIn("5 of 5 fibers", part(output, "all"))

    def test_a_core_has_the_locks(self):
        core = self.copy("weft gcore", "locks", "run locks")
        OnAProcess.check_locks(self, self.look("weft locks", core=core))

    def test_gdbs_own_gcore_has_the_stacks_or_the_script_says_that_it_lost_them(self):
        core = self.copy("gcore", "gcore")
        output = self.look("weft bt parked_id", core=core)
        if "Memory read failed" not in self.said:
            self.assertRegex(output, BT_OF_PARKED)
        else:
            self.assertRegex(output, r"weft: the stack of fiber 'waits for the end' \(id \d+\) is not in this core\. "
                                     r".* use `weft gcore`")


if __name__ == "__main__":
    if "ReadyForDebugger" not in live("bt", "kill"):
        print("skipped: gdb cannot trace a process here")
        sys.exit(0)
    unittest.main()
