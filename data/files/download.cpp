#include "data/files/download.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "data/curl/module.h"
#include "data/files/node_lock.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/file_status.h"
#include "kernels/base/hash.h"
#include "kernels/base/load_module.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view lock_name = ".download.lock";

const CurlModule& load_curl_module() {
  return load_module_table<CurlModule>({.file = "liblockstep_curl.so",
                                        .symbol = curl_module_symbol,
                                        .hint = "install libcurl4, or give the files by --data-dir"},
                                       curl_module_identity());
}

bool is_there(const fs::path& folder, const PublishedFile& file) {
  return fs::exists(status_at(folder / file.name)) ||
         fs::exists(status_at(folder / fs::path(file.name).stem()));
}

bool has_all(const PublishedSet& set, const fs::path& folder) {
  return std::ranges::all_of(set.files, [&](const PublishedFile& file) { return is_there(folder, file); });
}

/// Parts of it, which AtomicFile names so.
bool is_part_of(const PublishedSet& set, const std::string& name) {
  return std::ranges::any_of(
      set.files, [&](const PublishedFile& file) { return name.starts_with("." + file.name + "."); });
}

std::vector<std::string> mirrors_of(const PublishedSet& set) {
  const char* own = std::getenv(mirror_variable);
  if (own == nullptr || *own == '\0') return set.mirrors;
  std::string folder = own;
  while (folder.ends_with('/')) folder.pop_back();
  return {folder + "/" + set.name};
}

/// One file from one mirror.
class Transfer {
 public:
  Transfer(const PublishedFile& file, const fs::path& path, const std::string& url,
           const DownloadOptions& options)
      : file_(file),
        path_(path),
        options_(options),
        out_(path),
        work_(options.activity, "downloading " + url, Activity::Needs::peers) {}

  /// Empty when the file is there, else why not. DeviceError for our own disk.
  std::string run(const CurlModule& curl, const std::string& url) {
    const FetchResult result = curl.fetch(url.c_str(), {.context = this, .receive = receive, .tick = tick});
    if (failure_) std::rethrow_exception(failure_);
    if (is_wrong_) return fmt::format("more than the {} bytes of the published file", file_.bytes);
    if (is_silent_)
      return fmt::format("no byte for {:g} s, after {} of {}", options_.silence.count(), seen_, file_.bytes);
    if (result.status >= 400) return fmt::format("the server answered {}", result.status);
    if (!result.done)
      return fmt::format("{}, after {} of {} bytes", result.reason.data(), seen_, file_.bytes);
    return finish();
  }

  /// Whether the server sent something else than the published file.
  bool is_wrong() const { return is_wrong_; }

 private:
  std::string finish() {
    const std::string sum = sum_.hex();
    is_wrong_ = sum != file_.sha256;
    if (is_wrong_)
      return fmt::format("{} of {} bytes with SHA-256 {}, not {}", seen_, file_.bytes, sum, file_.sha256);
    const Activity::Work flushing = on_disk();
    out_.commit();
    return {};
  }

  /// A disk that hangs is told as everywhere; the server's silence has a deadline of its own.
  Activity::Work on_disk() const { return {options_.activity, "writing " + path_.string()}; }

  static bool receive(void* self, const std::byte* bytes, std::size_t count) {
    return static_cast<Transfer*>(self)->take({bytes, count});
  }

  static bool tick(void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    transfer.is_silent_ = transfer.deadline_.passed();
    return !transfer.is_silent_;
  }

  bool take(std::span<const std::byte> bytes) noexcept {
    try {
      is_wrong_ = bytes.size() > file_.bytes - seen_;
      if (is_wrong_) return false;
      {
        const Activity::Work writing = on_disk();
        out_.write(bytes);
      }
      sum_.update(bytes);
      seen_ += bytes.size();
      deadline_ = Deadline::in(options_.silence);
      work_.advance(seen_, file_.bytes);
      return true;
    } catch (...) {
      failure_ = std::current_exception();
      return false;
    }
  }

  const PublishedFile& file_;
  const fs::path path_;
  const DownloadOptions& options_;
  AtomicFile out_;
  Activity::Work work_;
  Sha256 sum_;
  std::uint64_t seen_ = 0;
  Deadline deadline_ = Deadline::in(options_.silence);
  bool is_silent_ = false;
  bool is_wrong_ = false;
  std::exception_ptr failure_;
};

void fetch(const PublishedSet& set, const PublishedFile& file, const fs::path& folder,
           const DownloadOptions& options) {
  const CurlModule& curl = load_curl_module();
  std::string answers;
  bool is_wrong = false;
  for (const std::string& mirror : mirrors_of(set)) {
    const std::string url = mirror + "/" + file.name;
    Transfer transfer(file, folder / file.name, url, options);
    const std::string answer = transfer.run(curl, url);
    if (answer.empty()) return;
    is_wrong = is_wrong || transfer.is_wrong();
    answers += fmt::format("{}: {}; ", url, answer);
  }
  const std::string message =
      fmt::format("--download {}: {}try again, put the file into {}, or name another server by {}", set.name,
                  answers, folder.string(), mirror_variable);
  if (is_wrong) throw DataError(message);
  throw DeviceError(message);
}

}  // namespace

void download(const PublishedSet& set, const fs::path& folder, const DownloadOptions& options) {
  if (has_all(set, folder)) return;
  make_folders(folder);
  const auto is_part = [&set](const std::string& name) { return is_part_of(set, name); };
  const UniqueFd turn = [&] {
    Activity::Work waiting(options.activity,
                           fmt::format("waiting for another process that downloads {}", set.name),
                           Activity::Needs::peers);
    const auto mirrors = static_cast<double>(mirrors_of(set).size());
    return lock_in_turn(
        folder / lock_name, (mirrors + 1) * options.silence, [&] { return bytes_of_files(folder, is_part); },
        waiting);
  }();
  std::error_code ignored;
  for (const auto& left : fs::directory_iterator(folder, ignored)) {
    if (is_part(left.path().filename().string())) fs::remove(left.path(), ignored);
  }
  for (const PublishedFile& file : set.files) {
    if (!is_there(folder, file)) fetch(set, file, folder, options);
  }
}

}  // namespace lockstep::data
