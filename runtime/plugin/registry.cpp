#include "runtime/plugin/registry.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/typed_words.h"
#include "kernels/external_op.h"

namespace lockstep::runtime {

void Registry::begin_plugin(const std::string& name) {
  plugin_ = name;
  claim("plugin", name);
}

void Registry::add_model(model::ZooEntry entry) {
  claim("model", entry.name);
  require("model", entry.name, "wants", entry.wants != nullptr);
  require("model", entry.name, "make", entry.make != nullptr);
  models_.push_back(std::move(entry));
}

void Registry::add_dataset(data::DatasetEntry entry) {
  claim("data set", entry.name);
  require("data set", entry.name, "open", entry.open != nullptr);
  require("data set", entry.name, "spec", entry.spec != nullptr);
  datasets_.push_back(std::move(entry));
}

void Registry::add_op(OpEntry entry) {
  claim("op", entry.name);
  entry.plugin = plugin_;
  ops_.push_back(std::move(entry));
}

void Registry::require(std::string_view kind, const std::string& name, std::string_view function,
                       bool is_there) const {
  if (!is_there)
    throw UsageError(fmt::format("plugin '{}': {} '{}' has no function {}", plugin_, kind, name, function));
}

void Registry::claim(std::string_view kind, const std::string& name) {
  if (name.empty()) throw UsageError(fmt::format("plugin '{}' gives one {} no name", plugin_, kind));
  const Claim* const other = claim_of(kind, name);
  if (other == nullptr) {
    claims_.push_back({std::string(kind), name, plugin_});
    return;
  }
  const std::string owner =
      other->plugin.empty() ? "is built in" : fmt::format("is in plugin '{}' already", other->plugin);
  throw UsageError(
      fmt::format("plugin '{}': {} '{}' {}; give it a name of its own", plugin_, kind, name, owner));
}

const Registry::Claim* Registry::claim_of(std::string_view kind, const std::string& name) const {
  const auto found = std::ranges::find_if(claims_, [&, folded_name = folded(name)](const Claim& claim) {
    return claim.kind == kind && folded(claim.name) == folded_name;
  });
  return found == claims_.end() ? nullptr : &*found;
}

std::string Registry::plugin_of(std::string_view kind, const std::string& name) const {
  const Claim* const found = claim_of(kind, name);
  return found == nullptr ? std::string() : found->plugin;
}

void require_registered(const model::Graph& graph, const std::vector<OpEntry>& ops) {
  for (const model::Node& node : graph.nodes()) {
    const auto* op = node.op->as<kernels::ExternalOp>();
    if (op == nullptr) continue;
    const std::string name = op->rules->name();
    const std::string plugin = op->rules->plugin();
    const bool registered = std::ranges::any_of(
        ops, [&](const OpEntry& entry) { return entry.name == name && entry.plugin == plugin; });
    if (registered) continue;
    throw UsageError(
        fmt::format("layer '{}': plugin '{}' registers no op '{}'; its register function calls add_op",
                    node.layer, plugin, name));
  }
}

}  // namespace lockstep::runtime
