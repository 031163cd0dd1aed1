// Gradients of embeddings that are exchanged as rows: what ranks learn is what they learn the plain way, to
// the same bits wherever they are.
#include <cmath>
#include <cstring>

#include "kernels/base/safetensors.h"
#include "tests/support/largest_error.h"
#include "tests/support/training.h"

namespace lockstep::tests {
namespace {

/// 6 tokens a sample of a vocabulary of 600.
const Words unsized{"--plugin=" EMBEDDINGS_PLUGIN,
                    "--dataset=synthetic",
                    "--seed=7",
                    "--log-every=1",
                    "--threads=1",
                    "--eval-every=0",
                    "--first-bucket-mb=0.01",
                    "--bucket-cap-mb=0.01"};

/// 8 x 6 tokens a rank; 300 samples leave smaller last batches.
const Words of_tokens = unsized + Words{"--samples=300", "--batch-size=8"};

/// The ranks take the nodes in turns.
const Words on_nodes{"sh", "-c", "export LOCKSTEP_NODE=$((RANK % NODES)); exec \"$@\"", "sh"};

nlohmann::json train_on_nodes(int nodes, int ranks, const Words& options,
                              const std::filesystem::path& run_dir) {
  const Words launched = Words{"/usr/bin/env", "NODES=" + std::to_string(nodes), LAUNCH_PROGRAM,
                               "--nproc_per_node=" + std::to_string(ranks)} +
                         on_nodes + Words{TRAINER_PROGRAM};
  Program run(launched + options + Words{"--run-dir", run_dir.string()});
  const int code = run.wait_for_end();
  INFO(run.output());
  REQUIRE(code == 0);
  return nlohmann::json::parse(contents(run_dir / "summary.json"));
}

std::vector<float> floats_of(const SafetensorsFile& file, const std::string& name) {
  const auto* const tensor = file.find(name);
  REQUIRE(tensor != nullptr);
  std::vector<float> values(tensor->bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
  return values;
}

/// In ulp of the greatest number of its row: of the largest term, or less.
double largest_distance_in_ulp(const std::filesystem::path& a, const std::filesystem::path& b,
                               std::size_t dim) {
  const SafetensorsFile left(a);
  const SafetensorsFile right(b);
  REQUIRE(left.tensors().size() == right.tensors().size());
  double largest = 0;
  for (const auto& tensor : left.tensors()) {
    const std::vector<float> x = floats_of(left, tensor.name);
    const std::vector<float> y = floats_of(right, tensor.name);
    REQUIRE(x.size() == y.size());
    for (std::size_t row = 0; row < x.size(); row += dim) {
      const std::size_t end = std::min(row + dim, x.size());
      float greatest = 0;
      for (std::size_t i = row; i < end; ++i) greatest = std::max(greatest, std::abs(x[i]));
      const float ulp = std::nextafter(greatest, INFINITY) - greatest;
      for (std::size_t i = row; i < end; ++i) largest = std::max(largest, error_between(x[i], y[i]) / ulp);
    }
  }
  return largest;
}

/// What a classifier adds to the table's gradient is a product by sums of 48 terms, which a library orders by
/// the layout of the gradient, and that differs between the ways. An addition errs by up to half an ulp, 0.29
/// in the mean square: by two orders of 47 additions 2.8, and by 4 of these in the worst of 12,000 sums.
constexpr double ulps_of_two_products = 12;

TEST_CASE("gradients as rows are those of the plain way, within 2 ulp of the largest term") {
  const std::string model = GENERATE("untied", "tied", "twice");
  const int ranks = GENERATE(2, 3);
  CAPTURE(model, ranks);
  const TemporaryFolder folder;
  const auto gradients = [&](const std::string& way) {
    const auto file = folder / (way + ".safetensors");
    train(ranks,
          of_tokens + Words{"--model=" + model, "--max-steps=1", "--embedding-exchange=" + way,
                            "--dump-gradients=" + file.string()},
          folder / way);
    return file;
  };
  CHECK(largest_distance_in_ulp(gradients("rows"), gradients("dense"), 20) <=
        (model == "tied" ? ulps_of_two_products : 2));
}

TEST_CASE("rows: the same bits from run to run, without overlap, and on any nodes") {
  const std::string model = GENERATE("untied", "tied");
  const Words more = GENERATE(Words{}, Words{"--clip-grad-norm=0.1"}, Words{"--grad-dtype=bf16"});
  CAPTURE(model, more);
  const Words options =
      of_tokens + more + Words{"--model=" + model, "--epochs=1", "--embedding-exchange=auto"};
  const TemporaryFolder folder;
  const auto first = train(4, options, folder / "first");
  CHECK(train(4, options + Words{"--no-overlap"}, folder / "serial")["weights_sha256"] ==
        first["weights_sha256"]);
  for (const int nodes : {2, 4}) {
    const auto apart = train_on_nodes(nodes, 4, options, folder / std::to_string(nodes));
    CHECK(apart["weights_sha256"] == first["weights_sha256"]);
  }
  const auto dense = train(4, options + Words{"--embedding-exchange=dense"}, folder / "dense");
  CHECK(dense["final_loss"].get<double>() == Approx(first["final_loss"].get<double>()).epsilon(1e-4));
  // An untied table's rows are summed as they are the plain way; a tied one's are added to what is summed.
  if (model == "untied") CHECK(dense["weights_sha256"] == first["weights_sha256"]);
}

TEST_CASE("rows: the same bits of two and of three ranks, on one node or more") {
  const int ranks = GENERATE(2, 3);
  const Words options = of_tokens + Words{"--model=tied", "--max-steps=8"};
  const TemporaryFolder folder;
  const auto together = train(ranks, options, folder / "together");
  for (int nodes = 2; nodes <= ranks; ++nodes) {
    const auto apart = train_on_nodes(nodes, ranks, options, folder / std::to_string(nodes));
    CHECK(apart["weights_sha256"] == together["weights_sha256"]);
  }
}

TEST_CASE("rows: ranks learn what one learns, with mixed precision and micro-batches, and go on to the bit") {
  const Words options =
      unsized + Words{"--model=tied", "--optimizer=sgd", "--lr=0.5", "--global-batch=24", "--samples=240"};
  const TemporaryFolder folder;
  const auto one = train(1, options + Words{"--max-steps=12"}, folder / "1");
  const auto two = train(2, options + Words{"--max-steps=12"}, folder / "2");
  CHECK(two["final_loss"].get<double>() == Approx(one["final_loss"].get<double>()).epsilon(1e-4));
  train(2, options + Words{"--max-steps=5", "--checkpoint-every=5"}, folder / "halves");
  const auto halves =
      train(2, options + Words{"--max-steps=12", "--checkpoint-every=5", "--resume=auto"}, folder / "halves");
  CHECK(halves["weights_sha256"] == two["weights_sha256"]);
  const Words parts = options + Words{"--max-steps=12", "--accumulate-steps=3"};
  const auto of_parts = train(2, parts, folder / "parts");
  CHECK(of_parts["final_loss"].get<double>() == Approx(one["final_loss"].get<double>()).epsilon(1e-4));
  const Words narrow{"--max-steps=12", "--amp=bf16"};
  const auto mixed = train(2, options + narrow, folder / "mixed");
  const auto plain = train(2, options + narrow + Words{"--embedding-exchange=dense"}, folder / "plain");
  CHECK(mixed["final_loss"].get<double>() == Approx(plain["final_loss"].get<double>()).epsilon(1e-3));
}

TEST_CASE("rows: all ranks must say the same") {
  const TemporaryFolder folder;
  const Words words = of_tokens + Words{"--model=tied", "--max-steps=1", "--run-dir", folder.path().string()};
  Program run(Words{LAUNCH_PROGRAM, "--nproc_per_node=2", "sh", "-c",
                    "if [ $RANK = 1 ]; then set -- \"$@\" --embedding-exchange=dense; fi; exec \"$@\"", "sh",
                    TRAINER_PROGRAM} +
              words);
  CHECK(run.wait_for_end() == 2);
  CHECK_THAT(run.output(), contains("ranks disagree on the exchange") && contains("rows of wte.weight"));
}

}  // namespace
}  // namespace lockstep::tests
