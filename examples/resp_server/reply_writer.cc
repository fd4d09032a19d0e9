// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "resp_server/reply_writer.h"

#include <sys/uio.h>

#include <algorithm>

namespace examples::resp {

void ReplyWriter::Error(std::string_view text) {
  buffer_->push_back('-');
  const std::size_t begin = buffer_->size();
  buffer_->append(text);
  std::replace_if(
      buffer_->begin() + static_cast<std::ptrdiff_t>(begin), buffer_->end(),
      [](char c) { return c == '\r' || c == '\n'; }, ' ');
  Raw("\r\n");
}

void ReplyWriter::Bulk(std::string_view bytes) {
  buffer_->push_back('$');
  buffer_->append(NumberText(static_cast<std::int64_t>(bytes.size())).view());
  buffer_->append("\r\n");
  if (bytes.size() >= kLongValue) {
    LongBulk(bytes);
    return;
  }
  buffer_->append(bytes);
  Raw("\r\n");
}

void ReplyWriter::LongBulk(std::string_view bytes) {
  if (!broken()) {
    static char end[] = "\r\n";
    iovec parts[] = {{buffer_->data(), buffer_->size()}, {const_cast<char*>(bytes.data()), bytes.size()}, {end, 2}};
    error_ = stream_->WriteAll(parts, std::size(parts)).error;
  }
  buffer_->clear();
}

bool ReplyWriter::Flush() {
  if (!broken() && !buffer_->empty()) error_ = stream_->WriteAll(*buffer_).error;
  buffer_->clear();
  return !broken();
}

}  // namespace examples::resp
