// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/tls_context.h"

#include <openssl/pem.h>
#include <openssl/x509.h>

#include <string_view>

#include "weft/interop/tls/tls_context_state.h"

namespace weft::interop {
namespace {

using Certificate = TlsPointer<X509, X509_free>;
using Key = TlsPointer<EVP_PKEY, EVP_PKEY_free>;
using Bio = TlsPointer<BIO, BIO_free_all>;

// Each makes one thing, and returns what is wrong, or nothing. None of them switches (OT1).

std::string Failure(std::string_view what, std::string_view where) {
  std::string text(what);
  if (!where.empty()) text.append(" ").append(where);
  return text + ": " + TakeErrorText();
}

Bio BioOf(const std::string& pem) { return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))); }

std::string UseChainText(SSL_CTX* context, const std::string& pem) {
  const Bio bio = BioOf(pem);
  const Certificate leaf(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (leaf == nullptr || SSL_CTX_use_certificate(context, leaf.get()) != 1) {
    return Failure("cannot use certificate_chain_pem", "");
  }
  for (;;) {
    Certificate issuer(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (issuer == nullptr) break;  // The end of the text.
    if (SSL_CTX_add0_chain_cert(context, issuer.get()) != 1) return Failure("cannot use certificate_chain_pem", "");
    static_cast<void>(issuer.release());
  }
  ERR_clear_error();
  return {};
}

std::string UseKeyText(SSL_CTX* context, const std::string& pem) {
  const Key key(PEM_read_bio_PrivateKey(BioOf(pem).get(), nullptr, nullptr, nullptr));
  if (key == nullptr || SSL_CTX_use_PrivateKey(context, key.get()) != 1) {
    return Failure("cannot use private_key_pem", "");
  }
  return {};
}

std::string UseFiles(SSL_CTX* context, const std::string& chain, const std::string& key) {
  if (SSL_CTX_use_certificate_chain_file(context, chain.c_str()) != 1) {
    return Failure("cannot use the certificates in certificate_chain_file", chain);
  }
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return Failure("cannot use the key in private_key_file", key);
  }
  return {};
}

std::string TrustText(SSL_CTX* context, const std::string& pem) {
  const Bio bio = BioOf(pem);
  int count = 0;
  for (;; ++count) {
    const Certificate trusted(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (trusted == nullptr) break;
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), trusted.get()) != 1) {
      return Failure("cannot use trust_pem", "");
    }
  }
  if (count == 0) return Failure("no certificate in trust_pem", "");
  ERR_clear_error();
  return {};
}

std::string TrustFile(SSL_CTX* context, const std::string& file, std::string_view option) {
  if (SSL_CTX_load_verify_locations(context, file.c_str(), nullptr) == 1) return {};
  return Failure(std::string("cannot use the certificates in ") + std::string(option), file);
}

std::string EncodeAlpn(const std::vector<std::string>& names, std::string* encoded) {
  for (const std::string& name : names) {
    if (name.empty() || name.size() > 255) return "alpn: a protocol's name has 1 to 255 bytes";
    encoded->push_back(static_cast<char>(name.size()));
    encoded->append(name);
  }
  return {};
}

int SelectAlpn(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* offered,
               unsigned int offered_size, void* argument) {
  const std::string& ours = *static_cast<const std::string*>(argument);
  unsigned char* selected = nullptr;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(ours.data());
  if (SSL_select_next_proto(&selected, out_size, bytes, static_cast<unsigned int>(ours.size()), offered,
                            offered_size) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;  // no_application_protocol: RFC 7301, 3.2
  }
  *out = selected;
  return SSL_TLSEXT_ERR_OK;
}

// A stream has put its server's name there.
int OnNewSession(SSL* ssl, SSL_SESSION* session) {
  auto* const state = static_cast<TlsContextState*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  state->KeepSession(*static_cast<const std::string*>(SSL_get_app_data(ssl)), session);
  return 1;  // It is ours now.
}

void Configure(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  // Renegotiation lets a peer make us work; TLS 1.3 does not have it.
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
}

std::string SetUpServer(const TlsServerOptions& options, TlsContextState* state) {
  SSL_CTX* const context = state->context.get();
  std::string wrong;
  if (!options.certificate_chain_file.empty()) {
    wrong = UseFiles(context, options.certificate_chain_file, options.private_key_file);
  } else if (!options.certificate_chain_pem.empty()) {
    wrong = UseChainText(context, options.certificate_chain_pem);
    if (wrong.empty()) wrong = UseKeyText(context, options.private_key_pem);
  } else {
    wrong = "a server needs a certificate: set certificate_chain_file or certificate_chain_pem";
  }
  if (wrong.empty()) wrong = EncodeAlpn(options.alpn, &state->alpn);
  if (!wrong.empty()) return wrong;
  if (!state->alpn.empty()) SSL_CTX_set_alpn_select_cb(context, &SelectAlpn, &state->alpn);
  if (!options.resumption) {
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(context, 0);
  }
  if (options.client_trust_file.empty()) return {};
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // Tickets say which context has checked the client.
  static constexpr unsigned char kId[] = "weft";
  SSL_CTX_set_session_id_context(context, kId, sizeof(kId) - 1);
  return TrustFile(context, options.client_trust_file, "client_trust_file");
}

std::string SetUpClient(const TlsClientOptions& options, TlsContextState* state) {
  SSL_CTX* const context = state->context.get();
  std::string wrong = EncodeAlpn(options.alpn, &state->alpn);
  if (!wrong.empty()) return wrong;
  if (!state->alpn.empty() &&
      SSL_CTX_set_alpn_protos(context, reinterpret_cast<const unsigned char*>(state->alpn.data()),
                              static_cast<unsigned int>(state->alpn.size())) != 0) {
    return Failure("cannot offer alpn", "");
  }
  if (!options.certificate_chain_file.empty()) {
    wrong = UseFiles(context, options.certificate_chain_file, options.private_key_file);
    if (!wrong.empty()) return wrong;
  }
  if (options.resumption) {
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, &OnNewSession);
  }
  if (!options.verify) return {};
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (!options.trust_file.empty()) return TrustFile(context, options.trust_file, "trust_file");
  if (!options.trust_pem.empty()) return TrustText(context, options.trust_pem);
  return SSL_CTX_set_default_verify_paths(context) == 1 ? std::string() : Failure("no trust store", "of the system");
}

// `set_up` returns what is wrong.
template <class F>
std::shared_ptr<TlsContextState> Make(bool server, std::string* why, F&& set_up) {
  ERR_clear_error();
  auto state = std::make_shared<TlsContextState>(server);
  if (state->context == nullptr) {
    *why = Failure("TlsContext: no context", "");
    return nullptr;
  }
  Configure(state->context.get());
  SSL_CTX_set_app_data(state->context.get(), state.get());
  std::string wrong = set_up(state.get());
  if (wrong.empty()) return state;
  *why = "TlsContext: " + wrong;
  return nullptr;
}

class Category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "weft.tls"; }
  std::string message(int code) const override {
    switch (static_cast<TlsErrc>(code)) {
      case TlsErrc::kTruncated:
        return "the connection has ended without TLS's close_notify";
      case TlsErrc::kHandshakeFailed:
        return "the TLS handshake has failed";
      case TlsErrc::kCertificateRejected:
        return "the peer's certificate was rejected";
      case TlsErrc::kProtocolError:
        return "the peer breaks TLS, or has sent an alert";
    }
    return "unknown TLS error";
  }
};

}  // namespace

std::string TakeErrorText() {
  std::string text;
  const char* data = nullptr;
  int flags = 0;
  while (const unsigned long code = ERR_get_error_all(nullptr, nullptr, nullptr, &data, &flags)) {
    const char* const reason = ERR_reason_error_string(code);
    if (!text.empty()) text += "; ";
    // The reason of a system's call is its errno.
    text += reason != nullptr ? reason : "error " + std::to_string(ERR_GET_REASON(code));
    if ((flags & ERR_TXT_STRING) != 0 && data != nullptr && *data != '\0') text.append(" (").append(data).append(")");
  }
  return text.empty() ? "no reason was given" : text;
}

TlsContextState::TlsContextState(bool server)
    : context(SSL_CTX_new(server ? TLS_server_method() : TLS_client_method())), is_server(server) {}

TlsSession TlsContextState::TakeSession(const std::string& name) {
  const std::scoped_lock lock(sessions_mutex);
  const auto found = sessions.find(name);
  if (found == sessions.end()) return nullptr;
  TlsSession& latest = found->second.back();
  if (SSL_SESSION_get_protocol_version(latest.get()) < TLS1_3_VERSION) {
    SSL_SESSION_up_ref(latest.get());
    return TlsSession(latest.get());
  }
  TlsSession taken = std::move(latest);
  found->second.pop_back();
  --session_count;
  if (found->second.empty()) sessions.erase(found);
  return taken;
}

void TlsContextState::KeepSession(const std::string& name, SSL_SESSION* session) {
  TlsSession kept(session);
  const std::scoped_lock lock(sessions_mutex);
  if (session_count >= TlsContext::kMaxSessions) {
    // Any name's: all of them can be had again.
    session_count -= sessions.begin()->second.size();
    sessions.erase(sessions.begin());
  }
  sessions[name].push_back(std::move(kept));
  ++session_count;
}

std::optional<TlsContext> TlsContext::ForServer(const TlsServerOptions& options, std::string* why) {
  std::shared_ptr<TlsContextState> state =
      Make(/*server=*/true, why, [&](TlsContextState* made) { return SetUpServer(options, made); });
  if (state == nullptr) return std::nullopt;
  state->resumption = options.resumption;
  return TlsContext(std::move(state));
}

std::optional<TlsContext> TlsContext::ForClient(const TlsClientOptions& options, std::string* why) {
  std::shared_ptr<TlsContextState> state =
      Make(/*server=*/false, why, [&](TlsContextState* made) { return SetUpClient(options, made); });
  if (state == nullptr) return std::nullopt;
  state->resumption = options.resumption;
  state->verify = options.verify;
  return TlsContext(std::move(state));
}

std::size_t TlsContext::session_count() const {
  const std::scoped_lock lock(state_->sessions_mutex);
  return state_->session_count;
}

const std::error_category& TlsCategory() noexcept {
  static const Category category;
  return category;
}

}  // namespace weft::interop
