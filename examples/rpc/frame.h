// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Frames: what goes over a connection, in both directions.
//
//      offset  0  magic "WEFT"
//              4  version, 1
//              5  kind (FrameKind)
//              6  0, 0
//              8  size of the meta, 32 bits
//             12  size of the body, 32 bits
//             16  correlation id, 64 bits: chosen by the client, the same in request, answer and cancellation
//             24  meta, a protobuf (meta.proto); then body: the call's message and its attachment, whose size the meta
//                 tells
//
// All numbers are little-endian. Answers may come in any order. Cancellations, farewells, pings and pongs have neither
// meta nor body. A farewell's id is 0; a pong's is its ping's.
//
// FrameReader cuts the bytes that it reads into frames. The frames share the blocks that they were read into, so
// nothing is copied between the kernel and the parser: a block lives until the last of its frames and attachments has
// gone. Only the beginning of a frame that did not fit is copied, to the next block.
//
// An attachment is bytes that protobuf does not see: it costs neither a copy into a message nor one out of it, as in
// brpc.
//
// Invariants
//   FR1  Bytes of a block that belong to a returned frame, or to its attachment, are not written any more.
//   FR2  Memory is allocated for a frame only after its header was found valid, and never beyond the limits.
//   FR3  After an error nothing more is read: the start of the next frame is unknown.
// FrameReader: one user at a time. Frame: any thread; each has its own.
#ifndef WEFT_EXAMPLES_RPC_FRAME_H_
#define WEFT_EXAMPLES_RPC_FRAME_H_

#include <google/protobuf/message_lite.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "weft/base/ref_ptr.h"
#include "weft/examples/rpc/attachment.h"

namespace weft::rpc {

enum class FrameKind : std::uint8_t {
  kRequest = 1,
  kAnswer = 2,
  kCancel = 3,    // client: nobody waits for the answer any more
  kFarewell = 4,  // server: send no more requests; those that came are answered. Its id: FarewellReason
  kPing = 5,      // either side, to a peer that has been silent: send a pong (heartbeat.h)
  kPong = 6,
};

enum class FarewellReason : std::uint64_t {
  kStopping = 0,  // the server
  kIdle = 1,      // the connection: the server is there for the next call
};

struct FrameHeader {
  static constexpr std::size_t kSize = 24;

  FrameKind kind = FrameKind::kRequest;
  std::uint32_t meta_size = 0;
  std::uint32_t body_size = 0;
  std::uint64_t correlation_id = 0;
};

struct FrameLimits {
  std::uint32_t max_meta = 64 << 10;
  std::uint32_t max_body = 4 << 20;
};

// Bytes on their way from a connection to its parsers.
class ReadBlock final : public RefCounted<ReadBlock> {
 public:
  explicit ReadBlock(std::size_t size) : size_(size), data_(new char[size]) {}  // Not zeroed.

  char* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }

 private:
  friend class RefCounted<ReadBlock>;
  ~ReadBlock() = default;

  const std::size_t size_;
  const std::unique_ptr<char[]> data_;
};

// A received frame.
struct Frame {
  // Takes the last `size` bytes out of the body, which has as many. Few are copied, so that they do not pin the block.
  Attachment CutAttachment(std::size_t size);

  FrameHeader header;
  std::string_view meta;
  std::string_view body;
  RefPtr<ReadBlock> block;  // where they lie
};

class FrameReader {
 public:
  enum class Result {
    kFrame,
    kNeedMore,
    kTooLarge,   // frame->header says which; the frame itself is not read
    kMalformed,  // error() says how
  };

  explicit FrameReader(const FrameLimits& limits) : limits_(limits) {}

  // Where the next bytes go, at least one. Then Filled() tells how many came.
  std::span<char> Room();
  void Filled(std::size_t bytes) { end_ += bytes; }

  // The next complete frame. Not to be called again after an error.
  [[nodiscard]] Result Next(Frame* frame);
  const std::string& error() const { return error_; }
  // No bytes of an incomplete frame.
  bool AtBoundary() const { return begin_ == end_; }
  // What it has allocated, now.
  std::size_t capacity() const { return block_ ? block_->size() : 0; }

  // Requests of 100 bytes come a few hundred at a time under load.
  static constexpr std::size_t kBlockSize = 64 << 10;

 private:
  Result Fail(std::string error);

  const FrameLimits limits_;
  RefPtr<ReadBlock> block_;
  std::size_t begin_ = 0;       // of what is not yet given out
  std::size_t end_ = 0;         // of what has come
  std::size_t frame_size_ = 0;  // of the frame at begin_, once its header is there
  std::string error_;
};

// A frame to be sent. The BatchWriter that it was given to deletes it.
struct OutFrame {
  OutFrame* next;
  std::size_t head_size;  // all but the attachment; it lies behind this object
  Attachment attachment;

  std::size_t size() const noexcept { return head_size + attachment.ByteSize(); }
  // Describes the bytes from `offset` on for writev(2): as many as fit into `parts`. Returns how many parts it set.
  std::size_t FillIovecs(std::span<iovec> parts, std::size_t offset) noexcept;
  char* head() noexcept { return reinterpret_cast<char*>(this + 1); }
};

struct FrameDeleter {
  void operator()(OutFrame* frame) const noexcept {
    frame->~OutFrame();
    ::operator delete(frame);
  }
};
using OutFramePtr = std::unique_ptr<OutFrame, FrameDeleter>;

// `meta` and `body` may be nullptr; each is below 2 GiB, protobuf's limit, and so is the body with the attachment.
OutFramePtr MakeFrame(FrameKind kind, std::uint64_t correlation_id, const google::protobuf::MessageLite* meta,
                      const google::protobuf::MessageLite* body, Attachment attachment = {});

// For tests and for MakeFrame().
void EncodeHeader(const FrameHeader& header, char* to) noexcept;

}  // namespace weft::rpc

#endif  // WEFT_EXAMPLES_RPC_FRAME_H_
