// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/examples/rpc/frame.h"

#include <endian.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"

namespace weft::rpc {
namespace {

constexpr char kMagic[4] = {'W', 'E', 'F', 'T'};
constexpr std::uint8_t kVersion = 1;

void Put32(char* to, std::uint32_t value) noexcept {
  value = htole32(value);
  std::memcpy(to, &value, sizeof(value));
}
void Put64(char* to, std::uint64_t value) noexcept {
  value = htole64(value);
  std::memcpy(to, &value, sizeof(value));
}
std::uint32_t Get32(const char* from) noexcept {
  std::uint32_t value;
  std::memcpy(&value, from, sizeof(value));
  return le32toh(value);
}
std::uint64_t Get64(const char* from) noexcept {
  std::uint64_t value;
  std::memcpy(&value, from, sizeof(value));
  return le64toh(value);
}

}  // namespace

void EncodeHeader(const FrameHeader& header, char* to) noexcept {
  std::memcpy(to, kMagic, sizeof(kMagic));
  to[4] = static_cast<char>(kVersion);
  to[5] = static_cast<char>(header.kind);
  to[6] = to[7] = 0;
  Put32(to + 8, header.meta_size);
  Put32(to + 12, header.body_size);
  Put64(to + 16, header.correlation_id);
}

std::span<char> FrameReader::Room() {
  const std::size_t have = end_ - begin_;
  const std::size_t wanted = std::max(frame_size_, FrameHeader::kSize);  // by the frame at begin_
  if (block_ && have == 0) {
    if (block_->size() > kBlockSize) {
      block_.Reset();  // It held a large frame.
    } else if (block_->HasOneRef()) {
      begin_ = end_ = 0;  // FR1: all its frames have gone.
    }
  }
  // A new block also if little of the old one remains, so that a read brings many frames.
  const bool fits = block_ && begin_ + wanted <= block_->size();
  if (!fits || (frame_size_ == 0 && block_->size() - end_ < kBlockSize / 8)) {
    auto next = MakeRefCounted<ReadBlock>(std::max(wanted, kBlockSize));
    if (have != 0) std::memcpy(next->data(), block_->data() + begin_, have);
    block_ = std::move(next);
    begin_ = 0;
    end_ = have;
  }
  return {block_->data() + end_, block_->size() - end_};
}

FrameReader::Result FrameReader::Next(Frame* frame) {
  const std::size_t have = end_ - begin_;
  if (have < FrameHeader::kSize) return Result::kNeedMore;
  const char* const at = block_->data() + begin_;
  FrameHeader& header = frame->header;
  if (std::memcmp(at, kMagic, sizeof(kMagic)) != 0) return Fail("a frame that does not begin with \"WEFT\"");
  if (static_cast<std::uint8_t>(at[4]) != kVersion) {
    return Fail(base::StrCat("version ", int{static_cast<std::uint8_t>(at[4])}, " of the protocol, expected 1"));
  }
  const auto kind = static_cast<std::uint8_t>(at[5]);
  if (kind < static_cast<std::uint8_t>(FrameKind::kRequest) || kind > static_cast<std::uint8_t>(FrameKind::kPong)) {
    return Fail(base::StrCat("a frame of unknown kind ", int{kind}));
  }
  if (at[6] != 0 || at[7] != 0) return Fail("a frame whose reserved bytes are not zero");
  header.kind = static_cast<FrameKind>(kind);
  header.meta_size = Get32(at + 8);
  header.body_size = Get32(at + 12);
  header.correlation_id = Get64(at + 16);
  if (header.meta_size > limits_.max_meta || header.body_size > limits_.max_body) {
    error_ = base::StrCat("a frame with ", header.meta_size, " bytes of meta and ", header.body_size,
                          " of body; at most ", limits_.max_meta, " and ", limits_.max_body, " are taken");
    return Result::kTooLarge;
  }
  frame_size_ = FrameHeader::kSize + header.meta_size + header.body_size;
  if (have < frame_size_) return Result::kNeedMore;
  frame->meta = {at + FrameHeader::kSize, header.meta_size};
  frame->body = {at + FrameHeader::kSize + header.meta_size, header.body_size};
  frame->block = block_;
  begin_ += frame_size_;
  frame_size_ = 0;
  return Result::kFrame;
}

FrameReader::Result FrameReader::Fail(std::string error) {
  error_ = std::move(error);
  return Result::kMalformed;
}

Attachment Frame::CutAttachment(std::size_t size) {
  WEFT_CHECK(size <= body.size(), "rpc::Frame::CutAttachment: ", size, " bytes of ", body.size());
  const std::string_view bytes = body.substr(body.size() - size);
  if (size == 0) return {};
  body.remove_suffix(size);
  NoncontiguousBuffer attachment;
  if (size < NoncontiguousBuffer::kCopyBelow) {
    attachment.AppendCopy(bytes);
  } else {
    attachment.AppendForeign(bytes.data(), size, [kept = block](const void*) {});
  }
  return attachment;
}

std::size_t OutFrame::FillIovecs(std::span<iovec> parts, std::size_t offset) noexcept {
  std::size_t count = 0;
  if (offset < head_size) {
    parts[count++] = {.iov_base = head() + offset, .iov_len = head_size - offset};
    offset = head_size;
  }
  return count + attachment.FillIovecs(parts.subspan(count), offset - head_size);
}

OutFramePtr MakeFrame(FrameKind kind, std::uint64_t correlation_id, const google::protobuf::MessageLite* meta,
                      const google::protobuf::MessageLite* body, Attachment attachment) {
  const std::size_t meta_size = meta == nullptr ? 0 : meta->ByteSizeLong();
  const std::size_t body_size = body == nullptr ? 0 : body->ByteSizeLong();
  constexpr std::size_t kMost = 0x7fffffff;
  const std::size_t whole_body = body_size + attachment.ByteSize();
  WEFT_CHECK(meta_size <= kMost && whole_body <= kMost, "rpc::MakeFrame: a message of ",
             std::max(meta_size, whole_body), " bytes; protobuf serialises less than 2 GiB");
  const std::size_t size = FrameHeader::kSize + meta_size + body_size;
  OutFramePtr frame(new (::operator new(sizeof(OutFrame) + size))
                        OutFrame{.next = nullptr, .head_size = size, .attachment = std::move(attachment)});
  char* const at = frame->head();
  EncodeHeader({.kind = kind,
                .meta_size = static_cast<std::uint32_t>(meta_size),
                .body_size = static_cast<std::uint32_t>(whole_body),
                .correlation_id = correlation_id},
               at);
  auto* to = reinterpret_cast<std::uint8_t*>(at + FrameHeader::kSize);
  if (meta_size != 0) to = meta->SerializeWithCachedSizesToArray(to);
  if (body_size != 0) body->SerializeWithCachedSizesToArray(to);
  return frame;
}

}  // namespace weft::rpc
