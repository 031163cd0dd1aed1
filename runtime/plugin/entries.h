#pragma once

#include <string>
#include <vector>

#include "data/datasets.h"
#include "model/zoo/zoo.h"
#include "runtime/plugin/registry.h"

/// What the entries of a registry give. What a plugin's functions throw that is no Error becomes one that
/// names plugin and entry; what is built in throws as it does.
namespace lockstep::runtime {

/// UsageError.
model::InputSpec wants_of(const Registry& registry, const model::ZooEntry& entry,
                          const model::ModelArgs& arguments);

/// UsageError. Rank 0 where the model starts from no states.
Shape states_of(const Registry& registry, const model::ZooEntry& entry, const model::ModelArgs& arguments);

/// UsageError, also of `forward`, which refuses an op that nobody has registered.
model::Model make_model(const Registry& registry, const model::ZooEntry& entry,
                        const model::ModelArgs& arguments, const model::InputSpec& input);

/// DataError, also of each sample. Null where the data set has none such.
data::DatasetPtr open_samples(const Registry& registry, const data::DatasetEntry& entry,
                              const data::DatasetOptions& options, data::Split split);

/// DataError.
data::SampleSpec spec_of(const Registry& registry, const data::DatasetEntry& entry,
                         const data::DatasetOptions& options);

/// DataError. Empty where the data set has none.
std::vector<std::string> class_names_of(const Registry& registry, const data::DatasetEntry& entry,
                                        const data::DatasetOptions& options);
std::vector<std::string> token_names_of(const Registry& registry, const data::DatasetEntry& entry,
                                        const data::DatasetOptions& options);
std::string note_of(const Registry& registry, const data::DatasetEntry& entry,
                    const data::DatasetOptions& options);

}  // namespace lockstep::runtime
