// What --resume PATH goes on from, and what in RUN/ forbids that.
#include "runtime/checkpoint/resume.h"

#include <optional>
#include <string>

#include "comm/make_communicator.h"
#include "kernels/base/error.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/run_directory.h"
#include "runtime/checkpoint/run_state.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using tests::contains;
using tests::message_of;
using tests::write_file;

/// Makes RUN/checkpoints/step-... with little in it.
void add(const fs::path& run, const RunState& state) {
  CheckpointDirectory(run / "checkpoints").add(state.step, [&state](const fs::path& folder) {
    for (const char* name : checkpoint_files) write_file(folder / name, "tensors");
    write_file(folder / "state.json", to_json(state));
    write_manifest(folder);
  });
}

RunState state_at(std::int64_t step) {
  RunState state;
  state.step = step;
  return state;
}

std::optional<ResumePoint> found(const fs::path& run, const fs::path& resume) {
  const auto communicator = comm::make_communicator({}, {});
  return find_resume_point(*communicator, agree_on_run_directory(*communicator, run, resume.string()));
}

TEST_CASE("what --resume PATH cannot go on with is not cured by another RUN") {
  const auto advice = [](bool asked_for) {
    return message_of<UsageError>([&] {
      require_same_settings("q/step", {{"--lr", "1"}}, {{"--lr", "2"}}, asked_for);
    });
  };
  const std::string said = "q/step was made with --lr 1 (now 2): give the same to go on, or ";
  CHECK(advice(true) == said + "--init-from in the place of --resume to begin anew from its weights");
  CHECK(advice(false) == said + "another --run-dir to begin anew");
}

TEST_CASE("in a copy that followed links latest is a checkpoint of its own") {
  const tests::TemporaryFolder run;
  add(run.path(), state_at(7));
  const fs::path latest = run / "checkpoints/latest";
  fs::remove(latest);
  fs::rename(run / "checkpoints/step-00000007", latest);
  const auto point = found(run.path(), latest);
  REQUIRE(point);
  CHECK(point->state.step == 7);
  CHECK(point->folder == latest);
}

TEST_CASE("latest may be the name of a run") {
  const tests::TemporaryFolder folder;
  add(folder / "run", state_at(7));
  fs::create_directory_symlink("run", folder / "latest");
  const auto point = found(folder / "latest", folder / "latest");
  REQUIRE(point);
  CHECK(point->state.step == 7);
}

TEST_CASE("a latest that leads elsewhere or is missing is none, as any checkpoint") {
  const tests::TemporaryFolder run;
  add(run.path(), state_at(7));
  const fs::path latest = run / "checkpoints/latest";
  const auto refusal = [&] { return message_of<DataError>([&] { found(run.path(), latest); }); };
  fs::remove(latest);
  CHECK_THAT(refusal(), contains("there is no checkpoint"));
  fs::create_directory_symlink("../checkpoints/step-00000007", latest);
  CHECK_THAT(refusal(), contains("no whole checkpoint: " + latest.string() + " is a symbolic link"));
}

TEST_CASE("an earlier checkpoint is not gone on from beside a later one that the run would not come to") {
  const tests::TemporaryFolder run;
  const auto communicator = comm::make_communicator({}, {});
  const CheckpointDirectory directory(run / "checkpoints");
  const Settings settings{{"ranks", "2"}, {"--lr", "0.1"}, {"--tokenizer", "here"}};
  const Settings machine{{"threads", "4"}};
  for (const std::int64_t step : {10, 20, 30}) {
    RunState state = state_at(step);
    state.settings = settings;
    state.machine = machine;
    add(run.path(), state);
  }
  const auto refusal = [&](const fs::path& resume, std::int64_t step, const Settings& now,
                           const Settings& on) {
    const RunDirectory run_directory = agree_on_run_directory(*communicator, run.path(), resume.string());
    return message_of<UsageError>([&] { require_one_course(*communicator, run_directory, step, now, on); });
  };
  const Settings on_one{{"ranks", "1"}, {"--lr", "0.1"}, {"--tokenizer", "here"}};
  const Settings moved{{"ranks", "2"}, {"--lr", "0.1"}, {"--tokenizer", "there"}};
  const fs::path earlier = directory.path_of(10);
  CHECK(refusal(earlier, 10, settings, machine).empty());
  CHECK(refusal(earlier, 10, moved, machine).empty());
  CHECK_THAT(refusal(earlier, 10, settings, {{"threads", "2"}}),
             contains("step-00000030 is later and was made with threads 4 (now 2)"));
  CHECK_THAT(refusal(earlier, 10, on_one, machine),
             contains("step-00000030 is later and was made with ranks 2 (now 1)"));
  CHECK(refusal(directory.path_of(30), 30, on_one, machine).empty());
  CHECK(refusal("auto", 10, on_one, machine).empty());
  CHECK(refusal(run.path(), 10, on_one, machine).empty());
  write_file(directory.path_of(30) / "state.json", "{");
  CHECK_THAT(refusal(earlier, 10, on_one, machine), contains("step-00000020 is later"));
  write_file(directory.path_of(20) / "model.safetensors", "cut");
  CHECK(refusal(earlier, 10, on_one, machine).empty());
}

}  // namespace
}  // namespace lockstep::runtime
