#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/base/dtype.h"
#include "kernels/kernel.h"
#include "kernels/matmul.h"

namespace lockstep::kernels {

/// How the GPU multiplies f32. `tf32` lets it round the factors to ten bits of mantissa, for tensor cores;
/// sums are f32.
enum class Precision { ieee, tf32 };

/// `medium` is TF32 too, as in PyTorch: it has the exponents of bf16 and three bits of mantissa more.
constexpr Precision gpu_precision(MatmulPrecision precision) {
  return precision == MatmulPrecision::highest ? Precision::ieee : Precision::tf32;
}

/// c (m, n) = epilogue(op(a) (m, k) op(b) (k, n) [+ c]): row-major, no gaps between rows but for those that
/// strides make, 64-byte aligned.
struct GemmSpec {
  /// `bias` adds a vector (n) to every row. `bias_gradient` also writes a vector (m): the sums of op(a)'s
  /// rows. `gelu` is gelu_tanh. `gelu_gradient` multiplies by its slope at a matrix `pre` (m, n).
  enum class Epilogue { none, relu, bias, bias_relu, bias_gradient, gelu, bias_gelu, gelu_gradient };

  std::int64_t m, n, k;
  bool transpose_a = false;  ///< a is stored as (k, m)
  bool transpose_b = false;  ///< b is stored as (n, k)
  Epilogue epilogue = Epilogue::none;
  bool accumulate = false;    ///< c is added to, not overwritten
  bool keeps_pre = false;     ///< what gelu is taken of is written too, as a matrix like c
  DType dtype = DType::f32;   ///< of a and b: f32, bf16 or f16. Sums are taken in f32.
  DType result = DType::f32;  ///< of c, the vector and `pre`: f32, or as dtype
  Precision precision = Precision::ieee;
  std::int64_t stride_a = 0;  ///< elements from row to row of a, as it is stored; 0: no gaps
  std::int64_t stride_b = 0;
  std::int64_t stride_c = 0;
  std::string algorithm;  ///< one of `gemm_algorithms`; empty: the first that the library offers

  bool has_gelu() const {
    return epilogue == Epilogue::gelu || epilogue == Epilogue::bias_gelu ||
           epilogue == Epilogue::gelu_gradient;
  }
};

/// Whether cuBLASLt's rules let a product end in this gelu: rows of `pre` are multiples of 8 elements, of the
/// type of c (CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD). Of half types alone: how exact its tanh is nobody says,
/// and rounding hides it there.
constexpr bool may_end_in_gelu(const GemmSpec& spec) {
  return is_half(spec.result) && spec.dtype == spec.result && spec.n % 8 == 0 && !spec.accumulate;
}

struct GemmOperands {
  const void* a;
  const void* b;
  void* c;
  void* vector = nullptr;  ///< bias or its gradient
  void* pre = nullptr;     ///< what gelu is taken of
};

/// A matrix product with its algorithm chosen. The same addresses, GPU and library give the same bits.
class Gemm {
 public:
  virtual ~Gemm() = default;
  virtual std::size_t workspace_bytes() const = 0;
  /// `workspace` is aligned to `workspace_alignment`.
  virtual void launch(const GemmOperands& operands, void* workspace, cudaStream_t stream) const = 0;
};

/// Few enough to be timed in a moment.
inline constexpr std::size_t offered_algorithms = 8;

/// Names of algorithms for `spec`, whose own is left aside, in the order of the library's heuristic: at most
/// `offered_algorithms`. Empty where `prepare_gemm` gives null, and for a GPU that is only described.
std::vector<std::string> gemm_algorithms(const GemmSpec& spec, const DescribedGpu* gpu = nullptr);

/// For the current device. DeviceError if the library cannot compute it, or does not offer the algorithm
/// named; null where it can, but for the bias gradient or gelu. `gpu`: planned for in place of the current
/// device, if not null; the library cannot be asked about it, so the workspace is the most that is ever
/// taken.
std::shared_ptr<const Gemm> prepare_gemm(const GemmSpec& spec, const DescribedGpu* gpu = nullptr);

/// The library behind it with its version, which its bits depend on.
std::string gemm_library();

}  // namespace lockstep::kernels
