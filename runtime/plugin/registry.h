#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/datasets.h"
#include "kernels/base/export.h"
#include "model/zoo/zoo.h"

namespace lockstep::runtime {

enum class EntryKind { plugin, model, dataset, op };

/// As messages have it: "data set".
std::string_view name_of(EntryKind kind);

/// An op by name: what a plugin's `kernels::ExternalRules` call themselves.
struct OpEntry {
  std::string name;
  std::string what;    ///< one line
  std::string plugin;  ///< filled in by the registry; empty: built in
};

/// Models, data sets and ops by name. A name that is empty or taken is refused with a UsageError that names
/// both sides.
class LOCKSTEP_API Registry {
 public:
  /// What is added from now on is the plugin's of this name; before, it is built in.
  void begin_plugin(const std::string& name);
  void add_model(model::ZooEntry entry);
  void add_dataset(data::DatasetEntry entry);
  void add_op(OpEntry entry);

  const std::vector<model::ZooEntry>& models() const { return models_; }
  const std::vector<data::DatasetEntry>& datasets() const { return datasets_; }
  const std::vector<OpEntry>& ops() const { return ops_; }

  /// Which plugin brought the entry of this name; empty: it is built in, or not there.
  std::string plugin_of(EntryKind kind, const std::string& name) const;

 private:
  void require(EntryKind kind, const std::string& name, std::string_view function, bool is_there) const;
  void claim(EntryKind kind, const std::string& name);

  struct Claim {
    EntryKind kind;
    std::string name;
    std::string plugin;  ///< empty: built in
  };
  /// Null if the name is free.
  const Claim* claim_of(EntryKind kind, const std::string& name) const;

  std::vector<Claim> claims_;
  std::string plugin_;
  std::vector<model::ZooEntry> models_;
  std::vector<data::DatasetEntry> datasets_;
  std::vector<OpEntry> ops_;
};

/// UsageError unless each external op of the graph is an op of the plugin that it names.
void require_registered(const model::Graph& graph, const std::vector<OpEntry>& ops);

}  // namespace lockstep::runtime
