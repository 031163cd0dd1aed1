#include "kernels/cuda/dnn_graph.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "kernels/base/error.h"
#include "kernels/cuda/built_convolutions.h"
#include "kernels/cuda/handles.h"

namespace lockstep::kernels {

class DnnHandle {
 public:
  DnnHandle() { check(cudnnCreate(&handle_), "cannot make a handle"); }
  ~DnnHandle() { cudnnDestroy(handle_); }
  DnnHandle(const DnnHandle&) = delete;
  DnnHandle& operator=(const DnnHandle&) = delete;
  cudnnHandle_t get() const { return handle_; }
  /// Null of a null.
  static cudnnHandle_t of(const std::shared_ptr<DnnHandle>& handle) {
    return handle ? handle->get() : nullptr;
  }

  static void check(cudnnStatus_t status, std::string_view what, cudaStream_t stream = nullptr) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    check_gpu(what, stream);
    throw DeviceError(fmt::format("cuDNN: {}: {}; CUDNN_LOGLEVEL_DBG=2 CUDNN_LOGDEST_DBG=stderr tell more",
                                  what, cudnnGetErrorString(status)));
  }

 private:
  cudnnHandle_t handle_ = nullptr;
};

namespace {

/// cuDNN looks for plans that it compiles at run time only where it finds the driver's functions. Without a
/// driver it finds ours, which refuse: a library that is called libcuda.so.1, too, beside this one where it
/// was built and in a folder below where it is installed.
void find_driver_functions() {
  constexpr int flags = RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE;
  if (dlopen("libcuda.so.1", flags) != nullptr) return;
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&find_driver_functions), &here) == 0) return;
  const auto folder = std::filesystem::path(here.dli_fname).parent_path();
  for (const auto& place : {folder, folder / "lockstep"}) {
    if (dlopen((place / "liblockstep_no_driver.so").c_str(), flags) != nullptr) return;
  }
  throw DeviceError(fmt::format("cuda: a GPU is planned for that is not here: {}", dlerror()));
}

class GpuProperties final : public DescribedGpu {
 public:
  BuiltConvolutions& convolutions() const override { return convolutions_; }

  std::shared_ptr<cudnn_frontend::DeviceProperties> properties =
      std::make_shared<cudnn_frontend::DeviceProperties>();

 private:
  mutable BuiltConvolutions convolutions_{this};
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
    shunned.insert(shunned.end(), {NumericalNote_t::TENSOR_CORE, NumericalNote_t::FFT,
                                   NumericalNote_t::WINOGRAD, NumericalNote_t::WINOGRAD_TILE_4x4,
                                   NumericalNote_t::WINOGRAD_TILE_6x6, NumericalNote_t::WINOGRAD_TILE_13x13});
  }
  return shunned;
}

constexpr std::array numerical_notes{
    std::pair{NumericalNote_t::TENSOR_CORE, "TENSOR_CORE"},
    std::pair{NumericalNote_t::DOWN_CONVERT_INPUTS, "DOWN_CONVERT_INPUTS"},
    std::pair{NumericalNote_t::REDUCED_PRECISION_REDUCTION, "REDUCED_PRECISION_REDUCTION"},
    std::pair{NumericalNote_t::FFT, "FFT"},
    std::pair{NumericalNote_t::NONDETERMINISTIC, "NONDETERMINISTIC"},
    std::pair{NumericalNote_t::WINOGRAD, "WINOGRAD"},
    std::pair{NumericalNote_t::WINOGRAD_TILE_4x4, "WINOGRAD_TILE_4x4"},
    std::pair{NumericalNote_t::WINOGRAD_TILE_6x6, "WINOGRAD_TILE_6x6"},
    std::pair{NumericalNote_t::WINOGRAD_TILE_13x13, "WINOGRAD_TILE_13x13"},
    std::pair{NumericalNote_t::STRICT_NAN_PROP, "STRICT_NAN_PROP"}};

/// Empty when there is none.
std::string reason(cudnn_frontend::error_t error) {
  if (error.is_good()) return {};
  return error.get_message().empty() ? "it does not say why" : error.get_message();
}

}  // namespace

std::shared_ptr<const DescribedGpu> describe_gpu(const std::string& json) {
  find_driver_functions();
  auto gpu = std::make_shared<GpuProperties>();
  if (const auto error = gpu->properties->deserialize({json.begin(), json.end()}); error.is_bad()) {
    throw UsageError(
        fmt::format("cuDNN does not take the description of a GPU: {}; it has the members that "
                    "CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION gives on a GPU, and wants cuDNN 9.8 or later",
                    reason(error)));
  }
  return gpu;
}

DnnGraph::DnnGraph(DType dtype, const DescribedGpu* gpu)
    : handle_(gpu != nullptr ? nullptr : shared_by_device<DnnHandle>()),
      properties_(gpu != nullptr ? static_cast<const GpuProperties&>(*gpu).properties : nullptr) {
  if (properties_ != nullptr) graph_.set_device_properties(properties_);
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
  if (auto error = graph_.build_operation_graph(DnnHandle::of(handle_)); error.is_bad()) return reason(error);
  auto listed = graph_.create_execution_plans({HeurMode_t::A, HeurMode_t::FALLBACK});
  if (listed.is_bad()) return reason(listed);
  graph_.deselect_numeric_notes(shunned).deselect_workspace_greater_than(workspace_bytes);
  return reason(graph_.plans.check_support());
}

std::string DnnGraph::build_first(const PlanStore* kept) {
  std::string obstacle = "its heuristic offers no plan";
  for (std::int64_t i = 0; i < graph_.get_execution_plan_count(); ++i) {
    if (obstacle = take(i, kept); obstacle.empty()) break;
  }
  return obstacle;
}

/// Code that is compiled when a plan is built is loaded, too: of a GPU that is only described such a plan is
/// taken unbuilt.
std::string DnnGraph::take(std::int64_t plan, const PlanStore* kept) {
  const bool compiles = is_compiled_at_run_time(plan);
  const bool builds = handle_ != nullptr || !compiles;
  // What is not compiled takes 0.1 ms to build. Of a GPU that is only described that is all there is to keep.
  const bool keeps = kept != nullptr && builds && (compiles || handle_ == nullptr);
  const bool loaded = keeps && load(plan, *kept);
  const auto error =
      builds ? graph_.plans.build_plan_at_index(plan) : graph_.plans.check_support_at_index(plan);
  if (error.is_bad()) return reason(error);
  if (keeps && !loaded) keep(plan, *kept);
  taken_ = plan;
  workspace_bytes_ = static_cast<std::size_t>(builds ? graph_.get_workspace_size_plan_at_index(plan)
                                                     : unbuilt_workspace_bytes(plan));
  return {};
}

/// In the place where cudnn-frontend has those that it builds, and builds none again. A text that the library
/// does not take, as from another version, is none.
bool DnnGraph::load(std::int64_t plan, const PlanStore& kept) {
  const std::string name = name_of(plan);
  const auto text = kept.find(name);
  if (!text) return false;
  using cudnn_frontend::detail::create_cudnn_execution_plan;
  std::shared_ptr<cudnn_frontend::ExecutionPlan> loaded;
  const auto error = handle_ != nullptr ? create_cudnn_execution_plan(loaded, *text, handle_->get())
                                        : create_cudnn_execution_plan(loaded, *text, properties_);
  if (error.is_bad() || loaded->getTag() != name) return false;
  graph_.plans.get_execution_plans()[static_cast<std::size_t>(plan)] = std::move(loaded);
  return true;
}

void DnnGraph::keep(std::int64_t plan, const PlanStore& kept) {
  std::string text;
  try {
    text = graph_.plans.get_execution_plans()[static_cast<std::size_t>(plan)]->getJsonRepresentation();
  } catch (const cudnn_frontend::cudnnException&) {
    return;  // a plan that the library has no text for is built anew by each run
  }
  kept.keep(name_of(plan), text);
}

/// cudnn-frontend hands out the configurations that no note bars, in the order of plans, without their
/// places.
std::int64_t DnnGraph::unbuilt_workspace_bytes(std::int64_t plan) {
  const std::string name = name_of(plan);
  std::int64_t bytes = 0;
  auto configs = graph_.plans.get_barred_engine_configs();
  for (auto& config : configs) {
    if (cudnn_frontend::detail::get_engine_tag(config) != name) continue;
    if (auto error = cudnn_frontend::detail::get_workspace_size(config, bytes); error.is_bad()) break;
    return bytes;
  }
  throw DeviceError(fmt::format("cuDNN: cannot tell the workspace of the plan {}", name));
}

bool DnnGraph::is_compiled_at_run_time(std::int64_t plan) const {
  const auto& notes = graph_.plans.behavior_notes[static_cast<std::size_t>(plan)];
  return std::ranges::find(notes, cudnn_frontend::BehaviorNote_t::RUNTIME_COMPILATION) != notes.end();
}

LibraryPlan DnnGraph::plan() const {
  LibraryPlan plan{.name = name_of(taken_), .notes = {}};
  const auto& of_taken = graph_.plans.numeric_notes[static_cast<std::size_t>(taken_)];
  for (const auto& [note, name] : numerical_notes) {
    if (std::ranges::find(of_taken, note) != of_taken.end()) plan.notes.emplace_back(name);
  }
  if (is_compiled_at_run_time(taken_)) plan.notes.emplace_back("RUNTIME_COMPILATION");
  return plan;
}

std::string DnnGraph::build(const std::string& plan, const PlanStore* kept) {
  for (std::int64_t i = 0; i < graph_.get_execution_plan_count(); ++i) {
    if (name_of(i) == plan) return take(i, kept);
  }
  return fmt::format("its heuristic does not offer the plan {}", plan);
}

std::vector<std::string> DnnGraph::plans(std::size_t count) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < graph_.get_execution_plan_count() && names.size() < count; ++i) {
    std::string name = name_of(i);
    // The heuristic's two modes may offer the same.
    if (std::ranges::find(names, name) != names.end()) continue;
    if (graph_.plans.check_support_at_index(i).is_good()) names.push_back(std::move(name));
  }
  return names;
}

void DnnGraph::launch(std::span<void* const> operands, void* workspace, cudaStream_t stream) const {
  DnnHandle::check(cudnnSetStream(handle_->get(), stream), "cannot take a stream", stream);
  std::unordered_map<std::int64_t, void*> addresses;
  for (std::size_t i = 0; i < operands.size(); ++i)
    addresses.emplace(static_cast<std::int64_t>(i) + 1, operands[i]);
  if (auto error = graph_.execute(handle_->get(), addresses, workspace); error.is_bad()) {
    check_gpu("cannot launch a convolution", stream);
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
