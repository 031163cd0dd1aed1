#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/classifier.h"
#include "tests/unit/kernels/harness.h"

namespace lockstep::ops {

using kernels::ControlBlock;
using kernels::StepState;
using kernels::test::Values;

/// A linear map and its cross entropy.
struct Case {
  Shape x;
  std::int64_t classes = 8200;
  bool bias = false;
  float smoothing = 0;
  std::int32_t valid = 1000;  ///< samples
  DType dtype = DType::f32;
  std::int64_t chunk = 0;
  std::int64_t every = 1;  ///< of so many rows one has a target
};

struct Problem {
  Values x, weight, bias;
  std::vector<std::int64_t> targets;
};

struct Outcome {
  ControlBlock control;
  std::vector<float> dx, dweight, dbias;
};

inline Problem problem_of(const Case& c) {
  using kernels::test::random_values;
  const std::int64_t inputs = c.x[c.x.rank() - 1];
  Problem problem{
      random_values(c.x, 1), random_values({c.classes, inputs}, 2), random_values({c.classes}, 3), {}};
  for (double& weight : problem.weight.data) weight /= 2;  // exact in bf16 too
  for (std::int64_t row = 0; row < c.x.elements() / inputs; ++row) {
    problem.targets.push_back(row % 5 == 3 || row % c.every != 0 ? -100 : (row * 7919 + 12) % c.classes);
  }
  problem.targets.back() = c.classes - 1;
  return problem;
}

/// From the definition, in double; products in no order that matters.
inline Outcome reference(const Case& c, const Problem& p, const StepState& state) {
  const std::int64_t inputs = c.x[c.x.rank() - 1];
  const std::int64_t rows_of_sample = c.x.rank() == 3 ? c.x[1] : 1;
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  std::vector<double> dx(p.x.data.size());
  std::vector<double> dweight(at(c.classes * inputs));
  std::vector<double> dbias(at(c.classes));
  std::vector<double> logits(at(c.classes));
  Outcome out{.control = {}, .dx = {}, .dweight = {}, .dbias = {}};
  double loss = 0;
  for (std::int64_t row = 0; row < static_cast<std::int64_t>(p.targets.size()); ++row) {
    const std::int64_t target = p.targets[at(row)];
    if (row >= c.valid * rows_of_sample || target == -100) continue;
    double total = 0;
    double sum = 0;
    for (std::int64_t k = 0; k < c.classes; ++k) {
      double logit = c.bias ? p.bias.data[at(k)] : 0;
      for (std::int64_t i = 0; i < inputs; ++i)
        logit += p.x.data[at(row * inputs + i)] * p.weight.data[at(k * inputs + i)];
      logits[at(k)] = logit;
      total += std::exp(logit);
      sum += logit;
    }
    const double log_total = std::log(total);
    const auto classes = static_cast<double>(c.classes);
    loss += (1 - c.smoothing) * (log_total - logits[at(target)]) + c.smoothing * (log_total - sum / classes);
    int before = 0;
    for (std::int64_t k = 0; k < c.classes; ++k) {
      const double other = logits[at(k)] - logits[at(target)];
      before += other > 0 || (other == 0 && k < target) ? 1 : 0;
      double g = std::exp(logits[at(k)] - log_total) - c.smoothing / classes;
      if (k == target) g -= 1 - c.smoothing;
      g *= state.loss_scale * state.scaler_scale;
      dbias[at(k)] += g;
      for (std::int64_t i = 0; i < inputs; ++i) {
        dx[at(row * inputs + i)] += g * p.weight.data[at(k * inputs + i)];
        dweight[at(k * inputs + i)] += g * p.x.data[at(row * inputs + i)];
      }
    }
    out.control.correct += before == 0 ? 1 : 0;
    out.control.top5 += before < 5 ? 1 : 0;
    out.control.targets += 1;
  }
  out.control.loss = static_cast<float>(loss * state.loss_scale);
  out.dx.assign(dx.begin(), dx.end());
  out.dweight.assign(dweight.begin(), dweight.end());
  out.dbias.assign(dbias.begin(), dbias.end());
  return out;
}

}  // namespace lockstep::ops
