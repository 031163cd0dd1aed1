#pragma once

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "runtime/checkpoint/checkpoint_directory.h"
#include "tests/support/training.h"

namespace lockstep::tests {

/// `trainer` on two ranks, each of which tells its pid first.
inline Words telling_pids(const Words& options) {
  return Words{LAUNCH_PROGRAM, "--nproc_per_node=2", "sh", "-c", "echo pid$RANK=$$.; exec \"$0\" \"$@\"",
               TRAINER_PROGRAM} +
         options;
}

/// A small convnet on two ranks.
inline Words resumable(const std::filesystem::path& run_dir, const Words& more = {}) {
  return telling_pids(Words{"--model=convnet", "--dataset=synthetic",
                            "--samples=268",  // 33 whole batches of 4 on each rank and a smaller one
                            "--batch-size=4", "--eval-every=0", "--log-every=1", "--progress=none",
                            "--run-dir=" + run_dir.string()} +
                      more);
}

inline std::string hash_in(const std::filesystem::path& run_dir) {
  return nlohmann::json::parse(contents(run_dir / "summary.json"))["weights_sha256"];
}

/// Hundreds of steps without a kill, on simulated GPUs on a loaded machine up to 0.1 s each.
inline constexpr Seconds whole_run = 3 * patience;

/// The run must end well; the SHA-256 of its weights.
inline std::string hash_of(const Words& words, const std::filesystem::path& run_dir) {
  Program run(words);
  const int code = run.wait_for_end(whole_run);
  INFO(run.output());
  REQUIRE(code == 0);
  return hash_in(run_dir);
}

inline runtime::CheckpointDirectory directory_of(const std::filesystem::path& run_dir) {
  return runtime::CheckpointDirectory(run_dir / "checkpoints");
}

/// The last whole line's step in log.jsonl; 0 before the first.
inline std::int64_t logged_step(const std::filesystem::path& run_dir) {
  // Its end alone: a reader that gets little of the processor may never come to the end of a log that grows.
  constexpr std::streamoff longest_line = 4096;
  std::ifstream file(run_dir / "log.jsonl", std::ios::binary | std::ios::ate);
  if (!file) return 0;
  const std::streamoff size = file.tellg();
  std::string log(static_cast<std::size_t>(std::min(size, longest_line)), '\0');
  file.seekg(size - std::ssize(log));
  file.read(log.data(), std::ssize(log));
  const auto end = log.rfind('\n');
  if (end == std::string::npos) return 0;
  const auto before = end == 0 ? std::string::npos : log.rfind('\n', end - 1);
  const auto start = before == std::string::npos ? 0 : before + 1;
  return nlohmann::json::parse(log.substr(start, end - start))["step"];
}

/// Looks again and again, without a pause, so that the moment is not missed.
inline void wait_until_seen(const std::function<bool()>& so) {
  for (const Deadline deadline = Deadline::in(Seconds(20)); !so();) {
    if (deadline.passed()) FAIL("what was waited for did not come");
  }
}

/// Sent, and not taken by the process yet.
inline bool pends(pid_t pid, int signal_number) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("ShdPnd:")) continue;
    return (std::stoull(line.substr(7), nullptr, 16) >> (signal_number - 1) & 1) != 0;
  }
  return false;
}

inline void require_ranks_gone(const Program& run) {
  for (const char* rank : {"pid0", "pid1"}) REQUIRE(wait_until_gone(run.number_after(rank)));
}

/// SIGKILL of launch, which takes the ranks along.
inline void kill_whole(Program& run) {
  run.wait_for(".\n", 2);
  ::kill(run.pid(), SIGKILL);
  require_ranks_gone(run);
}

}  // namespace lockstep::tests
