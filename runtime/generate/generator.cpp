#include "runtime/generate/generator.h"

#include <algorithm>
#include <utility>

namespace lockstep::runtime {
namespace {

/// Room is made ahead for so many new tokens, and the text of each in bytes; longer texts grow.
constexpr std::int64_t tokens_ahead = 1 << 12;
constexpr std::int64_t bytes_of_token = 8;

}  // namespace

std::string_view name_of(StopReason reason) {
  if (reason == StopReason::end) return "end";
  return reason == StopReason::stop ? "stop" : "length";
}

Generator::Generator(Decoder& decoder, const data::Tokenizer& tokenizer, GeneratorOptions options)
    : decoder_(decoder),
      tokenizer_(tokenizer),
      options_(std::move(options)),
      sampler_(options_.sampling),
      rows_(static_cast<std::size_t>(decoder.options().rows)) {}

void Generator::begin(std::int64_t row, std::int64_t number, std::span<const std::int64_t> prompt) {
  Row& begun = rows_[static_cast<std::size_t>(row)];
  begun.number = number;
  if (options_.boundary) {
    begun.tokens.assign(1, *options_.boundary);
    decoder_.begin_target(row, prompt);
  } else {
    begun.tokens.assign(prompt.begin(), prompt.end());
    decoder_.clear(row);
  }
  const std::int64_t ahead = std::min(options_.max_new_tokens, tokens_ahead);
  begun.tokens.reserve(prompt.size() + static_cast<std::size_t>(ahead));
  begun.result = {};
  begun.result.text.reserve(static_cast<std::size_t>(ahead * bytes_of_token));
  begun.active = true;
  decoder_.append(row, begun.tokens);
}

bool Generator::is_active() const {
  return std::ranges::any_of(rows_, &Row::active);
}

void Generator::advance() {
  decoder_.run();
  for (std::size_t at = 0; at < rows_.size(); ++at) {
    Row& row = rows_[at];
    if (!row.active) continue;
    const auto number = static_cast<std::int64_t>(at);
    // A model may have room for more tokens than there are.
    const auto logits = decoder_.logits(number);
    const auto tokens = static_cast<std::size_t>(tokenizer_.size()) + (options_.boundary ? 1 : 0);
    const auto known = std::min(logits.size(), tokens);
    take(row, sampler_.draw(logits.first(known), row.number, row.result.tokens));
    if (row.active) feed(number);
  }
}

void Generator::take(Row& row, std::int64_t token) {
  Generated& result = row.result;
  if (token == options_.boundary || token == options_.end_of_text) {
    result.reason = StopReason::end;
    row.active = false;
    return;
  }
  row.tokens.push_back(token);
  const std::string_view added = tokenizer_.bytes_of(token);
  // The text that ends it may begin in what was there.
  const std::size_t behind = result.text.size() + 1;
  const std::size_t from = behind > options_.stop.size() ? behind - options_.stop.size() : 0;
  result.text += added;
  ++result.tokens;
  const std::size_t found = options_.stop.empty() ? std::string::npos : result.text.find(options_.stop, from);
  if (found != std::string::npos) {
    result.text.resize(found);
    result.reason = StopReason::stop;
  }
  row.active = found == std::string::npos && result.tokens < options_.max_new_tokens;
}

void Generator::feed(std::int64_t row) {
  const std::vector<std::int64_t>& tokens = rows_[static_cast<std::size_t>(row)].tokens;
  const std::int64_t capacity = decoder_.options().capacity;
  if (decoder_.length(row) < capacity) return decoder_.append(row, std::span(tokens).last(1));
  if (options_.boundary) {
    rows_[static_cast<std::size_t>(row)].active = false;
    return;
  }
  const std::int64_t kept = std::max<std::int64_t>(1, capacity / 2);
  decoder_.clear(row);
  decoder_.append(row, std::span(tokens).last(static_cast<std::size_t>(kept)));
}

}  // namespace lockstep::runtime
