#include "data/text/token_file.h"
#include "data/text/tokenizer.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::tests;

namespace {

namespace fs = std::filesystem;

/// The text that a file of tokens stands for.
std::string text_of(const fs::path& tokens, const fs::path& tokenizer) {
  const TokenFile file = open_token_file(tokens, "");
  std::vector<std::int64_t> ids(static_cast<std::size_t>(file.tokens.size()));
  file.tokens.copy_to(ids);
  return open_tokenizer(tokenizer)->decode(ids);
}

const std::string verse = "To be, or not to be:\nthat is the question\xE2\x80\x94\n";

}  // namespace

TEST_CASE("a text becomes a file of tokens that gives it back") {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", verse);
  const auto of_characters = tokenize_files({.input = folder / "a.txt", .output = folder / "a.bin"});
  REQUIRE(of_characters.size() == 1);
  CHECK(of_characters[0].tokens == 43);
  CHECK(of_characters[0].vocab_size == 18);
  CHECK(fs::file_size(folder / "a.bin") == 1024 + 2 * 43);
  CHECK(text_of(folder / "a.bin", folder / "a.characters.json") == verse);
  const auto of_words =
      tokenize_files({.input = folder / "a.txt", .output = folder / "b.bin", .tokenizer = TOKENIZER});
  CHECK(of_words[0].tokens < 30);
  CHECK(of_words[0].vocab_size == 1500);
  CHECK(text_of(folder / "b.bin", TOKENIZER) == verse);
  const auto over_itself = [&] {
    tokenize_files({.input = folder / "a.txt", .output = folder / "." / "a.txt"});
  };
  CHECK_THAT(message_of<UsageError>(over_itself), contains("is the text itself; name another file"));
  CHECK(fs::file_size(folder / "a.txt") == verse.size());
}

TEST_CASE("a byte order mark before a text makes no token") {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", verse);
  write_file(folder / "marked.txt", "\xEF\xBB\xBF" + verse);
  for (const fs::path& tokenizer : {fs::path(), fs::path(TOKENIZER)}) {
    for (const char* name : {"a", "marked"}) {
      tokenize_files({.input = folder / (std::string(name) + ".txt"),
                      .output = folder / (std::string(name) + ".bin"),
                      .tokenizer = tokenizer});
    }
    CHECK(contents(folder / "marked.bin") == contents(folder / "a.bin"));
  }
  CHECK(contents(folder / "marked.characters.json") == contents(folder / "a.characters.json"));
}

TEST_CASE("vocabularies above 65,536 have tokens of 32 bits") {
  const TemporaryFolder folder;
  std::string text = "ab\xF0\x90\x80\x80";
  write_file(folder / "a.txt", text);
  std::string names = "[";
  for (int i = 0; i < 70000; ++i) names += "\"c\",";  // the last of a character is the one that counts
  write_file(folder / "c.json", names + R"("a","b","\ud800\udc00"])");
  tokenize_files({.input = folder / "a.txt", .output = folder / "a.bin", .tokenizer = folder / "c.json"});
  const TokenFile file = open_token_file(folder / "a.bin", "");
  CHECK(file.tokens.width() == 4);
  CHECK(file.tokens.largest() == 70002);
  CHECK(text_of(folder / "a.bin", folder / "c.json") == text);
}

TEST_CASE("a folder's texts share their characters") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "in");
  write_file(folder / "in/train.txt", "abc");
  write_file(folder / "in/val.txt", "cxc");
  write_file(folder / "in/test.txt", "xa");
  CHECK(tokenize_files({.input = folder / "in", .output = folder / "out"}).size() == 3);
  CHECK(text_of(folder / "out/test.bin", folder / "out/characters.json") == "xa");
  fs::remove(folder / "in/test.txt");
  CHECK(text_of(folder / "out/val.bin", folder / "out/characters.json") == "cxc");
  CHECK(text_of(folder / "out/train.bin", folder / "out/characters.json") == "abc");
  write_file(folder / "in/val.txt", "");
  CHECK(message_of<DataError>([&] { tokenize_files({.input = folder / "in", .output = folder / "out"}); }) ==
        (folder / "in/val.txt").string() + ": offset 0: the file is empty");
  write_file(folder / "in/val.txt", "q\n");
  CHECK(message_of<DataError>([&] {
          tokenize_files({.input = folder / "in",
                          .output = folder / "out",
                          .tokenizer = folder / "out/characters.json"});
        }) == (folder / "in/val.txt").string() +
                  ": offset 0: U+0071 is no character of the 3 that the vocabulary has");
}
