#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/base/dtype.h"
#include "kernels/cpu/onednn.h"
#include "kernels/matmul.h"

namespace lockstep::kernels {

/// c (m, n) f32 = op(a) (m, k) op(b) (k, n) [+ c]: row-major, no gaps between rows.
struct MatmulSpec {
  std::int64_t m, n, k;
  bool transpose_a = false;  ///< a is stored as (k, m)
  bool transpose_b = false;  ///< b is stored as (n, k)
  bool accumulate = false;   ///< c is added to, not overwritten
  DType dtype = DType::f32;  ///< of a and b: f32 or bf16
  MatmulPrecision precision = MatmulPrecision::highest;
};

/// A product by oneDNN for kernels that are made of several: prepared once, run on any addresses, by the
/// team. A copy runs apart from its original.
class Matmul {
 public:
  /// DeviceError if oneDNN cannot compute it.
  Matmul(const onednn::Context& context, const MatmulSpec& spec);

  std::size_t workspace_bytes() const;

  /// Made for the memory of one plan; a launch allocates nothing.
  class Bound {
   public:
    Bound(const Matmul& matmul, void* workspace);
    void run(const void* a, const void* b, float* c);

   private:
    std::int64_t rows_, columns_;
    float* transposed_c_;  ///< c, transposed, if it is computed so
    dnnl::primitive primitive_;
    dnnl::stream stream_;
    dnnl::memory a_, b_, c_, scratch_;
    std::vector<dnnl_exec_arg_t> arguments_;
  };

 private:
  std::size_t transposed_bytes() const;

  onednn::Context context_;
  std::int64_t rows_, columns_;
  bool computes_transposed_;  ///< c^T in the place of c
  dnnl::memory::desc a_, b_, c_, scratch_;
  dnnl::primitive primitive_;
};

}  // namespace lockstep::kernels
