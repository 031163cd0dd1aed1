#include "runtime/plugin/registry.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/typed_words.h"
#include "kernels/external_op.h"

namespace lockstep::runtime {

std::string_view name_of(EntryKind kind) {
  switch (kind) {
    case EntryKind::plugin:
      return "plugin";
    case EntryKind::model:
      return "model";
    case EntryKind::dataset:
      return "data set";
    case EntryKind::op:
      return "op";
  }
  return {};
}

void Registry::begin_plugin(const std::string& name) {
  plugin_ = name;
  claim(EntryKind::plugin, name);
}

void Registry::add_model(model::ZooEntry entry) {
  claim(EntryKind::model, entry.name);
  require(EntryKind::model, entry.name, "wants", entry.wants != nullptr);
  require(EntryKind::model, entry.name, "make", entry.make != nullptr);
  models_.push_back(std::move(entry));
}

void Registry::add_dataset(data::DatasetEntry entry) {
  claim(EntryKind::dataset, entry.name);
  require(EntryKind::dataset, entry.name, "open", entry.open != nullptr);
  require(EntryKind::dataset, entry.name, "spec", entry.spec != nullptr);
  datasets_.push_back(std::move(entry));
}

void Registry::add_op(OpEntry entry) {
  claim(EntryKind::op, entry.name);
  entry.plugin = plugin_;
  ops_.push_back(std::move(entry));
}

void Registry::require(EntryKind kind, const std::string& name, std::string_view function,
                       bool is_there) const {
  if (!is_there)
    throw UsageError(
        fmt::format("plugin '{}': {} '{}' has no function {}", plugin_, name_of(kind), name, function));
}

void Registry::claim(EntryKind kind, const std::string& name) {
  if (name.empty()) throw UsageError(fmt::format("plugin '{}' gives one {} no name", plugin_, name_of(kind)));
  const Claim* const other = claim_of(kind, name);
  if (other == nullptr) {
    claims_.push_back({kind, name, plugin_});
    return;
  }
  const std::string owner =
      other->plugin.empty() ? "is built in" : fmt::format("is in plugin '{}' already", other->plugin);
  throw UsageError(
      fmt::format("plugin '{}': {} '{}' {}; give it a name of its own", plugin_, name_of(kind), name, owner));
}

const Registry::Claim* Registry::claim_of(EntryKind kind, const std::string& name) const {
  const auto found = std::ranges::find_if(claims_, [&, folded_name = folded(name)](const Claim& claim) {
    return claim.kind == kind && folded(claim.name) == folded_name;
  });
  return found == claims_.end() ? nullptr : &*found;
}

std::string Registry::plugin_of(EntryKind kind, const std::string& name) const {
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
