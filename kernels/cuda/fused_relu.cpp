#include "kernels/cuda/fused_relu.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/cuda/built_convolutions.h"
#include "kernels/cuda/handles.h"
#include "kernels/layout.h"

namespace lockstep::kernels {
namespace {

/// A NaN in each floating-point type that there is.
constexpr int nan_bytes = 0xFF;

/// Whether no element that `launch(stream)` writes to `result` is 0. Its inputs have been filled with NaN.
template <class Launch>
bool writes_no_zero(const DeviceBuffer& result, DType dtype, cudaStream_t stream, Launch launch) {
  launch();
  std::vector<std::byte> bytes(result.bytes());
  check(cudaMemcpyAsync(bytes.data(), result.data(), bytes.size(), cudaMemcpyDeviceToHost, stream),
        "cannot copy from the GPU");
  check(cudaStreamSynchronize(stream), "cannot wait for a stream");
  const std::size_t size = size_of(dtype);
  for (auto element = bytes.begin(); element != bytes.end(); element += static_cast<std::ptrdiff_t>(size)) {
    const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
    if (std::all_of(element, element + static_cast<std::ptrdiff_t>(size), is_zero)) return false;
  }
  return true;
}

DeviceBuffer filled_with_nan(std::size_t bytes, cudaStream_t stream) {
  DeviceBuffer buffer(bytes);
  check(cudaMemsetAsync(buffer.data(), nan_bytes, bytes, stream), "cannot fill memory");
  return buffer;
}

bool product_keeps_nan(GemmSpec spec) {
  constexpr std::int64_t extent = 64;
  spec.m = spec.n = spec.k = extent;
  spec.algorithm.clear();  // that of another shape need not be there
  spec.stride_a = spec.stride_b = spec.stride_c = 0;
  const auto gemm = prepare_gemm(spec);
  const StreamHandle stream = make_stream_handle();
  const auto bytes = [](std::int64_t elements, DType dtype) {
    return static_cast<std::size_t>(elements) * size_of(dtype);
  };
  const DeviceBuffer a = filled_with_nan(bytes(extent * extent, spec.dtype), stream.get());
  const DeviceBuffer b = filled_with_nan(bytes(extent * extent, spec.dtype), stream.get());
  const DeviceBuffer bias = filled_with_nan(bytes(extent, spec.result), stream.get());
  const DeviceBuffer c(bytes(extent * extent, spec.result));
  const DeviceBuffer workspace(gemm->workspace_bytes());
  const bool biased = spec.epilogue == GemmSpec::Epilogue::bias_relu;
  return writes_no_zero(c, spec.result, stream.get(), [&] {
    gemm->launch({a.data(), b.data(), c.data(), biased ? bias.data() : nullptr}, workspace.data(),
                 stream.get());
  });
}

bool convolution_keeps_nan(ConvolutionSpec spec, bool last) {
  const auto tensor = [last](DType dtype, const Shape& shape) -> TensorDesc {
    return {dtype, shape, last ? channels_last(shape) : Layout::row_major(shape)};
  };
  spec.geometry = {.padding = {1, 1}};
  spec.x = tensor(spec.x.dtype, {2, 16, 8, 8});
  spec.w = tensor(spec.w.dtype, {16, 16, 3, 3});
  spec.y = tensor(spec.y.dtype, {2, 16, 8, 8});
  spec.plan.clear();
  const auto call = shared_by_device<BuiltConvolutions>()->prepare(spec);
  if (call == nullptr) return false;
  const StreamHandle stream = make_stream_handle();
  const DeviceBuffer x = filled_with_nan(spec.x.bytes(), stream.get());
  const DeviceBuffer w = filled_with_nan(spec.w.bytes(), stream.get());
  const DeviceBuffer bias = filled_with_nan(16 * size_of(spec.y.dtype), stream.get());
  const DeviceBuffer y(spec.y.bytes());
  const DeviceBuffer workspace(call->workspace_bytes());
  std::vector<void*> operands{x.data(), w.data()};
  if (spec.bias) operands.push_back(bias.data());
  operands.push_back(y.data());
  return writes_no_zero(y, spec.y.dtype, stream.get(),
                        [&] { call->launch(operands, workspace.data(), stream.get()); });
}

}  // namespace

bool FusedRelu::known(const Kind& kind, const std::function<bool()>& ask) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(kind);
  return found != known_.end() ? found->second : known_.emplace(kind, ask()).first->second;
}

bool FusedRelu::keeps_nan(const GemmSpec& spec) {
  const bool biased = spec.epilogue == GemmSpec::Epilogue::bias_relu;
  return known({false, biased, false, spec.dtype, spec.result, spec.precision},
               [&] { return product_keeps_nan(spec); });
}

bool FusedRelu::keeps_nan(const ConvolutionSpec& spec) {
  const bool last = spec.x.layout_or_row_major() == channels_last(spec.x.shape);
  return known({true, spec.bias, last, spec.x.dtype, spec.y.dtype, spec.precision},
               [&] { return convolution_keeps_nan(spec, last); });
}

}  // namespace lockstep::kernels
