// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Attachment: bytes beside a message (frame.h), or none, as in most calls: then it is a pointer.
// One user at a time.
#ifndef WEFT_EXAMPLES_RPC_ATTACHMENT_H_
#define WEFT_EXAMPLES_RPC_ATTACHMENT_H_

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "weft/base/noncontiguous_buffer.h"

namespace weft::rpc {

class Attachment {
 public:
  Attachment() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): it is the buffer.
  Attachment(NoncontiguousBuffer bytes)
      : bytes_(bytes.Empty() ? nullptr : std::make_unique<NoncontiguousBuffer>(std::move(bytes))) {}
  Attachment(Attachment&&) noexcept = default;
  Attachment& operator=(Attachment&&) noexcept = default;
  // Shares the blocks.
  Attachment Share() const { return bytes_ ? Attachment(NoncontiguousBuffer(*bytes_)) : Attachment(); }

  bool Empty() const noexcept { return bytes_ == nullptr; }
  std::size_t ByteSize() const noexcept { return bytes_ ? bytes_->ByteSize() : 0; }
  // A buffer that shares the blocks; and the buffer itself, after which there is none.
  NoncontiguousBuffer Get() const { return bytes_ ? *bytes_ : NoncontiguousBuffer(); }
  NoncontiguousBuffer Take() {
    const std::unique_ptr<NoncontiguousBuffer> taken = std::move(bytes_);
    return taken ? std::move(*taken) : NoncontiguousBuffer();
  }
  void Clear() noexcept { bytes_.reset(); }
  // As the buffer's.
  std::size_t FillIovecs(std::span<iovec> parts, std::size_t offset) const noexcept {
    return bytes_ ? bytes_->FillIovecs(parts, offset) : 0;
  }

 private:
  std::unique_ptr<NoncontiguousBuffer> bytes_;  // nullptr: none
};

}  // namespace weft::rpc

#endif  // WEFT_EXAMPLES_RPC_ATTACHMENT_H_
