#include "kernels/cuda/dnn.h"

#include <cudnn_frontend.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernels/base/error.h"
#include "kernels/cuda/per_device.h"

namespace lockstep::kernels {
namespace {

using cudnn_frontend::graph::Graph;
using cudnn_frontend::graph::Tensor_attributes;
using TensorPtr = std::shared_ptr<Tensor_attributes>;
using Pass = ConvolutionSpec::Pass;

class Handle {
 public:
  Handle() { check(cudnnCreate(&handle_), "cannot make a handle"); }
  ~Handle() { cudnnDestroy(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  cudnnHandle_t get() const { return handle_; }

  static void check(cudnnStatus_t status, std::string_view what) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    throw DeviceError(fmt::format("cuDNN: {}: {}; CUDNN_LOGLEVEL_DBG=2 CUDNN_LOGDEST_DBG=stderr tell more",
                                  what, cudnnGetErrorString(status)));
  }

 private:
  cudnnHandle_t handle_ = nullptr;
};

cudnn_frontend::DataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return cudnn_frontend::DataType_t::FLOAT;
    case DType::bf16:
      return cudnn_frontend::DataType_t::BFLOAT16;
    case DType::f16:
      return cudnn_frontend::DataType_t::HALF;
    default:
      throw UsageError(fmt::format("cuDNN: tensors are {}, must be f32, bf16 or f16", name_of(dtype)));
  }
}

std::vector<std::int64_t> vector_of(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

/// A pattern of operations and the plan that computes it as a whole. Operands are numbered in the order in
/// which they are added; a further pattern is one more function like `convolution` below.
class DnnGraph : public DnnCall {
 public:
  explicit DnnGraph(DType dtype) : handle_(shared_by_device<Handle>()) {
    graph_.set_io_data_type(type_of(dtype))
        .set_intermediate_data_type(cudnn_frontend::DataType_t::FLOAT)
        .set_compute_data_type(cudnn_frontend::DataType_t::FLOAT);
  }

  Graph& pattern() { return graph_; }

  TensorPtr input(const TensorDesc& desc) {
    const TensorPtr tensor = graph_.tensor(Tensor_attributes());
    describe(tensor, desc);
    return tensor;
  }

  void output(const TensorPtr& tensor, const TensorDesc& desc) {
    describe(tensor, desc);
    tensor->set_output(true);
  }

  /// Asks the library's heuristic for plans. Empty, or why there are none.
  std::string list_plans(Precision precision) {
    using cudnn_frontend::NumericalNote_t;
    // Factors in half types and sums in less than f32 are more than either precision allows.
    std::vector<NumericalNote_t> shunned{NumericalNote_t::NONDETERMINISTIC,
                                         NumericalNote_t::DOWN_CONVERT_INPUTS,
                                         NumericalNote_t::REDUCED_PRECISION_REDUCTION};
    // The tensor cores' products of f32 are TF32.
    if (precision == Precision::ieee) shunned.push_back(NumericalNote_t::TENSOR_CORE);
    if (auto error = graph_.validate(); error.is_bad()) return error.get_message();
    if (auto error = graph_.build_operation_graph(handle_->get()); error.is_bad()) return error.get_message();
    using cudnn_frontend::HeurMode_t;
    if (auto error = graph_.create_execution_plans({HeurMode_t::A, HeurMode_t::FALLBACK}); error.is_bad()) {
      return error.get_message();
    }
    graph_.deselect_numeric_notes(shunned);
    if (auto error = graph_.check_support(handle_->get()); error.is_bad()) return error.get_message();
    return {};
  }

  /// The first that can be built. Empty, or why none can.
  std::string build_first() { return graph_.build_plans(handle_->get()).get_message(); }

  /// The one of that name. Empty, or why it cannot be built.
  std::string build(const std::string& plan) {
    for (std::int64_t i = 0; i < graph_.get_execution_plan_count(); ++i) {
      if (name_of(i) == plan) return graph_.build_plan_at_index(handle_->get(), i).get_message();
    }
    return fmt::format("its heuristic does not offer the plan {}", plan);
  }

  /// Of those that can be built, with no more workspace than is given.
  std::vector<std::string> plans(std::size_t count, std::size_t workspace_bytes) {
    graph_.deselect_workspace_greater_than(static_cast<std::int64_t>(workspace_bytes));
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < graph_.get_execution_plan_count() && names.size() < count; ++i) {
      std::string name = name_of(i);
      // The heuristic's two modes may offer the same.
      if (std::ranges::find(names, name) != names.end()) continue;
      if (graph_.build_plan_at_index(handle_->get(), i).is_good()) names.push_back(std::move(name));
    }
    return names;
  }

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(graph_.get_workspace_size());
  }

  void launch(std::span<void* const> operands, void* workspace, cudaStream_t stream) const override {
    Handle::check(cudnnSetStream(handle_->get(), stream), "cannot take a stream");
    std::unordered_map<std::int64_t, void*> addresses;
    for (std::size_t i = 0; i < operands.size(); ++i)
      addresses.emplace(static_cast<std::int64_t>(i) + 1, operands[i]);
    if (auto error = graph_.execute(handle_->get(), addresses, workspace); error.is_bad()) {
      throw DeviceError(fmt::format("cuDNN: cannot launch: {}", error.get_message()));
    }
  }

 private:
  /// Engine and settings: the same wherever the library offers it.
  std::string name_of(std::int64_t plan) const {
    std::string name;
    if (auto error = graph_.get_plan_name_at_index(plan, name); error.is_bad()) {
      throw DeviceError(fmt::format("cuDNN: cannot name a plan: {}", error.get_message()));
    }
    return name;
  }

  void describe(const TensorPtr& tensor, const TensorDesc& desc) {
    tensor->set_uid(++operands_)
        .set_dim(vector_of(desc.shape))
        .set_stride(vector_of(desc.layout_or_plain().strides))
        .set_data_type(type_of(desc.dtype));
  }

  std::shared_ptr<Handle> handle_;
  Graph graph_;
  std::int64_t operands_ = 0;
};

template <class Attributes>
Attributes window(const Conv2dGeometry& g) {
  return Attributes()
      .set_padding({g.padding[0], g.padding[1]})
      .set_stride({g.stride[0], g.stride[1]})
      .set_dilation({g.dilation[0], g.dilation[1]});
}

/// A vector (C) as a picture of one pixel, which is added to all.
TensorDesc pixel(DType dtype, std::int64_t channels) {
  return {dtype, {1, channels, 1, 1}, Layout::plain({1, channels, 1, 1})};
}

void add_forward(DnnGraph& call, const ConvolutionSpec& spec) {
  using namespace cudnn_frontend;
  const TensorPtr x = call.input(spec.x);
  const TensorPtr w = call.input(spec.w);
  TensorPtr y = call.pattern().conv_fprop(x, w, window<graph::Conv_fprop_attributes>(spec.geometry));
  if (spec.bias) {
    const TensorPtr b = call.input(pixel(spec.y.dtype, spec.y.shape[1]));
    y = call.pattern().pointwise(y, b, graph::Pointwise_attributes().set_mode(PointwiseMode_t::ADD));
  }
  if (spec.relu) {
    y = call.pattern().pointwise(y, graph::Pointwise_attributes().set_mode(PointwiseMode_t::RELU_FWD));
  }
  call.output(y, spec.y);
}

void add_backward_data(DnnGraph& call, const ConvolutionSpec& spec) {
  const TensorPtr dy = call.input(spec.y);
  const TensorPtr w = call.input(spec.w);
  using Attributes = cudnn_frontend::graph::Conv_dgrad_attributes;
  call.output(call.pattern().conv_dgrad(dy, w, window<Attributes>(spec.geometry)), spec.x);
}

void add_backward_weights(DnnGraph& call, const ConvolutionSpec& spec) {
  const TensorPtr x = call.input(spec.x);
  const TensorPtr dy = call.input(spec.y);
  using Attributes = cudnn_frontend::graph::Conv_wgrad_attributes;
  call.output(call.pattern().conv_wgrad(dy, x, window<Attributes>(spec.geometry)), spec.w);
}

std::shared_ptr<DnnGraph> graph_of(const ConvolutionSpec& spec) {
  auto call = std::make_shared<DnnGraph>(spec.x.dtype);
  switch (spec.pass) {
    case Pass::forward:
      add_forward(*call, spec);
      break;
    case Pass::backward_data:
      add_backward_data(*call, spec);
      break;
    case Pass::backward_weights:
      add_backward_weights(*call, spec);
      break;
  }
  return call;
}

}  // namespace

std::vector<std::string> convolution_plans(const ConvolutionSpec& spec) {
  const auto call = graph_of(spec);
  if (!call->list_plans(spec.precision).empty()) return {};
  return call->plans(offered_plans, offered_workspace_bytes);
}

std::shared_ptr<const DnnCall> prepare_convolution(const ConvolutionSpec& spec) {
  const auto call = graph_of(spec);
  std::string obstacle = call->list_plans(spec.precision);
  if (obstacle.empty()) obstacle = spec.plan.empty() ? call->build_first() : call->build(spec.plan);
  if (obstacle.empty()) return call;
  if (spec.bias || spec.relu) return nullptr;
  obstacle.resize(std::min(obstacle.find('\n'), obstacle.size()));  // then follows a word on each engine
  throw DeviceError(
      fmt::format("cuDNN cannot compute a convolution of x {} ({}) and w {} ({}) in {} groups on this "
                  "GPU: {}",
                  spec.x.shape.str(), spec.x.layout_or_plain().str(), spec.w.shape.str(),
                  spec.w.layout_or_plain().str(), spec.geometry.groups, obstacle));
}

std::string dnn_library() {
  const std::size_t version = cudnnGetVersion();
  return fmt::format("cuDNN {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace lockstep::kernels
