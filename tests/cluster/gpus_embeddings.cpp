#include "tests/cluster/gpus.h"

namespace lockstep::tests {
namespace {

/// 8 x 6 tokens a rank of 600: the table's gradient goes as rows.
const Words of_tokens{"--plugin=" EMBEDDINGS_PLUGIN,
                      "--dataset=synthetic",
                      "--samples=160",
                      "--global-batch=16",
                      "--seed=7",
                      "--log-every=1",
                      "--eval-every=0",
                      "--max-steps=8",
                      "--optimizer=sgd",
                      "--lr=0.5",
                      "--device=cuda",
                      "--first-bucket-mb=0.01",
                      "--bucket-cap-mb=0.01"};

TEST_CASE(
    "rows of embeddings on GPUs: walked and in graphs, by NCCL and through the host, as the plain way") {
  const std::string model = GENERATE("untied", "tied", "twice");
  const Words narrow = GENERATE(Words{}, Words{"--grad-dtype=bf16"});
  CAPTURE(model, narrow);
  give_gpus(2);
  const TemporaryFolder folder;
  const Words options = of_tokens + narrow + Words{"--model=" + model};
  const Words rows = options + Words{"--embedding-exchange=rows"};
  train(2, options + Words{"--embedding-exchange=dense", "--cuda-graph=off"}, folder / "dense");
  const auto walked = train(2, rows + Words{"--cuda-graph=off"}, folder / "walked");
  const auto graphs = train(2, rows + Words{"--cuda-graph=on"}, folder / "graphs");
  train(2, rows + Words{"--backend=host"}, folder / "host");
  CHECK(walked["backend"] == "nccl");
  CHECK(graphs["weights_sha256"] == walked["weights_sha256"]);
  const double tolerance = narrow.empty() ? 1e-4 : 1e-2;  // sums in another order, then rounded
  for (const char* run : {"walked", "host"}) {
    INFO(run);
    check_same_losses(folder / run, folder / "dense", tolerance);
  }
}

TEST_CASE("a vocabulary that 128 does not divide is padded on tensor cores, in memory alone") {
  const Words more = GENERATE(Words{"--embedding-exchange=dense"}, Words{"--embedding-exchange=rows"},
                              Words{"--accumulate-steps=2"}, Words{"--ema=0.9", "--clip-grad-norm=1"});
  CAPTURE(more);
  give_gpus(2);
  const TemporaryFolder folder;
  const Words options =
      Words{"--model=gpt2",
            "--model-args=n_layer=1,n_head=2,n_embd=16,block_size=8,vocab_size=8200,dropout=0",
            "--dataset=synthetic",
            "--samples=96",
            "--batch-size=4",
            "--seed=7",
            "--log-every=1",
            "--eval-every=0",
            "--max-steps=6",
            "--optimizer=adam",
            "--lr=0.01",
            "--device=cuda"} +
      more;
  const auto padded = train(2, options + Words{"--matmul-precision=high"}, folder / "padded");
  train(2, options + Words{"--matmul-precision=highest"}, folder / "plain");
  // TF32 keeps 10 bits of each factor: a sum of 16 products of a loss of 9 is off by far less.
  check_same_losses(folder / "padded", folder / "plain", 2e-3);
  const auto walked =
      train(2, options + Words{"--matmul-precision=high", "--cuda-graph=off"}, folder / "walked");
  CHECK(walked["weights_sha256"] == padded["weights_sha256"]);
  const std::string weights = contents(folder / "padded" / "model.safetensors");
  CHECK(weights.find("[8200,16]") != std::string::npos);
  CHECK(weights.find("8320") == std::string::npos);
}

}  // namespace
}  // namespace lockstep::tests
