#include "kernels/cpu/simd/winograd_points.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

constexpr int filter_width = 8;

/// A tap of the filters to `filter_width` outputs.
template <class Element>
Lanes<filter_width>::Floats gather(const Element* w, const std::int64_t* outputs) {
  if (outputs[filter_width - 1] - outputs[0] == filter_width - 1)
    return Lanes<filter_width>::load(w + outputs[0]);
  float values[filter_width];
  for (int lane = 0; lane < filter_width; ++lane) values[lane] = LOCKSTEP_ISA::load(w + outputs[lane]);
  return Lanes<filter_width>::load(values);
}

template <class Element>
void transform_filters(const WinogradWeights& op, const WinogradFilters& filters, const Element* w,
                       float* to) {
  using Floats = Lanes<filter_width>::Floats;
  constexpr std::int64_t panel = WinogradTiles::panel;
  for (std::int64_t output = filters.first_output; output < filters.end_output; output += panel) {
    for (std::int64_t input = filters.first_input; input < filters.end_input; ++input) {
      for (std::int64_t part = 0; part < panel; part += filter_width) {
        const Element* const from = w + filters.inputs[input];
        float* const at = to + output / panel * op.matrices.panel + input * panel + part;
        both_axes<taps, window, Floats>(
            [](const Floats(&in)[taps], Floats(&out)[window]) {
              Points<Floats>::template filter<taps>(in, out);
            },
            [&](int row, int column) {
              return gather(from + row * filters.row + column * filters.column,
                            filters.outputs + output + part);
            },
            [&](int row, int column, Floats value) {
              Lanes<filter_width>::store(at + (row * window + column) * op.matrices.position, value);
            });
      }
    }
  }
}

template <class Element>
void scatter(Lanes<filter_width>::Floats value, const std::int64_t* outputs, Element* w) {
  if (outputs[filter_width - 1] - outputs[0] == filter_width - 1) {
    return Lanes<filter_width>::store(w + outputs[0], value);
  }
  for (int lane = 0; lane < filter_width; ++lane) LOCKSTEP_ISA::store(w + outputs[lane], value[lane]);
}

template <class Element>
void gradients(const WinogradWeightGradients& op, const WinogradFilters& filters, const float* from,
               Element* dw) {
  using Floats = Lanes<filter_width>::Floats;
  constexpr std::int64_t panel = WinogradTiles::panel;
  for (std::int64_t output = filters.first_output; output < filters.end_output; output += panel) {
    for (std::int64_t input = filters.first_input; input < filters.end_input; ++input) {
      for (std::int64_t part = 0; part < panel; part += filter_width) {
        const float* const at = from + output / panel * op.matrices.panel + input * panel + part;
        Element* const to = dw + filters.inputs[input];
        both_axes<window, taps, Floats>(
            [](const Floats(&in)[window], Floats(&out)[taps]) {
              Points<Floats>::template output<taps>(in, out);
            },
            [&](int row, int column) {
              return Lanes<filter_width>::load(at + (row * window + column) * op.matrices.position);
            },
            [&](int row, int column, Floats value) {
              scatter(value, filters.outputs + output + part,
                      to + row * filters.row + column * filters.column);
            });
      }
    }
  }
}

}  // namespace

void run(const WinogradWeights& op, const WinogradFilters& filters, const void* w, float* transforms) {
  if (filters.dtype == DType::bf16) {
    return transform_filters(op, filters, static_cast<const Bf16*>(w), transforms);
  }
  transform_filters(op, filters, static_cast<const float*>(w), transforms);
}

void run(const WinogradWeightGradients& op, const WinogradFilters& filters, const float* transforms,
         void* dw) {
  if (filters.dtype == DType::bf16) return gradients(op, filters, transforms, static_cast<Bf16*>(dw));
  gradients(op, filters, transforms, static_cast<float*>(dw));
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
