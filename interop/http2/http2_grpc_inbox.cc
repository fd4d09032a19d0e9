// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/http2/http2_grpc_inbox.h"

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace weft::interop {
namespace {

constexpr std::size_t kLeastRead = 512;
constexpr std::size_t kLargeRead = 64 * 1024;

// --- Unpacking a message, by zlib ---

enum class GunzipResult : std::uint8_t {
  kDone,
  kBad,       // no gzip, or not just one
  kTooLarge,  // more than `most` bytes: it has stopped there
  kNoMemory,
};

constexpr int kGzip = 15 + 16;  // zlib: the largest window, and gzip's head and sum
constexpr std::size_t kFirstRoom = 4096;

class Inflater {
 public:
  explicit Inflater(std::string_view packed) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));  // zlib does not write to it.
    stream_.avail_in = static_cast<uInt>(packed.size());
    begun_ = inflateInit2(&stream_, kGzip) == Z_OK;
  }
  ~Inflater() {
    if (begun_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  bool begun() const { return begun_; }
  bool has_input() const { return stream_.avail_in != 0; }
  // Fills *to from `begin`. Returns zlib's result; *end: how far it has come.
  int Fill(std::string* to, std::size_t begin, std::size_t* end) {
    stream_.next_out = reinterpret_cast<Bytef*>(to->data() + begin);
    stream_.avail_out = static_cast<uInt>(to->size() - begin);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    *end = to->size() - stream_.avail_out;
    return result;
  }

 private:
  z_stream stream_ = {};
  bool begun_ = false;
};

// Into *to, which grows with what has been unpacked. `packed` and `most`: less than 2^31. Never waits; some 40 KiB of
// memory while it works.
GunzipResult Gunzip(std::string_view packed, std::size_t most, std::string* to) {
  Inflater inflater(packed);
  if (!inflater.begun()) return GunzipResult::kNoMemory;
  to->clear();
  for (std::size_t size = 0;;) {
    // One byte more than may be, to see that there are more.
    to->resize(std::min(std::max(2 * size, kFirstRoom), most + 1));
    const int result = inflater.Fill(to, size, &size);
    if (result == Z_MEM_ERROR) return GunzipResult::kNoMemory;
    if (size > most) return GunzipResult::kTooLarge;
    if (result == Z_STREAM_END) {
      to->resize(size);
      return inflater.has_input() ? GunzipResult::kBad : GunzipResult::kDone;
    }
    if (result != Z_OK || size < to->size()) return GunzipResult::kBad;
  }
}

}  // namespace

GrpcInbox::Took GrpcInbox::Take(std::string_view* message) {
  if (!failure_.ok()) return Took::kFailed;
  needs_ = kHead;
  if (end_ - begin_ < needs_) return Took::kNeedsMore;
  const auto* const head = reinterpret_cast<const std::uint8_t*>(in_.data() + begin_);
  const bool is_packed = head[0] != 0;
  if (is_packed && (head[0] != 1 || !allows_gzip_)) {  // No encoding was agreed upon.
    return Fail({GrpcCode::kInternal, "a message that is compressed"});
  }
  const std::size_t size =
      std::size_t{head[1]} << 24 | std::size_t{head[2]} << 16 | std::size_t{head[3]} << 8 | head[4];
  if (size > max_message_) return FailTooLarge(std::to_string(size));
  needs_ = kHead + size;
  if (end_ - begin_ < needs_) return Took::kNeedsMore;
  *message = std::string_view(in_).substr(begin_ + kHead, size);
  begin_ += needs_;
  return is_packed ? Unpack(message) : Took::kMessage;
}

GrpcInbox::Took GrpcInbox::Fail(GrpcStatus why) {
  failure_ = std::move(why);
  return Took::kFailed;
}

GrpcInbox::Took GrpcInbox::FailTooLarge(const std::string& size) {
  return Fail({GrpcCode::kResourceExhausted, std::string("a message of ")
                                                 .append(size)
                                                 .append(" bytes; at most ")
                                                 .append(std::to_string(max_message_))
                                                 .append(" are taken")});
}

GrpcInbox::Took GrpcInbox::Unpack(std::string_view* message) {
  switch (Gunzip(*message, max_message_, &unpacked_)) {
    case GunzipResult::kDone:
      *message = unpacked_;
      return Took::kMessage;
    case GunzipResult::kTooLarge:
      return FailTooLarge("more");
    case GunzipResult::kNoMemory:
      return Fail({GrpcCode::kResourceExhausted, "no memory to unpack a message"});
    case GunzipResult::kBad:
      break;
  }
  return Fail({GrpcCode::kInternal, "a compressed message that is no gzip"});
}

// By what has come, not by what a message says of its size. Room that is there is not cleared again.
std::span<char> GrpcInbox::Room() {
  if (begin_ != 0) {
    std::memmove(in_.data(), in_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
  }
  if (end_ == in_.size()) {
    in_.resize(std::min(std::max(needs_, end_ + kLeastRead), std::max(2 * in_.size(), kLargeRead)));
  }
  return {in_.data() + end_, in_.size() - end_};
}

void PutGrpcHead(char* to, std::size_t size) {
  to[0] = 0;
  for (int i = 0; i < 4; ++i) to[1 + i] = static_cast<char>(size >> (24 - 8 * i));
}

}  // namespace weft::interop
