#include "kernels/cuda/portability.h"

#include "kernels/cuda/attention_tensor_cores.h"
#include "kernels/cuda/grid.h"

namespace lockstep::kernels {
namespace {

/// The softmax of a strip's rows as it goes on from keys to keys. A lane has two rows, of which the other
/// three lanes beside it have other keys.
struct RunningSoftmax {
  float maxima[2] = {-INFINITY, -INFINITY};  ///< of scores before they are scaled
  float totals[2] = {};                      ///< of the lane's keys

  /// Scores become exponentials of themselves times `scale`, to the base of 2; returns by how much what was
  /// summed before shrinks.
  template <int tiles>
  __device__ float advance(SumTile (&scores)[tiles], int half, float scale) {
    float maximum = maxima[half];
    LOCKSTEP_UNROLL
    for (int n = 0; n < tiles; ++n)
      maximum = fmaxf(maximum, fmaxf(scores[n].at[2 * half], scores[n].at[2 * half + 1]));
    for (int lane_mask = 1; lane_mask <= 2; lane_mask *= 2)
      maximum = fmaxf(maximum, exchange(maximum, lane_mask));
    // Where no key is seen yet, exponentials of -INFINITY are 0, and that of a NaN stays one.
    const bool none = maximum == -INFINITY;
    const float base = none ? 0.0F : maximum * scale;
    // 1 where the maximum stays: what a product's rounding leaves would grow with each tile.
    const float shrink = none ? 1.0F : fast_exp2((maxima[half] - maximum) * scale);
    float total = 0;
    LOCKSTEP_UNROLL
    for (int n = 0; n < tiles; ++n) {
      LOCKSTEP_UNROLL
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        scores[n].at[i] = fast_exp2(scores[n].at[i] * scale - base);
        total += scores[n].at[i];
      }
    }
    maxima[half] = maximum;
    totals[half] = totals[half] * shrink + total;
    return shrink;
  }

  /// Of all keys.
  __device__ float total(int half) const {
    float sum = totals[half];
    for (int lane_mask = 1; lane_mask <= 2; lane_mask *= 2) sum += exchange(sum, lane_mask);
    return sum;
  }
};

/// A block for Tiles::queries of one head.
template <class Element, int dim, bool plain>
__global__ void __launch_bounds__(TensorCoreTiles<dim>::threads, 2)
    attend(Dropout dropout, CudaHead h, AttentionInputs<Element> in, Element* y, float* logsumexp) {
  using Tiles = TensorCoreTiles<dim>;
  constexpr int columns = 16 * Tiles::strips;  // queries of a warp
  constexpr int buffer = Tiles::keys * Tiles::row;
  STATIC_SHARED(uint4, keys, 2 * buffer);
  STATIC_SHARED(uint4, values, 2 * buffer);
  STATIC_SHARED(uint4, room_of_words, 1);
  const Philox* const words = share_words<plain>(room_of_words, dropout, h, in.state);
  const int first = static_cast<int>(h.first_row<Tiles::queries>());
  const int query = first + static_cast<int>(threadIdx.x) / 32 * columns;  // of the warp
  const float scale = h.scale * log2_of_e;
  LeftTile queries[Tiles::strips][Tiles::pairs];
  LOCKSTEP_UNROLL
  for (int s = 0; s < Tiles::strips; ++s) {
    const int at = query + 16 * s;
    LOCKSTEP_UNROLL
    for (int c = 0; c < Tiles::pairs; ++c)
      queries[s][c] = load_left(in.q + h.q_at(at), h.q_row, h.queries - at, h.dim, 16 * c);
  }
  SumTile sums[Tiles::strips][2 * Tiles::pairs];
  RunningSoftmax softmax[Tiles::strips];

  const RowCopies<Element, dim> of_keys(in.k + h.k_at(0), h.k_row, h.dim);
  const RowCopies<Element, dim> of_values(in.v + h.v_at(0), h.v_row, h.dim);
  const auto begin_fetch = [&](int key, int place) {
    of_keys.template begin<Tiles::keys>(keys + place, key, h.keys);
    of_values.template begin<Tiles::keys>(values + place, key, h.keys);
  };
  const auto end = static_cast<int>(h.end_of_keys<Tiles::queries>(first));
  auto key = plain ? 0 : static_cast<int>(in.mask.template begin_of_keys<Tiles::queries>(h, first));
  if (key < end) begin_fetch(key, 0);
  for (int place = 0; key < end; key += Tiles::keys, place = buffer - place) {
    wait_for_copies();
    __syncthreads();  // all have come, and none reads the other buffer
    if (key + Tiles::keys < end) begin_fetch(key + Tiles::keys, buffer - place);
    if (h.causal != 0 && key >= query + columns) continue;  // the warp sees none of them

    SumTile scores[Tiles::strips][Tiles::keys / 8];
    LOCKSTEP_UNROLL
    for (int c = 0; c < Tiles::pairs; ++c) {
      LOCKSTEP_UNROLL
      for (int n = 0; n < Tiles::keys / 16; ++n) {
        const RightTile right = load_right_columns(keys + place + 16 * n * Tiles::row + 2 * c, Tiles::row);
        LOCKSTEP_UNROLL
        for (int s = 0; s < Tiles::strips; ++s) multiply<Element>(scores[s] + 2 * n, queries[s][c], right);
      }
    }
    const bool all = all_see_all<plain>(h, in.mask, query, columns, key, Tiles::keys);
    LeftTile probabilities[Tiles::strips][Tiles::keys / 16];
    LOCKSTEP_UNROLL
    for (int s = 0; s < Tiles::strips; ++s) {
      const auto each_score = [&](auto visit) {
        LOCKSTEP_UNROLL
        for (int n = 0; n < Tiles::keys / 8; ++n) {
          LOCKSTEP_UNROLL
          for (int i = 0; i < 4; ++i)
            visit(scores[s][n].at[i], query + 16 * s + SumTile::row(i), key + 8 * n + SumTile::column(i));
        }
      };
      if (!all) {
        each_score([&](float& score, int at, int of) {
          if (!sees<plain>(h, in.mask, at, of)) score = -INFINITY;
        });
      }
      LOCKSTEP_UNROLL
      for (int half = 0; half < 2; ++half) {
        const float shrink = softmax[s].advance(scores[s], half, scale);
        LOCKSTEP_UNROLL
        for (int c = 0; c < 2 * Tiles::pairs; ++c) {
          sums[s][c].at[2 * half] *= shrink;
          sums[s][c].at[2 * half + 1] *= shrink;
        }
      }
      if constexpr (!plain) {
        if (in.state != nullptr) {
          LOCKSTEP_UNROLL
          for (int n = 0; n < Tiles::keys / 8; ++n) {
            float factors[4];
            drop_factors<false>(dropout, *words, query + 16 * s, key + 8 * n, factors);
            LOCKSTEP_UNROLL
            for (int i = 0; i < 4; ++i) scores[s][n].at[i] *= factors[i];
          }
        }
      }
      LOCKSTEP_UNROLL
      for (int n = 0; n < Tiles::keys / 16; ++n)
        probabilities[s][n] = narrow_left<Element>(scores[s][2 * n], scores[s][2 * n + 1]);
    }
    LOCKSTEP_UNROLL
    for (int n = 0; n < Tiles::keys / 16; ++n) {
      LOCKSTEP_UNROLL
      for (int c = 0; c < Tiles::pairs; ++c) {
        const RightTile right = load_right(values + place + 16 * n * Tiles::row + 2 * c, Tiles::row);
        LOCKSTEP_UNROLL
        for (int s = 0; s < Tiles::strips; ++s)
          multiply<Element>(sums[s] + 2 * c, probabilities[s][n], right);
      }
    }
  }

  LOCKSTEP_UNROLL
  for (int s = 0; s < Tiles::strips; ++s) {
    LOCKSTEP_UNROLL
    for (int half = 0; half < 2; ++half) {
      const float total = softmax[s].total(half);
      const float share = total == 0 ? 0.0F : 1 / total;
      const int at = query + 16 * s + SumTile::row(2 * half);
      if (at >= h.queries) continue;
      LOCKSTEP_UNROLL
      for (int c = 0; c < 2 * Tiles::pairs; ++c) {
        const int column = 8 * c + SumTile::column(0);
        const SumTile& sum = sums[s][c];
        if (column < h.dim)
          *aligned_cast<std::uint32_t>(y + h.y_at(at) + column) =
              narrow_pair<Element>(sum.at[2 * half] * share, sum.at[2 * half + 1] * share);
      }
      // Without keys so that backward finds probabilities of zero.
      if (SumTile::column(0) == 0) {
        logsumexp[h.row_at(at)] =
            total == 0 ? INFINITY : softmax[s].maxima[half] * scale * ln_of_2 + logf(total);
      }
    }
  }
}

}  // namespace

bool has_tensor_core_code() {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, attend<__half, 32, true>), "cannot read a kernel's attributes");
  return attributes.ptxVersion >= 80;
}

KernelPtr prepare_on_tensor_cores(const Attention& op, const KernelIo& io) {
  const AttentionSize s = op.size(types_of(io.inputs));
  return for_heads(io.inputs[0].dtype, s.dim, is_plain(op), [&]<class Element, int dim, bool plain>() {
    using Tiles = TensorCoreTiles<dim>;
    const CudaHead h(op, s, s.queries, Tiles::queries);
    return tensor_core_kernel(io, [=](const Addresses& a, cudaStream_t stream) {
      if (blocks_of(h, s) == 0) return;
      launch(attend<Element, dim, plain>, blocks_of(h, s), Tiles::threads, 0, stream, op.dropout(), h,
             inputs_of<Element>(op, s, a, 0), a.out<Element>(Attention::y), a.out(Attention::logsumexp));
    });
  });
}

}  // namespace lockstep::kernels
