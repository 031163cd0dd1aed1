#include "comm/store/table.h"

#include "kernels/base/number.h"

namespace lockstep::comm {
namespace {

Frame refused(const char* reason) {
  return {Frame::Type::refused, reason};
}
Frame malformed() {
  return refused("malformed fields");
}

}  // namespace

Frame Table::answer(const Frame& request) {
  FieldReader fields(request.payload);
  switch (request.type) {
    case Frame::Type::set:
      return set(fields);
    case Frame::Type::get:
      return get(fields);
    case Frame::Type::add:
      return add(fields);
    case Frame::Type::compare_and_set:
      return compare_and_set(fields);
    case Frame::Type::erase:
      return erase(fields);
    default:
      return refused("not a request");
  }
}

std::optional<std::string> Table::find(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

Frame Table::current(const std::string& key) const {
  auto value = find(key);
  if (!value) return {Frame::Type::absent, {}};
  return {Frame::Type::value, *std::move(value)};
}

Frame Table::set(FieldReader& fields) {
  const auto key = fields.text();
  const auto value = fields.text();
  if (!key || !value || !fields.at_end()) return malformed();
  values_[*key] = *value;
  return {Frame::Type::done, {}};
}

Frame Table::get(FieldReader& fields) const {
  const auto key = fields.text();
  const auto wait_ms = fields.number();
  if (!key || !wait_ms || !fields.at_end()) return malformed();
  return current(*key);
}

Frame Table::add(FieldReader& fields) {
  const auto key = fields.text();
  const auto amount = fields.number();
  if (!key || !amount || !fields.at_end()) return malformed();
  const Frame before = current(*key);
  const auto number = parse_number<std::int64_t>(before.type == Frame::Type::absent ? "0" : before.payload);
  std::int64_t sum = 0;
  if (!number || __builtin_add_overflow(*number, *amount, &sum)) return refused("add to what is no number");
  values_[*key] = std::to_string(sum);
  return current(*key);
}

Frame Table::compare_and_set(FieldReader& fields) {
  const auto key = fields.text();
  const auto expects_value = fields.number();
  const auto expected = fields.text();
  const auto desired = fields.text();
  if (!key || !expects_value || !expected || !desired || !fields.at_end()) return malformed();
  const Frame before = current(*key);
  const bool present = before.type == Frame::Type::value;
  if (present == (*expects_value != 0) && (!present || before.payload == *expected)) values_[*key] = *desired;
  return before;
}

Frame Table::erase(FieldReader& fields) {
  const auto key = fields.text();
  if (!key || !fields.at_end()) return malformed();
  return {values_.erase(*key) == 0 ? Frame::Type::absent : Frame::Type::done, {}};
}

}  // namespace lockstep::comm
