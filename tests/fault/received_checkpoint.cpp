// A checkpoint that goes to another disk: one that arrives damaged is not kept, and one of the same step with
// other content is not taken for it.
#include "tests/fault/nemesis/hook.h"
#include "tests/fault/resume_runs.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

/// Each of the two ranks runs in its own folder, so that the relative RUN is another one for each.
Words on_own_disks(const fs::path& folder, const Words& more) {
  for (const char* rank : {"0", "1"}) fs::create_directories(folder / rank);
  Words words = resumable("run", Words{"--checkpoint-every=10"} + more);
  words[4] = "cd " + folder.string() + "/$RANK; " + words[4];
  return words;
}

std::string hash_of_twenty_steps() {
  const TemporaryFolder folder;
  return hash_of(on_own_disks(folder.path(), {"--max-steps=20"}), folder / "0/run");
}

TEST_CASE("a checkpoint that arrives damaged ends the run with 3, and the next start gets it whole") {
  const TemporaryFolder folder;
  hash_of(on_own_disks(folder.path(), {"--max-steps=10"}), folder / "0/run");
  fs::remove_all(folder / "1/run");
  const Words resumed = on_own_disks(folder.path(), {"--max-steps=20", "--resume=auto"});
  const auto set = [](const char* name, const std::string& value) { return name + ("=" + value); };
  Program run(Words{"/usr/bin/env", "LD_PRELOAD=" NEMESIS_HOOK, set(nemesis::process_variable, "rank 1"),
                    set(nemesis::call_variable, "write"), set(nemesis::path_variable, "model.safetensors"),
                    set(nemesis::count_variable, "1"), set(nemesis::act_variable, "flip"),
                    set(nemesis::struck_variable, (folder / "struck").string())} +
              resumed);
  CHECK(run.wait_for_end() == 3);
  CHECK_THAT(run.output(), contains("a checkpoint arrived damaged: ") &&
                               contains("does not have the SHA-256 of its manifest"));
  CHECK(directory_of(folder / "1/run").steps().empty());
  CHECK(hash_of(resumed, folder / "0/run") == hash_of_twenty_steps());
}

TEST_CASE("a disk whose checkpoint is whole and of the same step, but not the same, gets that of rank 0") {
  const TemporaryFolder folder;
  hash_of(on_own_disks(folder.path(), {"--max-steps=10"}), folder / "0/run");
  const fs::path other = directory_of(folder / "1/run").path_of(10);
  std::string weights = contents(other / "model.safetensors");
  weights.back() ^= 1;
  write_file(other / "model.safetensors", weights);
  runtime::write_manifest(other);
  REQUIRE(runtime::damage_of(other).empty());
  CHECK(hash_of(on_own_disks(folder.path(), {"--max-steps=20", "--resume=auto"}), folder / "0/run") ==
        hash_of_twenty_steps());
  for (const char* file : {"model.safetensors", "manifest.json"}) {
    CHECK(contents(other / file) == contents(directory_of(folder / "0/run").path_of(10) / file));
  }
}

}  // namespace
}  // namespace lockstep::tests
