#include "kernels/recurrent.h"

#include "kernels/cpu/simd/math.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

/// `visit(row, at)` for each row; `at` counts the row's steps in whole tensors.
template <class Visit>
[[gnu::always_inline]] inline void for_rows(const RecurrentPart& part, const Visit& visit) {
  for (std::int64_t row = 0; row < part.size.rows; ++row) visit(row, part.step * part.size.rows + row);
}

/// Whether the row stands still in this step.
[[gnu::always_inline]] inline bool is_over(const RecurrentPart& part, std::int64_t row) {
  return part.lengths != nullptr && part.step >= part.lengths[row];
}

/// d loss / d y of a row's units in this step, which lies at `at`.
template <class Element>
[[gnu::always_inline]] inline const Element* dy_of(const RecurrentPart& part, const RecurrentBackward& b,
                                                   std::int64_t row, std::int64_t at) {
  if (b.zeros == nullptr) return static_cast<const Element*>(b.dy) + at * part.size.hidden + part.first;
  if (!part.is_last(row)) return static_cast<const Element*>(b.zeros);
  return static_cast<const Element*>(b.dy) + row * part.size.hidden + part.first;
}

template <class Element>
[[gnu::always_inline]] inline void clear(Element* to, std::int64_t count) {
  for (std::int64_t u = 0; u < count; ++u) store(to + u, 0.0F);
}

template <class Element, class Factor>
void rnn(const Rnn& op, const RecurrentPart& part, const RecurrentForward& f) {
  const std::int64_t hidden = part.size.hidden;
  const std::int64_t count = part.count;
  for_rows(part, [&](std::int64_t row, std::int64_t at) {
    const Element* const pre = static_cast<const Element*>(f.pre) + at * hidden + part.first;
    Element* const y = static_cast<Element*>(f.y) + at * hidden + part.first;
    const float* const product = f.product.at + row * f.product.row;
    auto* const h = static_cast<Factor*>(f.h.at) + row * f.h.row + part.first;
    if (is_over(part, row)) {
      clear(h, count);
      clear(y, count);
    } else if (op.nonlinearity == Nonlinearity::relu) {
#pragma omp simd
      for (std::int64_t u = 0; u < count; ++u) {
        const float sum = product[u] + load(pre + u);
        const float value = sum < 0 ? 0 : sum;
        store(h + u, value);
        store(y + u, value);
      }
    } else {
#pragma omp simd
      for (std::int64_t u = 0; u < count; ++u) {
        const float value = Math::tanh(product[u] + load(pre + u));
        store(h + u, value);
        store(y + u, value);
      }
    }
  });
}

template <class Element, class Factor>
void rnn_backward(const RnnBackward& op, const RecurrentPart& part, const RecurrentBackward& b) {
  const std::int64_t hidden = part.size.hidden;
  const std::int64_t count = part.count;
  for_rows(part, [&](std::int64_t row, std::int64_t at) {
    const std::int64_t offset = at * hidden + part.first;
    const Element* const dy = dy_of<Element>(part, b, row, at);
    const Element* const y = static_cast<const Element*>(b.y) + offset;
    Element* const dpre = static_cast<Element*>(b.dpre) + offset;
    const float* const product = b.product.at + row * b.product.row;
    auto* const d = static_cast<Factor*>(b.d.at) + row * b.d.row + part.first;
    if (is_over(part, row)) {
      clear(d, count);
      clear(dpre, count);
      return;
    }
    const bool relu = op.forward.nonlinearity == Nonlinearity::relu;
#pragma omp simd
    for (std::int64_t u = 0; u < count; ++u) {
      const float h = load(y + u);
      const float slope = relu ? (h > 0 ? 1.0F : 0.0F) : 1.0F - h * h;
      const float value = (load(dy + u) + product[u]) * slope;
      store(d + u, value);
      store(dpre + u, value);
    }
  });
}

template <class Element, class Factor>
void lstm(const RecurrentPart& part, const RecurrentForward& f) {
  const std::int64_t hidden = part.size.hidden;
  const std::int64_t count = part.count;
  const std::int64_t gate = f.product.gate;
  for_rows(part, [&](std::int64_t row, std::int64_t at) {
    const std::int64_t offset = at * Lstm::gates * hidden + part.first;
    const Element* const pre = static_cast<const Element*>(f.pre) + offset;
    Element* const gates = static_cast<Element*>(f.gates) + offset;
    Element* const y = static_cast<Element*>(f.y) + at * hidden + part.first;
    float* const cells = f.cells + at * hidden + part.first;
    const float* const product = f.product.at + row * f.product.row;
    auto* const h = static_cast<Factor*>(f.h.at) + row * f.h.row + part.first;
    float* const c = f.c + row * hidden + part.first;
    if (is_over(part, row)) {
      for (std::int64_t k = 0; k < Lstm::gates; ++k) clear(gates + k * hidden, count);
      clear(y, count);
      clear(cells, count);
      clear(h, count);
      return;
    }
#pragma omp simd
    for (std::int64_t u = 0; u < count; ++u) {
      const std::int64_t f_at = hidden + u;
      const std::int64_t g_at = 2 * hidden + u;
      const std::int64_t o_at = 3 * hidden + u;
      const float i = Math::sigmoid(product[u] + load(pre + u));
      const float forget = Math::sigmoid(product[gate + u] + load(pre + f_at));
      const float g = Math::tanh(product[2 * gate + u] + load(pre + g_at));
      const float o = Math::sigmoid(product[3 * gate + u] + load(pre + o_at));
      c[u] = forget * c[u] + i * g;
      const float value = o * Math::tanh(c[u]);
      cells[u] = c[u];
      store(h + u, value);
      store(y + u, value);
      store(gates + u, i);
      store(gates + f_at, forget);
      store(gates + g_at, g);
      store(gates + o_at, o);
    }
  });
}

template <class Element, class Factor>
void lstm_backward(const RecurrentPart& part, const RecurrentBackward& b) {
  const std::int64_t hidden = part.size.hidden;
  const std::int64_t count = part.count;
  for_rows(part, [&](std::int64_t row, std::int64_t at) {
    const std::int64_t offset = at * Lstm::gates * hidden + part.first;
    const Element* const gates = static_cast<const Element*>(b.gates) + offset;
    Element* const dpre = static_cast<Element*>(b.dpre) + offset;
    auto* const d = static_cast<Factor*>(b.d.at) + row * b.d.row + part.first;
    if (is_over(part, row)) {
      for (std::int64_t gate = 0; gate < Lstm::gates; ++gate) {
        clear(d + gate * hidden, count);
        clear(dpre + gate * hidden, count);
      }
      return;
    }
    const std::int64_t state = at * hidden + part.first;
    const Element* const dy = dy_of<Element>(part, b, row, at);
    const float* const cells = b.cells + state;
    const float* const before =
        part.step > 0 ? cells - part.size.rows * hidden : b.before + row * hidden + part.first;
    const float* const product = b.product.at + row * b.product.row;
    float* const dc = b.dc + row * hidden + part.first;
    if (b.dcells != nullptr) {
      for (std::int64_t u = 0; u < count; ++u) dc[u] += b.dcells[state + u];
    }
#pragma omp simd
    for (std::int64_t u = 0; u < count; ++u) {
      const float i = load(gates + u);
      const float forget = load(gates + hidden + u);
      const float g = load(gates + 2 * hidden + u);
      const float o = load(gates + 3 * hidden + u);
      const float squashed = Math::tanh(cells[u]);
      const float dh = load(dy + u) + product[u];
      const float of_cell = dc[u] + dh * o * (1.0F - squashed * squashed);
      const float of_i = of_cell * g * (i * (1.0F - i));
      const float of_forget = of_cell * before[u] * (forget * (1.0F - forget));
      const float of_g = of_cell * i * (1.0F - g * g);
      const float of_o = dh * squashed * (o * (1.0F - o));
      dc[u] = of_cell * forget;
      store(d + u, of_i);
      store(d + hidden + u, of_forget);
      store(d + 2 * hidden + u, of_g);
      store(d + 3 * hidden + u, of_o);
      store(dpre + u, of_i);
      store(dpre + hidden + u, of_forget);
      store(dpre + 2 * hidden + u, of_g);
      store(dpre + 3 * hidden + u, of_o);
    }
  });
}

/// `compute(element, factor)` with null pointers to the types.
template <class Compute>
[[gnu::always_inline]] inline void by_types(const RecurrentPart& part, const Compute& compute) {
  constexpr const float* single = nullptr;
  constexpr const Bf16* half = nullptr;
  if (part.dtype == DType::f32) return compute(single, single);
  part.factor_dtype == DType::f32 ? compute(half, single) : compute(half, half);
}

}  // namespace

void run(const Rnn& op, const RecurrentPart& part, const RecurrentForward& f) {
  by_types(part, [&]<class Element, class Factor>(const Element*, const Factor*) {
    rnn<Element, Factor>(op, part, f);
  });
}

void run(const RnnBackward& op, const RecurrentPart& part, const RecurrentBackward& b) {
  by_types(part, [&]<class Element, class Factor>(const Element*, const Factor*) {
    rnn_backward<Element, Factor>(op, part, b);
  });
}

void run(const Lstm&, const RecurrentPart& part, const RecurrentForward& f) {
  by_types(part, [&]<class Element, class Factor>(const Element*, const Factor*) {
    lstm<Element, Factor>(part, f);
  });
}

void run(const LstmBackward&, const RecurrentPart& part, const RecurrentBackward& b) {
  by_types(part, [&]<class Element, class Factor>(const Element*, const Factor*) {
    lstm_backward<Element, Factor>(part, b);
  });
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
