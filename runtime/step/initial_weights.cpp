#include "runtime/step/initial_weights.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::runtime {
namespace {

bool differs_in_rows_alone(const Shape& a, const Shape& b) {
  return a != b && a.rank() == b.rank() && a.rank() > 0 && std::equal(a.begin() + 1, a.end(), b.begin() + 1);
}

/// Rows of an embedding are what is known of each token, also where they are the head, too.
void require_same_vocabulary(const ParameterIO& replica, const WeightsFile& file,
                             std::span<const std::string> of_tokens) {
  for (const auto& [name, shape] : replica.weight_shapes()) {
    const WeightsTensor* tensor = file.find(name);
    const bool of_token = std::ranges::find(of_tokens, name) != of_tokens.end();
    if (!of_token || tensor == nullptr || !differs_in_rows_alone(tensor->shape, shape)) continue;
    const std::int64_t known = tensor->shape[0];
    throw DataError(fmt::format("{}: {} knows {} tokens, the model has {}{}", file.path().string(), name,
                                known, shape[0],
                                known > shape[0] ? fmt::format("; give --vocab-size {}", known) : ""));
  }
}

std::vector<std::string> conversions(const WeightsFile& file) {
  std::map<DType, int> counts;
  for (const WeightsTensor& tensor : file.tensors()) ++counts[tensor.dtype];
  std::vector<std::string> lines;
  for (const auto& [dtype, count] : counts) {
    if (dtype == DType::f32) continue;
    lines.push_back(fmt::format("{}: {} tensors of {} are converted to f32", file.path().string(), count,
                                name_of(dtype)));
  }
  return lines;
}

}  // namespace

std::vector<std::string> start_from(ParameterIO& replica, const WeightsFile& file,
                                    std::span<const std::string> head, std::span<const std::string> of_tokens,
                                    std::uint64_t seed) {
  require_same_vocabulary(replica, file, of_tokens);
  std::vector<std::string> lines = conversions(file);
  std::vector<std::string> drawn;
  std::string shapes;
  for (const auto& [name, shape] : replica.weight_shapes()) {
    if (std::ranges::find(head, name) == head.end()) continue;
    const WeightsTensor* tensor = file.find(name);
    if (tensor == nullptr || !differs_in_rows_alone(tensor->shape, shape)) continue;
    drawn.push_back(name);
    shapes += fmt::format("{}{} ({} there, {} here)", shapes.empty() ? "" : ", ", name, tensor->shape.str(),
                          shape.str());
  }
  if (!drawn.empty()) {
    replica.initialise(seed);
    lines.push_back(fmt::format("{}: knows other classes: drawn anew: {}", file.path().string(), shapes));
  }
  replica.load(file, drawn);
  return lines;
}

}  // namespace lockstep::runtime
