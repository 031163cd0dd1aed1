#include "kernels/cuda/dnn.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cuda/handles.h"
#include "kernels/layout.h"
#include "tests/simgpu/math/dnn_builds.h"
#include "tests/simgpu/math/library_call.h"
#include "tests/simgpu/math/tf32.h"

// The twin of kernels/cuda/dnn.cpp: oneDNN in place of cuDNN.
namespace lockstep::kernels {
namespace {

using Pass = ConvolutionSpec::Pass;

struct Operand {
  int argument;              ///< oneDNN's name for it
  dnnl::memory::desc given;  ///< as it lies on the device
  bool written = false;
  bool rounded = false;            ///< to TF32 before it is multiplied
  dnnl::memory::desc wanted = {};  ///< as the primitive takes it

  bool in_place() const { return wanted == given && !rounded; }
};

dnnl::memory::desc strided(const TensorDesc& desc, std::int64_t groups = 1) {
  const auto strided = onednn::descriptor(desc.shape, desc.layout_or_row_major(), desc.dtype, groups);
  if (!strided)
    throw UsageError(
        fmt::format("convolution: {} must have strides alone", desc.layout_or_row_major().str()));
  return *strided;
}

/// As a real library: many GPUs have no plan for tensors of several types.
void require_one_type(const ConvolutionSpec& spec) {
  if (spec.w.dtype == spec.x.dtype && spec.y.dtype == spec.x.dtype) return;
  throw UsageError(fmt::format("convolution: x is {}, w {}, y {}: must be of one type", name_of(spec.x.dtype),
                               name_of(spec.w.dtype), name_of(spec.y.dtype)));
}

/// As a real library, which tells layouts by strides alone: of an axis of extent 1 too, which may have any.
void require_one_form(const ConvolutionSpec& spec) {
  const auto all_lie = [&](auto form) {
    const auto lies = [&](const TensorDesc& desc) { return desc.layout_or_row_major() == form(desc.shape); };
    return lies(spec.x) && lies(spec.w) && lies(spec.y);
  };
  if (all_lie(Layout::row_major) || all_lie(channels_last)) return;
  throw UsageError(fmt::format("convolution: x lies in {}, w in {}, y in {}: not one form to a library",
                               spec.x.layout_or_row_major().strides.str(),
                               spec.w.layout_or_row_major().strides.str(),
                               spec.y.layout_or_row_major().strides.str()));
}

/// A primitive with its operands in the order of a launch. oneDNN 2's descriptors do not keep their engine
/// alive.
struct Plan {
  dnnl::engine engine;
  dnnl::primitive_desc_base primitive;
  std::vector<Operand> operands;
  bool relu = false;
};

/// The plans: oneDNN's own choice first, as a library's heuristic offers its best guess. No names of cuDNN's,
/// nor transforms that it would be asked not to use: what its plans are only cuDNN knows.
struct NamedPlan {
  std::string_view name;
  Algorithm::Kind algorithm;
};
constexpr std::array named_plans{NamedPlan{"sim0_automatic", Algorithm::automatic},
                                 NamedPlan{"sim1_direct", Algorithm::direct}};

Plan plan_for_any_layout(const ConvolutionSpec& spec, Algorithm::Kind algorithm) {
  const std::int64_t groups = spec.geometry.groups;
  const TensorDesc bias{spec.y.dtype, {spec.y.shape[1]}, {}};
  const TensorDesc wide_bias{DType::f32, bias.shape, {}};
  const dnnl::memory::desc x = strided(spec.x);
  const dnnl::memory::desc weights = strided(spec.w, groups);
  const dnnl::memory::desc y = strided(spec.y);
  // oneDNN's fast code has layouts of its own; a GPU's it computes by reference loops, 500 times slower. Its
  // arithmetic is f32, as a tensor core's sums are: half types are widened before and rounded once after.
  const onednn::Operands any{
      onednn::any_layout(spec.x.shape, DType::f32), onednn::any_layout(spec.w.shape, DType::f32, groups),
      spec.bias ? strided(wide_bias) : dnnl::memory::desc(), onednn::any_layout(spec.y.shape, DType::f32)};
  dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  switch (spec.pass) {
    case Pass::backward_data:
      return {cpu,
              onednn::conv_backward_data(cpu, any, spec.geometry, algorithm, MatmulPrecision::highest),
              {{DNNL_ARG_DIFF_DST, y}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DIFF_SRC, x, true}}};
    case Pass::backward_weights:
      return {cpu,
              onednn::conv_backward_weights(cpu, any, spec.geometry, algorithm, MatmulPrecision::highest),
              {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, y}, {DNNL_ARG_DIFF_WEIGHTS, weights, true}}};
    case Pass::forward:
      break;
  }
  Plan plan{
      cpu,
      onednn::conv_forward(cpu, any, spec.geometry, algorithm, Activation::none, MatmulPrecision::highest),
      {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, weights}},
      spec.relu};
  if (spec.bias) plan.operands.push_back({DNNL_ARG_BIAS, strided(bias)});
  plan.operands.push_back({DNNL_ARG_DST, y, true});
  return plan;
}

Plan plan_of(const ConvolutionSpec& spec, Algorithm::Kind algorithm) {
  Plan plan = plan_for_any_layout(spec, algorithm);
  for (Operand& operand : plan.operands) {
    operand.wanted = plan.primitive.query_md(dnnl::query::exec_arg_md, operand.argument);
    operand.rounded = spec.precision == Precision::tf32 && spec.x.dtype == DType::f32 && !operand.written &&
                      operand.argument != DNNL_ARG_BIAS;
  }
  return plan;
}

/// An operand during one run: in place, or reordered into memory of its own and back.
class Placed {
 public:
  Placed(const dnnl::engine& engine, const Operand& operand, void* address)
      : operand_(operand),
        given_(operand.given, engine, address),
        wanted_(operand.in_place() ? given_ : dnnl::memory(operand.wanted, engine)) {}

  const dnnl::memory& memory() const { return wanted_; }
  void fetch(dnnl::stream& stream) {
    if (operand_.written) return;
    move(given_, wanted_, stream);
    if (operand_.rounded) round(wanted_, stream);
  }
  void deliver(bool relu, dnnl::stream& stream) {
    if (!operand_.written) return;
    stream.wait();
    if (relu) simgpu::apply_library_relu(values_of(wanted_));
    move(wanted_, given_, stream);
  }

 private:
  void move(dnnl::memory& from, dnnl::memory& to, dnnl::stream& stream) const {
    if (!operand_.in_place()) dnnl::reorder(from, to).execute(stream, from, to);
  }

  /// Of what the primitive computes on: f32.
  static std::span<float> values_of(const dnnl::memory& memory) {
    return {static_cast<float*>(memory.get_data_handle()), memory.get_desc().get_size() / sizeof(float)};
  }

  static void round(dnnl::memory& memory, dnnl::stream& stream) {
    stream.wait();
    const std::span values = values_of(memory);
    std::ranges::transform(values, values.begin(), [](float x) { return simgpu::rounded_to_tf32(x); });
  }

  const Operand& operand_;
  dnnl::memory given_;
  dnnl::memory wanted_;
};

class SimulatedConvolution : public DnnCall {
 public:
  SimulatedConvolution(Plan plan, std::string_view name)
      : name_(name),
        operands_(std::move(plan.operands)),
        relu_(plan.relu),
        engine_(std::move(plan.engine)),
        primitive_(onednn::make_primitive(plan.primitive)),
        scratchpad_(plan.primitive.query_md(dnnl::query::exec_arg_md, DNNL_ARG_SCRATCHPAD)) {}

  std::size_t workspace_bytes() const override { return simgpu::library_workspace_bytes; }
  LibraryPlan plan() const override { return {.name = name_, .notes = {}}; }

  void launch(std::span<void* const> addresses, void* workspace, cudaStream_t stream) const override {
    simgpu::LibraryCall call("convolution", workspace, 256);
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      const std::size_t bytes = operands_[i].given.get_size();
      if (operands_[i].written)
        call.writes(addresses[i], bytes);
      else
        call.reads(addresses[i], bytes);
    }
    const auto compute = [operands = operands_, relu = relu_, engine = engine_, primitive = primitive_,
                          scratchpad = scratchpad_,
                          at = std::vector<void*>(addresses.begin(), addresses.end())] {
      dnnl::stream own(engine);
      std::vector<Placed> placed;
      std::unordered_map<int, dnnl::memory> arguments;
      for (std::size_t i = 0; i < operands.size(); ++i) {
        placed.emplace_back(engine, operands[i], simgpu::host_view(at[i]));
        placed.back().fetch(own);
        arguments.emplace(operands[i].argument, placed.back().memory());
      }
      arguments.emplace(DNNL_ARG_SCRATCHPAD, dnnl::memory(scratchpad, engine));
      primitive.execute(own, arguments);
      for (Placed& operand : placed) operand.deliver(relu, own);
      own.wait();
    };
    const cudaError_t result = call.enqueue(stream, compute);
    if (result == cudaSuccess) return;
    check_gpu("cannot launch a convolution", stream);
    throw DeviceError(fmt::format("cuDNN: cannot launch: {}", cudaGetErrorString(result)));
  }

 private:
  std::string name_;
  std::vector<Operand> operands_;
  bool relu_;
  dnnl::engine engine_;
  dnnl::primitive primitive_;
  dnnl::memory::desc scratchpad_;
};

/// As of a real library, it lacks fused plans for some shapes.
bool lacks_plans(const ConvolutionSpec& spec) {
  return (spec.bias || spec.relu) && spec.geometry.groups > 1;
}

bool offers(const ConvolutionSpec& spec, Algorithm::Kind algorithm) {
  try {
    plan_of(spec, algorithm);
    return true;
  } catch (const dnnl::error&) {
    return false;
  }
}

}  // namespace

std::vector<std::string> convolution_plans(const ConvolutionSpec& spec, const DescribedGpu*) {
  if (lacks_plans(spec)) return {};
  require_one_type(spec);
  require_one_form(spec);
  const simgpu::OneThread guard;
  std::vector<std::string> names;
  for (const NamedPlan& plan : named_plans) {
    if (offers(spec, plan.algorithm)) names.emplace_back(plan.name);
  }
  return names;
}

/// None is ever made, so that the functions below get null.
std::shared_ptr<const DescribedGpu> describe_gpu(const std::string&) {
  throw UsageError(
      "the simulated cuDNN plans for no GPU by its description; configure with -DLOCKSTEP_CUDA=ON");
}

std::shared_ptr<const DnnCall> prepare_convolution(const ConvolutionSpec& spec, const DescribedGpu*,
                                                   const PlanStore* kept) {
  if (lacks_plans(spec)) return nullptr;
  require_one_type(spec);
  require_one_form(spec);
  const auto named = std::ranges::find_if(named_plans, [&](const NamedPlan& plan) {
    return simgpu::is_buildable(plan.name) && (spec.plan.empty() || plan.name == spec.plan);
  });
  if (named == named_plans.end()) {
    if (spec.bias || spec.relu) return nullptr;
    throw DeviceError(fmt::format("oneDNN for cuDNN has no plan {}", spec.plan));
  }
  const simgpu::OneThread guard;
  simgpu::build_plan(std::string(named->name), kept);
  try {
    return std::make_shared<SimulatedConvolution>(plan_of(spec, named->algorithm), named->name);
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
