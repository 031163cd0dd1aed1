#include "tests/cluster/gpus.h"

namespace lockstep::tests {
namespace {

struct Report {
  int code = 0;
  nlohmann::json json;
};

/// The error's line may stand before the JSON.
Report examined(const Words& words) {
  Program program(Words{TRAINER_PROGRAM, "devices", "--json"} + words);
  const int code = program.wait_for_end();
  INFO(program.output());
  const std::size_t start = program.output().find("{\n");
  const std::size_t end = program.output().find("\n}\n");
  REQUIRE(start < end);
  REQUIRE(end != std::string::npos);
  return {.code = code, .json = nlohmann::json::parse(program.output().substr(start, end + 3 - start))};
}

}  // namespace

TEST_CASE("trainer devices --json tells of each GPU and of the libraries") {
  give_gpus(3);
  const auto [code, report] = examined({});
  CHECK(code == 0);
  const nlohmann::json& gpus = report.at("gpus");
  REQUIRE(gpus.size() == 3);
  for (std::size_t index = 0; index < gpus.size(); ++index) {
    const nlohmann::json& gpu = gpus[index];
    CHECK(gpu.at("index") == index);
    CHECK(gpu.at("compute_capability") == "9.0");
    CHECK(gpu.at("multiprocessors") == 4);
    CHECK(gpu.at("memory_bytes").get<std::int64_t>() >= gpu.at("free_bytes").get<std::int64_t>());
    CHECK(gpu.at("memory_bandwidth") == 128e9);  // 512 lines, 1 GHz, twice a clock
    CHECK_THAT(gpu.at("uuid").get<std::string>(), contains("GPU-51"));
    CHECK(gpu.at("problem").is_null());
  }
  CHECK(report.at("device").at("kind") == "cuda");
  CHECK(report.at("cuda").at("build") == "simulated");
  CHECK(report.at("cuda").at("problem").is_null());
  CHECK(report.at("cuda").at("version") == report.at("cuda").at("driver_cuda"));
  for (const char* library : {"gemm_library", "dnn_library"}) {
    CHECK_FALSE(report.at("cuda").at(library).get<std::string>().empty());
  }
  CHECK_THAT(report.at("backends").at("nccl").get<std::string>(), contains("NCCL"));
}

TEST_CASE("trainer devices --require ends with 0 where that GPU can be used, else with 4") {
  const auto [gpus, required, wanted] = GENERATE(table<int, std::string, int>({{0, "cuda", 4},
                                                                               {0, "cuda:0", 4},
                                                                               {1, "cuda", 0},
                                                                               {1, "cuda:0", 0},
                                                                               {1, "cuda:1", 4},
                                                                               {2, "cuda:1", 0}}));
  CAPTURE(gpus, required);
  give_gpus(gpus);
  const auto [code, report] = examined({"--require", required});
  CHECK(code == wanted);
  CHECK(report.at("gpus").size() == static_cast<std::size_t>(gpus));
  CHECK(report.at("device").at("problem").is_null() == (wanted == 0));
  if (wanted == 0) CHECK(report.at("device").at("kind") == "cuda");
}

TEST_CASE("a GPU that another process holds alone hides neither the others nor the versions") {
  const std::size_t held = GENERATE(0, 1);
  CAPTURE(held);
  give_gpus(2);
  const Variable variable("SIMGPU_HELD", std::to_string(held));
  const auto [code, report] = examined({});
  CHECK(code == 0);
  REQUIRE(report.at("gpus").size() == 2);
  const nlohmann::json& bad = report.at("gpus").at(held);
  CHECK_THAT(bad.at("problem").get<std::string>(), contains("another process holds the GPU alone"));
  CHECK(bad.at("free_bytes").is_null());
  CHECK(bad.at("memory_bytes").get<std::int64_t>() > 0);
  CHECK(report.at("gpus").at(1 - held).at("problem").is_null());
  CHECK(report.at("device").at("problem").is_null() == (held == 1));
  CHECK(report.at("cuda").at("problem").is_null());
  CHECK(report.at("cuda").contains("version"));
  Program text(Words{TRAINER_PROGRAM, "devices"});
  CHECK(text.wait_for_end() == 0);
  CHECK_THAT(text.output(), contains(", unusable: cuda: cannot choose the GPU"));
  CHECK_THAT(text.output(), contains("gpu " + std::to_string(1 - held) + ": simulated"));
}

TEST_CASE("a GPU of compute capability 7.5 can be used, an older one cannot") {
  const int capability = GENERATE(70, 75);
  CAPTURE(capability);
  give_gpus(1);
  const Variable variable("SIMGPU_CAPABILITY", std::to_string(capability));
  const auto [code, report] = examined({"--require=cuda"});
  CHECK(code == (capability < 75 ? 4 : 0));
  CHECK(report.at("gpus").at(0).at("problem").is_null() == (capability >= 75));
}

TEST_CASE("on a GPU without bf16 --amp is fp16, and bf16 is refused") {
  give_gpus(1);
  const Variable variable("SIMGPU_CAPABILITY", "75");
  const TemporaryFolder folder;
  const Words options = small_images + Words{"--model=mlp", "--device=cuda", "--max-steps=2"};
  CHECK(train(1, options + Words{"--amp"}, folder.path() / "mixed").at("amp") == "fp16");
  Program run(
      trainer_words(1, options + Words{"--amp=bf16", "--run-dir", (folder.path() / "refused").string()}));
  CHECK(run.wait_for_end() == 2);
  CHECK_THAT(run.output(), contains("give --amp fp16"));
}

}  // namespace lockstep::tests
