// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Files, for fibers: each call is one FiberBlocking(), so that a slow disk blocks only the calling fiber. (A reactor
// cannot wait for files, which are always ready to the kernel.)
//
// Any fiber (switches) and any thread (blocks). Errors are as in io_result.h, but never EINTR. A call on a pipe or a
// terminal waits as long as that takes, and holds a thread of the pool. No call takes a deadline or is a cancellation
// point, since it cannot be stopped once begun; FiberBlocking() with a deadline can stop waiting for one.
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

// What ReadFile() returns.
struct ReadFileResult {
  // None, or why there are no bytes.
  std::error_code error;
  std::string data;  // empty after an error
};

// Reads all of a file. errc::file_too_large: it has more than `max_size` bytes.
[[nodiscard]] ReadFileResult ReadFile(const std::string& path, std::size_t max_size = SIZE_MAX);

// Creates the file (with `mode`, cut by the umask) or empties it, and writes `data`. Meanwhile, and after an error,
// others may see a part of it: where that matters write to another name, then rename(). Not synchronised to the disk.
[[nodiscard]] std::error_code WriteFile(const std::string& path, std::string_view data, mode_t mode = 0644);

// Transfers `size` bytes at `offset`, whatever the descriptor's own position; fewer only at the end of the file or
// after an error. The descriptor must stay open, and the memory valid, until the call has returned.
[[nodiscard]] IoResult PRead(int fd, void* buffer, std::size_t size, off_t offset);
[[nodiscard]] IoResult PWrite(int fd, const void* buffer, std::size_t size, off_t offset);

}  // namespace weft::io

#endif  // WEFT_IO_FILE_H_
