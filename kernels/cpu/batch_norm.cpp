#include "kernels/batch_norm.h"

#include <algorithm>

#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/norm_strips.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/step_state.h"

namespace lockstep::kernels {
namespace {

/// The moments of x, of which a strip's are its partials.
class Moments {
 public:
  explicit Moments(const TensorDesc& x)
      : strips_(x), partials_(strips_), kernel_(simd::best<BatchStatistics>()) {}

  const ChannelView& view() const { return strips_.view(); }
  std::size_t workspace_bytes() const { return partials_.bytes(); }

  /// `put(channel, mean, squares)`: of the first `elements` of the channel the mean, and the sum of squares
  /// about it.
  template <class Put>
  void compute(const char* x, std::int64_t elements, float* workspace, const Put& put) const {
    strips_.for_each([&](const PlacedStrip& at, std::int64_t i) {
      const NormStrip part = at.among_first(elements);
      if (part.elements_of_channel() == 0) return;
      kernel_({}, part, x + at.offset, partials_.first(workspace, i), partials_.second(workspace, i));
    });
    const auto count = static_cast<double>(elements);
    partials_.for_channels(workspace, elements, [&](std::int64_t channel, const auto& visit) {
      double mean = 0;
      visit([&](double of_strip, double, double pixels) { mean += of_strip * pixels / count; });
      double squares = 0;
      visit([&](double of_strip, double about_it, double pixels) {
        squares += about_it + pixels * (of_strip - mean) * (of_strip - mean);
      });
      put(channel, mean, squares);
    });
  }

 private:
  Strips strips_;
  Partials partials_;
  BatchStatistics::Simd* kernel_;
};

/// Of a channel those that are no padding.
std::int64_t valid_elements(const ChannelView& view, std::int64_t samples, const StepState& state) {
  return view.elements_of_channel() * state.valid_samples / samples;
}

/// What the gradient of x takes, of this rank or of all.
struct GradientSums {
  const float* gradients;  ///< behind them the products
  double count;            ///< of elements a channel
  std::int64_t elements;   ///< of a channel that are no padding here
};

GradientSums gradient_sums(const BatchNormBackward& op, const ChannelView& view, const Addresses& a) {
  using Op = BatchNormBackward;
  const std::int64_t elements = view.elements_of_channel();
  const auto* const total = a.in<double>(Op::total);
  if (total == nullptr) return {a.in(Op::sums), static_cast<double>(elements), elements};
  auto* const narrowed = a.workspace<float>();
  std::transform(total, total + 2 * view.channels, narrowed,
                 [](double sum) { return static_cast<float>(sum); });
  return {narrowed, a.in<double>(Op::moments)[2 * view.channels],
          valid_elements(view, op.samples, *a.in<StepState>(Op::state))};
}

/// The gradient of what is padding: all of `strip` behind its first `part`.
void clear_behind(const NormStrip& part, const NormStrip& strip, char* dx) {
  const auto element = static_cast<std::int64_t>(size_of(strip.dtype));
  const std::int64_t pixel = strip.lanes * element;
  for (std::int64_t image = 0; image < strip.images; ++image) {
    char* const at = dx + image * strip.image_stride * element;
    const std::int64_t kept = image < part.images ? part.pixels : 0;
    std::fill(at + kept * pixel, at + strip.pixels * pixel, '\0');
  }
}

}  // namespace

void choose_layouts(Cpu, const BatchStatistics&, KernelIo& io) {
  choose_norm_layouts(BatchStatistics::x, io);
}
void choose_layouts(Cpu, const BatchMoments&, KernelIo& io) {
  choose_norm_layouts(BatchMoments::x, io);
}
void choose_layouts(Cpu, const BatchNorm&, KernelIo& io) {
  choose_norm_layouts(BatchNorm::x, io);
}
void choose_layouts(Cpu, const BatchNormSums&, KernelIo& io) {
  choose_norm_layouts(BatchNormSums::x, io);
}
void choose_layouts(Cpu, const BatchNormBackward&, KernelIo& io) {
  choose_norm_layouts(BatchNormBackward::x, io);
}

KernelPtr prepare(Cpu, const BatchStatistics&, const KernelIo& io) {
  using Op = BatchStatistics;
  const Moments moments(io.inputs[Op::x]);
  const std::int64_t elements = moments.view().elements_of_channel();
  return cpu_kernel(
      io,
      [=](const Addresses& a) {
        moments.compute(a.in<char>(Op::x), elements, a.workspace<float>(),
                        [&](std::int64_t channel, double mean, double squares) {
                          a.out(Op::mean)[channel] = static_cast<float>(mean);
                          a.out(Op::variance)[channel] =
                              static_cast<float>(squares / static_cast<double>(elements));
                        });
      },
      moments.workspace_bytes());
}

KernelPtr prepare(Cpu, const BatchMoments& op, const KernelIo& io) {
  using Op = BatchMoments;
  const Moments moments(io.inputs[Op::x]);
  return cpu_kernel(
      io,
      [=](const Addresses& a) {
        const ChannelView& view = moments.view();
        const std::int64_t elements = valid_elements(view, op.samples, *a.in<StepState>(Op::state));
        const auto count = static_cast<double>(elements);
        auto* const out = a.out<double>(Op::moments);
        moments.compute(a.in<char>(Op::x), elements, a.workspace<float>(),
                        [&](std::int64_t channel, double mean, double squares) {
                          out[channel] = count * mean;
                          out[view.channels + channel] = squares + count * mean * mean;
                        });
        out[2 * view.channels] = count;
      },
      moments.workspace_bytes());
}

KernelPtr prepare(Cpu, const JoinedStatistics&, const KernelIo& io) {
  using Op = JoinedStatistics;
  const std::int64_t channels = io.outputs[Op::mean].shape.elements();
  return cpu_kernel(io, [channels](const Addresses& a) {
    const auto* const moments = a.in<double>(Op::moments);
    const double count = moments[2 * channels];
    for (std::int64_t i = 0; i < channels; ++i) {
      const double mean = moments[i] / count;
      a.out(Op::mean)[i] = static_cast<float>(mean);
      a.out(Op::variance)[i] = static_cast<float>(std::max(moments[channels + i] / count - mean * mean, 0.0));
    }
  });
}

KernelPtr prepare(Cpu, const BatchNorm& op, const KernelIo& io) {
  using Op = BatchNorm;
  const Strips strips(io.inputs[Op::x]);
  require_same_layout(io.inputs[Op::x], io.outputs[Op::y]);
  return cpu_kernel(io, [=, kernel = simd::best<Op>()](const Addresses& a) {
    const char* const residual = a.in<char>(Op::residual);
    strips.for_each_backwards([&](const PlacedStrip& at) {
      kernel(op, at.strip, a.in<char>(Op::x) + at.offset, a.in(Op::mean) + at.channel,
             a.in(Op::variance) + at.channel, a.in(Op::weight) + at.channel, a.in(Op::bias) + at.channel,
             residual == nullptr ? nullptr : residual + at.offset, a.out<char>(Op::y) + at.offset);
    });
  });
}

KernelPtr prepare(Cpu, const BatchNormSums& op, const KernelIo& io) {
  using Op = BatchNormSums;
  const Strips strips(io.inputs[Op::x]);
  require_same_layout(io.inputs[Op::x], io.inputs[Op::dy]);
  const Partials partials(strips);
  return cpu_kernel(
      io,
      [=, kernel = simd::best<Op>()](const Addresses& a) {
        auto* const sums = a.workspace<float>();
        strips.for_each([&](const PlacedStrip& at, std::int64_t i) {
          kernel(op, at.strip, a.in<char>(Op::dy) + at.offset, a.in<char>(Op::x) + at.offset,
                 a.in(Op::mean) + at.channel, a.in(Op::variance) + at.channel, a.in(Op::weight) + at.channel,
                 a.in(Op::bias) + at.channel, partials.first(sums, i), partials.second(sums, i));
        });
        float* const of_gradients = a.out(Op::sums);
        const std::int64_t channels = strips.view().channels;
        auto* const total = a.out<double>(Op::total);
        const std::int64_t elements = strips.view().elements_of_channel();
        partials.for_channels(sums, elements, [&](std::int64_t channel, const auto& visit) {
          double gradients = 0;
          double products = 0;
          visit([&](double of_g, double of_g_n, double) {
            gradients += of_g;
            products += of_g_n;
          });
          of_gradients[channel] = static_cast<float>(gradients);
          of_gradients[channels + channel] = static_cast<float>(products);
          if (total == nullptr) return;
          total[channel] = gradients;
          total[channels + channel] = products;
        });
      },
      partials.bytes());
}

KernelPtr prepare(Cpu, const BatchNormBackward& op, const KernelIo& io) {
  using Op = BatchNormBackward;
  const Strips strips(io.inputs[Op::x]);
  require_same_layout(io.inputs[Op::x], io.inputs[Op::dy]);
  require_same_layout(io.inputs[Op::x], io.outputs[Op::dx]);
  const std::int64_t channels = strips.view().channels;
  const bool of_all_ranks = io.inputs.size() > Op::total;
  return cpu_kernel(
      io,
      [=, kernel = simd::best<Op>()](const Addresses& a) {
        const GradientSums sums = gradient_sums(op, strips.view(), a);
        strips.for_each_backwards([&](const PlacedStrip& at) {
          const NormStrip part = at.among_first(sums.elements);
          char* const dx = a.out<char>(Op::dx) + at.offset;
          if (part.elements_of_channel() > 0) {
            kernel(op, part, sums.count, a.in<char>(Op::dy) + at.offset, a.in<char>(Op::x) + at.offset,
                   a.in(Op::mean) + at.channel, a.in(Op::variance) + at.channel,
                   a.in(Op::weight) + at.channel, a.in(Op::bias) + at.channel, sums.gradients + at.channel,
                   sums.gradients + channels + at.channel, dx);
          }
          clear_behind(part, at.strip, dx);
        });
        std::copy_n(a.in(Op::sums), channels, a.out(Op::dbias));
        std::copy_n(a.in(Op::sums) + channels, channels, a.out(Op::dweight));
      },
      of_all_ranks ? static_cast<std::size_t>(2 * channels) * sizeof(float) : 0);
}

KernelPtr prepare(Cpu, const RunningStatistics& op, const KernelIo& io) {
  using Op = RunningStatistics;
  const std::int64_t channels = io.inputs[Op::mean].shape.elements();
  return cpu_kernel(io, [op, channels](const Addresses& a) {
    if (a.in<StepState>(Op::state)->skip_update != 0) return;
    const auto* const moments = a.in<double>(Op::moments);
    const double count = moments == nullptr ? static_cast<double>(op.count) : moments[2 * channels];
    const auto move = [&](float* running, const float* batch, double factor) {
      for (std::int64_t i = 0; i < channels; ++i) {
        running[i] = static_cast<float>(op.momentum * factor * static_cast<double>(batch[i]) +
                                        (1 - op.momentum) * static_cast<double>(running[i]));
      }
    };
    move(a.out(Op::running_mean), a.in(Op::mean), 1);
    move(a.out(Op::running_variance), a.in(Op::variance), count / std::max(count - 1, 1.0));
    ++*a.out<std::int64_t>(Op::batches);
  });
}

}  // namespace lockstep::kernels
