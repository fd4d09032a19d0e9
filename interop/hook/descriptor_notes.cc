// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/hook/descriptor_notes.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "weft/interop/hook/attached.h"
#include "weft/interop/hook/fiber_calls.h"

namespace weft::hook {

namespace {

constexpr int kNumbers = 65536;  // Pages that nobody touches cost nothing.

// relaxed, all here: hints; and waits_in orders nothing that the descriptor's own users do not order.
constinit std::atomic<Kind> kinds[kNumbers];
// Which life it was, counted over forks, when a hooked call last waited for the number. 0: never. The child of a fork
// has none of the waits, and may not touch what Weft keeps of them: a thread that is gone may have locked it.
constinit std::atomic<std::uint32_t> waits_in[kNumbers];
constinit std::atomic<std::uint32_t> life{0};

// A child of vfork() closes its own descriptors, in the parent's memory.
constinit std::atomic<pid_t> process{0};

void BeginLife() {
  life.fetch_add(1, std::memory_order_relaxed);
  process.store(::getpid(), std::memory_order_relaxed);
}

[[gnu::constructor]] void CountLives() {
  BeginLife();
  ::pthread_atfork(nullptr, nullptr, &BeginLife);
}

bool HasPlace(int fd) noexcept { return fd >= 0 && fd < kNumbers; }

Kind AskKind(int fd) noexcept {
  struct stat status;
  if (::fstat(fd, &status) != 0) return Kind::kFile;
  switch (status.st_mode & S_IFMT) {
    case S_IFSOCK:
      return Kind::kSocket;
    case S_IFIFO:
      return Kind::kPipe;
    case S_IFREG:
    case S_IFDIR:
    case S_IFBLK:
      return Kind::kFile;
    default:
      return Kind::kPollable;
  }
}

}  // namespace

Kind KindOf(int fd) noexcept {
  if (!HasPlace(fd)) return AskKind(fd);
  Kind kind = kinds[fd].load(std::memory_order_relaxed);
  if (kind != Kind::kUnknown) return kind;
  kind = AskKind(fd);
  if (kind != Kind::kFile) kinds[fd].store(kind, std::memory_order_relaxed);
  return kind;
}

void ForgetKind(int fd) noexcept {
  if (HasPlace(fd)) kinds[fd].store(Kind::kUnknown, std::memory_order_relaxed);
}

void NoteWait(int fd) noexcept {
  if (HasPlace(fd)) waits_in[fd].store(life.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void BeforeClose(int fd) noexcept {
  if (fd < 0) return;
  ForgetKind(fd);
  const std::uint32_t now = life.load(std::memory_order_relaxed);
  // Numbers without a place: not in a forked child, whatever it does.
  const std::uint32_t waited = HasPlace(fd) ? waits_in[fd].load(std::memory_order_relaxed) : 1;
  if (waited != now || ::getpid() != process.load(std::memory_order_relaxed)) return;
  const FiberCalls* const calls = fiber_calls.load(std::memory_order_acquire);
  if (calls == nullptr) return;
  if (HasPlace(fd)) waits_in[fd].store(0, std::memory_order_relaxed);
  calls->forget_fd(fd);
}

}  // namespace weft::hook
