// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// Http2FrameRoom: the block of 16 KiB in which an nghttp2 session builds its frames. The session has it from beginning
// to end, and an idle connection needs nothing of it: GiveBack() returns its pages to the kernel.
//
// How it works. nghttp2 allocates with the functions that it is given. A new session allocates one large block, the
// room, which begins with a page. Large blocks that it allocates later hold other things. If the session frees the
// room, GiveBack() does nothing.
// Guarded by the session's lock. It outlives the session.
#ifndef WEFT_INTEROP_HTTP2_FRAME_ROOM_H_
#define WEFT_INTEROP_HTTP2_FRAME_ROOM_H_

#include <nghttp2/nghttp2.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace weft::interop {

class Http2FrameRoom {
 public:
  Http2FrameRoom() = default;
  Http2FrameRoom(const Http2FrameRoom&) = delete;
  Http2FrameRoom& operator=(const Http2FrameRoom&) = delete;

  // `make`: nghttp2_session_server_new3() or its like. Returns what that returns.
  template <class Make>
  [[nodiscard]] int MakeSession(Make make, nghttp2_session** session, const nghttp2_session_callbacks* callbacks,
                                void* user, const nghttp2_option* option) noexcept {
    nghttp2_mem allocator{this, &Malloc, &Free, &Calloc, &Realloc};
    is_new_ = true;
    const int result = make(session, callbacks, user, option, &allocator);
    is_new_ = false;
    return result;
  }

  // Only while nghttp2 has nothing to send: it erases the room. The page at its end, which other blocks share, stays.
  void GiveBack() const noexcept {
    if (block_ == nullptr) return;
    const auto page = static_cast<std::uintptr_t>(PageSize());
    const auto begin = (reinterpret_cast<std::uintptr_t>(block_) + page - 1) / page * page;
    const auto end = (reinterpret_cast<std::uintptr_t>(block_) + size_) / page * page;
    if (begin < end) static_cast<void>(::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED));
  }

 private:
  static constexpr std::size_t kLarge = 16'384;

  static std::size_t PageSize() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

  static void* Malloc(std::size_t size, void* room) { return Realloc(nullptr, size, room); }
  static void Free(void* block, void* room) {
    Of(room)->Forget(block);
    std::free(block);
  }
  static void* Calloc(std::size_t count, std::size_t size, void*) { return std::calloc(count, size); }
  static void* Realloc(void* block, std::size_t size, void* room) {
    Of(room)->Forget(block);
    return block == nullptr && Of(room)->IsRoom(size) ? Of(room)->Make(size) : std::realloc(block, size);
  }

  static Http2FrameRoom* Of(void* room) { return static_cast<Http2FrameRoom*>(room); }
  bool IsRoom(std::size_t size) const { return is_new_ && size >= kLarge; }
  void* Make(std::size_t size) {
    if (::posix_memalign(&block_, PageSize(), size) != 0) block_ = nullptr;
    size_ = size;
    return block_;
  }
  void Forget(const void* block) {
    if (block == block_) block_ = nullptr;
  }

  void* block_ = nullptr;
  std::size_t size_ = 0;
  bool is_new_ = false;
};

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_FRAME_ROOM_H_
