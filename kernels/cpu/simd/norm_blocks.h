#pragma once

#include <utility>

#include "kernels/batch_norm.h"
#include "kernels/cpu/simd/lanes.h"

/// A strip of batch norm (NormStrip) in the order of memory, and sums over it for each of its lanes.
namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

/// Lanes whose numbers are kept in tables: two lines of bf16 a row at least, of all its channels.
constexpr int most_lanes = 256;

/// Rows of `lanes` elements side by side in each of a strip's images. Where a strip has one lane, a row is as
/// many pixels of one channel.
struct Block {
  std::int64_t offset;  ///< of its first row, in elements
  std::int64_t rows, stride;
  std::int64_t lane, lanes;
  std::int64_t images, image_stride;
};

/// `visit(Lanes<16>, <8> or <1>, lane)` for all of a row.
template <class Visit>
[[gnu::always_inline]] inline void for_lanes(const Block& block, Visit visit) {
  std::int64_t lane = 0;
  for (; lane + 16 <= block.lanes; lane += 16) visit(Lanes<16>{}, lane);
  for (; lane + 8 <= block.lanes; lane += 8) visit(Lanes<8>{}, lane);
  for (; lane < block.lanes; ++lane) visit(Lanes<1>{}, lane);
}

/// `visit(L, lane, offset)` for all of a block, in the order of memory.
template <class Visit>
[[gnu::always_inline]] inline void for_elements(const Block& block, Visit visit) {
  for (std::int64_t image = 0; image < block.images; ++image) {
    const std::int64_t first = block.offset + image * block.image_stride;
    for (std::int64_t row = 0; row < block.rows; ++row) {
      for_lanes(block, [&]<class L>(L lanes, std::int64_t lane) {
        visit(lanes, lane, first + row * block.stride + lane);
      });
    }
  }
}

/// `visit(block)` until all of the strip is done.
template <class Visit>
inline void for_blocks(const NormStrip& s, Visit visit) {
  if (s.lanes == 1) {
    const std::int64_t rows = s.pixels / 16;
    if (rows > 0) visit(Block{0, rows, 16, 0, 16, s.images, s.image_stride});
    visit(Block{rows * 16, s.pixels % 16, 1, 0, 1, s.images, s.image_stride});
    return;
  }
  for (std::int64_t lane = 0; lane < s.lanes; lane += most_lanes) {
    const std::int64_t lanes = s.lanes - lane < most_lanes ? s.lanes - lane : most_lanes;
    visit(s.pixels == 1 ? Block{lane, s.images, s.image_stride, lane, lanes, 1, 0}
                        : Block{lane, s.pixels, s.lanes, lane, lanes, s.images, s.image_stride});
  }
}

/// A number for each lane of a block.
struct alignas(64) Table {
  float numbers[most_lanes];

  template <class L>
  [[gnu::always_inline]] typename L::Floats at(std::int64_t lane) const {
    return L::load(numbers + lane);
  }

  /// What `of(i)` gives for the i-th of the strip's channels, 0 for padding.
  template <class Of>
  static Table make(const NormStrip& s, const Block& block, Of of) {
    Table table;
    if (s.lanes == 1) {
      for (std::int64_t lane = 0; lane < block.lanes; ++lane) table.numbers[lane] = of(0);
      return table;
    }
    const std::int64_t channels =
        s.channels - block.lane < block.lanes ? s.channels - block.lane : block.lanes;
    for (std::int64_t lane = 0; lane < channels; ++lane) table.numbers[lane] = of(block.lane + lane);
    for (std::int64_t lane = channels < 0 ? 0 : channels; lane < block.lanes; ++lane) table.numbers[lane] = 0;
    return table;
  }
};

/// Two numbers for each lane of a block, which grow in four chains: those hide the latency of an addition.
struct Sums {
  Table firsts[4], seconds[4];

  /// Adds up what `term(L, lane, offset)` gives for each lane of each row: a pair.
  template <class Term>
  [[gnu::always_inline]] Sums(const Block& block, Term term) {
    for (int chain = 0; chain < 4; ++chain) {
      for (std::int64_t lane = 0; lane < block.lanes; ++lane) firsts[chain].numbers[lane] = 0;
      for (std::int64_t lane = 0; lane < block.lanes; ++lane) seconds[chain].numbers[lane] = 0;
    }
    for (std::int64_t image = 0; image < block.images; ++image) {
      const std::int64_t first = block.offset + image * block.image_stride;
      std::int64_t row = 0;
      for (; row + 4 <= block.rows; row += 4) {
        for_lanes(block, [&]<class L>(L lanes, std::int64_t lane) {
#pragma GCC unroll 4
          for (int i = 0; i < 4; ++i) {
            add(lanes, i, lane, term(lanes, lane, first + (row + i) * block.stride + lane));
          }
        });
      }
      for (; row < block.rows; ++row) {
        for_lanes(block, [&]<class L>(L lanes, std::int64_t lane) {
          add(lanes, 0, lane, term(lanes, lane, first + row * block.stride + lane));
        });
      }
    }
    join(block, firsts);
    join(block, seconds);
  }

  /// Into the numbers of the strip's lanes; what belongs to one channel is summed.
  void put(const NormStrip& s, const Block& block, float* first, float* second) const {
    const auto put = [&](const Table& sums, float* to) {
      float total = 0;
      for (std::int64_t lane = 0; lane < block.lanes; ++lane) {
        total += sums.numbers[lane];
        if (s.lanes != 1) to[block.lane + lane] = sums.numbers[lane];
      }
      if (s.lanes == 1) to[0] += total;
    };
    put(firsts[0], first);
    put(seconds[0], second);
  }

 private:
  template <class L>
  [[gnu::always_inline]] void add(L, int chain, std::int64_t lane,
                                  const std::pair<typename L::Floats, typename L::Floats>& pair) {
    L::store(firsts[chain].numbers + lane, firsts[chain].template at<L>(lane) + pair.first);
    L::store(seconds[chain].numbers + lane, seconds[chain].template at<L>(lane) + pair.second);
  }

  static void join(const Block& block, Table* of) {
    for (std::int64_t lane = 0; lane < block.lanes; ++lane) {
      of[0].numbers[lane] =
          (of[0].numbers[lane] + of[1].numbers[lane]) + (of[2].numbers[lane] + of[3].numbers[lane]);
    }
  }
};

/// What lies so far behind it is on its way from memory: more than the processor foresees by itself.
template <class L, class Element>
[[gnu::always_inline]] inline typename L::Floats load_ahead(const Element* from) {
  constexpr std::int64_t ahead = 4096 / sizeof(Element);
  __builtin_prefetch(from + ahead);
  return L::load(from);
}

}  // namespace
}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
