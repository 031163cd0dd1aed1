#include "kernels/base/typed_words.h"

#include <string>
#include <vector>

#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace lockstep {
namespace {

using Names = std::vector<std::string>;

TEST_CASE("an unknown name is answered with the nearest ones, three at most") {
  CHECK(unknown_name("fruit", "aple", Names{"apple", "pear"}) ==
        "unknown fruit 'aple', did you mean 'apple'?");
  CHECK(unknown_name("key", "cat", Names{"bat", "cab", "dog"}) ==
        "unknown key 'cat', did you mean 'bat' or 'cab'?");
  CHECK(unknown_name("key", "size", Names{"a-size", "b-size", "c-size", "d-size"}) ==
        "unknown key 'size', did you mean 'a-size', 'b-size' or 'c-size'?");
  CHECK(unknown_name("key", "batch", Names{"batch-extent", "extent-of-batch", "epoch-count"}) ==
        "unknown key 'batch', did you mean 'batch-extent' or 'extent-of-batch'?");
  CHECK(unknown_name("key", "x", Names{"apple", "pear"}) == "unknown key 'x'; there are: apple, pear");
  CHECK(unknown_name("key", "x", Names{"apple"}, "see there") == "unknown key 'x'; see there");
}

TEST_CASE("names are the same but for case, dashes and underscores") {
  CHECK(same_name("Adam_W", Names{"sgd", "adam", "adamw"}) == "adamw");
  CHECK_FALSE(same_name("adamx", Names{"sgd", "adam", "adamw"}));
}

TEST_CASE("words of the field: ours, a hint, or as typed") {
  const std::vector<FieldWord> words{{"steps", "max-steps"}, {"-N", "nodes"}, {"gloo", "", "take host"}};
  CHECK(our_name("Steps", words, Names{"epochs"}) == "max-steps");
  CHECK(our_name("EPOCHS", words, Names{"epochs"}) == "epochs");
  CHECK(our_name("other", words, Names{"epochs"}) == "other");
  CHECK(our_name("-N", words, Names{}) == "nodes");
  CHECK(our_name("-n", words, Names{}) == "-n");
  CHECK(tests::message_of<UsageError>([&] { our_name("gloo", words, Names{}); }) == "take host");
}

}  // namespace
}  // namespace lockstep
