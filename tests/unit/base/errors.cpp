#include <string>

#include "kernels/base/error.h"
#include "tests/support/catch.h"

using namespace lockstep;

TEST_CASE("the message of an error is one line, whatever a path or a prompt has") {
  CHECK(std::string(DataError("new\nline/run: \tno\x1b[31m such\x7f file").what()) ==
        R"(new\nline/run: \tno\x1b[31m such\x7f file)");
  CHECK(std::string(UsageError("caf\xC3\xA9 \xE9: \"a\\nb\"").what()) == "caf\xC3\xA9 \xE9: \"a\\nb\"");
}
