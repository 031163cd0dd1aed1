// A gradient has many ways through the code: other kernels, other ranks, another order of exchanges. Every
// kind of model takes each of them here, and its first gradients are those of the plainest way.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "tests/support/gradients.h"
#include "tests/support/training.h"
#include "tests/support/unused_port.h"

namespace lockstep::tests {
namespace {

struct Model {
  Words words;
  bool takes_tokens = false;
  bool has_blocks = false;          // that --recompute computes again
  bool normalises_batches = false;  // what a rank's batch norm sees depends on how samples are divided
};

Model any_model() {
  const Words small_pictures{"--image-shape=3x12x12"};
  return GENERATE_COPY(
      Model{.words = Words{"--model=linear"} + small_pictures},
      Model{.words = Words{"--model=mlp"} + small_pictures},
      Model{.words = Words{"--model=simplecnn"} + small_pictures},
      Model{.words = Words{"--model=convnet"} + small_pictures, .has_blocks = true},
      Model{.words = {"--model=resnet18", "--image-shape=3x32x32"},
            .has_blocks = true,
            .normalises_batches = true},
      Model{.words = {"--model=mobilenet_v3_small", "--image-shape=3x64x64", "--model-args=dropout=0"},
            .has_blocks = true,
            .normalises_batches = true},
      Model{.words = {"--model=rnn", "--seq-len=24"}, .takes_tokens = true},
      Model{.words = {"--model=lstm", "--seq-len=24", "--model-args=hidden=64"}, .takes_tokens = true},
      Model{
          .words = {"--model=transformer", "--seq-len=24", "--model-args=d_model=64,nhead=4,vocab_size=500"},
          .takes_tokens = true,
          .has_blocks = true},
      Model{.words = {"--model=gpt2",
                      "--model-args=n_layer=2,n_head=4,n_embd=128,block_size=64,dropout=0,vocab_size=300"},
            .takes_tokens = true,
            .has_blocks = true});
}

class FirstGradients {
 public:
  explicit FirstGradients(const Words& options)
      : options_(Words{"--dataset=synthetic", "--samples=32", "--global-batch=8", "--threads=1",
                       "--max-steps=1", "--eval-every=0", "--seed=7"} +
                 options) {}

  Gradients of(int ranks, const Words& more = {}) const {
    const TemporaryFolder folder;
    train(ranks, training(more, folder), folder / "run");
    return gradients_in(file(folder));
  }

  /// Of two ranks on two nodes.
  Gradients of_nodes(const Words& more = {}) const {
    const TemporaryFolder folder;
    const std::string port = std::to_string(unused_port());
    const auto node = [&](const std::string& rank) {
      return Words{LAUNCH_PROGRAM,
                   "--nnodes=2",
                   "--node_rank=" + rank,
                   "--nproc_per_node=1",
                   "--master_addr=127.0.0.1",
                   "--master_port=" + port,
                   TRAINER_PROGRAM} +
             training(more, folder) + Words{"--insecure", "--run-dir", (folder / "run").string()};
    };
    Program first(node("0"));
    Program second(node("1"));
    const int code = first.wait_for_end();
    INFO(first.output());
    REQUIRE(code == 0);
    REQUIRE(second.wait_for_end() == 0);
    return gradients_in(file(folder));
  }

 private:
  static std::filesystem::path file(const TemporaryFolder& folder) {
    return folder / "gradients.safetensors";
  }

  Words training(const Words& more, const TemporaryFolder& folder) const {
    return options_ + more + Words{"--dump-gradients", file(folder).string()};
  }

  Words options_;
};

/// Every tensor of `found` is that of `wanted` but for roundings. Where its terms cancel each other, as in a
/// bias before a batch norm, roundings are all that is left: those of the largest tensor count there.
void check_near(const Gradients& found, const Gradients& wanted, double rounding) {
  REQUIRE_FALSE(found.empty());
  REQUIRE(found.size() == wanted.size());
  const double all = norm(joined(wanted));
  for (const auto& [name, values] : found) {
    INFO(name);
    CHECK(difference(values, wanted.at(name)) <= rounding * (norm(wanted.at(name)) + 0.01 * all));
  }
}

TEST_CASE("every way to a gradient leads to the same one: kernels, buckets, ranks, nodes, micro-batches") {
  const Model model = any_model();
  const std::string amp = GENERATE("off", "bf16");
  CAPTURE(model.words, amp);
  const FirstGradients gradients(model.words + Words{"--amp=" + amp});
  const Gradients alone = gradients.of(1);
  const Gradients pair = gradients.of(2);

  // Not a bit differs where the same terms are added in the same order.
  const Words small_buckets{"--bucket-cap-mb=0.01", "--first-bucket-mb=0.01"};
  const Words recomputing = model.has_blocks ? Words{"--recompute"} : Words{};
  CHECK(gradients.of(1, recomputing) == alone);
  CHECK(gradients.of(2, small_buckets + Words{"--no-overlap"}) == pair);
  CHECK(gradients.of_nodes(small_buckets + recomputing) == pair);

  // Thousands of terms in another order, each rounded at 2^-24, or products of factors rounded at 2^-9.
  const double rounding = amp == "off" ? 1e-5 : 0x1p-6;
  Gradients without_biases = alone;
  std::erase_if(without_biases, [](const auto& entry) { return entry.first.ends_with("bias"); });
  check_near(gradients.of(1, {"--freeze=*bias"}), without_biases, rounding);
  if (model.takes_tokens)
    check_near(gradients.of(2, {"--embedding-exchange=rows"}),
               gradients.of(2, {"--embedding-exchange=dense"}), rounding);
  if (model.normalises_batches) return;
  check_near(pair, alone, rounding);
  check_near(gradients.of(2, {"--accumulate-steps=2"}), alone, rounding);
}

bool is_bf16(float value) {
  return (std::bit_cast<std::uint32_t>(value) & 0xFFFF) == 0;
}

TEST_CASE("--grad-dtype bf16: every tensor is that of fp32, rounded once") {
  const Model model = any_model();
  CAPTURE(model.words);
  const FirstGradients gradients(model.words + Words{"--amp=bf16"});
  const Gradients rounded = gradients.of(1, {"--grad-dtype=bf16"});
  const Gradients exact_gradients = gradients.of(1);
  REQUIRE(rounded.size() == exact_gradients.size());
  for (const auto& [name, exact] : exact_gradients) {
    INFO(name);
    CHECK(std::ranges::all_of(rounded.at(name), is_bf16));
    CHECK(difference(rounded.at(name), exact) <= 0x1p-8 * norm(exact));  // half of the last of bf16's 8 bits
  }
}

}  // namespace
}  // namespace lockstep::tests
