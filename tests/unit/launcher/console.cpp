#include "launcher/console.h"

#include "tests/support/catch.h"

namespace lockstep::launcher {
namespace {

TEST_CASE("lines are kept whole and prefixed") {
  Lines lines("[rank1] ", false);
  CHECK(lines.feed("ab").text.empty());
  CHECK(lines.feed("c\nde\nf").text == "[rank1] abc\n[rank1] de\n");
  CHECK(lines.finish().text == "[rank1] f\n");
  CHECK(lines.finish().text.empty());
}

TEST_CASE("without a prefix the bytes pass unchanged") {
  Lines lines("", false);
  CHECK(lines.feed("a\r50%\r100%\nb\r\n").text == "a\r50%\r100%\nb\r\n");
}

TEST_CASE("where bars are not allowed only the last state of one is kept") {
  Lines lines("[rank1] ", false);
  CHECK(lines.feed("\r10%").text.empty());
  CHECK(lines.feed("\r20%\n").text == "[rank1] 20%\n");
}

TEST_CASE("a bar passes at once and unprefixed, lines around it do not") {
  Lines lines("[rank0] ", true);
  CHECK(lines.feed("start\n").text == "[rank0] start\n");
  const ConsoleText first = lines.feed("\r10%");
  CHECK(first.text == "\r10%");
  CHECK_FALSE(first.continues_bar);
  CHECK(first.leaves_bar);
  const ConsoleText rest = lines.feed(" of it\r20%\nnext\n");
  CHECK(rest.text == " of it\r20%\n[rank0] next\n");
  CHECK(rest.continues_bar);
  CHECK_FALSE(rest.leaves_bar);
}

TEST_CASE("a bar that ends its line with the carriage return, and one cut off by the end") {
  Lines lines("[rank0] ", true);
  CHECK(lines.feed("30%\r").text == "30%\r");
  CHECK(lines.finish().text == "\n");
}

TEST_CASE("a line without end is passed on in parts") {
  Lines lines("", false);
  CHECK(lines.feed(std::string(2 << 20, 'x')).text.size() >= std::size_t{2} << 20);
}

}  // namespace
}  // namespace lockstep::launcher
