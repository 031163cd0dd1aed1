#include <cstdint>
#include <map>
#include <utility>

#include "kernels/batch_norm.h"
#include "model/spec_op.h"
#include "runtime/plan/passes/passes.h"

namespace lockstep::runtime {
namespace {

using kernels::BatchMoments;
using kernels::BatchNormBackward;
using kernels::BatchNormSums;
using kernels::BatchStatistics;
using kernels::JoinedStatistics;
using kernels::RunningStatistics;
using model::Graph;
using model::Node;
using model::ValueId;

class SyncPass {
 public:
  explicit SyncPass(Graph& graph)
      : graph_(graph),
        state_(graph.step_state()),
        samples_(graph.value(graph.find(model::Role::input)).type.shape[0]) {}

  void run() {
    for (Node& node : std::exchange(graph_.nodes(), {})) {
      if (node.op->as<BatchStatistics>() != nullptr) join_moments(node);
      if (node.op->as<BatchNormSums>() != nullptr) give_total(node);
      if (const auto* op = node.op->as<BatchNormBackward>()) take_total(*op, node);
      if (node.op->as<RunningStatistics>() != nullptr) {
        node.inputs.push_back(moments_.at(node.inputs[RunningStatistics::mean]));
      }
      graph_.nodes().push_back(std::move(node));
    }
  }

 private:
  void join_moments(Node& statistics) {
    const ValueId x = statistics.inputs[BatchStatistics::x];
    const ValueId moments =
        graph_.add_statistics("statistics of " + statistics.layer, kernels::moments_of(graph_.value(x).type));
    graph_.nodes().push_back({.id = graph_.new_node_id(),
                              .op = model::make_op(BatchMoments{.samples = samples_}),
                              .inputs = {x, state_},
                              .outputs = {moments},
                              .layer = statistics.layer,
                              .phase = statistics.phase,
                              .segment = statistics.segment});
    statistics.op = model::make_op(JoinedStatistics{});
    statistics.inputs = {moments};
    moments_.emplace(statistics.outputs[JoinedStatistics::mean], moments);
  }

  void give_total(Node& sums) {
    const ValueId x = sums.inputs[BatchNormSums::x];
    const ValueId total =
        graph_.add_statistics("gradient sums of " + sums.layer, kernels::total_of(graph_.value(x).type));
    sums.outputs.push_back(total);
    totals_.emplace(sums.outputs[BatchNormSums::sums], total);
  }

  void take_total(BatchNormBackward op, Node& backward) {
    const std::vector<ValueId>& in = backward.inputs;
    const ValueId total = totals_.at(in[BatchNormBackward::sums]);
    const ValueId moments = moments_.at(in[BatchNormBackward::mean]);
    backward.inputs.insert(backward.inputs.end(), {total, moments, state_});
    op.samples = samples_;
    backward.op = model::make_op(op);
  }

  Graph& graph_;
  const ValueId state_;
  const std::int64_t samples_;          ///< of the micro-batch
  std::map<ValueId, ValueId> moments_;  ///< by the mean that they give
  std::map<ValueId, ValueId> totals_;   ///< by this rank's sums
};

}  // namespace

void sync_batch_norm(Graph& graph) {
  SyncPass(graph).run();
}

}  // namespace lockstep::runtime
