// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What an HTTP/2 peer costs without giving us anything to do: Http2Allowance, how much of that it has left, and
// Http2EmptyFrames, which finds the frames that carry nothing. Http2Resets: the streams whose late trailers are no
// error. All three belong to an Http2Session, under its mutex.
#ifndef WEFT_INTEROP_HTTP2_HTTP2_FLOOD_H_
#define WEFT_INTEROP_HTTP2_HTTP2_FLOOD_H_

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/fiber_clock.h"

namespace weft::interop {

// So much at once, and so much more each second. Reads the clock only when nothing is left.
class Http2Allowance {
 public:
  Http2Allowance(double most, double per_second)
      : most_(most), per_second_(per_second), left_(most), at_(FiberClock::now()) {}

  // False: there is not so much.
  [[nodiscard]] bool Take(double cost) {
    if (left_ < cost) Refill();
    if (left_ < cost) return false;
    left_ -= cost;
    return true;
  }
  void GiveBack(double cost) noexcept { left_ = std::min(most_, left_ + cost); }

 private:
  void Refill() {
    const Deadline::TimePoint now = FiberClock::now();
    const std::chrono::duration<double> since = now - at_;
    at_ = now;
    GiveBack(since.count() * per_second_);
  }

  const double most_;
  const double per_second_;
  double left_;
  Deadline::TimePoint at_;
};

// Follows the frames in what a peer sends, also those that nghttp2 ignores: of unknown types, and for streams that it
// has forgotten. A frame has a head of nine bytes: the length of the rest (3), the type, the flags, the stream (4).
//
// Window updates for bodies that we have sent carry something, though they may come long after the last DATA: a peer
// reads in small pieces (Go's 4 KiB), and answers each for the stream and for the connection.
class Http2EmptyFrames {
 public:
  // `passed`: bytes that come before the first frame.
  explicit Http2EmptyFrames(std::size_t passed) : left_(passed) {}

  // Bytes of a body that have been sent. Window updates may give them back twice.
  void CountSent(std::size_t bytes) noexcept { to_come_back_ += std::uint64_t{2} * bytes; }

  // The next bytes that have come. Returns how many frames without content they begin; SETTINGS count one more for
  // each setting.
  double Pass(std::string_view bytes) noexcept {
    double found = 0;
    while (!bytes.empty()) {
      if (left_ != 0) {
        const std::size_t passed = std::min(left_, bytes.size());
        left_ -= passed;
        bytes.remove_prefix(passed);
        continue;
      }
      head_[size_++] = static_cast<std::uint8_t>(bytes.front());
      bytes.remove_prefix(1);
      if (size_ < kHead + Needed()) continue;
      found += Cost();
      left_ = Length() + kHead - size_;
      size_ = 0;
    }
    return found;
  }

 private:
  static constexpr std::size_t kHead = 9;
  static constexpr std::size_t kSetting = 6;  // bytes of one in a frame
  static constexpr std::size_t kIncrement = 4;
  static constexpr std::uint32_t kLeastUpdate = 1'024;  // of a peer that does not flood: two for each KiB sent

  std::size_t Length() const noexcept { return std::size_t{head_[0]} << 16 | std::size_t{head_[1]} << 8 | head_[2]; }
  // DATA that begin with the length of their padding.
  bool IsPadded() const noexcept {
    return size_ >= kHead && head_[3] == NGHTTP2_DATA && (head_[4] & NGHTTP2_FLAG_PADDED) != 0 && Length() != 0;
  }
  bool IsWindowUpdate() const noexcept {
    return size_ >= kHead && head_[3] == NGHTTP2_WINDOW_UPDATE && Length() == kIncrement;
  }
  // Bytes after the head that Cost() looks at.
  std::size_t Needed() const noexcept {
    if (IsWindowUpdate()) return kIncrement;
    return IsPadded() ? 1 : 0;
  }
  // Of a SETTINGS frame.
  std::size_t Settings() const noexcept { return Length() / kSetting; }
  // Whether it gives back what was sent.
  bool IsCovered() noexcept {
    const std::uint8_t* const from = head_ + kHead;
    const auto increment = static_cast<std::uint32_t>((from[0] & 0x7f) << 24 | from[1] << 16 | from[2] << 8 | from[3]);
    if (increment < kLeastUpdate || increment > to_come_back_) return false;
    to_come_back_ -= increment;
    return true;
  }
  double Cost() noexcept {
    switch (head_[3]) {
      case NGHTTP2_DATA:
        return Length() <= (IsPadded() ? std::size_t{1} + head_[kHead] : 0) ? 1 : 0;
      case NGHTTP2_SETTINGS:
        return 1 + static_cast<double>(Settings());
      case NGHTTP2_WINDOW_UPDATE:
        return IsWindowUpdate() && IsCovered() ? 0 : 1;
      case NGHTTP2_HEADERS:
      case NGHTTP2_CONTINUATION:
        return 0;  // Counted as header sections.
      default:
        return 1;
    }
  }

  std::size_t left_;      // of a frame whose head has been passed
  std::size_t size_ = 0;  // bytes in head_
  std::uint8_t head_[kHead + kIncrement] = {};
  std::uint64_t to_come_back_ = 0;
};

// The streams that we have reset before their peer had ended them. Trailers of such a stream may still come, once;
// those of any other stream that has gone are an error (H2S16 in http2_session.h).
//
// Remembers the last kMost. An older one, and each with a smaller number, may send trailers for ever: an honest peer is
// never wronged.
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

#endif  // WEFT_INTEROP_HTTP2_HTTP2_FLOOD_H_
