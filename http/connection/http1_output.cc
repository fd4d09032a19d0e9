// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/http/connection/http1_output.h"

#include <sys/uio.h>

#include <algorithm>

namespace weft::http {
namespace {

using io::IoResult;

// A copy of 8 KiB takes as long as the second part of a write: about 1 us.
constexpr std::size_t kCopyBelow = 8 * 1024;

}  // namespace

IoResult Http1Output::PutPiece(std::string_view piece, Deadline deadline) {
  if (failed_) return {0, std::make_error_code(std::errc::broken_pipe)};
  IoResult result;
  if (piece.size() < kCopyBelow) {
    result.error = writer_.Put(piece);
    result.bytes = result.ok() ? piece.size() : 0;
    if (result.ok() && writer_.pending().size() >= kLargeWrite) result.error = Flush(deadline);
    return result;
  }
  bool goes_out = false;
  result.error = writer_.BeginPiece(piece.size(), &goes_out);
  if (!goes_out) return {result.ok() ? piece.size() : 0, result.error};
  result = FlushWith(piece, deadline);
  if (result.ok()) writer_.EndPiece();
  return result;
}

// Sends what is pending, and `piece` behind it. `bytes`: of the piece.
IoResult Http1Output::FlushWith(std::string_view piece, Deadline deadline) {
  IoResult result;
  if (failed_) result.error = std::make_error_code(std::errc::broken_pipe);
  while (result.ok() && (!writer_.pending().empty() || result.bytes < piece.size())) {
    const IoResult put = WriteTwo(writer_.pending(), piece.substr(result.bytes), deadline);
    const std::size_t pending = std::min(put.bytes, writer_.pending().size());
    writer_.Sent(pending);
    result.bytes += put.bytes - pending;
    result.error = put.error;
    failed_ = !put.ok();
  }
  return result;
}

// Some bytes of the two, of which one may be empty.
IoResult Http1Output::WriteTwo(std::string_view first, std::string_view then, Deadline deadline) {
  if (first.empty() || then.empty() || tcp_ == nullptr) {
    const std::string_view bytes = first.empty() ? then : first;
    return transport_.Write(bytes.data(), bytes.size(), deadline);
  }
  const auto part = [](std::string_view bytes) { return iovec{const_cast<char*>(bytes.data()), bytes.size()}; };
  const iovec parts[] = {part(first), part(then)};
  return tcp_->WriteSome(parts, 2, deadline);
}

}  // namespace weft::http
