#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/base/export.h"
#include "model/model.h"
#include "model/zoo/arguments.h"

namespace lockstep::model {

/// A model by name. `wants` is what it takes from a data set that can have any shape. Arguments are those
/// that `find_model` has checked.
struct ZooEntry {
  std::string name;
  std::string what;  ///< one line for `trainer models`
  std::vector<Argument> arguments;
  InputSpec (*wants)(const ModelArgs&);
  Model (*make)(const ModelArgs&, const InputSpec&);
  /// Options behind `trainer --model NAME` that train it as it stands: two ranks in 16 GB, three steps on two
  /// cores in 100 s.
  std::string example = "--dataset synthetic";
  /// The states from which the model can start (InputSpec::states); null: from none.
  Shape (*states)(const ModelArgs&) = nullptr;
  bool packs_documents = false;  ///< heeds InputSpec::packed
};

LOCKSTEP_API const std::vector<ZooEntry>& zoo();
LOCKSTEP_API std::vector<std::string> model_names(std::span<const ZooEntry> models);
std::vector<std::string> argument_names(const ZooEntry& entry);

/// By its name, case, '-' and '_' ignored; null for none.
LOCKSTEP_API const ZooEntry* find_entry(std::span<const ZooEntry> models, const std::string& name);

/// The same, with its arguments checked. UsageError with the nearest names, and for arguments that the model
/// did not declare so.
LOCKSTEP_API const ZooEntry& find_model(std::span<const ZooEntry> models, const std::string& name,
                                        const ModelArgs& args);
/// Of the zoo.
LOCKSTEP_API const ZooEntry& find_model(const std::string& name, const ModelArgs& args);

/// What a model wants that gives for each token of a sequence the next: (N, `length`) tokens and as many
/// targets.
InputSpec next_token_input(std::int64_t length, std::int64_t vocab_size);
/// UsageError unless the inputs are tokens.
void require_tokens(const std::string& model, const InputSpec& input);
/// UsageError naming the arguments unless the columns divide among the heads.
void require_heads(const std::string& model, const std::string& columns_key, std::int64_t columns,
                   const std::string& heads_key, std::int64_t heads);

ZooEntry linear_entry();
ZooEntry mlp_entry();
ZooEntry convnet_entry();
ZooEntry simplecnn_entry();
ZooEntry resnet18_entry();
ZooEntry resnet34_entry();
ZooEntry resnet50_entry();
ZooEntry mobilenet_v3_small_entry();
ZooEntry rnn_entry();
ZooEntry lstm_entry();
ZooEntry transformer_entry();
ZooEntry gpt2_entry();

}  // namespace lockstep::model
