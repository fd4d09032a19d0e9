// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TlsRecords: follows the records of TLS in what a peer sends, to know whether one has begun and not come to its end.
// (SSL_has_pending() does not say so: OpenSSL keeps the head of a record elsewhere.)
// A record has a head of five bytes, the last two of which are the length of the rest, whatever its encryption
// (RFC 8446, 5.1). A greeting in the form of SSL 2 has not: TlsStream refuses it.
#ifndef WEFT_INTEROP_TLS_TLS_RECORDS_H_
#define WEFT_INTEROP_TLS_TLS_RECORDS_H_

#include <algorithm>
#include <cstddef>

namespace weft::interop {

class TlsRecords {
 public:
  // The next bytes that have come.
  void Pass(const char* bytes, std::size_t size) noexcept {
    while (size != 0) {
      std::size_t passed = 1;
      if (head_ < kHead) {
        left_ = head_ < kHead - 2 ? 0 : left_ << 8 | static_cast<unsigned char>(*bytes);
        ++head_;
      } else {
        passed = std::min(left_, size);
        left_ -= passed;
      }
      if (head_ == kHead && left_ == 0) head_ = 0;
      bytes += passed;
      size -= passed;
    }
  }
  bool between() const noexcept { return head_ == 0; }

 private:
  static constexpr unsigned kHead = 5;
  unsigned head_ = 0;     // so many bytes of a head have come
  std::size_t left_ = 0;  // behind the head: to come
};

}  // namespace weft::interop

#endif  // WEFT_INTEROP_TLS_TLS_RECORDS_H_
