// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/report/str_cat.h"

#include <sstream>
#include <utility>

namespace weft::base::str_cat_internal {

#define WEFT_DEFINE_WRITE(T)                                \
  template <>                                               \
  void Write<T>(std::ostream & stream, const void* piece) { \
    stream << *static_cast<T const*>(piece);                \
  }
WEFT_STR_CAT_TYPES(WEFT_DEFINE_WRITE)
#undef WEFT_DEFINE_WRITE

std::string Join(std::initializer_list<Piece> pieces) {
  std::ostringstream stream;
  for (const Piece& piece : pieces) piece.write(stream, piece.address);
  return std::move(stream).str();
}

}  // namespace weft::base::str_cat_internal
