#include "kernels/attention.h"

#include <omp.h>

#include <algorithm>

#include "kernels/base/division.h"
#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/tiles.h"
#include "kernels/tile_attention.h"

namespace lockstep::kernels {
namespace {

/// Everything about a launch but its addresses. `slots`: pieces of work with scratch memory of their own, one
/// for each thread of the team; no number depends on how the work is cut.
struct Work {
  Attention op;
  AttentionSize size;
  DType dtype;
  std::int64_t slots;
  std::int64_t scratch;  ///< floats of a slot

  std::int64_t heads() const { return size.samples * size.heads; }
  std::size_t workspace() const { return static_cast<std::size_t>(slots * scratch) * sizeof(float); }
  std::int64_t multiply_adds() const { return heads() * size.queries * size.keys * size.dim; }
};

Work work_of(const Attention& op, const KernelIo& io, std::size_t q, std::int64_t pieces_of_head) {
  const Types in = types_of(io.inputs);
  Work work{
      .op = op, .size = op.size(TypeSpan(in).subspan(q)), .dtype = in[q].dtype, .slots = 1, .scratch = 0};
  const std::int64_t pieces = std::max<std::int64_t>(1, work.heads() * pieces_of_head);
  work.slots = std::min<std::int64_t>(omp_get_max_threads(), pieces);
  return work;
}

/// Head `index` of all samples' heads. `q`: the first input of forward.
AttentionHead head_of(const Work& work, const Addresses& a, std::size_t q, std::int64_t index) {
  const AttentionSize& s = work.size;
  const std::int64_t sample = index / s.heads;
  const std::int64_t head = index % s.heads;
  const auto bytes = static_cast<std::int64_t>(size_of(work.dtype));
  const auto input = [&](std::size_t which, std::int64_t rows) {
    const AttentionPart& part = s.parts[which];
    return a.in<char>(q + part.tensor) + (sample * rows * part.row + part.column + head * s.dim) * bytes;
  };
  AttentionHead at{.dtype = work.dtype,
                   .queries = s.queries,
                   .keys = s.keys,
                   .dim = s.dim,
                   .first_query = 0,
                   .end_query = s.queries,
                   .q_row = s.parts[0].row,
                   .k_row = s.parts[1].row,
                   .v_row = s.parts[2].row,
                   .y_row = s.columns(),
                   .q = input(0, s.queries),
                   .k = input(1, s.keys),
                   .v = input(2, s.keys),
                   .tokens = nullptr,
                   .positions = nullptr,
                   .random = {0, 0}};
  if (work.op.masked) at.tokens = a.in<std::int64_t>(q + work.op.tokens()) + sample * s.keys;
  if (work.op.documents) at.positions = a.in<std::int64_t>(q + work.op.positions()) + sample * s.queries;
  if (work.op.p > 0) {
    const StepState& state = *a.in<StepState>(q + work.op.state());
    at.random =
        attention_random(work.op.dropout(), state, state.first_sample + sample * state.sample_stride, head);
  }
  return at;
}

/// Of y and dy.
std::int64_t result_offset(const Work& work, std::int64_t index) {
  const AttentionSize& s = work.size;
  const std::int64_t element = index / s.heads * s.queries * s.columns() + index % s.heads * s.dim;
  return element * static_cast<std::int64_t>(size_of(work.dtype));
}

/// `body(begin, end, scratch)`: each slot's part of `items`.
template <class Body>
void share_out(const Work& work, std::int64_t items, const Addresses& a, const Body& body) {
  parallel_ranges(work.slots, work.multiply_adds(), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t slot = first; slot < last; ++slot) {
      body(slot * items / work.slots, (slot + 1) * items / work.slots,
           a.workspace<float>() + slot * work.scratch);
    }
  });
}

}  // namespace

KernelPtr prepare(Cpu, const Attention& op, const KernelIo& io) {
  using Op = Attention;
  const std::int64_t queries = io.outputs[Op::y].shape[1];
  const std::int64_t tiles = parts_of(queries, AttentionTile::queries);
  Work work = work_of(op, io, 0, tiles);
  work.scratch = AttentionTile::forward_scratch(work.size);
  return cpu_kernel(
      io,
      [=, kernel = simd::best<Op>()](const Addresses& a) {
        // Tiles of queries of one head that a slot gets are one call, which packs the keys once.
        share_out(work, work.heads() * tiles, a, [&](std::int64_t at, std::int64_t end, float* scratch) {
          while (at < end) {
            const std::int64_t index = at / tiles;
            const std::int64_t last = std::min(end, (index + 1) * tiles);
            AttentionHead head = head_of(work, a, 0, index);
            head.first_query = (at - index * tiles) * AttentionTile::queries;
            head.end_query = std::min(queries, (last - index * tiles) * AttentionTile::queries);
            kernel(op, head, a.out<char>(Op::y) + result_offset(work, index),
                   a.out(Op::logsumexp) + index * queries, scratch);
            at = last;
          }
        });
      },
      work.workspace());
}

namespace {

/// `compute(head, gradients, scratch)` computes a head.
template <class Compute>
KernelPtr backward_kernel(const Work& work, const KernelIo& io, const Compute& compute) {
  using Op = AttentionBackward;
  const auto run = [=](const Addresses& a) {
    share_out(work, work.heads(), a, [&](std::int64_t begin, std::int64_t end, float* scratch) {
      for (std::int64_t index = begin; index < end; ++index) {
        const AttentionHead head = head_of(work, a, Op::q, index);
        // Gradients lie as the inputs do.
        const auto gradient = [&](std::size_t which, const void* input) {
          const std::size_t tensor = work.size.parts[which].tensor;
          return a.out<char>(tensor) + (static_cast<const char*>(input) - a.in<char>(Op::q + tensor));
        };
        const AttentionGradients gradients{.y = a.in<char>(Op::y) + result_offset(work, index),
                                           .dy = a.in<char>(Op::dy) + result_offset(work, index),
                                           .logsumexp = a.in(Op::logsumexp) + index * work.size.queries,
                                           .dq = gradient(0, head.q),
                                           .dk = gradient(1, head.k),
                                           .dv = gradient(2, head.v)};
        compute(head, gradients, scratch);
      }
    });
  };
  return cpu_kernel(io, run, work.workspace());
}

}  // namespace

KernelPtr prepare(Cpu, const AttentionBackward& op, const KernelIo& io) {
  Work work = work_of(op.forward, io, AttentionBackward::q, 1);
  if (multiplies_by_tiles() && work.dtype == DType::bf16 && TileAttentionBackward::takes(op.forward)) {
    work.scratch = TileAttentionBackward::scratch(work.size);
    const TileAttentionBackward by_tiles{op.forward};
    return backward_kernel(work, io,
                           [by_tiles, kernel = simd::best<TileAttentionBackward>()](const auto&... at) {
                             kernel(by_tiles, at...);
                           });
  }
  work.scratch = AttentionTile::backward_scratch(work.size);
  return backward_kernel(
      work, io, [op, kernel = simd::best<AttentionBackward>()](const auto&... at) { kernel(op, at...); });
}

}  // namespace lockstep::kernels
