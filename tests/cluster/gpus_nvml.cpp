#include <signal.h>

#include "kernels/base/deadline.h"
#include "tests/cluster/gpus.h"
#include "tests/support/json_lines.h"
#include "tests/support/skip.h"

namespace lockstep::tests {
namespace {

const Words mlp{"--model=mlp",   "--dataset=synthetic", "--image-shape=1x8x8",
                "--samples=64",  "--threads=1",         "--eval-every=0",
                "--device=cuda", "--log-every=1000000", "--progress=plain"};

std::vector<nlohmann::json> gpu_lines(const std::filesystem::path& run_dir) {
  std::vector<nlohmann::json> lines;
  for (const nlohmann::json& line : lines_of(contents(run_dir / "log.jsonl"))) {
    if (line.contains("gpus")) lines.push_back(line);
  }
  return lines;
}

}  // namespace

TEST_CASE("log.jsonl has once a second what NVML tells of each rank's GPU") {
  give_gpus(3);  // of the third rank's NVML knows nothing
  const Variable library("LD_LIBRARY_PATH", NVML_STUB_FOLDER);
  const TemporaryFolder folder;
  const std::filesystem::path run_dir = folder.path() / "run";
  Program run(trainer_words(3, mlp + Words{"--max-steps=1000000", "--run-dir", run_dir.string()}));
  run.wait_for("step ");
  for (const Deadline deadline = Deadline::in(patience); gpu_lines(run_dir).size() < 3;) {
    INFO(run.output());
    if (deadline.passed()) FAIL("log.jsonl has not three lines of readings");
  }
  ::kill(run.pid(), SIGTERM);
  CHECK(run.wait_for_end() == 75);

  const auto lines = gpu_lines(run_dir);
  double last_time = 0;
  std::int64_t last_step = 0;
  for (const nlohmann::json& line : lines) {
    INFO(line.dump());
    const nlohmann::json first{{"rank", 0},
                               {"utilization", 41},
                               {"memory_bytes", 1LL << 30},
                               {"power_w", 312.5},
                               {"temperature_c", 61},
                               {"sm_clock_mhz", 1401},
                               {"memory_clock_mhz", 2601},
                               {"throttle_reasons", {"sw_power_cap", "hw_thermal_slowdown"}}};
    const nlohmann::json second{{"rank", 1},
                                {"utilization", 42},
                                {"memory_bytes", 2LL << 30},
                                {"temperature_c", 62},
                                {"sm_clock_mhz", 1402},
                                {"memory_clock_mhz", 2602},
                                {"throttle_reasons", nlohmann::json::array()}};
    CHECK(line.at("gpus") == nlohmann::json{first, second});
    CHECK(line.at("step") >= last_step);
    last_step = line.at("step");
    // A late line does not delay the next: its time since the one before may be less than a second.
    CHECK(line.at("time") > last_time);
    last_time = line.at("time");
  }
  CHECK(last_step > 0);
  const double seconds = last_time - lines.front().at("time").get<double>();
  CHECK(static_cast<double>(lines.size() - 1) <= seconds + 1);
}

TEST_CASE("without NVML a run on GPUs says nothing of it") {
  if (std::filesystem::exists("/proc/driver/nvidia/version")) return skip("this machine has NVML");
  give_gpus(1);
  const TemporaryFolder folder;
  const std::filesystem::path run_dir = folder.path() / "run";
  Program run(trainer_words(1, mlp + Words{"--max-steps=3", "--run-dir", run_dir.string()}));
  CHECK(run.wait_for_end() == 0);
  CHECK(run.output().find("nvidia-ml") == std::string::npos);
  CHECK(gpu_lines(run_dir).empty());
}

}  // namespace lockstep::tests
