#include "kernels/cuda/dnn_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernels/base/error.h"
#include "kernels/cuda/handles.h"

namespace lockstep::kernels {

class DnnHandle {
 public:
  DnnHandle() { check(cudnnCreate(&handle_), "cannot make a handle"); }
  ~DnnHandle() { cudnnDestroy(handle_); }
  DnnHandle(const DnnHandle&) = delete;
  DnnHandle& operator=(const DnnHandle&) = delete;
  cudnnHandle_t get() const { return handle_; }

  static void check(cudnnStatus_t status, std::string_view what) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    throw DeviceError(fmt::format("cuDNN: {}: {}; CUDNN_LOGLEVEL_DBG=2 CUDNN_LOGDEST_DBG=stderr tell more",
                                  what, cudnnGetErrorString(status)));
  }

 private:
  cudnnHandle_t handle_ = nullptr;
};

namespace {

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

using cudnn_frontend::NumericalNote_t;

/// What plans may not do.
std::vector<NumericalNote_t> shunned_at(Precision precision) {
  // Factors in half types and sums in less than f32 are more than either precision allows.
  std::vector<NumericalNote_t> shunned{NumericalNote_t::NONDETERMINISTIC,
                                       NumericalNote_t::DOWN_CONVERT_INPUTS,
                                       NumericalNote_t::REDUCED_PRECISION_REDUCTION};
  if (precision == Precision::ieee) {
    // The tensor cores' products of f32 are TF32; a transform's sums round several times as much as a
    // product's.
    for (const auto note : {NumericalNote_t::TENSOR_CORE, NumericalNote_t::FFT, NumericalNote_t::WINOGRAD,
                            NumericalNote_t::WINOGRAD_TILE_4x4, NumericalNote_t::WINOGRAD_TILE_6x6,
                            NumericalNote_t::WINOGRAD_TILE_13x13})
      shunned.push_back(note);
  }
  return shunned;
}

/// Empty when there is none.
std::string reason(cudnn_frontend::error_t error) {
  if (error.is_good()) return {};
  return error.get_message().empty() ? "it does not say why" : error.get_message();
}

}  // namespace

DnnGraph::DnnGraph(DType dtype) : handle_(shared_by_device<DnnHandle>()) {
  graph_.set_io_data_type(type_of(dtype))
      .set_intermediate_data_type(cudnn_frontend::DataType_t::FLOAT)
      .set_compute_data_type(cudnn_frontend::DataType_t::FLOAT);
}

DnnGraph::TensorPtr DnnGraph::input(const TensorDesc& desc) {
  const TensorPtr tensor = graph_.tensor(cudnn_frontend::graph::Tensor_attributes());
  describe(tensor, desc);
  return tensor;
}

void DnnGraph::output(const TensorPtr& tensor, const TensorDesc& desc) {
  describe(tensor, desc);
  tensor->set_output(true);
}

std::string DnnGraph::list_plans(Precision precision, std::int64_t workspace_bytes) {
  using cudnn_frontend::HeurMode_t;
  const std::vector shunned = shunned_at(precision);
  if (auto error = graph_.validate(); error.is_bad()) return reason(error);
  if (auto error = graph_.build_operation_graph(handle_->get()); error.is_bad()) return reason(error);
  auto listed = graph_.create_execution_plans({HeurMode_t::A, HeurMode_t::FALLBACK});
  if (listed.is_bad()) return reason(listed);
  graph_.deselect_numeric_notes(shunned).deselect_workspace_greater_than(workspace_bytes);
  return reason(graph_.check_support(handle_->get()));
}

std::string DnnGraph::build_first() {
  return reason(graph_.build_plans(handle_->get()));
}

std::string DnnGraph::build(const std::string& plan) {
  for (std::int64_t i = 0; i < graph_.get_execution_plan_count(); ++i) {
    if (name_of(i) == plan) return reason(graph_.build_plan_at_index(handle_->get(), i));
  }
  return fmt::format("its heuristic does not offer the plan {}", plan);
}

std::vector<std::string> DnnGraph::plans(std::size_t count) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < graph_.get_execution_plan_count() && names.size() < count; ++i) {
    std::string name = name_of(i);
    // The heuristic's two modes may offer the same.
    if (std::ranges::find(names, name) != names.end()) continue;
    if (graph_.build_plan_at_index(handle_->get(), i).is_good()) names.push_back(std::move(name));
  }
  return names;
}

std::size_t DnnGraph::workspace_bytes() const {
  return static_cast<std::size_t>(graph_.get_workspace_size());
}

void DnnGraph::launch(std::span<void* const> operands, void* workspace, cudaStream_t stream) const {
  DnnHandle::check(cudnnSetStream(handle_->get(), stream), "cannot take a stream");
  std::unordered_map<std::int64_t, void*> addresses;
  for (std::size_t i = 0; i < operands.size(); ++i)
    addresses.emplace(static_cast<std::int64_t>(i) + 1, operands[i]);
  if (auto error = graph_.execute(handle_->get(), addresses, workspace); error.is_bad()) {
    throw DeviceError(fmt::format("cuDNN: cannot launch: {}", error.get_message()));
  }
}

/// Engine and settings: the same wherever the library offers it.
std::string DnnGraph::name_of(std::int64_t plan) const {
  std::string name;
  if (auto error = graph_.get_plan_name_at_index(plan, name); error.is_bad()) {
    throw DeviceError(fmt::format("cuDNN: cannot name a plan: {}", error.get_message()));
  }
  return name;
}

void DnnGraph::describe(const TensorPtr& tensor, const TensorDesc& desc) {
  tensor->set_uid(++operands_)
      .set_dim(vector_of(desc.shape))
      .set_stride(vector_of(desc.layout_or_row_major().strides))
      .set_data_type(type_of(desc.dtype));
}

}  // namespace lockstep::kernels
