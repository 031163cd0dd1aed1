#include "kernels/recurrent.h"

#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/cpu/recurrent_blocks.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd_kernel.h"

namespace lockstep::kernels {
namespace {

constexpr std::int64_t columns = RecurrentBlocks::columns;

/// `states`: any tensor (N, T, H).
template <class Op>
RecurrentBlocks blocks_of(const TensorDesc& states, std::int64_t units, std::int64_t gates_of_term) {
  if (states.dtype == DType::f16) {
    throw UsageError(std::string(Op::name) + ": f16 is computed on GPUs; use bf16");
  }
  const Shape& shape = states.shape;
  return {{shape[0], shape[1], shape[2]}, states.dtype, units, gates_of_term * shape[2]};
}

template <class Op>
constexpr bool has_cells = requires {
  Op::cells;
};

template <class Op>
std::int64_t cells_of(const RecurrentSize& size) {
  return has_cells<Op> ? size.rows * size.hidden : 0;
}

template <class Op, class Element>
KernelPtr forward_kernel(const Op& op, const KernelIo& io) {
  const RecurrentBlocks blocks = blocks_of<Op>(io.outputs[Op::y], columns / Op::gates, 1);
  const auto run = [=, compute = simd::best<Op>(),
                    multiply = simd::best<RecurrentProduct>()](const Addresses& a) {
    const RecurrentWorkspace memory(blocks, cells_of<Op>(blocks.size), a.workspace<float>());
    const auto* const h0 = a.in<Element>(op.h0());
    const auto* const lengths = a.in<std::int64_t>(op.lengths_at());
    RecurrentForward all{};
    all.pre = a.in<Element>(Op::pre);
    all.bias = a.in<Element>(Op::bias);
    all.stride = blocks.stride();
    all.y = a.out<Element>(Op::y);
    all.c = memory.cells;
    if constexpr (has_cells<Op>) {
      all.gates = a.out<Element>(Op::activations);
      all.cells = a.out(Op::cells);
    }
    blocks.on_team([&](std::int64_t begin, std::int64_t end) {
      RecurrentForward mine = all;
      float* const products = memory.products + begin * blocks.products();
      mine.product = products;
      for (std::int64_t block = begin; block < end; ++block) {
        pack_rows(blocks, block, Op::gates, a.in<Element>(Op::weight),
                  memory.weights + block * blocks.weights());
        const RecurrentPart part = blocks.part(block, 0, lengths);
        load_state(part, h0, memory.factors[0], all.stride);
        if constexpr (has_cells<Op>) load_state(part, a.in<Element>(op.c0()), all.c, blocks.size.hidden);
      }
      wait_for_all();
      for (std::int64_t step = 0; step < blocks.size.steps; ++step) {
        mine.h = memory.factors[(step + 1) % 2];
        for (std::int64_t block = begin; block < end; ++block) {
          if (step == 0 && h0 == nullptr) {
            std::fill_n(products, blocks.products(), 0.0F);
          } else {
            multiply({blocks.size.rows, blocks.depth, all.stride}, memory.factors[step % 2],
                     memory.weights + block * blocks.weights(), products);
          }
          compute(op, blocks.part(block, step, lengths), mine);
        }
        wait_for_all();
      }
    });
  };
  return simd_kernel(io, run, RecurrentWorkspace(blocks, cells_of<Op>(blocks.size), nullptr).bytes());
}

/// previous (N, T, H): h0 or zeros, and the states but the last.
template <class Element>
void shift_steps(const RecurrentSize& size, const Element* y, const Element* h0, Element* previous) {
  const std::int64_t of_row = size.steps * size.hidden;
  parallel_ranges(size.rows, size.rows * of_row, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      Element* const to = previous + row * of_row;
      if (h0 == nullptr) {
        std::fill_n(to, size.hidden, Element{});
      } else {
        std::copy_n(h0 + row * size.hidden, size.hidden, to);
      }
      std::copy_n(y + row * of_row, of_row - size.hidden, to + size.hidden);
    }
  });
}

template <class Op, class Element>
KernelPtr backward_kernel(const Op& op, const KernelIo& io) {
  const RecurrentBlocks blocks = blocks_of<Op>(io.inputs[Op::y], columns, Op::gates);
  const auto run = [=, compute = simd::best<Op>(),
                    multiply = simd::best<RecurrentProduct>()](const Addresses& a) {
    const RecurrentSize& size = blocks.size;
    const RecurrentWorkspace memory(blocks, cells_of<Op>(size), a.workspace<float>());
    const auto* const lengths = a.in<std::int64_t>(op.lengths_at());
    RecurrentBackward all{};
    all.dy = a.in<Element>(Op::dy);
    all.y = a.in<Element>(Op::y);
    all.stride = blocks.stride();
    all.dpre = a.out<Element>(Op::dpre);
    all.dc = memory.cells;
    all.before = memory.before;
    if constexpr (has_cells<Op>) {
      all.gates = a.in<Element>(Op::activations);
      all.cells = a.in(Op::cells);
      all.dcells = a.in(op.dcells());
    }
    shift_steps(size, a.in<Element>(Op::y), a.in<Element>(op.h0()), a.out<Element>(Op::previous));
    auto* const dh0 = op.initial ? a.out<Element>(Op::dh0) : nullptr;
    blocks.on_team([&](std::int64_t begin, std::int64_t end) {
      RecurrentBackward mine = all;
      const auto products = [&](std::int64_t block) { return memory.products + block * blocks.products(); };
      for (std::int64_t block = begin; block < end; ++block) {
        pack_columns(blocks, block, a.in<Element>(Op::weight), memory.weights + block * blocks.weights());
        std::fill_n(products(block), blocks.products(), 0.0F);
        if constexpr (has_cells<Op>) {
          const RecurrentPart part = blocks.part(block, 0, lengths);
          load_state(part, static_cast<const float*>(nullptr), memory.cells, size.hidden);
          load_state(part, a.in<Element>(op.c0()), memory.before, size.hidden);
        }
      }
      for (std::int64_t step = size.steps; step-- > 0;) {
        mine.d = memory.factors[step % 2];
        for (std::int64_t block = begin; block < end; ++block) {
          mine.product = products(block);
          compute(op, blocks.part(block, step, lengths), mine);
        }
        wait_for_all();
        if (step == 0 && dh0 == nullptr) return;
        for (std::int64_t block = begin; block < end; ++block) {
          multiply({size.rows, blocks.depth, all.stride}, mine.d, memory.weights + block * blocks.weights(),
                   products(block));
        }
      }
      for (std::int64_t block = begin; block < end; ++block) {
        const RecurrentPart part = blocks.part(block, 0, lengths);
        store_state(part, products(block), columns, dh0);
        if constexpr (has_cells<Op>) {
          store_state(part, memory.cells + part.first, size.hidden, a.out<Element>(Op::dc0));
        }
      }
    });
  };
  return simd_kernel(io, run, RecurrentWorkspace(blocks, cells_of<Op>(blocks.size), nullptr).bytes());
}

}  // namespace

KernelPtr prepare(Cpu, const Rnn& op, const KernelIo& io) {
  const bool narrow = io.outputs[Rnn::y].dtype == DType::bf16;
  return narrow ? forward_kernel<Rnn, BFloat16>(op, io) : forward_kernel<Rnn, float>(op, io);
}

KernelPtr prepare(Cpu, const RnnBackward& op, const KernelIo& io) {
  const bool narrow = io.inputs[RnnBackward::y].dtype == DType::bf16;
  return narrow ? backward_kernel<RnnBackward, BFloat16>(op, io)
                : backward_kernel<RnnBackward, float>(op, io);
}

KernelPtr prepare(Cpu, const Lstm& op, const KernelIo& io) {
  const bool narrow = io.outputs[Lstm::y].dtype == DType::bf16;
  return narrow ? forward_kernel<Lstm, BFloat16>(op, io) : forward_kernel<Lstm, float>(op, io);
}

KernelPtr prepare(Cpu, const LstmBackward& op, const KernelIo& io) {
  const bool narrow = io.inputs[LstmBackward::y].dtype == DType::bf16;
  return narrow ? backward_kernel<LstmBackward, BFloat16>(op, io)
                : backward_kernel<LstmBackward, float>(op, io);
}

}  // namespace lockstep::kernels
