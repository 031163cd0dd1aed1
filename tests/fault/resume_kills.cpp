#include <fmt/format.h>

#include "tests/fault/disk_kills.h"
#include "tests/fault/resume_runs.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

Words resumed(const fs::path& run_dir) {
  return resumable(run_dir, {"--resume=auto", "--max-steps=30", "--checkpoint-every=10"});
}

/// A run of 20 steps, killed when its log was 5 steps ahead of its checkpoint of step 10, and while it
/// removed and wrote others.
void leave_killed_run(const fs::path& run_dir) {
  hash_of(resumable(run_dir, {"--max-steps=15", "--checkpoint-every=10"}), run_dir);
  const fs::path checkpoints = run_dir / "checkpoints";
  fs::remove_all(checkpoints / "step-00000015");
  fs::remove(run_dir / "summary.json");
  fs::remove(checkpoints / "latest");
  fs::create_symlink("step-00000010", checkpoints / "latest");
  for (const char* name : {".step-00000015.0123456789abcdef.tmp", ".step-00000005.0123456789abcdef.old"}) {
    fs::copy(checkpoints / "step-00000010", checkpoints / name);
  }
  write_file(run_dir / ".log.jsonl.0123456789abcdef.tmp", "{");
}

TEST_CASE("a run that is killed anywhere while it resumes resumes with the same bits") {
  const TemporaryFolder folder;
  const std::string whole = hash_of(resumable(folder / "whole", {"--max-steps=30"}), folder / "whole");
  leave_killed_run(folder / "left");
  for (const std::string call : {"open", "read", "write", "fsync", "rename", "unlink"}) {
    bool is_killed = true;
    for (int count = 1; is_killed; count += 1 + count / 2) {
      CAPTURE(call, count);
      const fs::path run_dir = folder / fmt::format("{}-{}", call, count);
      fs::copy(folder / "left", run_dir, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
      Program run(killed_at(call, count, run_dir, resumed(run_dir)));  // the rank that stores
      const int code = run.wait_for_end();
      INFO(run.output());
      is_killed = code == 128 + SIGKILL;
      CHECK((is_killed || (code == 0 && count > 1)));  // there is a first call of each kind
      CHECK(hash_of(resumed(run_dir), run_dir) == whole);
      CHECK(logged_step(run_dir) == 30);
      for (const auto& entry : fs::directory_iterator(run_dir / "checkpoints")) {
        CHECK_FALSE(entry.path().filename().string().starts_with("."));
      }
      fs::remove_all(run_dir);
    }
  }
}

}  // namespace
}  // namespace lockstep::tests
