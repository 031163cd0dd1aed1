#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/base/alignment.h"
#include "kernels/base/half.h"
#include "kernels/cpu/onednn.h"
#include "kernels/kernel.h"
#include "kernels/tile_product.h"

namespace lockstep::kernels {

/// The product of a step of a recurrent layer in bf16: c (rows, outputs) f32 = a (rows, inputs) b, whose
/// transpose the weights (outputs, inputs) are forward; backward they are b (inputs, outputs). Weights are
/// laid out anew once a launch of the layer.
class StepProduct {
 public:
  struct Size {
    std::int64_t rows, inputs, outputs;
    bool forward;
  };

  explicit StepProduct(const Size& size) : size_(size) {}
  virtual ~StepProduct() = default;

  const Size& size() const { return size_; }
  /// What `bind` takes.
  std::size_t workspace_bytes() const { return factor_bytes() + result_bytes() + packed_bytes(); }

  /// With its memory in a workspace.
  struct Bound {
    BFloat16* factors;  ///< a, row by row without gaps
    float* result;      ///< c, likewise
    std::unique_ptr<BoundKernel> pack, multiply;
  };
  Bound bind(const void* weights, std::byte* at) const {
    Bound bound{reinterpret_cast<BFloat16*>(at), reinterpret_cast<float*>(at + factor_bytes()), nullptr,
                nullptr};
    add_kernels(weights, at + factor_bytes() + result_bytes(), bound);
    return bound;
  }

 protected:
  virtual std::size_t packed_bytes() const = 0;
  /// Fills in `pack` and `multiply`.
  virtual void add_kernels(const void* weights, std::byte* packed, Bound& bound) const = 0;

 private:
  std::size_t factor_bytes() const {
    return whole_lines(static_cast<std::size_t>(size_.rows * size_.inputs) * sizeof(BFloat16));
  }
  /// Products by tiles write whole pairs of them.
  std::size_t result_bytes() const {
    const std::int64_t rows = rounded_up(size_.rows, Tile::pair);
    return whole_lines(static_cast<std::size_t>(rows * size_.outputs) * sizeof(float));
  }

  Size size_;
};

/// By our own tiles where the processor has AMX and inputs and outputs are multiples of 32, else oneDNN's.
std::unique_ptr<StepProduct> step_product(const onednn::Context& context, const StepProduct::Size& size);

}  // namespace lockstep::kernels
