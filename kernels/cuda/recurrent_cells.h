#pragma once

#include "kernels/cuda/portability.h"

#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"
#include "kernels/recurrent.h"

/// One step of a recurrent layer on a GPU, behind its matrix product: a thread a unit of a row. The kernels'
/// products are f32, and null for zeros.
namespace lockstep::kernels {

struct RecurrentStep {
  RecurrentSize size;
  std::int64_t step;

  __device__ std::int64_t items() const { return size.rows * size.hidden; }
  __device__ bool is_last(std::int64_t row, const std::int64_t* lengths) const {
    return step + 1 == (lengths == nullptr || lengths[row] > size.steps ? size.steps : lengths[row]);
  }
};

/// Where a thread's unit is.
struct RecurrentUnit {
  std::int64_t row, unit;
  std::int64_t state;  ///< in a tensor of all steps
  std::int64_t gate;   ///< its first gate, in a tensor of all steps
  std::int64_t own;    ///< its first gate, in a matrix of the step

  __device__ RecurrentUnit(const RecurrentStep& at, std::int64_t item, std::int64_t gates)
      : row(item / at.size.hidden), unit(item % at.size.hidden) {
    const std::int64_t place = at.step * at.size.rows + row;
    state = place * at.size.hidden + unit;
    gate = place * gates * at.size.hidden + unit;
    own = row * gates * at.size.hidden + unit;
  }
};

__device__ inline bool is_over(const RecurrentStep& at, const RecurrentUnit& u, const std::int64_t* lengths) {
  return lengths != nullptr && at.step >= lengths[u.row];
}

/// d loss / d y: of all steps, or of each row's last one alone.
template <class Element>
struct StateGradient {
  const Element* dy;
  bool last;

  __device__ float at(const RecurrentStep& step, const RecurrentUnit& u, const std::int64_t* lengths) const {
    if (!last) return widen(dy[u.state]);
    return step.is_last(u.row, lengths) ? widen(dy[u.row * step.size.hidden + u.unit]) : 0.0F;
  }
};

template <class Element>
struct RnnForward {
  const Element* pre;
  const float* product;
  const std::int64_t* lengths;
  Element *y, *h;
};

template <class Element>
__global__ void rnn_step(RecurrentStep at, bool relu, RnnForward<Element> f) {
  for (std::int64_t item = first_item(); item < at.items(); item += item_stride()) {
    const RecurrentUnit u(at, item, Rnn::gates);
    float value = widen(f.pre[u.gate]);
    if (f.product != nullptr) value += f.product[item];
    value = relu ? (value < 0 ? 0 : value) : CudaMath::tanh(value);
    f.y[u.state] = f.h[item] = narrow<Element>(is_over(at, u, f.lengths) ? 0 : value);
  }
}

template <class Element>
struct RnnGradient {
  StateGradient<Element> dy;
  const Element* y;
  const float* product;
  const std::int64_t* lengths;
  Element *d, *dpre;
};

template <class Element>
__global__ void rnn_step_backward(RecurrentStep at, bool relu, RnnGradient<Element> b) {
  for (std::int64_t item = first_item(); item < at.items(); item += item_stride()) {
    const RecurrentUnit u(at, item, Rnn::gates);
    const float h = widen(b.y[u.state]);
    const float dh = b.dy.at(at, u, b.lengths) + (b.product == nullptr ? 0 : b.product[item]);
    const float value = dh * (relu ? (h > 0 ? 1.0F : 0.0F) : 1.0F - h * h);
    b.dpre[u.gate] = b.d[item] = narrow<Element>(is_over(at, u, b.lengths) ? 0 : value);
  }
}

template <class Element>
struct LstmForward {
  const Element* pre;
  const float* product;
  const Element* c0;  ///< or null
  const std::int64_t* lengths;
  Element *gates, *y, *h;
  float *cells, *c;
};

template <class Element>
__global__ void lstm_step(RecurrentStep at, LstmForward<Element> f) {
  const std::int64_t hidden = at.size.hidden;
  for (std::int64_t item = first_item(); item < at.items(); item += item_stride()) {
    const RecurrentUnit u(at, item, Lstm::gates);
    const bool over = is_over(at, u, f.lengths);
    const auto sum = [&](int gate) {
      const float own = f.product == nullptr ? 0 : f.product[u.own + gate * hidden];
      return own + widen(f.pre[u.gate + gate * hidden]);
    };
    const float i = CudaMath::sigmoid(sum(0));
    const float forget = CudaMath::sigmoid(sum(1));
    const float g = CudaMath::tanh(sum(2));
    const float o = CudaMath::sigmoid(sum(3));
    const float before = at.step > 0 ? f.c[item] : f.c0 == nullptr ? 0.0F : widen(f.c0[item]);
    const float cell = forget * before + i * g;
    f.c[item] = cell;
    f.cells[u.state] = over ? 0 : cell;
    f.y[u.state] = f.h[item] = narrow<Element>(over ? 0 : o * CudaMath::tanh(cell));
    f.gates[u.gate] = narrow<Element>(over ? 0 : i);
    f.gates[u.gate + hidden] = narrow<Element>(over ? 0 : forget);
    f.gates[u.gate + 2 * hidden] = narrow<Element>(over ? 0 : g);
    f.gates[u.gate + 3 * hidden] = narrow<Element>(over ? 0 : o);
  }
}

template <class Element>
struct LstmGradient {
  StateGradient<Element> dy;
  const float* dcells;  ///< or null
  const Element* gates;
  const float* cells;
  const Element* c0;  ///< or null
  const float* product;
  const std::int64_t* lengths;
  float* dc;
  Element *d, *dpre;
};

template <class Element>
__global__ void lstm_step_backward(RecurrentStep at, LstmGradient<Element> b) {
  const std::int64_t hidden = at.size.hidden;
  for (std::int64_t item = first_item(); item < at.items(); item += item_stride()) {
    const RecurrentUnit u(at, item, Lstm::gates);
    const auto put = [&](int gate, float value) {
      b.dpre[u.gate + gate * hidden] = b.d[u.own + gate * hidden] = narrow<Element>(value);
    };
    const bool is_first = at.step == at.size.steps - 1;
    if (is_over(at, u, b.lengths)) {
      for (int gate = 0; gate < Lstm::gates; ++gate) put(gate, 0);
      if (is_first) b.dc[item] = 0;
      continue;
    }
    const float i = widen(b.gates[u.gate]);
    const float forget = widen(b.gates[u.gate + hidden]);
    const float g = widen(b.gates[u.gate + 2 * hidden]);
    const float o = widen(b.gates[u.gate + 3 * hidden]);
    const float before = at.step > 0       ? b.cells[u.state - at.items()]
                         : b.c0 == nullptr ? 0.0F
                                           : widen(b.c0[item]);
    const float squashed = CudaMath::tanh(b.cells[u.state]);
    const float dh = b.dy.at(at, u, b.lengths) + (b.product == nullptr ? 0 : b.product[item]);
    float of_cell = is_first ? 0 : b.dc[item];
    if (b.dcells != nullptr) of_cell += b.dcells[u.state];
    of_cell += dh * o * (1.0F - squashed * squashed);
    b.dc[item] = of_cell * forget;
    put(0, of_cell * g * (i * (1.0F - i)));
    put(1, of_cell * before * (forget * (1.0F - forget)));
    put(2, of_cell * i * (1.0F - g * g));
    put(3, dh * squashed * (o * (1.0F - o)));
  }
}

}  // namespace lockstep::kernels
