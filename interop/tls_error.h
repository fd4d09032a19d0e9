// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TlsErrc: what only TLS can refuse (interop/tls_stream.h). Category: "weft.tls". All other errors: io/io_result.h.
// Sample:
//     if (io::IoResult got = tls.ReadSome(room); got.error == interop::TlsErrc::kTruncated) DropWhatHasCome();
#ifndef WEFT_INTEROP_TLS_ERROR_H_
#define WEFT_INTEROP_TLS_ERROR_H_

#include <system_error>
#include <type_traits>

namespace weft::interop {

enum class TlsErrc {
  // The connection has ended, and the peer has not said so by close_notify: bytes may be missing.
  kTruncated = 1,
  // The handshake has failed: no common version, cipher or application protocol, or the peer does not speak TLS.
  kHandshakeFailed,
  // The peer's certificate was not accepted: unknown issuer, another host's, expired.
  kCertificateRejected,
  // After the handshake: a record that cannot be deciphered, a peer that asks for what is refused, an alert of it.
  kProtocolError,
};

// Any thread.
const std::error_category& TlsCategory() noexcept;
inline std::error_code make_error_code(TlsErrc code) noexcept { return {static_cast<int>(code), TlsCategory()}; }

}  // namespace weft::interop

template <>
struct std::is_error_code_enum<weft::interop::TlsErrc> : std::true_type {};

#endif  // WEFT_INTEROP_TLS_ERROR_H_
