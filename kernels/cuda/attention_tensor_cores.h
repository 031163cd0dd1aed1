#pragma once

#include "kernels/cuda/attention_tiles.h"
#include "kernels/cuda/tensor_cores.h"

/// Attention on tensor cores, for half types: a warp takes strips of 16 rows of one head and walks over the
/// other side; scores stay in registers. Probabilities, and the gradients of scores, are rounded to the half
/// type before they are multiplied. One instance for all heads of at most `dim` columns: the rest is zeros.
namespace lockstep::kernels {

template <int dim>
struct TensorCoreTiles {
  static constexpr int warps = 4;
  static constexpr int threads = 32 * warps;
  static constexpr int row = dim / 8 + 1;  ///< words from row to row in shared memory: other banks
  static constexpr int pairs = dim / 16;   ///< tiles of 16 columns

  static constexpr int strips = dim <= 64 ? 2 : 1;  ///< of queries of a warp, in forward
  static constexpr int queries = 16 * strips * warps;
  static constexpr int keys = 32;  ///< at a time, in forward

  static constexpr int rows = 16 * warps;           ///< of a block, in backward
  static constexpr int step = dim <= 64 ? 32 : 16;  ///< of the other side at a time there
};

/// A thread's part of some rows on their way to shared memory, so that the next rows' loads run while these
/// are computed with.
template <int dim, int rows>
struct RowsUnderWay {
  using Tiles = TensorCoreTiles<dim>;
  static constexpr int words = rows * dim / 8 / Tiles::threads;
  static_assert(words * 8 * Tiles::threads == rows * dim);
  uint4 at[words];

  __device__ static int row(int i) {
    return (static_cast<int>(threadIdx.x) + i * Tiles::threads) / (dim / 8);
  }
  __device__ static int word(int i) {
    return (static_cast<int>(threadIdx.x) + i * Tiles::threads) % (dim / 8);
  }

  /// `count` rows are there, of `columns`, a multiple of 8; the rest is 0.
  template <class Element>
  __device__ void fetch(const Element* from, std::int64_t stride, std::int64_t count, std::int64_t columns) {
    LOCKSTEP_UNROLL
    for (int i = 0; i < words; ++i) {
      const bool is_there = row(i) < count && word(i) * 8 < columns;
      at[i] = is_there ? *aligned_cast<const uint4>(from + row(i) * stride + word(i) * 8) : uint4{};
    }
  }
  __device__ void put(uint4* to) const {
    LOCKSTEP_UNROLL
    for (int i = 0; i < words; ++i) to[row(i) * Tiles::row + word(i)] = at[i];
  }
};

/// Whether each of `queries` sees each of `keys`: then none has to be asked for.
__device__ inline bool all_see_all(const CudaHead& h, const CudaMask& mask, std::int64_t query, int queries,
                                   std::int64_t key, int keys) {
  return mask.tokens == nullptr && mask.positions == nullptr && query + queries <= h.queries &&
         key + keys <= h.keys && (h.causal == 0 || key + keys <= query + 1);
}

/// Scores are kept as powers of 2, which a GPU has an instruction for.
constexpr float log2_of_e = 1.44269504F;
constexpr float ln_of_2 = 0.693147181F;

/// Whether the code of these kernels has the instructions. A driver that translates code for 7.5 to a newer
/// GPU gives it none.
bool has_tensor_core_code();

/// Whether these kernels compute it; the ones for f32 units take the rest.
inline bool fits_tensor_cores(Cuda gpu, DType dtype, const AttentionSize& s) {
  return gpu.capability >= 80 && is_half(dtype) && s.dim % 8 == 0 && s.dim >= 16 && s.dim <= 128 &&
         (gpu.described != nullptr || has_tensor_core_code());
}

KernelPtr prepare_on_tensor_cores(const Attention& op, const KernelIo& io);
KernelPtr prepare_on_tensor_cores(const AttentionBackward& op, const KernelIo& io);

/// `make.operator()<Element, dim>()`.
template <class Make>
KernelPtr for_heads(DType dtype, std::int64_t dim, Make make) {
  const auto of_element = [&]<class Element>() {
    if (dim <= 32) return make.template operator()<Element, 32>();
    if (dim <= 64) return make.template operator()<Element, 64>();
    return make.template operator()<Element, 128>();
  };
  if (dtype == DType::bf16) return of_element.template operator()<__nv_bfloat16>();
  return of_element.template operator()<__half>();
}

}  // namespace lockstep::kernels
