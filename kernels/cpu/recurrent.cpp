#include "kernels/recurrent.h"

#include <algorithm>
#include <array>
#include <span>

#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/recurrent_bf16.h"
#include "kernels/cpu/recurrent_blocks.h"
#include "kernels/cpu/simd/simd.h"

namespace lockstep::kernels {
namespace {

constexpr std::int64_t columns = RecurrentBlocks::columns;

template <class Op, class Element>
KernelPtr forward_kernel(const Op& op, const KernelIo& io) {
  const TensorDesc& y = io.outputs[Op::y];
  const RecurrentSize states = recurrent_size(y.shape);
  const RecurrentBlocks blocks{states, y.dtype, columns / Op::gates, states.hidden};
  const auto run = [=, compute = simd::best<Op>()](const Addresses& a) {
    const RecurrentWorkspace memory(blocks, cells_of<Op>(blocks.size), a.workspace<float>());
    const auto* const h0 = a.in<Element>(op.h0());
    const auto* const lengths = a.in<std::int64_t>(op.lengths_at());
    const RecurrentForward all = forward_operands<Op>(a, memory.cells, blocks.factor_row());
    blocks.on_team([&](std::int64_t begin, std::int64_t end) {
      RecurrentForward mine = all;
      mine.product = blocks.products(memory.products, begin);
      for (std::int64_t block = begin; block < end; ++block) {
        pack_rows(blocks, block, Op::gates, a.in<Element>(Op::weight),
                  memory.weights + block * blocks.weights());
      }
      const RecurrentPart first = blocks.part(begin, end, 0, lengths);
      load_state(first, h0, memory.factors[0], all.h.row);
      if constexpr (has_cells<Op>) load_state(first, a.in<Element>(op.c0()), all.c, blocks.size.hidden);
      wait_for_all();
      for (std::int64_t step = 0; step < blocks.size.steps; ++step) {
        const RecurrentPart part = blocks.part(begin, end, step, lengths);
        if (step == 0 && h0 == nullptr) {
          blocks.clear_products(memory.products, begin, end);
        } else {
          multiply(blocks, memory.factors[step % 2], memory, begin, end,
                   step_columns<Op::gates>(part, a.in<Element>(Op::pre)));
        }
        mine.h.at = memory.factors[(step + 1) % 2];
        compute(op, part, mine);
        wait_for_all();
      }
    });
  };
  return cpu_kernel(io, run, RecurrentWorkspace(blocks, cells_of<Op>(blocks.size), nullptr).bytes());
}

/// What backward reads in a step, dy as the last.
template <class Op, class Element>
auto read_by_backward(const Addresses& a, const RecurrentPart& part) {
  const StepColumns dy = step_columns<1>(part, a.in<Element>(Op::dy)).front();
  if constexpr (has_cells<Op>) {
    const auto gates = step_columns<Op::gates>(part, a.in<Element>(Op::activations));
    const StepColumns cells = step_columns<1>(part, a.in<float>(Op::cells)).front();
    return std::array{gates[0], gates[1], gates[2], gates[3], cells, dy};
  } else {
    return std::array{step_columns<1>(part, a.in<Element>(Op::y)).front(), dy};
  }
}

template <class Op, class Element>
KernelPtr backward_kernel(const Op& op, const KernelIo& io) {
  const TensorDesc& dpre = io.outputs[Op::dpre];
  const RecurrentBlocks blocks{size_of_gates(dpre.shape, Op::gates), dpre.dtype, columns, dpre.shape[2]};
  const auto run = [=, compute = simd::best<Op>()](const Addresses& a) {
    const RecurrentSize& size = blocks.size;
    const RecurrentWorkspace memory(blocks, cells_of<Op>(size), a.workspace<float>());
    const auto* const lengths = a.in<std::int64_t>(op.lengths_at());
    const RecurrentBackward all =
        backward_operands(op, a, memory.cells, memory.before, memory.zeros, blocks.factor_row());
    std::fill_n(memory.zeros, size.hidden, 0.0F);
    auto* const dh0 = op.forward.initial ? a.out<Element>(Op::dh0) : nullptr;
    blocks.on_team([&](std::int64_t begin, std::int64_t end) {
      RecurrentBackward mine = all;
      mine.product = blocks.products(memory.products, begin);
      for (std::int64_t block = begin; block < end; ++block) {
        pack_columns(blocks, block, a.in<Element>(Op::weight), memory.weights + block * blocks.weights());
      }
      blocks.clear_products(memory.products, begin, end);
      const RecurrentPart first = blocks.part(begin, end, 0, lengths);
      if constexpr (has_cells<Op>) {
        load_state(first, static_cast<const float*>(nullptr), memory.cells, size.hidden);
        load_state(first, a.in<Element>(op.c0()), memory.before, size.hidden);
      }
      for (std::int64_t step = size.steps; step-- > 0;) {
        float* const d = memory.factors[step % 2];
        mine.d.at = d;
        compute(op, blocks.part(begin, end, step, lengths), mine);
        wait_for_all();
        if (step == 0 && dh0 == nullptr) return;
        const auto next = read_by_backward<Op, Element>(
            a, blocks.part(begin, end, std::max(step - 1, std::int64_t{0}), lengths));
        multiply(blocks, d, memory, begin, end, std::span(next).first(next.size() - (op.last ? 1 : 0)));
      }
      store_state(first, mine.product.at, mine.product.row, dh0);
      if constexpr (has_cells<Op>) {
        store_state(first, memory.cells + first.first, size.hidden, a.out<Element>(Op::dc0));
      }
    });
  };
  return cpu_kernel(io, run, RecurrentWorkspace(blocks, cells_of<Op>(blocks.size), nullptr).bytes());
}

template <class Op>
KernelPtr forward(Cpu cpu, const Op& op, const KernelIo& io) {
  const TensorDesc& y = io.outputs[Op::y];
  if (y.dtype == DType::f32) return forward_kernel<Op, float>(op, io);
  return rounds_to_bf16(recurrent_size(y.shape)) ? bf16_recurrent_forward(cpu.onednn, op, io)
                                                 : forward_kernel<Op, BFloat16>(op, io);
}

template <class Op>
KernelPtr backward(Cpu cpu, const Op& op, const KernelIo& io) {
  const TensorDesc& dpre = io.outputs[Op::dpre];
  if (dpre.dtype == DType::f32) return backward_kernel<Op, float>(op, io);
  return rounds_to_bf16(size_of_gates(dpre.shape, Op::gates)) ? bf16_recurrent_backward(cpu.onednn, op, io)
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
