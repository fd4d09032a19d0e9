// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/socket/socket_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/io/io_result.h"
#include "weft/io/reactor/descriptor.h"
#include "weft/sync/wait/wait_queue.h"

// Last: errno follows a fiber.
#include "weft/context/switch_safe_errno.h"

namespace weft::io {
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
