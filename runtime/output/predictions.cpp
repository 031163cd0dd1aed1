#include "runtime/output/predictions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "kernels/base/safetensors.h"
#include "runtime/output/standard_output.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t most_shown = 5;
constexpr std::array state_names{"h_n", "c_n"};

void require_finite(std::span<const float> row, std::int64_t sample) {
  if (std::ranges::all_of(row, [](float value) { return std::isfinite(value); })) return;
  throw NonFiniteError(fmt::format(
      "what the model gives for sample {} is not finite: the weights are not, or its values", sample));
}

/// In double, and from the largest on, so that nothing overflows.
std::vector<double> softmax(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> shares;
  for (const float logit : logits) shares.push_back(std::exp(logit - largest));
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  return shares;
}

/// Of equals the lower number first.
std::vector<std::size_t> likeliest(const std::vector<double>& shares) {
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto shown = static_cast<std::ptrdiff_t>(std::min(most_shown, order.size()));
  std::partial_sort(order.begin(), order.begin() + shown, order.end(), [&](std::size_t a, std::size_t b) {
    return shares[a] > shares[b] || (shares[a] == shares[b] && a < b);
  });
  order.resize(static_cast<std::size_t>(shown));
  return order;
}

void add_class(Json& json, std::size_t number, double share, const std::vector<std::string>& names) {
  json["class"] = number;
  if (number < names.size() && !names[number].empty()) json["name"] = names[number];
  json["probability"] = share;
}

/// The likeliest, and the five likeliest. `names` count for as many classes alone.
void add_classes(Json& json, std::span<const float> logits, const std::vector<std::string>& names) {
  const std::vector<double> shares = softmax(logits);
  const std::vector<std::size_t> best = likeliest(shares);
  const std::vector<std::string> no_names;
  const auto& class_names = names.size() == logits.size() ? names : no_names;
  add_class(json, best.front(), shares[best.front()], class_names);
  Json top = Json::array();
  for (const std::size_t number : best) {
    Json entry = Json::object();
    add_class(entry, number, shares[number], class_names);
    top.push_back(entry);
  }
  json["top5"] = top;
}

/// How many kinds of states there are: h, or h and c.
std::size_t kinds_in(const Shape& states) {
  return states.rank() == 0 ? 0 : static_cast<std::size_t>(states[0]);
}

void add_states(Json& json, const FinalStates& states) {
  auto at = states.values.begin();
  for (std::size_t kind = 0; kind < kinds_in(states.shape); ++kind) {
    Json layers = Json::array();
    for (std::int64_t layer = 0; layer < states.shape[1]; ++layer) {
      layers.push_back(std::vector<double>(at, at + states.shape[2]));
      at += states.shape[2];
    }
    json[state_names[kind]] = layers;
  }
}

}  // namespace

std::string prediction_line(std::int64_t index, std::span<const float> output, bool classes,
                            const PredictionNames& names, const FinalStates& states) {
  Json json{{"index", index}};
  if (!names.files.empty()) json["file"] = names.files[static_cast<std::size_t>(index)];
  if (classes) {
    add_classes(json, output, names.classes);
  } else {
    json["values"] = std::vector<double>(output.begin(), output.end());
  }
  add_states(json, states);
  return json.dump();
}

/// Of the outputs of a sample those that its line is of.
std::span<const float> PredictionOutput::shown(std::span<const float> outputs, std::int64_t sample) const {
  if (kind_.tokens == 0) return outputs;
  const std::size_t classes = outputs.size() / static_cast<std::size_t>(kind_.tokens);
  return outputs.subspan(static_cast<std::size_t>(kind_.last_token(sample)) * classes, classes);
}

std::int64_t PredictionOutput::place_of(std::int64_t sample) const {
  return kind_.place ? kind_.place(sample) : sample;
}

void PredictionOutput::keep_states(const FinalStates& states) {
  states_.resize(kinds_in(states.shape));
  const std::size_t of_kind = states_.empty() ? 0 : states.values.size() / states_.size();
  for (std::size_t kind = 0; kind < states_.size(); ++kind) {
    const auto values = states.values.subspan(kind * of_kind, of_kind);
    states_[kind].insert(states_[kind].end(), values.begin(), values.end());
  }
}

void PredictionOutput::take(const PredictedBatch& batch, std::span<const std::int64_t> unreadable) {
  columns_ = batch.columns;
  set_size_ = batch.set_size;
  const auto width = static_cast<std::size_t>(batch.columns);
  const std::size_t samples = batch.samples.size();
  const std::size_t state_width = samples == 0 ? 0 : batch.states.size() / samples;
  for (std::size_t at = 0; at < samples; ++at) {
    const std::int64_t sample = batch.samples[at];
    const bool was_read = std::ranges::find(unreadable, sample) == unreadable.end();
    const auto row = batch.rows.subspan(at * width, width);
    if (was_read) require_finite(row, sample);
    const FinalStates states{kind_.states, batch.states.subspan(at * state_width, state_width)};
    if (file_.empty()) {
      if (was_read)
        print_result(prediction_line(place_of(sample), shown(row, sample), kind_.classes, names_, states));
      continue;
    }
    places_.push_back(place_of(sample));
    keep_states(states);
    if (was_read) {
      logits_.insert(logits_.end(), row.begin(), row.end());
    } else {
      logits_.insert(logits_.end(), width, std::numeric_limits<float>::quiet_NaN());
    }
  }
}

void PredictionOutput::finish() const {
  if (file_.empty()) return;
  const auto rows = std::ssize(logits_) / columns_;
  const Shape shape =
      kind_.tokens == 0 ? Shape{rows, columns_} : Shape{rows, kind_.tokens, columns_ / kind_.tokens};
  std::vector<SafetensorsFile::Tensor> tensors{
      {.name = "logits", .dtype = DType::f32, .shape = shape, .bytes = std::as_bytes(std::span(logits_))}};
  for (std::size_t kind = 0; kind < states_.size(); ++kind) {
    tensors.push_back({.name = state_names[kind],
                       .dtype = DType::f32,
                       .shape = {rows, kind_.states[1], kind_.states[2]},
                       .bytes = std::as_bytes(std::span(states_[kind]))});
  }
  std::int64_t next = 0;
  const bool in_a_row = std::ranges::all_of(places_, [&](std::int64_t place) { return place == next++; });
  if (rows < set_size_ || !in_a_row) {
    tensors.push_back(
        {.name = "index", .dtype = DType::i64, .shape = {rows}, .bytes = std::as_bytes(std::span(places_))});
  }
  write_safetensors(file_, tensors);
}

}  // namespace lockstep::runtime
