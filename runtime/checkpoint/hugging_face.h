#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "runtime/options/options.h"
#include "runtime/weights/weights_file.h"

namespace lockstep::runtime {

/// What a model is taken for: its dropouts act in training alone.
enum class ModelUse { training, inference };

/// Where `weights` is a folder that Hugging Face's save_pretrained wrote (config.json tells a model_type that
/// we know), or a file of nanoGPT's (nanogpt.h): sets the options' model and its arguments as these say. Does
/// nothing elsewhere. DataError
/// names what of it our model does not compute, UsageError an argument that was typed otherwise.
void take_pretrained_config(Options& options, const std::filesystem::path& weights, ModelUse use);

/// The names that `model` has for the tensors of such a folder: those of files without the prefix of the
/// language model get it, the mask that old files hold as a buffer and a second copy of a tied weight are
/// left out, matrices of nanoGPT's layout are turned. DataError when that copy differs.
void use_model_names(WeightsFile& file, const std::string& model);

/// What is known of the tokens that a model was trained on.
struct KnownTokens {
  enum class Kind { numbers, characters, of_tokenizer };
  Kind kind = Kind::numbers;
  std::optional<std::int64_t> end_of_text{};  ///< of a tokenizer, if it has such a token
};

/// config.json beside the weights, with which from_pretrained of `transformers` loads the folder: for models
/// that it knows. `weights`: names and shapes of the tensors in the file. The token at which generate() ends
/// is `tokens.end_of_text`, else, but for characters, that of the config.json that --init-from has.
void write_pretrained_config(const std::filesystem::path& folder, const Options& options,
                             std::span<const std::pair<std::string, Shape>> weights,
                             const KnownTokens& tokens);

}  // namespace lockstep::runtime
