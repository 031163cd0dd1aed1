// PyTorch's checkpoints. state_dict.pt was written by PyTorch 2.15:
//   base = torch.arange(8, dtype=torch.float64)
//   torch.save({"epoch": 3, "lr": 0.1, "name": "x", "state_dict": OrderedDict({
//       "module.fc.weight": nn.Parameter(torch.arange(6.).reshape(2, 3).t()),
//       "module.fc.bias": torch.tensor([1.5, -2, 0.25]).to(torch.bfloat16),
//       "module.odd": base[1::2], "module.empty": torch.zeros(0, 3)})}, "state_dict.pt")
// training_checkpoint.pt, too, of a Linear(2, 1):
//   torch.save({"model": net.state_dict(), "optimizer": SGD's, "lr_scheduler": MultiStepLR's, "epoch": 2,
//       "args": argparse.Namespace(lr=.1, device=torch.device("cpu"), dtype=torch.float32,
//           folder=pathlib.PosixPath("x"), seen={1, 2}), "best": numpy.float64(.5)},
//           "training_checkpoint.pt")
#include "runtime/weights/torch_file.h"

#include "kernels/base/error.h"
#include "tests/fuzz/zip_bytes.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::runtime {
namespace {

using tests::contains;
using tests::message_of;

TEST_CASE("a state dict of torch.save is read: strides, dtypes, its key, the prefix of DDP") {
  WeightsFile file(STATE_DICT_FILE);
  file.drop_wrappers();
  CHECK(file.names() == std::vector<std::string>{"fc.weight", "fc.bias", "odd", "empty"});
  const WeightsTensor& weight = *file.find("fc.weight");
  CHECK(weight.shape == Shape{3, 2});
  CHECK(to_floats(weight) == std::vector<float>{0, 3, 1, 4, 2, 5});
  CHECK(file.find("fc.bias")->dtype == DType::bf16);
  CHECK(to_floats(*file.find("fc.bias")) == std::vector<float>{1.5, -2, 0.25});
  CHECK(to_floats(*file.find("odd")) == std::vector<float>{1, 3, 5, 7});
  CHECK(to_floats(*file.find("empty")).empty());
}

TEST_CASE("what a training script keeps beside its weights is passed over") {
  const WeightsFile file(TRAINING_CHECKPOINT_FILE);
  CHECK(file.names() == std::vector<std::string>{"weight", "bias"});
  CHECK(to_floats(*file.find("weight")) == std::vector<float>{1, 2});
  CHECK(to_floats(*file.find("bias")) == std::vector<float>{3});
}

TEST_CASE("a file of torch.save is known by what is in it, whatever its name") {
  const tests::TemporaryFolder folder;
  for (const char* name : {"epoch.ckpt", "weights", "pytorch_model.bin"}) {
    tests::write_file(folder / name, tests::contents(STATE_DICT_FILE));
    CHECK(WeightsFile(folder / name).names().size() == 4);
  }
  CHECK(WeightsFile(folder.path()).names().size() == 4);
  CHECK(weights_in(folder.path()) == folder / "pytorch_model.bin");
}

TEST_CASE("shards of torch.save are read by their index") {
  const tests::TemporaryFolder folder;
  tests::write_file(folder / "pytorch_model-00001-of-00002.bin", tests::contents(STATE_DICT_FILE));
  tests::write_file(folder / "pytorch_model-00002-of-00002.bin", tests::contents(TRAINING_CHECKPOINT_FILE));
  std::string weight_map;
  for (const char* name : {"module.fc.weight", "module.fc.bias", "module.odd", "module.empty"})
    weight_map += "\"" + std::string(name) + R"(": "pytorch_model-00001-of-00002.bin", )";
  for (const char* name : {"weight", "bias"})
    weight_map += "\"" + std::string(name) + R"(": "pytorch_model-00002-of-00002.bin", )";
  weight_map.resize(weight_map.size() - 2);
  tests::write_file(folder / "pytorch_model.bin.index.json", R"({"weight_map": {)" + weight_map + "}}");
  const WeightsFile file(folder.path());
  CHECK(file.names().size() == 6);
  CHECK(to_floats(*file.find("bias")) == std::vector<float>{3});
  CHECK(to_floats(*file.find("module.odd")) == std::vector<float>{1, 3, 5, 7});
}

/// What reading `bytes` as a checkpoint says; "" when they are one.
std::string refusal(const tests::TemporaryFolder& folder, const std::string& bytes) {
  tests::write_file(folder / "x.pt", bytes);
  return message_of<DataError>([&] {
    const WeightsFile file(folder / "x.pt");
    for (const WeightsTensor& tensor : file.tensors()) to_floats(tensor);
  });
}

TEST_CASE("what is no checkpoint, and what is damaged in one, is refused with file, place and reason") {
  const tests::TemporaryFolder folder;
  const std::string whole = tests::contents(STATE_DICT_FILE);
  CHECK(refusal(folder, whole).empty());
  CHECK_THAT(refusal(folder, ""), contains("x.pt: offset 0: 0 bytes are too few"));
  CHECK_THAT(refusal(folder, std::string(100, 'x')), contains("no end of a ZIP file"));
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string bytes = whole;
    const auto at = bytes.find(from);
    REQUIRE(at != std::string::npos);
    return bytes.replace(at, from.size(), to);
  };
  // The contents are checked before they are read.
  CHECK_THAT(refusal(folder, changed("torch\nFloatStorage", "posix\nsystemXXXXXX")),
             contains("data.pkl is damaged"));
  CHECK_THAT(refusal(folder, changed("little", "bigbig")), contains("byteorder is damaged"));
}

TEST_CASE("a tensor of more elements than there may be is refused with file and place") {
  const tests::TemporaryFolder folder;
  using namespace std::string_literals;
  // {"w": torch.zeros(1).expand(2**21, 2**21)}
  const std::string pickle =
      "\x80\x02}U\x01wctorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\nFloatStorage\n"
      "U\x01"s
      "0U\x03"
      "cpuK\x01tQK\x00J\x00\x00\x20\x00J\x00\x00\x20\x00\x86K\x00K\x00\x86tRs."s;
  CHECK_THAT(
      refusal(folder, tests::zip_of({{"a/data.pkl", pickle}, {"a/data/0", std::string(4, '\0')}})),
      contains("x.pt: a/data.pkl: offset ") && contains("shape 2097152x2097152 has more than 2^40 elements"));
}

TEST_CASE("what torch.save wrote before PyTorch 1.6 is refused with what to do") {
  const tests::TemporaryFolder folder;
  const std::string begin =
      "\x80\x02\x8a\x0al\xfc\x9c"
      "F\xf9 j\xa8P\x19.";
  CHECK_THAT(refusal(folder, begin),
             contains("x.pt: torch.save's format of before PyTorch 1.6: load it, and"));
  tests::write_file(folder / "pytorch_model.bin", begin);
  CHECK_THAT(message_of<DataError>([&] { WeightsFile(folder.path()); }),
             contains("pytorch_model.bin: torch.save's format of before PyTorch 1.6"));
}

/// ZIP's checksum.
std::uint32_t crc32(const std::string& bytes) {
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0xEDB88320U & (0U - (crc & 1U)));
  }
  return ~crc;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

std::string little_endian(std::uint32_t number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

TEST_CASE("no change of a byte in the pickle, under a right checksum, does more than be refused") {
  const tests::TemporaryFolder folder;
  const std::string whole = tests::contents(STATE_DICT_FILE);
  const std::size_t begin = whole.find("\x80\x02}q");
  const std::string pickle = whole.substr(begin, 558);
  REQUIRE(pickle.back() == '.');
  REQUIRE(whole.find(little_endian(crc32(pickle))) != std::string::npos);
  std::size_t refused = 0;
  for (std::size_t at = 0; at < pickle.size(); ++at) {
    for (const char flip : {'\x01', '\x10', '\xff'}) {
      std::string changed = pickle;
      changed[at] = static_cast<char>(changed[at] ^ flip);
      std::string bytes = whole;
      bytes.replace(begin, changed.size(), changed);
      replace_all(bytes, little_endian(crc32(pickle)), little_endian(crc32(changed)));
      if (!refusal(folder, bytes).empty()) ++refused;
    }
  }
  CHECK(refused > 558);  // names, numbers of other keys and memo slots may change unseen
}

TEST_CASE("no change of a byte makes a checkpoint do more than be refused") {
  const tests::TemporaryFolder folder;
  const std::string whole = tests::contents(STATE_DICT_FILE);
  std::size_t refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char flip : {'\x01', '\x80', '\xff'}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      if (!refusal(folder, bytes).empty()) ++refused;
    }
  }
  // Every byte of a tensor or of the pickle is under a checksum; the rest is padding and what nobody reads.
  CHECK(refused > 3 * 600);
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    CHECK_FALSE(refusal(folder, whole.substr(0, size)).empty());
  }
}

}  // namespace
}  // namespace lockstep::runtime
