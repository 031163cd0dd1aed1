// The kernels of batch norm over several ranks, whose exchange a test makes by hand, beside those of one
// rank.
#include <cmath>

#include "kernels/batch_norm.h"
#include "kernels/step_state.h"
#include "tests/unit/kernels/harness.h"

namespace lockstep::ops {
namespace {

using kernels::Layout;
using kernels::Memory;
using kernels::StepState;
using kernels::TensorDesc;
using kernels::test::device;
using kernels::test::download;
using kernels::test::random_values;
using kernels::test::require_close;
using kernels::test::upload;
using kernels::test::Values;

constexpr kernels::FollowingFunction relu{.is_there = true, .function = kernels::PointwiseFunction::relu};

struct DeviceTensor {
  TensorDesc desc;
  std::shared_ptr<Memory> memory;

  Values values() const {
    return kernels::test::unpack(*memory, desc.shape, desc.layout_or_row_major(), desc.dtype);
  }
};

DeviceTensor uninitialised(DType dtype, const Shape& shape, const Layout& layout) {
  const TensorDesc desc{dtype, shape, layout};
  return {desc, device().allocate(desc.bytes())};
}
DeviceTensor uninitialised(DType dtype, const Shape& shape) {
  return uninitialised(dtype, shape, Layout::row_major(shape));
}
DeviceTensor tensor(const Values& values, const Layout& layout, DType dtype) {
  return {{dtype, values.shape, layout}, kernels::test::pack(values, layout, dtype)};
}
DeviceTensor tensor(const Values& values) {
  return tensor(values, Layout::row_major(values.shape), DType::f32);
}

template <class Op>
void launch(const Op& op, const std::vector<DeviceTensor>& inputs, const std::vector<DeviceTensor>& outputs) {
  kernels::KernelIo io;
  std::vector<void*> addresses;
  for (const DeviceTensor& one : inputs) io.inputs.push_back(one.desc);
  for (const DeviceTensor& one : outputs) io.outputs.push_back(one.desc);
  for (const auto* side : {&inputs, &outputs}) {
    for (const DeviceTensor& one : *side) addresses.push_back(one.memory->data());
  }
  const auto kernel = kernels::kernel_for(device(), op, io);
  const auto workspace = device().allocate(std::max<std::size_t>(kernel->workspace_bytes(), 64));
  const auto stream = device().make_stream();
  kernel->bind(addresses, workspace->data())->launch(*stream);
  stream->synchronize();
}

DeviceTensor sum_of(const std::vector<DeviceTensor>& ranks) {
  std::vector<double> sum = download<double>(*ranks.front().memory);
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const auto other = download<double>(*ranks[rank].memory);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
  }
  return {ranks.front().desc, upload(sum)};
}

/// Samples first to first + count - 1, and behind them `padding` of other numbers.
Values rows(const Values& from, std::int64_t first, std::int64_t count, std::int64_t padding, double filler) {
  const std::int64_t elements = from.shape.elements(1);
  Shape shape = from.shape;
  shape[0] = count + padding;
  const auto begin = from.data.begin() + first * elements;
  Values part{shape, {begin, begin + count * elements}};
  part.data.resize(static_cast<std::size_t>(shape.elements()), filler);
  return part;
}

/// What one rank has in the passes of a layer.
struct Rank {
  std::int64_t first, count, padding;
  DeviceTensor x, dy, state, moments, sums, total, dx, dweight, dbias;
};

struct Results {
  Values mean, variance, dweight, dbias;
};

class Layer {
 public:
  Layer(const Shape& shape, Layout (*layout)(const Shape&), DType dtype, double center = 0)
      : x_(random_values(shape, 1)), dy_(random_values(shape, 2)), layout_(layout), dtype_(dtype) {
    for (double& value : x_.data) value += center;
  }

  Shape channels() const { return {x_.shape[1]}; }

  Results of_one() {
    const DeviceTensor x = tensor(x_, layout_(x_.shape), dtype_);
    const DeviceTensor dy = tensor(dy_, layout_(x_.shape), dtype_);
    const DeviceTensor sums = uninitialised(DType::f32, {2, x_.shape[1]});
    const DeviceTensor dweight = uninitialised(DType::f32, channels());
    const DeviceTensor dbias = uninitialised(DType::f32, channels());
    dx_ = uninitialised(dtype_, x_.shape, layout_(x_.shape));
    launch(kernels::BatchStatistics{}, {x}, {mean_, variance_});
    launch(kernels::BatchNormSums{.then = relu}, {dy, x, mean_, variance_, weight_, bias_}, {sums});
    launch(kernels::BatchNormBackward{.then = relu}, {dy, x, mean_, variance_, weight_, bias_, sums},
           {dx_, dweight, dbias});
    return {mean_.values(), variance_.values(), dweight.values(), dbias.values()};
  }

  /// The gradients of weight and bias are summed over the ranks.
  Results of_ranks(std::vector<Rank>& ranks) {
    std::vector<DeviceTensor> moments;
    for (Rank& rank : ranks) {
      prepare(rank);
      launch(kernels::BatchMoments{.samples = rank.count + rank.padding}, {rank.x, rank.state},
             {rank.moments});
      moments.push_back(rank.moments);
    }
    moments_ = sum_of(moments);
    launch(kernels::JoinedStatistics{}, {moments_}, {mean_, variance_});
    std::vector<DeviceTensor> totals;
    for (const Rank& rank : ranks) {
      launch(kernels::BatchNormSums{.then = relu}, {rank.dy, rank.x, mean_, variance_, weight_, bias_},
             {rank.sums, rank.total});
      totals.push_back(rank.total);
    }
    const DeviceTensor total = sum_of(totals);
    Results results{mean_.values(), variance_.values(), zeros(), zeros()};
    for (const Rank& rank : ranks) {
      launch(kernels::BatchNormBackward{.then = relu, .samples = rank.count + rank.padding},
             {rank.dy, rank.x, mean_, variance_, weight_, bias_, rank.sums, total, moments_, rank.state},
             {rank.dx, rank.dweight, rank.dbias});
      add(results.dweight, rank.dweight.values());
      add(results.dbias, rank.dbias.values());
    }
    return results;
  }

  /// What of the gradient of x the rank should have.
  Values wanted_dx(const Rank& rank) const {
    return rows(dx_.values(), rank.first, rank.count, rank.padding, 0);
  }
  const DeviceTensor& moments() const { return moments_; }

 private:
  void prepare(Rank& rank) const {
    const Values x = rows(x_, rank.first, rank.count, rank.padding, 100);
    const std::int64_t of_channels = x_.shape[1];
    rank.x = tensor(x, layout_(x.shape), dtype_);
    rank.dy = tensor(rows(dy_, rank.first, rank.count, rank.padding, 0), layout_(x.shape), dtype_);
    const StepState state{.valid_samples = static_cast<std::int32_t>(rank.count)};
    rank.state = {{DType::u8, kernels::step_state_type().shape, {}}, upload(std::vector<StepState>{state})};
    rank.moments = uninitialised(DType::f64, {2 * of_channels + 1});
    rank.sums = uninitialised(DType::f32, {2, of_channels});
    rank.total = uninitialised(DType::f64, {2, of_channels});
    rank.dx = uninitialised(dtype_, x.shape, layout_(x.shape));
    rank.dweight = uninitialised(DType::f32, channels());
    rank.dbias = uninitialised(DType::f32, channels());
  }

  Values zeros() const { return {channels(), std::vector<double>(static_cast<std::size_t>(x_.shape[1]))}; }
  static void add(Values& to, const Values& more) {
    for (std::size_t i = 0; i < to.data.size(); ++i) to.data[i] += more.data[i];
  }

  Values x_, dy_;
  Layout (*layout_)(const Shape&);
  DType dtype_;
  DeviceTensor weight_ = tensor(random_values({x_.shape[1]}, 3));
  DeviceTensor bias_ = tensor(random_values({x_.shape[1]}, 4));
  DeviceTensor mean_ = uninitialised(DType::f32, {x_.shape[1]});
  DeviceTensor variance_ = uninitialised(DType::f32, {x_.shape[1]});
  DeviceTensor dx_, moments_;
};

Layout row_major(const Shape& shape) {
  return Layout::row_major(shape);
}
Layout channels_last(const Shape& shape) {
  return kernels::channels_last(shape);
}
Layout blocked(const Shape& shape) {
  const std::int64_t channels = (shape[1] + 15) / 16 * 16;
  return {.padded = {shape[0], channels, shape[2], shape[3]},
          .strides = {channels * shape.elements(2), shape.elements(2) * 16, shape[3] * 16, 16},
          .blocks = {{1, 16}}};
}

}  // namespace

TEST_CASE("sync_batch_norm: ranks that add moments and sums compute as one with all samples") {
  // In the last two a GPU's part of a channel begins where padding does: it has the mean of no numbers.
  const Shape shape = GENERATE(Shape{7, 18, 7, 5}, Shape{7, 20, 2, 2}, Shape{7, 24, 4, 4},
                               Shape{7, 3, 60, 41}, Shape{7, 8, 60, 41}, Shape{7, 1, 2, 2}, Shape{7, 1, 1, 1},
                               Shape{7, 1, 28, 28}, Shape{7, 3, 16, 16}, Shape{7, 8, 32, 32});
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int layout = GENERATE(0, 1, 2);
  const bool is_cpu = device().is_cpu();
  if (layout == 2 && !is_cpu) return;
  CAPTURE(shape.str(), name_of(dtype), layout);
  Layer layer(shape, layout == 0 ? row_major : layout == 1 ? channels_last : blocked, dtype);
  const Results one = layer.of_one();
  // The second rank ends with two rows of padding; the third has nothing else.
  std::vector<Rank> ranks{{.first = 0, .count = 4, .padding = 0},
                          {.first = 4, .count = 3, .padding = 2},
                          {.first = 7, .count = 0, .padding = 1}};
  const Results all = layer.of_ranks(ranks);
  // f32 sums of at most 17220 numbers of up to 1, cut otherwise.
  constexpr double tolerance = 1e-6;
  require_close(all.mean, one.mean, tolerance);
  require_close(all.variance, one.variance, tolerance);
  require_close(all.dweight, one.dweight, 2e-3);  // sums of up to 17220, rounded at their size
  require_close(all.dbias, one.dbias, 2e-3);
  for (const Rank& rank : ranks) {
    // A gradient below 16 in bf16 may round to its neighbour.
    require_close(rank.dx.values(), layer.wanted_dx(rank), dtype == DType::bf16 ? 16 * 0x1p-8 : 1e-5);
  }
}

TEST_CASE("sync_batch_norm: the statistics of numbers far from zero") {
  Layer layer({4, 3, 50, 50}, row_major, DType::f32, 4096);  // exact in f32, as its square is not
  const Results one = layer.of_one();
  std::vector<Rank> ranks{{.first = 0, .count = 1, .padding = 0}, {.first = 1, .count = 3, .padding = 0}};
  const Results all = layer.of_ranks(ranks);
  for (std::size_t channel = 0; channel < 3; ++channel) {
    CHECK(all.mean.data[channel] == Approx(one.mean.data[channel]).epsilon(1e-7));
    CHECK(all.variance.data[channel] == Approx(one.variance.data[channel]).epsilon(1e-5));
  }
}

TEST_CASE("sync_batch_norm: a channel of equal numbers has a variance of zero, not of what rounding leaves") {
  constexpr std::int64_t channels = 100;
  constexpr double count = 77;
  std::vector<double> sums;
  std::vector<double> squares;
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    const double number = 1e6 / static_cast<double>(channel + 3);
    sums.push_back(count * number);
    squares.push_back(count * number * number);
  }
  std::vector<double> moments = sums;
  moments.insert(moments.end(), squares.begin(), squares.end());
  moments.push_back(count);
  const DeviceTensor of_all{{DType::f64, {2 * channels + 1}, {}}, upload(moments)};
  const DeviceTensor mean = uninitialised(DType::f32, {channels});
  const DeviceTensor variance = uninitialised(DType::f32, {channels});
  launch(kernels::JoinedStatistics{}, {of_all}, {mean, variance});
  const Values got = variance.values();
  for (std::size_t channel = 0; channel < got.data.size(); ++channel) {
    const double number = sums[channel] / count;
    CHECK(got.data[channel] >= 0);
    CHECK(got.data[channel] <= 4 * 0x1p-53 * number * number);
  }
}

TEST_CASE("sync_batch_norm: the running variance is unbiased by the count of all ranks") {
  Layer layer({6, 2, 2, 1}, row_major, DType::f32);
  std::vector<Rank> ranks{{.first = 0, .count = 2, .padding = 1}, {.first = 2, .count = 4, .padding = 0}};
  const Results all = layer.of_ranks(ranks);
  const Values zeros{{2}, {0, 0}};
  const DeviceTensor mean = tensor(zeros);
  const DeviceTensor variance = tensor(zeros);
  const DeviceTensor batches{{DType::i64, {}, {}}, upload(std::vector<std::int64_t>{0})};
  launch(kernels::RunningStatistics{.momentum = 0.5, .count = 6},
         {tensor(all.mean), tensor(all.variance), ranks[0].state, layer.moments()},
         {mean, variance, batches});
  for (std::size_t channel = 0; channel < 2; ++channel) {
    CHECK(mean.values().data[channel] == Approx(0.5 * all.mean.data[channel]).epsilon(1e-7));
    CHECK(variance.values().data[channel] ==
          Approx(0.5 * all.variance.data[channel] * 12 / 11).epsilon(1e-7));
  }
}

}  // namespace lockstep::ops
