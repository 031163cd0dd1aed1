#include "runtime/weights/initial_weights.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::runtime {
namespace {

bool differs_in_rows_alone(const Shape& a, const Shape& b) {
  return a != b && a.rank() == b.rank() && a.rank() > 0 && std::equal(a.begin() + 1, a.end(), b.begin() + 1);
}

std::string advice_on_tokens(std::int64_t known, std::int64_t here, bool of_text) {
  const std::string size = known > here ? fmt::format("--vocab-size {}", known) : std::string();
  if (!of_text) return size.empty() ? size : "; give " + size;
  const std::string tokenizer = "; give --tokenizer PATH, that of their training";
  if (size.empty()) return tokenizer;
  return fmt::format("{}, or {} if their first {} are those of the text", tokenizer, size, here);
}

/// Rows of an embedding are what is known of each token, also where they are the head, too.
void require_same_vocabulary(const ParameterIO& replica, const WeightsFile& file, const KnownParts& parts) {
  for (const auto& [name, shape] : replica.weight_shapes()) {
    const WeightsTensor* tensor = file.find(name);
    const bool of_token = std::ranges::find(parts.of_tokens, name) != parts.of_tokens.end();
    if (!of_token || tensor == nullptr || !differs_in_rows_alone(tensor->shape, shape)) continue;
    const std::int64_t known = tensor->shape[0];
    throw DataError(fmt::format("{}: {} knows {} tokens, the model has {}{}", file.path().string(), name,
                                known, shape[0], advice_on_tokens(known, shape[0], parts.of_text)));
  }
}

/// The first class that the file calls otherwise, for users; empty for none, and where one side has no names.
std::string other_class(const std::vector<std::string>& there, const std::vector<std::string>& here) {
  if (there.size() != here.size()) return {};
  for (std::size_t i = 0; i < here.size(); ++i) {
    if (there[i] == here[i] || there[i].empty() || here[i].empty()) continue;
    return fmt::format(" ({} is '{}' there, '{}' here)", i, there[i], here[i]);
  }
  return {};
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

std::vector<std::string> start_from(ParameterIO& replica, const WeightsFile& file, const KnownParts& parts,
                                    std::uint64_t seed) {
  require_same_vocabulary(replica, file, parts);
  std::vector<std::string> lines = conversions(file);
  const std::string other = other_class(file.class_names(), parts.classes);
  std::vector<std::string> drawn;
  std::string tensors;
  for (const auto& [name, shape] : replica.weight_shapes()) {
    const bool of_token = std::ranges::find(parts.of_tokens, name) != parts.of_tokens.end();
    if (of_token || std::ranges::find(parts.head, name) == parts.head.end()) continue;
    const WeightsTensor* tensor = file.find(name);
    if (tensor == nullptr) continue;
    const bool other_rows = differs_in_rows_alone(tensor->shape, shape);
    if (!other_rows && (other.empty() || tensor->shape != shape)) continue;
    drawn.push_back(name);
    tensors += (tensors.empty() ? "" : ", ") + name;
    if (other_rows) tensors += fmt::format(" ({} there, {} here)", tensor->shape.str(), shape.str());
  }
  if (!drawn.empty()) {
    replica.initialise(seed);
    lines.push_back(
        fmt::format("{}: knows other classes{}: drawn anew: {}", file.path().string(), other, tensors));
  }
  replica.load(file, drawn);
  return lines;
}

}  // namespace lockstep::runtime
