// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/http2/http2_gzip.h"

#include <zlib.h>

#include <algorithm>

namespace weft::interop {
namespace {

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

}  // namespace

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

}  // namespace weft::interop
