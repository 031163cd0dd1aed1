#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/tokenizer.h"
#include "kernels/base/activity.h"
#include "runtime/options/options.h"

namespace lockstep::runtime {

/// A text from which a model writes on.
struct Prompt {
  std::string text;
  std::vector<std::int64_t> tokens;
};

/// The text of --prompt-file, or of standard input for `-`; empty without one. Whoever writes into standard
/// input may take their time: `activity`, which may be nullptr, advances. UsageError for a file that
/// cannot be read, DataError for standard input, which one rank alone reads.
std::string read_prompt_file(const GenerationOptions& options, Activity* activity);

/// Those of --prompt, then the lines of `prompt_file` that are not empty. UsageError when that makes none.
std::vector<std::string> prompts_of(const GenerationOptions& options, const std::string& prompt_file);

/// UsageError names the prompt that has no token, a character without one, or more than `most` tokens, and
/// `limit`, what sets these.
std::vector<Prompt> encode_prompts(const std::vector<std::string>& texts, const data::Tokenizer& tokenizer,
                                   std::int64_t most, std::string_view limit);

/// {"prompt": ..., "text": ..., "tokens": 100, "stop_reason": "length"}. Bytes of `text` that are no whole
/// character (byte-level tokens may end within one) become U+FFFD.
std::string generated_line(const std::string& prompt, const std::string& text, std::int64_t tokens,
                           std::string_view stop_reason);

}  // namespace lockstep::runtime
