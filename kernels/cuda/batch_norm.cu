#include "kernels/batch_norm.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/batch_norm.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/grid.h"

// The passes that write each element.
namespace lockstep::kernels {
namespace {

/// `residual` may be null.
template <Following known, class Rows, class Element>
__global__ void __launch_bounds__(walking_block, least_blocks(known, 1))
    normalise_rows(Rows rows, RowWalk walk, Following function, float eps, const Element* x, Affines affines,
                   const Element* residual, Element* y) {
  using Packed = Pack<Element, Rows::width>;
  const std::int64_t column = walk.column();
  if (column >= walk.columns) return;
  const auto of = affines.template from<Rows::channels>(rows.channel(column), eps);
  const std::int64_t end = walk.end(walk.rows);
  const Packed* const from = aligned_cast<const Packed>(x) + column;
  Packed* const to = aligned_cast<Packed>(y) + column;
  const auto normalised = [&](int k, Element value) { return of.at[k % Rows::channels](widen(value)); };
  if (residual == nullptr) {
    walk.run<loads_together(known, 1)>(
        end, [&](std::int64_t row) { return from[row * walk.columns]; },
        [&](std::int64_t row, Packed values) {
          LOCKSTEP_UNROLL
          for (int k = 0; k < Rows::width; ++k) {
            const float z = normalised(k, values.at[k]);
            values.at[k] = narrow<Element>(value_of(chosen<known>(function), z));
          }
          to[row * walk.columns] = values;
        });
    return;
  }
  struct Both {
    Packed x, residual;
  };
  const Packed* const others = aligned_cast<const Packed>(residual) + column;
  walk.run<loads_together(known, 2)>(
      end,
      [&](std::int64_t row) {
        return Both{from[row * walk.columns], others[row * walk.columns]};
      },
      [&](std::int64_t row, Both values) {
        LOCKSTEP_UNROLL
        for (int k = 0; k < Rows::width; ++k) {
          const float z = normalised(k, values.x.at[k]) + widen(values.residual.at[k]);
          values.x.at[k] = narrow<Element>(value_of(chosen<known>(function), z));
        }
        to[row * walk.columns] = values.x;
      });
}

/// For tensors without such rows.
template <class Index, class Element>
__global__ void normalise(Images<Index> images, Following function, float eps, const Element* x,
                          Affines affines, const Element* residual, Element* y) {
  const std::int64_t elements = static_cast<std::int64_t>(images.count) * images.channels;
  for (std::int64_t i = first_item(); i < elements; i += item_stride()) {
    float z = affines.at(images.channel_at(static_cast<Index>(i)), eps)(widen(x[i]));
    if (residual != nullptr) z += widen(residual[i]);
    y[i] = narrow<Element>(value_of(function, z));
  }
}

/// This rank's sums, or, with their moments and the step's state, also those of all ranks.
struct BatchSums {
  const float* sums;
  const double *total, *moments;  ///< or null, and the state with them
  const StepState* state;

  __device__ float share(std::int64_t channels, std::int64_t count) const {
    return 1 / (moments == nullptr ? static_cast<float>(count) : static_cast<float>(moments[2 * channels]));
  }
  /// `count` of them from that one on, a multiple of `count`.
  template <int count>
  __device__ Floats<count> from(std::int64_t first) const {
    if (total == nullptr) return load<count>(sums + first);
    Floats<count> of;
    LOCKSTEP_UNROLL
    for (int k = 0; k < count; ++k) of.at[k] = static_cast<float>(total[first + k]);
    return of;
  }
};

template <class Element>
struct BatchNormGradients {
  Element* dx;
  float *dweight, *dbias;

  template <int count>
  __device__ void set_channels(std::int64_t first, std::int64_t channels, const float* sums) const {
    store(dbias + first, load<count>(sums + first));
    store(dweight + first, load<count>(sums + channels + first));
  }
};

/// dx of one element, by the numbers of its channel.
struct InputGradient {
  Affine affine;
  float shift, slope;

  InputGradient() = default;
  __device__ InputGradient(const Affine& of, float of_bias, float of_weight, float share)
      : affine(of), shift(of_bias * share), slope(of_weight * share * of.rstd) {}
  __device__ float operator()(Following function, float x, float dy) const {
    const float g = gradient_of(function, affine(x), dy);
    return affine.scale * (g - shift - (x - affine.mean) * slope);
  }
};

template <Following known, class Rows, class Element>
__global__ void __launch_bounds__(walking_block, least_blocks(known, 2))
    gradient_of_rows(Rows rows, RowWalk walk, std::int64_t channels, std::int64_t count, std::int64_t samples,
                     Following function, float eps, BatchNormGradientInputs<Element> from, BatchSums batch,
                     BatchNormGradients<Element> gradients) {
  using Packed = Pack<Element, Rows::width>;
  struct Both {
    Packed x, dy;
  };
  const std::int64_t column = walk.column();
  if (column >= walk.columns) return;
  const std::int64_t channel = rows.channel(column);
  const float share = batch.share(channels, count);
  const auto affines = from.affines.template from<Rows::channels>(channel, eps);
  const auto of_bias = batch.from<Rows::channels>(channel);
  const auto of_weight = batch.from<Rows::channels>(channels + channel);
  InputGradient of[Rows::channels];
  LOCKSTEP_UNROLL
  for (int k = 0; k < Rows::channels; ++k) of[k] = {affines.at[k], of_bias.at[k], of_weight.at[k], share};
  const std::int64_t padding = valid_elements(walk.rows, batch.state, samples);
  const Packed* const x = aligned_cast<const Packed>(from.x) + column;
  const Packed* const dy = aligned_cast<const Packed>(from.dy) + column;
  Packed* const dx = aligned_cast<Packed>(gradients.dx) + column;
  walk.run<loads_together(known, 2)>(
      walk.end(walk.rows),
      [&](std::int64_t row) {
        return Both{x[row * walk.columns], dy[row * walk.columns]};
      },
      [&](std::int64_t row, Both values) {
        LOCKSTEP_UNROLL
        for (int k = 0; k < Rows::width; ++k) {
          const float of_x =
              of[k % Rows::channels](chosen<known>(function), widen(values.x.at[k]), widen(values.dy.at[k]));
          values.dy.at[k] = narrow<Element>(row < padding ? of_x : 0);
        }
        dx[row * walk.columns] = values.dy;
      });
  if (blockIdx.y == 0 && threadIdx.y == 0)
    gradients.template set_channels<Rows::channels>(channel, channels, batch.sums);
}

/// For tensors without such rows.
template <class Index, class Element>
__global__ void gradient_of_input(Images<Index> images, std::int64_t samples, Following function, float eps,
                                  BatchNormGradientInputs<Element> from, BatchSums batch,
                                  BatchNormGradients<Element> gradients) {
  const std::int64_t elements = static_cast<std::int64_t>(images.count) * images.channels;
  const std::int64_t padding = valid_elements(elements, batch.state, samples);
  const float share = batch.share(images.channels, images.count);
  for (std::int64_t c = first_item(); c < images.channels; c += item_stride())
    gradients.template set_channels<1>(c, images.channels, batch.sums);
  for (std::int64_t i = first_item(); i < elements; i += item_stride()) {
    const Index c = images.channel_at(static_cast<Index>(i));
    const InputGradient of(from.affines.at(c, eps), batch.from<1>(c).at[0],
                           batch.from<1>(images.channels + c).at[0], share);
    const float of_x = of(function, widen(from.x[i]), widen(from.dy[i]));
    gradients.dx[i] = narrow<Element>(i < padding ? of_x : 0);
  }
}

/// Some waves of blocks on the current device: nothing is summed across rows here.
template <class Rows>
WalkGrid spread_over(const Rows& rows) {
  constexpr std::int64_t blocks_per_multiprocessor = 16;
  const std::int64_t most_columns = Rows::channels == 1 ? walking_block : warp;  // 512 bytes side by side
  return {rows.rows, rows.columns, most_columns,
          multiprocessors_of_current_device() * blocks_per_multiprocessor};
}

BatchSums sums_of(const Addresses& a) {
  using Op = BatchNormBackward;
  return {.sums = a.in(Op::sums),
          .total = a.in<double>(Op::total),
          .moments = a.in<double>(Op::moments),
          .state = a.in<StepState>(Op::state)};
}

template <class Element>
BatchNormGradients<Element> gradients_of(const Addresses& a) {
  using Op = BatchNormBackward;
  return {.dx = a.out<Element>(Op::dx), .dweight = a.out(Op::dweight), .dbias = a.out(Op::dbias)};
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
  const Following function = number_of(op.then);
  const auto eps = static_cast<float>(op.eps);
  KernelPtr fast = with_packed_rows(io.inputs[Op::x], [&]<class Rows>(const Rows& rows) {
    using Element = typename Rows::Element;
    return with_following(op.then, [&]<Following known>() {
      return cuda_kernel(io, [=, grid = spread_over(rows)](const Addresses& a, cudaStream_t stream) {
        launch(normalise_rows<known, Rows, Element>, grid.blocks, grid.threads, 0, stream, rows, grid.walk,
               function, eps, a.in<Element>(Op::x), affines_of<Op>(a), a.in<Element>(Op::residual),
               a.out<Element>(Op::y));
      });
    });
  });
  if (fast != nullptr) return fast;
  return with_images(io.inputs[Op::x], [&]<class Element, class Index>(const Images<Index>& images) {
    const Spread s = spread(io.inputs[Op::x].shape.elements());
    return cuda_kernel(io, [=](const Addresses& a, cudaStream_t stream) {
      launch(normalise<Index, Element>, s.blocks, s.threads, 0, stream, images, function, eps,
             a.in<Element>(Op::x), affines_of<Op>(a), a.in<Element>(Op::residual), a.out<Element>(Op::y));
    });
  });
}

KernelPtr prepare(Cuda, const BatchNormBackward& op, const KernelIo& io) {
  using Op = BatchNormBackward;
  require_same_layout(io.inputs[Op::x], io.inputs[Op::dy]);
  require_same_layout(io.inputs[Op::x], io.outputs[Op::dx]);
  const Following function = number_of(op.then);
  const auto eps = static_cast<float>(op.eps);
  const std::int64_t samples = op.samples;
  KernelPtr fast = with_packed_rows(io.inputs[Op::x], [&]<class Rows>(const Rows& rows) {
    using Element = typename Rows::Element;
    const ChannelView view = channel_view(io.inputs[Op::x]);
    return with_following(op.then, [&]<Following known>() {
      return cuda_kernel(io, [=, channels = view.channels, count = view.elements_of_channel(),
                              grid = spread_over(rows)](const Addresses& a, cudaStream_t stream) {
        launch(gradient_of_rows<known, Rows, Element>, grid.blocks, grid.threads, 0, stream, rows, grid.walk,
               channels, count, samples, function, eps, gradient_inputs_of<Op, Element>(a), sums_of(a),
               gradients_of<Element>(a));
      });
    });
  });
  if (fast != nullptr) return fast;
  return with_images(io.inputs[Op::x], [&]<class Element, class Index>(const Images<Index>& images) {
    const Spread s = spread(io.inputs[Op::x].shape.elements());
    return cuda_kernel(io, [=](const Addresses& a, cudaStream_t stream) {
      launch(gradient_of_input<Index, Element>, s.blocks, s.threads, 0, stream, images, samples, function,
             eps, gradient_inputs_of<Op, Element>(a), sums_of(a), gradients_of<Element>(a));
    });
  });
}

}  // namespace lockstep::kernels
