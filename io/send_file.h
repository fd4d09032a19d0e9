// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// SendFile: sends a part of a file over a TcpStream by sendfile(2): its bytes do not pass through the program.
// Sample:
//     // After the header of a response:
//     const io::IoResult sent = io::SendFile(&stream, file, 0, size, 30s);
//     if (sent.ok() && sent.bytes < size) return stream.Reset();  // The file has become shorter.
//
// A system call sends kAtOnce bytes at most, so that a fast peer does not keep the worker. Before each part a
// preadv2(RWF_NOWAIT) looks whether its first and last byte are in the page cache; if not, a thread of the pool
// (io/fiber_blocking.h) reads the part into it. A page that is evicted in between blocks the worker once.
//
// Who may call: any fiber (switches) and any thread (blocks). Nobody else writes to the stream meanwhile. The
// descriptor stays open until the call has returned; its position is neither used nor changed.
// Results: as TcpStream::WriteAll(): `bytes` of all have been handed to the kernel, also when an error followed. Fewer
// without an error: the file ends there. What others write to the file before the peer has read the bytes may arrive.
// Errors: io_result.h. invalid_argument: no file that can be mapped (a pipe, a file of /proc), or an offset below zero:
// read it and WriteAll() instead. A peer that has gone is an error, never a SIGPIPE. The deadline and a cancellation
// end waits for the peer, not a read of the disk.
//
// What it saves is memory: no buffer is held while a slow peer takes the file. It is not always faster: over loopback
// it took twice as long as pread(2) and WriteAll() for 1 MiB (BM_SendFile in bench/io/send_benchmark.cc).
#ifndef WEFT_IO_SEND_FILE_H_
#define WEFT_IO_SEND_FILE_H_

#include <sys/types.h>

#include <cstddef>

#include "weft/base/deadline.h"
#include "weft/io/io_result.h"

namespace weft::io {

class TcpStream;

[[nodiscard]] IoResult SendFile(TcpStream* stream, int file, off_t offset, std::size_t size, Deadline deadline = {});

}  // namespace weft::io

#endif  // WEFT_IO_SEND_FILE_H_
