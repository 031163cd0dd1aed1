#include "kernels/recurrent.h"

#include "kernels/cuda/portability.h"

#include "kernels/base/alignment.h"
#include "kernels/cuda/cast.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/recurrent_cells.h"

// A product and a kernel for the gates for each step, one behind the other in their stream; --cuda-graph
// makes one launch of them all.
namespace lockstep::kernels {
namespace {

/// Consecutive pieces of a workspace, each as aligned as a tensor; `gemm` as scratch memory is.
struct Pieces {
  std::size_t states;   ///< (N, H) of the tensors' type, or (N, G H) of gate gradients
  std::size_t product;  ///< f32
  std::size_t cells;    ///< (N, H) f32
  std::size_t gemm;

  std::size_t gemm_at() const { return rounded_up(states + product + cells, workspace_alignment); }
  std::size_t bytes() const { return gemm_at() + gemm; }
};

struct Memory {
  void* states;
  float* product;
  float* cells;
  void* gemm;

  Memory(const Pieces& pieces, char* at)
      : states(at),
        product(reinterpret_cast<float*>(at + pieces.states)),
        cells(reinterpret_cast<float*>(at + pieces.states + pieces.product)),
        gemm(at + pieces.gemm_at()) {}
};

template <class Op>
constexpr bool has_cells = requires {
  Op::cells;
};

template <class Op>
Pieces pieces_of(const RecurrentSize& size, DType dtype, std::int64_t state_gates, std::int64_t product_gates,
                 const Gemm& gemm) {
  const auto units = static_cast<std::size_t>(size.rows * size.hidden);
  return {whole_lines(units * static_cast<std::size_t>(state_gates) * size_of(dtype)),
          whole_lines(units * static_cast<std::size_t>(product_gates) * sizeof(float)),
          has_cells<Op> ? whole_lines(units * sizeof(float)) : 0, gemm.workspace_bytes()};
}

template <class Op, class Element>
KernelPtr forward_kernel(Cuda cuda, const Op& op, const KernelIo& io, const Element*) {
  const TensorDesc& y = io.outputs[Op::y];
  const RecurrentSize size = recurrent_size(y.shape);
  const auto gemm = prepare_gemm({.m = size.rows,
                                  .n = Op::gates * size.hidden,
                                  .k = size.hidden,
                                  .transpose_b = true,
                                  .dtype = y.dtype,
                                  .precision = gpu_precision(op.precision)},
                                 cuda.described);
  const Pieces pieces = pieces_of<Op>(size, y.dtype, 1, Op::gates, *gemm);
  const Spread s = spread(size.rows * size.hidden);
  const auto run = [=](const Addresses& a, cudaStream_t stream) {
    const Memory memory(pieces, a.workspace<char>());
    const auto* const lengths = a.in<std::int64_t>(op.lengths_at());
    auto* const h = static_cast<Element*>(memory.states);
    for (std::int64_t step = 0; step < size.steps; ++step) {
      const void* const before = step > 0 ? h : a.in<void>(op.h0());
      const float* const product = before == nullptr ? nullptr : memory.product;
      if (before != nullptr)
        gemm->launch({before, a.in<void>(Op::weight), memory.product}, memory.gemm, stream);
      const RecurrentStep at{size, step};
      if constexpr (has_cells<Op>) {
        const LstmForward<Element> f{.pre = a.in<Element>(Op::pre),
                                     .product = product,
                                     .c0 = a.in<Element>(op.c0()),
                                     .lengths = lengths,
                                     .gates = a.out<Element>(Op::activations),
                                     .y = a.out<Element>(Op::y),
                                     .h = h,
                                     .cells = a.out(Op::cells),
                                     .c = memory.cells};
        launch(lstm_step<Element>, s.blocks, s.threads, 0, stream, at, f);
      } else {
        const RnnForward<Element> f{.pre = a.in<Element>(Op::pre),
                                    .product = product,
                                    .lengths = lengths,
                                    .y = a.out<Element>(Op::y),
                                    .h = h};
        launch(rnn_step<Element>, s.blocks, s.threads, 0, stream, at, op.nonlinearity == Nonlinearity::relu,
               f);
      }
    }
  };
  return cuda_kernel(io, run, pieces.bytes());
}

template <class Op, class Element>
KernelPtr backward_kernel(Cuda cuda, const Op& op, const KernelIo& io, const Element*) {
  const TensorDesc& dpre = io.outputs[Op::dpre];
  const RecurrentSize size = size_of_gates(dpre.shape, Op::gates);
  const auto gemm = prepare_gemm({.m = size.rows,
                                  .n = size.hidden,
                                  .k = Op::gates * size.hidden,
                                  .dtype = dpre.dtype,
                                  .precision = gpu_precision(op.forward.precision)},
                                 cuda.described);
  const Pieces pieces = pieces_of<Op>(size, dpre.dtype, Op::gates, 1, *gemm);
  const std::int64_t units = size.rows * size.hidden;
  const auto run = [=, dtype = dpre.dtype, s = spread(units)](const Addresses& a, cudaStream_t stream) {
    const Memory memory(pieces, a.workspace<char>());
    const auto* const lengths = a.in<std::int64_t>(op.lengths_at());
    auto* const d = static_cast<Element*>(memory.states);
    for (std::int64_t step = size.steps; step-- > 0;) {
      const float* const product = step == size.steps - 1 ? nullptr : memory.product;
      const RecurrentStep at{size, step};
      if constexpr (has_cells<Op>) {
        const LstmGradient<Element> b{.dy = {a.in<Element>(Op::dy), op.last},
                                      .dcells = a.in(op.dcells()),
                                      .gates = a.in<Element>(Op::activations),
                                      .cells = a.in(Op::cells),
                                      .c0 = a.in<Element>(op.c0()),
                                      .product = product,
                                      .lengths = lengths,
                                      .dc = memory.cells,
                                      .d = d,
                                      .dpre = a.out<Element>(Op::dpre)};
        launch(lstm_step_backward<Element>, s.blocks, s.threads, 0, stream, at, b);
      } else {
        const RnnGradient<Element> b{.dy = {a.in<Element>(Op::dy), op.last},
                                     .y = a.in<Element>(Op::y),
                                     .product = product,
                                     .lengths = lengths,
                                     .d = d,
                                     .dpre = a.out<Element>(Op::dpre)};
        launch(rnn_step_backward<Element>, s.blocks, s.threads, 0, stream, at,
               op.forward.nonlinearity == Nonlinearity::relu, b);
      }
      if (step > 0 || op.forward.initial) {
        gemm->launch({d, a.in<void>(Op::weight), memory.product}, memory.gemm, stream);
      }
    }
    if (!op.forward.initial) return;
    launch_cast(units, DType::f32, memory.product, dtype, a.out<void>(Op::dh0), stream);
    if constexpr (has_cells<Op>) {
      launch_cast(units, DType::f32, memory.cells, dtype, a.out<void>(Op::dc0), stream);
    }
  };
  return cuda_kernel(io, run, pieces.bytes());
}

}  // namespace

KernelPtr prepare(Cuda cuda, const Rnn& op, const KernelIo& io) {
  return with_element(io.outputs[Rnn::y].dtype,
                      [&](auto* element) { return forward_kernel(cuda, op, io, element); });
}

KernelPtr prepare(Cuda cuda, const RnnBackward& op, const KernelIo& io) {
  return with_element(io.inputs[RnnBackward::dy].dtype,
                      [&](auto* element) { return backward_kernel(cuda, op, io, element); });
}

KernelPtr prepare(Cuda cuda, const Lstm& op, const KernelIo& io) {
  return with_element(io.outputs[Lstm::y].dtype,
                      [&](auto* element) { return forward_kernel(cuda, op, io, element); });
}

KernelPtr prepare(Cuda cuda, const LstmBackward& op, const KernelIo& io) {
  return with_element(io.inputs[LstmBackward::dy].dtype,
                      [&](auto* element) { return backward_kernel(cuda, op, io, element); });
}

}  // namespace lockstep::kernels
