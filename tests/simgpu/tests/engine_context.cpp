// The switch of stacks for processors that have none of their own (context_ucontext.cpp, which this program
// is linked with); the others run under every test of a kernel.

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/simgpu/engine/context.h"
#include "tests/support/catch.h"

using namespace simgpu;

namespace {

struct Pair {
  Context host;
  Context other;
  std::string heard;
};

void talk(void* argument) {
  auto& pair = *static_cast<Pair*>(argument);
  for (const char* word : {"a", "b", "c"}) {
    try {
      throw std::runtime_error(word);
    } catch (const std::runtime_error& error) {
      pair.heard += error.what();
    }
    switch_context(pair.other, pair.host);
  }
  for (;;) switch_context(pair.other, pair.host);
}

}  // namespace

TEST_CASE("a stack goes on where it was left, and can throw and catch") {
  std::vector<std::byte> stack(256 << 10);
  Pair pair;
  pair.other = make_context(stack.data(), stack.data() + stack.size(), talk, &pair);
  for (const char* said : {"a", "ab", "abc", "abc"}) {
    switch_context(pair.host, pair.other);
    CHECK(pair.heard == said);
  }
}
