#include "runtime/run/algorithm_cache.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "data/files/node_lock.h"
#include "data/files/unpack_cache.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/json.h"
#include "kernels/base/log.h"
#include "kernels/base/version.h"
#include "kernels/machine.h"
#include "runtime/checkpoint/run_access.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;

constexpr int format = 1;
constexpr std::size_t most_machines = 64;  // builds and settings that nobody uses any more fall off the end

/// By machine, the one measured last first.
using Sections = std::vector<std::pair<std::string, KnownAlgorithms>>;

/// JsonError when the file is none of ours.
Sections read_sections(const fs::path& file) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return {};
  const Json json = Json::parse(read_text(file));
  if (json.at("format") != format) throw JsonError(fmt::format("its format is {}", json["format"].dump()));
  Sections sections;
  for (const Json& section : json.at("machines").elements()) {
    sections.emplace_back(section.at("machine").get<std::string>(),
                          section.at("algorithms").get<KnownAlgorithms>());
  }
  return sections;
}

std::string to_json(const Sections& sections) {
  Json machines = Json::array();
  for (const auto& [machine, known] : sections) {
    machines.push_back(Json{{"machine", machine}, {"algorithms", known}});
  }
  return Json{{"format", format}, {"machines", machines}}.dump(1) + "\n";
}

}  // namespace

KnownAlgorithms AlgorithmCache::load() const {
  if (file_.empty()) return {};
  if (const std::string reason = reason_to_distrust_cached(file_); !reason.empty()) {
    log::warn("measurements of --benchmark are neither read nor kept: {}", reason);
    return {};
  }
  try {
    for (auto& [machine, known] : read_sections(file_)) {
      if (machine == machine_) return std::move(known);
    }
  } catch (const JsonError& error) {
    log::warn("{}: no measurements of --benchmark: {}; it is replaced", file_.string(), error.what());
  }
  return {};
}

void AlgorithmCache::store(const KnownAlgorithms& known, Activity* activity) const {
  if (file_.empty() || !reason_to_distrust_cached(file_).empty()) return;
  try {
    make_folders(file_.parent_path());
    const UniqueFd held = lock(activity);
    write_file_atomically(file_, merged(known), 0644);
  } catch (const DeviceError& error) {
    log::warn("measurements of --benchmark are not kept: {}", error.what());
  }
}

/// Others hold it as long as a small file takes to be read and written.
UniqueFd AlgorithmCache::lock(Activity* activity) const {
  constexpr Seconds limit{10};
  Activity::Work waiting(activity, "waiting for another run that writes " + file_.string());
  return data::lock_in_turn(
      file_.string() + ".lock", limit, [] { return std::uintmax_t{0}; }, waiting);
}

/// The file's new text.
std::string AlgorithmCache::merged(const KnownAlgorithms& known) const {
  Sections sections;
  try {
    sections = read_sections(file_);
  } catch (const JsonError&) {
    // `load` has named it.
  }
  KnownAlgorithms all = known;
  for (const auto& [machine, earlier] : sections) {
    if (machine == machine_) all.insert(earlier.begin(), earlier.end());  // those that another run added
  }
  std::erase_if(sections, [&](const auto& section) { return section.first == machine_; });
  sections.emplace(sections.begin(), machine_, std::move(all));
  if (sections.size() > most_machines) sections.resize(most_machines);
  return to_json(sections);
}

AlgorithmCache algorithm_cache_for(const kernels::Device& device, kernels::MatmulPrecision products,
                                   kernels::MatmulPrecision convolutions) {
  const fs::path folder = data::default_cache_folder();
  return {
      folder.empty() ? fs::path() : folder / "algorithms",
      fmt::format("{}, matmul precision {}, conv precision {}, Lockstep {} {}", kernels::machine_line(device),
                  name_of(products), conv_name_of(convolutions), version(), commit())};
}

}  // namespace lockstep::runtime
