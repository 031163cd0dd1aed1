#include "tests/fault/resume_runs.h"
#include "tests/support/full_disk.h"

namespace lockstep::tests {
namespace {

TEST_CASE("a disk that is full at a checkpoint: 4, the file is named, and nothing half-made is left") {
  const TemporaryFolder folder;
  const Words words = trainer_words(
      1, {"--model=mlp", "--dataset=synthetic", "--samples=640", "--threads=1", "--eval-every=0",
          "--max-steps=1000000", "--checkpoint-every=3", "--run-dir=" + (folder / "run").string()});
  check_on_full_disk(folder.path(), words, [&](const std::string& output) {
    return output.find("checkpoints") != std::string::npos &&
           output.find("model.safetensors: cannot write: No space") != std::string::npos &&
           files_in(folder / "run/checkpoints") == 0;
  });
}

}  // namespace
}  // namespace lockstep::tests
