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
  if (piece.size() < (tcp_ != nullptr ? kCopyBelow : kLargeWrite)) {
    result.error = writer_.Put(piece);
    result.bytes = result.ok() ? piece.size() : 0;
    if (result.ok() && writer_.pending().size() >= kLargeWrite) result.error = Flush(deadline);
    return result;
  }
  bool goes_out = false;
  result.error = writer_.BeginPiece(piece.size(), &goes_out);
  if (!goes_out) return {result.ok() ? piece.size() : 0, result.error};
  result = FlushWith(piece, writer_.piece_end(), deadline);
  if (result.ok()) writer_.EndPiece();
  return result;
}

// Sends what is pending, then `piece` and `end`. `bytes`: of the piece.
IoResult Http1Output::FlushWith(std::string_view piece, std::string_view end, Deadline deadline) {
  IoResult result;
  if (failed_) result.error = std::make_error_code(std::errc::broken_pipe);
  while (result.ok() && !(writer_.pending().empty() && piece.empty() && end.empty())) {
    const IoResult put = WriteSome(writer_.pending(), piece, end, deadline);
    std::size_t left = put.bytes;
    const auto take = [&left](std::string_view part) {
      const std::size_t sent = std::min(left, part.size());
      left -= sent;
      return sent;
    };
    writer_.Sent(take(writer_.pending()));
    const std::size_t of_piece = take(piece);
    piece.remove_prefix(of_piece);
    end.remove_prefix(take(end));
    result = {result.bytes + of_piece, put.error};
    failed_ = !put.ok();
  }
  return result;
}

// Some bytes of the three, of which one at least is not empty.
IoResult Http1Output::WriteSome(std::string_view pending, std::string_view piece, std::string_view end,
                                Deadline deadline) {
  iovec parts[3];
  std::size_t count = 0;
  for (const std::string_view bytes : {pending, piece, end}) {
    if (!bytes.empty()) parts[count++] = {const_cast<char*>(bytes.data()), bytes.size()};
  }
  if (count == 1 || tcp_ == nullptr) return transport_.Write(parts[0].iov_base, parts[0].iov_len, deadline);
  return tcp_->WriteSome(parts, count, deadline);
}

}  // namespace weft::http
