#include "runtime/step/cuda_graph_policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/base/error.h"

namespace lockstep::runtime {
namespace {

constexpr std::int64_t short_step_ns = 8'000'000;
constexpr double launch_bound_share = 0.8;  // of the step's time, spent on launching

std::int64_t median_of(std::vector<StepTiming> timings, std::int64_t StepTiming::*part) {
  const auto middle = timings.begin() + static_cast<std::ptrdiff_t>(timings.size() / 2);
  std::ranges::nth_element(timings, middle, {}, part);
  return (*middle).*part;
}

}  // namespace

Executor::WithoutGraph without_graph(std::string_view option) {
  return option == "on" ? Executor::WithoutGraph::fails : Executor::WithoutGraph::walks;
}

CudaGraphPolicy::CudaGraphPolicy(std::string_view option, std::string_view obstacle)
    : mode_(option == "on" ? Mode::on : Mode::off) {
  if (option == "on" && !obstacle.empty()) throw UsageError(fmt::format("--cuda-graph on: {}", obstacle));
  if (option == "auto" && obstacle.empty()) mode_ = Mode::measure;
}

bool CudaGraphPolicy::observe(const StepTiming& timing) {
  if (mode_ != Mode::measure || observed_.size() == observed_steps) return false;
  if (steps_++ >= warm_up_steps) observed_.push_back(timing);
  return observed_.size() == observed_steps;
}

bool CudaGraphPolicy::wants_graphs() const {
  if (observed_.size() < observed_steps) return false;
  const std::int64_t total = median_of(observed_, &StepTiming::total_ns);
  const std::int64_t launching = median_of(observed_, &StepTiming::launch_ns);
  return total <= short_step_ns ||
         static_cast<double>(launching) >= launch_bound_share * static_cast<double>(total);
}

void CudaGraphPolicy::decide(bool replays) {
  if (mode_ != Mode::measure) return;
  mode_ = replays ? Mode::on : Mode::off;
  decision_ = replays;
}

}  // namespace lockstep::runtime
