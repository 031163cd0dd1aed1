#include "kernels/cuda/portability.h"

#include <limits>

#include "kernels/cuda/bias_relu.h"
#include "kernels/cuda/grid.h"

namespace lockstep::kernels {
namespace {

template <class Index>
__global__ void bias_relu(const float* b, float* y, Index n, Index channels, Index channel_stride,
                          bool relu) {
  for (std::int64_t at = first_item(); at < n; at += item_stride()) {
    const auto i = static_cast<Index>(at);
    float value = y[i];
    if (b != nullptr) value += b[i / channel_stride % channels];
    y[i] = relu && value < 0 ? 0 : value;  // not value > 0 ? value : 0: a NaN stays
  }
}

}  // namespace

BiasRelu::BiasRelu(const TensorDesc& y, bool relu)
    : elements_(y.shape.elements()),
      channels_(y.shape[1]),
      channel_stride_(y.layout_or_row_major().strides[1]),
      relu_(relu) {}

void BiasRelu::launch(const float* b, float* y, cudaStream_t stream) const {
  const Spread s = spread(elements_);
  const auto start = [&]<class Index>(Index n) {
    kernels::launch(bias_relu<Index>, s.blocks, s.threads, 0, stream, b, y, n, static_cast<Index>(channels_),
                    static_cast<Index>(channel_stride_), relu_);
  };
  const bool narrow = elements_ <= std::numeric_limits<std::int32_t>::max();
  narrow ? start(static_cast<std::int32_t>(elements_)) : start(elements_);
}

}  // namespace lockstep::kernels
