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

}  // namespace
}  // namespace lockstep::tests
