// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// TlsStream: the handshake.

#include <arpa/inet.h>
#include <openssl/x509v3.h>

#include <utility>

#include "weft/interop/tls/tls_context_state.h"
#include "weft/interop/tls_stream.h"

namespace weft::interop {
namespace {

bool IsAddress(const std::string& name) {
  unsigned char address[16];
  return ::inet_pton(AF_INET, name.c_str(), address) == 1 || ::inet_pton(AF_INET6, name.c_str(), address) == 1;
}

}  // namespace

std::string TlsStream::SetName(const std::string& name) {
  if (name.empty()) {
    return context_->verify ? "the server's name is empty: there is nothing to check its certificate for" : "";
  }
  // A name with a zero byte would be checked up to it only.
  if (name.find('\0') != std::string::npos) return "the server's name has a zero byte";
  const bool address = IsAddress(name);
  if (!address && SSL_set_tlsext_host_name(ssl_, name.c_str()) != 1) return "the server's name is too long";
  if (context_->verify) {
    SSL_set_hostflags(ssl_, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    const int set =
        address ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_), name.c_str()) : SSL_set1_host(ssl_, name.c_str());
    if (set != 1) return "the server's name cannot be checked: " + TakeErrorText();
  }
  if (!context_->resumption) return {};
  if (const TlsSession session = context_->TakeSession(name)) SSL_set_session(ssl_, session.get());
  return {};
}

std::error_code TlsStream::Handshake(Deadline deadline) {
  Lock lock(mutex_);
  const std::error_code error = MakeHandshake(lock, deadline);
  if (error) TellIfEnded(error);
  return error;
}

std::error_code TlsStream::MakeHandshake(Lock& lock, Deadline deadline) {
  if (cannot_begin_) return cannot_begin_;
  if (state_ == State::kReady) return {};
  if (state_ == State::kFailed) return failure_;
  for (;;) {
    TlsCall call = CallTls(ssl_, [](SSL* ssl) { return SSL_do_handshake(ssl); });
    if (call.end == TlsCall::End::kFailed || call.end == TlsCall::End::kClosed) {
      const bool rejected = SSL_get_verify_result(ssl_) != X509_V_OK;
      if (rejected) {
        call.text.append(": ").append(X509_verify_cert_error_string(SSL_get_verify_result(ssl_)));
      }
      return Fail(lock, rejected ? TlsErrc::kCertificateRejected : TlsErrc::kHandshakeFailed, std::move(call.text));
    }
    if (std::error_code error = Flush(lock, deadline)) return error;
    if (call.end == TlsCall::End::kDone) break;
    if (std::error_code error = Fill(lock, deadline, /*request=*/!has_begun_)) return error;
    if (std::exchange(has_begun_, true)) continue;
    if (connection_ != nullptr) connection_->SetHasSentRequest(false);
    // No record begins so, but a greeting that OpenSSL would take: then records_ could not follow.
    if ((static_cast<unsigned char>(in_[0]) & 0x80) != 0) {
      return Fail(lock, TlsErrc::kHandshakeFailed, "the peer has begun as SSL 2 does");
    }
  }
  FinishHandshake();
  return {};
}

void TlsStream::FinishHandshake() {
  const unsigned char* name = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(ssl_, &name, &size);
  alpn_.assign(reinterpret_cast<const char*>(name), size);
  version_ = SSL_get_version(ssl_);
  resumed_ = SSL_session_reused(ssl_) == 1;
  state_ = State::kReady;
}

}  // namespace weft::interop
