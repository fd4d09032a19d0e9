# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""gdb shows Weft's fibers, in a process and in a core. docs/diagnosing.md says how to use it; `help weft` is short.

Everything is read from memory, by the layout record of the program (scheduling_group/group/gdb_layout.h): debug
information is needed for names of variables only.

A suspended fiber is shown without writing registers, which a core does not allow, and with which a process would go on.
Instead the FiberUnwinder says that the fiber has called the selected thread's newest frame, and hands out the registers
that the switch has saved. A frame filter hides the thread's frame. Both act only while a fiber is shown.
"""

import itertools
import os
import re
import struct

import gdb
from gdb.FrameDecorator import FrameDecorator
from gdb.unwinder import Unwinder

LAYOUT_VERSION = 3  # GdbLayout::kVersion
PHASES = ("free", "running", "parking", "notified", "parked", "ready")  # FiberPhase
STATES = ("new", "ready", "running", "switching", "parked")  # what is shown
MOST_PLACES = 10000  # fibers whose frames `weft fibers` looks through: about 0.4 ms each
MOST_FRAMES = 64
MOST_WAITERS = 5  # that `weft locks` names
FIRST_LOOP_GROUP = 1024  # LoopGroups::kFirstId


def fail(text):
    raise gdb.GdbError("weft: " + text)


def memory(address, size):
    try:
        return bytes(gdb.selected_inferior().read_memory(address, size))
    except gdb.MemoryError:
        fail(f"{size} bytes at {address:#x} cannot be read: is this core complete, and does it belong to this program?")


def words(address, count):
    return struct.unpack(f"<{count}Q", memory(address, 8 * count))


def text_at(address, most=256):
    """Up to the zero; a page at most at a time, since the next one may not be there."""
    text = b""
    while len(text) < most:
        piece = memory(address + len(text), min(most - len(text), 4096 - (address + len(text)) % 4096))
        text += piece
        if b"\0" in piece:
            break
    return text.split(b"\0")[0].decode(errors="replace")


class Record:
    """GdbLayout, field by field."""

    HEADER = struct.Struct("<16sII16sQ")
    FIELDS = ("chunks", "max_chunks", "entities_per_chunk", "entity_size", "entity_id", "entity_state", "entity_name",
              "entity_group", "entity_stack_top", "entity_saved_sp", "entity_wait", "groups", "group_count",
              "group_id", "group_workers", "group_node", "group_name", "wait_kinds", "wait_kind_count",
              "mutex_owner", "shared_mutex_owner", "stacks")
    SAVED = struct.Struct("<8sQ" + "8sQ" * 16)

    def __init__(self):
        if gdb.selected_inferior().pid == 0:
            fail("there is no process and no core: run, attach, or open a core")
        address = self.find()
        magic, version, size, weft, _ = self.HEADER.unpack(memory(address, self.HEADER.size))
        if magic != b"weft gdb layout\0":
            fail(f"no layout record is at {address:#x}: does this program belong to this core?")
        if version != LAYOUT_VERSION:
            fail(f"the program has Weft {weft.rstrip(bytes(1)).decode()} with layout {version}, and this script reads "
                 f"layout {LAYOUT_VERSION}: source the weft_gdb.py of that Weft")
        if size != self.HEADER.size + 8 * len(self.FIELDS) + self.SAVED.size:
            fail(f"the layout record at {address:#x} is damaged: it says that it has {size} bytes")
        address += self.HEADER.size
        for name, value in zip(self.FIELDS, words(address, len(self.FIELDS))):
            setattr(self, name, value)
        saved = self.SAVED.unpack(memory(address + 8 * len(self.FIELDS), self.SAVED.size))
        names = [field.rstrip(b"\0").decode() for field in saved[0::2]]
        self.stack_pointer, self.saved_size = names[0], saved[1]
        self.saved = {name: offset for name, offset in zip(names[1:], saved[3::2]) if name}
        self.program_counter = next(name for name in ("rip", "pc") if name in self.saved)

    def kind(self, number):
        """The name of a WaitKind."""
        if number >= self.wait_kind_count:
            return "unspecified"
        return text_at(words(self.wait_kinds + 8 * number, 1)[0])

    def kinds(self):
        return [self.kind(number) for number in range(self.wait_kind_count)]

    @staticmethod
    def find():
        """By its section, which stripped programs have, too."""
        sections = gdb.execute("info files", to_string=True)
        found = [int(at, 16) for at in re.findall(r"(0x[0-9a-f]+) - 0x[0-9a-f]+ is \.weft_gdb_layout", sections)]
        if not found:
            fail("no layout record in this program or its libraries: it has no Weft, or one that gdb cannot read yet")
        return found[0]


class Fiber:
    def __init__(self, record, raw, at, entity):
        def word(offset):
            return struct.unpack_from("<Q", raw, at + offset)[0]

        self.record = record
        self.entity = entity
        self.id = word(record.entity_id)
        self.group = word(record.entity_group)
        self.stack_top = word(record.entity_stack_top)
        self.saved_sp = word(record.entity_saved_sp)
        self.wait = word(record.entity_wait)
        self.phase = PHASES[struct.unpack_from("<I", raw, at + record.entity_state)[0]]
        self.name_at = word(record.entity_name)
        self.thread = None  # that stands on its stack

    @property
    def waits_for(self):
        """(kind, object): WaitReason in scheduling_group/fiber/wait_reason.h. None: it is not parked."""
        if self.state != "parked":
            return None
        return self.record.kind(self.wait >> 57), self.wait & (1 << 56) - 1

    @property
    def name(self):
        return text_at(self.name_at) if self.name_at else ""

    @property
    def state(self):
        if self.thread is not None:
            return "running"
        if self.stack_top == 0:
            return "new"
        return self.phase if self.phase in ("parked", "ready") else "switching"

    def __str__(self):
        return f"fiber {repr(self.name) if self.name_at else '(unnamed)'} (id {self.id})"

    def saved_registers(self):
        raw = memory(self.saved_sp, self.record.saved_size)
        registers = {name: struct.unpack_from("<Q", raw, offset)[0] for name, offset in self.record.saved.items()}
        if registers[self.record.program_counter] == 0:
            fail(f"the stack of {self} is not in this core. gdb's own gcore loses stacks: use `weft gcore`")
        registers[self.record.stack_pointer] = self.saved_sp + self.record.saved_size
        return registers


class Stacks:
    """Which slot of a stack region an address is in (context/stack/stack_registry.h)."""

    def __init__(self, record):
        first, entries, size, next_at = words(record.stacks, 4)
        self.regions = []
        while first != 0:
            raw = memory(first, entries * size)
            for at in range(0, len(raw), size):
                low, high, stride, guard = struct.unpack_from("<4Q", raw, at)
                if low != 0:
                    self.regions.append((low, high, stride, guard))
            first = words(first + next_at, 1)[0]

    def slot(self, address):
        """(the stack's first byte, the one behind its last), guard not included; None: in no region."""
        for low, high, stride, guard in self.regions:
            if low <= address < high:
                start = low + (address - low) // stride * stride
                return start + guard, start + stride
        return None


class Here:
    """The selected thread and frame, which come back at the end."""

    def __enter__(self):
        self.thread = gdb.selected_thread()
        try:
            self.frame = gdb.selected_frame()
        except gdb.error:
            self.frame = None
        return self

    def __exit__(self, *_):
        if self.thread is not None and self.thread.is_valid():
            self.thread.switch()
            if self.frame is not None and self.frame.is_valid():
                self.frame.select()


def register(frame, name):
    return int(frame.read_register(name)) & (2**64 - 1)


def frames_from(frame):
    """The frame and its callers. A stack that cannot be read further ends there."""
    for _ in range(MOST_FRAMES):
        if frame is None:
            return
        yield frame
        try:
            frame = frame.older()
        except gdb.error:
            return


class Process:
    """A snapshot of the fibers of the selected inferior."""

    def __init__(self):
        self.record = Record()
        self.stacks = Stacks(self.record)
        self.fibers = sorted(self.read_fibers(), key=lambda fiber: fiber.id)
        self.by_entity = {fiber.entity: fiber for fiber in self.fibers}
        self.by_slot = None  # of their stacks; made when it is needed
        self.find_threads()

    def read_fibers(self):
        record, size = self.record, self.record.entity_size
        for index in range(record.max_chunks):
            chunk = words(record.chunks + 8 * index, 1)[0]
            if chunk == 0:
                return
            raw = memory(chunk, size * record.entities_per_chunk)
            for at in range(0, len(raw), size):
                if 0 < struct.unpack_from("<I", raw, at + record.entity_state)[0] < len(PHASES):
                    yield Fiber(record, raw, at, chunk + at)

    def find_threads(self):
        by_slot = {self.stacks.slot(fiber.stack_top - 1): fiber for fiber in self.fibers
                   if fiber.stack_top and fiber.phase in ("running", "parking", "notified")}
        if not by_slot:
            return
        with Showing(None):
            for thread in gdb.selected_inferior().threads():
                if not thread.is_valid() or not thread.is_stopped():
                    continue
                thread.switch()
                # A handler of a signal has another stack: then the fiber's frames come behind its own.
                for frame in frames_from(gdb.newest_frame()):
                    fiber = by_slot.get(self.stacks.slot(register(frame, "sp")))
                    if fiber is not None:
                        fiber.thread, fiber.running_sp = thread, register(frame, "sp")
                        break

    def owner(self, kind, at):
        """The fiber that has what others wait for, "a thread", or None: it has no owner, or none is known."""
        if kind == "join":
            return self.by_entity.get(at)
        offset = {"mutex": self.record.mutex_owner, "shared_mutex": self.record.shared_mutex_owner}.get(kind)
        if offset is None:
            return None
        try:
            address = words(at + offset, 1)[0]
        except gdb.GdbError:
            return None
        if self.by_slot is None:
            self.by_slot = {self.stacks.slot(fiber.stack_top - 1): fiber for fiber in self.fibers if fiber.stack_top}
        slot = self.stacks.slot(address)
        return self.by_slot.get(slot) if slot else "a thread" if address else None

    def groups(self):
        """{address: (id, name, workers, node)} of the runtime's groups, and of those that fibers are in."""
        record = self.record
        addresses = list(words(record.groups, words(record.group_count, 1)[0]))
        addresses += sorted({fiber.group for fiber in self.fibers} - set(addresses) - {0})

        def number(address, offset):
            return struct.unpack("<i", memory(address + offset, 4))[0]

        def name(address):
            characters, count = words(address + record.group_name, 2)
            return memory(characters, min(count, 256)).decode(errors="replace") if count else ""

        return {a: (number(a, record.group_id), name(a), number(a, record.group_workers), number(a, record.group_node))
                for a in addresses}

    def find(self, text):
        """An id, or an expression whose value is one."""
        try:
            wanted = int(text, 0)
        except ValueError:
            try:
                wanted = int(gdb.parse_and_eval(text))
            except gdb.error as error:
                fail(f"'{text}' is no fiber's id: {error}")
        for fiber in self.fibers:
            if fiber.id == wanted:
                return fiber
        fail(f"no fiber has the id {wanted}: it has ended, or there was none")


class FiberUnwinder(Unwinder):
    """What the head of this file says. The selected thread's newest frame is known by its two registers."""

    def __init__(self):
        super().__init__("weft-fiber")
        self.at = None  # (sp, pc) of the thread; None: no fiber is shown
        self.registers = {}  # that the frame returns to
        self.frame_id = None  # of a frame further in than the fiber's

    def __call__(self, pending_frame):
        if self.at is None or (register(pending_frame, "sp"), register(pending_frame, "pc")) != self.at:
            return None
        info = pending_frame.create_unwind_info(self.frame_id)
        for name, value in self.registers.items():
            info.add_saved_register(name, gdb.Value(value))
        return info

    def stands_before(self, frame):
        return (register(frame, "sp"), register(frame, "pc")) == self.at


class FrameId:
    def __init__(self, sp, pc):
        self.sp = gdb.Value(sp)
        self.pc = gdb.Value(pc)


class NamedAsAlways(FrameDecorator):
    def function(self):
        """gdb's own decorator adds the types of arguments."""
        return self.inferior_frame().name() or super().function()


class HideThread:
    """A frame filter: `bt` begins with the fiber."""

    name = "weft-fiber"
    enabled = True
    priority = 1000

    def filter(self, frames):
        frames = itertools.dropwhile(lambda decorated: unwinder.stands_before(decorated.inferior_frame()), frames)
        return map(NamedAsAlways, frames)


class Shown:
    """Which fiber is shown instead of the selected thread."""

    def __init__(self):
        self.fiber = None  # of `weft fiber`
        self.before = None  # where the user was before it
        self.calls = False  # gdb calls a function of the program

    @staticmethod
    def put(at, registers, frame_id):
        """What the unwinder says from now on."""
        try:
            gdb.newest_frame().select()  # The selected one may soon be unknown.
        except gdb.error:
            pass
        unwinder.at, unwinder.registers, unwinder.frame_id = at, registers, frame_id
        if at is None:
            gdb.frame_filters.pop(HideThread.name, None)
        else:
            gdb.frame_filters[HideThread.name] = HideThread()
        gdb.invalidate_cached_frames()

    def put_nothing(self):
        self.put(None, {}, None)

    def enter(self, fiber):
        """Shows the fiber, and selects its newest frame."""
        if fiber.thread is not None:
            self.put_nothing()
            fiber.thread.switch()
            frames = (f for f in frames_from(gdb.newest_frame()) if register(f, "sp") == fiber.running_sp)
            next(frames).select()
            return
        if fiber.stack_top == 0:
            fail(f"{fiber} has not begun: it has no stack yet")
        registers = fiber.saved_registers()
        self.put_nothing()
        if gdb.selected_thread() is None:
            fail("there is no thread to show a fiber in")
        newest = gdb.newest_frame()
        at = register(newest, "sp"), register(newest, "pc")
        self.put(at, registers, FrameId(fiber.saved_sp, at[1]))
        for frame in frames_from(gdb.newest_frame()):
            if not unwinder.stands_before(frame):
                frame.select()
                return
        self.put_nothing()
        fail(f"gdb finds no frame of {fiber}")

    def leave(self):
        before, self.fiber, self.before = self.before, None, None
        self.put_nothing()
        if before is not None:
            before.__exit__()

    def on_continue(self, _):
        """The process runs: what was shown is past. (But a function that gdb calls comes back.)"""
        if self.calls or (self.fiber is None and unwinder.at is None):
            return
        self.fiber = self.before = None
        unwinder.at, unwinder.registers = None, {}
        gdb.frame_filters.pop(HideThread.name, None)
        gdb.invalidate_cached_frames()

    def on_call(self, event):
        self.calls = isinstance(event, gdb.InferiorCallPreEvent)


class Showing:
    """For the time of a `with`; afterwards all is as before. None: no fiber."""

    def __init__(self, fiber):
        self.fiber = fiber

    def __enter__(self):
        self.here = Here().__enter__()
        self.saved = unwinder.at, unwinder.registers, unwinder.frame_id
        if self.fiber is None:
            shown.put_nothing()
            return
        try:
            shown.enter(self.fiber)
        except gdb.GdbError:
            self.__exit__()
            raise

    def __exit__(self, *_):
        if self.here.thread is not None and self.here.thread.is_valid():
            self.here.thread.switch()
        shown.put(*self.saved)
        self.here.__exit__()


unwinder = FiberUnwinder()
shown = Shown()


def is_of_library(name):
    return re.match(r"(std|weft|boost)::|weft_|__", name) is not None


def without_arguments(name):
    """And a lambda by the function that it stands in, where the name says so."""
    if name.endswith("operator"):
        return name + "()"  # gdb has cut that off.
    return re.sub(r"(?<!operator)(::[{<]lambda)?\(.*", "", name.replace("(anonymous namespace)", "{anonymous}"))


def place(fiber):
    """The function of Weft's that was called, and the function that called it."""
    try:
        with Showing(fiber):
            called = ""
            for frame in frames_from(gdb.selected_frame()):
                name = frame.name()
                if name is None:
                    return called or "(no symbols)"
                if not is_of_library(name):
                    line = frame.find_sal()
                    where = f" ({os.path.basename(line.symtab.filename)}:{line.line})" if line.symtab else ""
                    return (called + " < " if called else "") + without_arguments(name) + where
                if name.startswith("weft::"):
                    called = without_arguments(name)
            return called
    except gdb.error as error:  # Also GdbError.
        return str(error)


class Filter:
    """Words that must all fit: a state, key=value, or a part of the name. Values: one or more, as in state=new|ready."""

    def __init__(self, text):
        self.wanted = []
        for word in gdb.string_to_argv(text):
            key, is_pair, value = word.partition("=")
            if not is_pair:
                key, value = ("state" if word in STATES else "name"), word
            if key not in ("state", "name", "group", "reason", "id"):
                fail(f"unknown filter '{word}': use state=, name=, group=, reason=, id=, a state ({', '.join(STATES)}) "
                     "or a part of the name")
            self.check(key, value, "state", STATES)
            self.wanted.append((key, [value] if key == "name" else value.split("|")))

    @staticmethod
    def check(key, value, known, values):
        for one in value.split("|") if key == known else ():
            if one not in values:
                fail(f"unknown {key} '{one}': it is one of {', '.join(values)}")

    def check_reasons(self, record):
        for key, values in self.wanted:
            self.check(key, "|".join(values), "reason", record.kinds())

    def fits(self, fiber, group):
        """group: its number and its name."""
        waits_for = fiber.waits_for
        has = {"state": (fiber.state,), "group": (str(group[0]), group[1]), "id": (str(fiber.id),),
               "reason": waits_for[:1] if waits_for is not None else ()}
        return all(values[0] in fiber.name if key == "name" else any(value in has[key] for value in values)
                   for key, values in self.wanted)


class Command(gdb.Command):
    """Registers a command by its class's name and documentation."""

    def __init__(self):
        super().__init__(self.NAME, gdb.COMMAND_STACK if self.NAME != "weft" else gdb.COMMAND_STATUS,
                         prefix=self.NAME in ("weft", "weft apply"))

    def say(self, text):
        gdb.write(text + "\n")


class Weft(Command):
    """Fibers of a program that uses Weft: weft fibers, bt, fiber, apply all, groups, locks, gcore."""

    NAME = "weft"

    def invoke(self, argument, from_tty):
        gdb.execute("help weft")


class WeftFibers(Command):
    """List the fibers: weft fibers [FILTER]...
FILTER is a state (new, ready, running, switching, parked), a part of the name, state=S, name=N, group=G, by its number
or name, reason=R, what it waits for (weft locks), or id=N; all must fit. Several: state=new|ready.
AT is the function of Weft's that the fiber is in, and the one that called it."""

    NAME = "weft fibers"

    def invoke(self, argument, from_tty):
        wanted = Filter(argument)
        process = Process()
        wanted.check_reasons(process.record)
        groups = process.groups()
        group_of = {fiber.entity: groups.get(fiber.group, ("?", ""))[:2] for fiber in process.fibers}
        fibers = [fiber for fiber in process.fibers if wanted.fits(fiber, group_of[fiber.entity])]
        if fibers:
            self.say(f"{'ID':>8}  {'STATE':<12} {'GROUP':>5}  {'NAME':<20} AT")
        for number, fiber in enumerate(fibers):
            state = fiber.state if fiber.thread is None else f"running/{fiber.thread.num}"
            at = "" if fiber.state == "new" or number >= MOST_PLACES else place(fiber)
            self.say(f"{fiber.id:>8}  {state:<12} {group_of[fiber.entity][0]:>5}  {fiber.name:<20} {at}".rstrip())
        if len(fibers) > MOST_PLACES:
            self.say(f"(AT of the first {MOST_PLACES} only: a filter makes them fewer)")
        self.say(f"{len(fibers)} of {len(process.fibers)} fibers")


class WeftBt(Command):
    """Show the stack of a fiber: weft bt ID [ARGUMENTS OF bt]
ID is a number, or an expression without blanks whose value is one."""

    NAME = "weft bt"

    def invoke(self, argument, from_tty):
        if not argument:
            fail("weft bt ID: of which fiber?")
        name, *rest = argument.split(maxsplit=1)
        fiber = Process().find(name)
        with Showing(fiber):
            gdb.execute("bt " + "".join(rest), from_tty)


class WeftFiber(Command):
    """Show a fiber instead of the selected thread: weft fiber ID, weft fiber off
up, down, frame, info locals and p then work in the fiber's frames. No register is written, and nothing runs: after
`weft fiber off`, or when the process goes on, all is as before. Without an argument: which fiber is shown."""

    NAME = "weft fiber"

    def invoke(self, argument, from_tty):
        process = Process()
        if not argument:
            self.say(f"{shown.fiber} is shown" if shown.fiber is not None else "no fiber is shown")
            return
        if argument == "off":
            if shown.fiber is None:
                fail("no fiber is shown")
            shown.leave()
        else:
            self.show(process.find(argument))
        gdb.execute("frame", from_tty)

    def show(self, fiber):
        before = shown.before if shown.fiber is not None else Here().__enter__()
        shown.enter(fiber)
        shown.fiber, shown.before = fiber, before
        where = "" if fiber.thread is None else f", which thread {fiber.thread.num} runs"
        self.say(f"[{fiber}{where}]")


class WeftApply(Command):
    """Execute a command for fibers: weft apply all CMD"""

    NAME = "weft apply"

    def invoke(self, argument, from_tty):
        fail("weft apply all CMD: for all fibers that have begun")


class WeftApplyAll(Command):
    """Execute a command for all fibers that have begun: weft apply all CMD"""

    NAME = "weft apply all"

    def invoke(self, argument, from_tty):
        if not argument:
            fail("weft apply all CMD: which command?")
        for fiber in Process().fibers:
            if fiber.state == "new":
                continue
            self.say(f"\n{fiber}, {fiber.state}:")
            try:
                with Showing(fiber):
                    gdb.execute(argument, from_tty)
            except gdb.error as error:
                self.say(str(error))


class WeftGroups(Command):
    """List the scheduling groups, with how many fibers of each state they have."""

    NAME = "weft groups"

    def invoke(self, argument, from_tty):
        process = Process()
        self.say("GROUP  NODE  WORKERS" + "".join(f"{state:>11}" for state in STATES))
        for address, (number, name, workers, node) in process.groups().items():
            states = [fiber.state for fiber in process.fibers if fiber.group == address]
            self.say(f"{number:>5}  {'any' if node < 0 else node:>4}  {workers:>7}"
                     + "".join(f"{states.count(state):>11}" for state in STATES)
                     + ("  (of a FiberLoop)" if number >= FIRST_LOOP_GROUP else f"  {name}" if name else ""))


class WeftLocks(Command):
    """List what parked fibers wait for, with owners and waiters: weft locks [KIND]...
Of a mutex, a shared mutex that is locked for writing, and the fiber that is joined the owner is known. Fibers that wait
for each other in a cycle are listed first."""

    NAME = "weft locks"

    def invoke(self, argument, from_tty):
        process = Process()
        kinds = gdb.string_to_argv(argument)
        known = process.record.kinds()
        for kind in kinds:
            if kind not in known:
                fail(f"unknown kind '{kind}': it is one of {', '.join(known)}")
        waiters = {}
        for fiber in process.fibers:
            if fiber.waits_for is not None and (not kinds or fiber.waits_for[0] in kinds):
                waiters.setdefault(fiber.waits_for, []).append(fiber)
        owners = {what: process.owner(*what) for what in waiters}
        for cycle in self.cycles(owners, process):
            waits = [f"waits for {self.name(fiber.waits_for, owners[fiber.waits_for])}" for fiber in cycle]
            self.say(f"a cycle: {cycle[0]} " + ", which ".join(waits))
        for what, fibers in sorted(waiters.items(), key=lambda item: (-len(item[1]), item[1][0].id)):
            named = ", ".join(str(fiber) for fiber in fibers[:MOST_WAITERS])
            more = f" and {len(fibers) - MOST_WAITERS} more" if len(fibers) > MOST_WAITERS else ""
            self.say(f"{self.name(what, owners[what])}: {len(fibers)} waiting: {named}{more}")
        if not waiters:
            self.say("no fiber waits")

    @staticmethod
    def name(what, owner):
        kind, at = what
        if kind in ("readable", "writable", "descriptor"):
            return f"{kind} of descriptor {at}"
        if kind == "join" and owner is not None:
            return f"join of {owner}"
        return kind + (f" {at:#x}" if at else "") + (f", owned by {owner}" if owner is not None else "")

    @staticmethod
    def cycles(owners, process):
        """Each once, beginning with its lowest id."""
        for first in process.fibers:
            cycle = [first]
            while (owner := owners.get(cycle[-1].waits_for)) not in (None, "a thread") and owner not in cycle:
                cycle.append(owner)
            if owner is first and first.id == min(fiber.id for fiber in cycle):
                yield cycle


class WeftGcore(Command):
    """Write a core with the stacks of fibers: weft gcore [FILE]
gdb's own gcore leaves out the rest of a mapping when it meets a page that it cannot read. The guards of stacks are such
pages on Linux 6.13 and later. This lets gdb write its core, and then writes the stacks of all fibers into the file."""

    NAME = "weft gcore"

    def invoke(self, argument, from_tty):
        process = Process()
        path = os.path.expanduser(argument) or f"core.{gdb.selected_inferior().pid}"
        gdb.execute(f"generate-core-file {path}", from_tty)
        stacks, size = 0, 0
        with open(path, "r+b") as file:
            segments = self.segments(file)
            for fiber in process.fibers:
                if fiber.stack_top == 0:
                    continue
                low, high = process.stacks.slot(fiber.stack_top - 1)
                # What lies below is free; but for the red zone.
                used = (fiber.saved_sp if fiber.thread is None else fiber.running_sp) - 128
                low = max(low, used & ~4095) if used < high else low
                self.write(file, segments, low, memory(low, high - low))
                stacks, size = stacks + 1, size + high - low
        self.say(f"weft: the stacks of {stacks} fibers ({size >> 10} KiB) are in {path}, whatever gdb has warned of")

    @staticmethod
    def segments(file):
        """(address, bytes, place in the file) of each segment of the ELF file that is loaded."""
        header = struct.unpack("<16sHHIQQQIHHHHHH", file.read(64))
        start, count = header[5], header[10]
        found = []
        for index in range(count):
            file.seek(start + 56 * index)
            kind, _, offset, address, _, size, _, _ = struct.unpack("<IIQQQQQQ", file.read(56))
            if kind == 1:
                found.append((address, size, offset))
        return found

    @staticmethod
    def write(file, segments, low, content):
        """A stack is in one segment, or in several where something else has split its mapping."""
        for address, size, offset in segments:
            first, last = max(low, address), min(low + len(content), address + size)
            if first < last:
                file.seek(offset + first - address)
                file.write(content[first - low:last - low])


for command in (Weft, WeftFibers, WeftBt, WeftFiber, WeftApply, WeftApplyAll, WeftGroups, WeftLocks, WeftGcore):
    command()
gdb.unwinder.register_unwinder(None, unwinder, replace=True)
gdb.events.cont.connect(shown.on_continue)
gdb.events.inferior_call.connect(shown.on_call)
