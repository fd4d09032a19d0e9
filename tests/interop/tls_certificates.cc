// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/tests/interop/tls_certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <cstdlib>
#include <memory>

namespace weft::interop {
namespace {

using Key = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;
using Certificate = std::unique_ptr<X509, void (*)(X509*)>;

void Check(bool done) {
  if (!done) std::abort();
}

template <class F>
std::string PemOf(F&& write) {
  BIO* const bio = BIO_new(BIO_s_mem());
  Check(write(bio) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string pem(data, static_cast<std::size_t>(size));
  BIO_free(bio);
  return pem;
}

void Extend(X509* certificate, int which, const char* value) {
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, which, value);
  Check(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

Certificate Make(EVP_PKEY* key, const char* name, X509_NAME* issuer, EVP_PKEY* issuer_key, long until,
                 const std::string& alternative) {
  static std::atomic<long> serial{1};
  Certificate made(X509_new(), &X509_free);
  X509_set_version(made.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), serial++);
  X509_NAME* const subject = X509_get_subject_name(made.get());
  const auto* const bytes = reinterpret_cast<const unsigned char*>(name);
  Check(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, bytes, -1, -1, 0) == 1);
  X509_set_issuer_name(made.get(), issuer == nullptr ? subject : issuer);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), until);
  X509_set_pubkey(made.get(), key);
  Extend(made.get(), NID_basic_constraints, issuer == nullptr ? "critical,CA:TRUE" : "critical,CA:FALSE");
  if (!alternative.empty()) Extend(made.get(), NID_subject_alt_name, alternative.c_str());
  Check(X509_sign(made.get(), issuer_key, EVP_sha256()) != 0);
  return made;
}

}  // namespace

struct TestAuthority::Impl {
  Key key{EVP_EC_gen("P-256"), &EVP_PKEY_free};
  Certificate certificate = Make(key.get(), "Weft's test authority", nullptr, key.get(), 3600, "");
};

TestAuthority::TestAuthority() : impl_(new Impl) {
  certificate_ = PemOf([&](BIO* bio) { return PEM_write_bio_X509(bio, impl_->certificate.get()); });
}

TestAuthority::~TestAuthority() { delete impl_; }

PemPair TestAuthority::Issue(const std::string& alternative, std::chrono::seconds until) const {
  const Key key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  const Certificate certificate = Make(key.get(), "leaf", X509_get_subject_name(impl_->certificate.get()),
                                       impl_->key.get(), until.count(), alternative);
  return {PemOf([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate.get()); }), PemOf([&](BIO* bio) {
            return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

}  // namespace weft::interop
