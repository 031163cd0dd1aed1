#include "kernels/attention.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/attention_tensor_cores.h"
#include "kernels/cuda/cuda_kernel.h"

namespace lockstep::kernels {
namespace {

using Tiles = AttentionTiles;

/// The scores of a tile of queries and a tile of keys, in shared memory; minus infinity where a query does
/// not see a key. `a` and `b` are room for a chunk of each.
template <class Element>
__device__ void compute_scores(const CudaHead& h, const AttentionInputs<Element>& in, std::int64_t query,
                               std::int64_t key, float* a, float* b, float* scores) {
  PairPart part;
  for (std::int64_t column = 0; column < h.dim; column += Tiles::chunk) {
    __syncthreads();
    load_chunk(in.q + h.q_at(query), h.q_row, h.queries - query, column, h.dim, h.scale, a);
    load_chunk(in.k + h.k_at(key), h.k_row, h.keys - key, column, h.dim, 1, b);
    __syncthreads();
    part.add(a, b);
  }
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 2; ++j) {
      const int row = PairPart::row(i);
      const int column = PairPart::column(j);
      const bool seen = is_seen(h, in.mask, query + row, key + column);
      scores[row * Tiles::score_row + column] = seen ? part.at[i][j] : -INFINITY;
    }
  }
  __syncthreads();
}

/// A block for 32 queries of one head: the softmax goes on from tile to tile of keys.
template <class Element, int chunks>
__global__ void attend(Dropout dropout, CudaHead h, AttentionInputs<Element> in, Element* y,
                       float* logsumexp) {
  STATIC_SHARED(float, a, Tiles::rows* Tiles::row);
  STATIC_SHARED(float, b, Tiles::rows* Tiles::row);
  STATIC_SHARED(float, scores, Tiles::rows* Tiles::score_row);
  STATIC_SHARED(float, maxima, Tiles::rows);
  STATIC_SHARED(float, totals, Tiles::rows);
  STATIC_SHARED(float, shrinks, Tiles::rows);
  const std::int64_t query = h.first_row();
  const int mine = static_cast<int>(threadIdx.x);
  const Philox words = words_of_head(dropout, h, in.state);
  SumPart<chunks> sums;
  if (mine < Tiles::rows) {
    maxima[mine] = -INFINITY;
    totals[mine] = 0;
  }
  for (std::int64_t key = in.mask.begin_of_keys(h, query); key < h.end_of_keys(query); key += Tiles::rows) {
    compute_scores(h, in, query, key, a, b, scores);
    if (mine < Tiles::rows) {
      float* const row = scores + mine * Tiles::score_row;
      float maximum = maxima[mine];
      for (int c = 0; c < Tiles::rows; ++c) maximum = row[c] > maximum ? row[c] : maximum;
      // Where no key is seen yet, exponentials of -INFINITY are 0, and that of a NaN stays one.
      const bool none = maximum == -INFINITY;
      const float base = none ? 0.0F : maximum;
      const float shrink = none ? 1.0F : CudaMath::exp(maxima[mine] - base);
      float total = totals[mine] * shrink;
      for (int c = 0; c < Tiles::rows; ++c) {
        const float p = CudaMath::exp(row[c] - base);
        total += p;
        row[c] = in.state == nullptr || p == 0 ? p : p * drop_factor(dropout, words, query + mine, key + c);
      }
      maxima[mine] = maximum;
      totals[mine] = total;
      shrinks[mine] = shrink;
    }
    for_each_chunk<chunks>([&](auto chunk) {
      __syncthreads();
      load_chunk(in.v + h.v_at(key), h.v_row, h.keys - key, chunk * Tiles::chunk, h.dim, 1, b);
      __syncthreads();
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) sums.at[chunk][i][j] *= shrinks[SumPart<chunks>::row(i)];
      }
      sums.template add<false>(chunk, scores, b);
    });
  }
  __syncthreads();
  for_each_chunk<chunks>([&](auto chunk) {
    for (int i = 0; i < 4; ++i) {
      const float total = totals[SumPart<chunks>::row(i)];
      for (int j = 0; j < 4; ++j) sums.at[chunk][i][j] = total == 0 ? 0.0F : sums.at[chunk][i][j] / total;
    }
  });
  sums.write(y + h.y_at(query), h.heads * h.dim, h.queries - query, h.dim, 1);
  if (mine < Tiles::rows && query + mine < h.queries) {
    // So that backward finds probabilities of zero.
    const bool none = totals[mine] == 0;
    logsumexp[h.row_at(query + mine)] = none ? INFINITY : maxima[mine] + logf(totals[mine]);
  }
}

/// The row sums of dy * y, a thread for each query of a head.
template <class Element>
__global__ void sum_rows(CudaHead h, std::int64_t rows, const Element* dy, const Element* y, float* sums) {
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (item >= rows) return;
  const std::int64_t sample = item / (h.heads * h.queries);
  const std::int64_t head = item / h.queries % h.heads;
  const std::int64_t first = ((sample * h.queries + item % h.queries) * h.heads + head) * h.dim;
  float sum = 0;
  for (std::int64_t c = 0; c < h.dim; ++c) sum += widen(dy[first + c]) * widen(y[first + c]);
  sums[item] = sum;
}

/// Probabilities, dropped, and the gradients of the scores of a tile of each side. Ends with a barrier.
template <class Element>
__device__ void compute_pairs(const Dropout& dropout, const CudaHead& h, const AttentionInputs<Element>& in,
                              const AttentionGradientInputs<Element>& of_y, const Philox& words,
                              std::int64_t query, std::int64_t key, float* a, float* b, float* probabilities,
                              float* gradients) {
  compute_scores(h, in, query, key, a, b, probabilities);
  PairPart part;
  for (std::int64_t column = 0; column < h.dim; column += Tiles::chunk) {
    __syncthreads();
    load_chunk(of_y.dy + h.y_at(query), h.heads * h.dim, h.queries - query, column, h.dim, 1, a);
    load_chunk(in.v + h.v_at(key), h.v_row, h.keys - key, column, h.dim, 1, b);
    __syncthreads();
    part.add(a, b);
  }
  for (int i = 0; i < 4; ++i) {
    const int row = PairPart::row(i);
    const std::int64_t at = query + row;
    const float log = at < h.queries ? of_y.logsumexp[h.row_at(at)] : INFINITY;
    const float sum = at < h.queries ? of_y.row_sums[h.row_at(at)] : 0.0F;
    for (int j = 0; j < 2; ++j) {
      const int place = row * Tiles::score_row + PairPart::column(j);
      const float p = CudaMath::exp(probabilities[place] - log);
      const float factor =
          in.state == nullptr || p == 0 ? 1.0F : drop_factor(dropout, words, at, key + PairPart::column(j));
      probabilities[place] = p * factor;
      gradients[place] = p * (factor * part.at[i][j] - sum);
    }
  }
  __syncthreads();
}

/// dk and dv of 32 keys of one head.
template <class Element, int chunks>
__global__ void gradients_of_keys(Dropout dropout, CudaHead h, AttentionInputs<Element> in,
                                  AttentionGradientInputs<Element> of_y, Element* dk, Element* dv) {
  STATIC_SHARED(float, a, Tiles::rows* Tiles::row);
  STATIC_SHARED(float, b, Tiles::rows* Tiles::row);
  STATIC_SHARED(float, probabilities, Tiles::rows* Tiles::score_row);
  STATIC_SHARED(float, gradients, Tiles::rows* Tiles::score_row);
  const std::int64_t key = h.first_row();
  const Philox words = words_of_head(dropout, h, in.state);
  SumPart<chunks> of_k;
  SumPart<chunks> of_v;
  for (std::int64_t query = h.causal != 0 ? key : 0; query < h.queries; query += Tiles::rows) {
    if (in.mask.begin_of_keys(h, query) > key) continue;
    compute_pairs(dropout, h, in, of_y, words, query, key, a, b, probabilities, gradients);
    for_each_chunk<chunks>([&](auto chunk) {
      __syncthreads();
      load_chunk(of_y.dy + h.y_at(query), h.heads * h.dim, h.queries - query, chunk * Tiles::chunk, h.dim, 1,
                 a);
      load_chunk(in.q + h.q_at(query), h.q_row, h.queries - query, chunk * Tiles::chunk, h.dim, 1, b);
      __syncthreads();
      of_v.template add<true>(chunk, probabilities, a);
      of_k.template add<true>(chunk, gradients, b);
    });
  }
  of_k.write(dk + h.k_at(key), h.k_row, h.keys - key, h.dim, h.scale);
  of_v.write(dv + h.v_at(key), h.v_row, h.keys - key, h.dim, 1);
}

/// dq of 32 queries of one head.
template <class Element, int chunks>
__global__ void gradients_of_queries(Dropout dropout, CudaHead h, AttentionInputs<Element> in,
                                     AttentionGradientInputs<Element> of_y, Element* dq) {
  STATIC_SHARED(float, a, Tiles::rows* Tiles::row);
  STATIC_SHARED(float, b, Tiles::rows* Tiles::row);
  STATIC_SHARED(float, probabilities, Tiles::rows* Tiles::score_row);
  STATIC_SHARED(float, gradients, Tiles::rows* Tiles::score_row);
  const std::int64_t query = h.first_row();
  const Philox words = words_of_head(dropout, h, in.state);
  SumPart<chunks> sums;
  for (std::int64_t key = in.mask.begin_of_keys(h, query); key < h.end_of_keys(query); key += Tiles::rows) {
    compute_pairs(dropout, h, in, of_y, words, query, key, a, b, probabilities, gradients);
    for_each_chunk<chunks>([&](auto chunk) {
      __syncthreads();
      load_chunk(in.k + h.k_at(key), h.k_row, h.keys - key, chunk * Tiles::chunk, h.dim, 1, b);
      __syncthreads();
      sums.template add<false>(chunk, gradients, b);
    });
  }
  sums.write(dq + h.q_at(query), h.q_row, h.queries - query, h.dim, h.scale);
}

}  // namespace

KernelPtr prepare(Cuda gpu, const Attention& op, const KernelIo& io) {
  const AttentionSize s = op.size(types_of(io.inputs));
  if (fits_tensor_cores(gpu, io.inputs[0].dtype, op, s)) return prepare_on_tensor_cores(op, io);
  const CudaHead h(op, s, s.queries);
  return with_element(io.inputs[0].dtype, [&]<class Element>(Element*) {
    return for_chunks(s.dim, [&]<int chunks>() {
      return cuda_kernel(io, [=](const Addresses& a, cudaStream_t stream) {
        if (blocks_of(h, s) == 0) return;
        launch(attend<Element, chunks>, blocks_of(h, s), Tiles::threads, 0, stream, op.dropout(), h,
               inputs_of<Element>(op, s, a, 0), a.out<Element>(Attention::y), a.out(Attention::logsumexp));
      });
    });
  });
}

KernelPtr prepare(Cuda gpu, const AttentionBackward& backward, const KernelIo& io) {
  using Op = AttentionBackward;
  const Attention op = backward.forward;
  const Types in = types_of(io.inputs);
  const AttentionSize s = op.size(TypeSpan(in).subspan(Op::q));
  if (fits_tensor_cores(gpu, io.inputs[Op::q].dtype, op, s)) return prepare_on_tensor_cores(backward, io);
  const CudaHead of_queries(op, s, s.queries);
  const CudaHead of_keys(op, s, s.keys);
  const std::int64_t rows = s.samples * s.heads * s.queries;
  return with_element(io.inputs[Op::q].dtype, [&]<class Element>(Element*) {
    return for_chunks(s.dim, [&]<int chunks>() {
      return cuda_kernel(
          io,
          [=](const Addresses& a, cudaStream_t stream) {
            if (rows == 0) return;
            const auto forward = inputs_of<Element>(op, s, a, Op::q);
            const AttentionGradientInputs<Element> of_y{.dy = a.in<Element>(Op::dy),
                                                        .logsumexp = a.in(Op::logsumexp),
                                                        .row_sums = a.workspace<const float>()};
            const auto output = [&](std::size_t which) { return a.out<Element>(s.parts[which].tensor); };
            constexpr unsigned block = 128;
            launch(sum_rows<Element>, static_cast<unsigned>(parts_of(rows, block)), block, 0, stream,
                   of_queries, rows, of_y.dy, a.in<Element>(Op::y), a.workspace<float>());
            launch(gradients_of_queries<Element, chunks>, blocks_of(of_queries, s), Tiles::threads, 0, stream,
                   op.dropout(), of_queries, forward, of_y, output(0));
            launch(gradients_of_keys<Element, chunks>, blocks_of(of_keys, s), Tiles::threads, 0, stream,
                   op.dropout(), of_keys, forward, of_y, output(1), output(2));
          },
          static_cast<std::size_t>(rows) * sizeof(float));
    });
  });
}

}  // namespace lockstep::kernels
