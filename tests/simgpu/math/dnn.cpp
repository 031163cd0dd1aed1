#include "kernels/cuda/dnn.h"

#include <fmt/format.h>

#include <unordered_map>

#include "kernels/base/error.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cuda/handles.h"
#include "tests/simgpu/math/library_call.h"

// The twin of kernels/cuda/dnn.cpp: oneDNN in place of cuDNN.
namespace lockstep::kernels {
namespace {

using Pass = ConvolutionSpec::Pass;

struct Operand {
  int argument;  ///< oneDNN's name for it
  dnnl::memory::desc desc;
  bool written = false;
};

dnnl::memory::desc strided(const TensorDesc& desc, std::int64_t groups = 1) {
  const auto strided = onednn::descriptor(desc.shape, desc.layout_or_plain(), desc.dtype, groups);
  if (!strided)
    throw UsageError(fmt::format("convolution: {} must have strides alone", desc.layout_or_plain().str()));
  return *strided;
}

/// A primitive with its operands in the order of a launch.
struct Plan {
  dnnl::primitive_desc_base primitive;
  std::vector<Operand> operands;
};

Plan plan_of(const ConvolutionSpec& spec) {
  const Shape channels{spec.y.shape[1]};
  const onednn::Operands t{strided(spec.x), strided(spec.w, spec.geometry.groups),
                           spec.bias ? strided({spec.y.dtype, channels, {}}) : dnnl::memory::desc(),
                           strided(spec.y)};
  switch (spec.pass) {
    case Pass::backward_data:
      return {onednn::conv_backward_data(t, spec.geometry, ConvAlgorithm::automatic),
              {{DNNL_ARG_DIFF_DST, t.y}, {DNNL_ARG_WEIGHTS, t.weights}, {DNNL_ARG_DIFF_SRC, t.x, true}}};
    case Pass::backward_weights:
      return {onednn::conv_backward_weights(t, spec.geometry, ConvAlgorithm::automatic),
              {{DNNL_ARG_SRC, t.x}, {DNNL_ARG_DIFF_DST, t.y}, {DNNL_ARG_DIFF_WEIGHTS, t.weights, true}}};
    case Pass::forward:
      break;
  }
  Plan plan{onednn::conv_forward(t, spec.geometry, ConvAlgorithm::automatic, spec.relu),
            {{DNNL_ARG_SRC, t.x}, {DNNL_ARG_WEIGHTS, t.weights}}};
  if (spec.bias) plan.operands.push_back({DNNL_ARG_BIAS, t.bias});
  plan.operands.push_back({DNNL_ARG_DST, t.y, true});
  return plan;
}

class SimulatedConvolution : public DnnCall {
 public:
  explicit SimulatedConvolution(Plan plan)
      : operands_(std::move(plan.operands)),
        primitive_(onednn::make_primitive(plan.primitive)),
        scratchpad_(plan.primitive.query_md(dnnl::query::exec_arg_md, DNNL_ARG_SCRATCHPAD)) {}

  std::size_t workspace_bytes() const override { return simgpu::library_workspace_bytes; }

  void launch(std::span<void* const> addresses, void* workspace, cudaStream_t stream) const override {
    simgpu::LibraryCall call("convolution", workspace);
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      const auto& [argument, desc, written] = operands_[i];
      if (written)
        call.writes(addresses[i], desc.get_size());
      else
        call.reads(addresses[i], desc.get_size());
    }
    const auto compute = [operands = operands_, primitive = primitive_, scratchpad = scratchpad_,
                          at = std::vector<void*>(addresses.begin(), addresses.end())] {
      std::unordered_map<int, dnnl::memory> arguments;
      for (std::size_t i = 0; i < operands.size(); ++i) {
        arguments.emplace(operands[i].argument,
                          dnnl::memory(operands[i].desc, onednn::engine(), simgpu::host_view(at[i])));
      }
      arguments.emplace(DNNL_ARG_SCRATCHPAD, dnnl::memory(scratchpad, onednn::engine()));
      dnnl::stream own(onednn::engine());
      primitive.execute(own, arguments);
      own.wait();
    };
    check(call.enqueue(stream, compute), "cannot launch a convolution");
  }

 private:
  std::vector<Operand> operands_;
  dnnl::primitive primitive_;
  dnnl::memory::desc scratchpad_;
};

}  // namespace

std::shared_ptr<const DnnCall> prepare_convolution(const ConvolutionSpec& spec) {
  // As a real library would, it lacks fused plans for some shapes.
  if ((spec.bias || spec.relu) && spec.geometry.groups > 1) return nullptr;
  const simgpu::OneThread guard;
  try {
    return std::make_shared<SimulatedConvolution>(plan_of(spec));
  } catch (const dnnl::error& error) {
    throw DeviceError(fmt::format("oneDNN cannot compute a convolution of x {} and w {}: {}",
                                  spec.x.shape.str(), spec.w.shape.str(), error.what()));
  }
}

std::string dnn_library() {
  const dnnl_version_t* const version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{} for cuDNN", version->major, version->minor, version->patch);
}

}  // namespace lockstep::kernels
