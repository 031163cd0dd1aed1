#pragma once

#include <cstdlib>
#include <fstream>

#include "tests/support/training.h"
#include "tests/support/variable.h"

namespace lockstep::tests {

/// Several buckets.
inline const Words images_in_buckets{
    "--dataset=synthetic", "--samples=500",  "--image-shape=3x12x12",  "--threads=1",         "--seed=7",
    "--log-every=1",       "--eval-every=0", "--first-bucket-mb=0.01", "--bucket-cap-mb=0.01"};
/// The same with convolutions that a GPU computes as exactly as a CPU.
inline const Words small_images = images_in_buckets + Words{"--conv-precision=ieee"};
inline const Words sgd{"--optimizer=sgd", "--lr=0.05", "--momentum=0.9"};

/// Of a machine in software; a real one has what it has.
inline void give_gpus(int count) {
  setenv("SIMGPU_DEVICES", std::to_string(count).c_str(), 1);
}

inline std::vector<double> losses(const std::filesystem::path& run_dir) {
  std::vector<double> result;
  std::ifstream log(run_dir / "log.jsonl");
  for (std::string line; std::getline(log, line);) {
    const auto entry = nlohmann::json::parse(line);
    if (entry.contains("step") && entry.contains("loss")) result.push_back(entry.at("loss"));
  }
  return result;
}

/// Steps amplify the rounding of those before them; Adam divides a gradient by its own size.
inline void check_same_losses(const std::filesystem::path& a, const std::filesystem::path& b,
                              double tolerance) {
  const std::vector<double> left = losses(a);
  const std::vector<double> right = losses(b);
  REQUIRE(left.size() == right.size());
  REQUIRE(!left.empty());
  for (std::size_t step = 0; step < left.size(); ++step) {
    INFO("step " << step + 1);
    CHECK(left[step] == Approx(right[step]).epsilon(tolerance));
  }
}

}  // namespace lockstep::tests
