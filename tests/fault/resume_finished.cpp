// A run that has come to its end is not trained again, whatever older checkpoints are beside its results.
#include "tests/fault/resume_runs.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

Words small(const Words& more) {
  return Words{"--model=mlp",    "--dataset=synthetic", "--samples=640", "--threads=1",
               "--eval-every=0", "--log-every=1",       "--resume=auto", "--progress=plain"} +
         more;
}

struct Ended {
  int code = -1;
  std::string said;
};

Ended ended(const fs::path& run_dir, const Words& more) {
  Program run(trainer_words(1, small(more) + Words{"--run-dir", run_dir.string()}));
  const int code = run.wait_for_end();
  return {code, run.output()};
}

TEST_CASE("a run that a signal stopped once and that has ended since is left as it is, and may go on") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  const Words whole{"--max-steps=2000"};
  {
    Program run(trainer_words(1, small(whole) + Words{"--run-dir", run_dir.string()}));
    wait_until_seen([&] { return logged_step(run_dir) >= 3; });
    ::kill(run.pid(), SIGTERM);
    CHECK(run.wait_for_end() == 75);
  }
  REQUIRE(ended(run_dir, whole).code == 0);
  const std::string summary = contents(run_dir / "summary.json");
  const std::string log = contents(run_dir / "log.jsonl");
  const Ended again = ended(run_dir, whole);
  CHECK(again.code == 0);
  CHECK_THAT(again.said, contains("nothing is left to do after 2000 steps"));
  CHECK(contents(run_dir / "summary.json") == summary);
  CHECK(contents(run_dir / "log.jsonl") == log);
  const Ended longer = ended(run_dir, {"--max-steps=2010"});
  CHECK(longer.code == 0);
  CHECK_THAT(longer.said, contains("goes on after step 2000 "));
}

TEST_CASE("a finished run without a checkpoint of its end goes on only from one that is named") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  const Words whole{"--max-steps=8", "--checkpoint-every=5"};
  REQUIRE(ended(run_dir, whole).code == 0);
  fs::remove_all(directory_of(run_dir).path_of(8));
  const std::string summary = contents(run_dir / "summary.json");
  const std::string older = directory_of(run_dir).path_of(5).string();
  for (const std::string& resume : {std::string("auto"), run_dir.string()}) {
    for (const char* steps : {"--max-steps=8", "--max-steps=20"}) {
      const Ended end = ended(run_dir, {steps, "--resume=" + resume});
      CHECK(end.code == 2);
      CHECK_THAT(end.said, contains("holds a run that finished after step 8, and its newest checkpoint is of "
                                    "step 5: name another --run-dir, or train again from there by --resume " +
                                    older));
    }
  }
  CHECK(contents(run_dir / "summary.json") == summary);
  CHECK(ended(run_dir, {"--max-steps=8", "--resume=" + older}).code == 0);
}

}  // namespace
}  // namespace lockstep::tests
