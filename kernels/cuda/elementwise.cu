#include "kernels/elementwise.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/grid.h"
#include "kernels/op_rules.h"

namespace lockstep::kernels {
namespace {

struct Relu {
  __device__ float operator()(float x) const { return x < 0 ? 0 : x; }  // not x > 0 ? x : 0: a NaN stays
};
struct ReluGradient {
  __device__ float operator()(float y, float dy) const { return y > 0 ? dy : 0; }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

template <class Op>
__global__ void map_one(Op op, const float* x, float* y, std::int64_t n) {
  const std::int64_t whole = n / 4;
  const auto* x4 = reinterpret_cast<const float4*>(x);
  auto* y4 = reinterpret_cast<float4*>(y);
  for (std::int64_t i = first_item(); i < whole; i += item_stride()) {
    const float4 in = x4[i];
    y4[i] = make_float4(op(in.x), op(in.y), op(in.z), op(in.w));
  }
  for (std::int64_t i = 4 * whole + first_item(); i < n; i += item_stride()) y[i] = op(x[i]);
}

template <class Op>
__global__ void map_two(Op op, const float* a, const float* b, float* y, std::int64_t n) {
  const std::int64_t whole = n / 4;
  const auto* a4 = reinterpret_cast<const float4*>(a);
  const auto* b4 = reinterpret_cast<const float4*>(b);
  auto* y4 = reinterpret_cast<float4*>(y);
  for (std::int64_t i = first_item(); i < whole; i += item_stride()) {
    const float4 left = a4[i];
    const float4 right = b4[i];
    y4[i] = make_float4(op(left.x, right.x), op(left.y, right.y), op(left.z, right.z), op(left.w, right.w));
  }
  for (std::int64_t i = 4 * whole + first_item(); i < n; i += item_stride()) y[i] = op(a[i], b[i]);
}

template <class Op>
KernelPtr two_operands(std::string_view kernel, const KernelIo& io, Op op) {
  const std::int64_t n = check_elementwise(kernel, io, 2);
  return cuda_kernel([n, op, s = spread((n + 3) / 4)](const Addresses& a, cudaStream_t stream) {
    launch(map_two<Op>, s.blocks, s.threads, 0, stream, op, a.at(0), a.at(1), a.at(2), n);
  });
}

}  // namespace

KernelPtr prepare(Cuda, const ReluForward&, const KernelIo& io) {
  const std::int64_t n = check_elementwise("relu_forward", io, 1);
  return cuda_kernel([n, s = spread((n + 3) / 4)](const Addresses& a, cudaStream_t stream) {
    launch(map_one<Relu>, s.blocks, s.threads, 0, stream, Relu{}, a.at(0), a.at(1), n);
  });
}

KernelPtr prepare(Cuda, const ReluBackward&, const KernelIo& io) {
  return two_operands("relu_backward", io, ReluGradient{});
}

KernelPtr prepare(Cuda, const Add&, const KernelIo& io) {
  return two_operands("add", io, Sum{});
}

}  // namespace lockstep::kernels
