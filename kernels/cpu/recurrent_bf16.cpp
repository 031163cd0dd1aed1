#include "kernels/cpu/recurrent_bf16.h"

#include <cstddef>

#include "kernels/base/error.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/recurrent_operands.h"
#include "kernels/cpu/recurrent_products.h"
#include "kernels/cpu/simd/simd.h"

namespace lockstep::kernels {
namespace {

/// A product is at least so many multiply-adds: less than a library call takes.
constexpr std::int64_t least_product = 1 << 16;

/// Of a layer with states (T, N, H) of this size.
StepProduct::Size product_size(const RecurrentSize& size, std::int64_t gates, bool forward) {
  const std::int64_t all = gates * size.hidden;
  return {size.rows, forward ? size.hidden : all, forward ? all : size.hidden, forward};
}

/// `compute(part, first unit)` on the team, each thread some units.
template <class Compute>
void over_units(const RecurrentSize& size, std::int64_t step, const std::int64_t* lengths,
                const Compute& compute) {
  constexpr std::int64_t cost = 32;  // of a unit, in multiply-adds
  parallel_ranges(size.hidden, size.rows * size.hidden * cost, 2 * cache_line_floats,
                  [&](std::int64_t begin, std::int64_t end) {
                    compute(RecurrentPart{size, DType::bf16, DType::bf16, step, begin, end - begin, lengths});
                  });
}

RecurrentPart all_units(const RecurrentSize& size) {
  return {size, DType::bf16, DType::bf16, 0, 0, size.hidden, nullptr};
}

/// What the launches of both directions have. `cells_`, behind the product's workspace, is where its states
/// of cells begin.
template <class Op>
class Launches : public BoundKernel {
 protected:
  Launches(const Op& op, const RecurrentSize& size, const StepProduct& product, const Addresses& a)
      : op_(op),
        size_(size),
        a_(a),
        product_(product.bind(a.in<void>(Op::weight), a.workspace<std::byte>())),
        cells_(reinterpret_cast<float*>(a.workspace<std::byte>() + product.workspace_bytes())) {}

  const BFloat16* h0() const { return a_.in<BFloat16>(op_.h0()); }
  const BFloat16* c0() const { return a_.in<BFloat16>(op_.c0()); }

  /// Computes a step with what `all` has in common for all parts; rows of the product are `columns` long.
  template <class Tensors>
  void compute(std::int64_t step, const Tensors& all, std::int64_t columns) {
    over_units(size_, step, a_.in<std::int64_t>(op_.lengths_at()), [&](const RecurrentPart& part) {
      Tensors mine = all;
      mine.product = {product_.result + part.first, columns, size_.hidden};
      compute_(op_, part, mine);
    });
  }

  Op op_;
  RecurrentSize size_;
  Addresses a_;
  StepProduct::Bound product_;
  float* cells_;

 private:
  typename Op::Simd* compute_ = simd::best<Op>();
};

template <class Op>
class Forward : public Launches<Op> {
 public:
  static constexpr bool is_forward = true;
  static constexpr std::int64_t cell_states = 1;

  Forward(const Op& op, const RecurrentSize& size, const StepProduct& product, const Addresses& a)
      : Launches<Op>(op, size, product, a),
        all_(forward_operands<Op>(a, cells_, product.size().inputs)),
        columns_(product.size().outputs) {
    all_.h.at = product_.factors;
  }

  void launch(Stream& stream) override {
    const auto* const h0 = this->h0();
    product_.pack->launch(stream);
    load_state(all_units(size_), h0, product_.factors, all_.h.row);
    if constexpr (has_cells<Op>) load_state(all_units(size_), this->c0(), cells_, size_.hidden);
    if (h0 == nullptr) std::fill_n(product_.result, size_.rows * columns_, 0.0F);
    for (std::int64_t step = 0; step < size_.steps; ++step) {
      if (step > 0 || h0 != nullptr) product_.multiply->launch(stream);
      this->compute(step, all_, columns_);
    }
  }

 private:
  using Launches<Op>::size_, Launches<Op>::product_, Launches<Op>::cells_;

  RecurrentForward all_;
  std::int64_t columns_;
};

template <class Op>
class Backward : public Launches<Op> {
 public:
  static constexpr bool is_forward = false;
  static constexpr std::int64_t cell_states = 2;

  Backward(const Op& op, const RecurrentSize& size, const StepProduct& product, const Addresses& a)
      : Launches<Op>(op, size, product, a),
        before_(cells_ + cells_of<Op>(size)),
        zeros_(before_ + cells_of<Op>(size)),
        all_(backward_operands(op_, a, cells_, before_, zeros_, product.size().inputs)) {
    all_.d.at = product_.factors;
  }

  void launch(Stream& stream) override {
    const bool initial = op_.forward.initial;
    product_.pack->launch(stream);
    std::fill_n(product_.result, size_.rows * size_.hidden, 0.0F);
    std::fill_n(zeros_, size_.hidden, 0.0F);
    if constexpr (has_cells<Op>) {
      std::fill_n(cells_, cells_of<Op>(size_), 0.0F);
      load_state(all_units(size_), this->c0(), before_, size_.hidden);
    }
    for (std::int64_t step = size_.steps; step-- > 0;) {
      this->compute(step, all_, size_.hidden);
      if (step > 0 || initial) product_.multiply->launch(stream);
    }
    if (!initial) return;
    store_state(all_units(size_), product_.result, size_.hidden, a_.template out<BFloat16>(Op::dh0));
    if constexpr (has_cells<Op>)
      store_state(all_units(size_), cells_, size_.hidden, a_.template out<BFloat16>(Op::dc0));
  }

 private:
  using Launches<Op>::op_, Launches<Op>::size_, Launches<Op>::a_, Launches<Op>::product_,
      Launches<Op>::cells_;

  float* before_;
  float* zeros_;
  RecurrentBackward all_;
};

template <class Op, class Bound>
class RecurrentKernel : public Kernel {
 public:
  RecurrentKernel(const onednn::Context& context, const Op& op, const KernelIo& io, const RecurrentSize& size)
      : op_(op),
        size_(size),
        inputs_(io.inputs.size()),
        product_(step_product(context, product_size(size_, Op::gates, Bound::is_forward))) {}

  std::size_t workspace_bytes() const override {
    const std::int64_t cells = Bound::cell_states * cells_of<Op>(size_);
    return product_->workspace_bytes() + static_cast<std::size_t>(cells + size_.hidden) * sizeof(float);
  }

  std::unique_ptr<BoundKernel> bind(std::span<void* const> args, void* workspace) const override {
    return std::make_unique<Bound>(op_, size_, *product_, Addresses(args, inputs_, workspace));
  }

 private:
  Op op_;
  RecurrentSize size_;
  std::size_t inputs_;
  std::unique_ptr<StepProduct> product_;
};

}  // namespace

bool rounds_to_bf16(const RecurrentSize& size) {
  return onednn::multiplies_bf16_faster() && size.rows * size.hidden * size.hidden >= least_product;
}

template <class Op>
KernelPtr bf16_recurrent_forward(const onednn::Context& context, const Op& op, const KernelIo& io) {
  return std::make_unique<RecurrentKernel<Op, Forward<Op>>>(context, op, io,
                                                            recurrent_size(io.outputs[Op::y].shape));
}
template <class Op>
KernelPtr bf16_recurrent_backward(const onednn::Context& context, const Op& op, const KernelIo& io) {
  return std::make_unique<RecurrentKernel<Op, Backward<Op>>>(
      context, op, io, size_of_gates(io.outputs[Op::dpre].shape, Op::gates));
}

template KernelPtr bf16_recurrent_forward(const onednn::Context&, const Rnn&, const KernelIo&);
template KernelPtr bf16_recurrent_forward(const onednn::Context&, const Lstm&, const KernelIo&);
template KernelPtr bf16_recurrent_backward(const onednn::Context&, const RnnBackward&, const KernelIo&);
template KernelPtr bf16_recurrent_backward(const onednn::Context&, const LstmBackward&, const KernelIo&);

}  // namespace lockstep::kernels
