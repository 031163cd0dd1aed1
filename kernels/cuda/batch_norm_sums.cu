#include "kernels/batch_norm.h"

#include "kernels/cuda/portability.h"

#include <algorithm>

#include "kernels/cuda/batch_norm.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/grid.h"

// The passes that sum: moments of the batch, and what its gradients give weight and bias.
namespace lockstep::kernels {
namespace {

constexpr int block = 256;

/// How a channel is cut, by the shape alone.
struct Chunks {
  std::int64_t channels, size, count, of_channel;

  /// Of the chunk, as far as it lies among the first `of` elements of the channel.
  __device__ double elements(std::int64_t chunk, std::int64_t of) const {
    const std::int64_t rest = of - chunk * size;
    return static_cast<double>(rest < 0 ? 0 : rest < size ? rest : size);
  }
};

/// A block sums for one channel, or, where the channels of a pixel lie side by side, for as many as a warp
/// has threads, which then read neighbours. blockIdx.x names the channels, blockIdx.y the chunk of their
/// elements.
template <bool side_by_side, class Index>
struct Share {
  Index channel, first, step;

  __device__ Share()
      : channel(static_cast<Index>(side_by_side ? blockIdx.x * warp + threadIdx.x % warp : blockIdx.x)),
        first(static_cast<Index>(side_by_side ? threadIdx.x / warp : threadIdx.x)),
        step(side_by_side ? block / warp : block) {}
};

/// Over the threads that have the calling thread's channel, in a fixed order; all threads call it.
template <bool side_by_side>
__device__ float sum_of_channel(float value) {
  if constexpr (side_by_side) {
    STATIC_SHARED(float, parts, block);
    parts[threadIdx.x] = value;
    __syncthreads();
    float total = 0;
    for (unsigned at = threadIdx.x % warp; at < block; at += warp) total += parts[at];
    __syncthreads();  // the next call writes there again
    return total;
  } else {
    return sum<block>(value);
  }
}

/// partials[chunk][0]: mean of the valid elements of each channel's chunk, partials[chunk][1]: sum of squares
/// about it. Summed about an element of the chunk, so that a mean far from zero costs no digits of the
/// variance.
template <bool side_by_side, class Index, class Element>
__global__ void moments_of_chunk(Images<Index> images, Index chunk, const StepState* state,
                                 std::int64_t samples, const Element* x, float* partials) {
  const Share<side_by_side, Index> share;
  const bool is_there = share.channel < images.channels;
  const Index begin = static_cast<Index>(blockIdx.y) * chunk;
  const Index count = static_cast<Index>(valid_elements(images.count, state, samples));
  const Index end = count - begin < chunk ? count : begin + chunk;
  const float shift = is_there ? widen(x[images.at(share.channel, begin)]) : 0;
  float total = 0;
  float squares = 0;
  for (Index i = begin + share.first; is_there && i < end; i += share.step) {
    const float distance = widen(x[images.at(share.channel, i)]) - shift;
    total += distance;
    squares += distance * distance;
  }
  total = sum_of_channel<side_by_side>(total);
  squares = sum_of_channel<side_by_side>(squares);
  if (!is_there || share.first != 0) return;
  const float shifted = total / static_cast<float>(end - begin);
  const float about_mean = squares - shifted * total;
  float* const to = partials + 2 * static_cast<std::int64_t>(blockIdx.y) * images.channels + share.channel;
  to[0] = shift + shifted;
  to[images.channels] = about_mean < 0 ? 0 : about_mean;
}

struct ChannelMoments {
  double count, mean, squares;
};

/// Of the first `elements` of the channel; chunks behind them do not count.
__device__ ChannelMoments joined(const Chunks& chunks, std::int64_t elements, const float* of_channel) {
  const auto count = static_cast<double>(elements);
  const std::int64_t used = (elements + chunks.size - 1) / chunks.size;
  double center = 0;
  for (std::int64_t i = 0; i < used; ++i) {
    center += static_cast<double>(of_channel[2 * i * chunks.channels]) * chunks.elements(i, elements) / count;
  }
  double squares = 0;
  for (std::int64_t i = 0; i < used; ++i) {
    const double distance = static_cast<double>(of_channel[2 * i * chunks.channels]) - center;
    squares += static_cast<double>(of_channel[(2 * i + 1) * chunks.channels]) +
               chunks.elements(i, elements) * distance * distance;
  }
  return {count, center, squares};
}

__global__ void join_moments(Chunks chunks, const float* partials, float* mean, float* variance) {
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (channel >= chunks.channels) return;
  const ChannelMoments of = joined(chunks, chunks.of_channel, partials + channel);
  mean[channel] = static_cast<float>(of.mean);
  variance[channel] = static_cast<float>(of.squares / of.count);
}

__global__ void join_valid_moments(Chunks chunks, const StepState* state, std::int64_t samples,
                                   const float* partials, double* moments) {
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (channel >= chunks.channels) return;
  const std::int64_t elements = valid_elements(chunks.of_channel, state, samples);
  const ChannelMoments of = joined(chunks, elements, partials + channel);
  moments[channel] = of.count * of.mean;
  moments[chunks.channels + channel] = of.squares + of.count * of.mean * of.mean;
  if (channel == 0) moments[2 * chunks.channels] = of.count;
}

__global__ void statistics_of(std::int64_t channels, const double* moments, float* mean, float* variance) {
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (channel >= channels) return;
  const double count = moments[2 * channels];
  const double center = moments[channel] / count;
  const double squares = moments[channels + channel] / count - center * center;
  mean[channel] = static_cast<float>(center);
  variance[channel] = static_cast<float>(squares < 0 ? 0 : squares);
}

template <bool side_by_side, class Index, class Element>
__global__ void sums_of_chunk(Images<Index> images, Index chunk, Following function, float eps,
                              BatchNormGradientInputs<Element> from, float* partials) {
  const Share<side_by_side, Index> share;
  const bool is_there = share.channel < images.channels;
  const Index c = is_there ? share.channel : 0;
  const Affine affine = from.affines.at(c, eps);
  const Index begin = static_cast<Index>(blockIdx.y) * chunk;
  const Index end = images.count - begin < chunk ? images.count : begin + chunk;
  float gradients = 0;
  float products = 0;
  for (Index i = begin + share.first; is_there && i < end; i += share.step) {
    const Index at = images.at(share.channel, i);
    const float in = widen(from.x[at]);
    const float g = gradient_of(function, affine(in), widen(from.dy[at]));
    gradients += g;
    products += g * (in - affine.mean);
  }
  gradients = sum_of_channel<side_by_side>(gradients);
  products = sum_of_channel<side_by_side>(products);
  if (!is_there || share.first != 0) return;
  float* const to = partials + 2 * static_cast<std::int64_t>(blockIdx.y) * images.channels + share.channel;
  to[0] = gradients;
  to[images.channels] = products * affine.rstd;
}

/// sums[k]: the chunks' numbers k, in their order; the same in `total`, which may be null.
__global__ void add_chunks(Chunks chunks, const float* partials, float* sums, double* total) {
  const std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (k >= 2 * chunks.channels) return;
  double sum_of_chunks = 0;
  for (std::int64_t i = 0; i < chunks.count; ++i) {
    sum_of_chunks += static_cast<double>(partials[2 * i * chunks.channels + k]);
  }
  sums[k] = static_cast<float>(sum_of_chunks);
  if (total != nullptr) total[k] = sum_of_chunks;
}

/// Blocks for each chunk, and the chunks.
struct SumGrid {
  bool side_by_side;
  unsigned blocks;
  Chunks chunks;

  template <class Index>
  explicit SumGrid(const Images<Index>& images) : side_by_side(images.lanes > 1) {
    constexpr std::int64_t wanted_blocks = 2048;  // enough for a great GPU
    constexpr std::int64_t most_chunks = 65535;
    blocks = side_by_side ? blocks_for(images.channels, warp) : static_cast<unsigned>(images.channels);
    const std::int64_t wanted = std::clamp<std::int64_t>(wanted_blocks / blocks, 1, most_chunks);
    const std::int64_t least = side_by_side ? block : 4 * block;
    const std::int64_t size = std::max(least, parts_of<std::int64_t>(images.count, wanted));
    chunks = {images.channels, size, parts_of<std::int64_t>(images.count, size), images.count};
  }

  dim3 grid() const { return {blocks, static_cast<unsigned>(chunks.count)}; }
  std::size_t workspace() const {
    return static_cast<std::size_t>(2 * chunks.count * chunks.channels) * sizeof(float);
  }
};

/// Moments of each chunk of x, the first operand, into the workspace, then `join(grid, addresses, stream)`.
template <class Join>
KernelPtr moments_kernel(const KernelIo& io, Join join, std::int64_t samples = 1) {
  static_assert(std::size_t{BatchStatistics::x} == std::size_t{BatchMoments::x});
  return with_images(
      io.inputs[BatchMoments::x], [&]<class Element, class Index>(const Images<Index>& images) {
        const SumGrid sums(images);
        const auto kernel = sums.side_by_side ? moments_of_chunk<true, Index, Element>
                                              : moments_of_chunk<false, Index, Element>;
        return cuda_kernel(
            io,
            [=](const Addresses& a, cudaStream_t stream) {
              launch(kernel, sums.grid(), block, 0, stream, images, static_cast<Index>(sums.chunks.size),
                     a.in<StepState>(BatchMoments::state), samples, a.in<Element>(BatchMoments::x),
                     a.workspace<float>());
              join(sums, a, stream);
            },
            sums.workspace());
      });
}

}  // namespace

void choose_layouts(Cuda, const BatchStatistics&, KernelIo& io) {
  choose_norm_layouts(BatchStatistics::x, io);
}
void choose_layouts(Cuda, const BatchMoments&, KernelIo& io) {
  choose_norm_layouts(BatchMoments::x, io);
}
void choose_layouts(Cuda, const BatchNormSums&, KernelIo& io) {
  choose_norm_layouts(BatchNormSums::x, io);
}

KernelPtr prepare(Cuda, const BatchStatistics&, const KernelIo& io) {
  using Op = BatchStatistics;
  return moments_kernel(io, [](const SumGrid& sums, const Addresses& a, cudaStream_t stream) {
    launch(join_moments, blocks_for(sums.chunks.channels, 128), 128, 0, stream, sums.chunks,
           a.workspace<const float>(), a.out(Op::mean), a.out(Op::variance));
  });
}

KernelPtr prepare(Cuda, const BatchMoments& op, const KernelIo& io) {
  using Op = BatchMoments;
  const auto join = [samples = op.samples](const SumGrid& sums, const Addresses& a, cudaStream_t stream) {
    launch(join_valid_moments, blocks_for(sums.chunks.channels, 128), 128, 0, stream, sums.chunks,
           a.in<StepState>(Op::state), samples, a.workspace<const float>(), a.out<double>(Op::moments));
  };
  return moments_kernel(io, join, op.samples);
}

KernelPtr prepare(Cuda, const JoinedStatistics&, const KernelIo& io) {
  using Op = JoinedStatistics;
  const std::int64_t channels = io.outputs[Op::mean].shape.elements();
  return cuda_kernel(io, [channels](const Addresses& a, cudaStream_t stream) {
    launch(statistics_of, blocks_for(channels, 128), 128, 0, stream, channels, a.in<double>(Op::moments),
           a.out(Op::mean), a.out(Op::variance));
  });
}

KernelPtr prepare(Cuda, const BatchNormSums& op, const KernelIo& io) {
  using Op = BatchNormSums;
  require_same_layout(io.inputs[Op::x], io.inputs[Op::dy]);
  return with_images(io.inputs[Op::x], [&]<class Element, class Index>(const Images<Index>& images) {
    const SumGrid sums(images);
    const auto kernel =
        sums.side_by_side ? sums_of_chunk<true, Index, Element> : sums_of_chunk<false, Index, Element>;
    return cuda_kernel(
        io,
        [=, function = number_of(op.then), eps = static_cast<float>(op.eps)](const Addresses& a,
                                                                             cudaStream_t stream) {
          launch(kernel, sums.grid(), block, 0, stream, images, static_cast<Index>(sums.chunks.size),
                 function, eps, gradient_inputs_of<Op, Element>(a), a.workspace<float>());
          launch(add_chunks, blocks_for(2 * sums.chunks.channels, 128), 128, 0, stream, sums.chunks,
                 a.workspace<const float>(), a.out(Op::sums), a.out<double>(Op::total));
        },
        sums.workspace());
  });
}

}  // namespace lockstep::kernels
