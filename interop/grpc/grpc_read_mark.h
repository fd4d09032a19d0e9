// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PutReadMark, TakeReadMark: whether a read of gRPC that has ended without a message has ended the stream, or has come
// to a message that it cannot parse. gRPC says neither.
//
// Parsing clears a message first, also if it fails. So before the read a mark is put into the message: an unknown
// field, of a number that no field has. If the mark is there afterwards, no message has come. Messages without unknown
// fields (of protobuf's lite runtime, or not protobuf's) are not marked: one that cannot be parsed looks like the end.
//
// Rejected: a mark that is an ordinary field (the message that cannot be parsed may have left just that there).
#ifndef WEFT_INTEROP_GRPC_GRPC_READ_MARK_H_
#define WEFT_INTEROP_GRPC_GRPC_READ_MARK_H_

namespace weft::interop::detail {

template <class Message>
concept CanBeMarked = requires(Message& message) {
  message.GetReflection()->MutableUnknownFields(&message);
};

// On the wire a field's number has 29 bits: no message can bring this one along.
inline constexpr int kReadMark = 1 << 29;

// The read's caller, before it asks for it.
template <class Message>
void PutReadMark(Message* message) {
  if constexpr (CanBeMarked<Message>) {
    message->GetReflection()->MutableUnknownFields(message)->AddVarint(kReadMark, 0);
  }
}

// The read's caller, when it has ended, however: nobody else sees the mark.  True: it was there, or could not be put.
template <class Message>
bool TakeReadMark(Message* message) {
  if constexpr (CanBeMarked<Message>) {
    auto* const fields = message->GetReflection()->MutableUnknownFields(message);
    const int last = fields->field_count() - 1;
    if (last < 0 || fields->field(last).number() != kReadMark) return false;
    fields->DeleteSubrange(last, 1);
  }
  return true;
}

}  // namespace weft::interop::detail

#endif  // WEFT_INTEROP_GRPC_GRPC_READ_MARK_H_
