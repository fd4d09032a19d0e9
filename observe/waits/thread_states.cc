// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/waits/thread_states.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <memory>

#include "weft/base/report/str_cat.h"

namespace weft::observe {
namespace {

// "" if it cannot be read.
std::string ReadFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  std::array<char, 4096> text;
  const ssize_t size = ::read(fd, text.data(), text.size());
  ::close(fd);
  return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : "";
}

template <class Number>
std::optional<Number> ParseNumber(std::string_view text, int base) {
  Number number{};
  if (base == 16 && text.starts_with("0x")) text.remove_prefix(2);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The word behind "Key:" of a status file; "": there is none.
std::string_view Field(std::string_view status, std::string_view key) {
  std::size_t at = status.starts_with(key) ? 0 : status.find("\n" + std::string(key));
  if (at == std::string_view::npos) return "";
  if (at != 0) ++at;
  std::string_view value = status.substr(at + key.size());
  value = value.substr(0, value.find('\n'));
  const std::size_t begin = value.find_first_not_of(" \t");
  return begin != std::string_view::npos ? value.substr(begin) : "";
}

// The call's number, its first six arguments, the stack pointer and where it goes on.
std::vector<std::uint64_t> ParseWords(std::string_view line) {
  std::vector<std::uint64_t> words;
  while (!line.empty()) {
    const std::size_t end = line.find_first_of(" \n");
    const std::string_view word = line.substr(0, end);
    const std::optional<std::uint64_t> value = ParseNumber<std::uint64_t>(word, words.empty() ? 10 : 16);
    if (!value) break;
    words.push_back(*value);
    line = end != std::string_view::npos ? line.substr(end + 1) : std::string_view();
  }
  return words;
}

ThreadState::Kind KindOfFutex(const std::vector<std::uint64_t>& words, const std::vector<pid_t>& threads) {
  const auto operation = static_cast<int>(words[2]);
  const int command = operation & ~(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME);
  if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET) return ThreadState::Kind::kSystemCall;
  // pthread_join() waits for the kernel to clear the number of a thread; its futex is not private. IsOwnMemory() is
  // left to those who need to know: it takes longer.
  const bool joins = std::binary_search(threads.begin(), threads.end(), static_cast<pid_t>(words[3]));
  if ((operation & FUTEX_PRIVATE_FLAG) == 0 && !joins) return ThreadState::Kind::kSystemCall;
  return words[4] == 0 ? ThreadState::Kind::kForThread : ThreadState::Kind::kForTime;
}

bool IsEpollWait(std::uint64_t call) {
#ifdef SYS_epoll_wait
  if (call == SYS_epoll_wait) return true;
#endif
  return call == SYS_epoll_pwait;
}

// How often it has been switched away from; nothing: it cannot be read.
std::optional<std::uint64_t> SwitchesOf(std::string_view status) {
  const auto voluntary = ParseNumber<std::uint64_t>(Field(status, "voluntary_ctxt_switches:"), 10);
  const auto others = ParseNumber<std::uint64_t>(Field(status, "nonvoluntary_ctxt_switches:"), 10);
  if (!voluntary || !others) return std::nullopt;
  return *voluntary + *others;
}

bool IsAsleep(ThreadState::Kind kind) {
  using Kind = ThreadState::Kind;
  return kind == Kind::kForThread || kind == Kind::kForTime || kind == Kind::kPolls;
}

ThreadState ReadThread(pid_t tid, const std::vector<pid_t>& threads) {
  using Kind = ThreadState::Kind;
  const std::string folder = "/proc/self/task/" + std::to_string(tid);
  ThreadState state;
  state.tid = tid;
  const std::string status = ReadFile(folder + "/status");
  state.name = Field(status, "Name:");
  const std::optional<std::uint64_t> before = SwitchesOf(status);
  ParseSystemCall(ReadFile(folder + "/syscall"), threads, &state);
  const std::string status_after = ReadFile(folder + "/status");
  const std::optional<std::uint64_t> after = SwitchesOf(status_after);
  if (!before || !after) {
    state.kind = Kind::kUnreadable;
  } else if (*before != *after) {
    state.kind = Kind::kRuns;  // It did.
  } else if (IsAsleep(state.kind) && !Field(status_after, "State:").starts_with('S')) {
    state.kind = Kind::kStopped;
  }
  state.switches = after.value_or(0);
  return state;
}

}  // namespace

void ParseSystemCall(std::string_view line, const std::vector<pid_t>& threads, ThreadState* state) {
  using Kind = ThreadState::Kind;
  if (line.starts_with("running")) {
    state->kind = Kind::kRuns;
    return;
  }
  const std::vector<std::uint64_t> words = ParseWords(line);
  constexpr std::size_t kWords = 9;
  if (words.size() != kWords) {
    state->kind = line.starts_with("-1") ? Kind::kSystemCall : Kind::kUnreadable;  // A page fault, say.
    return;
  }
  state->system_call = static_cast<long>(words[0]);
  state->kind = Kind::kSystemCall;
  state->stack_pointer = words[7];
  if (words[0] == SYS_futex) state->kind = KindOfFutex(words, threads);
  if (state->kind == Kind::kForThread) {
    state->futex = words[1];
    state->shared_futex = (words[2] & FUTEX_PRIVATE_FLAG) == 0;
  }
  if (IsEpollWait(words[0]) && static_cast<int>(words[4]) == -1) {
    state->kind = Kind::kPolls;
    state->descriptor = static_cast<int>(words[1]);
  }
}

std::optional<std::vector<ThreadState>> ReadThreads() {
  std::vector<pid_t> threads;
  {
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/task"), &::closedir);
    if (folder == nullptr) return std::nullopt;
    while (const dirent* const entry = ::readdir(folder.get())) {
      if (const auto tid = ParseNumber<pid_t>(entry->d_name, 10)) threads.push_back(*tid);
    }
  }
  std::sort(threads.begin(), threads.end());
  const auto self = static_cast<pid_t>(::syscall(SYS_gettid));
  std::vector<ThreadState> states;
  for (const pid_t tid : threads) {
    if (tid != self) states.push_back(ReadThread(tid, threads));
  }
  return states;
}

bool IsOwnMemory(std::uint64_t address) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> maps(std::fopen("/proc/self/maps", "re"), &std::fclose);
  std::array<char, 4096 + 128> line;  // a path, and what comes before it
  while (maps != nullptr && std::fgets(line.data(), line.size(), maps.get()) != nullptr) {
    // "7f00-7fff rw-p 00000000 00:00 0": the inode comes last.
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::array<char, 5> rights{};
    std::uint64_t inode = 0;
    if (std::sscanf(line.data(), "%" SCNx64 "-%" SCNx64 " %4s %*x %*x:%*x %" SCNu64, &begin, &end, rights.data(),
                    &inode) != 4) {
      return false;
    }
    // Shared memory is a file; but the number of a segment of shmget() may be 0.
    if (begin <= address && address < end) return rights[3] == 'p' && inode == 0;
  }
  return false;
}

std::optional<std::uint64_t> HandledSignals() {
  const auto mask = ParseNumber<std::uint64_t>(Field(ReadFile("/proc/self/status"), "SigCgt:"), 16);
  if (!mask) return std::nullopt;
  std::uint64_t of_no_interest = 0;
  constexpr int kCancellation = 32;  // These two are the C library's.
  constexpr int kSetIds = 33;
  for (const int signal : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP, kCancellation, kSetIds}) {
    of_no_interest |= std::uint64_t{1} << (signal - 1);
  }
  return *mask & ~of_no_interest;
}

std::string ThreadState::ToString() const {
  const std::string who = base::StrCat("thread '", name, "' (tid ", tid, ") ");
  switch (kind) {
    case Kind::kRuns:
      return who + "runs";
    case Kind::kForThread:
      return who + "waits for another thread";
    case Kind::kForTime:
      return who + "waits with a time-out";
    case Kind::kPolls:
      return base::StrCat(who, "waits for descriptors of epoll ", descriptor);
    case Kind::kSystemCall:
      return base::StrCat(who, "is in system call ", system_call);
    case Kind::kStopped:
      return who + "is stopped, or waits for a page";
    case Kind::kUnreadable:
      break;
  }
  return who + "cannot be looked at";
}

}  // namespace weft::observe
