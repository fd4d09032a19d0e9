// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/socket/socket.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/io/io_result.h"
#include "weft/io/reactor/descriptor.h"
#include "weft/sync/wait/wait_queue.h"

// Last: errno follows a fiber.
#include "weft/context/switch_safe_errno.h"

namespace weft::io {

std::error_code OpenSocket(int family, int type, Descriptor* socket) {
  const int fd = ::socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return ErrnoCode(errno);
  *socket = Descriptor(fd);
  return {};
}

namespace {

std::atomic<std::uint32_t> forks{0};
void CountFork() { forks.fetch_add(1, std::memory_order_relaxed); }
[[maybe_unused]] const int at_fork = ::pthread_atfork(nullptr, &CountFork, &CountFork);

// A Unix socket connects at once, or finds the listener's queue full: EAGAIN, and no event tells of room, so it tries
// again. The pauses are short beside the time to empty such a queue, and long beside the system call (about 1 us).
std::error_code ConnectUnix(Descriptor* socket, const SocketAddress& address, Deadline deadline) {
  constexpr std::chrono::microseconds kFirstPause{100};
  constexpr std::chrono::microseconds kLongestPause{10'000};
  for (std::chrono::microseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    const bool last = deadline.expired();  // Before the try: there is one after the deadline.
    const std::error_code error = socket->Once([&](int fd) { return ::connect(fd, address.data(), address.size()); });
    if (error.value() != EAGAIN && error.value() != EINTR) return error;
    if (last) return ErrnoCode(ETIMEDOUT);
    const auto slept =
        synchronization::SleepUntil(std::min(deadline, Deadline(pause)), synchronization::Interruptible::kResult);
    if (slept == synchronization::WaitResult::kInterrupted) return ErrnoCode(ECANCELED);
  }
}

}  // namespace

std::uint32_t ForksSoFar() noexcept { return forks.load(std::memory_order_relaxed); }  // fork() orders it.

bool IsConnectedToItself(int fd) noexcept {
  SocketAddress ends[2];
  socklen_t sizes[2] = {SocketAddress::kCapacity, SocketAddress::kCapacity};
  if (::getsockname(fd, ends[0].data(), &sizes[0]) != 0 || ::getpeername(fd, ends[1].data(), &sizes[1]) != 0)
    return false;
  for (int i = 0; i < 2; ++i) ends[i].set_size(sizes[i]);
  return !ends[0].is_unix() && ends[0] == ends[1];
}

std::error_code ConnectSocket(Descriptor* socket, const SocketAddress& address, Deadline deadline) {
  if (address.is_unix()) return ConnectUnix(socket, address, deadline);
  bool asked = false;
  const auto connect = [&](int fd) -> ssize_t {
    if (!asked) {
      asked = true;
      const int connected = ::connect(fd, address.data(), address.size());
      // An interrupted connect() continues. EAGAIN (no local port is free) would be waited for.
      if (connected == 0 || (errno != EINTR && errno != EINPROGRESS)) {
        if (connected != 0 && errno == EAGAIN) errno = EADDRNOTAVAIL;
        return connected;
      }
      errno = EAGAIN;
      return -1;
    }
    int error = 0;
    socklen_t size = sizeof(error);
    if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return -1;
    if (error == 0) {
      // No error: is it connected, or was this woken too early?
      sockaddr_storage peer;
      socklen_t length = sizeof(peer);
      if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0) return 0;
      error = errno == ENOTCONN ? EAGAIN : errno;
    }
    errno = error;
    return -1;
  };
  if (const std::error_code error = socket->RetryWrite(connect, deadline).error) return error;
  bool is_itself = false;
  static_cast<void>(socket->Once([&](int fd) {
    is_itself = IsConnectedToItself(fd);
    return 0;
  }));
  return is_itself ? ErrnoCode(ECONNREFUSED) : std::error_code();
}

std::error_code SetOption(int fd, int level, int option, int value) {
  return ::setsockopt(fd, level, option, &value, sizeof(value)) == 0 ? std::error_code() : ErrnoCode(errno);
}

std::error_code SetKeepAlive(Descriptor* socket, const TcpKeepAlive& keep_alive) {
  const auto set = [socket](int level, int option, std::int64_t value) {
    if (value < 0 || value > std::numeric_limits<int>::max()) return ErrnoCode(EINVAL);
    const int number = static_cast<int>(value);
    return socket->Once([&](int fd) { return ::setsockopt(fd, level, option, &number, sizeof(number)); });
  };
  if (!keep_alive.enabled) return set(SOL_SOCKET, SO_KEEPALIVE, 0);
  if (std::error_code error = set(IPPROTO_TCP, TCP_KEEPIDLE, keep_alive.idle.count())) return error;
  if (std::error_code error = set(IPPROTO_TCP, TCP_KEEPINTVL, keep_alive.interval.count())) return error;
  if (std::error_code error = set(IPPROTO_TCP, TCP_KEEPCNT, keep_alive.probes)) return error;
  return set(SOL_SOCKET, SO_KEEPALIVE, 1);
}

std::error_code SetUserTimeout(Descriptor* socket, std::chrono::milliseconds timeout) {
  if (timeout.count() < 0 || timeout.count() > std::numeric_limits<int>::max()) return ErrnoCode(EINVAL);
  const int number = static_cast<int>(timeout.count());
  return socket->Once([&](int fd) { return ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &number, sizeof(number)); });
}

SocketAddress LocalAddress(const Descriptor& socket) {
  SocketAddress address;
  socklen_t size = SocketAddress::kCapacity;
  if (socket.Once([&](int fd) { return ::getsockname(fd, address.data(), &size); })) return {};
  address.set_size(size);
  return address;
}

SocketAddress PeerAddress(const Descriptor& socket) {
  SocketAddress address;
  socklen_t size = SocketAddress::kCapacity;
  if (socket.Once([&](int fd) { return ::getpeername(fd, address.data(), &size); })) return {};
  address.set_size(size);
  return address;
}

// --- The file of a Unix socket ---

namespace {

// Others have the lock for a few system calls.
constexpr std::chrono::milliseconds kPause{1};
constexpr std::chrono::seconds kLongestWait{1};

// Empty: the socket has no file.
std::string PathOf(const SocketAddress& address) {
  constexpr std::size_t kOffset = offsetof(sockaddr_un, sun_path);
  if (!address.is_unix() || address.size() <= kOffset) return {};
  const char* const path = reinterpret_cast<const sockaddr_un*>(address.data())->sun_path;
  return {path, ::strnlen(path, address.size() - kOffset)};
}

std::error_code BindTo(int fd, const SocketAddress& address) {
  return ::bind(fd, address.data(), address.size()) == 0 ? std::error_code() : ErrnoCode(errno);
}

// Whether nobody has the socket there any more. One who listens sees a connection that ends at once.
bool RefusesConnections(int type, const SocketAddress& address) noexcept {
  const int fd = ::socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool refuses = ::connect(fd, address.data(), address.size()) != 0 && errno == ECONNREFUSED;
  ::close(fd);
  return refuses;
}

}  // namespace

class SocketFile::DirectoryLock {
 public:
  explicit DirectoryLock(const std::string& path) {
    if (path.empty()) return;
    const std::size_t slash = path.rfind('/');
    const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    fd_ = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd_ < 0) return;
    const Deadline limit(kLongestWait);
    while (!(held_ = ::flock(fd_, LOCK_EX | LOCK_NB) == 0) && (errno == EWOULDBLOCK || errno == EINTR)) {
      if (!limit.expired() && Pause()) continue;
      others_have_it_ = true;
      return;
    }
  }
  ~DirectoryLock() {
    // A child that was forked meanwhile would keep it.
    if (held_) (void)::flock(fd_, LOCK_UN);
    if (fd_ >= 0) ::close(fd_);
  }
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  bool held() const { return held_; }
  bool others_have_it() const { return others_have_it_; }

 private:
  // False: cancelled.
  static bool Pause() {
    return synchronization::SleepUntil(kPause, synchronization::Interruptible::kResult) !=
           synchronization::WaitResult::kInterrupted;
  }

  int fd_ = -1;
  bool held_ = false;
  bool others_have_it_ = false;
};

std::error_code SocketFile::Listen(int fd, const SocketAddress& address, int backlog, std::uint32_t forks_before,
                                   std::unique_ptr<SocketFile>* file) {
  const DirectoryLock lock(PathOf(address));
  if (std::error_code error = BindUnder(lock, SOCK_STREAM, fd, address, forks_before, file)) return error;
  if (::listen(fd, backlog) == 0) return {};
  const std::error_code error = ErrnoCode(errno);
  if (*file != nullptr) (*file)->RemoveOurs();
  file->reset();
  return error;
}

std::error_code SocketFile::Bind(int fd, const SocketAddress& address, std::uint32_t forks_before,
                                 std::unique_ptr<SocketFile>* file) {
  const DirectoryLock lock(PathOf(address));
  return BindUnder(lock, SOCK_DGRAM, fd, address, forks_before, file);
}

std::error_code SocketFile::BindUnder(const DirectoryLock& lock, int type, int fd, const SocketAddress& address,
                                      std::uint32_t forks_before, std::unique_ptr<SocketFile>* file) {
  file->reset();
  std::string path = PathOf(address);
  std::error_code error = BindTo(fd, address);
  if (error == std::errc::address_in_use && lock.held() && RemoveDead(type, address, path)) {
    error = BindTo(fd, address);
  }
  if (error || path.empty()) return error;
  const Identity identity = lock.others_have_it() ? Identity() : Look(path);  // SOF1
  file->reset(new SocketFile(std::move(path), identity, forks_before));
  return {};
}

SocketFile::Identity SocketFile::Look(const std::string& path) noexcept {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0 || !S_ISSOCK(found.st_mode)) return {};
  return {.device = found.st_dev, .inode = found.st_ino, .is_socket = true};
}

// SOF2
bool SocketFile::RemoveDead(int type, const SocketAddress& address, const std::string& path) noexcept {
  return Look(path).is_socket && RefusesConnections(type, address) && ::unlink(path.c_str()) == 0;
}

// SOF1
void SocketFile::RemoveOurs() const noexcept {
  if (identity_.is_socket && Look(path_) == identity_) (void)::unlink(path_.c_str());
}

// SOF3
void SocketFile::Remove(const Descriptor& socket) const noexcept {
  if (is_removed_.exchange(true, std::memory_order_relaxed)) return;  // SOF1
  if (ForksSoFar() != forks_before_) return;
  const auto remove = [this](int fd) {
    if ((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0) RemoveOurs();
    return 0;
  };
  (void)socket.Once(remove);
}

}  // namespace weft::io
