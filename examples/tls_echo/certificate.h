// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A key and a self-signed certificate, made when the program starts: enough to encrypt, no proof of who we are.
#ifndef WEFT_EXAMPLES_TLS_ECHO_CERTIFICATE_H_
#define WEFT_EXAMPLES_TLS_ECHO_CERTIFICATE_H_

#include <string>

namespace examples {

// Makes an EC key on P-256 and a certificate for `name` that is valid for a day, both in PEM. False, with *error:
// OpenSSL refused.
[[nodiscard]] bool MakeCertificate(const std::string& name, std::string* certificate_pem, std::string* key_pem,
                                   std::string* error);

}  // namespace examples

#endif  // WEFT_EXAMPLES_TLS_ECHO_CERTIFICATE_H_
