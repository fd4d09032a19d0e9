// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Files, for fibers: each call is one FiberBlocking(), so that a slow disk stops the calling fiber only. (The kernel
// has no readiness for files: a reactor cannot wait for them.)
//
// Any fiber and any thread (in which they block); they switch. Errors are as in io_result.h; the system's EINTR is
// not one of them. What is called with a file that never ends (a pipe, a terminal) waits as long as that takes, and
// holds a thread of the pool. They take no deadline, because what has begun cannot be stopped; FiberBlocking() with one
// stops waiting for it.
#ifndef WEFT_IO_FILE_H_
#define WEFT_IO_FILE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include "weft/io/io_result.h"

namespace weft::io {

struct ReadFileResult {
  std::error_code error;
  std::string data;  // Empty if there was an error.
};

// All of a file. errc::file_too_large: it has more than `max_size` bytes.
[[nodiscard]] ReadFileResult ReadFile(const std::string& path, std::size_t max_size = SIZE_MAX);

// Makes the file (with `mode`, cut by the umask) or empties it, and writes `data`. Others may see a part of it, as may
// everybody after an error: write to another name and rename() where that matters. Not synchronised to the disk.
[[nodiscard]] std::error_code WriteFile(const std::string& path, std::string_view data, mode_t mode = 0644);

// `size` bytes from `offset` of a descriptor, whose own position does not matter; fewer only at the end of the file or
// with an error. The descriptor must be open, and the memory stay, until the call has returned.
[[nodiscard]] IoResult PRead(int fd, void* buffer, std::size_t size, off_t offset);
[[nodiscard]] IoResult PWrite(int fd, const void* buffer, std::size_t size, off_t offset);

}  // namespace weft::io

#endif  // WEFT_IO_FILE_H_
