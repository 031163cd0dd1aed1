#include "kernels/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace lockstep {
namespace {

constexpr int most_levels = 64;  // values of a file from elsewhere must not use up the stack

}  // namespace

/// Between our values and the library's.
struct JsonText {
  using Theirs = nlohmann::ordered_json;

  static Json ours(Theirs& json) {
    switch (json.type()) {
      case Theirs::value_t::boolean:
        return json.get<bool>();
      case Theirs::value_t::number_integer:
        return json.get<std::int64_t>();
      case Theirs::value_t::number_unsigned:
        return json.get<std::uint64_t>();
      case Theirs::value_t::number_float:
        return json.get<double>();
      case Theirs::value_t::string:
        return std::move(json.get_ref<std::string&>());
      case Theirs::value_t::array: {
        Json::Array elements;
        for (Theirs& element : json) elements.push_back(ours(element));
        return elements;
      }
      case Theirs::value_t::object: {
        Json::Object members;
        for (auto& [key, value] : json.items()) members.push_back({key, ours(value)});
        return members;
      }
      default:
        return nullptr;
    }
  }

  static Theirs theirs(const Json& json) {
    return std::visit([](const auto& value) { return from(value); }, json.value_);
  }

 private:
  static Theirs from(std::monostate) { return nullptr; }
  static Theirs from(const Json::Array& elements) {
    Theirs array = Theirs::array();
    for (const Json& element : elements) array.push_back(theirs(element));
    return array;
  }
  static Theirs from(const Json::Object& members) {
    Theirs object = Theirs::object();
    for (const auto& [key, value] : members) object[key] = theirs(value);
    return object;
  }
  static Theirs from(const auto& value) { return value; }
};

Json Json::parse(std::string_view text) {
  using Theirs = JsonText::Theirs;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto check = [&](int depth, Theirs::parse_event_t event, Theirs& parsed) {
    if (depth > most_levels) throw JsonError("values are nested too deep");
    if (event == Theirs::parse_event_t::object_start) keys.emplace_back();
    if (event == Theirs::parse_event_t::object_end) keys.pop_back();
    if (event == Theirs::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
      throw JsonError(fmt::format("two entries '{}'", parsed.get<std::string>()));
    }
    return true;
  };
  try {
    Theirs theirs = Theirs::parse(text.begin(), text.end(), check);
    return JsonText::ours(theirs);
  } catch (const Theirs::parse_error& error) {
    throw JsonError(fmt::format("no JSON from byte {} on", error.byte), error.byte);
  } catch (const Theirs::out_of_range&) {
    throw JsonError("a number is beyond the range of f64");
  }
}

Json Json::parse_or_null(std::string_view text) {
  try {
    return parse(text);
  } catch (const JsonError&) {
    return nullptr;
  }
}

std::string Json::dump(int indent) const {
  return JsonText::theirs(*this).dump(indent, ' ', false, JsonText::Theirs::error_handler_t::replace);
}

const Json* Json::find(std::string_view key) const {
  const auto* members = std::get_if<Object>(&value_);
  if (members == nullptr) return nullptr;
  const auto found = std::ranges::find(*members, key, &Member::key);
  return found == members->end() ? nullptr : &found->value;
}

const Json& Json::operator[](std::string_view key) const {
  static const Json null;
  const Json* found = find(key);
  return found != nullptr ? *found : null;
}

const Json& Json::at(std::string_view key) const {
  if (const Json* found = find(key)) return *found;
  throw JsonError(fmt::format("no entry '{}'", key));
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = Object();
  Object& members = get_as<Object>("an object");
  const auto found = std::ranges::find(members, key, &Member::key);
  if (found != members.end()) return found->value;
  return members.emplace_back(Member{std::string(key), {}}).value;
}

void Json::read(double& value) const {
  if (const auto* integer = std::get_if<std::int64_t>(&value_)) {
    value = static_cast<double>(*integer);
  } else if (const auto* large = std::get_if<std::uint64_t>(&value_)) {
    value = static_cast<double>(*large);
  } else {
    value = get_as<double>("a number");
  }
}

void Json::read(std::uint64_t& value) const {
  const auto* integer = std::get_if<std::int64_t>(&value_);
  value = integer != nullptr && *integer >= 0 ? static_cast<std::uint64_t>(*integer)
                                              : get_as<std::uint64_t>("a whole number from 0 on");
}

void Json::fail(const char* wanted) const {
  std::string text = dump();
  constexpr std::size_t most_shown = 60;
  if (text.size() > most_shown) text.resize(most_shown);
  throw JsonError(fmt::format("{} is not {}", text, wanted));
}

}  // namespace lockstep
