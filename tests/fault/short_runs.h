// Runs of a few steps with checkpoints, which a fault meets anywhere and which must end with the same bits.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include <fmt/format.h>

#include "tests/fault/resume_runs.h"

namespace lockstep::tests {

inline constexpr int timeout_s = 10;

/// How ranks lie.
struct Shape {
  const char* name;
  int ranks;
  const char* variables;  ///< of each rank, for the shell
};
inline constexpr Shape alone{"alone", 1, ""};
inline constexpr Shape by_memory{"by shared memory", 2, ""};
inline constexpr Shape by_tcp{"by TCP", 2, "export LOCKSTEP_NODE=$RANK; "};

/// Of a few milliseconds a step.
inline const Words tiny_training{"--model=mlp",  "--model-args=hidden=16", "--dataset=synthetic",
                                 "--samples=64", "--batch-size=4",         "--eval-every=0",
                                 "--threads=1",  "--log-every=1",          "--progress=none"};

inline Words training(const Shape& shape, const std::filesystem::path& run_dir) {
  const std::string script = std::string(shape.variables) + "exec \"$0\" \"$@\"";
  return Words{LAUNCH_PROGRAM, fmt::format("--nproc_per_node={}", shape.ranks), "/bin/sh", "-c", script,
               TRAINER_PROGRAM} +
         tiny_training +
         Words{"--max-steps=6", "--checkpoint-every=2", "--resume=auto",
               fmt::format("--timeout={}", timeout_s), "--run-dir=" + run_dir.string()};
}

/// Its weights when nothing happens to it.
inline const std::string& undisturbed(const Shape& shape) {
  static std::map<int, std::string> hashes;
  std::string& hash = hashes[shape.ranks];
  const TemporaryFolder folder;
  if (hash.empty()) hash = hash_of(training(shape, folder / "run"), folder / "run");
  return hash;
}

}  // namespace lockstep::tests
