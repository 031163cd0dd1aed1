#include "runtime/plugin/load_plugins.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/hash.h"
#include "kernels/base/load_module.h"
#include "kernels/base/rethrow.h"
#include "kernels/dispatch.h"
#include "runtime/plugin/plugin.h"
#include "runtime/plugin/shared_object.h"

namespace lockstep::runtime {
namespace {

Registry built_in() {
  Registry registry;
  for (const model::ZooEntry& entry : model::zoo()) registry.add_model(entry);
  for (const data::DatasetEntry& entry : data::datasets()) registry.add_dataset(entry);
  for (const std::string& name : kernels::op_names())
    registry.add_op({.name = name, .what = "", .plugin = ""});
  return registry;
}

const PluginTable& open_plugin(const std::filesystem::path& file) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (status.type() == std::filesystem::file_type::none) {
    throw UsageError(fmt::format(
        "cannot be reached: {}; see that you may enter the folders above it, and where links lead",
        error.message()));
  }
  if (!std::filesystem::exists(status)) throw UsageError("no such file");
  if (std::filesystem::is_fifo(status)) throw UsageError("is a FIFO, not a file");
  if (!std::filesystem::is_regular_file(status)) throw UsageError("is no regular file");
  if (is_cut_off(file)) throw UsageError("is cut off: copy or build it again");
  // Never unloaded: graphs and data sets hold its code until the end.
  void* const library =
      dlopen(std::filesystem::absolute(file).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) throw UsageError(fmt::format("cannot be loaded: {}", dlerror()));
  void* const entry = dlsym(library, plugin_symbol);
  if (entry == nullptr) {
    throw UsageError(
        fmt::format("no plugin: it exports no {}, which LOCKSTEP_PLUGIN defines", plugin_symbol));
  }
  const PluginTable& table = *reinterpret_cast<const PluginTable* (*)()>(entry)();
  const std::string difference = build_difference(table.identity, abi_identity(plugin_border()));
  if (!difference.empty()) throw UsageError(difference + ": build it against this installation");
  return table;
}

void register_entries(const PluginTable& table, Registry& registry) {
  try {
    table.add_to(registry);
  } catch (...) {
    rethrow_as<UsageError>(fmt::format("the register function of plugin '{}'", table.name));
  }
}

std::string sha256_of_file(const std::filesystem::path& file) {
  return Sha256().update(MappedFile(file).bytes()).hex();
}

/// A run's plugin that has moved is named anew, under the same name of the file.
bool has_moved(const std::filesystem::path& file, const std::vector<std::filesystem::path>& files) {
  std::error_code unreachable;
  if (std::filesystem::exists(file, unreachable)) return false;
  return std::ranges::any_of(files, [&](const std::filesystem::path& other) {
    return other.filename() == file.filename() && std::filesystem::exists(other, unreachable);
  });
}

}  // namespace

Plugins load_plugins(const std::vector<std::filesystem::path>& files) {
  Plugins plugins{.registry = built_in(), .identities = {}};
  for (const std::filesystem::path& file : files) {
    if (has_moved(file, files)) continue;
    try {
      const PluginTable& table = open_plugin(file);
      plugins.registry.begin_plugin(table.name);
      register_entries(table, plugins.registry);
      plugins.identities.push_back(fmt::format("plugin {} sha256 {}", table.name, sha256_of_file(file)));
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("--plugin {}: {}", file.string(), error.what()));
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("--plugin {}: {}", file.string(), error.what()));
    }
  }
  return plugins;
}

}  // namespace lockstep::runtime
