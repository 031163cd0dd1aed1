#include "comm/world/variables.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/number.h"

namespace lockstep::comm {

std::string Variables::text_or(const char* name, std::string otherwise) const {
  return text(name).value_or(std::move(otherwise));
}

std::optional<int> Variables::number(const char* name, int least, int most) const {
  const auto value = text(name);
  if (!value) return std::nullopt;
  const auto parsed = parse_number<int>(*value);
  if (!parsed || *parsed < least || *parsed > most) {
    throw UsageError(fmt::format("{}={} is no number from {} to {}", name, *value, least, most));
  }
  return parsed;
}

int Variables::required_number(const char* name, int least, int most) const {
  const auto value = number(name, least, most);
  if (!value) throw UsageError(fmt::format("{} is not set", name));
  return *value;
}

std::string Variables::missing(std::initializer_list<const char*> names) const {
  std::string list;
  for (const char* name : names) {
    if (!has(name)) list += (list.empty() ? "" : ", ") + std::string(name);
  }
  return list;
}

bool Variables::has_any(std::initializer_list<const char*> names) const {
  for (const char* name : names) {
    if (has(name)) return true;
  }
  return false;
}

}  // namespace lockstep::comm
