#include "launcher/logs.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernels/base/error.h"

namespace lockstep::launcher {
namespace {

namespace fs = std::filesystem;

fs::path make_unique_folder(const fs::path& prefix) {
  std::string name = prefix.string() + "_XXXXXX";
  if (!mkdtemp(name.data()))
    throw DeviceError(fmt::format("cannot create '{}': {}", name, errno_message(errno)));
  return name;
}

fs::path temporary_root() {
  const char* folder = getenv("TMPDIR");
  return fs::path(folder && *folder ? folder : "/tmp") / "lockstep_launch";
}

void create(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw UsageError(fmt::format("--log-dir: cannot create '{}': {}", folder.string(), error.message()));
}

}  // namespace

LogFolder::LogFolder(const Options& options, const std::string& run_id, int ranks)
    : temporary_(options.log_dir.empty() && !options.redirects.any() && !options.tee.any()) {
  if (!options.log_dir.empty()) create(options.log_dir);
  root_ = make_unique_folder(options.log_dir.empty() ? temporary_root() : fs::path(options.log_dir) / run_id);
  for (int rank = 0; rank < ranks; ++rank) create(of(rank));
}

LogFolder::~LogFolder() {
  std::error_code ignored;
  if (temporary_) fs::remove_all(root_, ignored);
}

std::string error_message(const fs::path& error_file) {
  std::ifstream file(error_file);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("message")) return {};
  const auto& message = json["message"];
  if (message.is_string()) return message.get<std::string>();
  return message.is_object() && message.contains("message") && message["message"].is_string()
             ? message["message"].get<std::string>()
             : std::string();
}

}  // namespace lockstep::launcher
