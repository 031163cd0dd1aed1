#include "runtime/plan/file_layout.h"

#include <optional>
#include <span>

#include "runtime/plan/plan.h"
#include "tests/support/catch.h"

namespace lockstep::runtime {
namespace {

using kernels::Layout;

/// The plan of a model whose one parameter, 4x6 in f32, lies so in memory.
Plan plan_with(const std::optional<Layout>& layout, bool transposed) {
  Plan plan;
  plan.graph.add_parameter("w", {4, 6}, {});
  model::Parameter& parameter = plan.graph.parameters().back();
  parameter.file_transposed = transposed;
  plan.graph.value(parameter.value).layout = layout;
  return plan;
}

bool is_copied_as_it_is(const Plan& plan) {
  const model::Parameter& parameter = plan.graph.parameters().back();
  return has_file_layout(plan.graph.value(parameter.value), parameter.file_transposed);
}

TEST_CASE("what lies in memory as in files needs no room to be converted in, zeros behind its rows or not") {
  const Layout columns{.padded = {4, 6}, .strides = {1, 4}, .blocks = {}};
  for (const Plan& plan : {plan_with(std::nullopt, false), plan_with(Layout::row_major({4, 6}), false),
                           plan_with(Layout::row_major_up_to(8, {4, 6}), false), plan_with(columns, true)}) {
    CHECK(is_copied_as_it_is(plan));
    CHECK(conversion_bytes(plan.graph) == 0);
    CHECK(memory_need(std::span(&plan, 1)).activations == 0);
  }
}

TEST_CASE("a plan counts the room in which its largest parameter changes its layout") {
  constexpr std::size_t bytes = 4 * 6 * sizeof(float);
  const Layout columns{.padded = {4, 6}, .strides = {1, 4}, .blocks = {}};
  const Layout room_behind_columns{.padded = {4, 8}, .strides = {8, 1}, .blocks = {}};
  const Layout blocked{.padded = {4, 8}, .strides = {8, 4}, .blocks = {{.dim = 1, .size = 4}}};
  for (const Plan& plan :
       {plan_with(columns, false), plan_with(room_behind_columns, false), plan_with(blocked, false),
        plan_with(std::nullopt, true), plan_with(Layout::row_major_up_to(8, {4, 6}), true)}) {
    CHECK_FALSE(is_copied_as_it_is(plan));
    CHECK(conversion_bytes(plan.graph) == bytes);
    CHECK(memory_need(std::span(&plan, 1)).activations == 128);  // whole cache lines
  }
}

}  // namespace
}  // namespace lockstep::runtime
