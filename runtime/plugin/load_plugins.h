#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/plugin/registry.h"

namespace lockstep::runtime {

struct Plugins {
  Registry registry;  ///< the built-in names, and behind them those of the plugins
  /// A line for each plugin, its name and its file's SHA-256: equal on all ranks.
  std::vector<std::string> identities;
};

/// Loads --plugin's files, which stay loaded. UsageError names the file: it is not there, cut off, no shared
/// object, no plugin, built from another commit, has a name that is taken, or its register function throws.
/// An Error that this throws keeps its code.
Plugins load_plugins(const std::vector<std::filesystem::path>& files);

}  // namespace lockstep::runtime
