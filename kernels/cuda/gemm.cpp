#include "kernels/cuda/gemm.h"

#include <cublasLt.h>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "kernels/base/error.h"
#include "kernels/base/hash.h"
#include "kernels/cuda/handles.h"

namespace lockstep::kernels {
namespace {

using Epilogue = GemmSpec::Epilogue;

/// NVIDIA's advice for Hopper; what an algorithm really needs is often nothing.
constexpr std::size_t most_workspace = std::size_t{32} << 20;
/// Of every tensor in an arena.
constexpr std::uint32_t alignment = 64;

void check(cublasStatus_t status, std::string_view what, cudaStream_t stream = nullptr) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  check_gpu(what, stream);
  throw DeviceError(fmt::format("cuBLASLt: {}: {}; CUBLASLT_LOG_LEVEL=2 in the environment tells more", what,
                                cublasLtGetStatusString(status)));
}

class Handle {
 public:
  Handle() { check(cublasLtCreate(&handle_), "cannot make a handle"); }
  ~Handle() { cublasLtDestroy(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  cublasLtHandle_t get() const { return handle_; }

 private:
  cublasLtHandle_t handle_ = nullptr;
};

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      throw UsageError(fmt::format("gemm: operands are {}, must be f32, bf16 or f16", name_of(dtype)));
  }
}

cublasLtEpilogue_t epilogue_of(const GemmSpec& spec) {
  switch (spec.epilogue) {
    case Epilogue::relu:
      return CUBLASLT_EPILOGUE_RELU;
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::bias_relu:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
    case Epilogue::bias_gradient:
      return CUBLASLT_EPILOGUE_BGRADB;  // our a is the library's B
    case Epilogue::gelu:
      return spec.keeps_pre ? CUBLASLT_EPILOGUE_GELU_AUX : CUBLASLT_EPILOGUE_GELU;
    case Epilogue::bias_gelu:
      return spec.keeps_pre ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_BIAS;
    case Epilogue::gelu_gradient:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::none:
      break;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

bool has_vector(Epilogue epilogue) {
  return epilogue == Epilogue::bias || epilogue == Epilogue::bias_relu ||
         epilogue == Epilogue::bias_gradient || epilogue == Epilogue::bias_gelu;
}

/// The library's matrices are column-major: our rows are its columns, so it computes the transpose of c from
/// b and a, in this order.
class CublasGemm : public Gemm {
 public:
  explicit CublasGemm(const GemmSpec& spec)
      : spec_(spec),
        handle_(shared_by_device<Handle>()),
        first_(columns(spec.dtype, spec.transpose_b ? spec.k : spec.n, spec.transpose_b ? spec.n : spec.k,
                       spec.stride_b)),
        second_(columns(spec.dtype, spec.transpose_a ? spec.m : spec.k, spec.transpose_a ? spec.k : spec.m,
                        spec.stride_a)),
        result_(columns(spec.result, spec.n, spec.m, spec.stride_c)) {
    const bool tf32 = spec.dtype == DType::f32 && spec.precision == Precision::tf32;
    check(cublasLtMatmulDescInit(&product_, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                 CUDA_R_32F),
          "cannot describe a product");
    set(product_, CUBLASLT_MATMUL_DESC_TRANSA, spec.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(product_, CUBLASLT_MATMUL_DESC_TRANSB, spec.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(product_, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(spec));
    // The choice of an algorithm looks at the vector's alignment; its address comes with the launch. A
    // product that has an address and no use for it is refused.
    if (has_vector(spec.epilogue)) {
      set(product_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, std::int32_t{type_of(spec.result)});
      set(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, std::uintptr_t{alignment});
    }
    if (spec.keeps_pre || spec.epilogue == Epilogue::gelu_gradient) {  // of the type of c, unless told
      set(product_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, std::uintptr_t{alignment});
      set(product_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, spec.n);
    }
  }

  /// What the library's heuristic offers, best guess first, at most `count`.
  std::vector<cublasLtMatmulHeuristicResult_t> offered(std::size_t count) const {
    cublasLtMatmulPreferenceOpaque_t preference;
    check(cublasLtMatmulPreferenceInit(&preference), "cannot state a preference");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)),
            "cannot state a preference");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace);
    // Partial sums in f32, added in a fixed order: no rounding to bf16 between them, the same bits every
    // time.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    for (const auto operand :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      prefer(operand, alignment);
    }
    std::vector<cublasLtMatmulHeuristicResult_t> results(count);
    int found = 0;
    cublasLtMatmulDescOpaque_t product = product_;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle_->get(), &product, &first_, &second_, &result_, &result_,
                                       &preference, static_cast<int>(count), results.data(), &found);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED)
      found = 0;
    else
      check(status, "cannot choose an algorithm");
    results.resize(static_cast<std::size_t>(found));
    std::erase_if(results, [](const auto& result) { return result.state != CUBLAS_STATUS_SUCCESS; });
    return results;
  }

  void take(const cublasLtMatmulHeuristicResult_t& offer) {
    algorithm_ = offer.algo;
    workspace_ = offer.workspaceSize;
  }

  std::size_t workspace_bytes() const override { return workspace_; }

  void launch(const GemmOperands& operands, void* workspace, cudaStream_t stream) const override {
    cublasLtMatmulDescOpaque_t product = product_;
    if (operands.vector != nullptr) set(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.vector);
    if (operands.pre != nullptr) set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.pre);
    const float alpha = 1;
    const float beta = spec_.accumulate ? 1 : 0;
    check(cublasLtMatmul(handle_->get(), &product, &alpha, operands.b, &first_, operands.a, &second_, &beta,
                         operands.c, &result_, operands.c, &result_, &algorithm_, workspace, workspace_,
                         stream),
          "cannot launch a product", stream);
  }

 private:
  template <class Value>
  static void set(cublasLtMatmulDescOpaque_t& product, cublasLtMatmulDescAttributes_t attribute,
                  const Value& value) {
    check(cublasLtMatmulDescSetAttribute(&product, attribute, &value, sizeof(value)),
          "cannot describe a product");
  }

  static cublasLtMatrixLayoutOpaque_t columns(DType dtype, std::int64_t rows, std::int64_t columns,
                                              std::int64_t stride) {
    cublasLtMatrixLayoutOpaque_t layout;
    check(cublasLtMatrixLayoutInit(&layout, type_of(dtype), static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), stride > 0 ? stride : rows),
          "cannot describe a matrix");
    return layout;
  }

  GemmSpec spec_;
  std::shared_ptr<Handle> handle_;
  cublasLtMatmulDescOpaque_t product_;
  // The library reads these through handles that are pointers without const.
  mutable cublasLtMatrixLayoutOpaque_t first_, second_, result_;
  cublasLtMatmulAlgo_t algorithm_;
  std::size_t workspace_ = 0;
};

/// By what the library keeps of it (cublasLtMatmulAlgo_t may be stored and restored byte by byte), which has
/// no name: the same wherever a version of the library offers it.
std::string name_of(const cublasLtMatmulAlgo_t& algorithm) {
  const std::string_view bytes(reinterpret_cast<const char*>(algorithm.data), sizeof(algorithm.data));
  return fmt::format("lt_{:016x}", fnv1a(bytes));
}

/// On a GPU that is only described.
class UnaskedGemm final : public Gemm {
 public:
  std::size_t workspace_bytes() const override { return most_workspace; }
  void launch(const GemmOperands&, void*, cudaStream_t) const override {
    throw DeviceError("cuda: a GPU that is only described launches nothing");
  }
};

}  // namespace

std::vector<std::string> gemm_algorithms(const GemmSpec& spec, const DescribedGpu* gpu) {
  if (gpu != nullptr || (spec.has_gelu() && !may_end_in_gelu(spec))) return {};
  std::vector<std::string> names;
  for (const auto& offer : CublasGemm(spec).offered(offered_algorithms)) names.push_back(name_of(offer.algo));
  return names;
}

std::shared_ptr<const Gemm> prepare_gemm(const GemmSpec& spec, const DescribedGpu* gpu) {
  if (spec.has_gelu() && !may_end_in_gelu(spec)) return nullptr;
  if (gpu != nullptr) return std::make_shared<UnaskedGemm>();
  const auto gemm = std::make_shared<CublasGemm>(spec);
  const auto offers = gemm->offered(spec.algorithm.empty() ? 1 : offered_algorithms);
  const auto wanted = std::ranges::find_if(offers, [&](const auto& offer) {
    return spec.algorithm.empty() || name_of(offer.algo) == spec.algorithm;
  });
  if (wanted != offers.end()) {
    gemm->take(*wanted);
    return gemm;
  }
  if (!offers.empty())
    throw DeviceError(fmt::format("gemm: cuBLASLt does not offer the algorithm {}", spec.algorithm));
  if (spec.epilogue == Epilogue::bias_gradient || spec.has_gelu()) return nullptr;
  throw DeviceError(
      fmt::format("gemm: cuBLASLt has no kernel for ({}, {}) x ({}, {}) in {} on this GPU; update CUDA",
                  spec.m, spec.k, spec.k, spec.n, name_of(spec.dtype)));
}

std::string gemm_library() {
  const std::size_t version = cublasLtGetVersion();
  return fmt::format("cuBLASLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace lockstep::kernels
