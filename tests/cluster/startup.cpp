// What comes before the first step of a run: when its time begins, and which libraries a run on the CPU maps.
#include <array>
#include <csignal>
#include <sstream>
#include <string_view>

#include "tests/support/training.h"

namespace lockstep::tests {
namespace {

const Words small{"--model=mlp", "--dataset=synthetic", "--samples=512",
                  "--threads=1", "--device=cpu",        "--eval-every=0"};

/// For what a shell does before it starts the trainer, which is a process of its own and so has its own
/// start.
Words behind_a_second(const std::filesystem::path& run_dir) {
  return Words{"/bin/sh", "-c", "sleep 1; \"$0\" \"$@\"", TRAINER_PROGRAM} + small +
         Words{"--max-steps=2", "--run-dir=" + run_dir.string()};
}

constexpr double second_ms = 1000;
constexpr double tick_ms = 10;  // a process's start is told in these

struct Started {
  double startup_ms;
  double all_ms;  ///< from before the start of the whole until after its end
};

Started started(const Words& words, const std::filesystem::path& run_dir) {
  Program run(words);
  const int code = run.wait_for_end();
  INFO(run.output());
  REQUIRE(code == 0);
  const auto summary = nlohmann::json::parse(contents(run_dir / "summary.json"));
  return {summary.at("startup_ms").get<double>(), run.age().count() * 1e3};
}

TEST_CASE("startup_ms begins with launch, and without it with the trainer") {
  const TemporaryFolder folder;
  const Started launched =
      started(Words{LAUNCH_PROGRAM, "--nproc_per_node=2"} + behind_a_second(folder / "two"), folder / "two");
  CHECK(launched.startup_ms >= second_ms);
  CHECK(launched.startup_ms <= launched.all_ms + tick_ms);
  const Started alone = started(behind_a_second(folder / "one"), folder / "one");
  CHECK(alone.startup_ms > 0);
  CHECK(alone.startup_ms <= alone.all_ms - second_ms + tick_ms);
}

constexpr std::array<std::string_view, 11> unwanted{
    "libmpi",    "libopen-", "liblockstep_mpi", "liblockstep_cuda", "libcuda.so", "libcudart",
    "libcublas", "libcudnn", "libnccl",         "libnvidia-ml",     "libsimgpu"};

/// Names of files without their folders, which may be called anything.
std::string unwanted_maps(pid_t pid) {
  std::string found;
  std::istringstream maps(contents("/proc/" + std::to_string(pid) + "/maps"));
  for (std::string line; std::getline(maps, line);) {
    const std::string name = line.substr(line.rfind('/') + 1);
    for (const std::string_view library : unwanted) {
      if (name.starts_with(library)) found += name + "\n";
    }
  }
  return found;
}

TEST_CASE("a run on the CPU that exchanges by host maps no library of MPI or of GPUs") {
  const TemporaryFolder folder;
  Program run(Words{LAUNCH_PROGRAM, "--nproc_per_node=2", "/bin/sh", "-c",
                    "echo pid$RANK=$$.; exec \"$0\" \"$@\"", TRAINER_PROGRAM} +
              small +
              Words{"--epochs=1000000", "--backend=host", "--progress=plain",
                    "--run-dir=" + (folder / "run").string()});
  run.wait_for(".\n", 2);
  run.wait_for("step ");
  for (const char* rank : {"pid0", "pid1"}) {
    const pid_t pid = run.number_after(rank);
    CHECK_THAT(contents("/proc/" + std::to_string(pid) + "/maps"), contains("/trainer"));
    CHECK(unwanted_maps(pid) == "");
  }
  ::kill(run.pid(), SIGTERM);
  CHECK(run.wait_for_end() == 75);
}

}  // namespace
}  // namespace lockstep::tests
