#pragma once

/// A function of both the CUDA and the SIMD kernels. Always inlined: SIMD kernels are compiled once per
/// instruction set, and the linker would keep a single copy of it.
#ifdef __CUDACC__
#define LOCKSTEP_INLINE __host__ __device__ __forceinline__
#else
#define LOCKSTEP_INLINE [[gnu::always_inline]] inline
#endif

/// Functions of single numbers, written once for CPU and GPU. `M` is the math of whoever computes: M::exp,
/// M::tanh, M::erf, M::rsqrt. A line in pointwise.def makes kernels and a layer of each.
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

/// A binary function has its value and the gradients da and db.
struct Add {
  static constexpr bool keeps_zero = true;

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
