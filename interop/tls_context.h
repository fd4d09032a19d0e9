// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TlsContext: what TLS connections have in common: certificates, the trust store, application protocols, sessions.
// For programs that have OpenSSL 3, by the CMake target weft::tls.
// Sample:
//     std::string why;
//     const auto server = interop::TlsContext::ForServer(
//         {.certificate_chain_file = "chain.pem", .private_key_file = "key.pem", .alpn = {"h2", "http/1.1"}}, &why);
//     if (!server) std::cerr << why << '\n';                 // what, which file, and OpenSSL's text
//     const auto client = interop::TlsContext::ForClient({.alpn = {"h2"}}, &why);
//
// TLS 1.2 and 1.3, without compression, renegotiation and kTLS (wake-ups might be lost: TcpStream::ExpectShortReads()).
//
// Resumption. A server gives its clients tickets, which are good for its context, and keeps nothing for them. A
// client's context keeps them by the name that was checked: kMaxSessions in all. A ticket of TLS 1.3 is used once.
//
// Who may call: any fiber and thread; no call switches. Copies share the context, which lives as long as one of them,
// or of its streams.
//
// TlsErrc: what only TLS can refuse (interop/tls_stream.h). Category: "weft.tls". All other errors: io/io_result.h.
// Sample:
//     if (io::IoResult got = tls.ReadSome(room); got.error == interop::TlsErrc::kTruncated) DropWhatHasCome();
#ifndef WEFT_INTEROP_TLS_CONTEXT_H_
#define WEFT_INTEROP_TLS_CONTEXT_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace weft::interop {

struct TlsContextState;

// A certificate with its key, in PEM: in files, or as text.
struct TlsServerOptions {
  std::string certificate_chain_file{};  // the server's own certificate first, then its issuers
  // In PEM, without a pass phrase.
  std::string private_key_file{};
  std::string certificate_chain_pem{};  // used if no file is named
  // The key as text.
  std::string private_key_pem{};
  // Application protocols, best first. A client that offers none of them is refused; one that offers nothing is not,
  // and TlsStream::alpn() is empty then. Empty: what a client offers is ignored.
  std::vector<std::string> alpn{};
  // Not empty: clients must show a certificate that these (a PEM file) have issued.
  std::string client_trust_file{};
  bool resumption = true;  // clients get tickets, by which their next handshake is shorter
};

// Whom the client trusts, and what it offers.
struct TlsClientOptions {
  // Who may issue certificates: a file or text in PEM. Both empty: the system's store.
  std::string trust_file{};
  std::string trust_pem{};
  // False: the server's certificate is neither checked nor compared with the name. For tests.
  bool verify = true;
  std::vector<std::string> alpn{};  // offered, best first
  // The client's own certificate, for servers that ask for one.
  std::string certificate_chain_file{};
  std::string private_key_file{};
  bool resumption = true;  // tickets are kept and used
};

class TlsContext {
 public:
  // None: *why says what could not be, where, and OpenSSL's reason. Reads files, and blocks meanwhile.
  [[nodiscard]] static std::optional<TlsContext> ForServer(const TlsServerOptions& options, std::string* why);
  [[nodiscard]] static std::optional<TlsContext> ForClient(const TlsClientOptions& options, std::string* why);

  std::size_t session_count() const;  // a client's: how many are kept

  static constexpr std::size_t kMaxSessions = 1024;  // some 2 KB each

 private:
  friend class TlsStream;

  explicit TlsContext(std::shared_ptr<TlsContextState> state) : state_(std::move(state)) {}

  std::shared_ptr<TlsContextState> state_;
};

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

#endif  // WEFT_INTEROP_TLS_CONTEXT_H_
