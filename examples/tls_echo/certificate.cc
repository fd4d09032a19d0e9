// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "tls_echo/certificate.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

namespace examples {
namespace {

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Deleter<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Deleter<X509_EXTENSION_free>>;

constexpr long kSkewAllowed = 60 * 60;  // Seconds that a client's clock may be behind ours.
constexpr long kGoodFor = 24 * 60 * 60;

bool SetSerial(X509* certificate) {
  // Random, so that a browser does not confuse it with the certificate of the last run.
  BIGNUM* number = BN_new();
  const bool set = number != nullptr && BN_rand(number, 127, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
                   BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return set;
}

bool SetName(X509* certificate, const std::string& name) {
  X509_NAME* const subject = X509_get_subject_name(certificate);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(name.data());
  if (X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, bytes, static_cast<int>(name.size()), -1, 0) != 1 ||
      X509_set_issuer_name(certificate, subject) != 1) {
    return false;
  }
  // What clients look at.
  const std::string alternative = "DNS:" + name;
  const Extension extension(X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, alternative.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

Certificate SelfSigned(EVP_PKEY* key, const std::string& name) {
  Certificate certificate(X509_new());
  if (certificate == nullptr || X509_set_version(certificate.get(), X509_VERSION_3) != 1 ||
      !SetSerial(certificate.get()) || !SetName(certificate.get(), name) ||
      X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kSkewAllowed) == nullptr ||
      X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kGoodFor) == nullptr ||
      X509_set_pubkey(certificate.get(), key) != 1 || X509_sign(certificate.get(), key, EVP_sha256()) == 0) {
    return nullptr;
  }
  return certificate;
}

template <class Write>
bool ToPem(std::string* pem, Write&& write) {
  const std::unique_ptr<BIO, Deleter<BIO_free_all>> bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || write(bio.get()) != 1) return false;
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  pem->assign(data, static_cast<std::size_t>(size));
  return true;
}

}  // namespace

bool MakeCertificate(const std::string& name, std::string* certificate_pem, std::string* key_pem, std::string* error) {
  const Key key(EVP_EC_gen("P-256"));
  const Certificate made = key == nullptr ? nullptr : SelfSigned(key.get(), name);
  if (made != nullptr && ToPem(certificate_pem, [&](BIO* bio) { return PEM_write_bio_X509(bio, made.get()); }) &&
      ToPem(key_pem, [&](BIO* bio) {
        return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
      })) {
    return true;
  }
  char text[256];
  ERR_error_string_n(ERR_get_error(), text, sizeof(text));
  *error = text;
  return false;
}

}  // namespace examples
