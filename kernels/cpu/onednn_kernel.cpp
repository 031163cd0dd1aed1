#include "kernels/cpu/onednn_op.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string_view>

#include "kernels/base/alignment.h"
#include "kernels/base/error.h"
#include "kernels/cpu/pair_reorder.h"
#include "kernels/cpu/table_reorder.h"

namespace lockstep::kernels {
namespace {

using dnnl::memory;

/// Where an argument's bytes are: the caller's i-th address, or an offset in the workspace.
struct Place {
  bool in_workspace;
  std::size_t at;
};

struct Argument {
  int argument;
  memory::desc desc;
  Place place;
};

using OwnReorder = std::function<void(const void* from, void* to)>;

struct Step {
  dnnl::primitive primitive;
  std::vector<Argument> arguments;
  OwnReorder own = {};  ///< in place of the primitive, from the first argument to the second
};

/// None where oneDNN's is as fast.
OwnReorder own_reorder(const dnnl::reorder::primitive_desc& description, const memory::desc& from,
                       const memory::desc& to) {
  // Below this the library's reference takes no longer than a call.
  constexpr std::int64_t few = 256;
  const auto source = onednn::tensor_of(from);
  const auto target = onednn::tensor_of(to);
  if (!source || !target || source->dtype != target->dtype || source->shape != target->shape) return {};
  if (const auto pairs = PairReorder::of(*source, *target)) {
    return [pairs](const void* data, void* result) { pairs->run(data, result); };
  }
  const bool is_reference = std::string_view(description.impl_info_str()) == "simple:any";
  if (!is_reference || !TableReorder::takes(source->type()) || source->shape.elements() < few) return {};
  const auto table =
      std::make_shared<TableReorder>(source->shape, source->dtype, *source->layout, *target->layout);
  return [table](const void* data, void* result) { table->run(data, result); };
}

Step reorder_between(const dnnl::engine& engine, const Argument& from, const Argument& to) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::library);
  const dnnl::reorder::primitive_desc description(engine, from.desc, engine, to.desc, attr);
  return {dnnl::reorder(description), {from, to}, own_reorder(description, from.desc, to.desc)};
}

class BoundSteps : public BoundKernel {
 public:
  BoundSteps(const onednn::Context& context, const std::vector<Step>& steps, std::span<void* const> args,
             void* workspace)
      : stream_(context.stream) {
    std::size_t count = 0;
    for (const Step& step : steps) count += step.arguments.size();
    arguments_.reserve(count);
    for (const Step& step : steps) {
      calls_.push_back(
          {step.primitive, arguments_.data() + arguments_.size(), step.arguments.size(), step.own});
      for (const auto& [argument, desc, place] : step.arguments) {
        void* data = place.in_workspace ? static_cast<std::byte*>(workspace) + place.at : args[place.at];
        memories_.emplace_back(desc, context.engine, data);
        arguments_.push_back({argument, memories_.back().get()});
      }
    }
  }

  void launch(Stream&) override {
    for (const Call& call : calls_) {
      if (call.own) {
        call.own(data_of(call.first[0]), data_of(call.first[1]));
        continue;
      }
      const dnnl_status_t status = dnnl_primitive_execute(call.primitive.get(), stream_.get(),
                                                          static_cast<int>(call.count), call.first);
      if (status != dnnl_success) {
        throw DeviceError("oneDNN: a primitive failed with status " +
                          std::to_string(static_cast<int>(status)));
      }
    }
  }

 private:
  struct Call {
    dnnl::primitive primitive;
    const dnnl_exec_arg_t* first;
    std::size_t count;
    OwnReorder own;
  };

  static void* data_of(const dnnl_exec_arg_t& argument) {
    void* data = nullptr;
    dnnl_memory_get_data_handle(argument.memory, &data);
    return data;
  }

  dnnl::stream stream_;
  std::vector<Call> calls_;
  std::vector<memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

class OnednnKernel : public Kernel {
 public:
  OnednnKernel(const onednn::Context& context, std::vector<Step> steps, std::size_t workspace)
      : context_(context), steps_(std::move(steps)), workspace_(workspace) {}

  std::size_t workspace_bytes() const override { return workspace_; }
  std::unique_ptr<BoundKernel> bind(std::span<void* const> args, void* workspace) const override {
    return std::make_unique<BoundSteps>(context_, steps_, args, workspace);
  }

 private:
  onednn::Context context_;
  std::vector<Step> steps_;
  std::size_t workspace_;
};

/// Hands out the workspace, piece after piece.
class Slots {
 public:
  Place take(const memory::desc& desc) {
    const std::size_t at = used_;
    used_ += whole_lines(desc.get_size());
    return {true, at};
  }
  std::size_t used() const { return used_; }

 private:
  std::size_t used_ = 0;
};

}  // namespace

KernelPtr onednn_kernel(const onednn::Context& context, const dnnl::primitive_desc_base& description,
                        const std::vector<OnednnArgument>& arguments) {
  Slots slots;
  std::vector<Step> before;
  std::vector<Step> after;
  Step main{onednn::make_primitive(description), {}};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto& [argument, input, given] = arguments[i];
    const memory::desc wanted = description.query_md(dnnl::query::exec_arg_md, argument);
    const Place callers{false, i};
    if (wanted == given) {
      main.arguments.push_back({argument, wanted, callers});
      continue;
    }
    const Place ours = slots.take(wanted);
    main.arguments.push_back({argument, wanted, ours});
    if (input) {
      before.push_back(
          reorder_between(context.engine, {DNNL_ARG_FROM, given, callers}, {DNNL_ARG_TO, wanted, ours}));
    } else {
      after.push_back(
          reorder_between(context.engine, {DNNL_ARG_FROM, wanted, ours}, {DNNL_ARG_TO, given, callers}));
    }
  }
  const memory::desc scratchpad = description.query_md(dnnl::query::scratchpad_md);
  if (scratchpad.get_size() > 0)
    main.arguments.push_back({DNNL_ARG_SCRATCHPAD, scratchpad, slots.take(scratchpad)});

  std::vector<Step> steps = std::move(before);
  steps.push_back(std::move(main));
  steps.insert(steps.end(), after.begin(), after.end());
  return std::make_unique<OnednnKernel>(context, std::move(steps), slots.used());
}

KernelPtr onednn_reorder(const onednn::Context& context, const memory::desc& from, const memory::desc& to) {
  std::vector<Step> steps{
      reorder_between(context.engine, {DNNL_ARG_FROM, from, {false, 0}}, {DNNL_ARG_TO, to, {false, 1}})};
  return std::make_unique<OnednnKernel>(context, std::move(steps), 0);
}

KernelPtr onednn_copy(const onednn::Context& context, std::string_view op, const KernelIo& io) {
  const auto descriptor_of = [op](const TensorDesc& tensor) {
    const Layout layout = tensor.layout_or_row_major();
    const auto desc = onednn::descriptor(tensor.shape, layout, tensor.dtype);
    if (desc) return *desc;
    throw UsageError(fmt::format("{}: oneDNN has no layout {} for {}", op, layout.str(), tensor.shape.str()));
  };
  // Nothing reads room behind rows, and oneDNN's copy of rows that have a multiple of themselves is wrong
  // where it knows of that room.
  TensorDesc x = io.inputs.front();
  if (x.layout && x.layout->blocks.empty()) x.layout->padded = x.shape;
  const memory::desc from = descriptor_of(x);
  const memory::desc to = descriptor_of(io.outputs.front());
  try {
    return onednn_reorder(context, from, to);
  } catch (const dnnl::error& error) {
    throw DeviceError(fmt::format("{} of {}: oneDNN: {}", op, io.inputs.front().shape.str(), error.what()));
  }
}

}  // namespace lockstep::kernels
