#include "runtime/checkpoint/nanogpt.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "runtime/checkpoint/model_argument.h"

namespace lockstep::runtime {
namespace {

/// Of nanoGPT's GPTConfig; ours have the same names.
constexpr std::array<const char*, 5> shape_arguments{"n_layer", "n_head", "n_embd", "block_size",
                                                     "vocab_size"};

bool is_matrix(std::string_view name) {
  return name.ends_with(".c_attn.weight") || name.ends_with(".c_proj.weight") ||
         name.ends_with(".c_fc.weight");
}

/// Never square: it gives three times as many columns as it takes.
bool has_layout_of_linear(const WeightsFile& file) {
  return std::ranges::any_of(file.tensors(), [](const WeightsTensor& tensor) {
    return tensor.name.ends_with(".c_attn.weight") && tensor.shape.rank() == 2 &&
           tensor.shape[0] == 3 * tensor.shape[1];
  });
}

/// None of a file that is damaged: that is told to all ranks where its weights are read.
std::map<std::string, std::string> arguments_in(const std::filesystem::path& file) {
  try {
    return WeightsFile(file).model_args();
  } catch (const DataError&) {
    return {};
  }
}

}  // namespace

void take_nanogpt_arguments(Options& options, const std::filesystem::path& file, bool trains) {
  const std::map<std::string, std::string> told = arguments_in(file);
  const auto tells = [&](const char* name) { return told.contains(name); };
  if (!std::ranges::all_of(shape_arguments, tells)) return;
  options.model = "gpt2";
  for (const char* name : shape_arguments) set_model_argument(options, name, told.at(name), file);
  if (trains && tells("dropout") && !options.model_args.contains("dropout"))
    set_model_argument(options, "dropout", told.at("dropout"), file);
}

void use_conv1d_layout(WeightsFile& file) {
  if (!has_layout_of_linear(file)) return;
  file.transpose(is_matrix);
  const auto is_bias = [](const WeightsTensor& tensor) { return tensor.name.ends_with(".bias"); };
  if (std::ranges::any_of(file.tensors(), is_bias)) return;
  std::vector<std::pair<std::string, Shape>> biases;
  for (const WeightsTensor& tensor : file.tensors()) {
    const std::string layer = tensor.name.substr(0, tensor.name.rfind('.'));
    const bool is_norm = tensor.shape.rank() == 1;
    if (is_norm || is_matrix(tensor.name))
      biases.emplace_back(layer + ".bias", Shape{tensor.shape[is_norm ? 0 : 1]});
  }
  for (const auto& [name, shape] : biases) file.add_zeros(name, shape);
}

}  // namespace lockstep::runtime
