#include "tests/support/training.h"

namespace lockstep::tests {
namespace {

nlohmann::json devices_json(const Words& words = {}) {
  Program program(Words{TRAINER_PROGRAM, "devices", "--json"} + words);
  const int code = program.wait_for_end();
  INFO(program.output());
  REQUIRE(code == 0);
  return nlohmann::json::parse(program.output());
}

}  // namespace

TEST_CASE("trainer devices --json tells what a rank would run on") {
  const nlohmann::json report = devices_json({"--device=cpu", "--threads=2"});
  CHECK(report.at("world").at("source") == "alone");
  CHECK(report.at("world").at("size") == 1);
  CHECK(report.at("device").at("kind") == "cpu");
  CHECK(report.at("device").at("threads") == 2);
  CHECK(report.at("device").at("problem").is_null());
  CHECK(report.at("cores").at("usable") >= 1);
  CHECK(report.at("backends").at("host") == "built in");
  CHECK(report.at("cuda").at("build").is_string());
  CHECK(report.at("gpus").is_array());
}

TEST_CASE("trainer devices --require wants the name of a GPU") {
  const std::string wrong = GENERATE("cpu", "cuda:x", "cuda:-1", "gpu", "");
  CAPTURE(wrong);
  Program program({TRAINER_PROGRAM, "devices", "--require=" + wrong});
  CHECK(program.wait_for_end() == 2);
  CHECK_THAT(program.output(), contains("--require"));
}

}  // namespace lockstep::tests
