#include "runtime/plugin/entries.h"

#include <utility>

#include <fmt/format.h>

#include "kernels/base/rethrow.h"
#include "runtime/plugin/named_errors.h"

namespace lockstep::runtime {
namespace {

/// "model 'm' of plugin 'p'"; empty for what is built in.
std::string whose(const Registry& registry, EntryKind kind, const std::string& name) {
  const std::string plugin = registry.plugin_of(kind, name);
  return plugin.empty() ? std::string() : fmt::format("{} '{}' of plugin '{}'", name_of(kind), name, plugin);
}

template <class As, class Code>
auto naming(const std::string& owner, Code&& code) {
  try {
    return code();
  } catch (...) {
    if (owner.empty()) throw;
    rethrow_as<As>(owner);
  }
}

/// What `function`, which an entry may lack, gives.
template <class Result>
Result given(Result (*function)(const data::DatasetOptions&), const Registry& registry,
             const data::DatasetEntry& entry, const data::DatasetOptions& options) {
  if (function == nullptr) return {};
  return naming<DataError>(whose(registry, EntryKind::dataset, entry.name),
                           [&] { return function(options); });
}

}  // namespace

model::InputSpec wants_of(const Registry& registry, const model::ZooEntry& entry,
                          const model::ModelArgs& arguments) {
  return naming<UsageError>(whose(registry, EntryKind::model, entry.name),
                            [&] { return entry.wants(arguments); });
}

Shape states_of(const Registry& registry, const model::ZooEntry& entry, const model::ModelArgs& arguments) {
  if (entry.states == nullptr) return {};
  return naming<UsageError>(whose(registry, EntryKind::model, entry.name),
                            [&] { return entry.states(arguments); });
}

model::Model make_model(const Registry& registry, const model::ZooEntry& entry,
                        const model::ModelArgs& arguments, const model::InputSpec& input) {
  const std::string owner = whose(registry, EntryKind::model, entry.name);
  model::Model model = naming<UsageError>(owner, [&] { return entry.make(arguments, input); });
  if (owner.empty() || !model.forward) return model;
  model.forward = [forward = with_named_errors(std::move(model.forward), owner),
                   ops = registry.ops()](model::Tensor x) {
    const model::Tensor output = forward(x);
    require_registered(output.graph(), ops);
    return output;
  };
  return model;
}

data::DatasetPtr open_samples(const Registry& registry, const data::DatasetEntry& entry,
                              const data::DatasetOptions& options, data::Split split) {
  const std::string owner = whose(registry, EntryKind::dataset, entry.name);
  data::DatasetPtr samples = naming<DataError>(owner, [&] { return entry.open(options, split); });
  return owner.empty() ? samples : with_named_errors(std::move(samples), owner);
}

data::SampleSpec spec_of(const Registry& registry, const data::DatasetEntry& entry,
                         const data::DatasetOptions& options) {
  return naming<DataError>(whose(registry, EntryKind::dataset, entry.name),
                           [&] { return entry.spec(options); });
}

std::vector<std::string> class_names_of(const Registry& registry, const data::DatasetEntry& entry,
                                        const data::DatasetOptions& options) {
  return given(entry.class_names, registry, entry, options);
}

std::vector<std::string> token_names_of(const Registry& registry, const data::DatasetEntry& entry,
                                        const data::DatasetOptions& options) {
  return given(entry.token_names, registry, entry, options);
}

std::string note_of(const Registry& registry, const data::DatasetEntry& entry,
                    const data::DatasetOptions& options) {
  return given(entry.note, registry, entry, options);
}

}  // namespace lockstep::runtime
