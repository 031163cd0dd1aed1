#include "comm/rendezvous/run_secret.h"

#include <fmt/format.h>

#include "comm/rendezvous/private_file.h"
#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

std::string without_blanks_at_end(std::string text) {
  text.resize(text.find_last_not_of(" \t\r\n") + 1);
  return text;
}

}  // namespace

std::optional<std::string> given_secret(const CommOptions& options, const Environment& environment) {
  const std::string file = options.token_file.string();
  if (options.insecure && !file.empty()) {
    throw UsageError("--insecure and --token-file exclude each other: give one of them");
  }
  if (options.insecure) return std::string();
  auto text = file.empty() ? environment(token_variable) : read_private_file(options.token_file);
  if (!text && file.empty()) return std::nullopt;
  if (!text) throw UsageError(fmt::format("--token-file {}: there is no such file", file));
  std::string secret = without_blanks_at_end(*std::move(text));
  if (secret.empty()) {
    throw UsageError(fmt::format("{} holds no secret: put one there (openssl rand -hex 32)",
                                 file.empty() ? token_variable : "--token-file " + file));
  }
  return secret;
}

}  // namespace lockstep::comm
