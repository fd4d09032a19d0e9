// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http2FrameRoom: the memory that a new nghttp2 session takes, 25 KiB, and that a connection which waits does without.
//
//     16,394 bytes   the room in which it builds its frames. An idle session needs nothing of it
//      4,096         the table of its streams: zeroes, when there are none
//      2,928         the session itself, of which 1,024 are a hash table
//      2 x 1,024     HPACK's tables: pointers to their entries, of which there are few
//         48         the list of the room's parts
//
// How it works. nghttp2 allocates with the functions that it is given. What a new session allocates lies in a region of
// whole pages, the room at its beginning. GiveBack() returns the pages of the room to the kernel. Sleep() returns all:
// it keeps the bytes that are not zero in an image of less than 1 KiB, and Wake() puts them back where they were, so
// that pointers stay good. What the session allocates later (streams, entries of HPACK's tables) is malloc's.
//
// Invariants
//   FM1  Between Sleep() and Wake() nobody touches the session. Sleep() is for one that is nobody's (H2S14 in
//        http2_session.h).
//   FM2  What is freed in the region becomes zeroes, and is not used again.
// Guarded by the session's lock. It outlives the session.
#ifndef WEFT_INTEROP_HTTP2_HTTP2_FRAME_ROOM_H_
#define WEFT_INTEROP_HTTP2_HTTP2_FRAME_ROOM_H_

#include <nghttp2/nghttp2.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "weft/base/report/build_mode.h"
#if WEFT_ASAN
#include <sanitizer/lsan_interface.h>
#endif

namespace weft::interop {

// The regions, which are made by many and kept: in malloc's memory each would end in a page of its own. Any thread.
class Http2Regions {
 public:
  // Whole pages. nullptr: no memory.
  static char* Take(std::size_t size) {
    Http2Regions& self = Self();
    const std::scoped_lock lock(self.mutex_);
    if (self.free_.empty()) {
      void* const made =
          ::mmap(nullptr, kAtOnce * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (made == MAP_FAILED) return nullptr;
      static_cast<void>(::madvise(made, kAtOnce * size, MADV_NOHUGEPAGE));  // A huge page would be memory for many.
#if WEFT_ASAN
      __lsan_register_root_region(made, kAtOnce * size);  // What only a session refers to is not a leak.
#endif
      for (std::size_t i = kAtOnce; i-- > 0;) self.free_.push_back(static_cast<char*>(made) + i * size);
    }
    char* const taken = self.free_.back();
    self.free_.pop_back();
    return taken;
  }
  static void GiveBack(char* region, std::size_t size) {
    Http2Regions& self = Self();
    if (!self.HasRoomForWarm()) static_cast<void>(::madvise(region, size, MADV_DONTNEED));
    const std::scoped_lock lock(self.mutex_);
    self.free_.push_back(region);
  }

 private:
  static constexpr std::size_t kAtOnce = 32;
  static constexpr std::size_t kWarm = 64;

  // The next connections take those that were used last.
  bool HasRoomForWarm() {
    const std::scoped_lock lock(mutex_);
    return free_.size() < kWarm;
  }
  static Http2Regions& Self() {
    static Http2Regions* const regions = new Http2Regions;  // Sessions of static objects may outlive others.
    return *regions;
  }

  std::mutex mutex_;  // Held for some instructions, and for the system calls that make many; with no switch.
  std::vector<char*> free_;
};

class Http2FrameRoom {
 public:
  Http2FrameRoom() = default;
  ~Http2FrameRoom() {
    if (region_ != nullptr) Http2Regions::GiveBack(region_, Size());
  }
  Http2FrameRoom(const Http2FrameRoom&) = delete;
  Http2FrameRoom& operator=(const Http2FrameRoom&) = delete;

  // `make`: nghttp2_session_server_new3() or its like. Returns what that returns.
  template <class Make>
  [[nodiscard]] int MakeSession(Make make, nghttp2_session** session, const nghttp2_session_callbacks* callbacks,
                                void* user, const nghttp2_option* option) noexcept {
    nghttp2_mem allocator{this, &Malloc, &Free, &Calloc, &Realloc};
    region_ = Http2Regions::Take(Size());
    if (region_ != nullptr) std::fill_n(Words(), kWords, 0);
    is_new_ = true;
    const int result = make(session, callbacks, user, option, &allocator);
    is_new_ = false;
    return result;
  }

  // Only while nghttp2 has nothing to send: it erases the room. The page at its end, which other blocks share, stays.
  void GiveBack() const noexcept {
    if (has_room_) Drop(kRoom / PageSize() * PageSize());
  }
  // The same, and all else, until Wake() (FM1). Not under AddressSanitizer, which finds no pointers in an image.
  void Sleep() noexcept {
    if (WEFT_ASAN || image_ != nullptr || region_ == nullptr || end_ == kRoom) return;
    std::size_t size = kMarks;
    for (std::size_t i = 0; i < kWords; ++i) size += Packed(Words()[i]);
    image_.reset(new (std::nothrow) unsigned char[size]());
    if (image_ == nullptr) return;
    unsigned char* to = image_.get() + kMarks;
    for (std::size_t i = 0; i < kWords; ++i) {
      const std::uint64_t word = Words()[i];
      if (word == 0) continue;
      image_[i / 8] |= static_cast<unsigned char>(1u << i % 8);
      unsigned char* const which = to++;
      *which = 0;
      for (int k = 0; k < 8; ++k) {
        const auto byte = static_cast<unsigned char>(word >> 8 * k);
        if (byte == 0) continue;
        *which |= static_cast<unsigned char>(1u << k);
        *to++ = byte;
      }
    }
    Drop(Size());
  }
  void Wake() noexcept {
    if (image_ == nullptr) return;
    const unsigned char* from = image_.get() + kMarks;
    for (std::size_t i = 0; i < kWords; ++i) {
      if ((image_[i / 8] >> i % 8 & 1) == 0) continue;
      const unsigned which = *from++;
      std::uint64_t word = 0;
      for (int k = 0; k < 8; ++k) {
        if ((which >> k & 1) != 0) word |= std::uint64_t{*from++} << 8 * k;
      }
      Words()[i] = word;
    }
    image_.reset();
  }

  static std::size_t PageSize() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }
  static std::size_t Size() { return (kEnd + PageSize() - 1) / PageSize() * PageSize(); }  // of its region

 private:
  static constexpr std::size_t kLarge = 16'384;
  static constexpr std::size_t kRoom = 16'384 + 32;  // with its head
  static constexpr std::size_t kWords = 1'280;       // behind the room: 10 KiB
  static constexpr std::size_t kMarks = kWords / 8;  // a bit a word
  static constexpr std::size_t kEnd = kRoom + 8 * kWords;

  // Before each block of the region.
  struct alignas(16) Head {
    std::size_t size;
  };

  static void* Malloc(std::size_t size, void* room) {
    void* const block = Of(room)->Take(size);
    return block != nullptr ? block : std::malloc(size);
  }
  static void* Calloc(std::size_t count, std::size_t size, void* room) {
    void* const block = Of(room)->Take(count * size);
    return block != nullptr ? std::memset(block, 0, count * size) : std::calloc(count, size);
  }
  static void Free(void* block, void* room) {
    if (!Of(room)->Has(block)) return std::free(block);
    std::memset(block, 0, HeadOf(block)->size);  // FM2
  }
  static void* Realloc(void* block, std::size_t size, void* room) {
    if (block == nullptr) return Malloc(size, room);
    if (!Of(room)->Has(block)) return std::realloc(block, size);
    void* const moved = std::malloc(size);
    if (moved == nullptr) return nullptr;
    std::memcpy(moved, block, std::min(size, HeadOf(block)->size));
    Free(block, room);
    return moved;
  }

  // Bytes of the image for a word.
  static std::size_t Packed(std::uint64_t word) {
    if (word == 0) return 0;
    std::size_t size = 1;
    for (; word != 0; word >>= 8) size += (word & 0xff) != 0 ? 1 : 0;
    return size;
  }
  static Http2FrameRoom* Of(void* room) { return static_cast<Http2FrameRoom*>(room); }
  static Head* HeadOf(void* block) { return static_cast<Head*>(block) - 1; }
  std::uint64_t* Words() const { return reinterpret_cast<std::uint64_t*>(region_ + kRoom); }
  bool Has(const void* block) const {
    const auto* const at = static_cast<const char*>(block);
    return region_ != nullptr && at >= region_ && at < region_ + kEnd;
  }
  void Drop(std::size_t size) const { static_cast<void>(::madvise(region_, size, MADV_DONTNEED)); }
  // nullptr: it is malloc's.
  void* Take(std::size_t size) {
    if (!is_new_ || region_ == nullptr) return nullptr;
    const std::size_t taken = sizeof(Head) + (size + alignof(Head) - 1) / alignof(Head) * alignof(Head);
    std::size_t begin = end_;
    if (size >= kLarge) {
      if (has_room_ || taken > kRoom) return nullptr;
      has_room_ = true;
      begin = 0;
    } else {
      if (taken > kEnd - end_) return nullptr;
      end_ += taken;
    }
    return ::new (region_ + begin) Head{size} + 1;
  }

  char* region_ = nullptr;
  std::size_t end_ = kRoom;  // what lies behind it is free
  bool has_room_ = false;
  bool is_new_ = false;
  // While it sleeps. A bit for each word that is not zero; then, of each of these, a bit for each byte that is not
  // zero, and those bytes.
  std::unique_ptr<unsigned char[]> image_;
};

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_HTTP2_FRAME_ROOM_H_
