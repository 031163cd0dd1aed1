// --detect-anomaly where one rank alone has a bad sample: launch tells 6, that rank and the op, in whatever
// order the ranks end.
#include <array>
#include <limits>

#include <fmt/format.h>

#include "kernels/base/safetensors.h"
#include "tests/support/training.h"

namespace lockstep::tests {
namespace {

constexpr int ranks = 3;
constexpr std::size_t features = 10;
constexpr std::size_t samples = 12;

/// In order and two at a time, step 2 gives rank r the samples 6 + r and 9 + r.
void write_data(const std::filesystem::path& file, int bad_rank) {
  std::array<float, samples * features> inputs{};
  const std::array<float, samples> targets{};
  inputs[(6 + static_cast<std::size_t>(bad_rank)) * features + 1] = std::numeric_limits<float>::quiet_NaN();
  const auto tensor = [](const char* name, std::span<const float> values, Shape shape) {
    return SafetensorsFile::Tensor{name, DType::f32, std::move(shape), std::as_bytes(values)};
  };
  write_safetensors(file, std::array{tensor("inputs", inputs, {samples, features}),
                                     tensor("targets", targets, {samples, 1})});
}

/// How a rank goes on when its trainer has ended, by its code: the one that found the value is to be the
/// last.
struct Ending {
  std::string what;
  std::string script;  ///< "$0" "$@" is the trainer
};

const Ending at_once{"at once", "exec \"$0\" \"$@\""};
// launch sends SIGTERM when a rank that has lost its peer has left.
const Ending after_the_others{"after the others",
                              "trap told=1 TERM; \"$0\" \"$@\"; code=$?; "
                              "[ $code != 6 ] || until [ $told ]; do sleep 1000 & wait; done; exit $code"};
const Ending not_by_itself{
    "not by itself", "trap '' TERM; \"$0\" \"$@\"; code=$?; [ $code = 6 ] || exit $code; exec sleep 1000"};

TEST_CASE("--detect-anomaly: the rank that found the value decides, whenever it ends: 6") {
  const int bad_rank = GENERATE(0, 1, 2);
  const Ending ending = GENERATE(as<Ending>(), at_once, after_the_others, not_by_itself);
  CAPTURE(bad_rank, ending.what);
  const TemporaryFolder folder;
  write_data(folder / "data.safetensors", bad_rank);
  Program run({LAUNCH_PROGRAM, "--nproc_per_node=" + std::to_string(ranks), "sh", "-c", ending.script,
               TRAINER_PROGRAM, "--model=linear", "--dataset=tensors",
               "--data-dir=" + (folder / "data.safetensors").string(), "--no-shuffle", "--batch-size=2",
               "--num-workers=1", "--threads=1", "--epochs=1", "--eval-every=0", "--detect-anomaly",
               "--progress=none", "--run-dir=" + (folder / "run").string()});
  CHECK(run.wait_for_end() == 6);
  INFO(run.output());
  const std::string found =
      fmt::format("rank {}, step 2, linear: the first result that is not finite", bad_rank);
  CHECK_THAT(run.output(), contains(fmt::format("launch: rank {} (pid ", bad_rank)));
  CHECK_THAT(run.output(), contains("launch:   it said: " + found));
  const auto report = nlohmann::json::parse(contents(folder / "run/failure.json"));
  CHECK(report["cause"].get<std::string>().starts_with(found));
}

}  // namespace
}  // namespace lockstep::tests
