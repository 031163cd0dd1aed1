#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep {

/// The text is no JSON, or a value has another type than the one asked for.
class JsonError : public std::runtime_error {
 public:
  explicit JsonError(const std::string& message, std::optional<std::size_t> byte = {})
      : std::runtime_error(message), byte_(byte) {}
  /// Where the text stops to be JSON, if that is the error.
  std::optional<std::size_t> byte() const { return byte_; }

 private:
  std::optional<std::size_t> byte_;
};

/// A JSON value (RFC 8259); members of objects keep their order. nlohmann/json reads and writes the text: its
/// templates take seconds in each file that includes them, so only json.cpp does.
class Json {
 public:
  /// A template, since only that is complete as soon as Json is, which clang 14 asks for in the constructors
  /// below.
  template <class Value>
  struct BasicMember {
    std::string key;
    Value value;

    bool operator==(const BasicMember&) const = default;
  };
  using Member = BasicMember<Json>;
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;

  Json() = default;
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(double value) : value_(value) {}
  template <std::signed_integral T>
  Json(T value) : value_(std::int64_t{value}) {}
  template <std::unsigned_integral T>
  Json(T value) {
    if (std::in_range<std::int64_t>(value)) {
      value_ = static_cast<std::int64_t>(value);
    } else {
      value_ = std::uint64_t{value};
    }
  }
  Json(std::string value) : value_(std::move(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  template <class T>
  Json(const std::vector<T>& values) : value_(Array(values.begin(), values.end())) {}
  template <class T>
  Json(const std::map<std::string, T>& values);
  /// An object.
  Json(std::initializer_list<Member> members);

  static Json array() { return Array(); }
  static Json object() { return Object(); }

  /// JsonError, also when a key stands twice in one object.
  static Json parse(std::string_view text);
  /// Null where `parse` throws.
  static Json parse_or_null(std::string_view text);
  /// On one line, or indented by `indent` columns a level. Numbers read back to the same bits; NaN and
  /// infinities are null.
  std::string dump(int indent = -1) const;

  bool is_null() const { return is<std::monostate>(); }
  bool is_string() const { return is<std::string>(); }
  bool is_object() const { return is<Object>(); }

  /// The member of that key; null in what has none and in what is no object.
  const Json& operator[](std::string_view key) const;
  /// The same; JsonError when there is none.
  const Json& at(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  /// Makes the member, and an object of null.
  Json& operator[](std::string_view key);

  void push_back(Json value) { get_as<Array>("an array").push_back(std::move(value)); }
  const Array& elements() const { return get_as<Array>("an array"); }
  const Object& members() const { return get_as<Object>("an object"); }

  /// bool, integers that fit, double, std::string, vectors and maps of these. JsonError for another type.
  template <class T>
  T get() const {
    T value{};
    read(value);
    return value;
  }
  /// The same; `otherwise` for another type.
  template <class T>
  T get_or(T otherwise) const {
    try {
      return get<T>();
    } catch (const JsonError&) {
      return otherwise;
    }
  }

  bool operator==(const Json& other) const;

 private:
  /// Whole numbers are std::int64_t where they fit.
  using Value =
      std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object>;
  friend struct JsonText;

  Json(Array elements) : value_(std::move(elements)) {}
  Json(Object members) : value_(std::move(members)) {}

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(value_);
  }
  const Json* find(std::string_view key) const;
  [[noreturn]] void fail(const char* wanted) const;
  template <class T>
  const T& get_as(const char* wanted) const {
    if (const T* value = std::get_if<T>(&value_)) return *value;
    fail(wanted);
  }
  template <class T>
  T& get_as(const char* wanted) {
    return const_cast<T&>(std::as_const(*this).template get_as<T>(wanted));
  }

  void read(bool& value) const { value = get_as<bool>("true or false"); }
  void read(double& value) const;
  void read(std::int64_t& value) const { value = get_as<std::int64_t>("a whole number"); }
  void read(std::uint64_t& value) const;
  void read(std::string& value) const { value = get_as<std::string>("a string"); }
  template <std::integral T>
  void read(T& value) const {
    const auto wide = get<std::int64_t>();
    if (!std::in_range<T>(wide)) fail("a smaller number");
    value = static_cast<T>(wide);
  }
  template <class T>
  void read(std::vector<T>& values) const {
    for (const Json& element : elements()) values.push_back(element.get<T>());
  }
  template <class T>
  void read(std::map<std::string, T>& values) const;

  Value value_;
};

inline Json::Json(std::initializer_list<Member> members) : value_(Object(members)) {}

inline bool Json::operator==(const Json& other) const {
  return value_ == other.value_;
}

template <class T>
Json::Json(const std::map<std::string, T>& values) : value_(Object()) {
  for (const auto& [key, value] : values) std::get<Object>(value_).push_back({key, value});
}

template <class T>
void Json::read(std::map<std::string, T>& values) const {
  for (const Member& member : members()) values.emplace(member.key, member.value.get<T>());
}

}  // namespace lockstep
