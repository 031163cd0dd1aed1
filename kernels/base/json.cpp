#include "kernels/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace lockstep {
namespace {

constexpr int most_levels = 64;  // values of a file from elsewhere must not use up the stack

}  // namespace

/// Between our values and the library's, whose ordered objects search all their keys for each that they take.
struct JsonText {
  using Theirs = nlohmann::ordered_json;

  class Builder;

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
    for (const auto& [key, value] : members)
      object.get_ref<Theirs::object_t&>().emplace_back(key, theirs(value));
    return object;
  }
  static Theirs from(const auto& value) { return value; }
};

/// Told by the library's parser what it reads, in order.
class JsonText::Builder {
 public:
  Json take() { return std::move(root_); }

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(std::int64_t value) { return put(value); }
  bool number_unsigned(std::uint64_t value) { return put(value); }
  bool number_float(double value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(const Theirs::binary_t&) { return false; }  // no text has one
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    if (!open_.back().keys.insert(name).second) throw JsonError(fmt::format("two entries '{}'", name));
    std::get<Json::Object>(open_.back().value->value_).push_back({std::move(name), nullptr});
    return true;
  }

  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception& error) {
    constexpr int number_overflow = 406;
    if (error.id == number_overflow) throw JsonError("a number is beyond the range of f64");
    throw JsonError(fmt::format("no JSON from byte {} on", byte), byte);
  }

 private:
  /// An object or array whose end is still to come: until then what holds it does not grow.
  struct Open {
    Json* value;
    std::unordered_set<std::string> keys;
  };

  bool put(Json value) {
    place() = std::move(value);
    return true;
  }
  bool open(Json value) {
    if (std::ssize(open_) == most_levels) throw JsonError("values are nested too deep");
    Json& placed = place();
    placed = std::move(value);
    open_.push_back({&placed, {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  Json& place() {
    if (open_.empty()) return root_;
    Json& holder = *open_.back().value;
    if (auto* elements = std::get_if<Json::Array>(&holder.value_)) return elements->emplace_back();
    return std::get<Json::Object>(holder.value_).back().value;
  }

  Json root_;
  std::vector<Open> open_;
};

Json Json::parse(std::string_view text) {
  JsonText::Builder builder;
  JsonText::Theirs::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
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
