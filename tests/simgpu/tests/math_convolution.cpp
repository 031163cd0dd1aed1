#include <array>
#include <cmath>

#include "kernels/base/error.h"
#include "kernels/cuda/dnn.h"
#include "kernels/layout.h"
#include "tests/simgpu/tests/machine_support.h"
#include "tests/support/catch.h"
#include "tests/support/variable.h"

namespace simgpu::test {
namespace {

using lockstep::DType;
using lockstep::kernels::ConvolutionSpec;
using lockstep::kernels::DnnCall;
using lockstep::kernels::prepare_convolution;
using lockstep::kernels::TensorDesc;
using Pass = ConvolutionSpec::Pass;

TensorDesc plain(lockstep::Shape shape) {
  return {DType::f32, std::move(shape), {}};
}

/// One picture of three pixels in a row, a window of two, one channel: small enough to compute by hand.
ConvolutionSpec small(Pass pass) {
  return {.pass = pass,
          .geometry = {},
          .x = plain({1, 1, 1, 3}),
          .w = plain({1, 1, 1, 2}),
          .y = plain({1, 1, 1, 2})};
}

float* on_device(const std::vector<float>& values) {
  float* device = make_floats(values.size());
  set_floats(device, values);
  return device;
}

/// The last operand after the call.
std::vector<float> result_of(const DnnCall& call, const std::vector<void*>& operands, std::size_t elements) {
  call.launch(operands, make_floats(call.workspace_bytes() / sizeof(float)), make_stream());
  return read_floats(static_cast<float*>(operands.back()), elements);
}

}  // namespace

TEST_CASE("a convolution forward, bare and with bias and relu") {
  const FreshMachine fresh;
  float* const x = on_device({1, 2, 4});
  float* const w = on_device({1, -1});
  float* const b = on_device({1.5F});
  float* const y = make_floats(2);
  ConvolutionSpec spec = small(Pass::forward);
  CHECK(result_of(*prepare_convolution(spec), {x, w, y}, 2) == std::vector<float>{-1, -2});
  spec.bias = true;
  CHECK(result_of(*prepare_convolution(spec), {x, w, b, y}, 2) == std::vector<float>{0.5F, -0.5F});
  spec.relu = true;
  CHECK(result_of(*prepare_convolution(spec), {x, w, b, y}, 2) == std::vector<float>{0.5F, 0});
}

TEST_CASE("a convolution's gradients") {
  const FreshMachine fresh;
  float* const x = on_device({1, 2, 4});
  float* const w = on_device({1, -1});
  float* const dy = on_device({10, 100});
  CHECK(result_of(*prepare_convolution(small(Pass::backward_data)), {dy, w, make_floats(3)}, 3) ==
        std::vector<float>{10, 90, -100});
  CHECK(result_of(*prepare_convolution(small(Pass::backward_weights)), {x, dy, make_floats(2)}, 2) ==
        std::vector<float>{210, 420});
}

TEST_CASE("TF32 rounds what is multiplied in all three directions, and not the bias") {
  const FreshMachine fresh;
  const float bit = std::ldexp(1.0F, -10);
  const float inexact = 1 + bit / 4;
  float* const x = on_device({inexact, 2, 4});
  float* const w = on_device({inexact, -1});
  float* const b = on_device({bit / 4});
  float* const dy = on_device({inexact, 0});
  const auto at = [](Pass pass) {
    ConvolutionSpec spec = small(pass);
    spec.precision = lockstep::kernels::Precision::tf32;
    return spec;
  };
  ConvolutionSpec forward = at(Pass::forward);
  forward.bias = true;
  CHECK(result_of(*prepare_convolution(forward), {x, w, b, make_floats(2)}, 2) ==
        std::vector<float>{-1 + bit / 4, -2 + bit / 4});
  CHECK(result_of(*prepare_convolution(at(Pass::backward_data)), {dy, w, make_floats(3)}, 3) ==
        std::vector<float>{1, -1, 0});
  CHECK(result_of(*prepare_convolution(at(Pass::backward_weights)), {x, dy, make_floats(2)}, 2) ==
        std::vector<float>{1, 2});
  CHECK(read_floats(x, 1)[0] == inexact);
}

TEST_CASE("a convolution's operands are device memory") {
  const FreshMachine fresh;
  std::vector<float> host(3);
  const auto call = prepare_convolution(small(Pass::forward));
  const std::array<void*, 3> operands{host.data(), make_floats(2), make_floats(2)};
  float* const workspace = make_floats(call->workspace_bytes() / sizeof(float));
  CHECK(mistake_in([&] { call->launch(operands, workspace, make_stream()); }) == "host pointer");
}

TEST_CASE("a library tells layouts by strides, of an axis of extent 1 too") {
  ConvolutionSpec spec = small(Pass::forward);
  spec.x.layout = lockstep::kernels::channels_last(spec.x.shape);
  CHECK_THROWS_AS(prepare_convolution(spec), lockstep::UsageError);
  spec.w.layout = lockstep::kernels::channels_last(spec.w.shape);
  spec.y.layout = lockstep::kernels::channels_last(spec.y.shape);
  CHECK(prepare_convolution(spec) != nullptr);
}

TEST_CASE("a library may lack a fused plan for groups") {
  ConvolutionSpec spec{.pass = Pass::forward,
                       .geometry = {.groups = 2},
                       .x = plain({1, 2, 3, 3}),
                       .w = plain({2, 1, 1, 1}),
                       .y = plain({1, 2, 3, 3}),
                       .bias = true};
  CHECK(prepare_convolution(spec) == nullptr);
  spec.bias = false;
  CHECK(prepare_convolution(spec) != nullptr);
}

TEST_CASE("a plan that is offered may not be buildable") {
  const FreshMachine fresh;
  const ConvolutionSpec spec = small(Pass::forward);
  ConvolutionSpec named = spec;
  named.plan = "sim1_direct";
  CHECK(prepare_convolution(named) != nullptr);
  const lockstep::tests::Variable unbuildable("SIMGPU_DNN_UNBUILDABLE", "sim1_direct");
  CHECK(lockstep::kernels::convolution_plans(spec) ==
        std::vector<std::string>{"sim0_automatic", "sim1_direct"});
  CHECK_THROWS_AS(prepare_convolution(named), lockstep::DeviceError);
  const lockstep::tests::Variable first("SIMGPU_DNN_UNBUILDABLE", "sim0_automatic");
  CHECK(prepare_convolution(spec) != nullptr);  // by the next
}

TEST_CASE("a process that builds more plans than it may is stopped") {
  const FreshMachine fresh;
  const lockstep::tests::Variable limit("SIMGPU_DNN_BUILDS", "2");
  const auto build = [] { prepare_convolution(small(Pass::forward)); };
  CHECK(mistake_in(build) == "none");
  CHECK(mistake_in(build) == "none");
  CHECK(mistake_in(build) == "too many builds");
}

TEST_CASE("the simulator has no plans that cuDNN would have to know") {
  const FreshMachine fresh;
  ConvolutionSpec spec = small(Pass::forward);
  for (const char* plan : {"eng0_automatic", "eng1_direct", "eng2_winograd"}) {
    spec.plan = plan;
    CHECK_THROWS_AS(prepare_convolution(spec), lockstep::DeviceError);
  }
}

}  // namespace simgpu::test
