#include "kernels/cuda/gemm.h"

#include <dnnl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/base/half.h"
#include "kernels/cuda/handles.h"
#include "kernels/pointwise_functions.h"
#include "tests/simgpu/math/library_call.h"
#include "tests/simgpu/math/tf32.h"

// The twin of kernels/cuda/gemm.cpp: oneDNN in place of cuBLASLt.
namespace lockstep::kernels {
namespace {

using Epilogue = GemmSpec::Epilogue;

template <class Half>
std::vector<float> widened(const void* device, std::size_t count) {
  const auto* const halves = static_cast<const Half*>(device);
  std::vector<float> values(count);
  std::transform(halves, halves + count, values.begin(), [](Half half) { return widen(half); });
  return values;
}

/// As f32, which the arithmetic is in whatever the operands are.
std::vector<float> read(DType dtype, const void* device, std::int64_t elements) {
  const auto count = static_cast<std::size_t>(elements);
  const void* const from = simgpu::host_view(device);
  if (dtype == DType::bf16) return widened<BFloat16>(from, count);
  if (dtype == DType::f16) return widened<Float16>(from, count);
  const auto* const floats = static_cast<const float*>(from);
  return {floats, floats + count};
}

template <class Half>
void narrow_into(const std::vector<float>& values, void* device) {
  auto* to = static_cast<Half*>(device);
  for (const float value : values) narrow(value, *to++);
}

void write(DType dtype, const std::vector<float>& values, void* device) {
  void* const to = simgpu::host_view(device);
  if (dtype == DType::bf16) return narrow_into<BFloat16>(values, to);
  if (dtype == DType::f16) return narrow_into<Float16>(values, to);
  std::ranges::copy(values, static_cast<float*>(to));
}

/// Rows without the gaps between them.
std::vector<float> read_rows(DType dtype, const void* device, std::int64_t rows, std::int64_t columns,
                             std::int64_t stride) {
  std::vector<float> values;
  const auto* const bytes = static_cast<const std::byte*>(device);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::vector<float> one =
        read(dtype, bytes + static_cast<std::size_t>(row * stride) * size_of(dtype), columns);
    values.insert(values.end(), one.begin(), one.end());
  }
  return values;
}

/// What lies in the gaps stays as it is.
void write_rows(DType dtype, const std::vector<float>& values, void* device, std::int64_t columns,
                std::int64_t stride) {
  auto* to = static_cast<std::byte*>(device);
  for (auto row = values.begin(); row != values.end(); row += columns) {
    write(dtype, {row, row + columns}, to);
    to += static_cast<std::size_t>(stride) * size_of(dtype);
  }
}

std::int64_t columns_of_a(const GemmSpec& s) {
  return s.transpose_a ? s.m : s.k;
}
std::int64_t stride_of_a(const GemmSpec& s) {
  return s.stride_a > 0 ? s.stride_a : columns_of_a(s);
}
std::int64_t columns_of_b(const GemmSpec& s) {
  return s.transpose_b ? s.k : s.n;
}
std::int64_t stride_of_b(const GemmSpec& s) {
  return s.stride_b > 0 ? s.stride_b : columns_of_b(s);
}
std::int64_t stride_of_c(const GemmSpec& s) {
  return s.stride_c > 0 ? s.stride_c : s.n;
}

void add_bias(const GemmSpec& s, const float* bias, float* c) {
  for (std::int64_t row = 0; row < s.m; ++row) {
    for (std::int64_t column = 0; column < s.n; ++column) c[row * s.n + column] += bias[column];
  }
}

struct HostMath {
  static float exp_or_zero(float x) { return std::exp(x); }
};

/// Of what is not rounded yet; `pre` is.
void apply_gelu(const GemmSpec& s, void* pre, std::vector<float>& c) {
  using Gelu = pointwise::GeluTanh;
  if (s.epilogue == Epilogue::gelu_gradient) {
    const std::vector<float> at = read(s.result, pre, s.m * s.n);
    for (std::size_t i = 0; i < c.size(); ++i) c[i] = Gelu::gradient<HostMath>(at[i], c[i]);
    return;
  }
  if (s.keeps_pre) write(s.result, c, pre);
  for (float& value : c) value = Gelu::value<HostMath>(value);
}

bool adds_bias(const GemmSpec& s) {
  return s.epilogue == Epilogue::bias || s.epilogue == Epilogue::bias_relu ||
         s.epilogue == Epilogue::bias_gelu;
}

/// The rules of the matrix beside the result (CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER and _LD): a library
/// that reads its rows 16 bytes at a time.
bool has_gelu_kernel(const GemmSpec& s) {
  return may_end_in_gelu(s) && s.k % 4 == 0;  // as a real library would, it lacks some shapes
}

/// As a real library would, it lacks fused kernels for some shapes.
bool lacks_kernels(const GemmSpec& s) {
  return (s.epilogue == Epilogue::bias_gradient && s.k % 4 != 0) || (s.has_gelu() && !has_gelu_kernel(s));
}

/// The first is what is taken of itself; the second adds in two halves, so that its bits are others, and is
/// not offered for every shape, as a real library's are not.
constexpr std::string_view whole = "simlt0_whole";
constexpr std::string_view halves = "simlt1_halves";

bool offers(const GemmSpec& s, std::string_view algorithm) {
  return algorithm == whole || (algorithm == halves && s.m != s.n);
}

void sum_rows(const GemmSpec& s, const float* a, float* gradient) {
  const std::int64_t row_stride = s.transpose_a ? 1 : s.k;
  const std::int64_t column_stride = s.transpose_a ? s.m : 1;
  for (std::int64_t row = 0; row < s.m; ++row) {
    float sum = 0;
    for (std::int64_t i = 0; i < s.k; ++i) sum += a[row * row_stride + i * column_stride];
    gradient[row] = sum;
  }
}

/// Terms [begin, end) of the sums, added to c if `adds`.
void multiply(const GemmSpec& s, std::int64_t begin, std::int64_t end, bool adds, const float* a,
              const float* b, float* c) {
  const std::int64_t row_of_a = s.transpose_a ? s.m : s.k;
  const std::int64_t row_of_b = s.transpose_b ? s.k : s.n;
  const dnnl_status_t status =
      dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, end - begin, 1.0F,
                 a + begin * (s.transpose_a ? row_of_a : 1), row_of_a,
                 b + begin * (s.transpose_b ? 1 : row_of_b), row_of_b, adds ? 1.0F : 0.0F, c, s.n);
  if (status != dnnl_success)
    throw DeviceError(fmt::format("oneDNN: sgemm failed with status {}", int{status}));
}

void multiply(const GemmSpec& s, const float* a, const float* b, float* c) {
  const std::int64_t middle = s.algorithm == halves ? s.k / 2 : 0;
  if (middle > 0) multiply(s, 0, middle, s.accumulate, a, b, c);
  multiply(s, middle, s.k, s.accumulate || middle > 0, a, b, c);
}

std::vector<float> factor(const GemmSpec& s, const std::vector<float>& values) {
  return s.precision == Precision::tf32 && s.dtype == DType::f32 ? simgpu::rounded_to_tf32(values) : values;
}

void compute(const GemmSpec& s, const GemmOperands& o) {
  const std::int64_t rows_of_a = s.transpose_a ? s.k : s.m;
  const std::vector<float> a = factor(s, read_rows(s.dtype, o.a, rows_of_a, columns_of_a(s), stride_of_a(s)));
  const std::int64_t rows_of_b = s.transpose_b ? s.n : s.k;
  const std::vector<float> b = factor(s, read_rows(s.dtype, o.b, rows_of_b, columns_of_b(s), stride_of_b(s)));
  std::vector<float> c = s.accumulate ? read_rows(s.result, o.c, s.m, s.n, stride_of_c(s))
                                      : std::vector<float>(static_cast<std::size_t>(s.m * s.n));
  multiply(s, a.data(), b.data(), c.data());
  if (adds_bias(s)) add_bias(s, read(s.result, o.vector, s.n).data(), c.data());
  if (s.epilogue == Epilogue::bias_gradient) {
    std::vector<float> sums(static_cast<std::size_t>(s.m));
    sum_rows(s, a.data(), sums.data());
    write(s.result, sums, o.vector);
  }
  if (s.epilogue == Epilogue::relu || s.epilogue == Epilogue::bias_relu) {
    simgpu::apply_library_relu(c);
  }
  if (s.has_gelu()) apply_gelu(s, o.pre, c);
  write_rows(s.result, c, o.c, s.n, stride_of_c(s));
}

std::size_t bytes(DType dtype, std::int64_t rows, std::int64_t columns) {
  return static_cast<std::size_t>(rows * columns) * size_of(dtype);
}
/// From the first row to the end of the last.
std::size_t bytes(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  return rows > 0 ? bytes(dtype, 1, (rows - 1) * stride + columns) : 0;
}

class SimulatedGemm : public Gemm {
 public:
  explicit SimulatedGemm(const GemmSpec& spec) : spec_(spec) {}

  std::size_t workspace_bytes() const override { return simgpu::library_workspace_bytes; }

  void launch(const GemmOperands& operands, void* workspace, cudaStream_t stream) const override {
    simgpu::LibraryCall call("gemm", workspace, 256);  // NVIDIA's reference of cublasLtMatmul
    call.reads(operands.a, bytes(spec_.dtype, spec_.transpose_a ? spec_.k : spec_.m, columns_of_a(spec_),
                                 stride_of_a(spec_)));
    call.reads(operands.b, bytes(spec_.dtype, spec_.transpose_b ? spec_.n : spec_.k, columns_of_b(spec_),
                                 stride_of_b(spec_)));
    call.writes(operands.c, bytes(spec_.result, spec_.m, spec_.n, stride_of_c(spec_)));
    if (spec_.epilogue == Epilogue::bias_gradient) {
      call.writes(operands.vector, bytes(spec_.result, spec_.m, 1));
    } else if (adds_bias(spec_)) {
      call.reads(operands.vector, bytes(spec_.result, 1, spec_.n));
    }
    if (spec_.epilogue == Epilogue::gelu_gradient) call.reads(operands.pre, pre_bytes());
    if (spec_.keeps_pre) call.writes(operands.pre, pre_bytes());
    const cudaError_t result = call.enqueue(stream, [spec = spec_, operands] { compute(spec, operands); });
    if (result == cudaSuccess) return;
    check_gpu("cannot launch a product", stream);
    throw DeviceError(fmt::format("cuBLASLt: cannot launch a product: {}", cudaGetErrorString(result)));
  }

 private:
  std::size_t pre_bytes() const { return bytes(spec_.result, spec_.m, spec_.n); }

  GemmSpec spec_;
};

}  // namespace

std::vector<std::string> gemm_algorithms(const GemmSpec& spec, const DescribedGpu*) {
  if (lacks_kernels(spec)) return {};
  std::vector<std::string> names{std::string(whole)};
  if (offers(spec, halves)) names.emplace_back(halves);
  return names;
}

std::shared_ptr<const Gemm> prepare_gemm(const GemmSpec& spec, const DescribedGpu*) {
  if (lacks_kernels(spec)) return nullptr;
  if (!spec.algorithm.empty() && !offers(spec, spec.algorithm))
    throw DeviceError("simulated cuBLASLt: it does not offer the algorithm " + spec.algorithm);
  return std::make_shared<SimulatedGemm>(spec);
}

std::string gemm_library() {
  const dnnl_version_t* const version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{} for cuBLASLt", version->major, version->minor, version->patch);
}

}  // namespace lockstep::kernels
