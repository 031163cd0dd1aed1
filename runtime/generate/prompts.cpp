#include "runtime/generate/prompts.h"

#include <iostream>
#include <iterator>

#include <fmt/format.h>

#include "data/text/utf8.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/json.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t most_shown = 40;  // bytes of a prompt in a message
constexpr char32_t replacement_character = 0xFFFD;

std::string shown(const std::string& text) {
  if (text.size() <= most_shown) return fmt::format("'{}'", text);
  return fmt::format("'{}...'",
                     std::string_view(text).substr(0, data::valid_utf8_length(text.substr(0, most_shown))));
}

std::string with_replacements(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const data::CodePoint first = data::first_code_point(text);
    data::append_utf8(valid, first.length > 0 ? first.value : replacement_character);
    text.remove_prefix(std::max<std::size_t>(first.length, 1));
  }
  return valid;
}

}  // namespace

std::string read_prompt_file(const GenerationOptions& options) {
  if (options.prompt_file.empty()) return {};
  if (options.has_prompts_in_standard_input())
    return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  try {
    return whole_text(options.prompt_file);
  } catch (const DataError& error) {
    throw UsageError(fmt::format("--prompt-file {}", error.what()));
  }
}

std::vector<std::string> prompts_of(const GenerationOptions& options, const std::string& prompt_file) {
  std::vector<std::string> prompts = options.prompts;
  data::for_each_line(prompt_file, [&](std::string_view line, std::size_t) {
    if (!line.empty()) prompts.emplace_back(line);
  });
  if (prompts.empty()) {
    throw UsageError(
        fmt::format("--prompt-file {}: has no line with a prompt", options.prompt_file.string()));
  }
  return prompts;
}

std::vector<Prompt> encode_prompts(const std::vector<std::string>& texts, const data::Tokenizer& tokenizer,
                                   std::int64_t most) {
  std::vector<Prompt> prompts;
  for (const std::string& text : texts) {
    Prompt& prompt = prompts.emplace_back();
    prompt.text = text;
    try {
      for (const std::uint32_t token : tokenizer.encode(text)) prompt.tokens.push_back(token);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("prompt {}: {}", shown(text), error.what()));
    }
    if (prompt.tokens.empty()) {
      throw UsageError("prompt '' has nothing to write on from: give it a character at least");
    }
    if (std::ssize(prompt.tokens) > most) {
      throw UsageError(
          fmt::format("prompt {} has {} tokens, the model looks at {} at most (its block_size): "
                      "shorten it",
                      shown(text), prompt.tokens.size(), most));
    }
  }
  return prompts;
}

std::string generated_line(const std::string& prompt, const std::string& text, std::int64_t tokens,
                           std::string_view stop_reason) {
  return Json{{"prompt", prompt},
              {"text", with_replacements(text)},
              {"tokens", tokens},
              {"stop_reason", std::string(stop_reason)}}
      .dump();
}

}  // namespace lockstep::runtime
