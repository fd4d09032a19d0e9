// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What tls_context.cc and tls_stream.cc share: calls of OpenSSL, and a context's insides.
//
// Invariants
//   OT1  OpenSSL's error queue belongs to the thread, and a fiber may continue on another one after a switch. So the
//        clearing of that queue, a call of OpenSSL and the look at the queue stand in one function that is not inlined
//        and does not switch: CallTls(), and the makers of contexts. Nor do our BIOs and callbacks switch: they only
//        copy memory and take `sessions_mutex`.
#ifndef WEFT_INTEROP_TLS_TLS_CONTEXT_STATE_H_
#define WEFT_INTEROP_TLS_TLS_CONTEXT_STATE_H_

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "weft/base/thread/cpu.h"

namespace weft::interop {

template <auto Free>
struct TlsDeleter {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
template <class T, auto Free>
using TlsPointer = std::unique_ptr<T, TlsDeleter<Free>>;

// The reasons in the thread's queue, which it empties: "certificate verify failed (hostname mismatch)".
std::string TakeErrorText();

// How a call has ended.
struct TlsCall {
  enum class End {
    kDone,
    kWantsInput,
    kClosed,  // the peer's close_notify
    kFailed,
  };
  End end;
  std::string text;  // of kFailed
};

// `call` is one call of OpenSSL that returns 1 for success (OT1).
template <class F>
WEFT_NOINLINE TlsCall CallTls(SSL* ssl, F&& call) {
  if (ERR_peek_error() != 0) ERR_clear_error();  // The latter looks at all 16 places for errors.
  const int result = call(ssl);
  if (result == 1) return {TlsCall::End::kDone, {}};
  switch (SSL_get_error(ssl, result)) {
    case SSL_ERROR_WANT_READ:
      return {TlsCall::End::kWantsInput, {}};
    case SSL_ERROR_ZERO_RETURN:
      return {TlsCall::End::kClosed, {}};
    default:
      return {TlsCall::End::kFailed, TakeErrorText()};
  }
}

using TlsSession = TlsPointer<SSL_SESSION, SSL_SESSION_free>;

struct TlsContextState {
  // nullptr: no memory.
  explicit TlsContextState(bool server);

  // By name. Takes it out, if it is good for once only.
  TlsSession TakeSession(const std::string& name);
  void KeepSession(const std::string& name, SSL_SESSION* session);

  TlsPointer<SSL_CTX, SSL_CTX_free> context;
  const bool is_server;
  bool verify = true;
  bool resumption = true;
  std::string alpn;  // as in the protocol: each with its length before it

  // A std::mutex: it is held for some hundred instructions, by callbacks of OpenSSL, which must not switch (OT1).
  std::mutex sessions_mutex;
  std::unordered_map<std::string, std::vector<TlsSession>> sessions;
  std::size_t session_count = 0;
};

}  // namespace weft::interop

#endif  // WEFT_INTEROP_TLS_TLS_CONTEXT_STATE_H_
