// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the samples of the header of this name use: see ../../compile_samples.py.

#include <cstddef>
#include <cstdint>
#include <string>
struct EchoRequest {
  const std::string& payload() const;
  bool ParseFromArray(const void* data, int size);
};
struct EchoReply {
  void set_payload(const std::string& payload);
  std::size_t ByteSizeLong() const;
  std::uint8_t* SerializeWithCachedSizesToArray(std::uint8_t* to) const;
};
