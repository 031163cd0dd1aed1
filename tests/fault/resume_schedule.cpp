#include "tests/fault/resume_runs.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

/// All that the state of a run has beside a plain optimizer's.
const Words features{"--max-steps=120",     "--lr-schedule=cosine",  "--warmup-steps=30",
                     "--lr-min=1e-5",       "--optimizer=adamw",     "--amsgrad",
                     "--eps=1e-6",          "--weight-decay=0.1",    "--weight-decay-for=matrices",
                     "--ema=0.9",           "--clip-grad-value=0.1", "--clip-grad-norm=1",
                     "--bucket-cap-mb=0.01"};

std::vector<double> rates_of(const fs::path& run_dir) {
  std::vector<double> rates;
  std::ifstream log(run_dir / "log.jsonl");
  for (std::string line; std::getline(log, line);) rates.push_back(nlohmann::json::parse(line).at("lr"));
  return rates;
}

TEST_CASE("schedule and averages of a run that is killed whole go on to the bit") {
  const TemporaryFolder folder;
  const fs::path whole = folder / "whole";
  const std::string wanted = hash_of(resumable(whole, features), whole);
  const std::vector<double> rates = rates_of(whole);
  REQUIRE(rates.size() == 120);
  CHECK(rates[0] == Approx(1e-3 / 31).epsilon(1e-6));  // fp32 in the control block
  CHECK(rates[30] == 1e-3);
  CHECK(rates[75] == Approx((1e-3 + 1e-5) / 2).epsilon(1e-6));

  const fs::path run_dir = folder / "run";
  const Words words = resumable(run_dir, features + Words{"--checkpoint-every=10", "--resume=auto"});
  for (const std::int64_t moment : {15, 70}) {  // in the warm-up, and behind it
    Program run(words);
    wait_until_seen([&] { return logged_step(run_dir) >= moment; });
    kill_whole(run);
  }
  CHECK(hash_of(words, run_dir) == wanted);
  CHECK(rates_of(run_dir) == rates);

  Program longer(words + Words{"--max-steps=130"});
  CHECK(longer.wait_for_end() == 2);
  CHECK_THAT(longer.output(),
             contains("end of the learning-rate schedule --max-steps 120 (now --max-steps 130)"));
}

}  // namespace
}  // namespace lockstep::tests
