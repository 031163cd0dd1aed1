#include <omp.h>

#include <algorithm>
#include <cmath>

#include "tests/ops/conformance.h"
#include "tests/ops/layer_run.h"

namespace lockstep::ops {
namespace {

enum class Cell { tanh, relu, lstm };

/// A layer's operands as the reference has them; those that may be null are left out.
struct Operands {
  const Values* x;  ///< or, without weight_ih, `pre`
  const Values* weight_ih = nullptr;
  const Values* weight_hh;
  const Values* bias_ih = nullptr;
  const Values* bias_hh = nullptr;
  const Values* h0 = nullptr;
  const Values* c0 = nullptr;
  const Values* lengths = nullptr;

  /// `parameters`: in their order.
  Operands(const Values& input, const Values* parameters)
      : x(&input),
        weight_ih(parameters),
        weight_hh(parameters + 1),
        bias_ih(parameters + 2),
        bias_hh(parameters + 3) {}
  Operands(const Values& pre, const Values& weight) : x(&pre), weight_hh(&weight) {}
};

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

/// One step of one row: h and c become those of the next step.
void advance(Cell cell, const Operands& in, std::size_t at, std::vector<double>& h, std::vector<double>& c) {
  const std::size_t hidden = h.size();
  const auto features = static_cast<std::size_t>(in.x->shape[2]);
  const double* const x = in.x->data.data() + at * features;
  std::vector<double> pre(static_cast<std::size_t>(in.weight_hh->shape[0]));
  for (std::size_t k = 0; k < pre.size(); ++k) {
    pre[k] = in.weight_ih == nullptr ? x[k] : in.bias_ih->data[k] + in.bias_hh->data[k];
    for (std::size_t i = 0; in.weight_ih != nullptr && i < features; ++i)
      pre[k] += in.weight_ih->data[k * features + i] * x[i];
    for (std::size_t i = 0; i < hidden; ++i) pre[k] += in.weight_hh->data[k * hidden + i] * h[i];
  }
  for (std::size_t u = 0; u < hidden; ++u) {
    if (cell != Cell::lstm) {
      h[u] = cell == Cell::tanh ? std::tanh(pre[u]) : std::max(pre[u], 0.0);
      continue;
    }
    c[u] = sigmoid(pre[hidden + u]) * c[u] + sigmoid(pre[u]) * std::tanh(pre[2 * hidden + u]);
    h[u] = sigmoid(pre[3 * hidden + u]) * std::tanh(c[u]);
  }
}

/// All h (T, N, H) and, with `ends`, behind the last step h_n and of an LSTM c_n: (T + 1 or 2, N, H).
Values reference(Cell cell, const Operands& in, bool ends) {
  const std::int64_t steps = in.x->shape[0];
  const std::int64_t rows = in.x->shape[1];
  const std::int64_t hidden = in.weight_hh->shape[1];
  const std::int64_t extra = !ends ? 0 : cell == Cell::lstm ? 2 : 1;
  using States = std::vector<std::vector<double>>;  // by row
  const auto states = [&](const Values* given) {
    States by_row(static_cast<std::size_t>(rows), std::vector<double>(static_cast<std::size_t>(hidden)));
    for (std::size_t i = 0; given != nullptr && i < given->data.size(); ++i) {
      by_row[i / static_cast<std::size_t>(hidden)][i % static_cast<std::size_t>(hidden)] = given->data[i];
    }
    return by_row;
  };
  const auto length = [&](std::size_t row) {
    return in.lengths == nullptr ? static_cast<double>(steps) : in.lengths->data[row];
  };
  States h = states(in.h0);
  States c = states(in.c0);
  const std::vector<double> nothing(static_cast<std::size_t>(hidden));
  Values y{{steps + extra, rows, hidden}, {}};
  const auto append = [&](const std::vector<double>& numbers) {
    y.data.insert(y.data.end(), numbers.begin(), numbers.end());
  };
  for (std::int64_t step = 0; step < steps; ++step) {
    for (std::size_t row = 0; row < h.size(); ++row) {
      const bool over = static_cast<double>(step) >= length(row);
      if (!over) advance(cell, in, static_cast<std::size_t>(step * rows) + row, h[row], c[row]);
      append(over ? nothing : h[row]);
    }
  }
  for (const States* ended : {&h, &c}) {
    for (std::size_t row = 0; row < h.size() && (ended == &h ? extra > 0 : extra > 1); ++row)
      append(length(row) > 0 ? (*ended)[row] : nothing);
  }
  return y;
}

/// What the last steps give, behind all of them.
Tensor with_ends(const model::RecurrentOutput& output, std::optional<Tensor> lengths) {
  const Tensor& y = output.y;
  const Shape one{1, y.shape()[1], y.shape()[2]};
  std::vector<Tensor> parts{y};
  for (const auto* steps : {&output.steps.h, &output.steps.c}) {
    if (steps->empty()) continue;
    const Tensor last = last_step(steps->back(), lengths);
    parts.push_back(reshape(last.dtype() == y.dtype() ? last : cast(last, y.dtype()), one));
  }
  return concat(parts, 0);
}

constexpr std::int64_t hidden = 5;
const std::vector<std::string> parameters{"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
const std::vector<DType> all_dtypes{DType::f32, DType::bf16, DType::f16};

std::vector<std::string> named(std::vector<std::string> inputs) {
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  return inputs;
}

}  // namespace

TEST_CASE("rnn: tanh and relu") {
  const bool relu = GENERATE(false, true);
  conform({.name = relu ? "rnn_relu" : "rnn_tanh",
           .layer =
               [=](const std::vector<Tensor>& in) {
                 return rnn(in[0], "rnn", {.hidden = hidden, .relu = relu}).y;
               },
           .reference =
               [=](const std::vector<Values>& in) {
                 return reference(relu ? Cell::relu : Cell::tanh, {in[0], &in[1]}, false);
               },
           .operands = named({"x"}),
           .shapes = {{{4, 3, 7}}, {{1, 1, 1}}, {{2, 13, 3}}, {{3, 16, 2}}},
           .tolerance = 1e-4});
}

TEST_CASE("rnn: the state before the first step and lengths are given, h_n is read") {
  conform({.name = "rnn_lengths",
           .layer =
               [](const std::vector<Tensor>& in) {
                 return with_ends(rnn_steps(in[1], in[2], false, in[0], {.h = {in[3]}, .c = {}}), in[0]);
               },
           .reference =
               [](const std::vector<Values>& in) {
                 Operands operands(in[1], in[2]);
                 operands.lengths = &in[0];
                 operands.h0 = &in[3];
                 return reference(Cell::tanh, operands, true);
               },
           .operands = {"lengths", "pre", "weight_hh", "h0"},
           .shapes = {{{7}, {3, 7, hidden}, {hidden, hidden}, {7, hidden}},
                      {{4}, {1, 4, hidden}, {hidden, hidden}, {4, hidden}}},
           .tolerance = 1e-4,
           .dtypes = all_dtypes,
           .vocab = {4}});
}

TEST_CASE("lstm") {
  conform({.name = "lstm",
           .layer = [](const std::vector<Tensor>& in) { return lstm(in[0], "lstm", {.hidden = hidden}).y; },
           .reference =
               [](const std::vector<Values>& in) {
                 return reference(Cell::lstm, {in[0], &in[1]}, false);
               },
           .operands = named({"x"}),
           .shapes = {{{4, 3, 7}}, {{1, 1, 1}}, {{2, 13, 3}}, {{3, 16, 2}}},
           .tolerance = 1e-4});
}

TEST_CASE("lstm: two layers") {
  std::vector<std::string> operands = named({"x"});
  for (const std::string& name : parameters) operands.push_back(name + "_l1");
  conform({.name = "lstm_stacked",
           .layer =
               [](const std::vector<Tensor>& in) {
                 return lstm(in[0], "lstm", {.hidden = hidden, .layers = 2}).y;
               },
           .reference =
               [](const std::vector<Values>& in) {
                 const Values first = reference(Cell::lstm, {in[0], &in[1]}, false);
                 return reference(Cell::lstm, {first, &in[5]}, false);
               },
           .operands = std::move(operands),
           .shapes = {{{2, 3, 4}}},
           .tolerance = 1e-4});
}

TEST_CASE("lstm: the states before the first step and lengths are given, h_n and c_n are read") {
  constexpr std::int64_t columns = 4 * hidden;
  conform({.name = "lstm_lengths",
           .layer =
               [](const std::vector<Tensor>& in) {
                 return with_ends(lstm_steps(in[1], in[2], in[0], {.h = {in[3]}, .c = {in[4]}}), in[0]);
               },
           .reference =
               [](const std::vector<Values>& in) {
                 Operands operands(in[1], in[2]);
                 operands.lengths = &in[0];
                 operands.h0 = &in[3];
                 operands.c0 = &in[4];
                 return reference(Cell::lstm, operands, true);
               },
           .operands = {"lengths", "pre", "weight_hh", "h0", "c0"},
           .shapes = {{{7}, {3, 7, columns}, {columns, hidden}, {7, hidden}, {7, hidden}},
                      {{4}, {1, 4, columns}, {columns, hidden}, {4, hidden}, {4, hidden}}},
           .tolerance = 1e-4,
           .dtypes = all_dtypes,
           .vocab = {4}});
}

TEST_CASE("last_step without lengths") {
  conform(
      {.name = "last_step",
       .layer = [](const std::vector<Tensor>& in) { return last_step(in[0]); },
       .reference =
           [](const std::vector<Values>& in) {
             const Shape& shape = in[0].shape;
             return Values{{shape[1], shape[2]}, {in[0].data.end() - shape.elements(1), in[0].data.end()}};
           },
       .operands = {"x"},
       .shapes = {{{3, 5, 7}}, {{1, 1, 1}}},
       .dtypes = all_dtypes});
}

TEST_CASE("recurrent layers of many units in bf16: products by a library, where the processor has them") {
  const bool is_lstm = GENERATE(false, true);
  constexpr std::int64_t rows = 13;
  constexpr std::int64_t units = 80;
  const std::int64_t columns = is_lstm ? 4 * units : units;
  const auto layer = [=](const std::vector<Tensor>& in) {
    const model::RecurrentStates initial{.h = {in[3]}, .c = {}};
    return is_lstm ? with_ends(lstm_steps(in[1], in[2], in[0], {.h = {in[3]}, .c = {in[4]}}), in[0])
                   : with_ends(rnn_steps(in[1], in[2], false, in[0], initial), in[0]);
  };
  const auto function = [=](const std::vector<Values>& in) {
    Operands operands(in[1], in[2]);
    operands.lengths = &in[0];
    operands.h0 = &in[3];
    operands.c0 = is_lstm ? &in[4] : nullptr;
    return reference(is_lstm ? Cell::lstm : Cell::tanh, operands, true);
  };
  kernels::Types types{{DType::i64, {rows}},
                       {DType::bf16, {3, rows, columns}},
                       {DType::bf16, {columns, units}},
                       {DType::bf16, {rows, units}}};
  if (is_lstm) types.push_back({DType::bf16, {rows, units}});
  LayerRun run(layer, types);
  std::vector<Values> operands;
  for (const Shape& shape : run.operand_shapes()) {
    operands.push_back(kernels::test::random_values(shape, static_cast<unsigned>(operands.size()) + 1));
    for (double& value : operands.back().data) value /= 4;
  }
  for (std::size_t row = 0; row < operands[0].data.size(); ++row)
    operands[0].data[row] = static_cast<double>(row % 4);
  const Values dy = kernels::test::random_values(run.output_shape(), 77);
  const LayerResult got = run.run(operands, dy);
  require_close(got.y, function(operands), 0.02);
  for (std::size_t i = 1; i < operands.size(); ++i) {
    INFO("operand " << i);
    require_gradient(got.gradients[i], function, operands, i, dy, 0.1);
  }
}

TEST_CASE("recurrent layers of many units, whose weights are small: the same bits from any team") {
  const bool is_lstm = GENERATE(false, true);
  const std::int64_t units = 150;
  const auto layer = [=](const std::vector<Tensor>& in) {
    return is_lstm ? lstm(in[0], "r", {.hidden = units}).y : rnn(in[0], "r", {.hidden = units}).y;
  };
  LayerRun run(layer, std::vector<Shape>{{3, 13, 33}}, DType::f32);
  std::vector<Values> operands;
  for (const Shape& shape : run.operand_shapes()) {
    operands.push_back(kernels::test::random_values(shape, static_cast<unsigned>(operands.size()) + 1));
    for (double& value : operands.back().data) value /= 8;
  }
  const Values dy = kernels::test::random_values(run.output_shape(), 77);
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const LayerResult alone = run.run(operands, dy);
  omp_set_num_threads(3);
  const LayerResult by_three = run.run(operands, dy);
  omp_set_num_threads(before);
  CHECK(alone.y.data == by_three.y.data);
  // Elsewhere the products over all steps are a library's, which may part its sums among the team.
  const bool sums_alike = kernels::test::device().instruction_set().starts_with("avx512");
  for (std::size_t i = 0; i < operands.size(); ++i)
    require_close(by_three.gradients[i], alone.gradients[i], sums_alike ? 0 : 1e-5);
  const auto function = [=](const std::vector<Values>& in) {
    return reference(is_lstm ? Cell::lstm : Cell::tanh, {in[0], &in[1]}, false);
  };
  require_close(alone.y, function(operands), 1e-5);
  for (std::size_t i = 0; i < 3; ++i) require_gradient(alone.gradients[i], function, operands, i, dy, 1e-3);
}

}  // namespace lockstep::ops
