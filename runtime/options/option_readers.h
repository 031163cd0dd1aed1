#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/options/table.h"

namespace lockstep::runtime {

/// Which options of the table a command, or a person's own program, reads.
struct OptionReader {
  std::string name;
  std::vector<std::string_view> groups;    ///< of which it reads all
  std::vector<std::string_view> left_out;  ///< but these
  std::vector<std::string> others{};       ///< and these of other groups
  std::string why{};                       ///< it does not read the rest, behind its name; empty: who does

  bool reads(const OptionInfo& option) const;
};

/// Of `trainer train` and `plan`, which takes the words of a run that is to come.
const OptionReader& training_options();
const OptionReader& eval_options();
const OptionReader& predict_options();
/// Of `trainer predict` with prompts.
const OptionReader& prompt_options();
const OptionReader& devices_options();
/// Of `trainer models` and `datasets`.
const OptionReader& list_options();

/// Of a person's own program, which `reads` some by itself that are otherwise of trainer's models and data.
OptionReader options_of_program(const std::vector<std::string>& reads);

/// ", only by trainer eval and trainer predict"; empty: no command does.
std::string others_that_read(const OptionInfo& option);

}  // namespace lockstep::runtime
