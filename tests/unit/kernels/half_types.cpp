#include <cmath>
#include <cstdlib>
#include <optional>
#include <type_traits>

#include "kernels/base/half.h"
#include "kernels/conv2d.h"
#include "kernels/linear.h"
#include "kernels/optimizer.h"
#include "kernels/pool2d.h"
#include "tests/support/skip.h"
#include "tests/unit/kernels/harness.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

// Ops of mixed precision in bf16, and on GPUs in f16, against themselves in f32 on the same numbers: all
// inputs are exact in each type, sums are f32, so what differs is the order of a sum and the rounding of the
// result.

namespace {

std::vector<DType> half_types() {
  if (device().is_cpu()) return {DType::bf16};
  return {DType::bf16, DType::f16};
}

double unit_of(DType dtype) {
  return dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 0;
}

/// `outputs`: their shapes; `results`: their types.
template <class Spec>
std::vector<Values> run_as(const Spec& spec, const std::vector<Values>& inputs,
                           const std::vector<Shape>& outputs, DType in, const std::vector<DType>& results,
                           Layouts layouts = Layouts::chosen) {
  KernelIo io = make_io(inputs, outputs, layouts);
  for (TensorDesc& desc : io.inputs) desc.dtype = in;
  for (std::size_t i = 0; i < results.size(); ++i) io.outputs[i].dtype = results[i];
  if (layouts != Layouts::row_major) choose_layouts(device(), spec, io);
  return run_prepared(kernel_for(device(), spec, io), io, inputs);
}

/// `on_the_way`, if there: what makes up the first output and may be rounded once as well.
void require_rounded(const std::vector<Values>& got, const std::vector<Values>& exact,
                     const std::vector<DType>& types, const std::optional<Values>& on_the_way = {}) {
  for (std::size_t output = 0; output < exact.size(); ++output) {
    for (std::size_t i = 0; i < exact[output].data.size(); ++i) {
      const double wanted = exact[output].data[i];
      const double value = got[output].data[i];
      double scale = std::abs(wanted);
      if (on_the_way && output == 0) scale += std::abs(on_the_way->data[i]);
      INFO("output " << output << ", element " << i << ": " << value << ", in f32 " << wanted);
      // Half a unit of rounding, and as much again where another order of the sum crosses a tie.
      REQUIRE(std::abs(value - wanted) <= unit_of(types[output]) * scale + 1e-4);
    }
  }
}

template <class Spec>
void check(const Spec& spec, const std::vector<Values>& inputs, const std::vector<Shape>& outputs,
           const std::optional<Values>& on_the_way = {}) {
  const std::vector<DType> wide(outputs.size(), DType::f32);
  const auto exact = run_as(spec, inputs, outputs, DType::f32, wide);
  for (const DType dtype : half_types()) {
    INFO(op_name(spec) << " in " << name_of(dtype));
    const std::vector<DType> narrow(outputs.size(), dtype);
    require_rounded(run_as(spec, inputs, outputs, dtype, narrow), exact, narrow, on_the_way);
    if constexpr (MatmulBackwardWeights<Spec>) {
      std::vector<DType> as_rounded = wide;
      // On a GPU a convolution's f32 is cast from what the library writes in x's type.
      if (std::is_same_v<Spec, Conv2dBackwardWeights> && !device().is_cpu()) as_rounded[Spec::dw] = dtype;
      require_rounded(run_as(spec, inputs, outputs, dtype, wide), exact, as_rounded);
    }
  }
}

}  // namespace

TEST_CASE("convolutions in half types") {
  const std::int64_t channels = GENERATE(1, 3, 16);
  const Conv2dGeometry geometry{.stride = {2, 1}, .padding = {1, 1}};
  const Values x = random_values({5, channels, 9, 8}, 1);
  const Values w = random_values({7, channels, 3, 3}, 2);
  const Values b = random_values({7}, 3);
  const Values dy = random_values({5, 7, 5, 8}, 4);
  check(Conv2d{.geometry = geometry, .activation = Activation::relu}, {x, w, b}, {dy.shape});
  check(Conv2dBackwardData{.geometry = geometry}, {dy, w}, {x.shape});
  check(Conv2dBackwardWeights{.geometry = geometry}, {x, dy}, {w.shape, b.shape});
}

TEST_CASE("on a GPU convolutions of pictures whose pixels have room for 8 channels give the same numbers") {
  if (device().is_cpu()) return;
  const std::int64_t channels = GENERATE(2, 3, 7);
  const Conv2dGeometry geometry{.stride = {2, 1}, .padding = {1, 1}};
  const Values x = random_values({5, channels, 9, 8}, 1);
  const Values w = random_values({16, channels, 3, 3}, 2);
  const Values dy = random_values({5, 16, 5, 8}, 4);
  const auto with_room = [channels](Shape shape, std::int64_t room) {
    if (shape[1] == channels) shape[1] = room;
    return channels_last(shape);
  };
  const auto run = [&](const auto& spec, std::size_t weights, const std::vector<Values>& inputs,
                       const Shape& output, DType dtype, std::int64_t room) {
    KernelIo io = make_io(inputs, {output}, Layouts::chosen);
    for (auto* descs : {&io.inputs, &io.outputs}) {
      for (TensorDesc& desc : *descs) desc.dtype = dtype;
    }
    TensorDesc& of_w = weights < io.inputs.size() ? io.inputs[weights] : io.outputs[0];
    of_w.layout = with_room(w.shape, room);
    choose_layouts(device(), spec, io);
    for (const auto* descs : {&io.inputs, &io.outputs}) {
      for (const TensorDesc& desc : *descs) CHECK(desc.layout == with_room(desc.shape, room));
    }
    return run_prepared(kernel_for(device(), spec, io), io, inputs)[0];
  };
  for (const DType dtype : half_types()) {
    CAPTURE(name_of(dtype), channels);
    const Conv2d forward{.geometry = geometry};
    require_rounded({run(forward, 1, {x, w}, dy.shape, dtype, 8)},
                    {run(forward, 1, {x, w}, dy.shape, dtype, channels)}, {dtype});
    const Conv2dBackwardData data{.geometry = geometry};
    require_rounded({run(data, 1, {dy, w}, x.shape, dtype, 8)},
                    {run(data, 1, {dy, w}, x.shape, dtype, channels)}, {dtype});
    const Conv2dBackwardWeights weights{.geometry = geometry};
    require_rounded({run(weights, 2, {x, dy}, w.shape, dtype, 8)},
                    {run(weights, 2, {x, dy}, w.shape, dtype, channels)}, {dtype});
  }
}

TEST_CASE("convolutions of single pixels in half types") {
  using Stride = std::array<std::int64_t, 2>;
  const Conv2dGeometry geometry{.stride = GENERATE(Stride{1, 1}, Stride{2, 2}, Stride{1, 3}, Stride{4, 1})};
  const Values x = random_values({3, 64, 6, 9}, 1);
  const std::int64_t outputs = GENERATE(96, 128);  // in panels of 48, and of 64
  const Values w = random_values({outputs, 64, 1, 1}, 2);
  const Values dy =
      random_values({3, outputs, geometry.output_extent(6, 1, 0), geometry.output_extent(9, 1, 1)}, 4);
  check(Conv2d{.geometry = geometry}, {x, w}, {dy.shape});
  check(Conv2dBackwardData{.geometry = geometry}, {dy, w}, {x.shape});
  check(Conv2dBackwardWeights{.geometry = geometry}, {x, dy}, {w.shape});
}

TEST_CASE("a convolution of pictures in bf16 multiplies by tiles where the processor has them") {
  if (device().instruction_set().find("amx") == std::string::npos) return tests::skip("this CPU has no AMX");
  const Shape x{4, 3, 16, 16};
  const Shape w{64, 3, 3, 3};
  const Shape y{4, 64, 16, 16};
  KernelIo io{{{DType::bf16, x, Layout::row_major(x)}, {DType::bf16, w, {}}}, {{DType::bf16, y, {}}}};
  choose_layouts(device(), Conv2d{.geometry = {.padding = {1, 1}}}, io);
  // Of oneDNN's kernels for bf16 those of AMX alone write the channels last; one without them reads pictures
  // as they are.
  CHECK(io.outputs[0].layout == channels_last(y));
}

TEST_CASE("linear maps in half types, small ones too, and of whole images") {
  const auto [x_shape, w_shape] =
      GENERATE(std::pair<Shape, Shape>{{3, 5}, {2, 5}}, std::pair<Shape, Shape>{{37, 129}, {65, 129}},
               std::pair<Shape, Shape>{{9, 4, 6, 5}, {11, 4, 6, 5}});
  const Values x = random_values(x_shape, 1);
  const Values w = random_values(w_shape, 2);
  const Values b = random_values({w_shape[0]}, 3);
  const Values dy = random_values({x_shape[0], w_shape[0]}, 4);
  // Where cuBLASLt splits the sum (37x65x129, 13.1 on an H200), it adds the parts up and rounds that to y's
  // type before the bias comes to it.
  std::optional<Values> product;
  if (is_real_gpu()) product = run_as(Linear{}, {x, w}, {dy.shape}, DType::f32, {DType::f32})[0];
  check(Linear{.activation = Activation::relu}, {x, w, b}, {dy.shape}, product);
  check(LinearBackwardData{}, {dy, w}, {x.shape});
  check(LinearBackwardWeights{}, {x, dy}, {w.shape, b.shape});
  check(LinearBackwardWeights{}, {random_values({999, 8}, 1), random_values({999, 24}, 4)}, {{24, 8}, {24}});
}

TEST_CASE("of a linear map one of the gradients of weights and bias may be f32 beside the other in bf16") {
  const LinearBackwardWeights spec{};
  const Values x = random_values({64, 128}, 1);
  const Values dy = random_values({64, 128}, 4);
  const std::vector<Shape> shapes{{128, 128}, {128}};
  const std::vector<DType> wide(2, DType::f32);
  const auto exact = run_as(spec, {x, dy}, shapes, DType::f32, wide);
  for (const Layouts layouts : {Layouts::row_major, Layouts::chosen}) {
    for (const DType of_dw : {DType::f32, DType::bf16}) {
      const std::vector<DType> types{of_dw, of_dw == DType::f32 ? DType::bf16 : DType::f32};
      require_rounded(run_as(spec, {x, dy}, shapes, DType::bf16, types, layouts), exact, types);
    }
  }
}

TEST_CASE("pools in half types") {
  const Pool2dGeometry geometry =
      GENERATE(Pool2dGeometry{{2, 2}, {2, 2}, {0, 0}}, Pool2dGeometry{{2, 3}, {2, 3}, {0, 0}});
  const std::int64_t channels = GENERATE(18, 20, 24);
  const Values x = random_values({3, channels, 8, 6}, 1);
  const Values dy = random_values({3, channels, 4, 6 / geometry.kernel[1]}, 2);
  check(MaxPool2d{geometry}, {x}, {dy.shape});
  check(MaxPool2dBackward{.geometry = geometry, .relu_mask = true}, {x, dy}, {x.shape});
  check(AvgPool2d{geometry}, {x}, {dy.shape});
  check(AvgPool2dBackward{geometry}, {dy}, {x.shape});
}

TEST_CASE("updates take gradients in bf16 as the numbers that they are") {
  const std::int64_t n = many_elements();
  const Values gradient = random_values({n}, 1);  // exact in bf16
  const auto update = [&](DType dtype) {
    const TensorDesc wide{DType::f32, {n}, Layout::row_major({n})};
    const TensorDesc narrow{dtype, {n}, Layout::row_major({n})};
    const KernelIo io{{narrow, {DType::u8, {sizeof(StepState)}, {}}}, {wide, wide, wide}};
    const auto g = pack(gradient, Layout::row_major({n}), dtype);
    const auto state =
        upload(std::vector<StepState>{{.step = 1, .learning_rate = 0.125, .bias_correction1 = 0.5}});
    const std::vector<float> zeros(static_cast<std::size_t>(n));
    const auto p = upload(zeros);
    const auto first = upload(zeros);
    const auto second = upload(zeros);
    void* const addresses[] = {g->data(), state->data(), p->data(), first->data(), second->data()};
    const auto stream = device().make_stream();
    kernel_for(device(), AdamUpdate{}, io)->bind(addresses, nullptr)->launch(*stream);
    stream->synchronize();
    return download<float>(*p);
  };
  CHECK(update(DType::bf16) == update(DType::f32));
}

namespace {

/// The parameters after an update of numbers that are not exact in a half type, and their copy as f32.
struct Updated {
  std::vector<float> parameters;
  std::vector<float> copy;
};

/// With a copy in `dtype`; f32: none.
template <class Spec>
Updated updated(const Spec& spec, DType dtype, bool skip = false) {
  const std::int64_t n = many_elements();
  const Layout flat = Layout::row_major({n});
  const TensorDesc wide{DType::f32, {n}, flat};
  KernelIo io{{wide, {DType::u8, {sizeof(StepState)}, {}}}, std::vector(spec.copy_output(), wide)};
  std::vector<std::unique_ptr<Memory>> memories;
  memories.push_back(pack(random_values({n}, 1), flat));
  memories.push_back(upload(std::vector<StepState>{{.step = 2,
                                                    .learning_rate = 0.1,
                                                    .bias_correction1 = 0.19,
                                                    .bias_correction2_sqrt = 0.0447,
                                                    .skip_update = skip ? 1U : 0U}}));
  memories.push_back(pack(random_values({n}, 2), flat));
  const std::vector<float> state(static_cast<std::size_t>(n), 0.0123F);
  for (std::size_t i = 1; i < spec.copy_output(); ++i) memories.push_back(upload(state));
  if (is_half(dtype)) {
    io.outputs.push_back({dtype, {n}, flat});
    memories.push_back(pack(random_values({n}, 3), flat, dtype));
  }
  std::vector<void*> addresses;
  for (const auto& memory : memories) addresses.push_back(memory->data());
  const auto stream = device().make_stream();
  kernel_for(device(), spec, io)->bind(addresses, nullptr)->launch(*stream);
  stream->synchronize();
  Updated result{.parameters = download<float>(*memories[2]), .copy = {}};
  if (!is_half(dtype)) return result;
  const Values copy = unpack(*memories.back(), {n}, flat, dtype);
  for (const double value : copy.data) result.copy.push_back(static_cast<float>(value));
  return result;
}

template <class Half>
std::vector<float> rounded(const std::vector<float>& values) {
  std::vector<float> result;
  for (const float value : values) {
    Half half;
    narrow(value, half);
    result.push_back(widen(half));
  }
  return result;
}

template <class Spec>
void check_copy(const Spec& spec) {
  const std::vector<float> alone = updated(spec, DType::f32).parameters;
  for (const DType dtype : half_types()) {
    INFO(op_name(spec) << " with a copy in " << name_of(dtype));
    const Updated both = updated(spec, dtype);
    CHECK(both.parameters == alone);
    CHECK(both.copy == (dtype == DType::bf16 ? rounded<BFloat16>(alone) : rounded<Float16>(alone)));
    CHECK(both.copy != alone);
    std::vector<float> untouched;
    for (const double value : random_values({many_elements()}, 3).data)
      untouched.push_back(static_cast<float>(value));
    CHECK(updated(spec, dtype, true).copy == untouched);
  }
}

}  // namespace

TEST_CASE("updates also write the new parameters in a half type, rounded as a cast rounds them") {
  check_copy(SgdUpdate{});
  check_copy(SgdUpdate{.momentum = 0.9, .weight_decay = 0.1, .nesterov = true});
  check_copy(AdamUpdate{.weight_decay = 0.1});
  check_copy(AdamUpdate{.weight_decay = 0.1, .decoupled = true, .amsgrad = true, .decayed = 40});
}
