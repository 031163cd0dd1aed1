#include "kernels/base/json.h"

#include <cmath>
#include <limits>
#include <string>

#include "kernels/base/deadline.h"
#include "tests/support/catch.h"
#include "tests/support/slowness.h"

using lockstep::Json;
using lockstep::JsonError;

TEST_CASE("a JSON value is written as it was made, and read back") {
  Json json{{"step", 12},
            {"loss", 0.1},
            {"name", "fc1.weight"},
            {"stopped", false},
            {"shape", std::vector<std::int64_t>{3, 4}},
            {"algorithms", std::map<std::string, std::string>{{"conv1", "winograd"}}}};
  json["eval"]["accuracy"] = 1.0;
  json["missing"] = Json::array();
  const std::string text = json.dump();
  CHECK(text == R"({"step":12,"loss":0.1,"name":"fc1.weight","stopped":false,"shape":[3,4],)"
                R"("algorithms":{"conv1":"winograd"},"eval":{"accuracy":1.0},"missing":[]})");
  CHECK(Json::parse(text) == json);
  CHECK(Json{{"a", 1}}.dump(2) == "{\n  \"a\": 1\n}");
}

TEST_CASE("numbers keep their bits; what is none is null") {
  for (const double value : {0.1, 1e-300, 4.7e-9, 1.0 / 3}) {
    CHECK(Json::parse(Json(value).dump()).get<double>() == value);
  }
  CHECK(Json(std::nan("")).dump() == "null");
  CHECK(Json::parse("18446744073709551615").get<std::uint64_t>() ==
        std::numeric_limits<std::uint64_t>::max());
  CHECK(Json::parse("-9223372036854775808").get<std::int64_t>() == std::numeric_limits<std::int64_t>::min());
}

TEST_CASE("another type than the one asked for is an error that shows the value") {
  const Json json = Json::parse(R"({"step": "twelve", "many": 70000, "less": -1})");
  CHECK_THROWS_WITH(json["step"].get<int>(), lockstep::tests::contains("\"twelve\" is not a whole number"));
  CHECK_THROWS_WITH(json["many"].get<std::int16_t>(),
                    lockstep::tests::contains("70000 is not a smaller number"));
  CHECK_THROWS_WITH(json["less"].get<std::uint64_t>(),
                    lockstep::tests::contains("-1 is not a whole number from 0 on"));
  CHECK_THROWS_WITH(json.at("epoch"), lockstep::tests::contains("no entry 'epoch'"));
  CHECK(json["epoch"].is_null());
  CHECK(json["step"].get_or(7) == 7);
}

TEST_CASE("what is no JSON is refused: cut, twice the same key, nested too deep") {
  CHECK_THROWS_WITH(Json::parse(R"({"a": 1)"), lockstep::tests::contains("no JSON from byte 8 on"));
  CHECK_THROWS_WITH(Json::parse(R"({"a": 1, "b": {"a": 2}, "a": 3})"),
                    lockstep::tests::contains("two entries 'a'"));
  CHECK_THROWS_AS(Json::parse(std::string(1 << 20, '[')), JsonError);
  CHECK_THROWS_AS(Json::parse(R"({"a": 1e999})"), JsonError);
  CHECK(Json::parse_or_null("nonsense").is_null());
}

// Of a tokenizer's vocabulary. An object that searches all its keys for each of them takes a minute.
TEST_CASE("a large object is read and written in a moment") {
  const auto start = lockstep::Clock::now();
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += (i == 0 ? "\"token" : ",\"token") + std::to_string(i) + "\":1";
  text += "}";
  CHECK(Json::parse(text).dump() == text);
  CHECK(lockstep::Clock::now() - start < lockstep::Seconds(5 * lockstep::tests::slowness));
}
