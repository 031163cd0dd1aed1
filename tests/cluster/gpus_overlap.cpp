#include <algorithm>

#include "tests/cluster/gpus.h"

namespace lockstep::tests {
namespace {

/// What SIMGPU_TRACE tells of one operation.
struct Operation {
  std::string stream;
  std::string kind;
  std::string from;  ///< of a kernel: where it is launched
  std::vector<std::size_t> after;
  int started = 0;  ///< line of the trace, counted from 1
  int ended = 0;

  bool computes() const { return kind == "kernel" || kind == "library"; }
  bool updates() const { return from.find("optimizer.cu") != std::string::npos; }
};

/// By number, which is the order of the calls.
std::vector<Operation> read_trace(const std::filesystem::path& path) {
  std::vector<Operation> operations;
  std::ifstream file(path);
  int number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    const auto line = nlohmann::json::parse(text);
    const std::size_t at = line["operation"];
    if (operations.size() <= at) operations.resize(at + 1);
    Operation& operation = operations[at];
    if (line["event"] == "enqueue") {
      operation = {
          .stream = line["stream"], .kind = line["kind"], .from = line["from"], .after = line["after"]};
    } else {
      (line["event"] == "start" ? operation.started : operation.ended) = number;
    }
  }
  return operations;
}

/// Whether the streams' order and events put `earlier` before `later`, in every run.
bool must_wait(const std::vector<Operation>& operations, std::size_t later, std::size_t earlier) {
  if (later < earlier) return false;  // nothing waits for what is enqueued after it
  std::vector<bool> before(later + 1);
  before[later] = true;
  for (std::size_t at = later; at > earlier; --at) {
    if (!before[at]) continue;
    for (const std::size_t waited_for : operations[at].after) before[waited_for] = true;
  }
  return before[earlier];
}

/// The last training step of a run, in numbers of operations.
struct LastStep {
  std::vector<std::size_t> all_reduces;
  std::size_t first_update = 0;
  std::size_t last_backward = 0;
};

LastStep find_last_step(const std::vector<Operation>& operations, std::size_t steps) {
  std::vector<std::size_t> all_reduces;
  for (std::size_t at = 0; at < operations.size(); ++at) {
    if (operations[at].kind == "collective") all_reduces.push_back(at);
  }
  const std::size_t buckets = all_reduces.size() / steps;
  REQUIRE(buckets >= 3);
  REQUIRE(all_reduces.size() == buckets * steps);

  LastStep found;
  const auto first = all_reduces.end() - static_cast<std::ptrdiff_t>(buckets);
  found.all_reduces.assign(first, all_reduces.end());
  const std::string& exchange_stream = operations[*first].stream;
  // Backward has been enqueued when the last bucket is; the all-reduce before the step's is the step's
  // before.
  for (std::size_t at = *(first - 1); at < all_reduces.back(); ++at) {
    if (!operations[at].computes() || operations[at].updates()) continue;
    if (operations[at].stream != exchange_stream) found.last_backward = at;
  }
  for (std::size_t at = operations.size(); at-- > *first;) {
    if (operations[at].updates()) found.first_update = at;
  }
  REQUIRE(found.last_backward > 0);
  REQUIRE(found.first_update > 0);
  return found;
}

}  // namespace

TEST_CASE("the first bucket is summed and applied while backward still computes, unless --no-overlap") {
  const bool overlap = GENERATE(true, false);
  const std::string graphs = GENERATE("on", "off");
  CAPTURE(overlap, graphs);
  constexpr int ranks = 2;
  constexpr std::size_t steps = 6;
  give_gpus(ranks);
  const TemporaryFolder folder;
  const Variable policy("SIMGPU_POLICY", "eager");
  const Variable trace("SIMGPU_TRACE", folder / "trace");
  train(ranks,
        small_images + sgd +
            Words{"--model=convnet", "--batch-size=16", "--device=cuda",
                  "--max-steps=" + std::to_string(steps), "--cuda-graph=" + graphs} +
            (overlap ? Words{} : Words{"--no-overlap"}),
        folder.path() / "run");

  int traces = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    if (file.path().stem() != "trace") continue;
    ++traces;
    const auto operations = read_trace(file.path());
    const LastStep step = find_last_step(operations, steps);
    const std::size_t first_sum = step.all_reduces.front();
    const std::size_t last_sum = step.all_reduces.back();
    CHECK((operations[first_sum].stream.find("graph") != std::string::npos) == (graphs == "on"));
    CHECK(must_wait(operations, last_sum, step.last_backward));
    CHECK(must_wait(operations, step.first_update, first_sum));
    // NCCL waits for no update; its stream has none.
    for (const std::size_t sum : step.all_reduces) CHECK_FALSE(must_wait(operations, sum, step.first_update));
    if (graphs == "off") CHECK(operations[first_sum].stream != operations[step.first_update].stream);

    CHECK(must_wait(operations, first_sum, step.last_backward) == !overlap);
    CHECK(must_wait(operations, step.first_update, last_sum) == !overlap);
    // The machine runs what it can when it is enqueued, so it has happened, too.
    CHECK((operations[first_sum].started < operations[step.last_backward].started) == overlap);
    CHECK((operations[step.first_update].started < operations[last_sum].ended) == overlap);
  }
  CHECK(traces == ranks);
}

TEST_CASE("the order that streams leave open, and the time that NCCL takes to answer, change no bit") {
  const int ranks = GENERATE(1, 2);
  CAPTURE(ranks);
  give_gpus(ranks);
  const Words options =
      small_images + sgd + Words{"--model=convnet", "--batch-size=16", "--max-steps=12", "--device=cuda"};
  const TemporaryFolder folder;
  const auto weights_with = [&](const std::string& order, const std::string& seed) {
    const Variable policy("SIMGPU_POLICY", order);
    const Variable polls("SIMGPU_NCCL_SEED", seed);
    return train(ranks, options, folder.path() / order)["weights_sha256"];
  };
  const auto weights = weights_with("eager", "0");
  CHECK(weights_with("lazy", "1") == weights);
  CHECK(weights_with("random:1", "2") == weights);
  CHECK(weights_with("random:2", "3") == weights);
}

}  // namespace lockstep::tests
