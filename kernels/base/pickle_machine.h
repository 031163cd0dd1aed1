#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/pickle.h"

namespace lockstep {

inline bool is_global(const PickleGlobal& global, std::string_view dotted) {
  return dotted.size() == global.module.size() + 1 + global.name.size() &&
         dotted.starts_with(global.module) && dotted[global.module.size()] == '.' &&
         dotted.ends_with(global.name);
}

/// The machine that Python's pickletools describes: a stack of values with marks in it, a memo, and what
/// opcodes do to them. `pickle.cpp` says which opcode does what.
class PickleMachine {
 public:
  PickleMachine(Pickle& pickle, std::span<const std::byte> bytes, std::span<const std::string_view> globals,
                std::uint64_t first_offset)
      : pickle_(pickle),
        bytes_(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
        globals_(globals),
        first_offset_(first_offset) {}

  // The bytes behind the opcode.

  unsigned char next_opcode() {
    opcode_at_ = at_;
    return static_cast<unsigned char>(take(1)[0]);
  }

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) fail("it ends within this: truncated");
    const std::string_view taken = bytes_.substr(at_, static_cast<std::size_t>(count));
    at_ += taken.size();
    return taken;
  }

  /// Little endian.
  template <class Integer>
  Integer number() {
    Integer value{};
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

  /// Behind its length.
  template <class Integer>
  std::string_view counted() {
    return take(number<Integer>());
  }

  double big_endian_double() {
    std::uint64_t bits = 0;
    for (const char byte : take(sizeof bits)) bits = bits << 8 | static_cast<unsigned char>(byte);
    return std::bit_cast<double>(bits);
  }

  /// Two's complement, little endian, as short as it can be.
  PickleValue::Content long_integer() {
    const std::string_view digits = counted<std::uint8_t>();
    if (digits.size() > sizeof(std::int64_t)) return PickleNone{};
    const bool negative = !digits.empty() && (digits.back() & 0x80) != 0;
    std::uint64_t bits = negative ? ~std::uint64_t{0} : 0;
    for (std::size_t i = digits.size(); i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(digits[i]);
    return static_cast<std::int64_t>(bits);
  }

  std::string_view line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) fail("it ends within a name: truncated");
    const std::string_view text = take(end - at_);
    take(1);
    return text;
  }

  // The stack.

  void push(PickleValue::Content content) {
    if (pickle_.values_.size() == Pickle::most_values)
      fail(fmt::format("more than {} values", Pickle::most_values));
    stack_.push_back(
        &pickle_.values_.emplace_back(PickleValue{std::move(content), first_offset_ + opcode_at_}));
  }

  void push_again(PickleValue* value) { stack_.push_back(value); }
  void mark() { marks_.push_back(stack_.size()); }

  PickleValue* top() const {
    if (stack_.size() <= bottom()) fail("it takes a value that was never given");
    return stack_.back();
  }

  PickleValue* pop() {
    PickleValue* value = top();
    stack_.pop_back();
    return value;
  }

  PickleItems pop(std::size_t count) {
    if (stack_.size() - bottom() < count) fail("it takes a value that was never given");
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    PickleItems items(first, stack_.end());
    stack_.erase(first, stack_.end());
    return items;
  }

  PickleItems pop_to_mark() {
    if (marks_.empty()) fail("it takes values from a mark that was never set");
    PickleItems items = pop(stack_.size() - marks_.back());
    marks_.pop_back();
    return items;
  }

  // What opcodes do to values.

  void append(const PickleItems& items) {
    auto* list = std::get_if<PickleList>(&top()->content);
    if (list == nullptr) fail("it appends to what is no list");
    list->items.insert(list->items.end(), items.begin(), items.end());
  }

  PicklePairs pairs_of(const PickleItems& items) const {
    if (items.size() % 2 != 0) fail("a key without a value");
    PicklePairs pairs;
    for (std::size_t i = 0; i < items.size(); i += 2) pairs.emplace_back(items[i], items[i + 1]);
    return pairs;
  }

  void set_items(const PickleItems& items) {
    PickleValue::Content& content = top()->content;
    PicklePairs* pairs = nullptr;
    if (auto* dict = std::get_if<PickleDict>(&content)) pairs = &dict->pairs;
    if (auto* object = std::get_if<PickleObject>(&content)) pairs = &object->pairs;
    if (pairs == nullptr) fail("it sets items of what is no dictionary");
    const PicklePairs added = pairs_of(items);
    pairs->insert(pairs->end(), added.begin(), added.end());
  }

  void push_global(std::string_view module, std::string_view name) {
    const PickleGlobal global{module, name};
    if (std::ranges::none_of(globals_, [&](std::string_view one) { return is_global(global, one); })) {
      fail(fmt::format("the global '{}.{}' is not among those that are read", printable(module),
                       printable(name)));
    }
    push(global);
  }

  void push_call() {
    const PickleItems call = pop(2);
    if (!std::holds_alternative<PickleGlobal>(call[0]->content)) fail("it calls what is no global");
    if (!std::holds_alternative<PickleTuple>(call[1]->content)) fail("it calls with what is no tuple");
    push(PickleObject{.callable = call[0], .arguments = call[1]});
  }

  void set_state() {
    const PickleValue* state = pop();
    auto* object = std::get_if<PickleObject>(&top()->content);
    if (object == nullptr) fail("it hands a state to what is no object");
    object->state = state;
  }

  // The memo.

  void memorize(std::uint32_t index) { memo_[index] = top(); }
  void memorize() { memorize(static_cast<std::uint32_t>(memo_.size())); }

  void push_from_memo(std::uint32_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) fail(fmt::format("it takes number {} of the memo, which is not there", index));
    push_again(found->second);
  }

  void check_protocol(unsigned protocol) const {
    if (protocol < 2 || protocol > 5) fail(fmt::format("protocol {}; 2 to 5 are read", protocol));
  }

  [[noreturn]] void fail(const std::string& reason) const {
    throw DataError(
        fmt::format("{}: offset {}: pickle: {}", pickle_.file_, first_offset_ + opcode_at_, reason));
  }

 private:
  /// Where the values since the last mark begin.
  std::size_t bottom() const { return marks_.empty() ? 0 : marks_.back(); }

  static std::string printable(std::string_view text) {
    std::string shown(text.substr(0, 80));
    std::ranges::replace_if(
        shown, [](char c) { return c < ' ' || c > '~'; }, '?');
    return shown;
  }

  Pickle& pickle_;
  std::string_view bytes_;
  std::span<const std::string_view> globals_;
  std::uint64_t first_offset_;
  std::size_t at_ = 0;
  std::size_t opcode_at_ = 0;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;  ///< sizes of the stack
  std::unordered_map<std::uint32_t, PickleValue*> memo_;
};

}  // namespace lockstep
