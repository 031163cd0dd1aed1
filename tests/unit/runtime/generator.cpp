#include "runtime/generate/generator.h"

#include <algorithm>
#include <chrono>

#include "tests/support/catch.h"
#include "tests/unit/runtime/small_writer.h"

namespace lockstep::runtime {
namespace {

using namespace testing;
using Tokens = std::vector<std::int64_t>;

/// The letters a to w.
data::TokenizerPtr letters() {
  std::vector<std::string> names;
  for (char letter = 'a'; std::ssize(names) < vocabulary; ++letter) names.emplace_back(1, letter);
  return data::make_character_tokenizer(names);
}

Tokens tokens_of(const std::string& text) {
  const auto ids = letters()->encode(text);
  return {ids.begin(), ids.end()};
}

struct Writing {
  std::vector<std::string> prompts;
  GeneratorOptions options;
  std::int64_t rows = 1;
  std::int64_t capacity = 64;
};

/// All prompts at once, in rows of their own.
std::vector<Generated> written(const Writing& writing) {
  SmallWriter writer({.rows = writing.rows, .capacity = writing.capacity, .piece = 16});
  const auto tokenizer = letters();
  Generator generator(writer.decoder, *tokenizer, writing.options);
  for (std::size_t i = 0; i < writing.prompts.size(); ++i) {
    const auto number = static_cast<std::int64_t>(i);
    generator.begin(number, number, tokens_of(writing.prompts[i]));
  }
  while (generator.is_active()) generator.advance();
  std::vector<Generated> results;
  for (std::size_t i = 0; i < writing.prompts.size(); ++i) {
    results.push_back(generator.result(static_cast<std::int64_t>(i)));
  }
  return results;
}

std::string text_of(const Writing& writing) {
  return written(writing).front().text;
}

}  // namespace

TEST_CASE("generator: greedily, each token is the likeliest behind all before it") {
  const std::string prompt = "bad";
  const std::string text =
      text_of({.prompts = {prompt}, .options = {.max_new_tokens = 30, .sampling = {.temperature = 0}}});
  REQUIRE(text.size() == 30);
  SmallWriter anew({.rows = 1, .capacity = 64});
  for (std::size_t at = 0; at < text.size(); ++at) {
    anew.decoder.clear(0);
    anew.decoder.append(0, tokens_of(prompt + text.substr(0, at)));
    anew.decoder.run();
    const auto logits = anew.decoder.logits(0);
    CHECK('a' + (std::ranges::max_element(logits) - logits.begin()) == text[at]);
  }
}

TEST_CASE("generator: a prompt's text does not depend on those beside it") {
  const GeneratorOptions options{.max_new_tokens = 100, .sampling = {.seed = 7}};
  const auto together =
      written({.prompts = {"a", "bcdefghijklmnopqrstuvwabcdef", "cab"}, .options = options, .rows = 4});
  CHECK(together[0].text == text_of({.prompts = {"a"}, .options = options}));
  CHECK(together[0].text != together[2].text);
  CHECK(together[0].tokens == 100);
  CHECK(name_of(together[0].reason) == "length");
  GeneratorOptions other = options;
  other.sampling.seed = 8;
  CHECK(together[0].text != text_of({.prompts = {"a"}, .options = other}));
}

TEST_CASE("generator: a text ends before the text that stops it") {
  const GeneratorOptions options{.max_new_tokens = 60, .sampling = {.seed = 7}};
  const std::string whole = text_of({.prompts = {"cab"}, .options = options});
  const std::string stop = whole.substr(20, 3);
  GeneratorOptions stopping = options;
  stopping.stop = stop;
  const Generated stopped = written({.prompts = {"cab"}, .options = stopping}).front();
  CHECK(stopped.text == whole.substr(0, whole.find(stop)));
  CHECK(stopped.tokens == static_cast<std::int64_t>(whole.find(stop) + stop.size()));
  CHECK(name_of(stopped.reason) == "stop");
}

TEST_CASE("generator: a text ends where the model ends it, and that token is no part of it") {
  const GeneratorOptions options{.max_new_tokens = 60, .sampling = {.seed = 7}};
  const std::string whole = text_of({.prompts = {"cab"}, .options = options});
  const std::size_t at = whole.find(whole[20]);
  GeneratorOptions ending = options;
  ending.end_of_text = whole[20] - 'a';
  const Generated ended = written({.prompts = {"cab"}, .options = ending}).front();
  CHECK(ended.text == whole.substr(0, at));
  CHECK(ended.tokens == static_cast<std::int64_t>(at));
  CHECK(name_of(ended.reason) == "end");
}

TEST_CASE("generator: a text that outgrows the model goes on from its last half") {
  const GeneratorOptions greedy{.max_new_tokens = 70, .sampling = {.temperature = 0}};
  const std::string prompt = "badfaced";
  const std::string text = text_of({.prompts = {prompt}, .options = greedy, .capacity = 16});
  REQUIRE(text.size() == 70);
  // Full when it holds 16 tokens; the token behind is written from the last 8 of 17.
  const std::string all = prompt + text;
  const std::string next = text_of({.prompts = {all.substr(9, 8)},
                                    .options = {.max_new_tokens = 9, .sampling = {.temperature = 0}},
                                    .capacity = 16});
  CHECK(next == all.substr(17, 9));
}

}  // namespace lockstep::runtime
