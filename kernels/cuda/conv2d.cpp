#include "kernels/conv2d.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "kernels/base/alignment.h"
#include "kernels/base/error.h"
#include "kernels/cuda/bias.h"
#include "kernels/cuda/built_convolutions.h"
#include "kernels/cuda/cast.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/dnn.h"
#include "kernels/cuda/fused_relu.h"
#include "kernels/cuda/handles.h"
#include "kernels/layout.h"
#include "kernels/matmul.h"

namespace lockstep::kernels {
namespace {

using Pass = ConvolutionSpec::Pass;

/// With the channels that its layout has room for: the library multiplies those of padding, zeros, as well.
TensorDesc with_padding(TensorDesc desc) {
  if (desc.shape.rank() == 4 && desc.layout && desc.layout->blocks.empty())
    desc.shape[1] = desc.layout->padded[1];
  return desc;
}

KernelIo with_padding(KernelIo io) {
  for (auto* const side : {&io.inputs, &io.outputs}) {
    for (TensorDesc& desc : *side) desc = with_padding(desc);
  }
  return io;
}

bool is_row_major(const TensorDesc& desc) {
  return has_layout(Layout::row_major(desc.shape), desc);
}
bool is_channels_last(const TensorDesc& desc) {
  return has_layout(channels_last(desc.shape), desc);
}

/// Weights that have a layout keep it, and the images take the matching one, with as many channels.
void match_layouts(Cuda cuda, MatmulPrecision precision, TensorDesc& w, TensorDesc& x, TensorDesc& y) {
  if (!w.layout) {
    const bool last = prefers_channels_last(x.dtype, gpu_precision(precision), cuda.capability);
    w.layout = last ? channels_last(w.shape) : Layout::row_major(w.shape);
  }
  const TensorDesc stored = with_padding(w);
  if (stored.shape != w.shape && is_channels_last(stored)) {
    Shape images = x.shape;
    images[1] = stored.shape[1];
    x.layout = channels_last(images);
    y.layout = channels_last(y.shape);
    return;
  }
  const bool row_major = !is_channels_last(w) && is_row_major(w);
  for (TensorDesc* desc : {&x, &y}) {
    const Layout wanted = row_major ? Layout::row_major(desc->shape) : channels_last(desc->shape);
    if (!desc->layout || !has_layout(wanted, *desc)) desc->layout = wanted;
  }
}

void make_row_major(TensorDesc& vector) {
  vector.layout = Layout::row_major(vector.shape);
}

/// What the description has not asked: layouts and the algorithm.
void check_convolution(std::string_view kernel, const MatmulOperands& t, const Algorithm& algorithm) {
  bool all_row_major = true;
  bool all_channels_last = true;
  for (const TensorDesc* desc : {&t.x, &t.w, &t.y}) {
    all_row_major &= is_row_major(*desc);
    all_channels_last &= is_channels_last(*desc);
  }
  if (!all_row_major && !all_channels_last) {
    throw UsageError(fmt::format(
        "{}: x has layout {}, w {}, y {}: all must be channels-last, or all row-major", kernel,
        t.x.layout_or_row_major().str(), t.w.layout_or_row_major().str(), t.y.layout_or_row_major().str()));
  }
  if (algorithm != Algorithm::automatic && algorithm.kind != Algorithm::library_plan) {
    throw UsageError(fmt::format("{}: on a GPU an algorithm is one of the library's plans", kernel));
  }
}

/// The library tells row-major from channels-last by strides alone, also by those of an axis of extent 1,
/// which may be any: all three tensors get those of one form.
template <class Spec>
ConvolutionSpec convolution(Pass pass, const Spec& spec, const MatmulOperands& t) {
  const bool last = is_channels_last(t.x) && is_channels_last(t.w) && is_channels_last(t.y);
  const auto in_one_form = [last](const TensorDesc& desc) -> TensorDesc {
    return {desc.dtype, desc.shape, last ? channels_last(desc.shape) : Layout::row_major(desc.shape)};
  };
  return {.pass = pass,
          .geometry = spec.geometry,
          .x = in_one_form(t.x),
          .w = in_one_form(t.w),
          .y = in_one_form(t.y),
          .precision = gpu_precision(spec.precision),
          .plan = spec.algorithm.plan};
}

/// The library's ReLU is left out where it loses a NaN, which a GPU that is only described is not asked.
ConvolutionSpec fused_convolution(Cuda cuda, const Conv2d& op, const MatmulOperands& t) {
  ConvolutionSpec fused = convolution(Pass::forward, op, t);
  fused.bias = t.b != nullptr;
  fused.relu = op.activation == Activation::relu;
  if (fused.relu && cuda.described == nullptr) fused.relu = shared_by_device<FusedRelu>()->keeps_nan(fused);
  return fused;
}

std::vector<Algorithm> as_algorithms(const std::vector<std::string>& plans) {
  std::vector<Algorithm> found = named_algorithms(plans);
  if (found.empty()) found.push_back(Algorithm::automatic);
  return found;
}

/// A GPU that is only described outlives its kernels' preparation, and is not shared.
std::shared_ptr<BuiltConvolutions> built(Cuda cuda) {
  if (cuda.described == nullptr) return shared_by_device<BuiltConvolutions>();
  return {std::shared_ptr<void>(), &cuda.described->convolutions()};
}

/// A kernel around a call of the library.
template <class Run>
class ConvolutionKernel final : public CudaKernel<Run, NoBindHook> {
 public:
  ConvolutionKernel(const KernelIo& io, Run run, std::size_t workspace, LibraryPlan plan)
      : CudaKernel<Run, NoBindHook>(io.inputs.size(), std::move(run), workspace, {}),
        plan_(std::move(plan)) {}

  std::optional<LibraryPlan> library_plan() const override { return plan_; }

 private:
  LibraryPlan plan_;
};

template <class Run>
KernelPtr convolution_kernel(const KernelIo& io, Run run, std::size_t workspace, LibraryPlan plan) {
  return std::make_unique<ConvolutionKernel<Run>>(io, std::move(run), workspace, std::move(plan));
}

/// With dw in x's type. f32 dw from half types cuDNN 9.19 offers on sm_90 alone, it seems by kernels that are
/// compiled at run time and do not split the sum over pictures and pixels: asked for it, gradients of weights
/// took 85 ms of 200 of resnet50's step on an H200.
ConvolutionSpec weights_gradient(const Conv2dBackwardWeights& op, const MatmulOperands& t) {
  ConvolutionSpec spec = convolution(Pass::backward_weights, op, t);
  spec.w.dtype = spec.x.dtype;
  return spec;
}

/// dw in x's type, cast where f32 is wanted.
class WeightsGradient {
 public:
  WeightsGradient(Cuda cuda, const Conv2dBackwardWeights& op, const MatmulOperands& t)
      : elements_(t.w.shape.elements()), wanted_(t.w.dtype) {
    const ConvolutionSpec spec = weights_gradient(op, t);
    call_ = built(cuda)->prepare(spec);
    computed_ = spec.w.dtype;
    if (computed_ != wanted_) computed_bytes_ = rounded_up(spec.w.bytes(), workspace_alignment);
  }

  std::size_t workspace_bytes() const { return computed_bytes_ + call_->workspace_bytes(); }
  LibraryPlan plan() const { return call_->plan(); }

  void launch(const Addresses& a, cudaStream_t stream) const {
    using Op = Conv2dBackwardWeights;
    auto* const scratch = a.workspace<std::byte>();
    void* const dw = a.out<void>(Op::dw);
    void* const computed = computed_ != wanted_ ? scratch : dw;
    call_->launch(std::array<void*, 3>{a.all()[Op::x], a.all()[Op::dy], computed}, scratch + computed_bytes_,
                  stream);
    if (computed_ != wanted_) launch_cast(elements_, computed_, computed, wanted_, dw, stream);
  }

 private:
  std::int64_t elements_;
  DType wanted_;
  DType computed_;
  std::shared_ptr<const DnnCall> call_;
  std::size_t computed_bytes_ = 0;  ///< of the workspace, for dw before it is cast
};

}  // namespace

void choose_layouts(Cuda cuda, const Conv2d& op, KernelIo& io) {
  using Op = Conv2d;
  match_layouts(cuda, op.precision, io.inputs[Op::w], io.inputs[Op::x], io.outputs[Op::y]);
  if (io.inputs.size() > Op::b) make_row_major(io.inputs[Op::b]);
}

void choose_layouts(Cuda cuda, const Conv2dBackwardData& op, KernelIo& io) {
  using Op = Conv2dBackwardData;
  match_layouts(cuda, op.precision, io.inputs[Op::w], io.outputs[Op::dx], io.inputs[Op::dy]);
}

void choose_layouts(Cuda cuda, const Conv2dBackwardWeights& op, KernelIo& io) {
  using Op = Conv2dBackwardWeights;
  match_layouts(cuda, op.precision, io.outputs[Op::dw], io.inputs[Op::x], io.inputs[Op::dy]);
  if (io.outputs.size() > Op::db) make_row_major(io.outputs[Op::db]);
}

KernelPtr prepare(Cuda cuda, const Conv2d& op, const KernelIo& io) {
  using Op = Conv2d;
  const KernelIo stored = with_padding(io);
  const MatmulOperands t = matmul_operands(op, stored);
  check_convolution(Op::name, t, op.algorithm);
  const ConvolutionSpec fused = fused_convolution(cuda, op, t);
  if (const auto call = built(cuda)->prepare(fused)) {
    const bool own_relu = op.activation == Activation::relu && !fused.relu;
    const BiasRelu after(t.y, own_relu);
    const auto run = [call, own_relu, after](const Addresses& a, cudaStream_t stream) {
      call->launch(a.all(), a.workspace<void>(), stream);
      if (own_relu) after.launch(nullptr, a.out<void>(Op::y), stream);
    };
    return convolution_kernel(io, run, call->workspace_bytes(), call->plan());
  }
  const auto call = built(cuda)->prepare(convolution(Pass::forward, op, t));
  LibraryPlan plan = call->plan();
  plan.notes.emplace_back("bias and relu apart");
  const BiasRelu after(t.y, op.activation == Activation::relu);
  const auto run = [call, after](const Addresses& a, cudaStream_t stream) {
    const auto all = a.all();
    call->launch(std::array<void*, 3>{all[Op::x], all[Op::w], all.back()}, a.workspace<void>(), stream);
    after.launch(a.in<void>(Op::b), a.out<void>(Op::y), stream);
  };
  return convolution_kernel(io, run, call->workspace_bytes(), std::move(plan));
}

KernelPtr prepare(Cuda cuda, const Conv2dBackwardData& op, const KernelIo& io) {
  const KernelIo stored = with_padding(io);
  const MatmulOperands t = matmul_operands(op, stored);
  check_convolution(op.name, t, op.algorithm);
  const auto call = built(cuda)->prepare(convolution(Pass::backward_data, op, t));
  const auto run = [call](const Addresses& a, cudaStream_t stream) {
    call->launch(a.all(), a.workspace<void>(), stream);
  };
  return convolution_kernel(io, run, call->workspace_bytes(), call->plan());
}

KernelPtr prepare(Cuda cuda, const Conv2dBackwardWeights& op, const KernelIo& io) {
  using Op = Conv2dBackwardWeights;
  const KernelIo stored = with_padding(io);
  const MatmulOperands t = matmul_operands(op, stored);
  check_convolution(Op::name, t, op.algorithm);
  const WeightsGradient gradient(cuda, op, t);
  const BiasGradient bias_gradient(t.y, t.b != nullptr ? t.b->dtype : t.w.dtype);
  const auto run = [gradient, bias_gradient](const Addresses& a, cudaStream_t stream) {
    gradient.launch(a, stream);
    if (void* const db = a.out<void>(Op::db); db != nullptr) {
      bias_gradient.launch(a.in<void>(Op::dy), db, a.workspace<void>(), stream);
    }
  };
  // One after the other in their stream, so they share the workspace.
  const std::size_t of_bias = t.b != nullptr ? bias_gradient.workspace_bytes() : 0;
  return convolution_kernel(io, run, std::max(gradient.workspace_bytes(), of_bias), gradient.plan());
}

std::vector<Algorithm> algorithms(Cuda cuda, const Conv2d& op, const KernelIo& io) {
  const KernelIo stored = with_padding(io);
  const MatmulOperands t = matmul_operands(op, stored);
  auto plans = built(cuda)->plans(fused_convolution(cuda, op, t));
  if (plans.empty()) plans = built(cuda)->plans(convolution(Pass::forward, op, t));
  return as_algorithms(plans);
}
std::vector<Algorithm> algorithms(Cuda cuda, const Conv2dBackwardData& op, const KernelIo& io) {
  const KernelIo stored = with_padding(io);
  return as_algorithms(built(cuda)->plans(convolution(Pass::backward_data, op, matmul_operands(op, stored))));
}
std::vector<Algorithm> algorithms(Cuda cuda, const Conv2dBackwardWeights& op, const KernelIo& io) {
  const KernelIo stored = with_padding(io);
  return as_algorithms(built(cuda)->plans(weights_gradient(op, matmul_operands(op, stored))));
}

}  // namespace lockstep::kernels
