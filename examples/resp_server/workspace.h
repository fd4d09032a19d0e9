// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Workspace: what a connection needs while it works: an input buffer, the parser, an output buffer. A connection that
// waits for its next request has none; the few that work at the same time share the pool's, which stay in the cache.
#ifndef WEFT_EXAMPLES_RESP_SERVER_WORKSPACE_H_
#define WEFT_EXAMPLES_RESP_SERVER_WORKSPACE_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "weft/base/memory/object_pool.h"

#include "resp_server/resp_parser.h"

namespace examples::resp {

// Bytes that have been read and not consumed, in one piece.
class ReadBuffer {
 public:
  // As Redis: hundreds of short requests. A longer request makes it larger.
  static constexpr std::size_t kBytes = std::size_t{16} << 10;

  std::span<char> unread() { return {bytes_.get() + begin_, end_ - begin_}; }
  bool empty() const { return begin_ == end_; }
  void Consume(std::size_t size) { begin_ += size; }
  // Where to read to: at least a byte, and `missing` ones if they need no more memory than twice what has come.
  // Invalidates unread().
  std::span<char> Room(std::size_t missing);
  // What capacity() is after Room(missing).
  std::size_t CapacityFor(std::size_t missing) const;
  void Filled(std::size_t size) { end_ += size; }
  std::size_t capacity() const { return capacity_; }

 private:
  void Resize(std::size_t capacity);

  std::unique_ptr<char[]> bytes_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

struct Workspace {
  explicit Workspace(const RespParser::Limits& limits) : parser(limits) {}

  ReadBuffer input;
  RespParser parser;
  std::string output;

  // Of a request whose rest is awaited, which needs `missing` bytes at least.
  std::size_t BytesFor(std::size_t missing) const { return input.CapacityFor(missing) + parser.bytes(); }
};

// Any thread.
class WorkspacePool {
 public:
  explicit WorkspacePool(const RespParser::Limits& limits) : limits_(limits) {}

  std::unique_ptr<Workspace> Take();
  // One whose requests are all answered.
  void Put(std::unique_ptr<Workspace> workspace);

 private:
  const RespParser::Limits limits_;
  weft::base::ObjectPool<Workspace> free_;
};

}  // namespace examples::resp

#endif  // WEFT_EXAMPLES_RESP_SERVER_WORKSPACE_H_
