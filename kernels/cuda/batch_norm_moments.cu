#include "kernels/batch_norm.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/batch_norm.h"
#include "kernels/cuda/batch_norm_chunks.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/grid.h"

// The passes that sum x: mean and variance of the batch, or this rank's part of them.
namespace lockstep::kernels {
namespace {

/// Of the valid elements of a channel's chunk: their mean, and the sum of squares about it. Summed about an
/// element of the chunk, so that a mean far from zero costs no digits of the variance.
struct ChunkMoments {
  float mean, squares;

  __device__ ChunkMoments(float shift, float total, float of_squares, std::int64_t count) {
    const float shifted = total / static_cast<float>(count);
    const float about_mean = of_squares - shifted * total;
    mean = shift + shifted;
    squares = about_mean < 0 ? 0 : about_mean;
  }
  __device__ void store_at(std::int64_t channel, std::int64_t channels, float* partials) const {
    float* const to = partials + 2 * static_cast<std::int64_t>(blockIdx.y) * channels + channel;
    to[0] = mean;
    to[channels] = squares;
  }
};

template <class Rows, class Element>
__global__ void __launch_bounds__(walking_block, walking_blocks(1))
    moments_of_rows(RowWalk walk, const StepState* state, std::int64_t samples, const Element* x,
                    float* partials) {
  constexpr int width = Rows::width;
  using Packed = Pack<Element, width>;
  const std::int64_t end = walk.end(valid_elements(walk.rows, state, samples));
  auto total = Floats<width>::all(0);
  auto squares = Floats<width>::all(0);
  if (walk.column() < walk.columns) {
    const Packed* const from = aligned_cast<const Packed>(x) + walk.column();
    const auto shift = load<width>(x + (walk.begin() * walk.columns + walk.column()) * width);
    walk.run<4>(
        end, [&](std::int64_t row) { return from[row * walk.columns]; },
        [&](std::int64_t, const Packed& values) {
          LOCKSTEP_UNROLL
          for (int k = 0; k < width; ++k) {
            const float distance = widen(values.at[k]) - shift.at[k];
            total.at[k] += distance;
            squares.at[k] += distance * distance;
          }
        });
  }
  const float of_total = sum_over_rows(total);
  const float of_squares = sum_over_rows(squares);
  const std::int64_t channel = summed_channel<width>(walk);
  if (channel < 0) return;
  const std::int64_t channels = walk.columns * width;
  const float shift = widen(x[walk.begin() * channels + channel]);
  ChunkMoments(shift, of_total, of_squares, end - walk.begin()).store_at(channel, channels, partials);
}

template <bool side_by_side, int width, class Index, class Element>
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
  for_rows<4>(
      begin + share.first * width, is_there ? end : 0, share.step * width,
      [&](std::int64_t i) {
        return *aligned_cast<const Pack<Element, width>>(x + images.at(share.channel, static_cast<Index>(i)));
      },
      [&](std::int64_t, const Pack<Element, width>& values) {
        LOCKSTEP_UNROLL
        for (int k = 0; k < width; ++k) {
          const float distance = widen(values.at[k]) - shift;
          total += distance;
          squares += distance * distance;
        }
      });
  total = sum_of_share<side_by_side>(total);
  squares = sum_of_share<side_by_side>(squares);
  if (!is_there || share.first != 0) return;
  ChunkMoments(shift, total, squares, end - begin).store_at(share.channel, images.channels, partials);
}

struct ChannelMoments {
  double count, mean, squares;
};

/// Of the first `elements` of the calling thread's channel; chunks behind them do not count. Summed about the
/// first chunk's mean.
__device__ ChannelMoments joined(const Chunks& chunks, std::int64_t elements, const float* partials) {
  const std::int64_t channel = joined_channel();
  const bool is_there = channel < chunks.channels && elements > 0;
  const float* const of_channel = partials + channel;
  const double shift = is_there ? static_cast<double>(of_channel[0]) : 0;
  double total = 0;
  double squares = 0;
  struct Loaded {
    float mean, squares;
  };
  for_chunks(
      is_there ? parts_of(elements, chunks.size) : 0,
      [&](std::int64_t i) {
        return Loaded{of_channel[2 * i * chunks.channels], of_channel[(2 * i + 1) * chunks.channels]};
      },
      [&](std::int64_t i, const Loaded& chunk) {
        const double distance = static_cast<double>(chunk.mean) - shift;
        const double weighted = chunks.elements(i, elements) * distance;
        total += weighted;
        squares += static_cast<double>(chunk.squares) + weighted * distance;
      });
  total = sum_of_joined(total);
  squares = sum_of_joined(squares);
  const auto count = static_cast<double>(elements);
  const double shifted = elements > 0 ? total / count : 0;
  const double about_mean = squares - shifted * total;
  return {count, shift + shifted, about_mean < 0 ? 0 : about_mean};
}

__global__ void join_moments(Chunks chunks, const float* partials, float* mean, float* variance) {
  const ChannelMoments of = joined(chunks, chunks.of_channel, partials);
  const std::int64_t channel = joined_channel();
  if (channel >= chunks.channels || threadIdx.y != 0) return;
  mean[channel] = static_cast<float>(of.mean);
  variance[channel] = static_cast<float>(of.squares / of.count);
}

__global__ void join_valid_moments(Chunks chunks, const StepState* state, std::int64_t samples,
                                   const float* partials, double* moments) {
  const ChannelMoments of = joined(chunks, valid_elements(chunks.of_channel, state, samples), partials);
  const std::int64_t channel = joined_channel();
  if (channel >= chunks.channels || threadIdx.y != 0) return;
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

/// Moments of each chunk of x, the first operand, into the workspace, then `join(chunks, addresses, stream)`.
template <class Join>
KernelPtr moments_kernel(const KernelIo& io, Join join, std::int64_t samples = 1) {
  using Op = BatchMoments;
  static_assert(std::size_t{BatchStatistics::x} == std::size_t{Op::x});
  KernelPtr fast = with_rows_of_pixels(io.inputs[Op::x], [&]<class Rows>(const Rows& rows) {
    using Element = typename Rows::Element;
    const RowSums sums(rows);
    const auto sum = [=, grid = sums.grid](const Addresses& a, cudaStream_t stream) {
      launch(moments_of_rows<Rows, Element>, grid.blocks, grid.threads, 0, stream, grid.walk,
             a.in<StepState>(Op::state), samples, a.in<Element>(Op::x), a.workspace<float>());
    };
    return chunks_kernel(io, sums.chunks, sum, join);
  });
  if (fast != nullptr) return fast;
  return with_images(io.inputs[Op::x], [&]<class Element, class Index>(const Images<Index>& images) {
    const ShareSums sums(pack_lanes<Element>, images);
    const auto kernel = sums.side_by_side ? moments_of_chunk<true, 1, Index, Element>
                        : sums.width == 1 ? moments_of_chunk<false, 1, Index, Element>
                                          : moments_of_chunk<false, pack_lanes<Element>, Index, Element>;
    const auto sum = [=](const Addresses& a, cudaStream_t stream) {
      launch(kernel, sums.blocks, summing_block, 0, stream, images, static_cast<Index>(sums.chunks.size),
             a.in<StepState>(Op::state), samples, a.in<Element>(Op::x), a.workspace<float>());
    };
    return chunks_kernel(io, sums.chunks, sum, join);
  });
}

}  // namespace

void choose_layouts(Cuda, const BatchStatistics&, KernelIo& io) {
  choose_norm_layouts(BatchStatistics::x, io);
}
void choose_layouts(Cuda, const BatchMoments&, KernelIo& io) {
  choose_norm_layouts(BatchMoments::x, io);
}
KernelPtr prepare(Cuda, const BatchStatistics&, const KernelIo& io) {
  using Op = BatchStatistics;
  return moments_kernel(io, [](const Chunks& chunks, const Addresses& a, cudaStream_t stream) {
    launch(join_moments, joining_blocks(chunks.channels), joining_threads(), 0, stream, chunks,
           a.workspace<const float>(), a.out(Op::mean), a.out(Op::variance));
  });
}

KernelPtr prepare(Cuda, const BatchMoments& op, const KernelIo& io) {
  using Op = BatchMoments;
  const auto join = [samples = op.samples](const Chunks& chunks, const Addresses& a, cudaStream_t stream) {
    launch(join_valid_moments, joining_blocks(chunks.channels), joining_threads(), 0, stream, chunks,
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

}  // namespace lockstep::kernels
