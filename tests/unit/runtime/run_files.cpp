#include "runtime/output/run_files.h"

#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::runtime {
namespace {

const std::string step_9 = "{\"step\":9,\"loss\":1.5}\n";
const std::string step_10 = "{\"step\":10,\"loss\":1.25}\n";
const std::string evaluation_10 = "{\"step\":10,\"eval\":{\"loss\":1.0}}\n";
const std::string step_11 = "{\"step\":11,\"loss\":1.0}\n";
const std::string half_a_line = "{\"step\":1";

/// What log.jsonl has of all these lines when such a run opens it.
std::string kept_by(const LoggedPart& part) {
  const tests::TemporaryFolder run;
  tests::write_file(run / "log.jsonl", step_9 + step_10 + evaluation_10 + step_11 + half_a_line);
  const RunFiles files(run.path(), part);
  return tests::contents(run / "log.jsonl");
}

TEST_CASE("log.jsonl keeps whole lines up to the step after which the run goes on") {
  CHECK(kept_by({.step = 9}) == step_9);
  CHECK(kept_by({.step = 10}) == step_9 + step_10 + evaluation_10);
  CHECK(kept_by({.step = 11, .evaluates = true}) == step_9 + step_10 + evaluation_10 + step_11);
}

TEST_CASE("log.jsonl drops an evaluation that the run does again") {
  CHECK(kept_by({.step = 10, .evaluates = true}) == step_9 + step_10);
}

TEST_CASE("log.jsonl of a new run has nothing of another") {
  CHECK(kept_by({}).empty());
}

}  // namespace
}  // namespace lockstep::runtime
