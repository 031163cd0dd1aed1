#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::tests {

using Words = std::vector<std::string>;

inline Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

/// `trainer` alone, or under `launch` with so many ranks.
inline Words trainer_words(int ranks, const Words& options) {
  if (ranks == 1) return Words{TRAINER_PROGRAM} + options;
  return Words{LAUNCH_PROGRAM, "--nproc_per_node=" + std::to_string(ranks), TRAINER_PROGRAM} + options;
}

/// A run that must succeed; its summary.json.
inline nlohmann::json train(int ranks, const Words& options, const std::filesystem::path& run_dir,
                            Seconds limit = patience) {
  Program run(trainer_words(ranks, options + Words{"--run-dir", run_dir.string()}));
  const int code = run.wait_for_end(limit);
  INFO(run.output());
  REQUIRE(code == 0);
  return nlohmann::json::parse(contents(run_dir / "summary.json"));
}

}  // namespace lockstep::tests
