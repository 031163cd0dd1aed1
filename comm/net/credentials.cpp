#include "comm/net/credentials.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>

#include <memory>

#include "comm/net/frame.h"
#include "kernels/base/error.h"
#include "kernels/base/hash.h"

namespace lockstep::comm {
namespace {

constexpr const char* digest_name = "SHA256";
constexpr std::string_view key_label = "lockstep run key 1";

std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> open_hkdf() {
  const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> hkdf(
      EVP_KDF_fetch(nullptr, OSSL_KDF_NAME_HKDF, nullptr), &EVP_KDF_free);
  return {EVP_KDF_CTX_new(hkdf.get()), &EVP_KDF_CTX_free};
}

OSSL_PARAM bytes(const char* name, std::string& value) {
  return OSSL_PARAM_construct_octet_string(name, value.data(), value.size());
}

std::array<unsigned char, 32> hkdf_sha256(std::string input, std::string info) {
  const auto context = open_hkdf();
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, const_cast<char*>(digest_name), 0),
      bytes(OSSL_KDF_PARAM_KEY, input), bytes(OSSL_KDF_PARAM_INFO, info), OSSL_PARAM_construct_end()};
  std::array<unsigned char, 32> key;
  if (!context || EVP_KDF_derive(context.get(), key.data(), key.size(), parameters) != 1) {
    throw DeviceError("OpenSSL refuses HKDF-SHA256: check its configuration (openssl list -kdf-algorithms)");
  }
  return key;
}

}  // namespace

RunKey derive_run_key(const Credentials& credentials) {
  const std::string run = FieldWriter()
                              .text(key_label)
                              .text(credentials.run_id)
                              .number(static_cast<std::int64_t>(credentials.incarnation))
                              .take();
  RunKey derived{.key = hkdf_sha256(FieldWriter().text(credentials.secret).take(), run),
                 .run = "lockstep " + Sha256().update(run).hex().substr(0, 32),
                 .identity = {}};
  derived.identity = derived.run + (credentials.secret.empty() ? " insecure" : " secret");
  return derived;
}

}  // namespace lockstep::comm
