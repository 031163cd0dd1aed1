#include "kernels/cuda/portability.h"

#include "kernels/cuda/attention_tensor_cores_gradients.h"
#include "kernels/cuda/grid.h"

namespace lockstep::kernels {
namespace {

/// dq of Tiles::rows queries of one head, and the row sums of dy * y, which the keys' gradients read.
template <class Element, int dim, bool plain>
__global__ void __launch_bounds__(TensorCoreTiles<dim>::threads, TensorCoreTiles<dim>::query_blocks)
    gradients_of_queries(Dropout dropout, CudaHead h, AttentionInputs<Element> in, const Element* dy,
                         const Element* y, const float* logsumexp, float* row_sums, Element* dq) {
  using Tiles = TensorCoreTiles<dim>;
  constexpr int buffer = Tiles::step * Tiles::row;
  STATIC_SHARED(uint4, keys, 2 * buffer);
  STATIC_SHARED(uint4, values, 2 * buffer);
  STATIC_SHARED(uint4, room_of_words, 1);
  const int block_first = static_cast<int>(h.first_row<Tiles::rows>());
  const int query = block_first + static_cast<int>(threadIdx.x) / 32 * 16;  // of the warp
  const Rules rules{dropout, in.mask, share_words<plain>(room_of_words, dropout, h, in.state),
                    in.state != nullptr};
  OwnRows<dim> q;
  OwnRows<dim> of_y;
  q.load(in.q + h.q_at(query), h.q_row, h.queries - query, h.dim);
  of_y.load(dy + h.y_at(query), h.heads * h.dim, h.queries - query, h.dim);

  float logs[2];
  float sums[2];
  LOCKSTEP_UNROLL
  for (int half = 0; half < 2; ++half) {
    const std::int64_t row = query + SumTile::row(2 * half);
    const bool is_there = row < h.queries;
    // Four lanes have a row, of which each takes two columns of eight.
    float sum = 0;
    for (std::int64_t c = SumTile::column(0); is_there && c < h.dim; c += 8) {
      const auto left = load<2>(dy + h.y_at(row) + c);
      const auto right = load<2>(y + h.y_at(row) + c);
      sum += left.at[0] * right.at[0] + left.at[1] * right.at[1];
    }
    for (int lane_mask = 1; lane_mask <= 2; lane_mask *= 2) sum += exchange(sum, lane_mask);
    sums[half] = sum;
    logs[half] = is_there ? logsumexp[h.row_at(row)] * log2_of_e : INFINITY;
    if (is_there && SumTile::column(0) == 0) row_sums[h.row_at(row)] = sum;
  }

  const RowCopies<Element, dim> of_keys(in.k + h.k_at(0), h.k_row, h.dim);
  const RowCopies<Element, dim> of_values(in.v + h.v_at(0), h.v_row, h.dim);
  const auto begin_fetch = [&](int key, int place) {
    of_keys.template begin<Tiles::step>(keys + place, key, h.keys);
    of_values.template begin<Tiles::step>(values + place, key, h.keys);
  };
  SumTile of_q[dim / 8];
  const auto end = static_cast<int>(h.end_of_keys<Tiles::rows>(block_first));
  auto key = plain ? 0 : static_cast<int>(in.mask.template begin_of_keys<Tiles::rows>(h, block_first));
  if (key < end) begin_fetch(key, 0);
  for (int place = 0; key < end; key += Tiles::step, place = buffer - place) {
    wait_for_copies();
    __syncthreads();  // all have come, and none reads the other buffer
    if (key + Tiles::step < end) begin_fetch(key + Tiles::step, buffer - place);
    if (h.causal != 0 && key >= query + 16) continue;  // no pair of the warp's is seen

    SumTile scores[Tiles::step / 8];
    SumTile products[Tiles::step / 8];
    LOCKSTEP_UNROLL
    for (int c = 0; c < Tiles::pairs; ++c) {
      LOCKSTEP_UNROLL
      for (int n = 0; n < Tiles::step / 16; ++n) {
        const int at = place + 16 * n * Tiles::row + 2 * c;
        multiply<Element>(scores + 2 * n, q.tiles[c], load_right_columns(keys + at, Tiles::row));
        multiply<Element>(products + 2 * n, of_y.tiles[c], load_right_columns(values + at, Tiles::row));
      }
    }
    const bool all = all_see_all<plain>(h, in.mask, query, 16, key, Tiles::step);
    LOCKSTEP_UNROLL
    for (int n = 0; n < Tiles::step / 8; ++n) {
      turn_to_gradients<plain, false>(
          h, rules, all, query, key + 8 * n, [&](int i) { return logs[i / 2]; },
          [&](int i) { return sums[i / 2]; }, scores[n], products[n]);
    }
    LOCKSTEP_UNROLL
    for (int n = 0; n < Tiles::step / 16; ++n) {
      const LeftTile gradients = narrow_left<Element>(products[2 * n], products[2 * n + 1]);
      LOCKSTEP_UNROLL
      for (int c = 0; c < Tiles::pairs; ++c) {
        const int at = place + 16 * n * Tiles::row + 2 * c;
        multiply<Element>(of_q + 2 * c, gradients, load_right(keys + at, Tiles::row));
      }
    }
  }
  write<Element, dim>(of_q, dq + h.q_at(query), h.q_row, h.queries - query, h.dim, h.scale);
}

/// dk and dv of Tiles::rows keys of one head: 16 of each warp.
template <class Element, int dim, bool plain>
__global__ void __launch_bounds__(TensorCoreTiles<dim>::threads, 2)
    gradients_of_keys(Dropout dropout, CudaHead h, AttentionInputs<Element> in,
                      AttentionGradientInputs<Element> of_y, Element* dk, Element* dv) {
  using Tiles = TensorCoreTiles<dim>;
  constexpr int buffer = Tiles::step * Tiles::row;
  STATIC_SHARED(uint4, queries, 2 * buffer);
  STATIC_SHARED(uint4, of_results, 2 * buffer);  // dy
  STATIC_SHARED(float, logs, 2 * Tiles::step);
  STATIC_SHARED(float, sums, 2 * Tiles::step);
  const int block_first = static_cast<int>(h.first_row<Tiles::rows>());
  const int key = block_first + static_cast<int>(threadIdx.x) / 32 * 16;  // of the warp
  STATIC_SHARED(uint4, room_of_words, 1);
  const Rules rules{dropout, in.mask, share_words<plain>(room_of_words, dropout, h, in.state),
                    in.state != nullptr};
  // Sums of long rows leave registers for one of the two operands, and beside masks and dropout for little.
  constexpr bool shares_keys = dim > 64;
  constexpr bool has_registers = plain || !shares_keys;
  constexpr bool skips_documents = !plain && has_registers;
  STATIC_SHARED(uint4, own_keys, shares_keys ? Tiles::rows * Tiles::row : 1);
  const int begin = h.causal != 0 ? block_first : 0;
  const auto end = static_cast<int>(h.queries);
  OwnRows<dim> k;
  OwnRows<dim> v;
  v.load(in.v + h.v_at(key), h.v_row, h.keys - key, h.dim);
  if constexpr (shares_keys) {
    const RowCopies<Element, dim> copies_of_k(in.k + h.k_at(0), h.k_row, h.dim);
    // Keys that no query comes to are not waited for either.
    if (begin < end) copies_of_k.template begin<Tiles::rows>(own_keys, block_first, h.keys);
  } else {
    k.load(in.k + h.k_at(key), h.k_row, h.keys - key, h.dim);
  }
  const auto keys_at = [&](int c) {
    if constexpr (shares_keys)
      return load_left(own_keys + (key - block_first) * Tiles::row + 2 * c, Tiles::row);
    else
      return k.tiles[c];
  };

  const RowCopies<Element, dim> copies_of_q(in.q + h.q_at(0), h.q_row, h.dim);
  const RowCopies<Element, dim> copies_of_dy(of_y.dy + h.y_at(0), h.heads * h.dim, h.dim);
  const auto begin_fetch = [&](int query, int place) {
    copies_of_q.template begin<Tiles::step>(queries + place, query, h.queries);
    copies_of_dy.template begin<Tiles::step>(of_results + place, query, h.queries);
    if (threadIdx.x >= Tiles::step) return;
    const std::int64_t at = query + threadIdx.x;
    const int number = place / buffer * Tiles::step + static_cast<int>(threadIdx.x);
    begin_copy(logs + number, of_y.logsumexp + h.row_at(at), at < h.queries);
    begin_copy(sums + number, of_y.row_sums + h.row_at(at), at < h.queries);
  };
  SumTile of_k[dim / 8];
  SumTile of_v[dim / 8];
  if (begin < end) begin_fetch(begin, 0);
  for (int query = begin, turn = 0; query < end; query += Tiles::step, turn = 1 - turn) {
    const int place = turn * buffer;
    const float* const log = logs + turn * Tiles::step;
    const float* const sum = sums + turn * Tiles::step;
    wait_for_copies();
    __syncthreads();  // all have come, and none reads the other buffers
    if (query + Tiles::step < end) begin_fetch(query + Tiles::step, buffer - place);
    if (h.causal != 0 && key >= query + Tiles::step) continue;  // no pair of the warp's is seen
    if (skips_documents && rules.mask.template begin_of_keys<Tiles::step>(h, query) >= key + 16) continue;

    SumTile scores[Tiles::step / 8];
    SumTile products[Tiles::step / 8];
    LOCKSTEP_UNROLL
    for (int c = 0; c < Tiles::pairs; ++c) {
      const LeftTile own_key = keys_at(c);
      LOCKSTEP_UNROLL
      for (int n = 0; n < Tiles::step / 16; ++n) {
        const int at = place + 16 * n * Tiles::row + 2 * c;
        multiply<Element>(scores + 2 * n, own_key, load_right_columns(queries + at, Tiles::row));
        multiply<Element>(products + 2 * n, v.tiles[c], load_right_columns(of_results + at, Tiles::row));
      }
    }
    const bool all = has_registers && all_see_all<plain>(h, in.mask, query, Tiles::step, key, 16);
    LOCKSTEP_UNROLL
    for (int n = 0; n < Tiles::step / 8; ++n) {
      const auto place_of = [&](int i) { return 8 * n + SumTile::column(i); };
      turn_to_gradients<plain, true>(
          h, rules, all, query + 8 * n, key, [&](int i) { return log[place_of(i)] * log2_of_e; },
          [&](int i) { return sum[place_of(i)]; }, scores[n], products[n]);
    }
    LOCKSTEP_UNROLL
    for (int n = 0; n < Tiles::step / 16; ++n) {
      const LeftTile gradients = narrow_left<Element>(products[2 * n], products[2 * n + 1]);
      const LeftTile probabilities = narrow_left<Element>(scores[2 * n], scores[2 * n + 1]);
      LOCKSTEP_UNROLL
      for (int c = 0; c < Tiles::pairs; ++c) {
        const int at = place + 16 * n * Tiles::row + 2 * c;
        multiply<Element>(of_k + 2 * c, gradients, load_right(queries + at, Tiles::row));
        multiply<Element>(of_v + 2 * c, probabilities, load_right(of_results + at, Tiles::row));
      }
    }
  }
  write<Element, dim>(of_k, dk + h.k_at(key), h.k_row, h.keys - key, h.dim, h.scale);
  write<Element, dim>(of_v, dv + h.v_at(key), h.v_row, h.keys - key, h.dim, 1);
}

}  // namespace

KernelPtr prepare_on_tensor_cores(const AttentionBackward& backward, const KernelIo& io) {
  using Op = AttentionBackward;
  const Attention op = backward.forward;
  const Types in = types_of(io.inputs);
  const AttentionSize s = op.size(TypeSpan(in).subspan(Op::q));
  const std::int64_t rows = s.samples * s.heads * s.queries;
  return for_heads(io.inputs[Op::q].dtype, s.dim, is_plain(op), [&]<class Element, int dim, bool plain>() {
    using Tiles = TensorCoreTiles<dim>;
    const CudaHead of_queries(op, s, s.queries, Tiles::rows);
    const CudaHead of_keys(op, s, s.keys, Tiles::rows);
    return tensor_core_kernel(
        io,
        [=](const Addresses& a, cudaStream_t stream) {
          const auto forward = inputs_of<Element>(op, s, a, Op::q);
          const AttentionGradientInputs<Element> of_y{.dy = a.in<Element>(Op::dy),
                                                      .logsumexp = a.in(Op::logsumexp),
                                                      .row_sums = a.workspace<const float>()};
          const auto output = [&](std::size_t which) { return a.out<Element>(s.parts[which].tensor); };
          if (rows > 0) {
            launch(gradients_of_queries<Element, dim, plain>, blocks_of(of_queries, s), Tiles::threads, 0,
                   stream, op.dropout(), of_queries, forward, of_y.dy, a.in<Element>(Op::y), of_y.logsumexp,
                   a.workspace<float>(), output(0));
          }
          if (blocks_of(of_keys, s) == 0) return;
          launch(gradients_of_keys<Element, dim, plain>, blocks_of(of_keys, s), Tiles::threads, 0, stream,
                 op.dropout(), of_keys, forward, of_y, output(1), output(2));
        },
        static_cast<std::size_t>(rows) * sizeof(float));
  });
}

}  // namespace lockstep::kernels
