#include "kernels/cpu/simd/winograd_points.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

constexpr std::int64_t panel = WinogradTiles::panel;
constexpr int filter_width = native_width == 16 ? 16 : 8;

using L = Lanes<filter_width>;
using Floats = L::Floats;

/// Whether offsets of `filter_width` outputs go up by `step`.
bool has_step(const std::int64_t* outputs, std::int64_t step) {
  return outputs[filter_width - 1] - outputs[0] == (filter_width - 1) * step &&
         outputs[1] - outputs[0] == step;
}

/// A tap of the filters to `filter_width` outputs.
template <class Element>
Floats gather(const Element* w, const std::int64_t* outputs) {
  if (has_step(outputs, 1)) return L::load(w + outputs[0]);
  float values[filter_width];
  for (int lane = 0; lane < filter_width; ++lane) values[lane] = LOCKSTEP_ISA::load(w + outputs[lane]);
  return L::load(values);
}

/// That of two inputs.
template <class Element>
void gather_pair(const Element* first, const Element* second, const std::int64_t* outputs, Floats (&to)[2]) {
  if constexpr (sizeof(Element) == sizeof(Bf16)) {
    if (second == first + 1 && has_step(outputs, 2)) {
      const L::Words pairs = L::load_words(first + outputs[0]);
      to[0] = L::first_of(pairs);
      to[1] = L::second_of(pairs);
      return;
    }
  }
  to[0] = gather(first, outputs);
  to[1] = gather(second, outputs);
}

template <int extent>
constexpr int window = Points<Floats, extent>::window;

template <int extent>
[[gnu::always_inline]] inline void filter(const Floats (&in)[taps], Floats (&out)[window<extent>]) {
  Points<Floats, extent>::template filter<taps>(in, out);
}

/// Calls `body(first output, first input)` for all filters, `filter_width` outputs and `step` inputs at once.
template <class Body>
void for_each_filter(const WinogradFilters& filters, std::int64_t step, const Body& body) {
  for (std::int64_t output = filters.first_output; output < filters.end_output; output += panel) {
    for (std::int64_t input = filters.first_input; input < filters.end_input; input += step) {
      for (std::int64_t part = 0; part < panel; part += filter_width) body(output + part, input);
    }
  }
}

/// Where the transforms of filters from a row of inputs to outputs from `output` on are.
std::int64_t place(const WinogradMatrices& matrices, std::int64_t row, std::int64_t output) {
  return output / panel * matrices.panel + row * panel + output % panel;
}

template <class Element>
void transform_filters(const WinogradWeights& op, const WinogradFilters& filters, const Element* w,
                       float* to) {
  for_each_filter(filters, 1, [&](std::int64_t output, std::int64_t input) {
    const Element* const from = w + filters.inputs[input];
    float* const at = to + place(op.matrices, input, output);
    both_axes<taps, window<4>, Floats>(
        filter<4>,
        [&](int row, int column) {
          return gather(from + row * filters.row + column * filters.column, filters.outputs + output);
        },
        [&](int row, int column, Floats value) {
          L::store(at + (row * window<4> + column) * op.matrices.position, value);
        });
  });
}

/// Words of two inputs.
template <class Element>
void transform_filter_pairs(const WinogradWeights& op, const WinogradFilters& filters, const Element* w,
                            std::uint32_t* to) {
  for_each_filter(filters, 2, [&](std::int64_t output, std::int64_t input) {
    Floats pairs[taps][taps][2];
    for (int row = 0; row < taps; ++row) {
      for (int column = 0; column < taps; ++column) {
        const Element* const tap = w + row * filters.row + column * filters.column;
        gather_pair(tap + filters.inputs[input], tap + filters.inputs[input + 1], filters.outputs + output,
                    pairs[row][column]);
      }
    }
    std::uint32_t* const at = to + place(op.matrices, input / 2, output);
    Floats first[window<2>][window<2>];
    both_axes<taps, window<2>, Floats>(
        filter<2>, [&](int row, int column) { return pairs[row][column][0]; },
        [&](int row, int column, Floats value) { first[row][column] = value; });
    both_axes<taps, window<2>, Floats>(
        filter<2>, [&](int row, int column) { return pairs[row][column][1]; },
        [&](int row, int column, Floats value) {
          L::store_words(at + (row * window<2> + column) * op.matrices.position,
                         L::paired(first[row][column], value));
        });
  });
}

template <class Element>
void scatter(Floats value, const std::int64_t* outputs, Element* w) {
  if (has_step(outputs, 1)) return L::store(w + outputs[0], value);
  for (int lane = 0; lane < filter_width; ++lane) LOCKSTEP_ISA::store(w + outputs[lane], value[lane]);
}

template <int extent, class Element>
void gradients(const WinogradWeightGradients& op, const WinogradFilters& filters, const float* from,
               Element* dw) {
  for_each_filter(filters, 1, [&](std::int64_t output, std::int64_t input) {
    const float* const at = from + place(op.matrices, input, output);
    Element* const to = dw + filters.inputs[input];
    both_axes<window<extent>, taps, Floats>(
        [](const Floats(&in)[window<extent>], Floats(&out)[taps]) {
          Points<Floats, extent>::template output<taps>(in, out);
        },
        [&](int row, int column) {
          return L::load(at + (row * window<extent> + column) * op.matrices.position);
        },
        [&](int row, int column, Floats value) {
          scatter(value, filters.outputs + output, to + row * filters.row + column * filters.column);
        });
  });
}

template <class Element>
void weights_as(const WinogradWeights& op, const WinogradFilters& filters, const void* w, void* to) {
  const auto* const from = static_cast<const Element*>(w);
  op.factors == DType::bf16 ? transform_filter_pairs(op, filters, from, static_cast<std::uint32_t*>(to))
                            : transform_filters(op, filters, from, static_cast<float*>(to));
}

template <class Element>
void gradients_as(const WinogradWeightGradients& op, const WinogradFilters& filters, const float* from,
                  void* dw) {
  auto* const to = static_cast<Element*>(dw);
  op.factors == DType::bf16 ? gradients<2>(op, filters, from, to) : gradients<4>(op, filters, from, to);
}

}  // namespace

void run(const WinogradWeights& op, const WinogradFilters& filters, const void* w, void* transforms) {
  if (filters.dtype == DType::bf16) return weights_as<Bf16>(op, filters, w, transforms);
  weights_as<float>(op, filters, w, transforms);
}

void run(const WinogradWeightGradients& op, const WinogradFilters& filters, const float* transforms,
         void* dw) {
  if (filters.dtype == DType::bf16) return gradients_as<Bf16>(op, filters, transforms, dw);
  gradients_as<float>(op, filters, transforms, dw);
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
