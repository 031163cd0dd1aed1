#include "runtime/checkpoint/run_directory.h"

#include <map>

#include "comm/make_communicator.h"
#include "kernels/base/error.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/restart.h"
#include "runtime/checkpoint/resume.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using tests::write_file;

/// Makes RUN/checkpoints/step-... with little in it.
void add(const fs::path& run, std::int64_t step) {
  CheckpointDirectory(run / "checkpoints").add(step, [step](const fs::path& folder) {
    for (const char* name : checkpoint_files) write_file(folder / name, "tensors");
    RunState state;
    state.step = step;
    write_file(folder / "state.json", to_json(state));
    write_manifest(folder);
  });
}

/// The process works in another folder while the scope lasts.
class WorkingFolder {
 public:
  explicit WorkingFolder(const fs::path& folder) : before_(fs::current_path()) { fs::current_path(folder); }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;
  ~WorkingFolder() { fs::current_path(before_); }

 private:
  const fs::path before_;
};

TEST_CASE("a run is refused in a working directory that is gone, unless it is absolute") {
  const tests::TemporaryFolder folder;
  const auto communicator = comm::make_communicator({}, {});
  fs::create_directory(folder / "gone");
  const WorkingFolder there(folder / "gone");
  fs::remove(folder / "gone");
  CHECK_THAT(tests::message_of<UsageError>([&] { agree_on_run_directory(*communicator, "run", "none"); }),
             tests::contains("the working directory has been removed: cd to one that is there"));
  CHECK(agree_on_run_directory(*communicator, folder / "run", "none").is_new);
}

TEST_CASE("what is typed in a run and beside its checkpoints belongs to the run") {
  const tests::TemporaryFolder run;
  const auto communicator = comm::make_communicator({}, {});
  add(run.path(), 7);
  const auto check = [&](const fs::path& folder, const std::string& typed) {
    INFO(typed);
    const WorkingFolder there(folder);
    const auto found = run_of(typed);
    REQUIRE(found);
    CHECK(fs::equivalent(*found, run.path()));
    const RunDirectory run_directory = agree_on_run_directory(*communicator, *found, typed);
    CHECK(run_directory.resuming);
    const auto point = find_resume_point(*communicator, run_directory);
    REQUIRE(point);
    CHECK(point->state.step == 7);
  };
  for (const char* typed :
       {".", "checkpoints", "checkpoints/", "checkpoints/latest", "checkpoints/step-00000007"})
    check(run.path(), typed);
  for (const char* typed : {".", "latest", "step-00000007", "step-00000007/"})
    check(run / "checkpoints", typed);
}

TEST_CASE("a run in a folder that is called checkpoints is no checkpoint") {
  const tests::TemporaryFolder folder;
  const fs::path run = folder / "checkpoints/run";
  add(run, 7);
  CHECK(run_of(run) == run);
  const WorkingFolder there(folder / "checkpoints");
  CHECK(run_of("run") == "run");
}

TEST_CASE("paths are bytes, UTF-8 or not") {
  const tests::TemporaryFolder folder;
  const fs::path run = folder / "caf\xe9";
  const auto communicator = comm::make_communicator({}, {});
  add(run, 7);
  const fs::path checkpoint = run / "checkpoints/step-00000007";
  for (const std::string& resume : {std::string("auto"), checkpoint.string()}) {
    const RunDirectory run_directory = agree_on_run_directory(*communicator, run, resume);
    CHECK(run_directory.run == run);
    CHECK(run_directory.resume == resume);
    const auto point = find_resume_point(*communicator, run_directory);
    REQUIRE(point);
    CHECK(point->folder == checkpoint);
  }
}

comm::Environment environment_of(const std::map<std::string, std::string>& variables) {
  return [variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST_CASE("a launcher's restart goes on with the run of its own job, however that began, and with no other") {
  const tests::TemporaryFolder run;
  const auto communicator = comm::make_communicator({}, {});
  const std::string named = "elsewhere/checkpoints/step-00000001";
  const auto resumed = [&](const std::string& typed, const std::string& restarts) {
    RunDirectory run_directory = agree_on_run_directory(*communicator, run.path(), typed);
    follow_restart(*communicator, run_directory,
                   environment_of({{"SLURM_RESTART_COUNT", restarts}, {"SLURM_JOB_ID", "77"}}));
    return run_directory.resume;
  };
  const auto lock_of = [](const std::string& job) {
    return "host process 1 run 2\n" + launcher_jobs(environment_of({{"SLURM_JOB_ID", job}}));
  };
  CHECK(lock_of("78") == "host process 1 run 2\nSLURM_JOB_ID=78\n");
  CHECK(resumed("", "0") == "none");
  CHECK(resumed("", "1") == "auto");
  CHECK(resumed(named, "1") == named);
  add(run.path(), 7);
  for (const std::string& lock : {std::string(), lock_of("7"), lock_of("78")}) {
    write_file(run / "lock", lock);
    CHECK(resumed("", "1") == "none");
    CHECK(resumed(named, "1") == named);
    CHECK(resumed("auto", "1") == "auto");
  }
  write_file(run / "lock", lock_of("77"));
  for (const std::string& typed : {std::string(), std::string("none"), std::string("auto"), named}) {
    CHECK(resumed(typed, "1") == "auto");
  }
  CHECK(resumed("", "0") == "none");
  CHECK(resumed(named, "0") == named);
}

TEST_CASE("jobs of torchrun without a name are told apart by their agents") {
  const tests::TemporaryFolder run;
  const auto communicator = comm::make_communicator({}, {});
  add(run.path(), 7);
  const auto environment = [](const std::string& report, const std::string& restarts) {
    return environment_of({{"TORCHELASTIC_RUN_ID", "none"},
                           {"TORCHELASTIC_RESTART_COUNT", restarts},
                           {"TORCHELASTIC_ERROR_FILE", report}});
  };
  const auto resumed = [&](const std::string& jobs, const std::string& report) {
    write_file(run / "lock", "host process 1 run 2\n" + jobs);
    RunDirectory run_directory = agree_on_run_directory(*communicator, run.path(), "");
    follow_restart(*communicator, run_directory, environment(report, "1"));
    return run_directory.resume;
  };
  const std::string begun =
      launcher_jobs(*communicator, environment("/tmp/none_1/attempt_0/3/error.json", "0"));
  CHECK(begun == "TORCHELASTIC_ERROR_FILE=/tmp/none_1\n");
  CHECK(resumed(begun, "/tmp/none_1/attempt_1/0/error.json") == "auto");
  CHECK(resumed("TORCHELASTIC_ERROR_FILE=/tmp/none_0\n" + begun, "/tmp/none_1/attempt_1/0/error.json") ==
        "auto");
  CHECK(resumed(begun, "/tmp/none_2/attempt_1/0/error.json") == "none");
  CHECK(resumed("TORCHELASTIC_RUN_ID=none\n", "/tmp/none_1/attempt_1/0/error.json") == "none");
  // Without logs the agent is this process's parent, both times.
  CHECK(resumed(launcher_jobs(environment("", "0")), "") == "auto");
  CHECK(resumed(begun, "") == "none");
}

std::string refusal_of_unused(const fs::path& run, const std::string& resume) {
  const auto communicator = comm::make_communicator({}, {});
  return tests::message_of<UsageError>(
      [&] { require_unused(*communicator, agree_on_run_directory(*communicator, run, resume)); });
}

TEST_CASE("a finished run without checkpoints is not begun once more in its place") {
  const tests::TemporaryFolder run;
  write_file(run / "summary.json", R"({"stopped": true})");
  CHECK(refusal_of_unused(run.path(), "auto").empty());
  CHECK_THAT(refusal_of_unused(run.path(), "none"), tests::contains("already holds a run"));
  write_file(run / "summary.json", R"({"stopped": false})");
  for (const char* resume : {"auto", "none", "elsewhere"}) {
    CHECK(refusal_of_unused(run.path(), resume) ==
          run.path().string() +
              " holds a finished run and no checkpoint to go on from: name another --run-dir");
  }
  add(run.path(), 7);
  CHECK(refusal_of_unused(run.path(), "auto").empty());
  CHECK_THAT(refusal_of_unused(run.path(), "none"), tests::contains("already holds a run"));
}

TEST_CASE("a finished run whose checkpoints are all damaged is not begun once more in its place") {
  const tests::TemporaryFolder run;
  const auto communicator = comm::make_communicator({}, {});
  for (const std::int64_t step : {5, 7}) {
    add(run.path(), step);
    write_file(CheckpointDirectory(run / "checkpoints").path_of(step) / "model.safetensors", "sensor");
  }
  const auto refusal = [&] {
    const RunDirectory run_directory = agree_on_run_directory(*communicator, run.path(), "auto");
    return tests::message_of<UsageError>([&] {
      require_unused(*communicator, run_directory);
      const auto found = find_resume_point(*communicator, run_directory);  // CHECK would keep what it throws
      CHECK_FALSE(found);
    });
  };
  CHECK(refusal().empty());
  write_file(run / "summary.json", R"({"stopped": true})");
  CHECK(refusal().empty());
  write_file(run / "summary.json", R"({"stopped": false})");
  CHECK_THAT(refusal(),
             tests::contains(run.path().string() + " holds a finished run and no whole checkpoint") &&
                 tests::contains("step-00000007/model.safetensors has 6 bytes") &&
                 tests::contains("name another --run-dir"));
  add(run.path(), 8);
  const auto point =
      find_resume_point(*communicator, agree_on_run_directory(*communicator, run.path(), "auto"));
  REQUIRE(point);
  CHECK(point->state.step == 8);
}

TEST_CASE("weights and options that no run has made are in no run's folder") {
  const std::map<std::string, std::string> kept{{"model.safetensors", "weights"},
                                                {"model.safetensors.index.json", "{}"},
                                                {"model-00001-of-00002.safetensors", "weights"},
                                                {"config.json", R"({"model_type": "llama"})"},
                                                {"config.ini", "lr = 0.1\n"}};
  for (const auto& [name, text] : kept) {
    CAPTURE(name);
    const tests::TemporaryFolder run;
    write_file(run / name, text);
    for (const char* resume : {"none", "auto", "elsewhere"}) {
      CHECK(refusal_of_unused(run.path(), resume) ==
            run.path().string() + " holds " + name + ", which no run has made there: name another --run-dir");
    }
    CHECK(tests::files_in(run.path()) == 1);
    // A run's own, which was killed before it could write its summary.
    write_file(run / "log.jsonl", "");
    write_file(run / "config.ini", "");
    CHECK(refusal_of_unused(run.path(), "none").empty());
  }
  const tests::TemporaryFolder project;
  for (const char* name : {"model-best-of-3.safetensors", "config.json", "README.md"})
    write_file(project / name, "{}");
  CHECK(refusal_of_unused(project.path(), "none").empty());
}

}  // namespace
}  // namespace lockstep::runtime
