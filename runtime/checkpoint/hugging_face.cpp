#include "runtime/checkpoint/hugging_face.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/json.h"
#include "kernels/base/number.h"
#include "kernels/base/typed_words.h"
#include "runtime/checkpoint/model_argument.h"
#include "runtime/checkpoint/nanogpt.h"
#include "runtime/checkpoint/run_directory.h"
#include "runtime/checkpoint/saved_weights.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* gpt2 = "gpt2";

/// Keys of config.json, and what our model calls them. A key that is missing has our default.
constexpr std::array<std::pair<const char*, const char*>, 5> gpt2_arguments{{{"n_layer", "n_layer"},
                                                                             {"n_head", "n_head"},
                                                                             {"n_embd", "n_embd"},
                                                                             {"n_positions", "block_size"},
                                                                             {"vocab_size", "vocab_size"}}};

/// Keys of config.json whose other values our model does not compute; a missing one is as wanted.
const std::vector<std::pair<std::string, std::vector<Json>>>& gpt2_wanted() {
  static const std::vector<std::pair<std::string, std::vector<Json>>> wanted{
      {"activation_function", {"gelu_new", "gelu_pytorch_tanh"}},
      {"layer_norm_epsilon", {1e-5}},
      {"scale_attn_weights", {true}},
      {"scale_attn_by_inverse_layer_idx", {false}},
      {"tie_word_embeddings", {true}},
      {"add_cross_attention", {false}}};
  return wanted;
}

Json read_config(const fs::path& file) {
  try {
    return Json::parse(whole_text(file));
  } catch (const JsonError& error) {
    throw DataError(fmt::format("{}: is no configuration of a model: {}", file.string(), error.what()));
  }
}

void require_computed(const Json& config, const fs::path& file) {
  const auto refuse = [&](const std::string& key, const std::string& wanted) {
    throw DataError(
        fmt::format("{}: {} is {}, model 'gpt2' has {}", file.string(), key, config[key].dump(), wanted));
  };
  for (const auto& [key, values] : gpt2_wanted()) {
    if (!config.contains(key) || std::ranges::find(values, config[key]) != values.end()) continue;
    refuse(key, values.front().dump());
  }
  const std::int64_t inner = config["n_inner"].get_or<std::int64_t>(0);
  if (inner != 0 && inner != 4 * config["n_embd"].get_or<std::int64_t>(768)) refuse("n_inner", "4 * n_embd");
}

/// Ours is one probability; theirs are three.
void set_dropout(Options& options, const Json& config, const fs::path& file) {
  if (options.model_args.contains("dropout")) return;
  const double of_residuals = config["resid_pdrop"].get_or(0.1);
  for (const char* key : {"embd_pdrop", "attn_pdrop"}) {
    if (config[key].get_or(0.1) == of_residuals) continue;
    throw DataError(fmt::format("{}: {} and resid_pdrop differ; say one of them by --model-args dropout=P",
                                file.string(), key));
  }
  set_model_argument(options, "dropout", fmt::format("{}", of_residuals), file);
}

bool is_gpt2(const std::string& model) {
  return folded(model) == gpt2;
}

/// config.json of the model that --init-from names, in the folder of its weights or of their run; null for
/// none.
Json first_config(const Options& options) {
  const fs::path named = first_weights(options);
  if (named.empty()) return nullptr;
  std::error_code ignored;
  const fs::path folder =
      fs::is_directory(named, ignored) ? run_of(named).value_or(named) : named.parent_path();
  const fs::path file = folder / "config.json";
  if (!fs::exists(file, ignored)) return nullptr;
  const Json config = Json::parse_or_null(whole_text(file));
  return config["model_type"].get_or<std::string>("") == gpt2 ? config : Json(nullptr);
}

/// Keys of config.json that say where a text begins and ends; `first` is that of --init-from.
void set_ends(Json& config, std::int64_t vocab_size, const KnownTokens& tokens, const Json& first) {
  using Kind = KnownTokens::Kind;
  // transformers' own where a key is missing, and the size that GPT-2's vocabulary is padded to
  constexpr std::int64_t gpt2_end_of_text = 50256, most_of_gpt2 = 50304;
  const bool may_be_gpt2s = vocab_size > gpt2_end_of_text && vocab_size <= most_of_gpt2;
  for (const char* key : {"bos_token_id", "eos_token_id"}) {
    const bool from_first = tokens.kind != Kind::characters && !first.is_null();
    if (tokens.end_of_text) {
      config[key] = *tokens.end_of_text;
    } else if (from_first && first.contains(key)) {
      config[key] = first[key];
    } else if (!may_be_gpt2s || (tokens.kind != Kind::numbers && !from_first)) {
      config[key] = nullptr;
    }
  }
}

}  // namespace

void take_pretrained_config(Options& options, const fs::path& weights, ModelUse use) {
  const fs::path file = weights / "config.json";
  std::error_code ignored;
  const bool wanted = options.model.empty() || is_gpt2(options.model);
  if (wanted && fs::is_regular_file(weights, ignored))
    return take_nanogpt_arguments(options, weights, use == ModelUse::training);
  if (!wanted || !fs::is_directory(weights, ignored) || !fs::exists(file, ignored)) return;
  const Json config = read_config(file);
  const auto type = config["model_type"].get_or<std::string>("");
  if (type != gpt2) {
    if (options.model.empty() && type.empty()) return;
    throw DataError(fmt::format("{}: model_type is '{}'; what is known: {}", file.string(), type, gpt2));
  }
  require_computed(config, file);
  options.model = gpt2;
  for (const auto& [key, argument] : gpt2_arguments) {
    if (!config.contains(key)) continue;
    const auto value = config[key].get_or<std::int64_t>(0);
    if (value < 1)
      throw DataError(
          fmt::format("{}: {} is {}, no number from 1 on", file.string(), key, config[key].dump()));
    set_model_argument(options, argument, fmt::format("{}", value), file);
  }
  if (use == ModelUse::training) set_dropout(options, config, file);
}

void use_model_names(WeightsFile& file, const std::string& model) {
  if (!is_gpt2(model)) return;
  const std::string prefix = "transformer.";
  const auto name_of = [&](const std::string& name) -> std::string {
    if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")) return {};
    if (name.starts_with(prefix) || name == "lm_head.weight") return name;
    return prefix + name;
  };
  file.rename(name_of);
  use_conv1d_layout(file);
  const WeightsTensor* const head = file.find("lm_head.weight");
  const WeightsTensor* const table = file.find(prefix + "wte.weight");
  if (head == nullptr) return;
  if (table == nullptr) {  // safetensors' save_model keeps the first name of a tensor that has two
    return file.rename(
        [&](const std::string& name) { return name == "lm_head.weight" ? prefix + "wte.weight" : name; });
  }
  if (!std::ranges::equal(head->bytes, table->bytes)) {
    throw DataError(
        fmt::format("{}: lm_head.weight is not transformer.wte.weight; model 'gpt2' has one for both",
                    head->file.string()));
  }
  file.rename([](const std::string& name) { return name == "lm_head.weight" ? std::string() : name; });
}

void write_pretrained_config(const fs::path& folder, const Options& options,
                             std::span<const std::pair<std::string, Shape>> weights,
                             const KnownTokens& tokens) {
  if (!is_gpt2(options.model)) return;
  const auto shape_of = [&](const std::string& name) {
    const auto found = std::ranges::find(weights, name, &std::pair<std::string, Shape>::first);
    return found == weights.end() ? Shape{0, 0} : found->second;
  };
  const Shape table = shape_of("transformer.wte.weight");
  const auto layers = std::ranges::count_if(
      weights, [](const auto& weight) { return weight.first.ends_with(".attn.c_attn.weight"); });
  const auto argument = [&](const char* key, double otherwise) {
    const auto typed = options.model_args.find(key);
    return typed == options.model_args.end() ? otherwise
                                             : parse_number<double>(typed->second).value_or(otherwise);
  };
  const double dropped = argument("dropout", 0.1);
  Json config{{"architectures", Json(std::vector<std::string>{"GPT2LMHeadModel"})},
              {"model_type", gpt2},
              {"n_layer", static_cast<std::int64_t>(layers)},
              {"n_head", static_cast<std::int64_t>(argument("n_head", 12))},
              {"n_embd", table[1]},
              {"n_positions", shape_of("transformer.wpe.weight")[0]},
              {"vocab_size", table[0]},
              {"activation_function", "gelu_new"},
              {"layer_norm_epsilon", 1e-5},
              {"resid_pdrop", dropped},
              {"embd_pdrop", dropped},
              {"attn_pdrop", dropped},
              {"tie_word_embeddings", true}};
  set_ends(config, table[0], tokens, first_config(options));
  write_file_atomically(folder / "config.json", config.dump(2) + "\n");
}

}  // namespace lockstep::runtime
