#pragma once

#include <string>

#include "kernels/abi.h"
#include "kernels/base/abi.h"
#include "kernels/external_op.h"
#include "model/define_op.h"
#include "runtime/plugin/registry.h"

/// What a plugin includes: a shared object with models, data sets and ops that `trainer --plugin FILE.so`
/// brings. Its one exported name is made by LOCKSTEP_PLUGIN. It links lockstep::plugin.
namespace lockstep::runtime {

struct PluginTable {
  AbiIdentity identity;  ///< first, so that it can be read from a plugin of any build
  const char* name = "";
  void (*add_to)(Registry&) = nullptr;
};

inline constexpr const char* plugin_symbol = "lockstep_plugin";

/// What crosses between a program and a plugin. Each side compiles its own, so that headers, compiler and
/// standard library of the plugin count.
[[gnu::visibility("hidden")]] inline std::string plugin_border() {
  return kernels::abi_border() +
         sizes_of<PluginTable, Registry, OpEntry, model::ZooEntry, model::Argument, model::InputSpec,
                  model::Model, model::Graph, model::Tensor, model::Node, model::Value, model::Op,
                  model::Backward, data::DatasetEntry, data::DatasetOptions, data::SampleSpec, data::Dataset,
                  kernels::ExternalRules, kernels::ExternalKernel>() +
         std::to_string(__GXX_ABI_VERSION) + " " + std::to_string(_GLIBCXX_USE_CXX11_ABI);
}

}  // namespace lockstep::runtime

/// The plugin `plugin_name`, whose `add_function`, a `void(lockstep::runtime::Registry&)`, adds what it has.
#define LOCKSTEP_PLUGIN(plugin_name, add_function)                                              \
  extern "C" LOCKSTEP_API const lockstep::runtime::PluginTable* lockstep_plugin() {             \
    static const lockstep::runtime::PluginTable table{                                          \
        lockstep::abi_identity(lockstep::runtime::plugin_border()), plugin_name, add_function}; \
    return &table;                                                                              \
  }
