#include "model/zoo/arguments.h"

#include <algorithm>
#include <type_traits>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/typed_words.h"

namespace lockstep::model {
namespace {

/// What `read` makes of the text behind `key`, if there is one.
template <class Value, class Read>
Value value_of(const ModelArgs& args, const std::string& key, Value otherwise, Read&& read) {
  const auto found = args.find(key);
  if (found == args.end()) return otherwise;
  try {
    return read(found->second);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}={}: {}", key, found->second, error.what()));
  }
}

std::string one_of(const std::string& text, const std::vector<std::string>& choices) {
  if (std::ranges::find(choices, text) != choices.end()) return text;
  throw UsageError(fmt::format("what is: {}", fmt::join(choices, ", ")));
}

}  // namespace

std::int64_t IntegerArgument::of(const ModelArgs& args) const {
  return value_of(args, key, otherwise, [&](const std::string& text) { return number_in(text, range); });
}

double RealArgument::of(const ModelArgs& args) const {
  return value_of(args, key, otherwise, [&](const std::string& text) { return number_in(text, range); });
}

std::string ChoiceArgument::of(const ModelArgs& args) const {
  return value_of(args, key, choices.front(), [&](const std::string& text) { return one_of(text, choices); });
}

bool SwitchArgument::of(const ModelArgs& args) const {
  return value_of(args, key, otherwise, [](const std::string& text) {
    return one_of(text, {"true", "false"}) == "true";
  });
}

IntegerArgument class_count(std::int64_t otherwise) {
  return {.key = "num_classes", .otherwise = otherwise, .range = feature_counts};
}

std::string describe(const Argument& argument) {
  const auto text = [](const auto& a) {
    using A = std::decay_t<decltype(a)>;
    if constexpr (std::is_same_v<A, ChoiceArgument>) {
      return fmt::format("{}={} ({})", a.key, a.choices.front(), fmt::join(a.choices, ", "));
    } else if constexpr (std::is_same_v<A, SwitchArgument>) {
      return fmt::format("{}={} (true, false)", a.key, a.otherwise);
    } else {
      constexpr const char* kind = std::is_same_v<A, IntegerArgument> ? "a whole number" : "a number";
      return fmt::format("{}={} ({}, {} to {})", a.key, a.otherwise, kind, a.range.least, a.range.most);
    }
  };
  return std::visit(text, argument);
}

void check_arguments(const std::string& model, const std::vector<Argument>& declared, const ModelArgs& args) {
  std::vector<std::string> keys;
  for (const Argument& argument : declared) {
    keys.push_back(std::visit([](const auto& a) { return a.key; }, argument));
  }
  for (const auto& [key, value] : args) {
    const auto found = std::ranges::find(keys, key);
    if (found == keys.end()) {
      throw UsageError(keys.empty() ? fmt::format("model '{}' takes no arguments, not '{}'", model, key)
                                    : unknown_name("argument of model '" + model + "'", key, keys));
    }
    try {
      std::visit([&](const auto& a) { a.of(args); },
                 declared[static_cast<std::size_t>(found - keys.begin())]);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("model '{}': {}", model, error.what()));
    }
  }
}

}  // namespace lockstep::model
