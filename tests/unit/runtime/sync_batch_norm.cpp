// --sync-bn: ranks that share batch norm's statistics take the steps of one rank with all samples.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "comm/communicator.h"
#include "runtime/plan/print.h"
#include "runtime/plan/signature.h"
#include "tests/support/catch.h"
#include "tests/unit/comm/ranks.h"
#include "tests/unit/runtime/one_replica.h"

namespace lockstep::runtime {
namespace {

using comm::Communicator;
using model::Tensor;
using testing::classifier;
using testing::images;
using testing::relative_distance;

const PlanConstraints synced{.sync_batch_norm = true};

Tensor normed(Tensor x, const std::string& name) {
  return batch_norm2d(conv2d(x, name, {.out_channels = 16, .kernel = 3, .padding = 1, .bias = false}),
                      name + ".norm");
}

/// ResNet's block, and a norm of rows.
Tensor network(Tensor x) {
  x = relu(normed(x, "stem"));
  x = segment(x, [](Tensor in) { return relu(add(normed(relu(normed(in, "a")), "b"), in)); });
  x = relu(batch_norm2d(linear(flatten(avg_pool2d(x, {.kernel = 4})), "fc1", 12), "rows"));
  return linear(x, "fc2", 10);
}

/// A run of some ranks; of one there is no exchange.
struct Run {
  std::vector<std::int64_t> counts;  ///< samples of each rank in a micro-batch
  PlanConstraints constraints = synced;
  bool overlap = true;
  std::int64_t micro_batches = 1;

  std::int64_t samples() const { return std::accumulate(counts.begin(), counts.end(), std::int64_t{0}); }
  bool exchanges() const { return counts.size() > 1; }
  /// Of all ranks: those that have fewer samples get padding.
  std::int64_t rows() const { return std::ranges::max(counts); }

  std::vector<PlanKey> keys() const {
    if (micro_batches == 1) return {{.batch = rows()}};
    return {{.role = MicroBatchRole::first, .batch = rows()},
            {.role = MicroBatchRole::last, .batch = rows()}};
  }
  PlanRequest request(const PlanKey& key) const {
    BucketLimits buckets = testing::bucket_for_each;
    buckets.ranks = static_cast<int>(counts.size());
    return {.key = key,
            .micro_batches = micro_batches,
            .buckets = buckets,
            .schedule = {.exchange = exchanges(), .overlap = overlap},
            .optimizer = {.kind = model::OptimizerKind::sgd, .learning_rate = 0.05}};
  }
};

class Replica {
 public:
  Replica(const Run& run, Communicator& group) : run_(run), group_(group) {
    PlanConstraints constraints = run.constraints;
    for (const PlanKey& key : run.keys()) {
      plans_.push_back(make_plan(classifier(network), images, run.request(key), *device_, constraints));
      constraints.parameter_layouts = parameter_layouts(plans_[0].graph);
      constraints.arena = plans_[0].arena;
    }
    memory_ = std::make_unique<ReplicaMemory>(*device_, group, plans_);
    executor_ = std::make_unique<Executor>(*device_, group, *memory_);
    io().initialise(3);
    Philox(1, 0).normals(0, samples_);
  }

  ParameterIO io() { return {*device_, plans_[0], *memory_}; }
  const Plan& plan() const { return plans_[0]; }
  const ReplicaMemory& memory() const { return *memory_; }

  /// The loss of all samples.
  float step() {
    for (std::size_t at = 0; at < plans_.size(); ++at) {
      fill_slot(static_cast<std::int64_t>(at) * run_.samples());
      executor_->run(plans_[at], 0);
    }
    return memory_->host_control(0).loss;
  }

 private:
  static constexpr std::int64_t sample_elements = 3 * 8 * 8;

  /// From `first` on the ranks have their samples one behind the other.
  void fill_slot(std::int64_t first) {
    const auto rank = group_.world().rank;
    const std::int64_t count = run_.counts[static_cast<std::size_t>(rank)];
    first = std::accumulate(run_.counts.begin(), run_.counts.begin() + rank, first);
    const std::span input(static_cast<float*>(memory_->input(0)),
                          static_cast<std::size_t>(run_.rows() * sample_elements));
    std::ranges::fill(input, 100.0F);  // padding
    std::copy_n(samples_.data() + first * sample_elements, count * sample_elements, input.begin());
    auto* const targets = static_cast<std::int64_t*>(memory_->target(0));
    for (std::int64_t row = 0; row < run_.rows(); ++row) targets[row] = (first + row) * 7 % 10;
    const auto of_step = static_cast<float>(run_.samples() * run_.micro_batches);
    memory_->host_input(0) = {.state = {.learning_rate = plans_[0].request.optimizer.learning_rate,
                                        .loss_scale = 1 / of_step,
                                        .valid_samples = static_cast<std::int32_t>(count)}};
  }

  const Run run_;
  Communicator& group_;
  std::vector<float> samples_ = std::vector<float>(16 * sample_elements);
  std::unique_ptr<kernels::Device> device_ = kernels::make_cpu_device(1);
  std::vector<Plan> plans_;
  std::unique_ptr<ReplicaMemory> memory_;
  std::unique_ptr<Executor> executor_;
};

/// What a rank has after three steps.
struct Outcome {
  std::vector<NamedTensor> gradients;  ///< of the first step, summed over the ranks
  std::vector<NamedTensor> parameters;
  float loss = 0;

  std::string digest() const { return sha256_of(gradients) + sha256_of(parameters); }
};

/// By rank.
std::vector<Outcome> train(const Run& run) {
  std::vector<Outcome> outcomes(run.counts.size());
  const auto size = static_cast<int>(run.counts.size());
  const auto errors =
      comm::testing::run_thread_ranks(size, {.timeout = Seconds(20)}, [&](Communicator& group) {
        Replica replica(run, group);
        Outcome& outcome = outcomes[static_cast<std::size_t>(group.world().rank)];
        replica.step();
        outcome.gradients = replica.io().gradients();
        replica.step();
        outcome.loss = replica.step();
        outcome.parameters = replica.io().parameters();
      });
  CHECK(errors == std::vector<std::string>(run.counts.size()));
  return outcomes;
}

TEST_CASE("sync_batch_norm: ranks, with padding or without, take the steps of one with all samples") {
  const std::vector<std::int64_t> counts =
      GENERATE(std::vector<std::int64_t>{3, 3}, std::vector<std::int64_t>{2, 2, 2},
               std::vector<std::int64_t>{4, 2}, std::vector<std::int64_t>{2, 0, 4});
  const bool overlap = GENERATE(true, false);
  CAPTURE(counts, overlap);
  const Outcome alone = train({.counts = {6}}).front();
  const std::vector<Outcome> ranks = train({.counts = counts, .overlap = overlap});
  for (const Outcome& rank : ranks) CHECK(rank.digest() == ranks.front().digest());
  // Sums of f32 in another order; the variance of 6 numbers in `rows` makes steep slopes.
  CHECK(relative_distance(ranks.front().gradients, alone.gradients) < 1e-5);
  CHECK(relative_distance(ranks.front().parameters, alone.parameters) < 1e-5);
  CHECK(ranks.front().loss == Approx(alone.loss).epsilon(1e-5));
  CHECK(train({.counts = counts, .overlap = !overlap}).front().digest() == ranks.front().digest());
  // With its own statistics each rank takes another step.
  const Outcome apart = train({.counts = counts, .constraints = {}}).front();
  CHECK(relative_distance(apart.gradients, alone.gradients) > 0.1);
}

TEST_CASE("sync_batch_norm: a micro-batch has the statistics of all ranks' micro-batch") {
  const Outcome alone = train({.counts = {6}, .micro_batches = 2}).front();
  const Outcome ranks = train({.counts = {4, 2}, .micro_batches = 2}).front();
  CHECK(relative_distance(ranks.gradients, alone.gradients) < 1e-5);
  CHECK(relative_distance(ranks.parameters, alone.parameters) < 1e-5);
}

TEST_CASE("sync_batch_norm: with bf16 the ranks stay near one rank") {
  PlanConstraints mixed = synced;
  mixed.compute_dtype = DType::bf16;
  const Outcome alone = train({.counts = {6}, .constraints = mixed}).front();
  const std::vector<Outcome> ranks = train({.counts = {3, 3}, .constraints = mixed});
  CHECK(ranks[0].digest() == ranks[1].digest());
  // Statistics that differ in their last f32 bit let some bf16 round to a neighbour, 2^-8 away.
  CHECK(relative_distance(ranks[0].gradients, alone.gradients) < 0x1p-8);
}

std::size_t exchanges_in(const Plan& plan) {
  return static_cast<std::size_t>(std::ranges::count(plan.steps, Step::Kind::sum_statistics, &Step::kind));
}

TEST_CASE("sync_batch_norm: what is computed again exchanges nothing again, and has the same bits") {
  PlanConstraints again = synced;
  again.recompute = true;
  const Run kept{.counts = {3, 3}};
  const Run recomputed{.counts = {3, 3}, .constraints = again};
  CHECK(train(recomputed).front().digest() == train(kept).front().digest());
  const auto device = kernels::make_cpu_device(1);
  const auto plan = [&](const Run& run) {
    return make_plan(classifier(network), images, run.request(run.keys()[0]), *device, run.constraints);
  };
  CHECK(exchanges_in(plan(kept)) == 8);
  CHECK(exchanges_in(plan(recomputed)) == 8);
  CHECK(plan(recomputed).graph.nodes().size() > plan(kept).graph.nodes().size());
}

TEST_CASE("sync_batch_norm: one rank alone and evaluation have the plan of a run without it") {
  const auto device = kernels::make_cpu_device(1);
  const PlanKey evaluation{.mode = Mode::evaluate, .batch = 6};
  const auto text = [&](const Run& run, const PlanKey& key) {
    return to_text(make_plan(classifier(network), images, run.request(key), *device, run.constraints), {});
  };
  const PlanKey step{.batch = 6};
  CHECK(text({.counts = {6}}, step) == text({.counts = {6}, .constraints = {}}, step));
  CHECK(text({.counts = {6, 6}}, evaluation) == text({.counts = {6, 6}, .constraints = {}}, evaluation));
  const std::string synced_step = text({.counts = {6, 6}}, step);
  for (const char* line :
       {"all-reduce of the statistics of stem.norm", "all-reduce of the gradient sums of rows",
        "batch_moments samples 6", "statistics of all ranks: 8 exchanges"}) {
    CHECK_THAT(synced_step, tests::contains(line));
  }
}

TEST_CASE("sync_batch_norm: a rank without it is told apart before the first step") {
  const auto device = kernels::make_cpu_device(1);
  const auto signature = [&](const PlanConstraints& constraints) {
    const Run run{.counts = {6, 6}, .constraints = constraints};
    return exchange_signature(
        make_plan(classifier(network), images, run.request({.batch = 6}), *device, constraints), *device, {});
  };
  CHECK(signature({}).find("statistics of") == std::string::npos);
  CHECK_THAT(signature(synced), tests::contains("statistics of stem.norm at element 0 of 33\n"));
}

/// What rank 0 ends with when rank 1 takes part in the first `calls` exchanges of a step, and in no more.
std::string error_without_rank_1(std::size_t calls) {
  const Run run{.counts = {3, 3}, .overlap = false};
  return comm::testing::run_thread_ranks(
             2, {.timeout = Seconds(0.5)},
             [&](Communicator& group) {
               Replica replica(run, group);
               if (group.world().rank == 0) replica.step();
               tests::NoStream stream;
               for (std::size_t call = 0; call < calls; ++call) {
                 const auto ranges = replica.memory().exchanged(replica.plan().arena.statistics[call]);
                 group.all_reduce(ranges, {}, stream);
               }
               while (!group.failed()) std::this_thread::yield();
             })
      .front();
}

TEST_CASE("sync_batch_norm: a rank that is late for an exchange is named, with the statistics") {
  CHECK_THAT(error_without_rank_1(0), tests::contains("rank 1") &&
                                          tests::contains("did not reach all-reduce") &&
                                          tests::contains("(statistics of stem.norm) within 0.5 s"));
  CHECK_THAT(error_without_rank_1(4), tests::contains("rank 1") &&
                                          tests::contains("did not reach all-reduce") &&
                                          tests::contains("(gradient sums of rows) within 0.5 s"));
}

}  // namespace
}  // namespace lockstep::runtime
