#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/typed_words.h"

/// For options of one command alone, which the table of options does not have.
namespace lockstep::runtime {

/// Takes the option out of `arguments`, as "--name value" or "--name=value"; empty text: it is not there.
inline std::string take_value(std::vector<std::string>& arguments, std::string_view name) {
  for (auto word = arguments.begin(); word != arguments.end(); ++word) {
    const std::size_t equals = word->find('=');
    if (!word->starts_with("--") || with_dashes(word->substr(0, equals)) != name) continue;
    std::string value;
    if (equals != std::string::npos) {
      value = word->substr(equals + 1);
    } else if (word + 1 != arguments.end() && !(word + 1)->starts_with("--")) {
      value = *(word + 1);
    }
    if (value.empty()) throw UsageError(fmt::format("{} needs a value", name));
    arguments.erase(word, word + (equals == std::string::npos ? 2 : 1));
    return value;
  }
  return {};
}

/// Takes a switch out of `arguments`; whether it was there.
inline bool take_switch(std::vector<std::string>& arguments, std::string_view name) {
  return std::erase_if(arguments, [name](const std::string& word) {
           return word.starts_with("--") && with_dashes(word) == name;
         }) > 0;
}

}  // namespace lockstep::runtime
