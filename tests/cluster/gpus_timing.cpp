// What a run tells of its time, on a machine whose kernels run behind the thread that launches them.
#include <algorithm>

#include "tests/cluster/gpus.h"

namespace lockstep::tests {
namespace {

std::vector<double> rates(const std::filesystem::path& run_dir) {
  std::vector<double> result;
  std::ifstream log(run_dir / "log.jsonl");
  for (std::string line; std::getline(log, line);) {
    const auto entry = nlohmann::json::parse(line);
    if (entry.contains("samples_per_s")) result.push_back(entry.at("samples_per_s"));
  }
  return result;
}

TEST_CASE("where GPUs exchange through the host, compute is no exchange, and the last step took its time") {
  give_gpus(2);
  const Variable policy("SIMGPU_POLICY", "lazy");
  const TemporaryFolder folder;
  const auto summary = train(
      2,
      small_images + sgd +
          Words{"--model=simplecnn", "--batch-size=16", "--max-steps=12", "--device=cuda", "--backend=host"},
      folder.path() / "run");
  const double step_ms = summary["step_ms"]["median"];
  // Waiting for a peer that computes longer is exposed too.
  const double exchange_ms = summary["exposed_comm_ms"].get<double>() - summary["skew_ms"].get<double>();
  CHECK(summary["exposed_comm_ms"] > 0);
  CHECK(summary["comm_ms"] > 0);
  CHECK(exchange_ms < step_ms / 2);
  std::vector<double> all = rates(folder.path() / "run");
  REQUIRE(all.size() == 12);
  const double last = all.back();
  std::ranges::sort(all);
  CHECK(last < 10 * all[6]);
}

}  // namespace
}  // namespace lockstep::tests
