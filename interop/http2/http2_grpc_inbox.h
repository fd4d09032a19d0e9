// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// GrpcInbox: gRPC's messages, out of the bytes of a stream as they come. Of a server and of a client.
//
// While Take() says kNeedsMore, its user reads into Room() and tells how much by Put(). Else there is a message, or a
// failure().
//
// A message is five bytes, whether it is compressed and its size, and then its bytes.
// Memory: max_message for a message that comes, as far as it has come, and at most twice as much in all; as much again,
// once or twice, for what it unpacks to. Never waits. One fiber at a time.
#ifndef WEFT_INTEROP_HTTP2_HTTP2_GRPC_INBOX_H_
#define WEFT_INTEROP_HTTP2_HTTP2_GRPC_INBOX_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "weft/interop/http2_grpc_status.h"

namespace weft::interop {

class GrpcInbox {
 public:
  static constexpr std::size_t kHead = 5;                   // of a message
  static constexpr std::size_t kMostMessage = 0x7fff'ffff;  // that its head allows
  enum class Took : std::uint8_t {
    kMessage,
    kNeedsMore,  // bytes, into Room()
    kFailed,     // what has come is no message, or none that is taken: failure(). For good.
  };

  explicit GrpcInbox(std::size_t max_message) : max_message_(max_message) {}

  // The peer may compress messages by gzip.
  void AllowGzip() { allows_gzip_ = true; }

  // *message is good until the next call.
  [[nodiscard]] Took Take(std::string_view* message);
  // Where the next bytes go; not empty. Puts those that have come there: their number.
  std::span<char> Room();
  void Put(std::size_t bytes) { end_ += bytes; }
  // In place of all that: the whole of what has come.
  void PutWhole(std::string bytes) {
    in_ = std::move(bytes);
    begin_ = 0;
    end_ = in_.size();
  }
  // There are bytes that Take() has not returned.
  bool has_part() const { return begin_ != end_; }
  const GrpcStatus& failure() const { return failure_; }

 private:
  Took Fail(GrpcStatus why);
  Took FailTooLarge(const std::string& size);
  Took Unpack(std::string_view* message);  // *message, which is gzip

  const std::size_t max_message_;
  std::string in_;  // the unread bytes are those from begin_ to end_
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t needs_ = kHead;  // so many unread bytes, before Take() can say more
  bool allows_gzip_ = false;
  std::string unpacked_;
  GrpcStatus failure_;
};

// The head of a message of so many bytes, which are not compressed.
void PutGrpcHead(char* to, std::size_t size);

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_HTTP2_GRPC_INBOX_H_
