// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Bytes to send: another sequence for each seed. Made of blocks: a sanitizer build takes a second for ten million that
// are computed one by one.
#ifndef WEFT_TESTS_TESTING_TEST_BYTES_H_
#define WEFT_TESTS_TESTING_TEST_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace weft::testing {

inline std::string TestBytes(std::size_t size, std::uint32_t seed) {
  // A prime number, so no buffer is a multiple of it: a piece that is lost, doubled or elsewhere shows.
  std::string block(65'521, '\0');
  std::uint32_t state = seed;
  for (char& byte : block) {
    state = state * 1'664'525 + 1'013'904'223;
    byte = static_cast<char>(state >> 24);
  }
  std::string bytes;
  bytes.reserve(size);
  while (bytes.size() < size) bytes.append(block, 0, size - bytes.size());
  return bytes;
}

}  // namespace weft::testing

#endif  // WEFT_TESTS_TESTING_TEST_BYTES_H_
