// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Certificates for tests, made by libcrypto: an authority, and what it issues.
#ifndef WEFT_TESTS_INTEROP_TLS_CERTIFICATES_H_
#define WEFT_TESTS_INTEROP_TLS_CERTIFICATES_H_

#include <chrono>
#include <string>

namespace weft::interop {

struct PemPair {
  std::string certificate;
  std::string key;
};

class TestAuthority {
 public:
  TestAuthority();
  ~TestAuthority();
  TestAuthority(const TestAuthority&) = delete;
  TestAuthority& operator=(const TestAuthority&) = delete;

  const std::string& certificate() const { return certificate_; }
  // Good from an hour ago until `until` from now. alternative: "DNS:weft.example", "IP:127.0.0.1".
  PemPair Issue(const std::string& alternative, std::chrono::seconds until = std::chrono::hours(1)) const;

 private:
  struct Impl;
  Impl* const impl_;
  std::string certificate_;
};

}  // namespace weft::interop

#endif  // WEFT_TESTS_INTEROP_TLS_CERTIFICATES_H_
