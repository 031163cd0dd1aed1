#include <algorithm>
#include <utility>

#include "data/text/token_file.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/variable.h"
#include "tests/unit/data/text_files.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::data::testing;
using namespace lockstep::tests;

namespace {

namespace fs = std::filesystem;

/// As np.save writes it, whose header ends at a multiple of 64 bytes.
std::string array_file(const std::string& descr, const std::string& shape, const std::string& words) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.append(64 - (10 + header.size() + 1) % 64, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\0", 8) + words_of<std::uint16_t>({std::ssize(header)}) + header + words;
}

const Ids ids{5, 4, 3, 2, 1, 0, 7, 6, 500};

Ids tokens_of(const fs::path& path) {
  const TokenFile file = open_token_file(path, "");
  Ids tokens(static_cast<std::size_t>(file.tokens.size()));
  file.tokens.copy_to(tokens);
  return tokens;
}

}  // namespace

TEST_CASE("tokens are read from arrays of NumPy, of every width that ids have") {
  const TemporaryFolder folder;
  const fs::path file = folder / "train.npy";
  const std::vector<std::pair<const char*, std::string>> arrays{{"<u2", words_of<std::uint16_t>(ids)},
                                                                {"<u4", words_of<std::uint32_t>(ids)},
                                                                {"<i4", words_of<std::int32_t>(ids)},
                                                                {"<i8", words_of<std::int64_t>(ids)},
                                                                {"<u8", words_of<std::uint64_t>(ids)}};
  for (const auto& [descr, words] : arrays) {
    write_file(file, array_file(descr, "(9,)", words));
    CHECK(tokens_of(file) == ids);
  }
}

TEST_CASE("a folder of arrays has training and evaluation by name") {
  const TemporaryFolder folder;
  const Variable cache{"XDG_CACHE_HOME", (folder / "kept").string()};
  fs::create_directory(folder / "d");
  write_file(folder / "d/edufineweb_train_000001.npy",
             array_file("<u2", "(9,)", words_of<std::uint16_t>(ids)));
  write_file(folder / "d/edufineweb_val_000000.npy",
             array_file("<u2", "(3,)", words_of<std::uint16_t>({1, 2, 3})));
  const DatasetOptions options{
      .name = "tokens", .data_dir = folder / "d", .seq_len = 2, .per_token = true, .windows = "each"};
  CHECK(token_sample(*open_dataset(options, Split::train), 0) == TokenSample{{5, 4}, {4, 3}});
  CHECK(all_samples(*open_dataset(options, Split::test)) == std::vector<TokenSample>{{{1, 2}, {2, 3}}});
}

TEST_CASE("documents of wide tokens part at GPT-2's token, or at Llama 3's where a file has it") {
  const TemporaryFolder folder;
  const Variable cache{"XDG_CACHE_HOME", (folder / "kept").string()};
  write_file(folder / "val.bin", words_of<std::uint32_t>({1, 2}));
  write_file(folder / "val.npy", words_of<std::uint32_t>({1, 2}));
  DatasetOptions options{.name = "tokens", .seq_len = 4, .per_token = true, .windows = "documents"};
  options.token_dtype = "uint32";
  const auto open = [&](const Ids& tokens, bool is_array) {
    options.data_dir = folder / (is_array ? "train.npy" : "train.bin");
    const std::string shape = "(" + std::to_string(tokens.size()) + ",)";
    write_file(options.data_dir, is_array ? array_file("<i8", shape, words_of<std::int64_t>(tokens))
                                          : words_of<std::uint32_t>(tokens));
    return open_dataset(options, Split::train)->size();
  };
  for (const bool is_array : {false, true}) {
    options.windows = "documents";
    CHECK(open({50256, 1, 2, 50256, 3, 50256, 4}, is_array) == 3);
    CHECK(open({128000, 1, 50256, 2, 128000, 3}, is_array) == 2);
    CHECK(open({50256, 1, 2, 3}, is_array) == 1);
    const auto refused = [&] { return message_of<DataError>([&] { open({1, 2, 3, 4, 5}, is_array); }); };
    const std::string hint =
        " is here, which would part documents; name the one that does, by --windows documents=ID or "
        "packed=ID, or give --windows each";
    CHECK(refused() == options.data_dir.string() + ": no token 128000 or 50256" + hint);
    // Of a larger vocabulary 50256 is a word.
    CHECK_THROWS_AS(open({50256, 1, 151643, 50256, 2}, is_array), DataError);
    options.windows = "documents=9";
    CHECK(refused() == options.data_dir.string() + ": no token 9" + hint);
    options.windows = "documents=3";
    CHECK(open({1, 2, 3, 4, 5}, is_array) == 2);
  }
}

TEST_CASE("a number below 0 in an array is told as it is there") {
  const TemporaryFolder folder;
  const Variable cache{"XDG_CACHE_HOME", (folder / "kept").string()};
  const DatasetOptions options{
      .name = "tokens", .data_dir = folder / "train.npy", .seq_len = 2, .per_token = true};
  const std::vector<std::pair<const char*, std::string>> arrays{{"<i4", words_of<std::int32_t>({1, 2, -1})},
                                                                {"<i8", words_of<std::int64_t>({1, 2, -1})}};
  for (const auto& [descr, words] : arrays) {
    write_file(options.data_dir, array_file(descr, "(3,)", words));
    CHECK_THAT(complaint(options, options.data_dir), contains(": token -1, but the vocabulary has "));
  }
}

TEST_CASE("files that hold no tokens are refused with the reason") {
  const TemporaryFolder folder;
  const auto complaint = [&](const std::string& bytes, const char* name = "train.npy") {
    write_file(folder / name, bytes);
    const std::string message = message_of<DataError>([&] { open_token_file(folder / name, ""); });
    const std::string prefix = (folder / name).string() + ": offset ";
    CHECK(message.starts_with(prefix));
    return message.substr(std::min(prefix.size(), message.size()));
  };
  const std::string words = words_of<std::uint16_t>(ids);
  CHECK(complaint(array_file("<u2", "(9,)", words).substr(0, 9)) ==
        "9: it ends within NumPy's header: truncated");
  CHECK(complaint(array_file("<u2", "(9,)", words).substr(0, 40)) ==
        "40: it ends within NumPy's header: truncated");
  CHECK(complaint(array_file("<f4", "(9,)", words)) ==
        "10: an array of '<f4': tokens are uint16, uint32, int32 or int64, little-endian");
  CHECK(complaint(array_file("<u2", "(3, 3)", words)) == "10: tokens are an array of one dimension");
  CHECK(complaint(array_file("<u2", "(10,)", words)) ==
        "128: 18 bytes of tokens, but its header tells of 10 tokens of 2 bytes");
  CHECK(complaint("PK\3\4....") == "0: it is a zip archive, as torch.save and np.savez write: no tokens");
  CHECK(complaint("To be, or", "train.txt") ==
        "0: it is text: give --dataset text, or make tokens of it by trainer datasets tokenize");
}
