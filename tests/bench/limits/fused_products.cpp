#include "tests/bench/limits/fused_products.h"

#include "kernels/cpu/classifier_products.h"
#include "kernels/cpu/classifier_tiles.h"
#include "kernels/cpu/recurrent_bf16.h"
#include "kernels/cpu/recurrent_blocks.h"
#include "kernels/cpu/recurrent_products.h"
#include "kernels/cpu/simd/simd.h"
#include "tests/gpu/shares/timing.h"

namespace lockstep::bench {
namespace {

using namespace kernels;

/// Memory of the device with random numbers: a processor may run faster on zeros.
std::unique_ptr<Memory> filled(Device& device, std::size_t bytes) {
  auto memory = device.allocate(bytes);
  shares::fill_with_random({static_cast<std::byte*>(memory->data()), bytes});
  return memory;
}

/// Our own, panel by panel: kernels/cpu/recurrent.cpp.
double seconds_of_panels(const RecurrentBlocks& blocks, Device& device) {
  const auto memory = filled(device, RecurrentWorkspace(blocks, 0, nullptr).bytes());
  const RecurrentWorkspace at(blocks, 0, static_cast<float*>(memory->data()));
  return shares::shortest([&] {
    blocks.on_team(
        [&](std::int64_t begin, std::int64_t end) { multiply(blocks, at.factors[0], at, begin, end, {}); });
  });
}

/// Of bf16, with weights that are packed.
double seconds_of_packed(const StepProduct::Size& size, Device& device) {
  const auto product = step_product(onednn::Context{}, size);
  const auto workspace = filled(device, product->workspace_bytes());
  const auto weights =
      filled(device, static_cast<std::size_t>(size.inputs * size.outputs) * sizeof(BFloat16));
  const StepProduct::Bound bound = product->bind(weights->data(), static_cast<std::byte*>(workspace->data()));
  const auto stream = device.make_stream();
  bound.pack->launch(*stream);
  return shares::shortest([&] { bound.multiply->launch(*stream); });
}

/// A processor without fast products of bf16 takes the factors as f32.
DType classifier_factors(DType dtype) {
  return dtype == DType::bf16 && !onednn::multiplies_bf16_faster() ? DType::f32 : dtype;
}

}  // namespace

double seconds_of_step_product(const TensorDesc& states, std::int64_t gates, StepDirection direction,
                               Device& device) {
  const RecurrentSize size = recurrent_size(states.shape);
  const bool forward = direction == StepDirection::forward;
  const std::int64_t columns = gates * size.hidden;
  if (states.dtype == DType::bf16 && rounds_to_bf16(size)) {
    return seconds_of_packed(
        {size.rows, forward ? size.hidden : columns, forward ? columns : size.hidden, forward}, device);
  }
  return seconds_of_panels({.size = size,
                            .dtype = states.dtype,
                            .units = forward ? RecurrentBlocks::columns / gates : RecurrentBlocks::columns,
                            .depth = forward ? size.hidden : columns},
                           device);
}

double seconds_of_classifier_product(const ClassifierLoss& op, const MatmulSize& size, DType dtype,
                                     Product::Result result, Device& device) {
  const DType factors = classifier_factors(dtype);
  const ClassifierSize cut(size, op, factors);
  const ClassifierProducts products(onednn::Context{}, cut, factors, op.precision, true);
  const auto workspace = filled(device, std::max<std::size_t>(products.workspace_bytes(), 64));
  const ClassifierTiles tiles(cut, false);
  const auto packed = filled(device, products.uses_tiles() ? tiles.workspace_bytes() : 64);
  auto* const in_tiles = static_cast<std::byte*>(packed->data());
  std::vector<Matmul::Bound> bound;
  for (const Matmul& product : products.all) bound.emplace_back(product, workspace->data());

  const auto matrix = [&](std::int64_t rows, std::int64_t columns, DType type) {
    return filled(device, static_cast<std::size_t>(rows * columns) * size_of(type));
  };
  const auto x = matrix(cut.rows, cut.inputs, factors);
  const auto weight = matrix(cut.classes, cut.inputs, factors);
  const auto gradient = matrix(cut.chunk, ClassifierSize::whole_tiles(cut.block), factors);
  const auto logits = matrix(cut.chunk, ClassifierSize::whole_tiles(cut.classes), DType::f32);
  const auto dx = matrix(cut.rows, cut.inputs, DType::f32);
  const auto dweight = matrix(cut.classes, cut.inputs, DType::f32);
  const auto row_of = [&](const Memory& of, std::int64_t row, DType type) {
    return static_cast<std::byte*>(of.data()) + static_cast<std::size_t>(row * cut.inputs) * size_of(type);
  };
  return shares::shortest([&] {
    for (std::size_t i = 0; i < products.steps.size(); ++i) {
      const auto& step = products.steps[i];
      const std::int64_t begin = static_cast<std::int64_t>(i) / cut.blocks() * cut.chunk;
      const std::int64_t rows = std::min(cut.chunk, cut.rows - begin);
      const void* const some_x = row_of(*x, begin, factors);
      const void* const some_weights = row_of(*weight, step.first, factors);
      auto* const some_logits = static_cast<float*>(logits->data()) + rows * step.first;
      auto* const some_dx = reinterpret_cast<float*>(row_of(*dx, begin, DType::f32));
      auto* const some_dweight = reinterpret_cast<float*>(row_of(*dweight, step.first, DType::f32));
      const auto* const halves = static_cast<const BFloat16*>(gradient->data());
      const auto* const half_weights = static_cast<const BFloat16*>(some_weights);
      const auto nothing = [](std::int64_t, std::int64_t) {};
      switch (result) {
        case Product::Result::y:
          if (!step.by_tiles) {
            bound[step.logits].run(some_x, some_weights, some_logits);
            break;
          }
          if (step.first == 0) tiles.pack(static_cast<const BFloat16*>(some_x), rows, true, in_tiles);
          tiles.logits(half_weights, rows, step.columns, some_logits, in_tiles, nothing);
          break;
        case Product::Result::x:
          if (step.dx_of_few_rows) {
            step.dx_of_few_rows->run(gradient->data(), some_weights, some_dx, workspace->data());
            break;
          }
          if (!step.by_tiles) {
            bound[step.dx].run(gradient->data(), some_weights, some_dx);
            break;
          }
          tiles.dx(halves, half_weights, rows, step.columns, some_dx, step.first > 0, in_tiles, nothing);
          break;
        case Product::Result::w:
          if (!step.by_tiles) {
            bound[step.dweight].run(gradient->data(), some_x, some_dweight);
            break;
          }
          tiles.dweight(halves, rows, step.columns, some_dweight, begin > 0, in_tiles);
      }
    }
  });
}

}  // namespace lockstep::bench
