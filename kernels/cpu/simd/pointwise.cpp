#include "kernels/pointwise.h"

#include "kernels/cpu/simd/math.h"
#include "kernels/pointwise_functions.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

/// Elements at a time in a chain, so that the results of all its steps stay in the first cache.
constexpr std::int64_t block = 512;

/// One step over n elements of f32 arrays without gaps.
using Loop = void(const float* a, const float* b, const float* c, float* result, std::int64_t n);

template <class Function>
struct Unary {
  static void value(const float* x, const float*, const float*, float* y, std::int64_t n) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] = Function::template value<Math>(x[i]);
  }
  static void gradient(const float* of, const float* dy, const float*, float* dx, std::int64_t n) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) dx[i] = Function::template gradient<Math>(of[i], dy[i]);
  }
};

template <class Function>
struct Binary {
  static void value(const float* a, const float* b, const float*, float* y, std::int64_t n) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] = Function::template value<Math>(a[i], b[i]);
  }
  static void gradient_a(const float* a, const float* b, const float* dy, float* da, std::int64_t n) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) da[i] = Function::template gradient_a<Math>(a[i], b[i], dy[i]);
  }
  static void gradient_b(const float* a, const float* b, const float* dy, float* db, std::int64_t n) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) db[i] = Function::template gradient_b<Math>(a[i], b[i], dy[i]);
  }
};

/// By function and part.
constexpr Loop* loops[][3] = {
#define LOCKSTEP_UNARY(Function, name) \
  {Unary<pointwise::Function>::value, Unary<pointwise::Function>::gradient, nullptr},
#define LOCKSTEP_BINARY(Function, name)                                         \
  {Binary<pointwise::Function>::value, Binary<pointwise::Function>::gradient_a, \
   Binary<pointwise::Function>::gradient_b},
#include "kernels/pointwise.def"
};

void apply(const Pointwise::Step& step, const float* const (&operands)[3], float* result, std::int64_t n) {
  loops[static_cast<int>(step.function)][static_cast<int>(step.part)](operands[0], operands[1], operands[2],
                                                                      result, n);
}

template <class Element>
void widen(const Element* from, std::int64_t stride, float* to, std::int64_t n) {
  if (stride == 1) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) to[i] = load(from + i);
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i] = load(from + i * stride);
  }
}

/// n elements from number `at` on of an operand that starts again after `period`. Behind the first period
/// they are copies of those written, twice as many each time: periods may be short.
template <class Element>
void widen_again(const Element* from, std::int64_t period, std::int64_t at, float* to, std::int64_t n) {
  const std::int64_t skip = at % period;
  const std::int64_t whole = n < period ? n : period;
  const std::int64_t rest = whole < period - skip ? whole : period - skip;
  widen(from + skip, 1, to, rest);
  widen(from, 1, to + rest, whole - rest);
  for (std::int64_t done = whole; done < n; done *= 2) {
    widen(to, 1, to + done, n - done < done ? n - done : done);
  }
}

/// The inputs and results of a block as f32 arrays without gaps: where an input is one, in its place.
template <class Element>
class Block {
 public:
  Block(const Pointwise& op, const PointwiseRun& run, std::int64_t at, std::int64_t n) : n_(n) {
    for (std::size_t i = 0; i < op.inputs; ++i) {
      if (run.in_period[i] != 0) {
        widen_again(static_cast<const Element*>(run.in[i]), run.in_period[i], at, room_[i], n);
        operands_[i] = room_[i];
        continue;
      }
      const auto* from = static_cast<const Element*>(run.in[i]) + at * run.in_stride[i];
      if constexpr (is_float) {
        if (run.in_stride[i] == 1) {
          operands_[i] = from;
          continue;
        }
      }
      widen(from, run.in_stride[i], room_[i], n);
      operands_[i] = room_[i];
    }
    for (std::size_t i = 0; i < op.step_count; ++i) {
      operands_[Pointwise::most_inputs + i] = room_[Pointwise::most_inputs + i];
    }
    if constexpr (is_float) {
      for (std::size_t i = 0; i < op.output_count; ++i) {
        if (!is_read_later(op, run, i)) {
          operands_[Pointwise::most_inputs + op.outputs[i]] = static_cast<Element*>(run.out[i]) + at;
        }
      }
    }
  }

  void compute(const Pointwise& op) {
    for (std::size_t i = 0; i < op.step_count; ++i) {
      const Pointwise::Step& step = op.steps[i];
      const float* const of[3] = {operands_[step.operands[0]], operands_[step.operands[1]],
                                  operands_[step.operands[2]]};
      apply(step, of, const_cast<float*>(operands_[Pointwise::most_inputs + i]), n_);
    }
  }

  /// Results that are not in their place yet.
  void write(const Pointwise& op, const PointwiseRun& run, std::int64_t at) const {
    for (std::size_t i = 0; i < op.output_count; ++i) {
      const float* const from = operands_[Pointwise::most_inputs + op.outputs[i]];
      auto* const to = static_cast<Element*>(run.out[i]) + at;
      if (static_cast<const void*>(from) == to) continue;
#pragma omp simd
      for (std::int64_t k = 0; k < n_; ++k) store(to + k, from[k]);
    }
  }

 private:
  static constexpr bool is_float = sizeof(Element) == sizeof(float);

  /// Whether output i takes the memory of an input that steps behind its own may read.
  static bool is_read_later(const Pointwise& op, const PointwiseRun& run, std::size_t i) {
    bool shares = false;
    for (std::size_t in = 0; in < op.inputs; ++in) shares = shares || run.in[in] == run.out[i];
    return shares && op.outputs[i] + 1 < op.step_count;
  }

  static constexpr std::size_t most = Pointwise::most_inputs + Pointwise::most_steps;

  std::int64_t n_;
  const float* operands_[most] = {};
  alignas(64) float room_[most][block];
};

template <class Element>
void run_blocks(const Pointwise& op, const PointwiseRun& run) {
  for (std::int64_t at = 0; at < run.n; at += block) {
    const std::int64_t n = run.n - at < block ? run.n - at : block;
    Block<Element> values(op, run, at, n);
    values.compute(op);
    values.write(op, run, at);
  }
}

bool is_one_plain_step(const Pointwise& op, const PointwiseRun& run) {
  bool plain = op.step_count == 1 && run.dtype == DType::f32;
  for (std::size_t i = 0; i < op.inputs; ++i) {
    plain = plain && run.in_stride[i] == 1 && run.in_period[i] == 0;
  }
  return plain;
}

}  // namespace

void run(const Pointwise& op, const PointwiseRun& run) {
  if (is_one_plain_step(op, run)) {
    const float* operands[3] = {};
    for (std::size_t i = 0; i < op.inputs; ++i) {
      operands[i] = static_cast<const float*>(run.in[op.steps[0].operands[i]]);
    }
    apply(op.steps[0], operands, static_cast<float*>(run.out[0]), run.n);
  } else if (run.dtype == DType::f32) {
    run_blocks<float>(op, run);
  } else {
    run_blocks<Bf16>(op, run);
  }
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
