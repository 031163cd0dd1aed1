#include "kernels/base/hash.h"

#include <openssl/evp.h>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep {
namespace {

void require(int ok) {
  if (ok != 1)
    throw DeviceError(
        "OpenSSL refuses SHA-256: check its configuration (openssl dgst -sha256), and ulimit -v");
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const noexcept {
  EVP_MD_CTX_free(context);
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  require(context_ != nullptr);
  require(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
}

Sha256& Sha256::update(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
  return *this;
}

Sha256::Digest Sha256::digest() const {
  const std::unique_ptr<evp_md_ctx_st, Free> copy(EVP_MD_CTX_new());
  require(copy != nullptr);
  require(EVP_MD_CTX_copy_ex(copy.get(), context_.get()));
  Digest digest;
  require(EVP_DigestFinal_ex(copy.get(), reinterpret_cast<unsigned char*>(digest.data()), nullptr));
  return digest;
}

std::string Sha256::hex() const {
  std::string text;
  for (const std::byte byte : digest()) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

}  // namespace lockstep
