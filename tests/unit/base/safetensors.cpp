#include "kernels/base/safetensors.h"

#include <cstring>
#include <fstream>

#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using tests::message_of;
using tests::TemporaryFolder;

namespace {

std::string with_length(const std::string& header, std::size_t data_bytes) {
  std::uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  return file + header + std::string(data_bytes, '\0');
}

/// What the reader says about a file of these bytes, without the path; "" if it takes them.
std::string complaint(const std::string& bytes) {
  const TemporaryFolder folder;
  const std::string path = (folder / "file").string();
  std::ofstream(path, std::ios::binary) << bytes;
  const std::string message = message_of<DataError>([&] { SafetensorsFile file(path); });
  if (message.empty()) return message;
  CHECK(message.rfind(path + ": ", 0) == 0);
  return message.substr(path.size() + 2);
}

std::string complaint(const std::string& header, std::size_t data_bytes) {
  return complaint(with_length(header, data_bytes));
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

}  // namespace

TEST_CASE("what is written is read again") {
  const TemporaryFolder folder;
  const std::vector<float> weights{1, 2, 3, 4, 5, 6};
  const std::vector<std::int64_t> count{42};
  const std::vector<std::uint8_t> bytes{7, 8, 9};
  const std::vector<SafetensorsFile::Tensor> tensors{
      {"z.weight", DType::f32, {2, 3}, std::as_bytes(std::span(weights))},
      {"bytes", DType::u8, {3, 1}, std::as_bytes(std::span(bytes))},
      {"words", DType::u16, {2}, std::as_bytes(std::span(count)).first(4)},
      {"none", DType::f16, {0, 4}, {}},
      {"count \"ü\"", DType::i64, {}, std::as_bytes(std::span(count))},
  };
  write_safetensors(folder / "file", tensors, {{"format", "pt"}});

  const SafetensorsFile file(folder / "file");
  CHECK(file.metadata() == std::map<std::string, std::string>{{"format", "pt"}});
  REQUIRE(file.tensors().size() == tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& read = file.tensors()[i];
    CHECK(read.name == tensors[i].name);
    CHECK(read.dtype == tensors[i].dtype);
    CHECK(read.shape == tensors[i].shape);
    CHECK(std::equal(read.bytes.begin(), read.bytes.end(), tensors[i].bytes.begin(), tensors[i].bytes.end()));
  }
  CHECK(file.find("bytes") == &file.tensors()[1]);
  CHECK(file.find("byte") == nullptr);
  // The mapping begins at a page, so the first tensor is aligned as the file says.
  CHECK(reinterpret_cast<std::uintptr_t>(file.tensors()[0].bytes.data()) % 64 == 0);
}

TEST_CASE("a file without tensors is valid") {
  const TemporaryFolder folder;
  write_safetensors(folder / "file", {});
  CHECK(SafetensorsFile(folder / "file").tensors().empty());
  CHECK(complaint("{}", 0) == "");
}

TEST_CASE("tensors come in the order of their bytes") {
  const TemporaryFolder folder;
  std::ofstream(folder / "file", std::ios::binary) << with_length(
      R"({"b":)" + entry("U8", "[1]", "[2,3]") + R"(,"a":)" + entry("BF16", "[1]", "[0,2]") + "}", 3);
  const SafetensorsFile file(folder / "file");
  CHECK(file.tensors()[0].name == "a");
  CHECK(file.tensors()[1].name == "b");
}

TEST_CASE("a damaged header is refused with its offset") {
  CHECK(complaint("1234567") == "offset 0: 7 bytes are too few for a safetensors file");
  CHECK(complaint(std::string(8, '\xff')) ==
        "offset 0: header of 18446744073709551615 bytes: no safetensors file");
  CHECK(complaint(with_length("{}", 0).substr(0, 9)) ==
        "offset 0: header of 2 bytes, but the file has only 9: truncated");
  CHECK(complaint("{\"a\":", 0) == "offset 14: the header is not valid JSON");
  CHECK(complaint("[]", 0) == "offset 8: the header is not a JSON object");
  CHECK(complaint(R"({"__metadata__":{"a":1}})", 0) == "offset 8: __metadata__ 'a' is not a string");
}

TEST_CASE("a damaged entry is refused with its tensor's name") {
  const auto about_a = [](const std::string& value, std::size_t bytes) {
    return complaint(R"({"a":)" + value + "}", bytes);
  };
  CHECK(about_a(entry("F32", "[2]", "[0,8]"), 8) == "");
  CHECK(about_a("3", 0) == "offset 8: tensor 'a': needs dtype, shape and data_offsets, and nothing else");
  CHECK(about_a(entry("BOOL", "[2]", "[0,2]"), 2) == "");
  CHECK(about_a(entry("F8_E4M3", "[2]", "[0,2]"), 2) ==
        "offset 8: tensor 'a': dtype F8_E4M3 is not supported");
  CHECK(about_a(entry("F32", "[3]", "[0,8]"), 8) ==
        "offset 8: tensor 'a': its shape does not fill its 8 bytes");
  CHECK(about_a(entry("F32", "[-2]", "[0,8]"), 8) == "offset 8: tensor 'a': shape is not a list of sizes");
  CHECK(about_a(entry("F32", "[4611686018427387904,4]", "[0,0]"), 0) ==
        "offset 8: tensor 'a': its shape overflows");
  CHECK(about_a(entry("F32", "[2]", "[8,0]"), 8) ==
        "offset 8: tensor 'a': data_offsets are not [begin, end]");
  CHECK(about_a(entry("F32", "[2]", "[0]"), 8) == "offset 8: tensor 'a': data_offsets are not [begin, end]");
}

TEST_CASE("an empty tensor may begin where another does, in any order of the header") {
  const std::string full = R"("a":)" + entry("F32", "[4]", "[0,16]");
  const std::string first = R"("e":)" + entry("F32", "[0]", "[0,0]");
  const std::string last = R"("e":)" + entry("F32", "[0]", "[16,16]");
  for (const std::string& empty : {first, last}) {
    CHECK(complaint("{" + full + "," + empty + "}", 16) == "");
    CHECK(complaint("{" + empty + "," + full + "}", 16) == "");
  }
}

TEST_CASE("bytes that are missing, shared or left over are refused") {
  const std::string one = R"({"a":)" + entry("F32", "[2]", "[0,8]") + "}";
  const std::size_t begin = 8 + one.size();
  CHECK(complaint(one, 5) == "offset " + std::to_string(begin + 5) + ": tensor 'a' ends at " +
                                 std::to_string(begin + 8) + ", but the file ends here: truncated");
  CHECK(complaint(one, 9) == "offset " + std::to_string(begin + 8) + ": 1 bytes behind the last tensor");
  const auto second_at = [](const std::string& offsets) {
    return complaint(
        R"({"a":)" + entry("U8", "[4]", "[0,4]") + R"(,"b":)" + entry("U8", "[4]", offsets) + "}", 12);
  };
  CHECK(second_at("[2,6]").find("it overlaps another") != std::string::npos);
  CHECK(second_at("[6,10]").find("bytes of no tensor before it") != std::string::npos);
  CHECK(complaint(R"({"a":)" + entry("U8", "[1]", "[0,1]") + R"(,"a":)" + entry("U8", "[1]", "[0,1]") + "}",
                  1) == "offset 8: two entries 'a'");
}
