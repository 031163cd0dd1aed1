#include "kernels/base/error.h"
#include "kernels/begin_step.h"
#include "kernels/cast.h"
#include "kernels/conv2d.h"
#include "kernels/end_step.h"
#include "kernels/fill.h"
#include "kernels/gradient_norm.h"
#include "kernels/linear.h"
#include "kernels/loss.h"
#include "kernels/optimizer.h"
#include "kernels/pointwise.h"
#include "kernels/pool_indices.h"
#include "kernels/reorder.h"
#include "kernels/split.h"
#include "kernels/weight_average.h"
#include "tests/support/message_of.h"
#include "tests/unit/kernels/harness.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

/// `prepare` must throw a UsageError that holds every one of `words`.
template <class Spec>
void check_rejected(const Spec& spec, const std::vector<Shape>& inputs, const std::vector<Shape>& outputs,
                    const std::vector<std::string>& words) {
  KernelIo io;
  for (const Shape& shape : inputs) io.inputs.push_back({DType::f32, shape, {}});
  for (const Shape& shape : outputs) io.outputs.push_back({DType::f32, shape, {}});
  try {
    kernel_for(device(), spec, io);
    FAIL("accepted: " << words.front());
  } catch (const UsageError& error) {
    const std::string message = error.what();
    INFO(message);
    for (const std::string& word : words) CHECK(message.find(word) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("wrong shapes are rejected by name") {
  const Pool2dGeometry halves{.kernel = {2, 2}, .stride = {2, 2}};
  check_rejected(Conv2d{}, {{2, 3, 8, 8}, {4, 5, 3, 3}, {4}}, {{2, 4, 6, 6}},
                 {"conv2d", "4x5x3x3", "2x3x8x8"});
  check_rejected(Conv2d{}, {{2, 3, 8, 8}, {4, 3, 3, 3}, {5}}, {{2, 4, 6, 6}}, {"conv2d", "bias is f32 5"});
  check_rejected(Conv2d{}, {{2, 3, 2, 2}, {4, 3, 3, 3}, {4}}, {{2, 4, 1, 1}}, {"conv2d", "smaller"});
  check_rejected(Conv2d{{.stride = {2, 2}}}, {{2, 3, 2, 2}, {4, 3, 3, 3}}, {{2, 4, 1, 1}},
                 {"conv2d", "smaller"});
  check_rejected(Conv2d{{.stride = {3, 3}, .dilation = {2, 1}}}, {{2, 3, 3, 3}, {4, 3, 3, 3}}, {{2, 4, 1, 1}},
                 {"conv2d", "smaller"});
  check_rejected(Conv2d{}, {{2, 3, 8, 8}}, {{2, 4, 6, 6}}, {"conv2d", "2 to 3 inputs"});
  check_rejected(Conv2dBackwardData{}, {{2, 4, 6, 6}, {4, 3, 3, 3}}, {{2, 3, 9, 8}},
                 {"conv2d_backward_data", "2x4x6x6", "2x4x7x6"});
  check_rejected(Conv2dBackwardWeights{}, {{2, 3, 8, 8}, {2, 4, 6, 6}}, {{4, 3, 5, 5}, {4}},
                 {"conv2d_backward_weights", "2x4x6x6", "2x4x4x4"});
  check_rejected(Linear{}, {{2, 10}, {3, 11}, {3}}, {{2, 3}}, {"linear", "3x11", "2x10"});
  check_rejected(Linear{}, {{2, 0}, {3, 0}}, {{2, 3}}, {"linear", "3x0", "no features"});
  check_rejected(LinearBackwardData{}, {{2, 4}, {3, 10}}, {{2, 10}}, {"linear_backward_data", "2x4", "2x3"});
  check_rejected(LinearBackwardWeights{}, {{2, 10}, {2, 3}}, {{4, 10}, {4}},
                 {"linear_backward_weights", "2x3", "2x4"});
  check_rejected(MaxPool2d{halves}, {{1, 1, 4, 4}}, {{1, 1, 3, 2}}, {"max_pool2d", "1x1x3x2", "1x1x2x2"});
  check_rejected(MaxPool2dBackward{halves}, {{1, 1, 4, 4}, {1, 1, 2, 2}}, {{1, 1, 4, 5}},
                 {"max_pool2d_backward", "1x1x4x5"});
  check_rejected(MaxPool2dWithIndices{{.kernel = {16, 16}}}, {{1, 1, 16, 16}}, {{1, 1, 1, 1}},
                 {"max_pool2d_with_indices", "16x16", "255 places"});
  check_rejected(MaxPool2dWithIndicesBackward{halves}, {{1, 1, 2, 2}, {1, 1, 2, 2}}, {{1, 1, 4, 4}},
                 {"max_pool2d_with_indices_backward", "u8"});
  check_rejected(AvgPool2d{{.kernel = {2, 2}, .stride = {2, 2}, .padding = {2, 0}}}, {{1, 1, 4, 4}},
                 {{1, 1, 4, 2}}, {"avg_pool2d", "half"});
  check_rejected(Pointwise::single(PointwiseFunction::add), {{2, 3}, {3, 2}}, {{2, 3}},
                 {"add", "3x2", "2x3"});
  check_rejected(Reorder{}, {{2, 3}}, {{3, 2}}, {"reorder", "3x2", "2x3"});
  check_rejected(SoftmaxCrossEntropy{}, {{2, 3}, {3}, {64}}, {{64}, {2, 3}},
                 {"softmax_cross_entropy", "one class a row is f32 3"});
  check_rejected(SoftmaxCrossEntropy{}, {{2, 3}, {2}, {64}}, {{64}, {2, 3}},
                 {"softmax_cross_entropy", "i64"});
  check_rejected(AdamUpdate{}, {{8}, {64}}, {{8}, {8}, {7}}, {"adam_update", "8", "7"});
  check_rejected(SgdUpdate{}, {{8}, {64}}, {{8}, {8}}, {"sgd_update", "the copy is bf16 or f16"});
}

TEST_CASE("a CPU refuses to compute in f16, by the op's name, and moves such numbers") {
  if (!device().is_cpu()) return;
  const auto half = [](const Shape& shape) { return TensorDesc{DType::f16, shape, {}}; };
  const TensorDesc state{DType::u8, {sizeof(StepState)}, {}};
  const TensorDesc parameter{DType::f32, {8}, {}};
  const auto refusal_of_half = []<class Spec>(const Spec& spec, const KernelIo& io) {
    KernelIo open = io;
    const std::string layouts = tests::message_of<UsageError>([&] { choose_layouts(device(), spec, open); });
    const std::string kernel = tests::message_of<UsageError>([&] { kernel_for(device(), spec, io); });
    CHECK(layouts == (Spec::layouts == LayoutRule::by_kernel ? kernel : ""));
    return kernel;
  };
  const std::string why = ": f16 is computed on GPUs; use bf16";
  CHECK(refusal_of_half(Linear{}, {{half({2, 10}), half({3, 10})}, {half({2, 3})}}) == "linear" + why);
  CHECK(refusal_of_half(Conv2d{}, {{half({2, 3, 8, 8}), half({4, 3, 3, 3})}, {half({2, 4, 6, 6})}}) ==
        "conv2d" + why);
  CHECK(refusal_of_half(Pointwise::single(PointwiseFunction::relu), {{half({8})}, {half({8})}}) ==
        "relu" + why);
  CHECK(refusal_of_half(Cast{DType::f16}, {{parameter}, {half({8})}}) == "cast" + why);
  CHECK(refusal_of_half(SgdUpdate{}, {{half({8}), state}, {parameter}}) == "sgd_update" + why);
  CHECK(refusal_of_half(SgdUpdate{}, {{parameter, state}, {parameter, half({8})}}) == "sgd_update" + why);
  CHECK_NOTHROW(kernel_for(device(), Fill{}, {{}, {half({8})}}));
  CHECK_NOTHROW(kernel_for(device(), Concat{}, {{half({3}), half({5})}, {half({8})}}));
}

namespace {

/// Why there is no kernel; "" if there is one.
template <class Spec>
std::string refusal(const Spec& spec, const KernelIo& io) {
  return tests::message_of<UsageError>([&] { kernel_for(device(), spec, io); });
}

TensorDesc bytes(const TensorType& type) {
  return {type.dtype, type.shape, {}};
}

}  // namespace

TEST_CASE("what a step's own kernels share is the step's input, state and control block") {
  const TensorDesc slice{DType::f32, {16}, {}};
  const TensorDesc other{DType::f32, {64}, {}};
  const TensorDesc input = bytes(step_input_type());
  const TensorDesc state = bytes(step_state_type());
  const TensorDesc control = bytes(control_type());
  const std::string no_state = "the step's state is f32 64, must be " + step_state_type().str();
  const std::string no_control = "the control block is f32 64, must be " + control_type().str();
  CHECK(refusal(BeginStep{}, {{input}, {state, control}}).empty());
  CHECK(refusal(BeginStep{}, {{state}, {state, control}}) == "begin_step: the step's input is " +
                                                                 step_state_type().str() + ", must be " +
                                                                 step_input_type().str());
  CHECK(refusal(BeginStep{}, {{input}, {other, control}}) == "begin_step: " + no_state);
  CHECK(refusal(BeginStep{}, {{input}, {state, other}}) == "begin_step: " + no_control);
  CHECK(refusal(GradientNorm{}, {{slice}, {other, control}}) == "gradient_norm: " + no_state);
  CHECK(refusal(GradientNorm{}, {{slice}, {state, other}}) == "gradient_norm: " + no_control);
  CHECK(refusal(EndStep{}, {{other}, {control}}) == "end_step: " + no_control);
  CHECK(refusal(SgdUpdate{}, {{slice, other}, {slice}}) == "sgd_update: " + no_state);
  CHECK(refusal(AdamUpdate{}, {{slice, other}, {slice, slice, slice}}) == "adam_update: " + no_state);
  CHECK(refusal(WeightAverage{}, {{slice, other}, {slice}}) == "weight_average: " + no_state);
}

TEST_CASE("weight decay ends where every device can end it") {
  const TensorDesc slice{DType::f32, {18}, {}};
  const KernelIo io{{slice, bytes(step_state_type())}, {slice}};
  for (const std::int64_t decayed : {std::int64_t{0}, std::int64_t{8}, std::int64_t{18}, every_element})
    CHECK(refusal(SgdUpdate{.decayed = decayed}, io).empty());
  CHECK(refusal(SgdUpdate{.decayed = 6}, io) ==
        "sgd_update: weight decay ends behind 6 elements, must end behind a multiple of 4");
}

TEST_CASE("a device needs a thread") {
  CHECK_THROWS_AS(make_cpu_device(0), UsageError);
}
