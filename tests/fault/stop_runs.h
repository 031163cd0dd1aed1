#pragma once

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>

#include "tests/fault/resume_runs.h"

namespace lockstep::tests {

/// Training that does not end by itself, on tiny data.
inline Words endless_training(const std::filesystem::path& run_dir, const Words& more = {}) {
  return Words{TRAINER_PROGRAM,       "--model=mlp",
               "--dataset=synthetic", "--samples=512",
               "--threads=1",         "--epochs=1000000",
               "--eval-every=0",      "--log-every=1",
               "--progress=plain",    "--run-dir=" + run_dir.string()} +
         more;
}

inline Words launched(int ranks, const Words& command, const Words& options = {}) {
  return Words{LAUNCH_PROGRAM, "--nproc_per_node=" + std::to_string(ranks)} + options + command;
}

/// `script` run by `shell`, with `words` as its "$0" "$@".
inline Words in_script(const std::string& shell, const std::string& script, const Words& words) {
  return Words{shell, "-c", script} + words;
}

inline void wait_for_steps(const std::filesystem::path& run_dir, std::int64_t steps = 5) {
  wait_until_seen([&] { return logged_step(run_dir) >= steps; });
}

inline bool has_checkpoint(const std::filesystem::path& run_dir) {
  return !directory_of(run_dir).steps().empty();
}

}  // namespace lockstep::tests
