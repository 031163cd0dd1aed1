#include "runtime/performance/gpu_profile.h"

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::runtime {
namespace {

using tests::contains;
using tests::message_of;

const std::string of_h100 =
    R"({"deviceName": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 1000, "multiProcessorCount": 132})";

std::string file_with(const tests::TemporaryFolder& folder, const std::string& text) {
  const std::filesystem::path file = folder.path() / "gpu.json";
  tests::write_file(file, text);
  return file.string();
}

TEST_CASE("gpu profiles: every one that the program brings can be read") {
  CHECK(gpu_names().size() == 10);
  for (const std::string& name : gpu_names()) {
    INFO(name);
    const GpuProfile gpu = find_gpu(name);
    CHECK(gpu.name == name);
    CHECK(gpu.memory_bytes > std::size_t{9} << 30);
    CHECK(gpu.figures.memory > 2e11);
    CHECK(gpu.figures.half > gpu.figures.f32);
    CHECK(gpu.figures.tf32 >= gpu.figures.f32);
    CHECK_FALSE(gpu.figures.source.empty());
    CHECK_FALSE(Json::parse(gpu.description).contains("figures"));
  }
}

TEST_CASE("gpu profiles: case does not matter, and an unknown name gets the nearest ones") {
  CHECK(find_gpu("H100").name == "h100");
  CHECK_THAT(message_of<UsageError>([] { find_gpu("h10"); }),
             contains("--for: unknown GPU 'h10'") && contains("'h100'"));
}

TEST_CASE("gpu profiles: a file may leave out the figures of a known GPU") {
  const tests::TemporaryFolder folder;
  const GpuProfile gpu = find_gpu(file_with(folder, of_h100));
  CHECK(gpu.memory_bytes == 1000);
  CHECK(gpu.figures.nvlink == 450e9);
  CHECK(gpu.figures.multiprocessors == 132);
}

TEST_CASE("gpu profiles: of a broken file the error says which and what") {
  const tests::TemporaryFolder folder;
  const auto error_of = [&](const std::string& text) {
    const std::string file = file_with(folder, text);
    const std::string message = message_of<DataError>([&] { find_gpu(file); });
    CHECK_THAT(message, contains(file));
    return message;
  };
  error_of("no JSON");
  CHECK_THAT(error_of("{}"), contains("deviceName"));
  CHECK_THAT(error_of(R"({"deviceName": "Own", "totalGlobalMem": 1})"), contains("\"figures\" is missing"));
  CHECK_THAT(error_of(R"({"deviceName": "Own", "totalGlobalMem": 0, "figures": {}})"),
             contains("\"totalGlobalMem\" is 0, must be more than 0"));
  CHECK_THAT(error_of(R"({"deviceName": "Own", "totalGlobalMem": 1e30, "figures": {}})"),
             contains("\"totalGlobalMem\" is 1e+30, must be") && contains("at most"));
  CHECK_THAT(message_of<DataError>([&] { find_gpu((folder.path() / "none.json").string()); }),
             contains("none.json"));
}

}  // namespace
}  // namespace lockstep::runtime
