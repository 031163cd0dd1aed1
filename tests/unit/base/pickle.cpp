#include "kernels/base/pickle.h"

#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/base/philox.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace lockstep;
using namespace lockstep::tests;
using namespace std::string_literals;

namespace {

constexpr std::array<std::string_view, 2> globals{"collections.OrderedDict", "torch._utils._rebuild"};

Pickle read(const std::string& bytes, std::uint64_t first_offset = 0) {
  return Pickle("file", std::as_bytes(std::span(bytes)), globals, first_offset);
}

std::string complaint(const std::string& bytes) {
  return message_of<DataError>([&] { read(bytes); });
}

// As Python 3 writes {'a': [1, -2, 70000, 2**40, True, None, 2.5], 'b': (b'xy',)} with protocol 2 and 4.
const std::string protocol2 =
    "\x80\x02}q\x00(X\x01\x00\x00\x00"s
    "aq\x01]q\x02(K\x01J\xfe\xff\xff\xffJp\x11\x01\x00\x8a\x06\x00\x00\x00\x00\x00\x01\x88NG@"
    "\x04\x00\x00\x00\x00\x00\x00"
    "eX\x01\x00\x00\x00"
    "bC\x02xy\x85q\x03u."s;
const std::string protocol4 =
    "\x80\x04\x95\x34\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01"s
    "a\x94]\x94(K\x01J\xfe\xff\xff\xffJp\x11\x01\x00\x8a\x06\x00\x00\x00\x00\x00\x01\x88NG@"
    "\x04\x00\x00\x00\x00\x00\x00"
    "e\x8c\x01"
    "b\x94"
    "C\x02xy\x94\x85\x94u."s;

}  // namespace

TEST_CASE("values of a pickle come as data, in every protocol that is read") {
  for (const std::string& bytes : {protocol2, protocol4}) {
    const Pickle pickle = read(bytes);
    const PickleValue* a = find(pickle.root(), "a");
    REQUIRE(a != nullptr);
    const PickleItems& items = pickle.as<PickleList>(*a, "a is no list").items;
    REQUIRE(items.size() == 7);
    for (const auto& [at, number] :
         {std::pair<std::size_t, std::int64_t>{0, 1}, {1, -2}, {2, 70000}, {3, std::int64_t{1} << 40}}) {
      CHECK(std::get<std::int64_t>(items[at]->content) == number);
    }
    CHECK(std::get<bool>(items[4]->content));
    CHECK(std::holds_alternative<PickleNone>(items[5]->content));
    CHECK(std::get<double>(items[6]->content) == 2.5);
    const PickleItems& pair = pickle.as<PickleTuple>(*find(pickle.root(), "b"), "b is no tuple").items;
    REQUIRE(pair.size() == 1);
    CHECK(std::get<PickleBytes>(pair[0]->content).contents == "xy");
    CHECK(find(pickle.root(), "c") == nullptr);
  }
}

TEST_CASE("a number of more than 64 bits comes as None, a set as a list") {
  // As Python writes {'seed': 2**64 - 1, 'tags': {1, 2}, 'kept': frozenset((3,))} with protocol 4.
  const std::string bytes =
      "\x80\x04\x95\x32\x00\x00\x00\x00\x00\x00\x00}\x94("
      "\x8c\x04seed\x94\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00"
      "\x8c\x04tags\x94\x8f\x94(K\x01K\x02\x90\x8c\x04kept\x94(K\x03\x91\x94u."s;
  const Pickle pickle = read(bytes);
  CHECK(std::holds_alternative<PickleNone>(find(pickle.root(), "seed")->content));
  const auto numbers_in = [&](std::string_view key) {
    std::vector<std::int64_t> numbers;
    for (const PickleValue* item : pickle.as<PickleList>(*find(pickle.root(), key), "it is no list").items)
      numbers.push_back(std::get<std::int64_t>(item->content));
    return numbers;
  };
  CHECK(numbers_in("tags") == std::vector<std::int64_t>{1, 2});
  CHECK(numbers_in("kept") == std::vector<std::int64_t>{3});
}

TEST_CASE("a call is kept as its parts, with its items and state; a persistent id too") {
  const std::string bytes =
      "\x80\x02"
      "ccollections\nOrderedDict\n)R(U\x01wctorch._utils\n_rebuild\n(U\x07storageK\x03tQ\x85Ru}b."s;
  const Pickle pickle = read(bytes);
  CHECK(is_made_by(pickle.root(), "collections.OrderedDict"));
  CHECK(std::get<PickleObject>(pickle.root().content).state != nullptr);
  const PickleValue* tensor = find(pickle.root(), "w");
  REQUIRE((tensor != nullptr && is_made_by(*tensor, "torch._utils._rebuild")));
  const auto& arguments = std::get<PickleTuple>(std::get<PickleObject>(tensor->content).arguments->content);
  const auto& id = std::get<PicklePersistent>(arguments.items[0]->content);
  CHECK(text_of(*std::get<PickleTuple>(id.id->content).items[0]) == "storage");
}

TEST_CASE("what could run code, or is no pickle, is refused with its offset") {
  CHECK(complaint("\x80\x02"
                  "cos\nsystem\nU\x02ls\x85R."s) ==
        "file: offset 2: pickle: the global 'os.system' is not among those that are read");
  CHECK(complaint("\x80\x04\x8c\x02os\x8c\x06system\x93."s) ==
        "file: offset 14: pickle: the global 'os.system' is not among those that are read");
  CHECK(complaint("\x80\x02(K\x01ios\nsystem\n."s) == "file: offset 5: pickle: opcode 0x69 is not read");
  CHECK(complaint("\x80\x02K\x01)R."s) == "file: offset 5: pickle: it calls what is no global");
  CHECK(complaint("\x80\x07N."s) == "file: offset 0: pickle: protocol 7; 2 to 5 are read");
  CHECK(complaint("not a pickle") == "file: offset 0: pickle: opcode 0x6e is not read");
  CHECK(complaint("") == "file: offset 0: pickle: it ends within this: truncated");
  CHECK(complaint("X\xff\xff\xff\x7fshort"s) == "file: offset 0: pickle: it ends within this: truncated");
  CHECK(complaint("h\x07."s) == "file: offset 0: pickle: it takes number 7 of the memo, which is not there");
  CHECK(complaint("(a."s) == "file: offset 1: pickle: it takes a value that was never given");
  CHECK(complaint("e."s) == "file: offset 0: pickle: it takes values from a mark that was never set");
  CHECK(complaint("N]a."s) == "file: offset 2: pickle: it appends to what is no list");
  CHECK(complaint("}(Nu."s) == "file: offset 3: pickle: a key without a value");
  CHECK(complaint(std::string(Pickle::most_values + 1, 'N')) ==
        "file: offset 4194304: pickle: more than 4194304 values");
}

TEST_CASE("a value that is not what it should be is named where it stands in the file") {
  const std::string bytes = "\x80\x02}U\x01lK\x05s."s;
  const Pickle pickle = read(bytes, 100);
  const PickleValue& labels = *find(pickle.root(), "l");
  CHECK(message_of<DataError>([&] { pickle.as<PickleList>(labels, "the labels are no list"); }) ==
        "file: offset 106: the labels are no list");
}

TEST_CASE("a list that holds itself, and depth, cost no more than their bytes") {
  const Pickle self = read("]q\x00h\x00"s + "a."s);
  CHECK(std::get<PickleList>(self.root().content).items[0] == &self.root());
  const Pickle deep = read("N" + std::string(1'000'000, '\x85') + ".");
  CHECK(std::holds_alternative<PickleTuple>(deep.root().content));
}

TEST_CASE("damaged pickles end in an error or in values, wherever they are damaged") {
  for (const std::string& whole : {protocol2, protocol4}) {
    for (std::size_t end = 0; end < whole.size(); ++end) CHECK(!complaint(whole.substr(0, end)).empty());
    const Philox random(1, 0);
    for (std::uint32_t round = 0; round < 20000; ++round) {
      std::string bytes = whole;
      for (std::uint32_t change = 0; change < 3; ++change) {
        const std::uint64_t at = 6 * std::uint64_t{round} + 2 * change;
        bytes[random.below(static_cast<std::uint32_t>(bytes.size()), at)] =
            static_cast<char>(random.bits(at + 1));
      }
      complaint(bytes);
    }
  }
}
