#include "runtime/run/kept_plans.h"

#include <memory>

#include "data/files/unpack_cache.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/hash.h"
#include "kernels/base/log.h"
#include "runtime/checkpoint/run_access.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;

std::string sha256_of(std::string_view text) {
  return Sha256().update(text).hex();
}

}  // namespace

std::optional<std::string> KeptPlans::find(const std::string& key) const {
  const fs::path file = file_of(key);
  const Activity::Work reading(activity_, "reading " + file.string());
  if (!reason_to_distrust_cached(file).empty()) return std::nullopt;
  const std::string text = read_text(file);
  const std::size_t first = text.find('\n');
  if (first == std::string::npos || text.substr(0, first) != sha256_of(text.substr(first + 1)))
    return std::nullopt;
  const std::string head = key + '\n';
  if (text.compare(first + 1, head.size(), head) != 0) return std::nullopt;
  return text.substr(first + 1 + head.size());
}

void KeptPlans::keep(const std::string& key, const std::string& plan) const {
  const fs::path file = file_of(key);
  const Activity::Work writing(activity_, "writing " + file.string());
  if (!reason_to_distrust_cached(file).empty()) return;
  const std::string body = key + '\n' + plan;
  try {
    make_folders(folder_);
    write_file_atomically(file, sha256_of(body) + '\n' + body, 0644);
  } catch (const DeviceError& error) {
    log::warn("plans that the GPU's library compiles are not kept: {}", error.what());
  }
}

fs::path KeptPlans::file_of(const std::string& key) const {
  return folder_ / sha256_of(key).substr(0, 32);
}

void keep_library_plans(Session& session) {
  const fs::path folder = data::default_cache_folder();
  if (folder.empty()) return;
  session.device->keep_plans_in(std::make_shared<KeptPlans>(folder / "plans", session.activity.get()));
}

}  // namespace lockstep::runtime
