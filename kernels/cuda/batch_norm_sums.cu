#include "kernels/batch_norm.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/batch_norm.h"
#include "kernels/cuda/batch_norm_chunks.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/grid.h"

// What the batch's gradients give weight and bias.
namespace lockstep::kernels {
namespace {

template <Following known, class Rows, class Element>
__global__ void __launch_bounds__(walking_block, least_blocks(known, 2))
    sums_of_rows(RowWalk walk, Following function, float eps, BatchNormGradientInputs<Element> from,
                 float* partials) {
  constexpr int width = Rows::width;
  using Packed = Pack<Element, width>;
  struct Both {
    Packed x, dy;
  };
  auto gradients = Floats<width>::all(0);
  auto products = Floats<width>::all(0);
  if (walk.column() < walk.columns) {
    const auto of = from.affines.template from<width>(walk.column() * width, eps);
    const Packed* const x = aligned_cast<const Packed>(from.x) + walk.column();
    const Packed* const dy = aligned_cast<const Packed>(from.dy) + walk.column();
    walk.run<loads_together(known, 2)>(
        walk.end(walk.rows),
        [&](std::int64_t row) {
          return Both{x[row * walk.columns], dy[row * walk.columns]};
        },
        [&](std::int64_t, const Both& values) {
          LOCKSTEP_UNROLL
          for (int k = 0; k < width; ++k) {
            const float in = widen(values.x.at[k]);
            const float g = gradient_of(chosen<known>(function), of.at[k](in), widen(values.dy.at[k]));
            gradients.at[k] += g;
            products.at[k] += g * (in - of.at[k].mean);
          }
        });
  }
  const float of_bias = sum_over_rows(gradients);
  const float of_weight = sum_over_rows(products);
  const std::int64_t channel = summed_channel<width>(walk);
  if (channel < 0) return;
  const std::int64_t channels = walk.columns * width;
  float* const to = partials + 2 * static_cast<std::int64_t>(blockIdx.y) * channels + channel;
  to[0] = of_bias;
  to[channels] = of_weight * from.affines.at(channel, eps).rstd;
}

template <bool side_by_side, int width, class Index, class Element>
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
  for (Index i = begin + share.first * width; is_there && i < end; i += share.step * width) {
    const Index at = images.at(share.channel, i);
    const auto x = load<width>(from.x + at);
    const auto dy = load<width>(from.dy + at);
    for (int k = 0; k < width; ++k) {
      const float g = gradient_of(function, affine(x.at[k]), dy.at[k]);
      gradients += g;
      products += g * (x.at[k] - affine.mean);
    }
  }
  gradients = sum_of_share<side_by_side>(gradients);
  products = sum_of_share<side_by_side>(products);
  if (!is_there || share.first != 0) return;
  float* const to = partials + 2 * static_cast<std::int64_t>(blockIdx.y) * images.channels + share.channel;
  to[0] = gradients;
  to[images.channels] = products * affine.rstd;
}

/// sums[k]: the chunks' numbers k; the same in `total`, which may be null.
__global__ void add_chunks(Chunks chunks, const float* partials, float* sums, double* total) {
  const std::int64_t k = joined_channel();
  const bool is_there = k < 2 * chunks.channels;
  double sum = 0;
  for_chunks(
      is_there ? chunks.count : 0, [&](std::int64_t i) { return partials[2 * i * chunks.channels + k]; },
      [&](std::int64_t, float of_chunk) { sum += static_cast<double>(of_chunk); });
  sum = sum_of_joined(sum);
  if (!is_there || threadIdx.y != 0) return;
  sums[k] = static_cast<float>(sum);
  if (total != nullptr) total[k] = sum;
}

void launch_add_chunks(const Chunks& chunks, const Addresses& a, cudaStream_t stream) {
  using Op = BatchNormSums;
  launch(add_chunks, joining_blocks(2 * chunks.channels), joining_threads(), 0, stream, chunks,
         a.workspace<const float>(), a.out(Op::sums), a.out<double>(Op::total));
}

}  // namespace

void choose_layouts(Cuda, const BatchNormSums&, KernelIo& io) {
  choose_norm_layouts(BatchNormSums::x, io);
}

KernelPtr prepare(Cuda, const BatchNormSums& op, const KernelIo& io) {
  using Op = BatchNormSums;
  require_same_layout(io.inputs[Op::x], io.inputs[Op::dy]);
  const Following function = number_of(op.then);
  const auto eps = static_cast<float>(op.eps);
  KernelPtr fast = with_rows_of_pixels(io.inputs[Op::x], [&]<class Rows>(const Rows& rows) {
    using Element = typename Rows::Element;
    return with_following(op.then, [&]<Following known>() {
      const RowSums sums(rows);
      const auto sum = [=, grid = sums.grid](const Addresses& a, cudaStream_t stream) {
        launch(sums_of_rows<known, Rows, Element>, grid.blocks, grid.threads, 0, stream, grid.walk, function,
               eps, gradient_inputs_of<Op, Element>(a), a.workspace<float>());
      };
      return chunks_kernel(io, sums.chunks, sum, launch_add_chunks);
    });
  });
  if (fast != nullptr) return fast;
  return with_images(io.inputs[Op::x], [&]<class Element, class Index>(const Images<Index>& images) {
    const ShareSums sums(pack_lanes<Element>, images);
    const auto kernel = sums.side_by_side ? sums_of_chunk<true, 1, Index, Element>
                        : sums.width == 1 ? sums_of_chunk<false, 1, Index, Element>
                                          : sums_of_chunk<false, pack_lanes<Element>, Index, Element>;
    const auto sum = [=](const Addresses& a, cudaStream_t stream) {
      launch(kernel, sums.blocks, summing_block, 0, stream, images, static_cast<Index>(sums.chunks.size),
             function, eps, gradient_inputs_of<Op, Element>(a), a.workspace<float>());
    };
    return chunks_kernel(io, sums.chunks, sum, launch_add_chunks);
  });
}

}  // namespace lockstep::kernels
