// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http2Resets: the streams that we have reset before their peer had ended them. Trailers of such a stream may still
// come, once; those of any other stream that has gone are an error (H2S16 in http2_session.h).
//
// Remembers the last kMost. An older one, and each with a smaller number, may send trailers for ever: an honest peer is
// never wronged.
// Guarded by the session's mutex.
#ifndef WEFT_INTEROP_HTTP2_HTTP2_RESETS_H_
#define WEFT_INTEROP_HTTP2_HTTP2_RESETS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::interop {

class Http2Resets {
 public:
  void Add(std::int32_t id) {
    if (std::ranges::find(streams_, id) != streams_.end()) return;
    if (streams_.size() == kMost) {
      forgotten_ = std::max(forgotten_, streams_.front());
      streams_.erase(streams_.begin());
    }
    streams_.push_back(id);
  }
  // Whether trailers of the stream may come. Once, unless it was forgotten.
  [[nodiscard]] bool Take(std::int32_t id) { return std::erase(streams_, id) != 0 || id <= forgotten_; }
  // An idle connection's: their memory.
  void Forget() {
    if (streams_.empty()) return;
    forgotten_ = std::max(forgotten_, *std::ranges::max_element(streams_));
    std::vector<std::int32_t>().swap(streams_);
  }

  static constexpr std::size_t kMost = 256;

 private:
  std::vector<std::int32_t> streams_;
  std::int32_t forgotten_ = 0;
};

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_HTTP2_RESETS_H_
