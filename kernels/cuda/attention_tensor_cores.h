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
  static constexpr int keys = dim <= 64 ? 64 : 32;  ///< at a time, in forward

  static constexpr int rows = 16 * warps;  ///< of a block, queries or keys, in backward
  static constexpr int query_blocks =
      dim <= 64 ? 3 : 2;                            ///< of queries that a multiprocessor has room for there
  static constexpr int step = dim <= 64 ? 32 : 16;  ///< of the other side at a time there
};

/// A thread's part of rows on their way to shared memory, some at a time: the same columns of every
/// `stride`-th row.
template <class Element, int dim>
class RowCopies {
 public:
  using Tiles = TensorCoreTiles<dim>;

  /// `columns` are there, a multiple of 8.
  __device__ RowCopies(const Element* first, std::int64_t row, std::int64_t columns)
      : from_(first + mine() * row + word() * 8),
        row_(static_cast<int>(row)),
        is_there_(word() * 8 < columns) {}

  /// The `rows` rows from `at` on begin their way, of which `count` are there. The rest becomes 0.
  template <int rows>
  __device__ void begin(uint4* to, int at, std::int64_t count) const {
    static_assert(rows % stride == 0);
    const Element* const from = from_ + static_cast<std::int64_t>(at) * row_;
    uint4* const place = to + mine() * Tiles::row + word();
    LOCKSTEP_UNROLL
    for (int i = 0; i < rows; i += stride) {
      const bool is_there = is_there_ && at + mine() + i < count;
      begin_copy(place + i * Tiles::row,
                 aligned_cast<const uint4>(is_there ? from + static_cast<std::int64_t>(i) * row_ : from_),
                 is_there);
    }
  }

 private:
  static constexpr int words = dim / 8;
  static constexpr int stride = Tiles::threads / words;
  __device__ static int mine() { return static_cast<int>(threadIdx.x) / words; }
  __device__ static int word() { return static_cast<int>(threadIdx.x) % words; }

  const Element* from_;
  int row_;
  bool is_there_;
};

/// What hides keys from queries. Where attention is `plain`, nothing drops and only the causal order and the
/// ends of the rows hide.
template <bool plain>
__device__ bool sees(const CudaHead& h, const CudaMask& mask, int query, int key) {
  if constexpr (plain) {
    const auto end = static_cast<int>(h.causal != 0 && query + 1 < h.keys ? query + 1 : h.keys);
    return query < h.queries && key < end;
  } else {
    return is_seen(h, mask, query, key);
  }
}

/// Whether each of `queries` sees each of `keys`: then none has to be asked for.
template <bool plain>
__device__ bool all_see_all(const CudaHead& h, const CudaMask& mask, int query, int queries, int key,
                            int keys) {
  return (plain || (mask.tokens == nullptr && mask.positions == nullptr)) && query + queries <= h.queries &&
         key + keys <= h.keys && (h.causal == 0 || key + keys <= query + 1);
}

/// What dropout multiplies a lane's four pairs of a tile by, whose first query and key these are; rows are
/// queries, or keys. A block of four words is for four keys of a query, which several lanes have: each draws
/// one, and they exchange words. All lanes of the warp take part.
template <bool rows_are_keys>
__device__ void drop_factors(const Dropout& dropout, const Philox& words, int query, int key,
                             float (&factors)[4]) {
  constexpr int others = rows_are_keys ? 4 : 2;
  constexpr int distance = rows_are_keys ? 4 : 1;  // in lanes
  const int mine = static_cast<int>(threadIdx.x) / distance % others;
  const int row = SumTile::row(rows_are_keys ? mine : 2 * mine);
  const int column = SumTile::column(rows_are_keys ? mine : 0);
  const PhiloxCounter four = words.block(
      dropout_block(query + (rows_are_keys ? column : row), (key + (rows_are_keys ? row : column)) / 4));
  PhiloxCounter got;
  LOCKSTEP_UNROLL
  for (int other = 0; other < others; ++other) {
    const int its = mine ^ other;
    if constexpr (rows_are_keys) {
      got[other] = __shfl_xor_sync(0xffffffffU, word_of(four, its), distance * other);
    } else {
      got[2 * other] = __shfl_xor_sync(0xffffffffU, word_of(four, 2 * its), distance * other);
      got[2 * other + 1] = __shfl_xor_sync(0xffffffffU, word_of(four, 2 * its + 1), distance * other);
    }
  }
  LOCKSTEP_UNROLL
  for (int i = 0; i < 4; ++i) {
    const int from = rows_are_keys ? i ^ mine : 2 * (i / 2 ^ mine) + i % 2;
    factors[i] = word_of(got, from) < dropout.threshold() ? 0.0F : dropout.scale();
  }
}

inline bool is_plain(const Attention& op) {
  return op.p == 0 && !op.masked && !op.documents;
}

/// The head's random words in shared memory, for registers are short; to be read behind a barrier.
template <bool plain>
__device__ const Philox* share_words(uint4* room, const Dropout& dropout, const CudaHead& h,
                                     const StepState* state) {
  static_assert(sizeof(Philox) == sizeof(uint4));
  auto* const words = aligned_cast<Philox>(room);
  if (!plain && threadIdx.x == 0) *words = words_of_head(dropout, h, state);
  return words;
}

/// Exponentials are taken to the base of 2, which a GPU has an instruction for.
constexpr float log2_of_e = 1.44269504F;
constexpr float ln_of_2 = 0.693147181F;

/// Whether the code of these kernels has the instructions. A driver that translates code for 7.5 to a newer
/// GPU gives it none.
bool has_tensor_core_code();

/// Whether these kernels compute it; the ones for f32 units take the rest.
inline bool fits_tensor_cores(Cuda gpu, DType dtype, const Attention& op, const AttentionSize& s) {
  return gpu.capability >= 80 && is_half(dtype) && op.scale > 0 && s.dim % 8 == 0 && s.dim >= 16 &&
         s.dim <= 128 && (gpu.described != nullptr || has_tensor_core_code());
}

KernelPtr prepare_on_tensor_cores(const Attention& op, const KernelIo& io);
KernelPtr prepare_on_tensor_cores(const AttentionBackward& op, const KernelIo& io);

/// `make.operator()<Element, dim, plain>()`.
template <class Make>
KernelPtr for_heads(DType dtype, std::int64_t dim, bool plain, Make make) {
  const auto of_kind = [&]<class Element, bool of_plain>() {
    if (dim <= 32) return make.template operator()<Element, 32, of_plain>();
    if (dim <= 64) return make.template operator()<Element, 64, of_plain>();
    return make.template operator()<Element, 128, of_plain>();
  };
  const auto of_element = [&]<class Element>() {
    return plain ? of_kind.template operator()<Element, true>()
                 : of_kind.template operator()<Element, false>();
  };
  if (dtype == DType::bf16) return of_element.template operator()<__nv_bfloat16>();
  return of_element.template operator()<__half>();
}

}  // namespace lockstep::kernels
