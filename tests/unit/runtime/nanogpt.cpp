// nanoGPT's ckpt.pt. nanogpt_ckpt.pt has the form that its train.py (of bias=False, compiled) saves, by
// PyTorch 2.15: tensors of one layer of two columns, four tokens and three positions in the order of
// `named_parameters`, filled with 0, 1, 2, ... through all of them; dropout 0.25.
#include "runtime/checkpoint/nanogpt.h"

#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/base/safetensors.h"
#include "runtime/checkpoint/hugging_face.h"
#include "runtime/checkpoint/saved_weights.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::runtime {
namespace {

using tests::contains;
using tests::message_of;
using Floats = std::vector<float>;

TEST_CASE("a checkpoint of nanoGPT sets the model and its arguments") {
  Options options;
  take_pretrained_config(options, NANOGPT_FILE, ModelUse::training);
  CHECK(options.model == "gpt2");
  CHECK(options.model_args == model::ModelArgs{{"n_layer", "1"},
                                               {"n_head", "1"},
                                               {"n_embd", "2"},
                                               {"block_size", "3"},
                                               {"vocab_size", "4"},
                                               {"dropout", "0.25"}});
  Options to_score;
  take_pretrained_config(to_score, NANOGPT_FILE, ModelUse::inference);
  CHECK_FALSE(to_score.model_args.contains("dropout"));
  Options typed;
  typed.model_args = {{"n_head", "2"}};
  CHECK_THAT(message_of<UsageError>([&] { take_pretrained_config(typed, NANOGPT_FILE, ModelUse::training); }),
             contains("--model-args n_head=2: ") && contains("nanogpt_ckpt.pt says 1; leave it out"));
  Options other;
  other.model = "mlp";
  take_pretrained_config(other, NANOGPT_FILE, ModelUse::training);
  take_pretrained_config(other, STATE_DICT_FILE, ModelUse::training);
  CHECK(other.model_args.empty());
  Options untold;
  take_pretrained_config(untold, STATE_DICT_FILE, ModelUse::training);
  CHECK(untold.model.empty());
}

TEST_CASE("nanoGPT's matrices come out as Hugging Face's, and biases that it does without as zeros") {
  const WeightsFile file = open_weights(find_saved_weights(NANOGPT_FILE), "gpt2");
  const auto values = [&](const char* name) {
    const WeightsTensor* tensor = file.find(std::string("transformer.") + name);
    REQUIRE(tensor != nullptr);
    return to_floats(*tensor);
  };
  CHECK(values("wpe.weight") == Floats{8, 9, 10, 11, 12, 13});
  CHECK(file.find("transformer.h.0.attn.c_attn.weight")->shape == Shape{2, 6});
  CHECK(values("h.0.attn.c_attn.weight") == Floats{16, 18, 20, 22, 24, 26, 17, 19, 21, 23, 25, 27});
  CHECK(values("h.0.attn.c_proj.weight") == Floats{28, 30, 29, 31});
  CHECK(file.find("transformer.h.0.mlp.c_proj.weight")->shape == Shape{8, 2});
  for (const char* name :
       {"h.0.ln_1.bias", "h.0.ln_2.bias", "ln_f.bias", "h.0.attn.c_proj.bias", "h.0.mlp.c_proj.bias"})
    CHECK(values(name) == Floats(2));
  CHECK(values("h.0.attn.c_attn.bias") == Floats(6));
  CHECK(values("h.0.mlp.c_fc.bias") == Floats(8));
  CHECK(file.names().size() == 16);
}

TEST_CASE("matrices of Hugging Face's layout stay as they are, square ones too") {
  const tests::TemporaryFolder folder;
  const Floats wide(12, 1), square{1, 2, 3, 4};
  const std::vector<SafetensorsFile::Tensor> tensors{
      {"transformer.h.0.attn.c_attn.weight", DType::f32, {2, 6}, std::as_bytes(std::span(wide))},
      {"transformer.h.0.attn.c_proj.weight", DType::f32, {2, 2}, std::as_bytes(std::span(square))}};
  write_safetensors(folder / "w.safetensors", tensors);
  const WeightsFile file = open_weights({.weights = folder / "w.safetensors"}, "gpt2");
  CHECK(to_floats(*file.find("transformer.h.0.attn.c_proj.weight")) == square);
  CHECK(file.names().size() == 2);
}

}  // namespace
}  // namespace lockstep::runtime
