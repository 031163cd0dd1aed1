#pragma once

#include <cstdint>
#include <string_view>

/// Parts of the CPU's products of bf16 matrices by tiles (AMX), by SIMD kernels of our own. A tile is 1 KiB:
/// of the left factor 16 rows of 32 terms; of the right one 16 pairs of terms of 16 columns, the first of a
/// pair in the lower half of a word. Those of a row, or of a column, of tiles lie one behind another. Only
/// the instruction set with AMX is fast; the others are what it is compared with.
namespace lockstep::kernels {

struct Tile {
  static constexpr std::int64_t rows = 16;   ///< of the left factor, and columns of the right one
  static constexpr std::int64_t terms = 32;  ///< summed
  static constexpr std::int64_t elements = rows * terms;
  static constexpr std::int64_t bytes = 2 * elements;
  static constexpr std::int64_t row_bytes = 2 * terms;
  /// Rows or columns of two tiles: what a product takes at a time.
  static constexpr std::int64_t pair = 2 * rows;
};

/// c = a b, or c += a b, in f32, in squares of two rows and two columns of tiles. Sums are taken in the order
/// of the terms, in AMX (TDPBF16PS) those of even and of odd terms of a tile apart; denormal factors and sums
/// are zeros there.
struct TileProduct {
  static constexpr std::string_view name = "tile_product";
  using Simd = void(const TileProduct&, const void* a, const void* b, float* c);

  std::int64_t rows, columns;  ///< of squares
  std::int64_t depth;          ///< in tiles
  std::int64_t a_next;         ///< bytes from a row of tiles to the next
  std::int64_t b_next;         ///< bytes from a column of tiles to the next
  /// Numbers from row to row of a square, to the square on the right and to the one below.
  std::int64_t c_row, c_right, c_below;
  bool accumulates = false;
  /// Bytes from a, and from b, to the tiles of each term, as many as `depth`; null: they lie one behind
  /// another.
  const std::int64_t* a_steps = nullptr;
  const std::int64_t* b_steps = nullptr;
  std::int64_t b_row = Tile::row_bytes;  ///< bytes from row to row of a tile
};

/// A row-major matrix (rows, terms) to rows of tiles, zeros behind its ends: two rows of tiles at a time.
struct TileRows {
  static constexpr std::string_view name = "tile_rows";
  using Simd = void(const TileRows&, const void* from, void* tiles);

  std::int64_t rows, terms, from_row;
  std::int64_t next;  ///< bytes from a row of tiles to the next
};

/// The transpose of a row-major matrix (terms, columns) to rows of tiles, likewise.
struct TileTranspose {
  static constexpr std::string_view name = "tile_transpose";
  using Simd = void(const TileTranspose&, const void* from, void* tiles);

  std::int64_t terms, columns, from_row;
  std::int64_t next;
};

/// A row-major matrix (terms, columns) to columns of tiles, likewise. `sums`, which may be null, are added
/// to: of each column.
struct TilePairs {
  static constexpr std::string_view name = "tile_pairs";
  using Simd = void(const TilePairs&, const void* from, void* tiles, float* sums);

  std::int64_t terms, columns, from_row;
  std::int64_t next;
};

/// The transpose of a row-major matrix (columns, terms) to columns of tiles, likewise.
struct TileColumns {
  static constexpr std::string_view name = "tile_columns";
  using Simd = void(const TileColumns&, const void* from, void* tiles);

  std::int64_t columns, terms, from_row;
  std::int64_t next;
};

/// As TilePairs of weights in panels of terms, a multiple of 16: in each pairs of columns, one behind
/// another, of numbers of both columns, term by term (the library's AB16b64a2b). What is read is whole in 16
/// columns and terms.
struct TileWeights {
  static constexpr std::string_view name = "tile_weights";
  using Simd = void(const TileWeights&, const void* from, void* tiles);

  std::int64_t terms, columns;
  std::int64_t panel;                  ///< terms of one
  std::int64_t from_panel, from_pair;  ///< elements from one to the next
  std::int64_t next;
};

/// Rows of sums to where they belong: rounded to bf16, as they are or transposed; as they are; or two rows
/// alternating. What is read to be transposed is whole in 16 rows and columns.
struct TileResult {
  static constexpr std::string_view name = "tile_result";
  using Simd = void(const TileResult&, const float* from, void* to);
  enum class As { bf16, transposed_bf16, rows, pairs_of_rows };

  std::int64_t rows, columns;  ///< of what is written
  std::int64_t from_row, to_row;
  As as;
};

}  // namespace lockstep::kernels
