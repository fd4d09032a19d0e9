// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <stdexcept>
#include <utility>

#include "weft/io/fiber_blocking.h"

namespace weft::io {
namespace {

// The read size for a file of unknown size (/proc).
constexpr std::size_t kPiece = 64 * 1024;

class OpenFile {
 public:
  explicit OpenFile(int fd) : fd_(fd) {}
  ~OpenFile() { static_cast<void>(Close()); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int get() const { return fd_; }
  // Reports whether all written data has arrived (NFS, quotas). Not repeated after EINTR: Linux has closed it.
  std::error_code Close() {
    const int fd = std::exchange(fd_, -1);
    if (fd < 0 || ::close(fd) == 0 || errno == EINTR) return {};
    return ErrnoCode(errno);
  }

 private:
  int fd_;
};

int Open(const char* path, int flags, mode_t mode) {
  int fd;
  do {
    fd = ::open(path, flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// Repeats `transfer(done)`, which is read() or write(), until `size` bytes are done, nothing comes, or an error.
template <class Transfer>
IoResult TransferAll(std::size_t size, Transfer transfer) {
  IoResult result;
  while (result.bytes < size) {
    const ssize_t n = transfer(result.bytes);
    if (n > 0) {
      result.bytes += static_cast<std::size_t>(n);
    } else if (n == 0) {
      break;
    } else if (errno != EINTR) {
      result.error = ErrnoCode(errno);
      break;
    }
  }
  return result;
}

IoResult ReadAll(int fd, char* data, std::size_t size) {
  return TransferAll(size, [&](std::size_t done) { return ::read(fd, data + done, size - done); });
}

ReadFileResult ReadFileHere(const char* path, std::size_t max_size) {
  const OpenFile file(Open(path, O_RDONLY, 0));
  if (file.get() < 0) return {ErrnoCode(errno), {}};
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return {ErrnoCode(errno), {}};
  if (S_ISDIR(status.st_mode)) return {std::make_error_code(std::errc::is_a_directory), {}};
  if (status.st_size > 0 && static_cast<std::size_t>(status.st_size) > max_size) {
    return {std::make_error_code(std::errc::file_too_large), {}};
  }

  ReadFileResult result;
  // One byte more than its size, to see its end in the same call. It may have grown, or not report its size.
  std::size_t piece = status.st_size > 0 ? static_cast<std::size_t>(status.st_size) + 1 : kPiece;
  for (;;) {
    const std::size_t before = result.data.size();
    const std::size_t left = max_size - before;
    if (left < piece) piece = left + 1;
    result.data.resize(before + piece);
    const IoResult read = ReadAll(file.get(), result.data.data() + before, piece);
    result.data.resize(before + read.bytes);
    if (read.error) return {read.error, {}};
    if (result.data.size() > max_size) return {std::make_error_code(std::errc::file_too_large), {}};
    if (read.bytes < piece) return result;
    piece = std::max(kPiece, result.data.size());  // Doubles.
  }
}

std::error_code WriteFileHere(const char* path, std::string_view data, mode_t mode) {
  OpenFile file(Open(path, O_WRONLY | O_CREAT | O_TRUNC, mode));
  if (file.get() < 0) return ErrnoCode(errno);
  const IoResult written = TransferAll(
      data.size(), [&](std::size_t done) { return ::write(file.get(), data.data() + done, data.size() - done); });
  if (written.error) return written.error;
  return file.Close();
}

}  // namespace

ReadFileResult ReadFile(const std::string& path, std::size_t max_size) {
  return FiberBlocking([&]() -> ReadFileResult {
    try {
      return ReadFileHere(path.c_str(), max_size);
    } catch (const std::bad_alloc&) {
    } catch (const std::length_error&) {
    }
    return {std::make_error_code(std::errc::not_enough_memory), {}};
  });
}

std::error_code WriteFile(const std::string& path, std::string_view data, mode_t mode) {
  return FiberBlocking([&] { return WriteFileHere(path.c_str(), data, mode); });
}

IoResult PRead(int fd, void* buffer, std::size_t size, off_t offset) {
  return FiberBlocking([=] {
    return TransferAll(size, [=](std::size_t done) {
      return ::pread(fd, static_cast<char*>(buffer) + done, size - done, offset + static_cast<off_t>(done));
    });
  });
}

IoResult PWrite(int fd, const void* buffer, std::size_t size, off_t offset) {
  return FiberBlocking([=] {
    return TransferAll(size, [=](std::size_t done) {
      return ::pwrite(fd, static_cast<const char*>(buffer) + done, size - done, offset + static_cast<off_t>(done));
    });
  });
}

}  // namespace weft::io
