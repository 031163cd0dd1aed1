#include "tests/bench/limits/onednn_product.h"

#include <fmt/format.h>

#include "tests/bench/limits/onednn_fastest.h"

namespace lockstep::bench {
namespace {

using dnnl::memory;
using Result = Product::Result;

double inner_product_seconds(const Product& p, const dnnl::engine& engine) {
  using Forward = dnnl::inner_product_forward;
  using Data = dnnl::inner_product_backward_data;
  using Weights = dnnl::inner_product_backward_weights;
  const auto type_of = [&](Result of) { return p.result == of ? p.result_dtype : p.factors; };
  const auto x = in_any_layout(type_of(Result::x), {p.size.rows, p.size.inputs});
  const auto w = in_any_layout(p.factors, {p.size.outputs, p.size.inputs});
  const auto y = in_any_layout(type_of(Result::y), {p.size.rows, p.size.outputs});
  const auto bias = p.bias ? in_any_layout(p.factors, {p.size.outputs}) : memory::desc();
  const auto forward =
      describe<Forward>(engine, epilogue_of(p.activation), dnnl::prop_kind::forward_training, x, w, bias, y);
  switch (p.result) {
    case Result::y:
      return fastest<Forward>(
          forward, with_bias(p, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, DNNL_ARG_BIAS), engine);
    case Result::x:
      return fastest<Data>(describe_gradient<Data>(engine, forward, x, w, y),
                           {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST}, engine);
    case Result::w: {
      const auto dw = in_any_layout(p.result_dtype, {p.size.outputs, p.size.inputs});
      const auto db = p.bias ? in_any_layout(p.result_dtype, {p.size.outputs}) : memory::desc();
      return fastest<Weights>(
          describe_gradient<Weights>(engine, forward, x, dw, db, y),
          with_bias(p, {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}, DNNL_ARG_DIFF_BIAS), engine);
    }
  }
  return no_seconds;
}

double matmul_seconds(const Product& p, const dnnl::engine& engine) {
  const auto [rows, inputs, outputs] = p.size;
  const auto factor = [&](std::int64_t m, std::int64_t n) { return in_any_layout(p.factors, {m, n}); };
  const auto result = [&](std::int64_t m, std::int64_t n) { return in_any_layout(p.result_dtype, {m, n}); };
  const auto time = [&](const memory::desc& a, const memory::desc& b, const memory::desc& c) {
    const std::vector<int> arguments{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    const dnnl::primitive_attr epilogue = epilogue_of(p.activation);
    if (!p.bias || p.result != Result::y) {
      return fastest<dnnl::matmul>(describe<dnnl::matmul>(engine, epilogue, a, b, c), arguments, engine);
    }
    const auto type = p.factors == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
    const memory::desc bias({1, p.size.outputs}, type, memory::format_tag::ab);
    return fastest<dnnl::matmul>(describe<dnnl::matmul>(engine, epilogue, a, b, bias, c),
                                 with_bias(p, arguments, DNNL_ARG_BIAS), engine);
  };
  switch (p.result) {
    case Result::y:
      return time(factor(rows, inputs), factor(inputs, outputs), result(rows, outputs));
    case Result::x:
      return time(factor(rows, outputs), factor(outputs, inputs), result(rows, inputs));
    case Result::w:
      return time(factor(outputs, rows), factor(rows, inputs), result(outputs, inputs));
  }
  return no_seconds;
}

}  // namespace

std::string Product::str() const {
  constexpr const char* names[] = {"forward", "data", "weights"};
  const std::string x = fmt::format("{}x{}", size.rows, size.inputs);
  const std::string w = fmt::format("{}x{}", size.outputs, size.inputs);
  return fmt::format("{:<8} {} * {}{}{}{}", names[static_cast<int>(result)], x, w,
                     result_dtype != factors ? fmt::format(" to {}", name_of(result_dtype)) : "",
                     bias ? ", bias" : "", activation == kernels::Activation::relu ? ", relu" : "");
}

double onednn_seconds(const Product& product) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return std::min(if_implemented([&] { return inner_product_seconds(product, engine); }),
                  if_implemented([&] { return matmul_seconds(product, engine); }));
}

}  // namespace lockstep::bench
