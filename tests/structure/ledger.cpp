// What tests/gpu/LEDGER.md waits for can be had: each test that it names is run by tests/gpu/run.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "tests/support/catch.h"

namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(std::filesystem::path(LOCKSTEP_SOURCE_DIR) / path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::set<std::string> all_in(const std::string& text, const std::regex& what) {
  std::set<std::string> found;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), what); at != std::sregex_iterator(); ++at)
    found.insert((*at)[1]);
  return found;
}

}  // namespace

TEST_CASE("tests/gpu/run runs every test that the ledger of GPUs names, and has each of its parts") {
  const std::string run = text_of("tests/gpu/run");
  const std::set<std::string> programs = all_in(run, std::regex(R"(\btest_([a-z_]+))"));
  const std::set<std::string> named =
      all_in(text_of("tests/gpu/LEDGER.md"), std::regex("`((?:unit|parity|conformance|cluster)_[a-z_]+)"));
  CHECK(!named.empty());
  for (const std::string& test : named) {
    if (programs.count(test) == 0) FAIL_CHECK("tests/gpu/run does not run " << test);
  }
  std::smatch parts;
  REQUIRE(std::regex_search(run, parts, std::regex(R"(\nall=\(([a-z0-9_\s]+)\))")));
  const std::set<std::string> listed = all_in(parts[1], std::regex("([a-z0-9_]+)"));
  CHECK(listed == all_in(run, std::regex(R"(\npart_([a-z0-9_]+)\(\))")));
}
