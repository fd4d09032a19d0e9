// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/send_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "weft/io/fiber_blocking.h"
#include "weft/io/reactor/descriptor.h"
#include "weft/io/tcp_stream.h"

namespace weft::io {
namespace {

// About 0.2 ms of the worker's time on a loopback connection: BM_SendFile in bench/io/send_benchmark.cc.
constexpr std::size_t kAtOnce = 256 << 10;

// sendfile() has no MSG_NOSIGNAL. So SIGPIPE is blocked in the thread, and taken if it came; one pending before stays.
ssize_t SendFileWithoutSignal(int socket, int file, off_t* offset, std::size_t size) {
  sigset_t pipe;
  sigset_t before;
  sigset_t pending;
  ::sigemptyset(&pipe);
  ::sigaddset(&pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe, &before);
  const ssize_t sent = ::sendfile(socket, file, offset, size);
  const int error = errno;
  if (sent < 0 && error == EPIPE && ::sigismember(&before, SIGPIPE) == 0 && ::sigpending(&pending) == 0 &&
      ::sigismember(&pending, SIGPIPE) == 1) {
    const timespec at_once{};
    while (::sigtimedwait(&pipe, nullptr, &at_once) < 0 && errno == EINTR) {
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return sent;
}

// Also if the file system cannot say, or the offset is behind the end.
bool IsCached(int file, off_t offset) {
  char byte;
  const iovec part{.iov_base = &byte, .iov_len = 1};
  ssize_t got;
  do {
    got = ::preadv2(file, &part, 1, offset, RWF_NOWAIT);
  } while (got < 0 && errno == EINTR);
  return got >= 0 || errno != EAGAIN;
}

void ReadIntoCache(int file, off_t offset, std::size_t size) {
  if (IsCached(file, offset) && IsCached(file, offset + static_cast<off_t>(size) - 1)) return;
  FiberBlocking([=] {
    static_cast<void>(::readahead(file, offset, size));  // A hint. The read waits for it.
    char byte;
    static_cast<void>(!::pread(file, &byte, 1, offset));
    static_cast<void>(!::pread(file, &byte, 1, offset + static_cast<off_t>(size) - 1));
  });
}

}  // namespace

IoResult SendFile(TcpStream* stream, int file, off_t offset, std::size_t size, Deadline deadline) {
  IoResult all;
  std::size_t cached = 0;  // from the start
  while (all.bytes < size) {
    const std::size_t part = std::min(size - all.bytes, kAtOnce);
    const off_t at = offset + static_cast<off_t>(all.bytes);
    if (all.bytes >= cached) {
      ReadIntoCache(file, at, part);
      cached = all.bytes + part;
    }
    const auto send = [&](int socket) {
      off_t from = at;
      return SendFileWithoutSignal(socket, file, &from, std::min(part, cached - all.bytes));
    };
    const IoResult some = stream->descriptor_.RetryWrite(send, deadline);
    all.bytes += some.bytes;
    all.error = some.error;
    if (!some.ok() || some.bytes == 0) break;
  }
  return all;
}

}  // namespace weft::io
