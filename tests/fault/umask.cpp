// A run that a process with a loose umask makes goes on in what it has made.
#include <sys/stat.h>

#include "tests/support/training.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

TEST_CASE("a run under umask 000 goes on, in a folder that it has made and in one that was there") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "before");
  for (const char* name : {"new", "before"}) {
    const fs::path run_dir = folder / name;
    for (const char* steps : {"--max-steps=5", "--max-steps=10"}) {
      CAPTURE(name, steps);
      Program run(Words{"/bin/sh", "-c", "umask 000; exec \"$0\" \"$@\""} +
                  trainer_words(2, {"--model=mlp", "--dataset=synthetic", "--samples=1280", "--threads=1",
                                    "--eval-every=0", "--progress=none", "--checkpoint-every=5",
                                    "--resume=auto", steps, "--run-dir=" + run_dir.string()}));
      const int code = run.wait_for_end();
      INFO(run.output());
      CHECK(code == 0);
    }
    CHECK(nlohmann::json::parse(contents(run_dir / "summary.json"))["steps"] == 10);
    struct stat config {};
    REQUIRE(::stat((run_dir / "config.ini").c_str(), &config) == 0);
    CHECK((config.st_mode & 0777U) == 0664U);
  }
}

}  // namespace
}  // namespace lockstep::tests
