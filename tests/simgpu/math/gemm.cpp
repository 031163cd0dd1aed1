#include "kernels/cuda/gemm.h"

#include <dnnl.h>
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/cuda/handles.h"
#include "tests/simgpu/math/library_call.h"
#include "tests/simgpu/math/tf32.h"

// The twin of kernels/cuda/gemm.cpp: oneDNN in place of cuBLASLt.
namespace lockstep::kernels {
namespace {

using Epilogue = GemmSpec::Epilogue;

template <class T>
auto view(T* device) {
  using Float = std::conditional_t<std::is_const_v<T>, const float, float>;
  return reinterpret_cast<Float*>(simgpu::host_view(device));
}

void add_bias(const GemmSpec& s, const float* bias, float* c) {
  for (std::int64_t row = 0; row < s.m; ++row) {
    for (std::int64_t column = 0; column < s.n; ++column) c[row * s.n + column] += bias[column];
  }
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

void multiply(const GemmSpec& s, const float* a, const float* b, float* c) {
  const dnnl_status_t status =
      dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k, 1.0F, a,
                 s.transpose_a ? s.m : s.k, b, s.transpose_b ? s.k : s.n, s.accumulate ? 1.0F : 0.0F, c, s.n);
  if (status != dnnl_success)
    throw DeviceError(fmt::format("oneDNN: sgemm failed with status {}", int{status}));
}

std::vector<float> factor(const void* device, std::int64_t elements) {
  return simgpu::rounded_to_tf32(std::span(view(device), static_cast<std::size_t>(elements)));
}

void compute(const GemmSpec& s, const GemmOperands& o) {
  if (s.precision == Precision::tf32) {
    multiply(s, factor(o.a, s.m * s.k).data(), factor(o.b, s.k * s.n).data(), view(o.c));
  } else {
    multiply(s, view(o.a), view(o.b), view(o.c));
  }
  if (s.epilogue == Epilogue::bias || s.epilogue == Epilogue::bias_relu)
    add_bias(s, view(o.vector), view(o.c));
  if (s.epilogue == Epilogue::bias_gradient) sum_rows(s, view(o.a), view(o.vector));
  if (s.epilogue == Epilogue::relu || s.epilogue == Epilogue::bias_relu) {
    float* const c = view(o.c);
    std::transform(c, c + s.m * s.n, c, [](float x) { return x < 0 ? 0 : x; });
  }
}

std::size_t bytes(std::int64_t rows, std::int64_t columns) {
  return static_cast<std::size_t>(rows * columns) * sizeof(float);
}

class SimulatedGemm : public Gemm {
 public:
  explicit SimulatedGemm(const GemmSpec& spec) : spec_(spec) {}

  std::size_t workspace_bytes() const override { return simgpu::library_workspace_bytes; }

  void launch(const GemmOperands& operands, void* workspace, cudaStream_t stream) const override {
    simgpu::LibraryCall call("gemm", workspace);
    call.reads(operands.a, bytes(spec_.m, spec_.k));
    call.reads(operands.b, bytes(spec_.k, spec_.n));
    call.writes(operands.c, bytes(spec_.m, spec_.n));
    if (spec_.epilogue == Epilogue::bias_gradient) {
      call.writes(operands.vector, bytes(spec_.m, 1));
    } else if (spec_.epilogue == Epilogue::bias || spec_.epilogue == Epilogue::bias_relu) {
      call.reads(operands.vector, bytes(1, spec_.n));
    }
    check(call.enqueue(stream, [spec = spec_, operands] { compute(spec, operands); }),
          "cannot launch a product");
  }

 private:
  GemmSpec spec_;
};

}  // namespace

std::shared_ptr<const Gemm> prepare_gemm(const GemmSpec& spec) {
  if (spec.dtype != DType::f32) {
    throw UsageError(fmt::format("gemm: operands are {}; the simulator has f32 alone", name_of(spec.dtype)));
  }
  // As a real library would, it lacks the fused bias gradient for some shapes.
  if (spec.epilogue == Epilogue::bias_gradient && spec.k % 4 != 0) return nullptr;
  return std::make_shared<SimulatedGemm>(spec);
}

std::string gemm_library() {
  const dnnl_version_t* const version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{} for cuBLASLt", version->major, version->minor, version->patch);
}

}  // namespace lockstep::kernels
