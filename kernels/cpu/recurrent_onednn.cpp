#include "kernels/cpu/recurrent_onednn.h"

#include <array>
#include <cstddef>

#include "kernels/base/alignment.h"
#include "kernels/base/error.h"
#include "kernels/cpu/onednn_op.h"
#include "kernels/cpu/recurrent_operands.h"
#include "kernels/cpu/simd/simd.h"

namespace lockstep::kernels {
namespace {

using dnnl::memory;

/// A product is at least so many multiply-adds: less than a library call takes.
constexpr std::int64_t least_product = 1 << 16;

/// c (rows, outputs) f32 = a (rows, inputs) b, whose transpose or itself the weights (G H, H) are. Weights
/// are laid out anew once a launch.
class Product {
 public:
  Product(const onednn::Context& context, const RecurrentSize& size, std::int64_t gates, bool forward)
      : size_(size),
        inputs_(forward ? size.hidden : gates * size.hidden),
        outputs_(forward ? gates * size.hidden : size.hidden) {
    const std::int64_t rows = size.rows;
    const memory::desc a({rows, inputs_}, memory::data_type::bf16, memory::dims{inputs_, 1});
    const memory::desc c({rows, outputs_}, memory::data_type::f32, memory::dims{outputs_, 1});
    const memory::desc w({outputs_, inputs_}, memory::data_type::bf16,
                         forward ? memory::dims{inputs_, 1} : memory::dims{1, outputs_});
    const onednn::Operands operands{a, onednn::any_layout({outputs_, inputs_}, DType::bf16), {}, c};
    const auto description =
        onednn::linear_forward(context.engine, operands, Activation::none, MatmulPrecision::highest);
    const memory::desc packed = description.query_md(dnnl::query::exec_arg_md, DNNL_ARG_WEIGHTS);
    packed_bytes_ = whole_lines(packed.get_size());
    multiply_ =
        onednn_kernel(context, description,
                      {{DNNL_ARG_SRC, true, a}, {DNNL_ARG_WEIGHTS, true, packed}, {DNNL_ARG_DST, false, c}});
    pack_ = onednn_reorder(context, w, packed);
  }

  /// From row to row of a: with gaps between them the library has only a slow way.
  std::int64_t row() const { return inputs_; }
  std::int64_t outputs() const { return outputs_; }

  std::size_t factor_bytes() const {
    return whole_lines(static_cast<std::size_t>(size_.rows * inputs_) * sizeof(BFloat16));
  }
  std::size_t result_bytes() const {
    return whole_lines(static_cast<std::size_t>(size_.rows * outputs_) * sizeof(float));
  }
  std::size_t workspace_bytes() const {
    return packed_bytes_ + factor_bytes() + result_bytes() + multiply_->workspace_bytes();
  }

  /// With its memory in a workspace.
  struct Bound {
    BFloat16* factors;  ///< a
    float* result;      ///< c
    std::unique_ptr<BoundKernel> pack, multiply;
  };
  Bound bind(const void* weights, std::byte* at) const {
    Bound bound{};
    std::byte* const packed = at;
    at += packed_bytes_;
    bound.factors = reinterpret_cast<BFloat16*>(at);
    bound.result = reinterpret_cast<float*>(at + factor_bytes());
    bound.pack = pack_->bind(std::array<void*, 2>{const_cast<void*>(weights), packed}, nullptr);
    bound.multiply = multiply_->bind(std::array<void*, 3>{bound.factors, packed, bound.result},
                                     at + factor_bytes() + result_bytes());
    return bound;
  }

 private:
  RecurrentSize size_;
  std::int64_t inputs_, outputs_;
  std::size_t packed_bytes_ = 0;
  KernelPtr pack_, multiply_;
};

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

RecurrentSize size_of_states(const TensorDesc& states) {
  return {states.shape[0], states.shape[1], states.shape[2]};
}

template <class Op>
class Forward : public Kernel {
 public:
  Forward(const onednn::Context& context, const Op& op, const KernelIo& io)
      : op_(op),
        size_(size_of_states(io.outputs[Op::y])),
        inputs_(io.inputs.size()),
        product_(context, size_, Op::gates, true) {}

  std::size_t workspace_bytes() const override {
    return product_.workspace_bytes() + static_cast<std::size_t>(cells_of<Op>(size_)) * sizeof(float);
  }

  std::unique_ptr<BoundKernel> bind(std::span<void* const> args, void* workspace) const override {
    return std::make_unique<Bound>(*this, Addresses(args, inputs_, workspace));
  }

 private:
  class Bound : public BoundKernel {
   public:
    Bound(const Forward& kernel, const Addresses& a)
        : op_(kernel.op_),
          size_(kernel.size_),
          a_(a),
          product_(kernel.product_.bind(a.in<void>(Op::weight), a.workspace<std::byte>())),
          cells_(reinterpret_cast<float*>(a.workspace<std::byte>() + kernel.product_.workspace_bytes())),
          all_(forward_operands<Op>(a, cells_, kernel.product_.row())),
          columns_(kernel.product_.outputs()) {
      all_.h.at = product_.factors;
    }

    void launch(Stream& stream) override {
      const auto* const lengths = a_.in<std::int64_t>(op_.lengths_at());
      const auto* const h0 = a_.in<BFloat16>(op_.h0());
      product_.pack->launch(stream);
      load_state(all_units(size_), h0, product_.factors, all_.h.row);
      if constexpr (has_cells<Op>)
        load_state(all_units(size_), a_.in<BFloat16>(op_.c0()), cells_, size_.hidden);
      if (h0 == nullptr) std::fill_n(product_.result, size_.rows * columns_, 0.0F);
      for (std::int64_t step = 0; step < size_.steps; ++step) {
        if (step > 0 || h0 != nullptr) product_.multiply->launch(stream);
        over_units(size_, step, lengths, [&](const RecurrentPart& part) {
          RecurrentForward mine = all_;
          mine.product = {product_.result + part.first, columns_, size_.hidden};
          compute_(op_, part, mine);
        });
      }
    }

   private:
    Op op_;
    RecurrentSize size_;
    Addresses a_;
    Product::Bound product_;
    float* cells_;
    RecurrentForward all_;
    std::int64_t columns_;
    typename Op::Simd* compute_ = simd::best<Op>();
  };

  Op op_;
  RecurrentSize size_;
  std::size_t inputs_;
  Product product_;
};

template <class Op>
class Backward : public Kernel {
 public:
  Backward(const onednn::Context& context, const Op& op, const KernelIo& io)
      : op_(op),
        size_(size_of_states(io.inputs[Op::y])),
        inputs_(io.inputs.size()),
        product_(context, size_, Op::gates, false) {}

  std::size_t workspace_bytes() const override {
    return product_.workspace_bytes() + 2 * static_cast<std::size_t>(cells_of<Op>(size_)) * sizeof(float);
  }

  std::unique_ptr<BoundKernel> bind(std::span<void* const> args, void* workspace) const override {
    return std::make_unique<Bound>(*this, Addresses(args, inputs_, workspace));
  }

 private:
  class Bound : public BoundKernel {
   public:
    Bound(const Backward& kernel, const Addresses& a)
        : op_(kernel.op_),
          size_(kernel.size_),
          a_(a),
          product_(kernel.product_.bind(a.in<void>(Op::weight), a.workspace<std::byte>())),
          cells_(reinterpret_cast<float*>(a.workspace<std::byte>() + kernel.product_.workspace_bytes())),
          before_(cells_ + cells_of<Op>(size_)),
          all_(backward_operands(op_, a, cells_, before_, kernel.product_.row())) {
      all_.d.at = product_.factors;
    }

    void launch(Stream& stream) override {
      const auto* const lengths = a_.in<std::int64_t>(op_.lengths_at());
      product_.pack->launch(stream);
      shift_steps(size_, a_.in<BFloat16>(Op::y), a_.in<BFloat16>(op_.h0()), a_.out<BFloat16>(Op::previous));
      std::fill_n(product_.result, size_.rows * size_.hidden, 0.0F);
      if constexpr (has_cells<Op>) {
        std::fill_n(cells_, cells_of<Op>(size_), 0.0F);
        load_state(all_units(size_), a_.in<BFloat16>(op_.c0()), before_, size_.hidden);
      }
      for (std::int64_t step = size_.steps; step-- > 0;) {
        over_units(size_, step, lengths, [&](const RecurrentPart& part) {
          RecurrentBackward mine = all_;
          mine.product = {product_.result + part.first, size_.hidden, size_.hidden};
          compute_(op_, part, mine);
        });
        if (step > 0 || op_.initial) product_.multiply->launch(stream);
      }
      if (!op_.initial) return;
      store_state(all_units(size_), product_.result, size_.hidden, a_.out<BFloat16>(Op::dh0));
      if constexpr (has_cells<Op>)
        store_state(all_units(size_), cells_, size_.hidden, a_.out<BFloat16>(Op::dc0));
    }

   private:
    Op op_;
    RecurrentSize size_;
    Addresses a_;
    Product::Bound product_;
    float* cells_;
    float* before_;
    RecurrentBackward all_;
    typename Op::Simd* compute_ = simd::best<Op>();
  };

  Op op_;
  RecurrentSize size_;
  std::size_t inputs_;
  Product product_;
};

}  // namespace

bool takes_onednn(const TensorDesc& states) {
  const RecurrentSize size = size_of_states(states);
  return onednn::multiplies_bf16_faster() && size.rows * size.hidden * size.hidden >= least_product;
}

template <class Op>
KernelPtr onednn_recurrent_forward(const onednn::Context& context, const Op& op, const KernelIo& io) {
  return std::make_unique<Forward<Op>>(context, op, io);
}
template <class Op>
KernelPtr onednn_recurrent_backward(const onednn::Context& context, const Op& op, const KernelIo& io) {
  return std::make_unique<Backward<Op>>(context, op, io);
}

template KernelPtr onednn_recurrent_forward(const onednn::Context&, const Rnn&, const KernelIo&);
template KernelPtr onednn_recurrent_forward(const onednn::Context&, const Lstm&, const KernelIo&);
template KernelPtr onednn_recurrent_backward(const onednn::Context&, const RnnBackward&, const KernelIo&);
template KernelPtr onednn_recurrent_backward(const onednn::Context&, const LstmBackward&, const KernelIo&);

}  // namespace lockstep::kernels
