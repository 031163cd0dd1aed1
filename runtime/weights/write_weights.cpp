#include "runtime/weights/write_weights.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "kernels/base/file.h"
#include "kernels/base/json.h"
#include "runtime/weights/weights_file.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;

using Tensors = std::span<const SafetensorsFile::Tensor>;

/// Greedy, in order: a shard is closed by the tensor that would bring it over the limit.
std::vector<Tensors> split_into_shards(Tensors tensors, std::size_t max_bytes) {
  std::vector<Tensors> shards;
  std::size_t first = 0;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t size = tensors[i].bytes.size();
    if (i > first && bytes + size > max_bytes) {
      shards.push_back(tensors.subspan(first, i - first));
      first = i;
      bytes = 0;
    }
    bytes += size;
  }
  shards.push_back(tensors.subspan(first));
  return shards;
}

std::size_t bytes_of(Tensors tensors) {
  std::size_t bytes = 0;
  for (const auto& tensor : tensors) bytes += tensor.bytes.size();
  return bytes;
}

void write_index(const fs::path& folder, Tensors tensors, const std::map<std::string, std::string>& file_of) {
  Json json{{"metadata", {{"total_size", bytes_of(tensors)}}}};
  json["weight_map"] = file_of;
  write_file_atomically(folder / shard_index_file, json.dump(2) + "\n");
}

bool is_shard(std::string_view name) {
  constexpr std::string_view form = "model-00000-of-00000.safetensors";
  return std::ranges::equal(name, form, [](char character, char wanted) {
    return wanted == '0' ? '0' <= character && character <= '9' : character == wanted;
  });
}

/// Removes weights of an earlier call that `written` do not replace.
void remove_others(const fs::path& folder, const std::vector<std::string>& written) {
  std::vector<fs::path> others;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_written = std::ranges::find(written, name) != written.end();
    if (names_weights(name) && !is_written) others.push_back(entry.path());
  }
  for (const fs::path& other : others) fs::remove(other);
}

}  // namespace

bool names_weights(std::string_view name) {
  return name == weights_file_name || name == shard_index_file || is_shard(name);
}

std::map<std::string, std::string> weights_metadata(const KeptNames& names) {
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  if (!names.classes.empty()) metadata[KeptNames::classes_key] = Json(names.classes).dump();
  if (!names.tokens.empty()) metadata[KeptNames::tokens_key] = Json(names.tokens).dump();
  if (!names.tokenizer.empty()) metadata[KeptNames::tokenizer_key] = names.tokenizer;
  if (!names.tokenizer_rules.empty()) metadata[KeptNames::rules_key] = Json(names.tokenizer_rules).dump();
  if (names.values)
    metadata[KeptNames::values_key] = Json(std::vector(names.values->begin(), names.values->end())).dump();
  return metadata;
}

void write_weights(const fs::path& folder, Tensors tensors, std::size_t max_shard_bytes,
                   const KeptNames& names) {
  const auto metadata = weights_metadata(names);
  if (max_shard_bytes == 0 || bytes_of(tensors) <= max_shard_bytes) {
    write_safetensors(folder / weights_file_name, tensors, metadata);
    return remove_others(folder, {weights_file_name});
  }
  const std::vector<Tensors> shards = split_into_shards(tensors, max_shard_bytes);
  std::vector<std::string> files;
  std::map<std::string, std::string> file_of;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    files.push_back(fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size()));
    write_safetensors(folder / files.back(), shards[i], metadata);
    for (const auto& tensor : shards[i]) file_of[tensor.name] = files.back();
  }
  write_index(folder, tensors, file_of);
  files.emplace_back(shard_index_file);
  remove_others(folder, files);
}

}  // namespace lockstep::runtime
