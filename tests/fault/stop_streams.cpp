#include "tests/fault/stop_runs.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

/// `words` with these of its standard streams closed: "<&- >&- 2>&-".
Words without(const std::string& streams, const Words& words) {
  return in_script("/bin/sh", "exec \"$0\" \"$@\" " + streams, words);
}

TEST_CASE("streams that are closed at the start: text goes to /dev/null, not into the files of the run") {
  const std::string streams = GENERATE("<&-", ">&-", "2>&-", "<&- >&- 2>&-");
  const int ranks = GENERATE(1, 2);
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  const Words trainer{TRAINER_PROGRAM,
                      "--model=mlp",
                      "--dataset=synthetic",
                      "--samples=512",
                      "--threads=1",
                      "--max-steps=20",
                      "--eval-every=0",
                      "--log-every=1",
                      "--progress=plain",
                      "--checkpoint-every=5",
                      "--run-dir=" + run_dir.string()};
  Program run(without(streams, ranks == 1 ? trainer : launched(ranks, trainer)));
  INFO(streams << ", " << ranks << " ranks\n" << run.output());
  CHECK(run.wait_for_end() == 0);
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(run_dir)) {
    if (!entry.is_regular_file()) continue;
    const std::string text = contents(entry.path());
    INFO(entry.path());
    CHECK(text.find("samples/s") == std::string::npos);
    CHECK(text.find("planned per rank") == std::string::npos);
  }
  CHECK(nlohmann::json::parse(contents(run_dir / "summary.json"))["steps"] == 20);
}

TEST_CASE("programs that launch starts have three open streams, whatever launch was given") {
  const std::string streams = GENERATE("<&-", "<&- 2>&-");
  Program run(without(streams, launched(2, {"sh", "-c",
                                            "cat; for fd in 0 2; do "
                                            "[ -e /proc/self/fd/$fd ] || exit 9; done; echo fine$RANK"})));
  CHECK(run.wait_for_end() == 0);
  CHECK_THAT(run.output(), contains("fine0") && contains("fine1"));
}

TEST_CASE("launch without an environment trains") {
  const TemporaryFolder folder;
  Program run(
      Words{"/usr/bin/env", "-i"} +
      launched(2, {TRAINER_PROGRAM, "--model=mlp", "--dataset=synthetic", "--samples=512", "--threads=1",
                   "--max-steps=5", "--eval-every=0", "--run-dir=" + (folder / "run").string()}));
  CHECK(run.wait_for_end() == 0);
}

}  // namespace
}  // namespace lockstep::tests
