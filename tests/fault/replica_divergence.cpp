#include <cstdint>
#include <fstream>

#include "kernels/base/safetensors.h"
#include "tests/fault/resume_runs.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

/// What is larger is a sanitizer's own.
constexpr std::uint64_t largest_mapping = std::uint64_t{1} << 30;

/// Replaces every copy of `from` in the writable memory of another process; how many there were.
int replace_in_memory(pid_t pid, const std::string& from, const std::string& to) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  std::fstream memory("/proc/" + std::to_string(pid) + "/mem",
                      std::ios::in | std::ios::out | std::ios::binary);
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    const auto dash = line.find('-');
    const auto space = line.find(' ');
    if (line.substr(space + 1, 2) != "rw") continue;
    const auto start = std::stoull(line.substr(0, dash), nullptr, 16);
    const auto end = std::stoull(line.substr(dash + 1, space - dash - 1), nullptr, 16);
    if (end - start > largest_mapping) continue;
    std::string bytes(end - start, '\0');
    memory.clear();
    memory.seekg(static_cast<std::streamoff>(start))
        .read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    for (auto at = bytes.find(from); at != std::string::npos; at = bytes.find(from, at + 1)) {
      memory.clear();
      memory.seekp(static_cast<std::streamoff>(start + at))
          .write(to.data(), static_cast<std::streamsize>(to.size()));
      memory.flush();
      ++count;
    }
  }
  return count;
}

std::string bytes_of(const fs::path& file, const std::string& tensor) {
  const SafetensorsFile weights(file);
  const auto bytes = weights.find(tensor)->bytes;
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Changes a bias in the memory of a stopped process, as `weights` has it, and lets the process go on.
void harm(pid_t pid, const fs::path& weights) {
  const std::string bias = bytes_of(weights, "conv1.bias");
  std::string changed = bias;
  changed[0] = static_cast<char>(changed[0] ^ 1);
  CHECK(replace_in_memory(pid, bias, changed) >= 1);
  ::kill(pid, SIGCONT);
}

// With --lr 0 the weights stay what they are, so that they can be found.
const Words frozen{"--optimizer=sgd", "--lr=0"};

TEST_CASE("a replica whose memory has changed is named at the next checkpoint, and nothing is saved of it") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  Program run(resumable(run_dir, frozen + Words{"--max-steps=1000000", "--checkpoint-every=20"}));
  run.wait_for(".\n", 2);
  wait_until_seen([&] { return !directory_of(run_dir).steps().empty(); });
  const auto newest = [&] {
    return directory_of(run_dir).path_of(directory_of(run_dir).steps().front()) / "model.safetensors";
  };
  const pid_t rank_1 = run.number_after("pid1");
  stop(rank_1);
  const fs::path weights = folder / "weights.safetensors";
  fs::copy(newest(), weights);  // what is saved from here on must be equal
  harm(rank_1, weights);
  CHECK(run.wait_for_end() == 5);
  CHECK_THAT(run.output(), contains("a replica has diverged: after step ") &&
                               contains("rank 1 has other weights than rank 0"));
  CHECK(bytes_of(newest(), "conv1.bias") == bytes_of(weights, "conv1.bias"));
}

TEST_CASE("without checkpoints a replica whose memory has changed is named at the end") {
  const TemporaryFolder folder;
  hash_of(resumable(folder / "short", frozen + Words{"--max-steps=1"}), folder / "short");
  const fs::path run_dir = folder / "run";
  Program run(resumable(run_dir, frozen + Words{"--max-steps=1000"}));
  run.wait_for(".\n", 2);
  wait_until_seen([&] { return logged_step(run_dir) >= 1; });
  const pid_t rank_1 = run.number_after("pid1");
  stop(rank_1);
  harm(rank_1, folder / "short/model.safetensors");
  CHECK(run.wait_for_end() == 5);
  CHECK_THAT(run.output(), contains("a replica has diverged: after step 1000 rank 1 has other weights"));
  CHECK_FALSE(fs::exists(run_dir / "model.safetensors"));
}

}  // namespace
}  // namespace lockstep::tests
