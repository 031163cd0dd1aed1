#include "kernels/cpu/recurrent_products.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "kernels/base/division.h"
#include "kernels/cpu/onednn_op.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/tiles.h"

namespace lockstep::kernels {
namespace {

using dnnl::memory;

class OnednnProduct : public StepProduct {
 public:
  OnednnProduct(const onednn::Context& context, const Size& size) : StepProduct(size) {
    const memory::desc a({size.rows, size.inputs}, memory::data_type::bf16, memory::dims{size.inputs, 1});
    const memory::desc c({size.rows, size.outputs}, memory::data_type::f32, memory::dims{size.outputs, 1});
    const memory::desc w({size.outputs, size.inputs}, memory::data_type::bf16,
                         size.forward ? memory::dims{size.inputs, 1} : memory::dims{1, size.outputs});
    const onednn::Operands operands{a, onednn::any_layout({size.outputs, size.inputs}, DType::bf16), {}, c};
    const auto description =
        onednn::linear_forward(context.engine, operands, Activation::none, MatmulPrecision::highest);
    const memory::desc packed = description.query_md(dnnl::query::exec_arg_md, DNNL_ARG_WEIGHTS);
    weight_bytes_ = whole_lines(packed.get_size());
    multiply_ =
        onednn_kernel(context, description,
                      {{DNNL_ARG_SRC, true, a}, {DNNL_ARG_WEIGHTS, true, packed}, {DNNL_ARG_DST, false, c}});
    pack_ = onednn_reorder(context, w, packed);
  }

 private:
  std::size_t packed_bytes() const override { return weight_bytes_ + multiply_->workspace_bytes(); }

  void add_kernels(const void* weights, std::byte* packed, Bound& bound) const override {
    bound.pack = pack_->bind(std::array<void*, 2>{const_cast<void*>(weights), packed}, nullptr);
    bound.multiply =
        multiply_->bind(std::array<void*, 3>{bound.factors, packed, bound.result}, packed + weight_bytes_);
  }

  std::size_t weight_bytes_ = 0;
  KernelPtr pack_, multiply_;
};

/// The weights of a layer may fill the second cache, and each step reads them all: every other one from the
/// last to the first, so that it finds in the cache what the step before it read last.
class TilesOfSteps : public StepProduct {
 public:
  using StepProduct::StepProduct;

  static bool takes(const Size& size) {
    return multiplies_by_tiles() && size.inputs % Tile::pair == 0 && size.outputs % Tile::pair == 0;
  }

 private:
  /// Squares of outputs that are computed in a row.
  static constexpr std::int64_t together = 4;

  class Pack;
  class Multiply;

  std::int64_t depth() const { return size().inputs / Tile::terms; }
  std::int64_t next() const { return depth() * Tile::bytes; }
  std::int64_t squares() const { return size().outputs / Tile::pair; }
  std::int64_t row_squares() const { return parts_of(size().rows, Tile::pair); }
  std::int64_t weight_bytes() const { return 2 * squares() * next(); }

  std::size_t packed_bytes() const override {
    return static_cast<std::size_t>(weight_bytes() + 2 * row_squares() * next());
  }
  void add_kernels(const void* weights, std::byte* packed, Bound& bound) const override;
};

class TilesOfSteps::Pack : public BoundKernel {
 public:
  Pack(const TilesOfSteps& product, const void* weights, std::byte* tiles)
      : product_(product), weights_(static_cast<const BFloat16*>(weights)), tiles_(tiles) {}

  void launch(Stream&) override {
    const Size& size = product_.size();
    parallel_ranges(size.outputs, size.outputs * size.inputs, Tile::pair,
                    [&](std::int64_t begin, std::int64_t end) {
                      std::byte* const to = tiles_ + begin / Tile::rows * product_.next();
                      if (size.forward) {
                        simd::best<TileColumns>()({end - begin, size.inputs, size.inputs, product_.next()},
                                                  weights_ + begin * size.inputs, to);
                      } else {
                        simd::best<TilePairs>()({size.inputs, end - begin, size.outputs, product_.next()},
                                                weights_ + begin, to, nullptr);
                      }
                    });
  }

 private:
  TilesOfSteps product_;
  const BFloat16* weights_;
  std::byte* tiles_;
};

class TilesOfSteps::Multiply : public BoundKernel {
 public:
  Multiply(const TilesOfSteps& product, const BFloat16* factors, const std::byte* weights, std::byte* rows,
           float* result)
      : product_(product), factors_(factors), weights_(weights), rows_(rows), result_(result) {}

  void launch(Stream&) override {
    const Size& size = product_.size();
    parallel_ranges(product_.depth(), size.rows * size.inputs, 1, [&](std::int64_t begin, std::int64_t end) {
      const TileRows part{size.rows, (end - begin) * Tile::terms, size.inputs, product_.next()};
      simd::best<TileRows>()(part, factors_ + begin * Tile::terms, rows_ + begin * Tile::bytes);
    });
    const std::int64_t work = size.rows * size.inputs * size.outputs;
    parallel_ranges(product_.squares(), work, 1, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t groups = parts_of(end - begin, together);
      for (std::int64_t i = 0; i < groups; ++i) {
        const std::int64_t first = begin + (backwards_ ? groups - 1 - i : i) * together;
        multiply(first, std::min(together, end - first));
      }
    });
    backwards_ = !backwards_;
  }

 private:
  void multiply(std::int64_t first, std::int64_t count) const {
    const std::int64_t outputs = product_.size().outputs;
    const TileProduct part{.rows = product_.row_squares(),
                           .columns = count,
                           .depth = product_.depth(),
                           .a_next = product_.next(),
                           .b_next = product_.next(),
                           .c_row = outputs,
                           .c_right = Tile::pair,
                           .c_below = Tile::pair * outputs};
    simd::best<TileProduct>()(part, rows_, weights_ + 2 * first * part.b_next, result_ + first * Tile::pair);
  }

  TilesOfSteps product_;
  const BFloat16* factors_;
  const std::byte* weights_;
  std::byte* rows_;
  float* result_;
  bool backwards_ = false;
};

void TilesOfSteps::add_kernels(const void* weights, std::byte* packed, Bound& bound) const {
  bound.pack = std::make_unique<Pack>(*this, weights, packed);
  bound.multiply =
      std::make_unique<Multiply>(*this, bound.factors, packed, packed + weight_bytes(), bound.result);
}

}  // namespace

std::unique_ptr<StepProduct> step_product(const onednn::Context& context, const StepProduct::Size& size) {
  if (TilesOfSteps::takes(size)) return std::make_unique<TilesOfSteps>(size);
  return std::make_unique<OnednnProduct>(context, size);
}

}  // namespace lockstep::kernels
