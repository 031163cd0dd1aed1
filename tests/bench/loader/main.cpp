#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <jpeglib.h>
#include <nlohmann/json.hpp>

#include "data/datasets.h"
#include "data/folders.h"
#include "data/loader.h"
#include "data/pictures/decode.h"
#include "data/pictures/transforms.h"
#include "data/sampler.h"
#include "kernels/base/file.h"

// How fast JPEGs become training batches, beside their decoding alone, in pictures per second of one core:
// usage: bench_loader FOLDER [TURNS]. FOLDER is one that --dataset image-folder takes.
namespace lockstep::bench {
namespace {

namespace fs = std::filesystem;

constexpr data::PictureSize wanted{224, 224};
constexpr std::uint64_t seed = 0;
constexpr std::int64_t batch_size = 64;

double core_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double rate_of(std::int64_t pictures, const std::function<void()>& work) {
  const double before = core_seconds();
  work();
  return static_cast<double>(pictures) / (core_seconds() - before);
}

/// The whole picture by libjpeg-turbo, reduced, as Pillow's `draft` has it; errors end the process.
void decode_whole(const MappedFile& file, int reduction, std::vector<std::uint8_t>& pixels) {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.bytes().data()), file.bytes().size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  info.scale_denom = static_cast<unsigned>(reduction);
  jpeg_start_decompress(&info);
  const std::size_t row_bytes = std::size_t{info.output_width} * 3;
  pixels.resize(row_bytes * info.output_height);
  while (info.output_scanline < info.output_height) {
    std::uint8_t* row = pixels.data() + row_bytes * info.output_scanline;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
}

/// The folder's pictures in the order of its samples, in memory.
std::vector<MappedFile> files_of(const fs::path& folder) {
  std::vector<MappedFile> files;
  for (const std::string& name : data::folders_in(folder)) {
    for (const std::string& file : data::files_in(folder / name)) files.emplace_back(folder / name / file);
  }
  return files;
}

/// Sample `index` of an epoch, and what random-resized-crop takes of it.
struct Part {
  std::unique_ptr<data::PictureReader> reader;
  data::Rectangle part;
};

Part part_of(const std::vector<MappedFile>& files, std::size_t index, std::int64_t epoch) {
  data::SampleRandom random(seed, epoch, static_cast<std::int64_t>(index));
  auto reader = data::open_encoded("", data::EncodedBytes(files[index].bytes()));
  const data::Rectangle part = data::random_part(reader->size(), random);
  return {std::move(reader), part};
}

nlohmann::json turn(const data::DatasetPtr& samples, const std::vector<MappedFile>& files,
                    std::int64_t epoch) {
  const std::int64_t count = samples->size();
  std::vector<std::uint8_t> pixels;
  const data::DistributedSampler sampler{.samples = count, .shuffle = false};
  nlohmann::json rates;
  data::Loader loader(samples, [&](std::int64_t of) { return sampler.indices(of); },
                      {.batch_size = batch_size, .workers = 0, .first_epoch = epoch, .epochs = 2});
  const auto load_an_epoch = [&loader] {
    for (bool is_last = false; !is_last;) {
      const auto batch = loader.next(Deadline::in(Seconds(600)));
      is_last = batch->info.last_of_epoch;
      loader.release(*batch);
    }
  };
  load_an_epoch();  // the memory of its batches is touched once in a run
  rates["loader"] = rate_of(count, load_an_epoch);
  rates["decode"] = rate_of(count, [&] {
    for (std::size_t i = 0; i < files.size(); ++i) {
      const data::Rectangle part = part_of(files, i, epoch).part;
      decode_whole(files[i], data::reduction_for(part, wanted), pixels);
    }
  });
  rates["decode_part"] = rate_of(count, [&] {
    for (std::size_t i = 0; i < files.size(); ++i) {
      const Part one = part_of(files, i, epoch);
      one.reader->read(one.part, wanted);
    }
  });
  return rates;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  const bool asks_for_help =
      argc == 2 && (argv[1] == std::string_view("--help") || argv[1] == std::string_view("-h"));
  if (argc < 2 || asks_for_help) {
    fmt::print(asks_for_help ? stdout : stderr, "usage: bench_loader FOLDER [TURNS]\n");
    return asks_for_help ? 0 : 2;
  }
  const int turns = argc > 2 ? std::atoi(argv[2]) : 1;
  const auto transforms = data::find_dataset(data::datasets(), "image-folder").transforms.value();
  const auto samples = data::open_dataset({.name = "image-folder",
                                           .data_dir = argv[1],
                                           .seed = bench::seed,
                                           .transform = transforms.train,
                                           .eval_transform = transforms.eval},
                                          data::Split::train);
  const auto files = bench::files_of(argv[1]);
  nlohmann::json all = nlohmann::json::array();
  for (int i = 0; i < turns; ++i) all.push_back(bench::turn(samples, files, i));
  fmt::print("{}\n", all.dump());
}
