#include "kernels/recurrent.h"

#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/cpu/recurrent_blocks.h"
#include "kernels/cpu/recurrent_onednn.h"
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

template <class Op, class Element>
KernelPtr forward_kernel(const Op& op, const KernelIo& io) {
  const RecurrentBlocks blocks = blocks_of<Op>(io.outputs[Op::y], columns / Op::gates, 1);
  const auto run = [=, compute = simd::best<Op>(),
                    multiply = simd::best<RecurrentProduct>()](const Addresses& a) {
    const RecurrentWorkspace memory(blocks, cells_of<Op>(blocks.size), a.workspace<float>());
    const auto* const h0 = a.in<Element>(op.h0());
    const auto* const lengths = a.in<std::int64_t>(op.lengths_at());
    const std::int64_t stride = blocks.stride();
    const RecurrentForward all = forward_operands<Op>(a, memory.cells, stride);
    blocks.on_team([&](std::int64_t begin, std::int64_t end) {
      RecurrentForward mine = all;
      float* const products = memory.products + begin * blocks.products();
      mine.product = {products, columns, blocks.units};
      for (std::int64_t block = begin; block < end; ++block) {
        pack_rows(blocks, block, Op::gates, a.in<Element>(Op::weight),
                  memory.weights + block * blocks.weights());
        const RecurrentPart part = blocks.part(block, 0, lengths);
        load_state(part, h0, memory.factors[0], stride);
        if constexpr (has_cells<Op>) load_state(part, a.in<Element>(op.c0()), all.c, blocks.size.hidden);
      }
      wait_for_all();
      for (std::int64_t step = 0; step < blocks.size.steps; ++step) {
        mine.h.at = memory.factors[(step + 1) % 2];
        for (std::int64_t block = begin; block < end; ++block) {
          if (step == 0 && h0 == nullptr) {
            std::fill_n(products, blocks.products(), 0.0F);
          } else {
            multiply({blocks.size.rows, blocks.depth, stride}, memory.factors[step % 2],
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

template <class Op, class Element>
KernelPtr backward_kernel(const Op& op, const KernelIo& io) {
  const RecurrentBlocks blocks = blocks_of<Op>(io.inputs[Op::y], columns, Op::gates);
  const auto run = [=, compute = simd::best<Op>(),
                    multiply = simd::best<RecurrentProduct>()](const Addresses& a) {
    const RecurrentSize& size = blocks.size;
    const RecurrentWorkspace memory(blocks, cells_of<Op>(size), a.workspace<float>());
    const auto* const lengths = a.in<std::int64_t>(op.lengths_at());
    const std::int64_t stride = blocks.stride();
    const RecurrentBackward all = backward_operands(op, a, memory.cells, memory.before, stride);
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
        float* const d = memory.factors[step % 2];
        mine.d.at = d;
        for (std::int64_t block = begin; block < end; ++block) {
          mine.product = {products(block), columns, columns};
          compute(op, blocks.part(block, step, lengths), mine);
        }
        wait_for_all();
        if (step == 0 && dh0 == nullptr) return;
        for (std::int64_t block = begin; block < end; ++block) {
          multiply({size.rows, blocks.depth, stride}, d, memory.weights + block * blocks.weights(),
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

template <class Op>
KernelPtr forward(Cpu cpu, const Op& op, const KernelIo& io) {
  if (io.outputs[Op::y].dtype == DType::f32) return forward_kernel<Op, float>(op, io);
  return takes_onednn(io.outputs[Op::y]) ? onednn_recurrent_forward(cpu.onednn, op, io)
                                         : forward_kernel<Op, BFloat16>(op, io);
}

template <class Op>
KernelPtr backward(Cpu cpu, const Op& op, const KernelIo& io) {
  if (io.inputs[Op::y].dtype == DType::f32) return backward_kernel<Op, float>(op, io);
  return takes_onednn(io.inputs[Op::y]) ? onednn_recurrent_backward(cpu.onednn, op, io)
                                        : backward_kernel<Op, BFloat16>(op, io);
}

}  // namespace

KernelPtr prepare(Cpu cpu, const Rnn& op, const KernelIo& io) {
  return forward(cpu, op, io);
}
KernelPtr prepare(Cpu cpu, const RnnBackward& op, const KernelIo& io) {
  return backward(cpu, op, io);
}
KernelPtr prepare(Cpu cpu, const Lstm& op, const KernelIo& io) {
  return forward(cpu, op, io);
}
KernelPtr prepare(Cpu cpu, const LstmBackward& op, const KernelIo& io) {
  return backward(cpu, op, io);
}

}  // namespace lockstep::kernels
