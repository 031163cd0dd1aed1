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

TEST_CASE("GradScaler's scale and the updates that were applied are told where there is one") {
  const tests::TemporaryFolder run;
  const RunFiles files(run.path(), {});
  files.log_step({.step = 1});
  CHECK(tests::contents(run / "log.jsonl").find("grad_scale") == std::string::npos);
  files.log_step({.step = 2, .grad_scale = 32768});
  CHECK_THAT(tests::contents(run / "log.jsonl"), tests::contains("\"grad_scale\":32768"));
  Summary summary;
  CHECK(to_json(summary).find("applied_updates") == std::string::npos);
  summary.applied_updates = 3;
  summary.grad_scale = 128;
  CHECK_THAT(to_json(summary),
             tests::contains("\"applied_updates\": 3") && tests::contains("\"grad_scale\": 128"));
}

}  // namespace
}  // namespace lockstep::runtime
