#include "runtime/generate/decoder.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t slot = 0;
constexpr std::int64_t padding = -1;

}  // namespace

Decoder::Decoder(kernels::Device& device, comm::Communicator& communicator, const model::Model& model,
                 const model::InputSpec& input, const DecoderOptions& options, PlanConstraints constraints)
    : options_(options),
      device_(device),
      source_length_(input.source_length),
      rows_(static_cast<std::size_t>(options.rows)) {
  if (input.dtype != DType::i64 || input.shape.rank() != 1) {
    throw UsageError(fmt::format("model '{}' takes no tokens, so it cannot write; gpt2 does", model.name));
  }
  const auto add_plan = [&](Mode mode, std::int64_t tokens) {
    plans_.push_back(make_plan(model, input,
                               {.key = {.mode = mode, .batch = options_.rows, .length = tokens},
                                .cache_capacity = options_.capacity,
                                .branches = options_.branches},
                               device, constraints));
    constraints.parameter_layouts = parameter_layouts(plans_.front().graph);
    constraints.arena = plans_.front().arena;
  };
  add_plan(Mode::decode, 1);
  const std::int64_t piece = source_length_ > 0 ? 1 : std::min(options_.piece, options_.capacity);
  if (source_length_ > 0) add_plan(Mode::encode, 1);
  if (piece > 1) add_plan(Mode::fill, piece);
  memory_ = std::make_unique<ReplicaMemory>(device, communicator, plans_);
  executor_ = std::make_unique<Executor>(device, communicator, *memory_);
  const Shape& output = plan().graph.value(plan().graph.output).type.shape;
  columns_ = output[output.rank() - 1];
  const auto bytes = static_cast<std::size_t>(options_.rows * piece) * sizeof(std::int64_t);
  tokens_ = device.allocate_host(static_cast<std::size_t>(options_.rows * (source_length_ + piece)) *
                                 sizeof(std::int64_t));
  positions_ = device.allocate_host(bytes);
  logits_ = device.allocate_host(static_cast<std::size_t>(options_.rows * columns_) * sizeof(float));
  if (options_.branches) {
    parent_lengths_.resize(rows_.size());
    parent_rows_.resize(index(options_.rows * options_.capacity));
    cache_rows_ = device.allocate_host(parent_rows_.size() * sizeof(std::int64_t));
  }
  for (Row& row : rows_) row.waiting.reserve(static_cast<std::size_t>(options_.capacity));
}

void Decoder::clear(std::int64_t row) {
  Row& cleared = rows_[index(row)];
  cleared.length = 0;
  cleared.waiting.clear();
  cleared.taken = 0;
}

void Decoder::begin_target(std::int64_t row, std::span<const std::int64_t> source) {
  if (std::ssize(source) > source_length_) throw std::logic_error("more tokens than a source can have");
  clear(row);
  rows_[index(row)].source.assign(source.begin(), source.end());
  sources_wait_ = true;
}

void Decoder::branch(std::span<const std::int64_t> parents) {
  const std::span rows(static_cast<std::int64_t*>(cache_rows_->data()), parent_rows_.size());
  std::ranges::copy(rows, parent_rows_.begin());
  for (std::size_t row = 0; row < parents.size(); ++row) {
    std::copy_n(parent_rows_.begin() + parents[row] * options_.capacity, options_.capacity,
                rows.begin() + static_cast<std::int64_t>(row) * options_.capacity);
    parent_lengths_[row] = rows_[index(parents[row])].length;
  }
  for (std::size_t row = 0; row < parents.size(); ++row) rows_[row].length = parent_lengths_[row];
}

void Decoder::append(std::int64_t row, std::span<const std::int64_t> tokens) {
  Row& extended = rows_[index(row)];
  if (extended.length + extended.left() + std::ssize(tokens) > options_.capacity) {
    throw std::logic_error("more tokens than a row can hold");
  }
  extended.waiting.insert(extended.waiting.end(), tokens.begin(), tokens.end());
}

/// The last token of each row is left for the plan that gives logits.
void Decoder::run() {
  const auto is_behind = [](const Row& row) { return row.left() > 1; };
  if (sources_wait_) take_in(plans_.back(), options_.capacity);
  sources_wait_ = false;
  while (std::ranges::any_of(rows_, is_behind))
    take_in(source_length_ > 0 ? plans_.front() : plans_.back(), 1);
  take_in(plans_.front(), 0);
  for (Row& row : rows_) {
    row.waiting.clear();
    row.taken = 0;
  }
  kernels::Stream& stream = executor_->stream();
  device_.copy_to_host(logits_->data(), memory_->address(plan().launches.output, slot), logits_->bytes(),
                       stream);
  stream.synchronize();
}

void Decoder::take_in(const Plan& plan, std::int64_t keep) {
  const std::int64_t width = plan.key().length;
  const std::int64_t row_tokens = source_length_ + width;
  const std::span tokens(static_cast<std::int64_t*>(tokens_->data()), index(options_.rows * row_tokens));
  const std::span positions(static_cast<std::int64_t*>(positions_->data()), index(options_.rows * width));
  std::ranges::fill(tokens, padding);
  std::ranges::fill(positions, padding);
  auto* const cache_rows = options_.branches ? static_cast<std::int64_t*>(cache_rows_->data()) : nullptr;
  for (std::size_t at = 0; at < rows_.size(); ++at) {
    Row& row = rows_[at];
    const std::int64_t taken = std::clamp<std::int64_t>(row.left() - keep, 0, width);
    const auto number = static_cast<std::int64_t>(at);
    std::ranges::copy(row.source, tokens.begin() + number * row_tokens);
    for (std::int64_t i = 0; i < taken; ++i) {
      tokens[index(number * row_tokens + source_length_ + i)] = row.waiting[row.taken++];
      if (options_.branches) cache_rows[number * options_.capacity + row.length] = number;
      positions[index(number * width + i)] = row.length++;
    }
  }
  kernels::Stream& stream = executor_->stream();
  device_.copy_to_device(memory_->input(slot), tokens.data(), tokens.size_bytes(), stream);
  device_.copy_to_device(memory_->positions(slot), positions.data(), positions.size_bytes(), stream);
  if (options_.branches) {
    device_.copy_to_device(memory_->cache_rows(slot), cache_rows_->data(), cache_rows_->bytes(), stream);
  }
  executor_->run(plan, slot);
}

std::span<const float> Decoder::logits(std::int64_t row) const {
  const auto width = static_cast<std::size_t>(columns_);
  return {static_cast<const float*>(logits_->data()) + index(row) * width, width};
}

}  // namespace lockstep::runtime
