// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Gunzip(): unpacks a message of gRPC, by zlib. Never waits; some 40 KiB of memory while it works.
#ifndef WEFT_INTEROP_HTTP2_HTTP2_GZIP_H_
#define WEFT_INTEROP_HTTP2_HTTP2_GZIP_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft::interop {

enum class GunzipResult : std::uint8_t {
  kDone,
  kBad,       // no gzip, or not just one
  kTooLarge,  // more than `most` bytes: it has stopped there
  kNoMemory,
};

// Into *to, which grows with what has been unpacked. `packed` and `most`: less than 2^31.
[[nodiscard]] GunzipResult Gunzip(std::string_view packed, std::size_t most, std::string* to);

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_HTTP2_GZIP_H_
