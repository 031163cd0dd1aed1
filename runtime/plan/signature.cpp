#include "runtime/plan/signature.h"

#include <sstream>
#include <vector>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/hash.h"
#include "kernels/external_op.h"
#include "kernels/step_state.h"

namespace lockstep::runtime {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Checkpoints hold the signature's hash, so its words stay as they are.
std::string layout_name(const model::Value& value) {
  const bool row_major = !value.layout || value.layout->is_row_major(value.type.shape);
  return row_major ? "plain" : value.layout->str();
}

[[noreturn]] void throw_first_difference(const std::string& what, const std::vector<std::string>& by_rank) {
  const std::vector<std::string> reference = lines_of(by_rank[0]);
  for (std::size_t rank = 1; rank < by_rank.size(); ++rank) {
    if (by_rank[rank] == by_rank[0]) continue;
    const std::vector<std::string> lines = lines_of(by_rank[rank]);
    std::size_t at = 0;
    while (at < lines.size() && at < reference.size() && lines[at] == reference[at]) ++at;
    const auto entry = [at](const std::vector<std::string>& list) {
      return at < list.size() ? "'" + list[at] + "'" : std::string("nothing");
    };
    throw UsageError(
        fmt::format("ranks disagree on {}: rank 0 has {}, rank {} has {}; start all ranks with the same "
                    "program, options and data",
                    what, entry(reference), rank, entry(lines)));
  }
  throw UsageError(fmt::format("ranks disagree on {}", what));
}

}  // namespace

std::string exchange_signature(const Plan& plan, const kernels::Device& device,
                               const SelectedAlgorithms& selected) {
  std::string text =
      fmt::format("instruction set {}\nthreads {}\nmatmul precision {}\nconv precision {}\noptimizer {}\n",
                  device.instruction_set(), device.threads(), name_of(plan.matmul_precision),
                  conv_name_of(plan.conv_precision), model::describe(plan.request.optimizer));
  if (plan.compute_dtype != DType::f32) {
    text += fmt::format("mixed precision {}\n", name_of(plan.compute_dtype));
  }
  if (plan.arena.gradient_dtype != DType::f32) {
    text += fmt::format("gradients {}\n", name_of(plan.arena.gradient_dtype));
  }
  if (plan.request.clip_grad_norm > 0) {
    text += fmt::format("gradients clipped to norm {}\n", plan.request.clip_grad_norm);
  }
  if (plan.request.average_decay > 0) {
    text += fmt::format("weights averaged with decay {}\n", plan.request.average_decay);
  }
  if (plan.request.micro_batches > 1) {
    text += fmt::format("micro-batches of a step {}\n", plan.request.micro_batches);
  }
  for (const RowsSlice& slice : plan.arena.rows) {
    text += fmt::format("rows of {}: {} from each rank at byte {}{}\n", slice.name, slice.list.capacity,
                        slice.first, slice.overwrites ? "" : ", added");
  }
  const auto add_parameters = [&](std::string_view kind, const std::vector<ArenaSlice>& slices) {
    for (const ArenaSlice& slice : slices) {
      const model::Value& value = plan.graph.value(plan.graph.parameters()[slice.parameter].value);
      text += fmt::format("{} {} {} {} at element {} layout {}\n", kind, slice.name,
                          name_of(value.type.dtype), value.type.shape.str(), slice.first, layout_name(value));
    }
  };
  add_parameters("parameter", plan.arena.slices);
  add_parameters("frozen parameter", plan.arena.frozen);
  for (const Bucket& bucket : plan.arena.buckets) {
    text +=
        fmt::format("bucket at element {} of {}{}{}\n", bucket.first, bucket.count,
                    bucket.with_control ? " with the control block" : "", bucket.only_rows ? " as rows" : "");
    if (bucket.decayed < bucket.count)
      text += fmt::format("weight decay of its first {} elements\n", bucket.decayed);
  }
  for (const StatisticsSlice& slice : plan.arena.statistics)
    text += fmt::format("{} at element {} of {}\n", slice.name, slice.first, slice.count);
  text +=
      fmt::format("arenas of {} {}\ncontrol block of {} {}\n", plan.arena.elements, name_of(plan.arena.dtype),
                  kernels::ControlBlock::elements, name_of(kernels::ControlBlock::dtype));
  for (const model::Node& node : plan.graph.nodes()) {
    if (node.op->as<kernels::ExternalOp>() == nullptr) continue;
    text += fmt::format("op {} {}\n", node.key(), node.op->attributes());
  }
  for (const auto& [op, algorithm] : selected) text += fmt::format("algorithm {} of {}\n", algorithm, op);
  return text;
}

void require_equal(comm::Communicator& communicator, const std::string& what, const std::string& text) {
  if (communicator.world().size == 1) return;
  const std::string digest = Sha256().update(text).hex();
  for (const std::string& other : communicator.all_gather(digest)) {
    if (other != digest) throw_first_difference(what, communicator.all_gather(text));
  }
}

}  // namespace lockstep::runtime
