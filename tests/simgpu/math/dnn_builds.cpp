#include "tests/simgpu/math/dnn_builds.h"

#include <cstdlib>

#include <fmt/format.h>

#include "tests/simgpu/operation.h"

namespace simgpu {
namespace {

void count_build() {
  count_call("convolution_build");
  const char* const limit = std::getenv("SIMGPU_DNN_BUILDS");
  if (limit == nullptr || call_count("convolution_build") <= std::strtoull(limit, nullptr, 10)) return;
  report_mistake("too many builds",
                 fmt::format("more than {} plans of convolutions are built; keep what is built", limit));
}

bool is_compiled() {
  const char* const asked = std::getenv("SIMGPU_DNN_COMPILED");
  return asked != nullptr && std::string_view(asked) == "1";
}

}  // namespace

bool is_buildable(std::string_view plan) {
  const char* const asked = std::getenv("SIMGPU_DNN_UNBUILDABLE");
  return asked == nullptr || plan != asked;
}

void build_plan(const std::string& plan, const lockstep::kernels::PlanStore* kept) {
  const std::string text = "compiled " + plan;
  const bool keeps = kept != nullptr && is_compiled();
  if (keeps && kept->find(plan) == text) return;
  count_build();
  if (keeps) kept->keep(plan, text);
}

}  // namespace simgpu
