#include "kernels/batch_norm.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/batch_norm.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/grid.h"

// The passes that write each element, and the running statistics.
namespace lockstep::kernels {
namespace {

/// Elements side by side, moved at once.
template <class Element, int width>
struct alignas(width * sizeof(Element)) Pack {
  Element at[width];
};

/// `residual` may be null.
template <int width, class Index, class Element>
__global__ void normalise(Images<Index> images, Following function, float eps, const Element* x,
                          Affines affines, const Element* residual, Element* y) {
  using Packed = Pack<Element, width>;
  const std::int64_t packs = static_cast<std::int64_t>(images.count) * images.channels / width;
  for (std::int64_t item = first_item(); item < packs; item += item_stride()) {
    Packed values = aligned_cast<const Packed>(x)[item];
    Packed others{};
    if (residual != nullptr) others = aligned_cast<const Packed>(residual)[item];
    for (int k = 0; k < width; ++k) {
      const Index c = images.channel_at(static_cast<Index>(item * width + k));
      float z = affines.at(c, eps)(widen(values.at[k]));
      if (residual != nullptr) z += widen(others.at[k]);
      values.at[k] = narrow<Element>(value_of(function, z));
    }
    aligned_cast<Packed>(y)[item] = values;
  }
}

/// This rank's sums, or, with their moments and the step's state, those of all ranks.
template <class Sum>
struct BatchSums {
  const Sum* sums;
  const double* moments;  ///< or null, and the state with it
  const StepState* state;
};

template <int width, class Index, class Element, class Sum>
__global__ void gradient_of_input(Images<Index> images, Following function, float eps,
                                  BatchNormGradientInputs<Element> from, BatchSums<Sum> batch,
                                  std::int64_t samples, Element* dx) {
  using Packed = Pack<Element, width>;
  const std::int64_t elements = static_cast<std::int64_t>(images.count) * images.channels;
  const std::int64_t packs = elements / width;
  const std::int64_t padding = valid_elements(elements, batch.state, samples);
  const float share = 1 / (batch.moments == nullptr ? static_cast<float>(images.count)
                                                    : static_cast<float>(batch.moments[2 * images.channels]));
  for (std::int64_t item = first_item(); item < packs; item += item_stride()) {
    const Packed in = aligned_cast<const Packed>(from.x)[item];
    Packed values = aligned_cast<const Packed>(from.dy)[item];
    for (int k = 0; k < width; ++k) {
      const Index c = images.channel_at(static_cast<Index>(item * width + k));
      const Affine affine = from.affines.at(c, eps);
      const float at = widen(in.at[k]);
      const float g = gradient_of(function, affine(at), widen(values.at[k]));
      const float shift = static_cast<float>(batch.sums[c]) * share;
      const float slope = static_cast<float>(batch.sums[images.channels + c]) * share * affine.rstd;
      const float of_x = affine.scale * (g - shift - (at - affine.mean) * slope);
      values.at[k] = narrow<Element>(item * width + k < padding ? of_x : 0);
    }
    aligned_cast<Packed>(dx)[item] = values;
  }
}

__global__ void copy_sums(std::int64_t channels, const float* sums, float* dweight, float* dbias) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= channels) return;
  dbias[c] = sums[c];
  dweight[c] = sums[channels + c];
}

struct BatchValues {
  const float *mean, *variance;
  const double* moments;  ///< of all ranks, or null
  const StepState* state;
};

struct RunningValues {
  float *mean, *variance;
  std::int64_t* batches;
};

__global__ void move_statistics(RunningStatistics op, std::int64_t channels, BatchValues batch,
                                RunningValues running) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= channels || batch.state->skip_update != 0) return;
  const double count = batch.moments == nullptr ? static_cast<double>(op.count) : batch.moments[2 * channels];
  const double correction = count / (count < 2 ? 1 : count - 1);
  const auto move = [&](float& value, float of_batch, double factor) {
    value = static_cast<float>(op.momentum * factor * static_cast<double>(of_batch) +
                               (1 - op.momentum) * static_cast<double>(value));
  };
  move(running.mean[c], batch.mean[c], 1);
  move(running.variance[c], batch.variance[c], correction);
  if (c == 0) ++*running.batches;
}

/// `make.operator()<width>()`: how many elements a thread moves at once. They have one group, and lie in one
/// pixel or in one channel.
template <class Index, class Make>
KernelPtr with_width(const Images<Index>& images, Make make) {
  const bool four = (images.lanes > 1 ? images.lanes : images.pixels) % 4 == 0;
  return four ? make.template operator()<4>() : make.template operator()<1>();
}

}  // namespace

void choose_layouts(Cuda, const BatchNorm&, KernelIo& io) {
  choose_norm_layouts(BatchNorm::x, io);
}
void choose_layouts(Cuda, const BatchNormBackward&, KernelIo& io) {
  choose_norm_layouts(BatchNormBackward::x, io);
}

KernelPtr prepare(Cuda, const BatchNorm& op, const KernelIo& io) {
  using Op = BatchNorm;
  require_same_layout(io.inputs[Op::x], io.outputs[Op::y]);
  return with_images(io.inputs[Op::x], [&]<class Element, class Index>(const Images<Index>& images) {
    return with_width(images, [&]<int width>() {
      const Spread s = spread(io.inputs[Op::x].shape.elements() / width);
      return cuda_kernel(io, [=, function = number_of(op.then), eps = static_cast<float>(op.eps)](
                                 const Addresses& a, cudaStream_t stream) {
        launch(normalise<width, Index, Element>, s.blocks, s.threads, 0, stream, images, function, eps,
               a.in<Element>(Op::x), affines_of<Op>(a), a.in<Element>(Op::residual), a.out<Element>(Op::y));
      });
    });
  });
}

KernelPtr prepare(Cuda, const BatchNormBackward& op, const KernelIo& io) {
  using Op = BatchNormBackward;
  require_same_layout(io.inputs[Op::x], io.inputs[Op::dy]);
  require_same_layout(io.inputs[Op::x], io.outputs[Op::dx]);
  const bool of_all_ranks = io.inputs.size() > Op::total;
  return with_images(io.inputs[Op::x], [&]<class Element, class Index>(const Images<Index>& images) {
    return with_width(images, [&]<int width>() {
      const Spread s = spread(io.inputs[Op::x].shape.elements() / width);
      return cuda_kernel(io, [=, function = number_of(op.then), eps = static_cast<float>(op.eps),
                              samples = op.samples](const Addresses& a, cudaStream_t stream) {
        const auto gradient = [&]<class Sum>(const Sum* sums) {
          const BatchSums<Sum> batch{
              .sums = sums, .moments = a.in<double>(Op::moments), .state = a.in<StepState>(Op::state)};
          launch(gradient_of_input<width, Index, Element, Sum>, s.blocks, s.threads, 0, stream, images,
                 function, eps, gradient_inputs_of<Op, Element>(a), batch, samples, a.out<Element>(Op::dx));
        };
        if (of_all_ranks) {
          gradient(a.in<double>(Op::total));
        } else {
          gradient(a.in(Op::sums));
        }
        const auto channels = static_cast<std::int64_t>(images.channels);
        launch(copy_sums, blocks_for(channels, 128), 128, 0, stream, channels, a.in(Op::sums),
               a.out(Op::dweight), a.out(Op::dbias));
      });
    });
  });
}

KernelPtr prepare(Cuda, const RunningStatistics& op, const KernelIo& io) {
  using Op = RunningStatistics;
  const std::int64_t channels = io.inputs[Op::mean].shape.elements();
  return cuda_kernel(io, [op, channels](const Addresses& a, cudaStream_t stream) {
    const BatchValues batch{.mean = a.in(Op::mean),
                            .variance = a.in(Op::variance),
                            .moments = a.in<double>(Op::moments),
                            .state = a.in<StepState>(Op::state)};
    const RunningValues running{.mean = a.out(Op::running_mean),
                                .variance = a.out(Op::running_variance),
                                .batches = a.out<std::int64_t>(Op::batches)};
    launch(move_statistics, blocks_for(channels, 128), 128, 0, stream, op, channels, batch, running);
  });
}

}  // namespace lockstep::kernels
