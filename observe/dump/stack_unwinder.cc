// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/dump/stack_unwinder.h"

#if __has_include(<elfutils/libdwfl.h>)
#define WEFT_HAS_LIBDWFL 1
#include <cxxabi.h>
#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <utility>
#else
#define WEFT_HAS_LIBDWFL 0
#endif

namespace weft::observe {

#if WEFT_HAS_LIBDWFL
namespace {

// Held while libdw is loaded, and over a fork: a child would find the loader half way.
constinit std::mutex loading;
[[maybe_unused]] const int at_fork =
    ::pthread_atfork([] { loading.lock(); }, [] { loading.unlock(); }, [] { loading.unlock(); });

// The functions of libdw.so.1 that are used. Never unloaded.
struct Library {
#define WEFT_LIBDWFL_FUNCTIONS(X)  \
  X(dwfl_begin)                    \
  X(dwfl_end)                      \
  X(dwfl_linux_proc_report)        \
  X(dwfl_linux_proc_find_elf)      \
  X(dwfl_report_end)               \
  X(dwfl_attach_state)             \
  X(dwfl_getthread_frames)         \
  X(dwfl_frame_pc)                 \
  X(dwfl_thread_state_registers)   \
  X(dwfl_thread_state_register_pc) \
  X(dwfl_addrmodule)               \
  X(dwfl_module_info)              \
  X(dwfl_module_addrname)          \
  X(dwfl_module_getsrc)            \
  X(dwfl_lineinfo)
#define X(name) decltype(&::name) name = nullptr;
  WEFT_LIBDWFL_FUNCTIONS(X)
#undef X
  std::string error;

  Library() {
    void* const handle = ::dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* const why = ::dlerror();
      error = std::string("there is no libdw.so.1 (Debian: libdw1): ") + (why != nullptr ? why : "");
      return;
    }
#define X(name)                                                       \
  name = reinterpret_cast<decltype(&::name)>(::dlsym(handle, #name)); \
  if (name == nullptr) error = "libdw.so.1 has no " #name "()";
    WEFT_LIBDWFL_FUNCTIONS(X)
#undef X
  }

  static const Library& Get() {
    static constinit const Library* library = nullptr;  // Never destroyed.
    const std::lock_guard guard(loading);
    if (library == nullptr) library = new Library;
    return *library;
  }
};

// Separate debug files may be in the network (debuginfod): not looked for.
int FindNoDebugInfo(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word, char**) {
  return -1;
}

// What jump_fcontext() has stored at the stack pointer that it saves: the word of each register, by DWARF's number.
struct SavedRegister {
  int number;
  std::size_t word;
};
#if defined(__x86_64__)
constexpr SavedRegister kSaved[] = {{12, 2}, {13, 3}, {14, 4}, {15, 5}, {3, 6}, {6, 7}};  // r12 to r15, rbx, rbp
constexpr std::size_t kSavedReturnAddress = 8;
constexpr std::size_t kSavedWords = 9;
constexpr int kStackPointer = 7;
#elif defined(__aarch64__)
// d8 to d15 in words 0 to 7, x19 to x28, the frame pointer, x30, the address to return to.
constexpr SavedRegister kSaved[] = {{19, 8},  {20, 9},  {21, 10}, {22, 11}, {23, 12}, {24, 13},
                                    {25, 14}, {26, 15}, {27, 16}, {28, 17}, {29, 18}, {30, 19}};
constexpr std::size_t kSavedReturnAddress = 20;
constexpr std::size_t kSavedWords = 22;
constexpr int kStackPointer = 31;
#endif

std::string Demangled(const char* name) {
  int status = 0;
  char* const readable = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  if (readable == nullptr) return name;
  std::string text(readable);
  std::free(readable);
  return text;
}

}  // namespace

class StackUnwinder::Session {
 public:
  explicit Session(std::string* error);
  ~Session() {
    if (dwfl_ != nullptr) library_.dwfl_end(dwfl_);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  std::vector<StackFrame> Unwind(const StackCopy& copy, std::size_t most);
  FrameName Name(std::uint64_t address, bool source);

 private:
  // libdwfl's callbacks. All stacks are those of one thread, to it.
  static pid_t NextThread(::Dwfl*, void* self, void** thread) {
    if (*thread != nullptr) return 0;
    *thread = self;
    return kThread;
  }
  static bool GetThread(::Dwfl*, pid_t thread, void* self, void** argument) {
    *argument = self;
    return thread == kThread;
  }
  static bool ReadMemory(::Dwfl*, Dwarf_Addr address, Dwarf_Word* result, void* self);
  static bool SetRegisters(Dwfl_Thread* thread, void* self);
  static int AddFrame(Dwfl_Frame* frame, void* self);

  static constexpr pid_t kThread = 1;

  const Library& library_;
  Dwfl_Callbacks callbacks_{};
  Dwfl_Thread_Callbacks thread_callbacks_{};
  ::Dwfl* dwfl_ = nullptr;
  // Of the stack that is being unwound.
  StackCopy copy_;
  std::size_t most_ = 0;
  std::vector<StackFrame> frames_;
  std::vector<std::size_t> reads_;  // the words read, in order: those of a frame before those of its caller
  std::size_t reads_used_ = 0;      // up to the last one that was a frame's address
};

StackUnwinder::Session::Session(std::string* error) : library_(Library::Get()) {
  *error = library_.error;
  if (!error->empty()) return;
  callbacks_.find_elf = library_.dwfl_linux_proc_find_elf;
  callbacks_.find_debuginfo = &FindNoDebugInfo;
  thread_callbacks_.next_thread = &NextThread;
  thread_callbacks_.get_thread = &GetThread;
  thread_callbacks_.memory_read = &ReadMemory;
  thread_callbacks_.set_initial_registers = &SetRegisters;
  dwfl_ = library_.dwfl_begin(&callbacks_);
  const bool reported = dwfl_ != nullptr && library_.dwfl_linux_proc_report(dwfl_, ::getpid()) == 0 &&
                        library_.dwfl_report_end(dwfl_, nullptr, nullptr) == 0;
  if (!reported) {
    *error = "libdw cannot read the mappings of this process (/proc/self/maps)";
  } else if (!library_.dwfl_attach_state(dwfl_, nullptr, ::getpid(), &thread_callbacks_, this)) {
    *error = "libdw knows no unwinding for this processor";
  }
}

bool StackUnwinder::Session::ReadMemory(::Dwfl*, Dwarf_Addr address, Dwarf_Word* result, void* self) {
  auto* const me = static_cast<Session*>(self);
  const std::uint64_t offset = address - me->copy_.low;
  if (offset % sizeof(std::uint64_t) != 0 || offset / sizeof(std::uint64_t) >= me->copy_.words.size()) return false;
  const std::size_t word = offset / sizeof(std::uint64_t);
  *result = me->copy_.words[word];
  me->reads_.push_back(word);
  return true;
}

bool StackUnwinder::Session::SetRegisters(Dwfl_Thread* thread, void* self) {
  auto* const me = static_cast<Session*>(self);
  const auto set = [&](int number, Dwarf_Word value) {
    return me->library_.dwfl_thread_state_registers(thread, number, 1, &value);
  };
  if (!me->copy_.registers.empty()) {
    for (std::size_t i = 0; i < me->copy_.registers.size(); ++i) {
      if (!set(static_cast<int>(i), me->copy_.registers[i])) return false;
    }
    me->library_.dwfl_thread_state_register_pc(thread, me->copy_.pc);
    return true;
  }
  for (const SavedRegister saved : kSaved) {
    if (!set(saved.number, me->copy_.words[saved.word])) return false;
  }
  if (!set(kStackPointer, me->copy_.low + kSavedWords * sizeof(std::uint64_t))) return false;
  me->library_.dwfl_thread_state_register_pc(thread, me->copy_.words[kSavedReturnAddress]);
  me->reads_.push_back(kSavedReturnAddress);
  return true;
}

int StackUnwinder::Session::AddFrame(Dwfl_Frame* frame, void* self) {
  auto* const me = static_cast<Session*>(self);
  Dwarf_Addr address = 0;
  bool is_activation = false;
  if (!me->library_.dwfl_frame_pc(frame, &address, &is_activation) || address == 0) return DWARF_CB_ABORT;
  if (me->frames_.empty() && !me->copy_.registers.empty()) ++address;
  std::size_t word = StackFrame::kNowhere;
  const auto read = std::find_if(me->reads_.begin() + static_cast<std::ptrdiff_t>(me->reads_used_), me->reads_.end(),
                                 [&](std::size_t candidate) { return me->copy_.words[candidate] == address; });
  if (read != me->reads_.end()) {
    word = *read;
    me->reads_used_ = static_cast<std::size_t>(read - me->reads_.begin()) + 1;
  }
  me->frames_.push_back({.address = address, .word = word});
  return me->frames_.size() < me->most_ ? DWARF_CB_OK : DWARF_CB_ABORT;
}

std::vector<StackFrame> StackUnwinder::Session::Unwind(const StackCopy& copy, std::size_t most) {
  if ((copy.registers.empty() && copy.words.size() < kSavedWords) || most == 0) return {};
  copy_ = copy;
  most_ = most;
  frames_.clear();
  reads_.clear();
  reads_used_ = 0;
  static_cast<void>(library_.dwfl_getthread_frames(dwfl_, kThread, &AddFrame, this));
  return std::move(frames_);
}

FrameName StackUnwinder::Session::Name(std::uint64_t address, bool source) {
  FrameName name;
  const Dwarf_Addr call = address - 1;  // The call's own line, and its function even if that never returns.
  Dwfl_Module* const module = library_.dwfl_addrmodule(dwfl_, call);
  if (module == nullptr) return name;
  const char* const file =
      library_.dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  if (file != nullptr) name.module = file;
  const char* const function = library_.dwfl_module_addrname(module, call);
  if (function != nullptr) name.function = Demangled(function);
  if (!source) return name;
  Dwfl_Line* const line = library_.dwfl_module_getsrc(module, call);
  const char* const path =
      line != nullptr ? library_.dwfl_lineinfo(line, nullptr, &name.line, nullptr, nullptr, nullptr) : nullptr;
  if (path != nullptr) name.file = path;
  return name;
}

StackUnwinder::StackUnwinder(bool wanted) : why_not_("it was not asked for") {
  if (wanted) session_ = std::make_unique<Session>(&why_not_);
}

std::vector<StackFrame> StackUnwinder::Unwind(const StackCopy& copy, std::size_t most) {
  return why_not_.empty() ? session_->Unwind(copy, most) : std::vector<StackFrame>();
}

FrameName StackUnwinder::Name(std::uint64_t address, bool source) {
  return why_not_.empty() ? session_->Name(address, source) : FrameName();
}

#else  // !WEFT_HAS_LIBDWFL

class StackUnwinder::Session {};

StackUnwinder::StackUnwinder(bool /*wanted*/) : why_not_("Weft was built without libdw (Debian: libdw-dev)") {}
std::vector<StackFrame> StackUnwinder::Unwind(const StackCopy& /*copy*/, std::size_t /*most*/) { return {}; }
FrameName StackUnwinder::Name(std::uint64_t /*address*/, bool /*source*/) { return {}; }

#endif

StackUnwinder::~StackUnwinder() = default;

}  // namespace weft::observe
