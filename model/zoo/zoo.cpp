#include "model/zoo/zoo.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/typed_words.h"

namespace lockstep::model {

const std::vector<ZooEntry>& zoo() {
  static const std::vector<ZooEntry> entries{
      linear_entry(),   mlp_entry(),      convnet_entry(),     simplecnn_entry(),
      resnet18_entry(), resnet34_entry(), resnet50_entry(),    mobilenet_v3_small_entry(),
      rnn_entry(),      lstm_entry(),     transformer_entry(), gpt2_entry()};
  return entries;
}

std::vector<std::string> model_names(std::span<const ZooEntry> models) {
  std::vector<std::string> names;
  for (const ZooEntry& entry : models) names.push_back(entry.name);
  return names;
}

std::vector<std::string> argument_names(const ZooEntry& entry) {
  std::vector<std::string> names;
  for (const Argument& argument : entry.arguments) {
    names.push_back(std::visit([](const auto& a) { return a.key; }, argument));
  }
  return names;
}

InputSpec next_token_input(std::int64_t length, std::int64_t vocab_size) {
  return {.shape = {length},
          .num_classes = vocab_size,
          .target_shape = {length},
          .dtype = DType::i64,
          .vocab_size = vocab_size};
}

void require_tokens(const std::string& model, const InputSpec& input) {
  if (input.dtype == DType::i64 && input.vocab_size > 0 && input.shape.rank() == 1) return;
  throw UsageError(
      fmt::format("model '{}' takes sequences of tokens, the data set has {} of {}: give --dataset "
                  "synthetic, text, tokens or tensors, to a transformer also parallel-text",
                  model, name_of(input.dtype), input.shape.str()));
}

void require_heads(const std::string& model, const std::string& columns_key, std::int64_t columns,
                   const std::string& heads_key, std::int64_t heads) {
  if (columns % heads == 0) return;
  throw UsageError(fmt::format("model '{}': {}={} does not divide among {}={} heads", model, columns_key,
                               columns, heads_key, heads));
}

const ZooEntry* find_entry(std::span<const ZooEntry> models, const std::string& name) {
  const auto same = [wanted = folded(name)](const ZooEntry& entry) { return folded(entry.name) == wanted; };
  const auto found = std::ranges::find_if(models, same);
  return found == models.end() ? nullptr : &*found;
}

const ZooEntry& find_model(std::span<const ZooEntry> models, const std::string& name, const ModelArgs& args) {
  const ZooEntry* found = find_entry(models, name);
  if (found == nullptr) {
    throw UsageError(unknown_name("model", name, model_names(models), "`trainer models` lists them"));
  }
  check_arguments(found->name, found->arguments, args);
  return *found;
}

const ZooEntry& find_model(const std::string& name, const ModelArgs& args) {
  return find_model(zoo(), name, args);
}

}  // namespace lockstep::model
