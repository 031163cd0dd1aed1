// What tests leave out: a failure where LOCKSTEP_MUST_RUN=1, unless tests/may_skip.txt lists it.
#include "tests/support/skip.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "tests/structure/check.h"
#include "tests/support/catch.h"
#include "tests/support/variable.h"

using namespace lockstep;

namespace {

const std::filesystem::path root = LOCKSTEP_SOURCE_DIR;

std::vector<std::string> listed_reasons() {
  std::vector<std::string> reasons;
  std::ifstream list(root / "tests/may_skip.txt");
  for (std::string line; std::getline(list, line);) {
    if (!line.empty() && !line.starts_with('#')) reasons.push_back(line);
  }
  return reasons;
}

/// How a script ends that skips for this reason.
int code_of_script(const std::string& reason) {
  const std::string script = (root / "tests/support/skip.sh").string();
  const int status = std::system(
      ("bash -c '. \"$0\" && skip \"$1\"' '" + script + "' '" + reason + "' 2>/dev/null").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("a skip is a failure where LOCKSTEP_MUST_RUN=1, but for the reasons that are listed") {
  REQUIRE(!listed_reasons().empty());
  const std::string listed = listed_reasons().front();
  const std::string other = "this machine has no second cable";
  {
    const tests::Variable variable("LOCKSTEP_MUST_RUN", "1");
    CHECK(tests::must_run(other));
    CHECK(tests::must_run(""));
    CHECK_FALSE(tests::must_run(listed));
    CHECK(code_of_script(other) == 1);
    CHECK(code_of_script(listed) == 77);
  }
  const tests::Variable variable("LOCKSTEP_MUST_RUN", "0");
  CHECK_FALSE(tests::must_run(other));
  CHECK(code_of_script(other) == 77);
}

TEST_CASE("every listed reason is one that a test gives, and only skip.sh ends with 77") {
  const auto files = structure::read_sources(root);
  const auto is_given = [&](const std::string& reason) {
    return std::ranges::any_of(files, [&](const auto& file) {
      return file.path.starts_with("tests/") &&
             file.text.find("skip(\"" + reason + "\")") != std::string::npos;
    });
  };
  for (const std::string& reason : listed_reasons()) {
    CAPTURE(reason);
    CHECK(is_given(reason));
  }
  for (const auto& file : files) {
    const bool is_ours = file.path == "tests/support/skip.sh" || file.path == "tests/structure/skips.cpp";
    if (!is_ours && file.text.find("exit 77") != std::string::npos) FAIL_CHECK(file.path << ": use skip.sh");
  }
}
