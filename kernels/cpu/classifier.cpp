#include "kernels/classifier.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/classifier_workspace.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/widened.h"
#include "kernels/kernel.h"

namespace lockstep::kernels {
namespace {

using Op = ClassifierLoss;
using namespace classifier;

class Bound : public BoundKernel {
 public:
  Bound(const Op& op, const ClassifierSize& size, DType dtype, std::int64_t rows_of_sample,
        const ClassifierProducts& products, Addresses addresses, Workspace room)
      : op_(op),
        size_(size),
        dtype_(dtype),
        rows_of_sample_(rows_of_sample),
        steps_(products.steps),
        tiles_(size, products.keeps_exponentials()),
        a_(std::move(addresses)),
        room_(room) {
    for (const Matmul& product : products.all) products_.emplace_back(product, room.products);
  }

  void launch(Stream&) override {
    const StepState& state = *a_.in<StepState>(Op::state);
    gradient_ = {.label_smoothing = op_.label_smoothing,
                 .scale = state.loss_scale * state.scaler_scale,
                 .dtype = gradient_type(dtype_)};
    if (float* const dbias = a_.out(Op::dbias)) std::fill_n(dbias, size_.classes, 0.0F);
    bias_ = static_cast<const float*>(a_.in<void>(Op::bias));
    if (bias_ != nullptr && room_.wide_bias != nullptr) {
      widen_all(a_.in<BFloat16>(Op::bias), size_.classes, room_.wide_bias);
      bias_ = room_.wide_bias;
    }
    for (std::int64_t chunk = 0; chunk < size_.chunks(); ++chunk) run_chunk(chunk, state);
    account(room_.losses, size_.rows, state.loss_scale, *a_.out<ControlBlock>(Op::control));
  }

 private:
  using Step = ClassifierProducts::Step;

  void run_chunk(std::int64_t chunk, const StepState& state) {
    const std::int64_t begin = chunk * size_.chunk;
    const std::int64_t rows = std::min(size_.rows, begin + size_.chunk) - begin;
    const std::int64_t blocks = size_.blocks();
    begin_rows(begin, rows, state);
    const void* const x =
        factors(a_.in<std::byte>(Op::x), begin * size_.inputs, rows * size_.inputs, room_.wide_x);
    if (room_.tiles != nullptr) {
      tiles_.pack(static_cast<const BFloat16*>(x), rows, op_.has_gradient, room_.tiles);
    }
    if (room_.kept != nullptr) find_hits(rows);
    for (std::int64_t b = 0; b < blocks; ++b) {
      room_.kept != nullptr ? keep_exponentials(step(chunk, b), rows) : add_logits(step(chunk, b), rows, x);
    }
    for (std::int64_t b = 0; b < blocks; ++b) take_gradient(step(chunk, b), begin, rows, x);
    if (op_.has_gradient && room_.wide_dx != nullptr) round_dx(begin, rows);
    end_rows(begin, rows, state);
  }

  const Step& step(std::int64_t chunk, std::int64_t block) const {
    return steps_[static_cast<std::size_t>(chunk * size_.blocks() + block)];
  }

  static void widen_all(const BFloat16* halves, std::int64_t n, float* wide) {
    parallel_ranges(n, n, cache_line_floats, [&](std::int64_t begin, std::int64_t end) {
      std::transform(halves + begin, halves + end, wide + begin, [](BFloat16 half) { return widen(half); });
    });
  }

  /// Numbers of a factor as the products take them.
  const void* factors(const std::byte* from, std::int64_t first, std::int64_t n, float* wide) const {
    if (wide == nullptr) return from + first * static_cast<std::int64_t>(size_of(dtype_));
    widen_all(reinterpret_cast<const BFloat16*>(from) + first, n, wide);
    return wide;
  }

  const void* weights(const Step& step) const {
    return factors(a_.in<std::byte>(Op::weight), step.first * size_.inputs, step.columns * size_.inputs,
                   room_.wide_weight);
  }

  /// `body(begin, end)` on the team.
  template <class Body>
  static void for_rows(const Step& step, std::int64_t rows, const Body& body) {
    parallel_ranges(rows, rows * step.columns, 1, body);
  }

  void begin_rows(std::int64_t begin, std::int64_t rows, const StepState& state) {
    const auto* const targets = a_.in<std::int64_t>(Op::targets);
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t target = targets[begin + i];
      const bool has_gradient =
          begin + i < state.valid_samples * rows_of_sample_ && target >= 0 && target < size_.classes;
      room_.rows[i] = {.target = has_gradient ? target : ClassifierRow::none,
                       .before = 0,
                       .peak = std::numeric_limits<float>::lowest(),
                       .total = 0,
                       .sum = 0,
                       .hit = 0,
                       .broken = 0};
    }
  }

  void add_logits(const Step& step, std::int64_t rows, const void* x) {
    float* const logits = room_.logits + rows * step.first;
    const auto add_sums = [&](std::int64_t begin, std::int64_t end) {
      sums_kernel_(ClassifierSums{}, {begin, end, step.first, step.columns, step.row, size_.classes}, bias_,
                   logits, room_.rows);
    };
    if (step.by_tiles) {
      return tiles_.logits(static_cast<const BFloat16*>(weights(step)), rows, step.columns, logits,
                           room_.tiles, add_sums);
    }
    products_[step.logits].run(x, weights(step), logits);
    for_rows(step, rows, add_sums);
  }

  void find_hits(std::int64_t rows) {
    tiles_.hits(a_.in<BFloat16>(Op::weight), room_.rows, rows, room_.tiles);
    if (bias_ == nullptr) return;
    for (std::int64_t i = 0; i < rows; ++i)
      room_.rows[i].hit += bias_[std::max<std::int64_t>(room_.rows[i].target, 0)];
  }

  /// Of a block: where those of `row` are.
  BFloat16* kept(const Step& step, std::int64_t rows, std::int64_t row) const {
    return room_.kept + rows * step.first + row * step.row;
  }
  float* peaks(const Step& step, std::int64_t row) const {
    return room_.peaks + step.first / size_.block * size_.chunk + row;
  }

  void keep_exponentials(const Step& step, std::int64_t rows) {
    tiles_.pass_logits(static_cast<const BFloat16*>(weights(step)), rows, step.columns, room_.tiles,
                       [&](std::int64_t begin, std::int64_t end, float* logits) {
                         exponentials_kernel_(
                             {}, {0, end - begin, step.first, step.columns, step.row, size_.classes}, bias_,
                             logits, kept(step, rows, begin), peaks(step, begin), room_.rows + begin);
                       });
  }

  void write_kept_gradient(const Step& step, std::int64_t rows, std::int64_t begin, std::int64_t end) {
    const ClassifierKeptGradient op{gradient_.label_smoothing, gradient_.scale};
    kept_gradient_kernel_(op, {0, end - begin, step.first, step.columns, step.row, size_.classes},
                          kept(step, rows, begin), peaks(step, begin),
                          reinterpret_cast<BFloat16*>(room_.gradient) + begin * step.row, room_.rows + begin);
  }

  void take_gradient(const Step& step, std::int64_t begin, std::int64_t rows, const void* x) {
    const float* const logits = room_.logits + rows * step.first;
    void* const gradient = op_.has_gradient ? room_.gradient : nullptr;
    const auto write_gradient = [&](std::int64_t first, std::int64_t end) {
      if (room_.kept != nullptr) return write_kept_gradient(step, rows, first, end);
      gradient_kernel_(gradient_, {first, end, step.first, step.columns, step.row, size_.classes}, logits,
                       gradient, room_.rows);
    };
    if (!op_.has_gradient) return for_rows(step, rows, write_gradient);
    float* const dx = room_.wide_dx == nullptr ? a_.out(Op::dx) + begin * size_.inputs : room_.wide_dx;
    float* const dweight = a_.out(Op::dweight) + step.first * size_.inputs;
    if (step.by_tiles) {
      const auto* const halves = reinterpret_cast<const BFloat16*>(room_.gradient);
      tiles_.dx(halves, static_cast<const BFloat16*>(weights(step)), rows, step.columns, dx, step.first > 0,
                room_.tiles, write_gradient);
      tiles_.dweight(halves, rows, step.columns, dweight, begin > 0, room_.tiles);
    } else {
      for_rows(step, rows, write_gradient);
      step.dx_of_few_rows ? step.dx_of_few_rows->run(gradient, weights(step), dx, room_.products)
                          : products_[step.dx].run(gradient, weights(step), dx);
      products_[step.dweight].run(gradient, x, dweight);
    }
    if (float* const dbias = a_.out(Op::dbias)) add_bias_gradient(step, rows, gradient, dbias + step.first);
  }

  /// Rows in their order, each column by one thread. Rounding grows with the rows that are added one after
  /// another.
  void add_bias_gradient(const Step& step, std::int64_t rows, const void* gradient, float* dbias) const {
    constexpr std::int64_t chain = 256;
    const auto add = [&](std::int64_t begin, std::int64_t end) {
      float sums[ClassifierSize::most_halves];
      for (std::int64_t first = 0; first < rows; first += chain) {
        std::fill_n(sums, end - begin, 0.0F);
        for (std::int64_t i = first; i < std::min(rows, first + chain); ++i) {
          for_each_widened(gradient_.dtype, gradient, i * step.row + begin, end - begin,
                           [&](const float* values, std::int64_t at, std::int64_t n) {
                             float* const to = &sums[at - i * step.row - begin];
                             for (std::int64_t k = 0; k < n; ++k) to[k] += values[k];
                           });
        }
        for (std::int64_t k = begin; k < end; ++k) dbias[k] += sums[k - begin];
      }
    };
    parallel_ranges(step.columns, rows * step.columns, cache_line_floats, add);
  }

  void round_dx(std::int64_t first, std::int64_t rows) const {
    auto* const dx = a_.out<BFloat16>(Op::dx) + first * size_.inputs;
    const std::int64_t n = rows * size_.inputs;
    parallel_ranges(n, n, cache_line_floats, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) narrow(room_.wide_dx[i], dx[i]);
    });
  }

  void end_rows(std::int64_t begin, std::int64_t rows, const StepState& state) {
    const auto* const targets = a_.in<std::int64_t>(Op::targets);
    for (std::int64_t i = 0; i < rows; ++i) {
      const bool counts =
          begin + i < state.valid_samples * rows_of_sample_ && targets[begin + i] != ignored_target;
      room_.losses[begin + i] = counts ? loss_of(room_.rows[i]) : RowLoss{0, 0, 0, 0};
    }
  }

  RowLoss loss_of(const ClassifierRow& row) const {
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    if (row.target == ClassifierRow::none) return {nan, 0, 0, 1};
    const float smoothing = op_.label_smoothing;
    const float log_total = std::log(row.total);
    const float hard = log_total - (row.hit - row.peak);
    const float soft = smoothing > 0 ? log_total - row.sum / static_cast<float>(size_.classes) : 0;
    const bool whole = row.broken == 0;
    return {(1 - smoothing) * hard + smoothing * soft + (whole ? 0 : nan),
            row.before == 0 && whole ? 1.0F : 0.0F, row.before < 5 && whole ? 1.0F : 0.0F, 1};
  }

  Op op_;
  ClassifierSize size_;
  DType dtype_;
  std::int64_t rows_of_sample_;
  std::vector<Step> steps_;
  std::vector<Matmul::Bound> products_;
  ClassifierTiles tiles_;
  Addresses a_;
  Workspace room_;
  ClassifierGradient gradient_{};
  const float* bias_ = nullptr;
  ClassifierSums::Simd* sums_kernel_ = simd::best<ClassifierSums>();
  ClassifierGradient::Simd* gradient_kernel_ = simd::best<ClassifierGradient>();
  ClassifierExponentials::Simd* exponentials_kernel_ = simd::best<ClassifierExponentials>();
  ClassifierKeptGradient::Simd* kept_gradient_kernel_ = simd::best<ClassifierKeptGradient>();
};

class ClassifierKernel : public Kernel {
 public:
  ClassifierKernel(Cpu cpu, const Op& op, const KernelIo& io)
      : op_(op),
        dtype_(io.inputs[Op::x].dtype),
        size_(matmul_size(io.inputs[Op::x].shape, io.inputs[Op::weight].shape), op, gradient_type(dtype_)),
        rows_of_sample_(io.inputs[Op::x].shape.rank() == 3 ? io.inputs[Op::x].shape[1] : 1),
        inputs_(io.inputs.size()),
        products_(cpu.onednn, size_, gradient_type(dtype_), op.precision, op.has_gradient) {}

  std::size_t workspace_bytes() const override {
    Pieces pieces(nullptr);
    Workspace(pieces, size_, dtype_, products_);
    return pieces.used();
  }

  std::unique_ptr<BoundKernel> bind(std::span<void* const> args, void* workspace) const override {
    Pieces pieces(workspace);
    return std::make_unique<Bound>(op_, size_, dtype_, rows_of_sample_, products_,
                                   Addresses(args, inputs_, workspace),
                                   Workspace(pieces, size_, dtype_, products_));
  }

 private:
  Op op_;
  DType dtype_;
  ClassifierSize size_;
  std::int64_t rows_of_sample_;
  std::size_t inputs_;
  ClassifierProducts products_;
};

}  // namespace

void choose_layouts(Cpu, const ClassifierLoss&, KernelIo& io) {
  all_row_major(io);
}

KernelPtr prepare(Cpu cpu, const ClassifierLoss& op, const KernelIo& io) {
  return std::make_unique<ClassifierKernel>(cpu, op, io);
}

}  // namespace lockstep::kernels
