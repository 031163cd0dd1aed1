// Folders of Hugging Face's GPT-2: what config.json sets, what it may not say, and names of tensors.
#include "runtime/checkpoint/hugging_face.h"

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/json.h"
#include "kernels/base/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::runtime {
namespace {

using tests::message_of;

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

/// A folder with that config.json.
class Folder {
 public:
  explicit Folder(const std::string& config) { write_file_atomically(folder_ / "config.json", config); }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  tests::TemporaryFolder folder_;
};

Options taken(const std::string& config, Options options = {}, ModelUse use = ModelUse::training) {
  take_pretrained_config(options, Folder(config).path(), use);
  return options;
}

Options with_args(const model::ModelArgs& args) {
  Options options;
  options.model = "gpt2";
  options.model_args = args;
  return options;
}

std::string refusal(const std::string& config) {
  return message_of<DataError>([&] { taken(config); });
}

}  // namespace

TEST_CASE("config.json of a GPT-2 sets the model and its arguments") {
  const Options options =
      taken(R"({"model_type": "gpt2", "n_layer": 3, "n_head": 4, "n_embd": 32, "n_positions": 16,
    "vocab_size": 50, "resid_pdrop": 0.2, "embd_pdrop": 0.2, "attn_pdrop": 0.2, "n_inner": 128, "n_ctx": 16})");
  CHECK(options.model == "gpt2");
  CHECK(options.model_args == model::ModelArgs{{"n_layer", "3"},
                                               {"n_head", "4"},
                                               {"n_embd", "32"},
                                               {"block_size", "16"},
                                               {"vocab_size", "50"},
                                               {"dropout", "0.2"}});
  CHECK(taken(R"({"model_type": "gpt2"})").model_args == model::ModelArgs{{"dropout", "0.1"}});
  CHECK(taken(R"({"model_type": "gpt2", "n_inner": null})", with_args({{"dropout", "0"}})).model_args ==
        model::ModelArgs{{"dropout", "0"}});
}

TEST_CASE("what else config.json may say of a model is refused by name") {
  CHECK(contains(refusal(R"({"model_type": "llama"})"), "model_type is 'llama'; what is known: gpt2"));
  CHECK(contains(refusal(R"({"model_type": "gpt2", "activation_function": "relu"})"),
                 "activation_function is \"relu\", model 'gpt2' has \"gelu_new\""));
  CHECK(contains(refusal(R"({"model_type": "gpt2", "layer_norm_epsilon": 1e-6})"), "layer_norm_epsilon"));
  CHECK(contains(refusal(R"({"model_type": "gpt2", "n_inner": 100})"), "n_inner is 100"));
  CHECK(contains(refusal(R"({"model_type": "gpt2", "tie_word_embeddings": false})"), "tie_word_embeddings"));
  CHECK(
      contains(refusal(R"({"model_type": "gpt2", "attn_pdrop": 0.3})"), "attn_pdrop and resid_pdrop differ"));
  // Where nothing is dropped, two probabilities are none too many.
  CHECK_FALSE(taken(R"({"model_type": "gpt2", "attn_pdrop": 0.3})", {}, ModelUse::inference)
                  .model_args.contains("dropout"));
  CHECK(contains(refusal("{"), "is no configuration of a model"));
  CHECK(contains(refusal(R"({"model_type": "gpt2", "n_layer": "12"})"), "n_layer"));
  const auto contradiction = message_of<UsageError>([] {
    taken(R"({"model_type": "gpt2", "n_layer": 3})", with_args({{"n_layer", "4"}}));
  });
  CHECK(contains(contradiction, "--model-args n_layer=4: "));
  CHECK(contains(contradiction, "config.json says 3; leave it out"));
}

TEST_CASE("a folder without a configuration of a model, and other models, are left alone") {
  CHECK(taken(R"({"name": "something"})").model.empty());
  Options mlp;
  mlp.model = "mlp";
  CHECK(taken(R"({"model_type": "gpt2", "n_layer": 3})", mlp).model_args.empty());
  Options none;
  take_pretrained_config(none, "/no/such/folder", ModelUse::training);
  CHECK(none.model.empty());
}

TEST_CASE("tensors of files without the prefix have the model's names; masks and a tied copy are left out") {
  const tests::TemporaryFolder folder;
  const std::vector<float> values{1, 2};
  const std::vector<float> others{1, 3};
  const auto tensor = [](const std::string& name, const std::vector<float>& from) {
    return SafetensorsFile::Tensor{name, DType::f32, {2}, std::as_bytes(std::span(from))};
  };
  const auto names_of = [&](const std::vector<float>& head) {
    const std::vector<SafetensorsFile::Tensor> tensors{
        tensor("wte.weight", values), tensor("h.0.attn.bias", others), tensor("h.0.ln_1.bias", values),
        tensor("lm_head.weight", head)};
    write_safetensors(folder / "model.safetensors", tensors);
    WeightsFile file(folder.path());
    use_model_names(file, "gpt2");
    return file.names();
  };
  std::vector<std::string> names = names_of(values);
  std::ranges::sort(names);
  CHECK(names == std::vector<std::string>{"transformer.h.0.ln_1.bias", "transformer.wte.weight"});
  CHECK(contains(message_of<DataError>([&] { names_of(others); }),
                 "lm_head.weight is not transformer.wte.weight"));
  WeightsFile file(folder.path());
  use_model_names(file, "mlp");
  CHECK(file.names().size() == 4);
  const std::vector<SafetensorsFile::Tensor> first_name_alone{tensor("lm_head.weight", values)};
  write_safetensors(folder / "model.safetensors", first_name_alone);
  WeightsFile tied(folder.path());
  use_model_names(tied, "gpt2");
  CHECK(tied.names() == std::vector<std::string>{"transformer.wte.weight"});
}

TEST_CASE("config.json of ours is read back") {
  const tests::TemporaryFolder folder;
  const std::vector<std::pair<std::string, Shape>> weights{{"transformer.wte.weight", {50, 32}},
                                                           {"transformer.wpe.weight", {16, 32}},
                                                           {"transformer.h.0.attn.c_attn.weight", {32, 96}}};
  write_pretrained_config(folder.path(), with_args({{"n_head", "4"}, {"dropout", "0.25"}}), weights, {});
  Options options;
  take_pretrained_config(options, folder.path(), ModelUse::training);
  CHECK(options.model_args == model::ModelArgs{{"n_layer", "1"},
                                               {"n_head", "4"},
                                               {"n_embd", "32"},
                                               {"block_size", "16"},
                                               {"vocab_size", "50"},
                                               {"dropout", "0.25"}});
  // Below the least normal number, which is read as 0 where such numbers are flushed: std::stod would throw.
  write_pretrained_config(folder.path(), with_args({{"dropout", "1e-310"}}), weights, {});
  Options least;
  take_pretrained_config(least, folder.path(), ModelUse::training);
  CHECK_THAT(least.model_args.at("dropout"), Catch::Equals("1e-310") || Catch::Equals("0"));
}

TEST_CASE("config.json says the token that ends a text: the tokenizer's, else that of the first weights") {
  using Kind = KnownTokens::Kind;
  const tests::TemporaryFolder folder;
  /// The keys as they are written; "none" for one that is left to transformers, which takes 50256.
  const auto ends = [&](std::int64_t rows, const KnownTokens& tokens, const std::string& first = {}) {
    Options options = with_args({});
    if (!first.empty()) {
      options.init_from = folder / "first";
      std::filesystem::create_directories(options.init_from);
      write_file_atomically(options.init_from / "config.json", first);
    }
    const std::vector<std::pair<std::string, Shape>> weights{{"transformer.wte.weight", {rows, 8}},
                                                             {"transformer.wpe.weight", {4, 8}}};
    write_pretrained_config(folder.path(), options, weights, tokens);
    const Json config = Json::parse(whole_text(folder / "config.json"));
    const auto shown = [&](const char* key) { return config.contains(key) ? config[key].dump() : "none"; };
    return shown("bos_token_id") + " " + shown("eos_token_id");
  };
  const std::string hugging_face = R"({"model_type": "gpt2", "bos_token_id": 1, "eos_token_id": [2, 3]})";
  CHECK(ends(50304, {Kind::of_tokenizer, 0}) == "0 0");
  CHECK(ends(704, {Kind::of_tokenizer, 0}, hugging_face) == "0 0");
  CHECK(ends(50257, {Kind::of_tokenizer, 50256}) == "50256 50256");
  CHECK(ends(704, {Kind::of_tokenizer, {}}, hugging_face) == "1 [2,3]");
  CHECK(ends(50304, {Kind::of_tokenizer, {}}) == "null null");
  CHECK(ends(50304, {}, hugging_face) == "1 [2,3]");
  CHECK(ends(50304, {}, R"({"model_type": "gpt2"})") == "none none");
  CHECK(ends(704, {}, R"({"model_type": "gpt2"})") == "null null");
  CHECK(ends(50304, {}, R"({"model_type": "llama", "eos_token_id": 2})") == "none none");
  CHECK(ends(50304, {Kind::characters, {}}, hugging_face) == "null null");
  CHECK(ends(50257, {}) == "none none");
  CHECK(ends(50256, {}) == "null null");
  CHECK(ends(50305, {}) == "null null");
}

}  // namespace lockstep::runtime
