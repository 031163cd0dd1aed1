// One module in four builds: this one's, another commit's, one with another border, and none.
#include "kernels/base/load_module.h"

#include "kernels/base/error.h"
#include "kernels/base/version.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/unit/base/test_module.h"

using namespace lockstep;
using tests::contains;

namespace {

const tests::TestModule& load(const std::string& file) {
  return load_module_table<tests::TestModule>(
      {.file = file, .symbol = "lockstep_test_module", .hint = "hint"}, tests::test_module_identity());
}

std::string refusal(const std::string& file) {
  return tests::message_of<DeviceError>([&] { load(file); });
}

}  // namespace

TEST_CASE("a module of the same build is loaded") {
  CHECK(load("liblockstep_test_module.so").answer() == 42);
}

TEST_CASE("a module of another commit is refused, with its file and both commits") {
  const std::string message = refusal("liblockstep_test_module_commit.so");
  CHECK_THAT(message, contains("liblockstep_test_module_commit.so was built from commit 0123456789ab"));
  CHECK_THAT(message, contains("this program from commit " + std::string(commit())));
  CHECK_THAT(message, !contains("hashes"));
}

TEST_CASE("a module of the same commit with another border is refused, with both hashes") {
  const std::string message = refusal("liblockstep_test_module_border.so");
  CHECK_THAT(message,
             contains("liblockstep_test_module_border.so was built from commit " + std::string(commit())));
  CHECK_THAT(message, contains("what crosses between them differs (hashes "));
}

TEST_CASE("a module that is not there is told with how to get it") {
  CHECK_THAT(refusal("liblockstep_no_module.so"),
             contains("liblockstep_no_module.so cannot be loaded: hint"));
}
