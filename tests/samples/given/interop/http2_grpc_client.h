// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the samples of the header of this name use: see ../../compile_samples.py.

#include <cstddef>
#include <cstdint>
#include <string>
struct EchoRequest {
  std::size_t ByteSizeLong() const;
  std::uint8_t* SerializeWithCachedSizesToArray(std::uint8_t* to) const;
};
struct EchoReply {
  const std::string& payload() const;
  bool ParseFromArray(const void* data, int size);
};
void Log(const std::string& text);
void Log(int code, const std::string& text);
