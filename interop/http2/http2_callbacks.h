// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http2Session::Callbacks: what nghttp2 calls (http2_callbacks.cc). FieldList: header fields as nghttp2 takes them.
#ifndef WEFT_INTEROP_HTTP2_HTTP2_CALLBACKS_H_
#define WEFT_INTEROP_HTTP2_HTTP2_CALLBACKS_H_

#include <nghttp2/nghttp2.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/interop/http2/http2_session.h"
#include "weft/interop/http2_headers.h"

namespace weft::interop {

// Of fields that outlive it.
class FieldList {
 public:
  FieldList(std::span<const Http2Field> first, const Http2Headers& rest) : size_(first.size() + rest.size()) {
    if (size_ > few_.size()) many_.resize(size_);
    nghttp2_nv* to = size_ > few_.size() ? many_.data() : few_.data();
    for (const Http2Field& field : first) *to++ = Of(field);
    for (const Http2Field field : rest) *to++ = Of(field);
  }
  const nghttp2_nv* data() const { return many_.empty() ? few_.data() : many_.data(); }
  std::size_t size() const { return size_; }

 private:
  // nghttp2 copies what it is given, and does not write to it.
  static std::uint8_t* Bytes(std::string_view text) {
    return const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(text.data()));
  }
  static nghttp2_nv Of(const Http2Field& field) {
    return {Bytes(field.name), Bytes(field.value), field.name.size(), field.value.size(), NGHTTP2_NV_FLAG_NONE};
  }

  std::size_t size_;
  std::array<nghttp2_nv, 16> few_;
  std::vector<nghttp2_nv> many_;
};

struct Http2Session::Callbacks {
  static Http2Session* Self(void* self) { return static_cast<Http2Session*>(self); }

  static int OnBeginFrame(nghttp2_session* session, const nghttp2_frame_hd* head, void* self) noexcept;
  static int OnBeginHeaders(nghttp2_session* session, const nghttp2_frame* frame, void* self) noexcept;
  static int OnHeader(nghttp2_session* session, const nghttp2_frame* frame, const std::uint8_t* name,
                      std::size_t name_size, const std::uint8_t* value, std::size_t value_size, std::uint8_t flags,
                      void* self) noexcept;
  static int OnFrameReceived(nghttp2_session* session, const nghttp2_frame* frame, void* self) noexcept;
  static int OnInvalidFrame(nghttp2_session* session, const nghttp2_frame* frame, int error, void* self) noexcept;
  static int OnData(nghttp2_session* session, std::uint8_t flags, std::int32_t id, const std::uint8_t* data,
                    std::size_t size, void* self) noexcept;
  static int OnStreamClosed(nghttp2_session* session, std::int32_t id, std::uint32_t code, void* self) noexcept;
  static int OnFrameSent(nghttp2_session* session, const nghttp2_frame* frame, void* self) noexcept;
  static int OnFrameNotSent(nghttp2_session* session, const nghttp2_frame* frame, int error, void* self) noexcept;
  static ssize_t ReadBody(nghttp2_session* session, std::int32_t id, std::uint8_t* data, std::size_t size,
                          std::uint32_t* flags, nghttp2_data_source* source, void* self) noexcept;
  static int SendBody(nghttp2_session* session, nghttp2_frame* frame, const std::uint8_t* head, std::size_t size,
                      nghttp2_data_source* source, void* self) noexcept;

  // Made once, for all sessions.
  static const nghttp2_session_callbacks* Table();
  static const nghttp2_option* Options();

 private:
  // HEADERS or DATA.
  static void OnMessage(Http2Session* self, Http2Stream* stream, const nghttp2_frame_hd& head);
};

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_HTTP2_CALLBACKS_H_
