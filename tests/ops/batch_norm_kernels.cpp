// The kernels of batch norm alone: their layouts, their statistics, and what moves the running ones.
#include "kernels/batch_norm.h"

#include <cmath>

#include "kernels/step_state.h"
#include "tests/unit/kernels/harness.h"

namespace lockstep::ops {
namespace {

using kernels::KernelIo;
using kernels::Layout;
using kernels::test::random_values;
using kernels::test::require_close;
using kernels::test::run_prepared;
using kernels::test::Values;

Layout blocked(const Shape& shape, std::int64_t block) {
  const std::int64_t channels = (shape[1] + block - 1) / block * block;
  const std::int64_t pixels = shape[2] * shape[3];
  return {.padded = {shape[0], channels, shape[2], shape[3]},
          .strides = {channels * pixels, pixels * block, shape[3] * block, block},
          .blocks = {{1, block}}};
}

/// The operands of the four passes of one layer on `device()`, x in `layout`.
class Passes {
 public:
  Passes(const Shape& shape, Layout layout, DType dtype)
      : shape_(shape), layout_(std::move(layout)), dtype_(dtype) {}

  /// mean, variance; y; the sums; dx, dweight, dbias.
  std::vector<Values> run() const {
    const Values x = random_values(shape_, 1);
    const Values dy = random_values(shape_, 2);
    const Values residual = random_values(shape_, 3);
    const Values weight = random_values({shape_[1]}, 4);
    const Values bias = random_values({shape_[1]}, 5);
    const kernels::FollowingFunction relu{.is_there = true, .function = kernels::PointwiseFunction::relu};
    std::vector<Values> all = results(kernels::BatchStatistics{}, {x}, {of_channels(), of_channels()});
    const Values mean = all[0];
    const Values variance = all[1];
    const std::vector<Values> channels{mean, variance, weight, bias};
    append(all, results(kernels::BatchNorm{.then = relu}, with({x}, channels, {residual}), {shape_}));
    const kernels::BatchNormSums summing{.then = relu};
    append(all, results(summing, with({dy, x}, channels, {}), {{2, shape_[1]}}));
    append(all, results(kernels::BatchNormBackward{.then = relu}, with({dy, x}, channels, {all.back()}),
                        {shape_, of_channels(), of_channels()}));
    return all;
  }

 private:
  Shape of_channels() const { return {shape_[1]}; }

  static std::vector<Values> with(std::vector<Values> first, const std::vector<Values>& second,
                                  const std::vector<Values>& third) {
    append(first, second);
    append(first, third);
    return first;
  }
  static void append(std::vector<Values>& to, const std::vector<Values>& values) {
    to.insert(to.end(), values.begin(), values.end());
  }

  template <class Op>
  std::vector<Values> results(const Op& op, const std::vector<Values>& inputs,
                              const std::vector<Shape>& outputs) const {
    KernelIo io = kernels::test::make_io(inputs, outputs, kernels::test::Layouts::row_major);
    for (auto* side : {&io.inputs, &io.outputs}) {
      for (kernels::TensorDesc& desc : *side) {
        if (desc.shape != shape_) continue;
        desc.layout = layout_;
        desc.dtype = dtype_;
      }
    }
    return run_prepared(kernels::kernel_for(kernels::test::device(), op, io), io, inputs);
  }

  Shape shape_;
  Layout layout_;
  DType dtype_;
};

struct Moments {
  std::vector<double> mean, variance;
};

/// Of each channel of (N, C, H, W).
Moments moments_of(const Values& x) {
  const auto channels = static_cast<std::size_t>(x.shape[1]);
  const auto pixels = static_cast<std::size_t>(x.shape.elements(2));
  const auto count = static_cast<double>(x.data.size() / channels);
  Moments of{std::vector<double>(channels), std::vector<double>(channels)};
  for (std::size_t i = 0; i < x.data.size(); ++i) of.mean[i / pixels % channels] += x.data[i] / count;
  for (std::size_t i = 0; i < x.data.size(); ++i) {
    const std::size_t channel = i / pixels % channels;
    of.variance[channel] += std::pow(x.data[i] - of.mean[channel], 2) / count;
  }
  return of;
}

}  // namespace

TEST_CASE("batch_norm: the same in each layout") {
  // A GPU takes 16 bytes at once where 4 or 8 divides the channels or the pixels of an image, walks 32 packs
  // of channels side by side, and adds what 64 chunks and more have in several turns.
  const Shape shape = GENERATE(Shape{3, 18, 7, 5}, Shape{2, 40, 30, 31}, Shape{4, 3, 2, 1},
                               Shape{150, 18, 2, 2}, Shape{70, 20, 1, 1}, Shape{5, 7, 4, 10},
                               Shape{2, 8, 61, 33}, Shape{3, 264, 9, 9}, Shape{35, 128, 8, 16});
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const std::vector<Values> row_major = Passes(shape, Layout::row_major(shape), dtype).run();
  std::vector<Layout> layouts{kernels::channels_last(shape)};
  if (kernels::test::device().is_cpu()) {
    layouts.insert(layouts.end(), {blocked(shape, 8), blocked(shape, 16)});
  }
  for (const Layout& layout : layouts) {
    INFO(shape.str() << " in " << layout.str() << " of " << name_of(dtype));
    const std::vector<Values> got = Passes(shape, layout, dtype).run();
    for (std::size_t i = 0; i < got.size(); ++i) {
      // Sums of up to 4480 numbers below 4 in another order; a bf16 may then round to its neighbour.
      const bool rounded = dtype == DType::bf16 && got[i].shape == shape;
      require_close(got[i], row_major[i], rounded ? 4 * std::ldexp(1.0, -8) : 2e-4);
    }
  }
}

TEST_CASE("batch_norm: the statistics of numbers far from zero") {
  const Shape shape = GENERATE(Shape{4, 3, 50, 50}, Shape{4, 8, 50, 50});
  const Layout layout = GENERATE_COPY(Layout::row_major(shape), kernels::channels_last(shape));
  CAPTURE(shape.str(), layout.str());
  Values x = random_values(shape, 1);
  for (double& value : x.data) value = 4096 + value;  // exact in f32, as its square is not
  const Moments wanted = moments_of(x);
  const Shape channels{shape[1]};
  KernelIo io = kernels::test::make_io({x}, {channels, channels}, kernels::test::Layouts::row_major);
  io.inputs[0].layout = layout;
  const auto got =
      run_prepared(kernels::kernel_for(kernels::test::device(), kernels::BatchStatistics{}, io), io, {x});
  for (std::size_t channel = 0; channel < wanted.mean.size(); ++channel) {
    CHECK(got[0].data[channel] == Approx(wanted.mean[channel]).epsilon(1e-7));
    CHECK(got[1].data[channel] == Approx(wanted.variance[channel]).epsilon(1e-5));
  }
}

TEST_CASE("batch_norm: on the CPU an outlier in front costs the variance no digits") {
  if (!kernels::test::device().is_cpu()) return;
  const std::int64_t pixels = 200 * 160;
  Values x = random_values({1, 3, 200, 160}, 1);
  for (double& value : x.data) value += 1000;
  for (std::int64_t channel = 0; channel < 3; ++channel)
    x.data[static_cast<std::size_t>(channel * pixels)] = 0;
  const Moments wanted = moments_of(x);
  const KernelIo io = kernels::test::make_io({x}, {{3}, {3}}, kernels::test::Layouts::row_major);
  const auto got =
      run_prepared(kernels::kernel_for(kernels::test::device(), kernels::BatchStatistics{}, io), io, {x});
  require_close(got[0], {{3}, wanted.mean}, 1e-3);
  for (std::size_t channel = 0; channel < 3; ++channel)
    CHECK(got[1].data[channel] == Approx(wanted.variance[channel]).epsilon(1e-5));
}

TEST_CASE("batch_norm: running statistics move as PyTorch's, and not with a skipped update") {
  using Op = kernels::RunningStatistics;
  const std::int64_t count = GENERATE(12, 1);
  const Op op{.momentum = 0.1, .count = count};
  const double unbiased = count == 1 ? 1 : 12.0 / 11;  // of a single number none can be made
  const std::vector<float> mean{1, -2, 0.5F};
  const std::vector<float> variance{4, 0.25F, 9};
  auto& device = kernels::test::device();
  kernels::StepState state;
  const auto batch_mean = kernels::test::upload(mean);
  const auto batch_variance = kernels::test::upload(variance);
  const auto running_mean = kernels::test::upload(std::vector<float>{0, 0, 0});
  const auto running_variance = kernels::test::upload(std::vector<float>{1, 1, 1});
  const auto batches = kernels::test::upload(std::vector<std::int64_t>{0});
  const kernels::TensorDesc channels{DType::f32, {3}, Layout::row_major({3})};
  const KernelIo io{{channels, channels, {DType::u8, kernels::step_state_type().shape, {}}},
                    {channels, channels, {DType::i64, {}, {}}}};
  const auto kernel = kernels::kernel_for(device, op, io);
  const auto step = [&] {
    const auto on_device = kernels::test::upload(std::vector<kernels::StepState>{state});
    void* const args[] = {batch_mean->data(),   batch_variance->data(),   on_device->data(),
                          running_mean->data(), running_variance->data(), batches->data()};
    const auto stream = device.make_stream();
    kernel->bind(args, nullptr)->launch(*stream);
    stream->synchronize();
  };
  for (int i = 0; i < 3; ++i) step();
  state.skip_update = 1;
  step();
  CHECK(kernels::test::download<std::int64_t>(*batches)[0] == 3);
  for (std::size_t c = 0; c < 3; ++c) {
    double wanted_mean = 0;
    double wanted_variance = 1;
    for (int i = 0; i < 3; ++i) {
      wanted_mean = 0.9 * wanted_mean + 0.1 * static_cast<double>(mean[c]);
      wanted_variance = 0.9 * wanted_variance + 0.1 * static_cast<double>(variance[c]) * unbiased;
    }
    // Each of three steps rounds once.
    CHECK(kernels::test::download<float>(*running_mean)[c] == Approx(wanted_mean).epsilon(3e-7));
    CHECK(kernels::test::download<float>(*running_variance)[c] == Approx(wanted_variance).epsilon(3e-7));
  }
}

}  // namespace lockstep::ops
