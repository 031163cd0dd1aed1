#include "kernels/cuda/portability.h"

#include "kernels/cuda/bias_relu.h"
#include "kernels/cuda/grid.h"

namespace lockstep::kernels {
namespace {

__global__ void bias_relu(const float* b, float* y, std::int64_t n, std::int64_t channels,
                          std::int64_t channel_stride, bool relu) {
  for (std::int64_t i = first_item(); i < n; i += item_stride()) {
    float value = y[i];
    if (b != nullptr) value += b[i / channel_stride % channels];
    y[i] = relu && value < 0 ? 0 : value;  // not value > 0 ? value : 0: a NaN stays
  }
}

}  // namespace

BiasRelu::BiasRelu(const TensorDesc& y, bool relu)
    : elements_(y.shape.elements()),
      channels_(y.shape[1]),
      channel_stride_(y.layout_or_plain().strides[1]),
      relu_(relu) {}

void BiasRelu::launch(const float* b, float* y, cudaStream_t stream) const {
  const Spread s = spread(elements_);
  kernels::launch(bias_relu, s.blocks, s.threads, 0, stream, b, y, elements_, channels_, channel_stride_,
                  relu_);
}

}  // namespace lockstep::kernels
