#include "runtime/generate/prompts.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "data/text/utf8.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/json.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_shown = 40;  // bytes of a prompt in a message
constexpr char32_t replacement_character = 0xFFFD;

/// Whole characters, up to the first bytes that are none.
std::string shown(const std::string& text) {
  const std::string_view first = std::string_view(text).substr(0, most_shown);
  const std::size_t valid = data::valid_utf8_length(first);
  return fmt::format("'{}{}'", first.substr(0, valid), valid < text.size() ? "..." : "");
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

std::string read_standard_input(Activity* activity) {
  Activity::Work reading(activity, "reading prompts from standard input");
  constexpr int look_again_ms = 200;
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t got = 1; got != 0;) {
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&input, 1, look_again_ms);
    reading.advance();
    if (ready == 0) continue;
    got = ready < 0 ? -1 : ::read(STDIN_FILENO, piece.data(), piece.size());
    if (got > 0) text.append(piece.data(), static_cast<std::size_t>(got));
    if (got < 0 && errno != EINTR && errno != EAGAIN) {
      throw DataError(fmt::format("--prompt-file -: cannot read standard input: {}", errno_message(errno)));
    }
  }
  return text;
}

}  // namespace

std::string read_prompt_file(const GenerationOptions& options, Activity* activity) {
  if (options.prompt_file.empty()) return {};
  if (options.has_prompts_in_standard_input()) return read_standard_input(activity);
  try {
    return whole_text(options.prompt_file);
  } catch (const DataError& error) {
    std::error_code unreachable;
    const bool streams = fs::is_other(options.prompt_file, unreachable);  // as of <(command)
    throw UsageError(fmt::format("--prompt-file {}{}", error.what(),
                                 streams ? "; pipe it, and give --prompt-file -" : ""));
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
                                   std::int64_t most, std::string_view limit) {
  std::vector<Prompt> prompts;
  for (const std::string& text : texts) {
    Prompt& prompt = prompts.emplace_back();
    prompt.text = text;
    if (const std::size_t valid = data::valid_utf8_length(text); valid < text.size()) {
      throw UsageError(fmt::format("prompt {}: offset {}: byte 0x{:02x} is no UTF-8", shown(text), valid,
                                   static_cast<unsigned char>(text[valid])));
    }
    try {
      for (const std::uint32_t token : tokenizer.encode(text)) prompt.tokens.push_back(token);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("prompt {}: {}", shown(text), error.what()));
    }
    if (prompt.tokens.empty()) {
      throw UsageError("prompt '' has nothing to write on from: give it a character at least");
    }
    if (std::ssize(prompt.tokens) > most) {
      throw UsageError(fmt::format("prompt {} has {} tokens, the model looks at {} at most ({}): shorten it",
                                   shown(text), prompt.tokens.size(), most, limit));
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
