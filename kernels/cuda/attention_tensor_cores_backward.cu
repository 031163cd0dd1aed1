#include "kernels/cuda/portability.h"

#include "kernels/cuda/attention_tensor_cores.h"
#include "kernels/cuda/grid.h"

namespace lockstep::kernels {
namespace {

/// The operands of one side of the pairs of one head, from its first row on: queries with dy, or keys with
/// values.
template <class Element>
struct Side {
  const Element* first;
  std::int64_t first_row;  ///< elements from row to row
  const Element* second;
  std::int64_t second_row;
  std::int64_t count;  ///< rows

  template <class Rows>
  __device__ void fetch(std::int64_t at, std::int64_t dim, Rows& of_first, Rows& of_second) const {
    of_first.fetch(first + at * first_row, first_row, count - at, dim);
    of_second.fetch(second + at * second_row, second_row, count - at, dim);
  }
};

template <class Element>
__device__ Side<Element> queries_of(const CudaHead& h, const Element* q, const Element* dy) {
  return {q + h.q_at(0), h.q_row, dy + h.y_at(0), h.heads * h.dim, h.queries};
}
template <class Element>
__device__ Side<Element> keys_of(const CudaHead& h, const Element* k, const Element* v) {
  return {k + h.k_at(0), h.k_row, v + h.v_at(0), h.v_row, h.keys};
}

/// What decides over probabilities.
struct Rules {
  Dropout dropout;
  CudaMask mask;
  Philox words;
  bool drops;
};

/// The gradients of a block's rows of one side, `own`, from its row `row` on, as sums over the other side. Of
/// queries: of_first is dq. Of keys: dk, and of_second is dv. Scores and dy v^T, by rows of `own`, come from
/// products of first with first and of second with second. `logs`, powers of 2, and `row_sums` are those of
/// the queries: the block's, filled, or room for those of a step, which come from memory.
template <class Element, int dim, bool of_keys>
__device__ void add_gradients(const CudaHead& h, const Rules& rules, const Side<Element>& own,
                              const Side<Element>& other, int row, int begin, int end, const float* all_logs,
                              const float* all_row_sums, float* logs, float* row_sums, SumTile* of_first,
                              SumTile* of_second) {
  using Tiles = TensorCoreTiles<dim>;
  STATIC_SHARED(uint4, own_first, Tiles::rows * Tiles::row);
  STATIC_SHARED(uint4, own_second, Tiles::rows * Tiles::row);
  STATIC_SHARED(uint4, other_first, Tiles::step * Tiles::row);
  STATIC_SHARED(uint4, other_second, Tiles::step * Tiles::row);
  const int in_block = static_cast<int>(threadIdx.x) / 32 * 16;  // the warp's first row
  const float scale = h.scale * log2_of_e;
  {
    RowsUnderWay<dim, Tiles::rows> first;
    RowsUnderWay<dim, Tiles::rows> second;
    own.fetch(row, h.dim, first, second);
    first.put(own_first);
    second.put(own_second);
  }
  RowsUnderWay<dim, Tiles::step> next_first;
  RowsUnderWay<dim, Tiles::step> next_second;
  float next_log = 0;
  float next_sum = 0;
  const auto fetch = [&](int at) {
    other.fetch(at, h.dim, next_first, next_second);
    if (!of_keys || threadIdx.x >= Tiles::step) return;
    const int query = at + static_cast<int>(threadIdx.x);
    next_log = query < h.queries ? all_logs[h.row_at(query)] * log2_of_e : INFINITY;
    next_sum = query < h.queries ? all_row_sums[h.row_at(query)] : 0.0F;
  };
  if (begin < end) fetch(begin);
  for (int at = begin; at < end; at += Tiles::step) {
    __syncthreads();
    next_first.put(other_first);
    next_second.put(other_second);
    if (of_keys && threadIdx.x < Tiles::step) {
      logs[threadIdx.x] = next_log;
      row_sums[threadIdx.x] = next_sum;
    }
    __syncthreads();
    if (at + Tiles::step < end) fetch(at + Tiles::step);
    const int query = of_keys ? at : row + in_block;
    const int key = of_keys ? row + in_block : at;
    constexpr int queries = of_keys ? Tiles::step : 16;
    constexpr int keys = of_keys ? 16 : Tiles::step;
    if (h.causal != 0 && key >= query + queries) continue;  // no pair of the warp's is seen
    if (of_keys && rules.mask.begin_of_keys<queries>(h, query) >= key + keys) continue;

    SumTile scores[Tiles::step / 8];
    SumTile products[Tiles::step / 8];
    LOCKSTEP_UNROLL
    for (int c = 0; c < Tiles::pairs; ++c) {
      const LeftTile first = load_left(own_first + in_block * Tiles::row + 2 * c, Tiles::row);
      const LeftTile second = load_left(own_second + in_block * Tiles::row + 2 * c, Tiles::row);
      LOCKSTEP_UNROLL
      for (int n = 0; n < Tiles::step / 16; ++n) {
        const int place = 16 * n * Tiles::row + 2 * c;
        multiply<Element>(scores + 2 * n, first, load_right_columns(other_first + place, Tiles::row));
        multiply<Element>(products + 2 * n, second, load_right_columns(other_second + place, Tiles::row));
      }
    }
    const bool all = all_see_all(h, rules.mask, query, queries, key, keys);
    LOCKSTEP_UNROLL
    for (int n = 0; n < Tiles::step / 8; ++n) {
      LOCKSTEP_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int mine = SumTile::row(i);
        const int its = 8 * n + SumTile::column(i);
        const int of_query = of_keys ? its : mine;
        const int to = key + (of_keys ? mine : its);
        const int place = of_keys ? its : in_block + mine;
        const bool seen = all || is_seen(h, rules.mask, query + of_query, to);
        const float p = seen ? exp2f(scores[n].at[i] * scale - logs[place]) : 0.0F;
        const float factor =
            !rules.drops || p == 0 ? 1.0F : drop_factor(rules.dropout, rules.words, query + of_query, to);
        scores[n].at[i] = p * factor;
        products[n].at[i] = p * (factor * products[n].at[i] - row_sums[place]);
      }
    }
    LOCKSTEP_UNROLL
    for (int n = 0; n < Tiles::step / 16; ++n) {
      const LeftTile gradients = narrow_left<Element>(products[2 * n], products[2 * n + 1]);
      const LeftTile probabilities = narrow_left<Element>(scores[2 * n], scores[2 * n + 1]);
      LOCKSTEP_UNROLL
      for (int c = 0; c < Tiles::pairs; ++c) {
        const int place = 16 * n * Tiles::row + 2 * c;
        multiply<Element>(of_first + 2 * c, gradients, load_right(other_first + place, Tiles::row));
        if constexpr (of_keys)
          multiply<Element>(of_second + 2 * c, probabilities, load_right(other_second + place, Tiles::row));
      }
    }
  }
}

/// A warp's 16 rows, times `scale`, to `to`, the first one; `count` are there.
template <class Element, int dim>
__device__ void write(const SumTile* sums, Element* to, std::int64_t stride, std::int64_t count,
                      std::int64_t columns, float scale) {
  LOCKSTEP_UNROLL
  for (int c = 0; c < dim / 8; ++c) {
    LOCKSTEP_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int r = SumTile::row(2 * half);
      const int column = 8 * c + SumTile::column(0);
      if (r >= count || column >= columns) continue;
      *aligned_cast<std::uint32_t>(to + r * stride + column) =
          narrow_pair<Element>(sums[c].at[2 * half] * scale, sums[c].at[2 * half + 1] * scale);
    }
  }
}

/// dq of Tiles::rows queries of one head, and the row sums of dy * y, which the keys' gradients read.
template <class Element, int dim>
__global__ void __launch_bounds__(TensorCoreTiles<dim>::threads)
    gradients_of_queries(Dropout dropout, CudaHead h, AttentionInputs<Element> in, const Element* dy,
                         const Element* y, const float* logsumexp, float* row_sums, Element* dq) {
  using Tiles = TensorCoreTiles<dim>;
  STATIC_SHARED(float, logs, Tiles::rows);
  STATIC_SHARED(float, sums, Tiles::rows);
  const int query = static_cast<int>(h.first_row<Tiles::rows>());
  {
    // Two threads for each row, 8 columns at a time in turns.
    static_assert(Tiles::threads == 2 * Tiles::rows);
    const int row = static_cast<int>(threadIdx.x) / 2;
    const bool is_there = query + row < h.queries;
    float sum = 0;
    for (std::int64_t c = threadIdx.x % 2 * 8; is_there && c < h.dim; c += 16) {
      const auto left = load<8>(dy + h.y_at(query + row) + c);
      const auto right = load<8>(y + h.y_at(query + row) + c);
      LOCKSTEP_UNROLL
      for (int i = 0; i < 8; ++i) sum += left.at[i] * right.at[i];
    }
    sum += exchange(sum, 1);
    if (threadIdx.x % 2 == 0) {
      sums[row] = sum;
      logs[row] = is_there ? logsumexp[h.row_at(query + row)] * log2_of_e : INFINITY;
      if (is_there) row_sums[h.row_at(query + row)] = sum;
    }
  }
  const Rules rules{dropout, in.mask, words_of_head(dropout, h, in.state), in.state != nullptr};
  SumTile of_q[dim / 8];
  add_gradients<Element, dim, false>(h, rules, queries_of(h, in.q, dy), keys_of(h, in.k, in.v), query,
                                     static_cast<int>(rules.mask.begin_of_keys<Tiles::rows>(h, query)),
                                     static_cast<int>(h.end_of_keys<Tiles::rows>(query)), nullptr, nullptr,
                                     logs, sums, of_q, nullptr);
  const std::int64_t at = query + threadIdx.x / 32 * 16;
  write<Element, dim>(of_q, dq + h.q_at(at), h.q_row, h.queries - at, h.dim, h.scale);
}

/// dk and dv of Tiles::rows keys of one head.
template <class Element, int dim>
__global__ void __launch_bounds__(TensorCoreTiles<dim>::threads)
    gradients_of_keys(Dropout dropout, CudaHead h, AttentionInputs<Element> in,
                      AttentionGradientInputs<Element> of_y, Element* dk, Element* dv) {
  using Tiles = TensorCoreTiles<dim>;
  STATIC_SHARED(float, logs, Tiles::step);
  STATIC_SHARED(float, sums, Tiles::step);
  const int key = static_cast<int>(h.first_row<Tiles::rows>());
  const Rules rules{dropout, in.mask, words_of_head(dropout, h, in.state), in.state != nullptr};
  SumTile of_k[dim / 8];
  SumTile of_v[dim / 8];
  add_gradients<Element, dim, true>(h, rules, keys_of(h, in.k, in.v), queries_of(h, in.q, of_y.dy), key,
                                    h.causal != 0 ? key : 0, static_cast<int>(h.queries), of_y.logsumexp,
                                    of_y.row_sums, logs, sums, of_k, of_v);
  const std::int64_t at = key + threadIdx.x / 32 * 16;
  write<Element, dim>(of_k, dk + h.k_at(at), h.k_row, h.keys - at, h.dim, h.scale);
  write<Element, dim>(of_v, dv + h.v_at(at), h.v_row, h.keys - at, h.dim, 1);
}

}  // namespace

KernelPtr prepare_on_tensor_cores(const AttentionBackward& backward, const KernelIo& io) {
  using Op = AttentionBackward;
  const Attention op = backward.forward;
  const Types in = types_of(io.inputs);
  const AttentionSize s = op.size(TypeSpan(in).subspan(Op::q));
  const std::int64_t rows = s.samples * s.heads * s.queries;
  return for_heads(io.inputs[Op::q].dtype, s.dim, [&]<class Element, int dim>() {
    using Tiles = TensorCoreTiles<dim>;
    const CudaHead of_queries(op, s, s.queries, Tiles::rows);
    const CudaHead of_keys(op, s, s.keys, Tiles::rows);
    return tensor_core_kernel(
        io,
        [=](const Addresses& a, cudaStream_t stream) {
          if (rows == 0) return;
          const auto forward = inputs_of<Element>(op, s, a, Op::q);
          const AttentionGradientInputs<Element> of_y{.dy = a.in<Element>(Op::dy),
                                                      .logsumexp = a.in(Op::logsumexp),
                                                      .row_sums = a.workspace<const float>()};
          const auto output = [&](std::size_t which) { return a.out<Element>(s.parts[which].tensor); };
          launch(gradients_of_queries<Element, dim>, blocks_of(of_queries, s), Tiles::threads, 0, stream,
                 op.dropout(), of_queries, forward, of_y.dy, a.in<Element>(Op::y), of_y.logsumexp,
                 a.workspace<float>(), output(0));
          launch(gradients_of_keys<Element, dim>, blocks_of(of_keys, s), Tiles::threads, 0, stream,
                 op.dropout(), of_keys, forward, of_y, output(1), output(2));
        },
        static_cast<std::size_t>(rows) * sizeof(float));
  });
}

}  // namespace lockstep::kernels
