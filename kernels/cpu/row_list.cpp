#include "kernels/row_list.h"

#include <array>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/base/half.h"
#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/sorted_tokens.h"

namespace lockstep::kernels {
namespace {

constexpr std::int64_t block = 256;  // columns that are summed at once
using Block = std::array<float, block>;

template <class Element>
void add_to(float* sum, const Element* values, std::int64_t count) {
  for (std::int64_t k = 0; k < count; ++k) {
    if constexpr (std::is_same_v<Element, float>) {
      sum[k] += values[k];
    } else {
      sum[k] += widen(values[k]);
    }
  }
}

template <class Element>
void round_to(const float* sum, Element* values, std::int64_t count) {
  for (std::int64_t k = 0; k < count; ++k) {
    if constexpr (std::is_same_v<Element, float>) {
      values[k] = sum[k];
    } else {
      narrow(sum[k], values[k]);
    }
  }
}

/// A list in memory, to be read.
template <class Element>
struct RowList {
  const RowListHeader* header;
  const std::int32_t* numbers;
  const Element* values;

  RowList(const RowListShape& shape, const std::byte* list)
      : header(reinterpret_cast<const RowListHeader*>(list)),
        numbers(reinterpret_cast<const std::int32_t*>(list + RowListShape::numbers_at())),
        values(reinterpret_cast<const Element*>(list + shape.values_at())) {}

  /// The place of the first row that is not before `row`.
  std::int64_t place_from(std::int64_t row) const {
    return std::lower_bound(numbers, numbers + header->rows, row) - numbers;
  }
  /// The number of the row at a place, behind the last one `none`.
  std::int64_t number(std::int64_t place, std::int64_t none) const {
    return place < header->rows ? numbers[place] : none;
  }
};

template <class Element>
class EmbeddingRowsRun {
 public:
  EmbeddingRowsRun(const EmbeddingRows& op, const KernelIo& io)
      : shape_(op.shape(io.inputs[0].type())), size_(io.inputs[1], {DType::f32, {op.vocab, shape_.dim}, {}}) {
    size_.tokens = 0;
    for (std::size_t pair = 0; 2 * pair < io.inputs.size(); ++pair) {
      size_.tokens += io.inputs[EmbeddingRows::tokens_of(pair)].shape.elements();
      ends_.push_back(size_.tokens);
    }
  }

  /// The tokens of all pairs, what sorts them, and where runs of equal ones begin.
  std::size_t workspace_bytes() const {
    return tokens_bytes() + sort_bytes() + static_cast<std::size_t>(size_.tokens + 1) * sizeof(std::int32_t);
  }
  const EmbeddingSize& size() const { return size_; }

  void operator()(const Addresses& a) const {
    auto* const workspace = a.workspace<std::byte>();
    auto* const tokens = reinterpret_cast<std::int64_t*>(workspace);
    for (std::size_t pair = 0; pair < ends_.size(); ++pair) {
      const auto* const of_pair = a.in<std::int64_t>(EmbeddingRows::tokens_of(pair));
      std::copy(of_pair, of_pair + ends_[pair] - begin_of(pair), tokens + begin_of(pair));
    }
    const SortedTokens sorted(size_, tokens, reinterpret_cast<std::int32_t*>(workspace + tokens_bytes()));
    auto* const runs = reinterpret_cast<std::int32_t*>(workspace + tokens_bytes() + sort_bytes());
    auto* const list = a.out<std::byte>(EmbeddingRows::list);
    auto* const numbers = reinterpret_cast<std::int32_t*>(list + RowListShape::numbers_at());
    auto* const values = reinterpret_cast<Element*>(list + shape_.values_at());
    std::int64_t rows = 0;
    for (std::int64_t at = 0; at < sorted.count(); ++at) {
      if (!sorted.begins_run(at)) continue;
      numbers[rows] = static_cast<std::int32_t>(sorted.token(at));
      runs[rows++] = static_cast<std::int32_t>(at);
    }
    runs[rows] = static_cast<std::int32_t>(sorted.count());
    *reinterpret_cast<RowListHeader*>(list) = {.bytes = static_cast<std::int64_t>(shape_.bytes_with(rows)),
                                               .rows = rows};
    parallel_ranges(rows, sorted.count() * size_.dim, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        for (std::int64_t k = 0; k < size_.dim; k += block) {
          const std::int64_t columns = std::min(block, size_.dim - k);
          Block sum{};
          for (std::int64_t at = runs[row]; at < runs[row + 1]; ++at)
            add_to(sum.data(), row_of_dy(a, sorted.place(at)) + k, columns);
          round_to(sum.data(), values + row * size_.dim + k, columns);
        }
      }
    });
  }

 private:
  std::int64_t begin_of(std::size_t pair) const { return pair == 0 ? 0 : ends_[pair - 1]; }

  const float* row_of_dy(const Addresses& a, std::int64_t place) const {
    std::size_t pair = 0;
    while (place >= ends_[pair]) ++pair;
    return a.in(EmbeddingRows::dy_of(pair)) + (place - begin_of(pair)) * size_.dim;
  }

  std::size_t tokens_bytes() const { return static_cast<std::size_t>(size_.tokens) * sizeof(std::int64_t); }
  std::size_t sort_bytes() const { return SortedTokens::workspace_bytes(size_); }

  RowListShape shape_;
  EmbeddingSize size_;
  std::vector<std::int64_t> ends_;  ///< by pair: of its tokens among those of all pairs
};

/// The lists of all ranks, and their sum.
template <class Element>
class AddRowsRun {
 public:
  AddRowsRun(const AddRows& op, const KernelIo& io)
      : shape_(op.shape(io.outputs[AddRows::sum].type())),
        ranks_(static_cast<int>(io.inputs[AddRows::lists].shape[0])),
        rows_(io.outputs[AddRows::sum].shape[0]),
        overwrites_(op.overwrites) {}

  std::size_t workspace_bytes() const {
    return static_cast<std::size_t>(threads_ * ranks_) * sizeof(std::int64_t);
  }

  void operator()(const Addresses& a) const {
    const std::int64_t work = (ranks_ * shape_.capacity + (overwrites_ ? rows_ : 0)) * shape_.dim;
    parallel_ranges(rows_, work, 1, [&](std::int64_t begin, std::int64_t end) {
      add_rows(a.in<std::byte>(AddRows::lists), begin, end,
               a.workspace<std::int64_t>() + omp_get_thread_num() * ranks_, a.out<Element>(AddRows::sum));
    });
  }

 private:
  /// Rows [begin, end) of the sum. `places`: of each rank's list, where it goes on.
  void add_rows(const std::byte* lists, std::int64_t begin, std::int64_t end, std::int64_t* places,
                Element* sum) const {
    for (int rank = 0; rank < ranks_; ++rank) places[rank] = list_of(lists, rank).place_from(begin);
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t listed = next_row(lists, places, end);
      if (overwrites_) std::fill(sum + row * shape_.dim, sum + listed * shape_.dim, Element{});
      if (listed == end) return;
      row = listed;
      add_row(lists, row, places, sum + row * shape_.dim);
    }
  }

  /// The least that any list has next, at most `end`.
  std::int64_t next_row(const std::byte* lists, const std::int64_t* places, std::int64_t end) const {
    std::int64_t least = end;
    for (int rank = 0; rank < ranks_; ++rank) {
      least = std::min(least, list_of(lists, rank).number(places[rank], end));
    }
    return least;
  }

  RowList<Element> list_of(const std::byte* lists, int rank) const {
    return {shape_, lists + static_cast<std::size_t>(rank) * shape_.bytes()};
  }

  /// And moves the places of lists that have the row behind it. A rank without it takes no part in the sum,
  /// as if it had zeros.
  void add_row(const std::byte* lists, std::int64_t row, std::int64_t* places, Element* to) const {
    for (std::int64_t k = 0; k < shape_.dim; k += block) {
      const std::int64_t columns = std::min(block, shape_.dim - k);
      std::array<Block, most_depth> sums;
      std::array<bool, most_depth> is_there;
      int depth = 0;
      for (int rank = 0; rank < ranks_; ++rank) {
        const RowList<Element> list = list_of(lists, rank);
        is_there[depth] = list.number(places[rank], rows_) == row;
        if (is_there[depth]) {
          std::fill_n(sums[depth].data(), columns, 0.0F);
          add_to(sums[depth].data(), list.values + places[rank] * shape_.dim + k, columns);
        }
        ++depth;
        for (int merges = merges_after(rank, ranks_, depth); merges > 0; --merges) {
          --depth;
          if (!is_there[depth]) continue;
          if (!is_there[depth - 1]) std::fill_n(sums[depth - 1].data(), columns, 0.0F);
          add_to(sums[depth - 1].data(), sums[depth].data(), columns);
          is_there[depth - 1] = true;
        }
      }
      if (!overwrites_) add_to(sums[0].data(), to + k, columns);
      round_to(sums[0].data(), to + k, columns);
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      if (list_of(lists, rank).number(places[rank], rows_) == row) ++places[rank];
    }
  }

  static constexpr std::size_t most_depth = 17;  ///< up to 2^16 ranks
  RowListShape shape_;
  int ranks_;
  std::int64_t rows_;
  bool overwrites_;
  std::int64_t threads_ = omp_get_max_threads();
};

/// `make(element)` with a null pointer to the type of the rows.
template <class Make>
KernelPtr for_rows(DType dtype, Make make) {
  if (dtype == DType::bf16) return make(static_cast<BFloat16*>(nullptr));
  if (dtype == DType::f32) return make(static_cast<float*>(nullptr));
  throw UsageError("lists of rows on the CPU are f32 or bf16");
}

}  // namespace

KernelPtr prepare(Cpu, const EmbeddingRows& op, const KernelIo& io) {
  return for_rows(op.dtype, [&]<class Element>(Element*) {
    EmbeddingRowsRun<Element> run(op, io);
    if (run.size().tokens > std::numeric_limits<std::int32_t>::max() ||
        run.size().vocab > std::numeric_limits<std::int32_t>::max()) {
      throw UsageError("embedding_rows: more than 2147483647 tokens or rows; take a smaller batch");
    }
    const std::size_t workspace = run.workspace_bytes();
    return cpu_kernel(io, std::move(run), workspace);
  });
}

KernelPtr prepare(Cpu, const AddRows& op, const KernelIo& io) {
  return for_rows(io.outputs[AddRows::sum].dtype, [&]<class Element>(Element*) {
    const AddRowsRun<Element> run(op, io);
    return cpu_kernel(io, run, run.workspace_bytes());
  });
}

}  // namespace lockstep::kernels
