#pragma once

/// A function of both the CUDA and the SIMD kernels. Always inlined: SIMD kernels are compiled once per
/// instruction set, and the linker would keep a single copy of it.
#ifdef __CUDACC__
#define LOCKSTEP_INLINE __host__ __device__ __forceinline__
#else
#define LOCKSTEP_INLINE [[gnu::always_inline]] inline
#endif

/// Functions of single numbers, written once for CPU and GPU. `M` is the math of whoever computes: M::exp,
/// M::exp_or_zero (of x <= 0), M::tanh, M::sigmoid, M::erf, M::rsqrt. A line in pointwise.def makes kernels
/// and a layer of each.
namespace lockstep::kernels::pointwise {

/// A unary function has its value, and its gradient dx from dy and x, or from dy and y where
/// `gradient_from_output` says so: then x need not be kept. `keeps_zero`: it maps 0 to 0, and so the padding
/// of a blocked layout to itself.
struct Relu {
  static constexpr bool gradient_from_output = true;
  static constexpr bool keeps_zero = true;

  template <class M, class T>
  LOCKSTEP_INLINE static T value(T x) {
    return x < 0 ? 0 : x;  // not x > 0 ? x : 0: a NaN stays
  }
  template <class M, class T>
  LOCKSTEP_INLINE static T gradient(T y, T dy) {
    return y > 0 ? dy : 0;
  }
};

struct Tanh {
  static constexpr bool gradient_from_output = true;
  static constexpr bool keeps_zero = true;

  template <class M, class T>
  LOCKSTEP_INLINE static T value(T x) {
    return M::tanh(x);
  }
  template <class M, class T>
  LOCKSTEP_INLINE static T gradient(T y, T dy) {
    return dy * (1 - y * y);
  }
};

struct Sigmoid {
  static constexpr bool gradient_from_output = true;
  static constexpr bool keeps_zero = false;

  template <class M, class T>
  LOCKSTEP_INLINE static T value(T x) {
    return M::sigmoid(x);
  }
  template <class M, class T>
  LOCKSTEP_INLINE static T gradient(T y, T dy) {
    return dy * (1 - y) * y;
  }
};

/// x sigmoid(x), also called swish.
struct Silu {
  static constexpr bool gradient_from_output = false;
  static constexpr bool keeps_zero = true;

  template <class M, class T>
  LOCKSTEP_INLINE static T value(T x) {
    return x * M::sigmoid(x);
  }
  template <class M, class T>
  LOCKSTEP_INLINE static T gradient(T x, T dy) {
    const T s = M::sigmoid(x);
    return dy * s * (1 + x * (1 - s));
  }
};

/// min(max(x + 3, 0), 6) / 6; a NaN stays. At -3 and 3 the slope is 0, as in PyTorch.
struct Hardsigmoid {
  static constexpr bool gradient_from_output = false;
  static constexpr bool keeps_zero = false;

  /// Six times the value.
  template <class T>
  LOCKSTEP_INLINE static T clamped(T x) {
    const T raised = x + 3;
    return raised < 0 ? 0 : raised > 6 ? 6 : raised;
  }
  template <class M, class T>
  LOCKSTEP_INLINE static T value(T x) {
    return clamped(x) / 6;
  }
  template <class M, class T>
  LOCKSTEP_INLINE static T gradient(T x, T dy) {
    return x > -3 && x < 3 ? dy / 6 : 0;
  }
};

/// x hardsigmoid(x). The slope is 0 at -3 and 1 at 3, as in PyTorch.
struct Hardswish {
  static constexpr bool gradient_from_output = false;
  static constexpr bool keeps_zero = true;

  template <class M, class T>
  LOCKSTEP_INLINE static T value(T x) {
    return x * Hardsigmoid::clamped(x) / 6;
  }
  template <class M, class T>
  LOCKSTEP_INLINE static T gradient(T x, T dy) {
    const T inside = dy * (x / 3 + static_cast<T>(0.5));
    return x <= -3 ? 0 : x < 3 ? inside : dy;
  }
};

/// x Phi(x), Phi the normal distribution: nn.GELU(). The slope is Phi(x) + x phi(x), phi its density.
struct Gelu {
  static constexpr bool gradient_from_output = false;
  static constexpr bool keeps_zero = true;
  static constexpr double inverse_root_2 = 0.70710678118654752440;
  static constexpr double inverse_root_2_pi = 0.39894228040143267794;

  template <class M, class T>
  LOCKSTEP_INLINE static T distribution(T x) {
    return static_cast<T>(0.5) * (1 + M::erf(x * static_cast<T>(inverse_root_2)));
  }
  template <class M, class T>
  LOCKSTEP_INLINE static T value(T x) {
    return x * distribution<M>(x);
  }
  template <class M, class T>
  LOCKSTEP_INLINE static T gradient(T x, T dy) {
    const T density = M::exp(static_cast<T>(-0.5) * x * x) * static_cast<T>(inverse_root_2_pi);
    return dy * (distribution<M>(x) + x * density);
  }
};

/// x (1 + tanh u) / 2 = x sigmoid(v) with v = 2 u = 2 sqrt(2 / pi) (x + 0.044715 x^3): nn.GELU("tanh"),
/// GPT-2's. The sigmoid and its slope are made of e^-|v|, so that neither is a small difference of large
/// numbers.
struct GeluTanh {
  static constexpr bool gradient_from_output = false;
  static constexpr bool keeps_zero = true;
  static constexpr double scale = 1.59576912160573071176;  // 2 sqrt(2 / pi)
  static constexpr double cubic = 0.044715;

  template <class M, class T>
  LOCKSTEP_INLINE static T decay(T x) {
    const T v = x * (static_cast<T>(scale) + static_cast<T>(scale * cubic) * x * x);
    return M::exp_or_zero(v < -v ? v : -v);
  }
  template <class M, class T>
  LOCKSTEP_INLINE static T value(T x) {
    const T e = decay<M>(x);
    return x * (x > 0 ? 1 : e) / (1 + e);
  }
  template <class M, class T>
  LOCKSTEP_INLINE static T gradient(T x, T dy) {
    const T e = decay<M>(x);
    const T r = 1 / (1 + e);
    const T slope_of_v = static_cast<T>(scale) + static_cast<T>(3 * scale * cubic) * x * x;
    return dy * r * ((x > 0 ? 1 : e) + x * e * r * slope_of_v);
  }
};

/// A binary function has its value and the gradients da and db, from a, b and dy. `passes_gradient`: both are
/// dy itself, so that backward needs no pass to compute them.
struct Add {
  static constexpr bool keeps_zero = true;
  static constexpr bool passes_gradient = true;

  template <class M, class T>
  LOCKSTEP_INLINE static T value(T a, T b) {
    return a + b;
  }
  template <class M, class T>
  LOCKSTEP_INLINE static T gradient_a(T, T, T dy) {
    return dy;
  }
  template <class M, class T>
  LOCKSTEP_INLINE static T gradient_b(T, T, T dy) {
    return dy;
  }
};

struct Mul {
  static constexpr bool keeps_zero = true;
  static constexpr bool passes_gradient = false;

  template <class M, class T>
  LOCKSTEP_INLINE static T value(T a, T b) {
    return a * b;
  }
  template <class M, class T>
  LOCKSTEP_INLINE static T gradient_a(T, T b, T dy) {
    return dy * b;
  }
  template <class M, class T>
  LOCKSTEP_INLINE static T gradient_b(T a, T, T dy) {
    return dy * a;
  }
};

}  // namespace lockstep::kernels::pointwise
