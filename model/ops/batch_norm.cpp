#include "kernels/batch_norm.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "model/define_op.h"

namespace lockstep::model {
namespace {

using kernels::BatchNorm;
using kernels::BatchNormBackward;
using kernels::BatchNormSums;
using kernels::BatchStatistics;
using kernels::Pointwise;
using kernels::PointwisePart;
using kernels::RunningStatistics;

/// Through the function behind the sum with a residual, whose gradient it is: with what is added before, one
/// pass of pointwise ops.
ValueId gradient_of_residual(const BatchNorm& op, Backward& backward) {
  const ValueId dy = backward.output_gradient();
  if (!op.then.is_there) return dy;
  return backward.add_node(make_op(Pointwise::single(op.then.function, PointwisePart::gradient)),
                           {backward.output(), dy}, backward.type(dy));
}

/// Of a training graph: mean and variance are those of x, and their gradients a part of dx.
void differentiate(const BatchNorm& op, Backward& backward) {
  const bool has_residual = backward.has_input(BatchNorm::residual);
  const ValueId dy = has_residual ? gradient_of_residual(op, backward) : backward.output_gradient();
  if (has_residual) backward.contribute(BatchNorm::residual, dy);
  const kernels::FollowingFunction then = has_residual ? kernels::FollowingFunction{} : op.then;
  std::vector<ValueId> operands{dy};
  for (const std::size_t input :
       {BatchNorm::x, BatchNorm::mean, BatchNorm::variance, BatchNorm::weight, BatchNorm::bias}) {
    operands.push_back(backward.input(input));
  }
  const std::int64_t channels = backward.type(backward.input(BatchNorm::x)).shape[1];
  const ValueId sums = backward.add_node(make_op(BatchNormSums{.eps = op.eps, .then = then}), operands,
                                         {DType::f32, {2, channels}});
  operands.push_back(sums);
  backward.add_gradients(BatchNormBackward{.eps = op.eps, .then = then}, std::move(operands),
                         {BatchNorm::x, BatchNorm::weight, BatchNorm::bias});
}

/// The gradient of batch_norm is all of x's.
void no_gradient(const BatchStatistics&, Backward&) {}
void no_gradient(const RunningStatistics&, Backward&) {}

struct Statistics {
  ValueId mean, variance;
};

Statistics running_statistics(Graph& graph, const std::string& name, const Shape& channels) {
  return {graph.add_buffer(parameter_name(name, "running_mean"), channels, 0),
          graph.add_buffer(parameter_name(name, "running_var"), channels, 1)};
}

/// Of the batch; they move the running ones.
Statistics batch_statistics(Tensor x, const std::string& name, double momentum, const Statistics& running,
                            ValueId batches) {
  Graph& graph = x.graph();
  const auto outputs = apply_all<BatchStatistics>(graph, {}, no_gradient, {x}, name);
  const Statistics of_batch{outputs[BatchStatistics::mean].id(), outputs[BatchStatistics::variance].id()};
  const RunningStatistics update{.momentum = momentum, .count = x.shape().elements() / x.shape()[1]};
  graph.add_update_node(make_op(update, static_cast<Gradient<RunningStatistics>>(no_gradient)),
                        {of_batch.mean, of_batch.variance, graph.step_state()},
                        {running.mean, running.variance, batches}, name);
  return of_batch;
}

}  // namespace

Tensor batch_norm2d(Tensor x, const std::string& name, BatchNormOptions options) {
  Graph& graph = x.graph();
  const std::size_t rank = x.shape().rank();
  if ((rank != 2 && rank != 4) || x.shape()[1] < 1) {
    throw UsageError(
        fmt::format("layer '{}' (batch_norm2d): input {} is no (N, C, H, W)", name, x.shape().str()));
  }
  const Shape channels{x.shape()[1]};
  const Tensor weight = parameter(graph, parameter_name(name, "weight"), channels, {.start = 1});
  const Tensor bias = parameter(graph, parameter_name(name, "bias"), channels, {});
  Statistics statistics = running_statistics(graph, name, channels);
  const ValueId batches = graph.add_buffer(parameter_name(name, "num_batches_tracked"), {}, 0, DType::i64);
  if (graph.training) statistics = batch_statistics(x, name, options.momentum, statistics, batches);
  return apply(graph, BatchNorm{.eps = options.eps}, differentiate,
               {x, Tensor(graph, statistics.mean), Tensor(graph, statistics.variance), weight, bias}, name);
}

}  // namespace lockstep::model
