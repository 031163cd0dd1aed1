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

TEST_CASE("a line without end passes as it comes, and stays one line") {
  const std::string prefix = GENERATE("", "[rank1] ");
  Lines lines(prefix, false);
  CHECK(lines.feed(std::string(1 << 19, 'x')).text.empty());
  CHECK(lines.feed(std::string(1 << 20, 'y')).text ==
        prefix + std::string(1 << 19, 'x') + std::string(1 << 20, 'y'));
  CHECK(lines.is_inside_line());
  CHECK(lines.feed("z").text == "z");
  CHECK(lines.feed("\rz\nnext\n").text == "\rz\n" + prefix + "next\n");
  CHECK_FALSE(lines.is_inside_line());
}

TEST_CASE("a line without end that others' text interrupts, and one that the stream's end does") {
  const std::string endless(1 << 20, 'x');
  Lines lines("[rank1] ", false);
  CHECK(lines.feed(endless).text == "[rank1] " + endless);
  CHECK(lines.end_open_line().text == "\n");
  CHECK(lines.feed("rest\n").text == "[rank1] rest\n");
  lines.feed(endless);
  CHECK(lines.finish().text == "\n");
}

TEST_CASE("a bar that is redrawn for ever where bars are not allowed is no line without end") {
  Lines lines("[rank1] ", false);
  for (int percent = 0; percent < 3; ++percent)
    CHECK(lines.feed(std::string(1 << 19, 'x') + "\r").text.empty());
  CHECK(lines.feed("99%\n").text == "[rank1] 99%\n");
}

}  // namespace
}  // namespace lockstep::launcher
