#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/hash.h"
#include "runtime/checkpoint/checkpoint_directory.h"

namespace lockstep::runtime {
namespace {

using Json = nlohmann::ordered_json;
constexpr int format = 1;

Json entry_for(const std::filesystem::path& file) {
  const MappedFile mapped(file);
  return {{"bytes", mapped.bytes().size()}, {"sha256", Sha256().update(mapped.bytes()).hex()}};
}

std::string damage_of_file(const std::filesystem::path& file, const Json& wanted) {
  if (!std::filesystem::exists(file)) return file.string() + " is missing";
  const Json found = entry_for(file);
  if (found == wanted) return {};
  if (found["bytes"] != wanted.value("bytes", Json())) {
    return fmt::format("{} has {} bytes, its manifest says {}", file.string(), found["bytes"].dump(),
                       wanted.value("bytes", Json()).dump());
  }
  return fmt::format("{} does not have the SHA-256 of its manifest", file.string());
}

std::string damage_by_manifest(const std::filesystem::path& checkpoint) {
  const std::filesystem::path path = checkpoint / manifest_file;
  if (!std::filesystem::exists(path)) return path.string() + " is missing";
  const MappedFile mapped(path);
  const std::string_view text(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size());
  const Json manifest = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!manifest.is_object() || !manifest.contains("files") || !manifest["files"].is_object()) {
    return path.string() + " is no manifest";
  }
  if (manifest.value("format", Json()) != format) {
    return fmt::format("{} has format {}, this version reads {}", path.string(),
                       manifest.value("format", Json()).dump(), format);
  }
  for (const char* name : checkpoint_files) {
    const Json& files = manifest["files"];
    if (!files.contains(name) || !files[name].is_object()) return path.string() + " lacks " + name;
    if (std::string damage = damage_of_file(checkpoint / name, files[name]); !damage.empty()) return damage;
  }
  return {};
}

}  // namespace

void write_manifest(const std::filesystem::path& checkpoint) {
  Json files = Json::object();
  for (const char* name : checkpoint_files) files[name] = entry_for(checkpoint / name);
  const Json manifest{{"format", format}, {"files", files}};
  write_file_atomically(checkpoint / manifest_file, manifest.dump(2) + "\n");
}

std::string damage_of(const std::filesystem::path& checkpoint) {
  try {
    return damage_by_manifest(checkpoint);
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace lockstep::runtime
