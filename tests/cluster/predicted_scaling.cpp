// `trainer plan --ranks`: what it measures and predicts from end to end. How near it comes is told by
// tests/bench/scaling, on a machine that does nothing else.
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/training.h"

namespace lockstep::tests {
namespace {

const Words simplecnn{TRAINER_PROGRAM,       "plan",           "--model=simplecnn", "--dataset=synthetic",
                      "--image-shape=3x8x8", "--batch-size=4", "--threads=1"};

struct Row {
  int ranks, nodes;
  double step_ms, compute_ms, exchange_ms, exposed_ms, samples_per_s;
  std::string efficiency;
  double held;
};

/// Of several buckets between nodes.
const Words writer{TRAINER_PROGRAM,  "plan",
                   "--model=gpt2",   "--model-args=n_layer=2,n_head=2,n_embd=64,block_size=16,vocab_size=65",
                   "--batch-size=2", "--dataset=synthetic",
                   "--threads=1"};

std::vector<Row> predict(const Words& words, const Words& model = simplecnn) {
  Program plan(model + words);
  const int code = plan.wait_for_end();
  INFO(plan.output());
  REQUIRE(code == 0);
  std::istringstream lines(plan.output().substr(plan.output().find("efficiency")));
  std::string line;
  std::getline(lines, line);
  std::vector<Row> rows;
  while (std::getline(lines, line)) {
    Row& row = rows.emplace_back();
    std::istringstream(line) >> row.ranks >> row.nodes >> row.step_ms >> row.compute_ms >> row.exchange_ms >>
        row.exposed_ms >> row.samples_per_s >> row.efficiency >> row.held;
  }
  return rows;
}

TEST_CASE("a predicted step over a slow link takes the time of its gradients on the link") {
  const auto rows = predict({"--ranks=6", "--link=0.001"});
  REQUIRE(rows.size() == 4);
  CHECK(rows.back().ranks == 6);
  CHECK(rows.back().nodes == 6);
  CHECK(rows.front().exposed_ms == 0);
  const double two_ranks_on_the_link = 3018.0 * 4 / (1e6 / 8 * 1448 / 1538) * 1e3;
  CHECK(rows[1].exchange_ms == Approx(two_ranks_on_the_link).epsilon(0.03));
  CHECK(rows[1].exposed_ms == Approx(rows[1].step_ms - rows[1].compute_ms).margin(0.01));
  CHECK(rows[3].samples_per_s == Approx(6 * 4 / (rows[3].step_ms / 1e3)).epsilon(0.01));
}

TEST_CASE("a predicted step over a slow link leaves exchanges to the next step, where updates can wait") {
  const auto held = [](const Words& words) {
    return predict(Words{"--ranks=2", "--link=0.01", "--accumulate-steps=2"} + words, writer).back().held;
  };
  CHECK(held({}) > 0);
  CHECK(held({"--clip-grad-norm=1"}) == 0);
  CHECK(held({"--no-overlap"}) == 0);
}

TEST_CASE("a predicted step of two ranks of this machine exchanges through its memory") {
  const auto rows = predict({"--ranks=2", "--accumulate-steps=3"});
  REQUIRE(rows.size() == 2);
  CHECK(rows[1].nodes == 1);
  CHECK(rows[1].exchange_ms > 0);
  CHECK(rows[1].exchange_ms < 50);
  CHECK(rows[1].held == 0);
}

TEST_CASE("more ranks at once than this machine has CPUs are not measured") {
  Program plan(simplecnn + Words{"--ranks=4096", "--nproc-per-node=4096", "--threads=4096"});
  CHECK(plan.wait_for_end() == 2);
  CHECK_THAT(plan.output(), contains("fewer --nproc-per-node or --threads"));
}

}  // namespace
}  // namespace lockstep::tests
