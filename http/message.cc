// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/http/message.h"

#include <algorithm>

namespace weft::http {

std::string_view Request::query() const {
  const std::size_t mark = target().find('?');
  return mark == std::string_view::npos ? std::string_view() : target().substr(mark + 1);
}

std::error_code Request::ReadAll(std::string* body, std::size_t max, Deadline deadline) {
  constexpr std::size_t kPiece = 16 * 1024;
  std::size_t left = max;
  for (;;) {
    // One byte more than may come tells whether it is all.
    const std::size_t room = std::min(left, kPiece - 1) + 1;
    const std::size_t had = body->size();
    body->resize(had + room);
    const io::IoResult got = Read(body->data() + had, room, deadline);
    body->resize(had + std::min(got.bytes, left));
    if (!got.ok()) return got.error;
    if (got.bytes == 0) return {};
    if (got.bytes > left) return std::make_error_code(std::errc::message_size);
    left -= got.bytes;
  }
}

}  // namespace weft::http
