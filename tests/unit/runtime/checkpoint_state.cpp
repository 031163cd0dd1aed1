#include "comm/make_communicator.h"
#include "kernels/base/error.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/checkpointer.h"
#include "runtime/checkpoint/restart.h"
#include "runtime/checkpoint/resume.h"
#include "runtime/checkpoint/run_directory.h"
#include "runtime/checkpoint/run_state.h"
#include "runtime/options/table.h"
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

RunState state_at(std::int64_t step) {
  return {.step = step,
          .epoch = 3,
          .epoch_samples = 1088,
          .samples = 123456789012,
          .applied_updates = step - 1,
          .loss = static_cast<double>(0.1F),
          .evaluated_at_step = step - 2,
          .time = 1700000000.125,
          .settings = {{"ranks", "2"}, {"--lr", "0.1"}},
          .machine = {{"threads", "4"}},
          .algorithms = {{"conv1 conv2d", "winograd"}}};
}

void add(const CheckpointDirectory& directory, std::int64_t step) {
  directory.add(step, [step](const fs::path& folder) {
    for (const char* name : checkpoint_files) write_file(folder / name, "tensors");
    write_file(folder / "state.json", to_json(state_at(step)));
    write_manifest(folder);
  });
}

TEST_CASE("state.json gives back every number to the bit") {
  const tests::TemporaryFolder folder;
  const RunState before = state_at(1200);
  write_file(folder / "state.json", to_json(before));
  const RunState after = read_run_state(folder / "state.json");
  CHECK(to_json(after) == to_json(before));
  CHECK(after.loss == before.loss);
  CHECK(after.samples == before.samples);
  CHECK(after.applied_updates == 1199);
  CHECK(after.algorithms == before.algorithms);
  CHECK(after.replayed == std::nullopt);
}

TEST_CASE("state.json gives back what was decided on graphs") {
  const tests::TemporaryFolder folder;
  const bool replayed = GENERATE(false, true);
  RunState state = state_at(1200);
  state.replayed = replayed;
  write_file(folder / "state.json", to_json(state));
  CHECK(read_run_state(folder / "state.json").replayed == replayed);
}

TEST_CASE("state.json gives back the steps of the schedule; an older one tells none") {
  const tests::TemporaryFolder folder;
  RunState state = state_at(1200);
  write_file(folder / "state.json", to_json(state));
  CHECK(read_run_state(folder / "state.json").schedule_steps == 0);
  state.schedule_steps = 2814;
  write_file(folder / "state.json", to_json(state));
  CHECK(read_run_state(folder / "state.json").schedule_steps == 2814);
}

TEST_CASE("a state that is none names its file") {
  const tests::TemporaryFolder folder;
  for (const char* text : {"", "[]", "{\"format\": 2}", "{\"format\": 3}", "{\"format\": 3, \"step\": \"x\"}",
                           "{\"format\": 3, \"step\": -1}", "{\"format\": 3, \"step\": 1e300}"}) {
    write_file(folder / "state.json", text);
    CHECK_THAT(message_of<DataError>([&] { read_run_state(folder / "state.json"); }), contains("state.json"));
  }
}

/// As Lockstep wrote it while positions were those of one rank.
constexpr const char* state_of_format_1 = R"({
  "format": 1, "version": "0.1.0", "time": 1795317811.785, "step": 3, "epoch": 0, "batch": 3, "samples": 24,
  "loss": 2.4201974868774414, "evaluated_at_step": -1, "settings": {"ranks": "1", "--batch-size": "8"},
  "machine": {"threads": "2", "backend": "solo"}, "algorithms": {}
})";

TEST_CASE("a checkpoint of another format is refused by name, not passed over and not trained over") {
  const tests::TemporaryFolder run;
  const auto communicator = comm::make_communicator({}, {});
  const CheckpointDirectory directory(run / "checkpoints");
  add(directory, 2);
  directory.add(3, [](const fs::path& folder) {
    for (const char* name : checkpoint_files) write_file(folder / name, "tensors");
    write_file(folder / "state.json", state_of_format_1);
    write_manifest(folder);
  });
  for (const std::string& resume : {std::string("auto"), directory.path_of(3).string()}) {
    const std::string message = message_of<DataError>(
        [&] { find_resume_point(*communicator, agree_on_run_directory(*communicator, run.path(), resume)); });
    CHECK(message ==
          (directory.path_of(3) / "state.json").string() +
              ": was written by Lockstep 0.1.0 in format 1; this version reads format 3: go on with "
              "that version, or begin anew in another --run-dir without --resume PATH");
  }
  add(directory, 4);
  const auto point =
      find_resume_point(*communicator, agree_on_run_directory(*communicator, run.path(), "auto"));
  REQUIRE(point);
  CHECK(point->state.step == 4);
}

TEST_CASE("a run resumes only with the settings that its results depend on; others may differ") {
  const comm::World world{.rank = 0, .size = 2};
  const auto settings = [&](const std::vector<std::string>& words) {
    return settings_of(parse_options(words), world, 1000, "d0");
  };
  const Settings saved = settings({"--model=mlp", "--lr=0.1"});
  const auto refusal = [&](const std::vector<std::string>& words) {
    return message_of<UsageError>([&] { require_same_settings("RUN/step", saved, settings(words)); });
  };
  CHECK(
      refusal({"--model=mlp", "--lr=0.1", "--log-every=7", "--epochs=9", "--timeout=3", "--quiet"}).empty());
  CHECK(refusal({"--model=mlp", "--lr=0.1", "--global-batch=128"}).empty());  // 64 on each of two
  CHECK(refusal({"--model=mlp", "--lr=0.2"}) ==
        "RUN/step was made with --lr 0.1 (now 0.2): give the same to go on, or another --run-dir to begin "
        "anew");
  CHECK_THAT(refusal({"--model=mlp", "--lr=0.1", "--batch-size=32"}), contains("--batch-size 64 (now 32)"));
  CHECK_THAT(refusal({"--model=mlp", "--lr=0.1", "--seed=4", "--model-args=hidden=32"}),
             contains("--model-args not given (now hidden=32), --seed 0 (now 4)"));
  const auto others = settings_of(parse_options({"--model=mlp", "--lr=0.1"}), {.size = 4}, 999, "d1");
  CHECK(differences(saved, others) ==
        "ranks 2 (now 4), samples of the training set 1000 (now 999), "
        "contents of the training set d0 (now d1)");
  // On other ranks a batch of each rank is another, too.
  const auto on_four =
      settings_of(parse_options({"--model=mlp", "--lr=0.1", "--batch-size=32"}), {.size = 4}, 1000, "d0");
  CHECK(message_of<UsageError>([&] { require_same_settings("RUN/step", saved, on_four); }).empty());
  const auto on_one =
      settings_of(parse_options({"--model=mlp", "--lr=0.1", "--accumulate-steps=2"}), {}, 1000, "d0");
  CHECK(message_of<UsageError>([&] { require_same_settings("RUN/step", saved, on_one); }).empty());
  CHECK_FALSE(refusal({"--model=mlp", "--lr=0.1", "--accumulate-steps=2"}).empty());
  CHECK(refusal({"--model=mlp", "--lr=0.1", "--tokenizer=elsewhere"}).empty());
  CHECK_THAT(message_of<UsageError>([&] { require_same_settings("RUN/step", saved, others); }),
             contains("made with samples of the training set 1000 (now 999)"));
  CHECK(differences({{"a", ""}}, {{"a", "1"}}) == "a not given (now 1)");
  CHECK(differences({}, {{"a", "1"}}) == "a not given (now 1)");
}

TEST_CASE("a checkpoint from before an option had its default") {
  CHECK(differences({}, {{"--lr-schedule", "constant"}, {"--ema", "0"}, {"--clip-grad-value", ""}}).empty());
  CHECK(differences({}, {{"--lr-schedule", "step"}}) == "--lr-schedule constant (now step)");
  for (const char* name :
       {bytes_setting, files_setting, classes_setting, tokens_setting, tokenizer_setting}) {
    CHECK(differences({}, {{name, "a"}}).empty());
    CHECK(differences({{name, "a"}}, {{name, "b"}}) == std::string(name) + " a (now b)");
  }
}

TEST_CASE("a run goes on to another end only where its learning rate does not depend on that") {
  const auto refusal = [](const std::string& schedule, const std::string& before, const std::string& now) {
    const auto settings = [&](const std::string& end) {
      return settings_of(parse_options({"--lr-schedule=" + schedule, end}), {}, 1000, "d0");
    };
    return message_of<UsageError>(
        [&] { require_same_settings("RUN/step", settings(before), settings(now)); });
  };
  for (const char* schedule : {"constant", "step"}) {
    CHECK(refusal(schedule, "--max-steps=9", "--max-steps=99").empty());
    CHECK(refusal(schedule, "--epochs=1", "--epochs=2").empty());
  }
  CHECK_THAT(refusal("cosine", "--max-steps=9", "--max-steps=99"),
             contains("end of the learning-rate schedule --max-steps 9 (now --max-steps 99)"));
  CHECK_THAT(refusal("linear", "--epochs=1", "--epochs=2"),
             contains("end of the learning-rate schedule --epochs 1 (now --epochs 2)"));
}

TEST_CASE("ranks agree on the end of a schedule only where the rate depends on it") {
  using Kind = kernels::LearningRateSchedule::Kind;
  const auto description = [](Kind kind, std::int64_t steps) {
    model::OptimizerOptions optimizer;
    optimizer.schedule = {.kind = kind, .warmup_steps = 3, .steps = steps};
    return model::describe(optimizer);
  };
  for (const Kind kind : {Kind::constant, Kind::step}) CHECK(description(kind, 9) == description(kind, 99));
  for (const Kind kind : {Kind::cosine, Kind::linear}) CHECK(description(kind, 9) != description(kind, 99));
}

TEST_CASE("the table marks the options that results depend on") {
  const Settings settings = settings_of({}, {}, 1000, "");
  for (const OptionEntry& entry : option_table()) {
    INFO(entry.name);
    const bool is_setting =
        std::ranges::count(settings, "--" + entry.name, &Settings::value_type::first) == 1;
    // The batch over all ranks shows as each rank's.
    CHECK(is_setting == (entry.decides == Decides::numbers && entry.name != "global-batch"));
  }
}

TEST_CASE("which run a path belongs to") {
  CHECK(run_of("a/checkpoints/step-00000007") == "a");
  CHECK(run_of("a/checkpoints/latest") == "a");
  CHECK(run_of("a/checkpoints/") == "a");
  CHECK(run_of("a") == "a");
  const tests::TemporaryFolder copy;
  write_file(copy / "state.json", "{}");
  CHECK_FALSE(run_of(copy.path()));
}

TEST_CASE("a run's folder: as given, that of the checkpoint, or a name of its own") {
  const comm::World world{.run_id = "77"};
  const auto folder = [&](const std::string& resume, const char* run_dir = "") {
    Options options = parse_options({"--resume=" + resume});
    options.run_dir = run_dir;
    return run_folder(options, "mlp", world);
  };
  CHECK(folder("auto") == "runs/mlp-fashion-mnist-77");
  CHECK(folder("auto", "mine") == "mine");
  CHECK(folder("old/checkpoints/step-00000003") == "old");
  CHECK(folder("old/checkpoints/step-00000003", "mine") == "mine");
}

TEST_CASE("a launcher's restart resumes by default") {
  const auto by = [](const std::string& name, const std::string& value) {
    return default_resume(
        [&](const char* wanted) { return wanted == name ? std::optional(value) : std::nullopt; });
  };
  CHECK(by("TORCHELASTIC_RESTART_COUNT", "1") == "auto");
  CHECK(by("SLURM_RESTART_COUNT", "2") == "auto");
  CHECK(by("TORCHELASTIC_RESTART_COUNT", "0") == "none");
  CHECK(by("SLURM_RESTART_COUNT", "") == "none");
  CHECK(by("HOME", "1") == "none");
}

TEST_CASE("the newest whole checkpoint is found; damaged ones are passed over") {
  const tests::TemporaryFolder run;
  const auto communicator = comm::make_communicator({}, {});
  const auto found = [&](const std::string& resume) -> std::int64_t {
    const RunDirectory run_directory = agree_on_run_directory(*communicator, run.path(), resume);
    const auto point = find_resume_point(*communicator, run_directory);
    return point ? point->state.step : -1;
  };
  CHECK(found("auto") == -1);
  const CheckpointDirectory directory(run / "checkpoints");
  for (const std::int64_t step : {10, 20, 30}) add(directory, step);
  CHECK(found("none") == -1);
  CHECK(found("auto") == 30);
  write_file(directory.path_of(30) / "model.safetensors", "tensorz");
  CHECK(found("auto") == 20);
  fs::remove(directory.path_of(20) / "manifest.json");
  CHECK(found("auto") == 10);
  CHECK(found(run.path().string()) == 10);
  CHECK(found(directory.folder().string()) == 10);
  CHECK(found(directory.path_of(10).string()) == 10);
  CHECK_THAT(message_of<DataError>([&] { found(directory.path_of(30).string()); }), contains("SHA-256"));
  CHECK_THAT(message_of<DataError>([&] { found((run / "none").string()); }),
             contains("there is no checkpoint"));
}

TEST_CASE("a run's folder is not taken by another") {
  const tests::TemporaryFolder run;
  const auto communicator = comm::make_communicator({}, {});
  const auto refusal = [&](const std::string& resume) {
    return message_of<UsageError>(
        [&] { require_unused(*communicator, agree_on_run_directory(*communicator, run.path(), resume)); });
  };
  fs::create_directories(run / "checkpoints");
  CHECK(refusal("none").empty());
  const CheckpointDirectory directory(run / "checkpoints");
  add(directory, 10);
  CHECK_THAT(refusal("none"), contains("already holds a run"));
  CHECK_THAT(refusal("elsewhere/checkpoints/step-00000010"), contains("already holds a run"));
  CHECK(refusal("auto").empty());
  CHECK(refusal(directory.path_of(10).string()).empty());
  CHECK(tests::files_in(run.path()) == 1);  // what ranks look for is gone again
}

TEST_CASE("diverged replicas are those that differ from most") {
  CHECK(diverged_ranks({"a"}).empty());
  CHECK(diverged_ranks({"a", "a", "a"}).empty());
  CHECK(diverged_ranks({"b", "a", "a"}) == std::vector{0});
  CHECK(diverged_ranks({"a", "b", "a", "c"}) == std::vector{1, 3});
  CHECK(diverged_ranks({"a", "b"}) == std::vector{1});
  CHECK_THAT(message_of<CommError>([] {
               require_equal_replicas({"a", "a", "b"}, 40);
             }),
             contains("after step 40 rank 2 has other weights than the others"));
  CHECK_THAT(message_of<CommError>([] {
               require_equal_replicas({"a", "b"}, 40);
             }),
             contains("either may be wrong"));
}

}  // namespace
}  // namespace lockstep::runtime
