// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ProtobufFields: reads a message of Protobuf field by field; AppendBytes(), AppendNumber(): write one. For the few
// small messages of gRPC's own services, whose generated code a program need not have.
// Sample:
//     for (interop::ProtobufFields fields(message); fields.Next();) {
//       if (fields.tag() == interop::BytesTag(1)) service = fields.bytes();
//     }
//     // fields.ok(): false if the message ends in the middle of a field, or has a field of no type of today
//
// Fields of another number, or of another type than theirs, are for the caller to pass over, as Protobuf does. Groups
// are refused. Source: protobuf.dev, "Encoding".
#ifndef WEFT_INTEROP_GRPC_PROTOBUF_FIELDS_H_
#define WEFT_INTEROP_GRPC_PROTOBUF_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft::interop {

// Of field `number`, a string, bytes or a message.
constexpr std::uint64_t BytesTag(std::uint64_t number) { return number << 3 | 2; }
// Of field `number`, an integer, a bool or an enum.
constexpr std::uint64_t NumberTag(std::uint64_t number) { return number << 3; }

class ProtobufFields {
 public:
  explicit ProtobufFields(std::string_view message) : left_(message) {}

  // False: there is no further field, or what comes is none.
  bool Next() {
    if (!ok_ || left_.empty()) return false;
    tag_ = TakeVarint();
    number_ = 0;
    bytes_ = {};
    switch (tag_ & 7) {
      case 0:
        number_ = TakeVarint();
        break;
      case 1:
        bytes_ = Take(8);
        break;
      case 2:
        bytes_ = Take(TakeVarint());
        break;
      case 5:
        bytes_ = Take(4);
        break;
      default:
        ok_ = false;
    }
    return ok_;
  }
  bool ok() const { return ok_; }

  // Of the field that Next() has come to.
  std::uint64_t tag() const { return tag_; }
  std::uint64_t number() const { return number_; }  // the value of one with a NumberTag()
  std::string_view bytes() const { return bytes_; }

 private:
  std::uint64_t TakeVarint() {
    std::uint64_t number = 0;
    for (unsigned shift = 0; shift < 64 && !left_.empty(); shift += 7) {
      const auto byte = static_cast<std::uint8_t>(left_.front());
      left_.remove_prefix(1);
      number |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return number;
    }
    ok_ = false;
    return 0;
  }
  std::string_view Take(std::uint64_t size) {
    ok_ = ok_ && size <= left_.size();
    if (!ok_) return {};
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(size);
    return taken;
  }

  std::string_view left_;
  std::string_view bytes_;
  std::uint64_t tag_ = 0;
  std::uint64_t number_ = 0;
  bool ok_ = true;
};

inline void AppendVarint(std::string* to, std::uint64_t number) {
  for (; number > 0x7f; number >>= 7) to->push_back(static_cast<char>(number | 0x80));
  to->push_back(static_cast<char>(number));
}

inline void AppendBytes(std::string* to, std::uint64_t number, std::string_view bytes) {
  AppendVarint(to, BytesTag(number));
  AppendVarint(to, bytes.size());
  to->append(bytes);
}

// Not negative.
inline void AppendNumber(std::string* to, std::uint64_t number, std::uint64_t value) {
  AppendVarint(to, NumberTag(number));
  AppendVarint(to, value);
}

}  // namespace weft::interop

#endif  // WEFT_INTEROP_GRPC_PROTOBUF_FIELDS_H_
