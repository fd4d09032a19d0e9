// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/dump/dump_thread.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <ostream>
#include <streambuf>
#include <string_view>
#include <thread>

#include "weft/base/thread/exit.h"
#include "weft/base/thread/parker.h"
#include "weft/observe/dump/running_stacks.h"
#include "weft/observe/dump/write_dump.h"

namespace weft::observe {
namespace {

// Of the dump for a death.
enum class Death : int { kNone, kAsked, kDumping, kDone };

constinit std::atomic<Death> death{Death::kNone};
constinit std::atomic<bool> asked{false};
constinit std::atomic<int> to_receive{0};  // a signal; 0: none
constinit base::Parker parker;
constinit std::atomic<pid_t> of_process{0};  // whose thread it is
constinit std::atomic<pid_t> thread_id{0};
constinit std::atomic<bool> to_end{false};
constinit std::mutex starting;  // guards the start, the end, and the next two
// A std::thread, of IsHere(): not destroyed at exit(), and in a forked child it is nobody's, and no leak.
alignas(std::thread) constinit std::array<std::byte, sizeof(std::thread)> thread_place{};
constinit const DumpOptions* signal_options = nullptr;  // Never freed.

// Not by std::cerr: <iostream> brings a static object that is destroyed while threads may still use it.
void WriteToStderr(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EAGAIN) {  // A pipe that does not block, and is full.
      pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
      if (::poll(&room, 1, /*timeout=*/1000) == 0) return;
      continue;
    }
    if (written < 0 && errno != EINTR) return;  // There is nobody to tell.
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Writes what it has when it is full: what a dump has found until it hangs or dies is on stderr.
class StderrBuffer : public std::streambuf {
 public:
  StderrBuffer() { setp(text_.data(), text_.data() + text_.size()); }
  ~StderrBuffer() override { Flush(); }

 private:
  int_type overflow(int_type c) override {
    Flush();
    if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
    return traits_type::not_eof(c);
  }
  int sync() override {
    Flush();
    return 0;
  }
  void Flush() {
    WriteToStderr({pbase(), static_cast<std::size_t>(pptr() - pbase())});
    setp(text_.data(), text_.data() + text_.size());
  }

  std::array<char, 4096> text_;
};

void DumpForSignal() {
  StderrBuffer buffer;
  std::ostream out(&buffer);
  static_cast<void>(WriteDump(out, *signal_options));
}

void DumpForDeath() {
  StderrBuffer buffer;
  std::ostream out(&buffer);
  out << "weft: the process is about to die; its fibers:\n" << std::flush;
  // Debug information is large, and takes long to read.
  const DumpOptions options{
      .source_lines = false, .most_frames = DumpThread::kMostFrames, .most_groups = DumpThread::kMostGroups};
  static_cast<void>(WriteDump(out, options, std::chrono::steady_clock::now() + DumpThread::kMostReading));
  out.flush();
  death.store(Death::kDone, std::memory_order_release);  // The text. Pairs with the acquire in DumpBeforeDeath().
}

void Unblock(int signal) {
  sigset_t one;
  ::sigemptyset(&one);
  ::sigaddset(&one, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
}

void ThreadMain() {
  ::pthread_setname_np(::pthread_self(), "FiberDump");
  thread_id.store(::gettid(), std::memory_order_relaxed);  // Read by its own signal handlers.
  for (;;) {
    // relaxed, all: the parker orders them.
    if (const int signal = to_receive.exchange(0, std::memory_order_relaxed)) Unblock(signal);
    Death asked_for = Death::kAsked;  // Unless it has been given up.
    if (death.compare_exchange_strong(asked_for, Death::kDumping, std::memory_order_relaxed)) DumpForDeath();
    if (asked.exchange(false, std::memory_order_relaxed)) DumpForSignal();
    if (to_end.load(std::memory_order_relaxed)) return;
    parker.Park();
  }
}

// Signals are for the program's threads; but a fault that is blocked would end the process at once (DTH2).
std::string StartThread() {
  sigset_t all;
  sigset_t former;
  ::sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::sigdelset(&all, fault);
  ::pthread_sigmask(SIG_SETMASK, &all, &former);
  std::string error;
  try {
    ::new (static_cast<void*>(thread_place.data())) std::thread(&ThreadMain);
  } catch (const std::exception& exception) {
    error = std::string("there is no thread: ") + exception.what();
  }
  ::pthread_sigmask(SIG_SETMASK, &former, nullptr);
  return error;
}

// DTH4. acquire: pairs with the release in Start().
bool IsHere() noexcept { return ::getpid() == of_process.load(std::memory_order_acquire); }

std::int64_t NowMs() noexcept {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

// False: a line written to stderr would wait beyond `until`, or end the process by SIGPIPE.
bool HasStderrRoom(std::int64_t until) noexcept {
  for (;;) {
    const std::int64_t left = until - NowMs();
    pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    const int found = ::poll(&room, 1, left > 0 ? static_cast<int>(left) : 0);
    if (found >= 0 || errno != EINTR) return found == 1 && room.revents == POLLOUT;
  }
}

// DTH2: the messages that follow (glog's, the runtime library's) would wait for ever where a pipe is full of the dump
// and nobody reads it.
void DropStderr() noexcept {
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) ::dup2(nowhere, STDERR_FILENO);
}

}  // namespace

std::string DumpThread::Start() {
  const std::lock_guard guard(starting);
  const pid_t former = of_process.load(std::memory_order_relaxed);
  if (former == ::getpid()) return "";
  base::PinThisLibrary();
  if (former != 0) ::new (static_cast<void*>(&parker)) base::Parker;  // A parent's thread may sleep in it.
  std::string error = StartThread();
  // release: what the thread needs is there. Pairs with the acquire in IsHere().
  if (error.empty()) of_process.store(::getpid(), std::memory_order_release);
  return error;
}

void DumpThread::Stop() noexcept {
  const std::lock_guard guard(starting);
  if (!IsHere() || signal_options != nullptr) return;
  of_process.store(0, std::memory_order_relaxed);  // Nobody asks from now on.
  to_end.store(true, std::memory_order_relaxed);   // The parker orders it.
  static_cast<void>(parker.Unpark());
  auto* const thread = std::launder(reinterpret_cast<std::thread*>(thread_place.data()));
  thread->join();
  thread->~thread();
  thread_id.store(0, std::memory_order_relaxed);  // The number may be another thread's soon.
  to_end.store(false, std::memory_order_relaxed);
}

void DumpThread::SetOptions(const DumpOptions& options) {
  const std::lock_guard guard(starting);
  signal_options = new DumpOptions(options);
}

void DumpThread::Receive(int signal) noexcept {
  to_receive.store(signal, std::memory_order_relaxed);  // The parker orders it.
  static_cast<void>(parker.Unpark());
}

void DumpThread::AskForDump() noexcept {
  if (!IsHere()) return;
  asked.store(true, std::memory_order_relaxed);  // The parker orders it.
  static_cast<void>(parker.Unpark());
}

void DumpThread::DumpBeforeDeath(const void* machine_context) noexcept {
  if (!IsHere()) return;
  if (::gettid() == thread_id.load(std::memory_order_relaxed)) {
    if (death.load(std::memory_order_relaxed) == Death::kNone) return;  // It is the fault of a dump for a signal.
    WriteToStderr("\nweft: the dump ends here: it has failed itself\n");
    death.store(Death::kDone, std::memory_order_release);  // As in DumpForDeath().
    for (;;) ::pause();                                    // DTH2
  }
  if (machine_context != nullptr) RunningStacks::AnswerFor(machine_context);
  Death none = Death::kNone;
  // relaxed: the parker orders it.
  if (death.compare_exchange_strong(none, Death::kAsked, std::memory_order_relaxed)) {
    static_cast<void>(parker.Unpark());
  }
  const std::int64_t until = NowMs() + kMostTime.count();
  bool is_done = false;
  // acquire: pairs with the release in DumpForDeath().
  while (!(is_done = death.load(std::memory_order_acquire) == Death::kDone) && NowMs() < until) {
    static_cast<void>(::poll(nullptr, 0, /*timeout=*/1));
  }
  if (!is_done) death.store(Death::kDone, std::memory_order_relaxed);  // Its abort() need not wait again.
  if (!HasStderrRoom(until)) {
    DropStderr();
  } else if (!is_done) {
    WriteToStderr("\nweft: no more is known of the fibers: the dump needs a lock that is held, or more time\n");
  }
}

}  // namespace weft::observe
