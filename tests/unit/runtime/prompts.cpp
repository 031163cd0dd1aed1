#include "runtime/generate/prompts.h"

#include <sys/stat.h>

#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::runtime {
namespace {

using tests::contains;

std::string refusal(const std::filesystem::path& file) {
  GenerationOptions options;
  options.prompt_file = file;
  return tests::message_of<UsageError>([&] { read_prompt_file(options, nullptr); });
}

TEST_CASE("who names a stream as a file of prompts is told how prompts come from standard input") {
  const tests::TemporaryFolder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(refusal(folder / "pipe") == "--prompt-file " + (folder / "pipe").string() +
                                        ": is a FIFO, not a file; pipe it, and give --prompt-file -");
  CHECK_THAT(refusal("/dev/null"), contains("is a device, not a file; pipe it"));
  for (const std::filesystem::path& other : {folder.path(), folder / "nothing"})
    CHECK_THAT(refusal(other), !contains("pipe it"));
}

}  // namespace
}  // namespace lockstep::runtime
