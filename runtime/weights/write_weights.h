#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "kernels/base/safetensors.h"
#include "runtime/weights/weights_file.h"

namespace lockstep::runtime {

/// Writes `tensors` (their bytes valid until this returns) as FOLDER/model.safetensors, or, when they are
/// more than `max_shard_bytes`, as shards model-00001-of-00003.safetensors of at most so many bytes (a single
/// larger tensor has a shard of its own) with their index; then removes what an earlier call has left
/// otherwise. 0: never shards. Names and index are those of Hugging Face's save_pretrained.
void write_weights(const std::filesystem::path& folder, std::span<const SafetensorsFile::Tensor> tensors,
                   std::size_t max_shard_bytes, const KeptNames& names = {});

/// Whether `write_weights` may write or remove a file of this name.
bool names_weights(std::string_view name);

/// Metadata of a file of weights: "format", which PyTorch's readers want, and lists of names and the shape of
/// values as JSON.
std::map<std::string, std::string> weights_metadata(const KeptNames& names);

}  // namespace lockstep::runtime
