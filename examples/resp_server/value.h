// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Value: immutable bytes, shared by the store and by those who send them. One allocation.
//
// A reader takes a reference under its shard's lock and sends the bytes without it: a slow client keeps an overwritten
// value alive, but holds up nobody.
#ifndef WEFT_EXAMPLES_RESP_SERVER_VALUE_H_
#define WEFT_EXAMPLES_RESP_SERVER_VALUE_H_

#include <cstddef>
#include <cstring>
#include <new>
#include <string_view>

#include "weft/base/ref_ptr.h"

namespace examples::resp {

class Value final : public weft::RefCounted<Value> {
 public:
  static weft::RefPtr<const Value> Make(std::string_view bytes) {
    void* memory = ::operator new(sizeof(Value) + bytes.size());
    return weft::RefPtr<const Value>::Adopt(::new (memory) Value(bytes));
  }
  // The size is not the class's.
  static void operator delete(void* memory) { ::operator delete(memory); }

  std::string_view bytes() const noexcept { return {reinterpret_cast<const char*>(this + 1), size_}; }

 private:
  explicit Value(std::string_view bytes) : size_(bytes.size()) {
    if (!bytes.empty()) std::memcpy(reinterpret_cast<char*>(this + 1), bytes.data(), bytes.size());
  }

  const std::size_t size_;
};

using ValueRef = weft::RefPtr<const Value>;

}  // namespace examples::resp

#endif  // WEFT_EXAMPLES_RESP_SERVER_VALUE_H_
