#pragma once

#include <cstddef>

#include "kernels/cpu/classifier_products.h"
#include "kernels/cpu/classifier_tiles.h"
#include "kernels/cpu/loss_rows.h"
#include "kernels/cpu/onednn.h"

/// Memory of the fused classifier beside its operands.
namespace lockstep::kernels::classifier {

/// A processor without fast products of bf16 takes the factors as f32.
inline bool widens(DType dtype) {
  return dtype == DType::bf16 && !onednn::multiplies_bf16_faster();
}

/// The type of the logits' gradient, a factor of two products.
inline DType gradient_type(DType dtype) {
  return widens(dtype) ? DType::f32 : dtype;
}

/// Hands out the workspace, piece after piece.
class Pieces {
 public:
  explicit Pieces(void* workspace) : begin_(static_cast<std::byte*>(workspace)) {}

  template <class T>
  T* take(std::int64_t count) {
    std::byte* const at = begin_ + used_;
    used_ += whole_lines(static_cast<std::size_t>(count) * sizeof(T));
    return reinterpret_cast<T*>(at);
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* begin_;
  std::size_t used_ = 0;
};

/// What a launch works in. Null: not needed.
struct Workspace {
  RowLoss* losses;
  ClassifierRow* rows;
  float* logits;       ///< of a chunk, block behind block
  BFloat16* kept;      ///< in their place exponentials
  float* peaks;        ///< of these, of each block each row's
  float* wide_x;       ///< of a chunk
  float* wide_weight;  ///< of a block
  float* wide_bias;
  float* wide_dx;       ///< of a chunk
  std::byte* gradient;  ///< of a block
  std::byte* products;
  std::byte* tiles;

  Workspace(Pieces& pieces, const ClassifierSize& size, DType dtype, const ClassifierProducts& of)
      : losses(pieces.take<RowLoss>(size.rows)),
        rows(pieces.take<ClassifierRow>(size.chunk)),
        logits(of.keeps_exponentials()
                   ? nullptr
                   : pieces.take<float>(size.chunk * ClassifierSize::whole_tiles(size.classes))),
        kept(of.keeps_exponentials()
                 ? pieces.take<BFloat16>(size.chunk * ClassifierSize::whole_tiles(size.classes))
                 : nullptr),
        peaks(of.keeps_exponentials() ? pieces.take<float>(size.chunk * size.blocks()) : nullptr),
        wide_x(widens(dtype) ? pieces.take<float>(size.chunk * size.inputs) : nullptr),
        wide_weight(widens(dtype) ? pieces.take<float>(size.block * size.inputs) : nullptr),
        wide_bias(dtype == DType::f32 ? nullptr : pieces.take<float>(size.classes)),
        wide_dx(dtype == DType::f32 ? nullptr : pieces.take<float>(size.chunk * size.inputs)),
        gradient(pieces.take<std::byte>(size.chunk * ClassifierSize::whole_tiles(size.block) *
                                        static_cast<std::int64_t>(size_of(gradient_type(dtype))))),
        products(pieces.take<std::byte>(static_cast<std::int64_t>(of.workspace_bytes()))),
        tiles(of.uses_tiles() ? pieces.take<std::byte>(static_cast<std::int64_t>(
                                    ClassifierTiles(size, of.keeps_exponentials()).workspace_bytes()))
                              : nullptr) {}
};

}  // namespace lockstep::kernels::classifier
