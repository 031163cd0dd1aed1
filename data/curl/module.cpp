// liblockstep_curl.so: see module.h.
#include "data/curl/module.h"

#include <curl/curl.h>

#include <memory>
#include <string_view>

#include "kernels/base/export.h"

namespace lockstep::data {
namespace {

struct Free {
  void operator()(CURL* handle) const noexcept { curl_easy_cleanup(handle); }
};

std::size_t receive(char* bytes, std::size_t size, std::size_t count, void* calls) {
  const auto& to = *static_cast<const FetchCalls*>(calls);
  const bool more = to.receive(to.context, reinterpret_cast<const std::byte*>(bytes), size * count);
  return more ? size * count : CURL_WRITEFUNC_ERROR;
}

int tick(void* calls, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto& to = *static_cast<const FetchCalls*>(calls);
  return to.tick(to.context) ? 0 : 1;
}

void set_reason(FetchResult& result, const char* text) {
  std::string_view(text).copy(result.reason.data(), result.reason.size() - 1);
}

FetchResult fetch(const char* url, const FetchCalls& calls) {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  FetchResult result;
  const std::unique_ptr<CURL, Free> handle(started == CURLE_OK ? curl_easy_init() : nullptr);
  if (!handle) {
    set_reason(result, "libcurl cannot start");
    return result;
  }
  CURL* const curl = handle.get();
  std::array<char, CURL_ERROR_SIZE> message{};
  curl_easy_setopt(curl, CURLOPT_URL, url);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 10L);
  curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);  // the process's signals are the trainer's
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "lockstep");
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, message.data());
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &calls);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, tick);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &calls);
  const CURLcode code = curl_easy_perform(curl);
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &result.status);
  result.done = code == CURLE_OK;
  if (!result.done) set_reason(result, message[0] != '\0' ? message.data() : curl_easy_strerror(code));
  return result;
}

}  // namespace
}  // namespace lockstep::data

extern "C" LOCKSTEP_API const lockstep::data::CurlModule* lockstep_curl_module() {
  using namespace lockstep::data;
  static const CurlModule module{.identity = curl_module_identity(), .fetch = fetch};
  return &module;
}
