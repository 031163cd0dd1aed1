#pragma once

#include <array>
#include <cstddef>

#include "kernels/base/abi.h"

namespace lockstep::data {

/// What a fetch calls while it runs, on the caller's thread; false ends it. None may throw.
struct FetchCalls {
  void* context = nullptr;
  bool (*receive)(void* context, const std::byte* bytes, std::size_t count) = nullptr;
  bool (*tick)(void* context) = nullptr;  ///< at least once a second
};

struct FetchResult {
  bool done = false;
  long status = 0;                 ///< of HTTP; 0: no answer
  std::array<char, 256> reason{};  ///< why it is not done
};

/// What liblockstep_curl.so offers. It is the one thing linked to libcurl, so a program maps that, and the
/// thirty libraries it brings, only when it loads this.
struct CurlModule {
  AbiIdentity identity;

  /// Gets a URL of HTTP or HTTPS, redirects included. Proxies are taken from the usual variables.
  FetchResult (*fetch)(const char* url, const FetchCalls& calls);
};

inline AbiIdentity curl_module_identity() {
  return abi_identity(sizes_of<CurlModule, FetchCalls, FetchResult>());
}

/// What gives it: `const CurlModule* lockstep_curl_module()`.
inline constexpr const char* curl_module_symbol = "lockstep_curl_module";

}  // namespace lockstep::data
