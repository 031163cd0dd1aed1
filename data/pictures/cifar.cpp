#include "data/pictures/cifar.h"

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "data/files/tar.h"
#include "kernels/base/error.h"
#include "kernels/base/file_status.h"
#include "kernels/base/pickle.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t plane_bytes = 32 * 32;
constexpr std::size_t pixel_bytes = 3 * plane_bytes;
constexpr std::size_t record_bytes = 1 + pixel_bytes;

constexpr std::string_view binary_meta = "batches.meta.txt";
constexpr std::string_view python_meta = "batches.meta";
constexpr std::string_view binary_folder = "cifar-10-batches-bin";
constexpr std::string_view python_folder = "cifar-10-batches-py";

/// One of the set's files: where it is, for errors, and its contents, which the set keeps.
struct BatchFile {
  std::string name;
  std::span<const std::byte> bytes;
  std::uint64_t offset = 0;  ///< of the bytes in that file

  [[noreturn]] void fail(std::uint64_t at, const std::string& reason) const {
    throw DataError(fmt::format("{}: offset {}: {}", name, offset + at, reason));
  }
};

std::vector<std::string> batch_names(Split split, bool is_binary) {
  std::vector<std::string> names{"test_batch"};
  if (split == Split::train)
    names = {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"};
  for (std::string& name : names) name += is_binary ? ".bin" : "";
  return names;
}

/// Samples with their planes one behind the other (CHW).
struct Planes {
  const std::byte* pixels;
  std::uint8_t label;
};

void add_binary(const BatchFile& file, std::vector<Planes>& samples) {
  const std::size_t rest = file.bytes.size() % record_bytes;
  if (file.bytes.empty() || rest != 0)
    file.fail(file.bytes.size() - rest,
              fmt::format("it ends within a record of {} bytes: truncated", record_bytes));
  for (std::size_t at = 0; at < file.bytes.size(); at += record_bytes) {
    const auto label = std::to_integer<std::uint8_t>(file.bytes[at]);
    if (label >= cifar10_class_count)
      file.fail(at, fmt::format("label {}, but there are {} classes", label, cifar10_class_count));
    samples.push_back({file.bytes.data() + at + 1, label});
  }
}

// A batch of Python is a dictionary: 'data' is an array of N x 3072 bytes, 'labels' a list.

constexpr std::array<std::string_view, 4> numpy_globals{"numpy.core.multiarray._reconstruct",
                                                        "numpy._core.multiarray._reconstruct",
                                                        "numpy.ndarray", "numpy.dtype"};

const PickleValue& entry(const Pickle& pickle, const char* key) {
  const PickleValue* value = find(pickle.root(), key);
  if (value == nullptr) pickle.fail(pickle.root(), fmt::format("there is no '{}'", key));
  return *value;
}

/// The bytes of an array of `rows` x 3072 u8 in C's order, by its state as NumPy writes it: version, shape,
/// dtype, whether in Fortran's order, contents.
std::string_view array_bytes(const Pickle& pickle, const PickleValue& array, std::size_t rows) {
  constexpr const char* wanted = "'data' is no array of N x 3072 bytes";
  const auto& object = pickle.as<PickleObject>(array, wanted);
  if (object.state == nullptr) pickle.fail(array, wanted);
  const PickleItems& state = pickle.as<PickleTuple>(*object.state, wanted).items;
  if (state.size() != 5) pickle.fail(*object.state, wanted);
  const PickleItems& shape = pickle.as<PickleTuple>(*state[1], wanted).items;
  const PickleItems& dtype =
      pickle.as<PickleTuple>(*pickle.as<PickleObject>(*state[2], wanted).arguments, wanted).items;
  const std::string_view contents = pickle.as<PickleBytes>(*state[4], wanted).contents;
  const bool fits = shape.size() == 2 &&
                    pickle.as<std::int64_t>(*shape[0], wanted) == std::ssize(contents) / 3072 &&
                    pickle.as<std::int64_t>(*shape[1], wanted) == pixel_bytes && !dtype.empty() &&
                    text_of(*dtype[0]) == "u1" && !pickle.as<bool>(*state[3], wanted);
  if (!fits) pickle.fail(array, wanted);
  if (contents.size() != rows * pixel_bytes)
    pickle.fail(array, fmt::format("'data' has {} bytes, but there are {} labels", contents.size(), rows));
  return contents;
}

void add_python(const BatchFile& file, std::vector<Planes>& samples) {
  const Pickle pickle(file.name, file.bytes, numpy_globals, file.offset);
  const auto& labels = pickle.as<PickleList>(entry(pickle, "labels"), "'labels' is no list").items;
  const std::string_view pixels = array_bytes(pickle, entry(pickle, "data"), labels.size());
  const auto* at = reinterpret_cast<const std::byte*>(pixels.data());
  for (const PickleValue* value : labels) {
    const auto label = pickle.as<std::int64_t>(*value, "a label that is no number");
    if (label < 0 || label >= cifar10_class_count)
      pickle.fail(*value, fmt::format("label {}, but there are {} classes", label, cifar10_class_count));
    samples.push_back({at, static_cast<std::uint8_t>(label)});
    at += pixel_bytes;
  }
}

std::vector<std::string> lines_of(const BatchFile& file) {
  std::istringstream text(std::string(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> label_names(const BatchFile& file) {
  const Pickle pickle(file.name, file.bytes, {}, file.offset);
  std::vector<std::string> names;
  const PickleValue& list = entry(pickle, "label_names");
  for (const PickleValue* name : pickle.as<PickleList>(list, "'label_names' is no list").items) {
    names.emplace_back(text_of(*name));
  }
  return names;
}

std::vector<std::string> names_in(const BatchFile& file, bool is_binary) {
  std::vector<std::string> names = is_binary ? lines_of(file) : label_names(file);
  if (std::ssize(names) != cifar10_class_count)
    file.fail(0, fmt::format("{} names of classes, but there are {}", names.size(), cifar10_class_count));
  return names;
}

FileBytes unpack(const fs::path& archive, const UnpackCache& cache) {
  return cache.open(archive, [&](std::span<const std::byte>) { return gzip_contents_size(archive); });
}

std::vector<std::string> names_in_archive(const fs::path& path, const UnpackCache& cache) {
  const FileBytes contents = unpack(path, cache);
  for (const TarMember& member : read_tar(path, contents.bytes())) {
    for (const std::string_view meta : {binary_meta, python_meta}) {
      if (fs::path(member.name).filename() != meta) continue;
      const BatchFile file{fmt::format("{}: {}", path.string(), member.name),
                           contents.bytes().subspan(member.offset, member.size)};
      return names_in(file, meta == binary_meta);
    }
  }
  return {};
}

class Cifar final : public PictureSet {
 public:
  Cifar(std::vector<FileBytes> contents, const std::vector<BatchFile>& batches, bool is_binary)
      : contents_(std::move(contents)) {
    for (const BatchFile& batch : batches) (is_binary ? add_binary : add_python)(batch, samples_);
  }

  std::int64_t size() const override { return std::ssize(samples_); }
  int channels() const override { return 3; }
  std::int64_t num_classes() const override { return cifar10_class_count; }
  std::optional<PictureSize> picture_size() const override { return cifar_picture_size; }
  std::int64_t label(std::int64_t index) const override { return sample(index).label; }

  std::unique_ptr<PictureReader> open(std::int64_t index) const override {
    Picture picture(cifar_picture_size, channels());
    const auto* planes = reinterpret_cast<const std::uint8_t*>(sample(index).pixels);
    std::uint8_t* to = picture.row(0);
    for (std::size_t i = 0; i < plane_bytes; ++i) {
      for (std::size_t c = 0; c < 3; ++c) to[3 * i + c] = planes[c * plane_bytes + i];
    }
    return std::make_unique<PictureInMemory>(std::move(picture));
  }

 private:
  const Planes& sample(std::int64_t index) const { return samples_[static_cast<std::size_t>(index)]; }

  std::vector<FileBytes> contents_;
  std::vector<Planes> samples_;
};

PictureSetPtr open_folder(const fs::path& folder, bool is_binary, Split split) {
  std::vector<FileBytes> contents;
  std::vector<BatchFile> batches;
  for (const std::string& name : batch_names(split, is_binary)) {
    const FileBytes& file = contents.emplace_back(MappedFile(folder / name));
    batches.push_back({(folder / name).string(), file.bytes()});
  }
  return std::make_shared<Cifar>(std::move(contents), batches, is_binary);
}

PictureSetPtr open_archive(const fs::path& path, Split split, const UnpackCache& cache) {
  std::vector<FileBytes> contents;
  const std::span<const std::byte> bytes = contents.emplace_back(unpack(path, cache)).bytes();
  const std::vector<TarMember> members = read_tar(path, bytes);
  const auto has = [&](std::string_view folder) {
    return std::ranges::any_of(members, [&](const TarMember& m) { return m.name.starts_with(folder); });
  };
  const bool is_binary = has(binary_folder);
  const std::string_view folder = is_binary ? binary_folder : python_folder;
  std::vector<BatchFile> batches;
  for (const std::string& name : batch_names(split, is_binary)) {
    const std::string whole = fmt::format("{}/{}", folder, name);
    const auto member = std::ranges::find(members, whole, &TarMember::name);
    if (member == members.end()) throw DataError(fmt::format("{}: it holds no {}", path.string(), whole));
    batches.push_back(
        {fmt::format("{}: {}", path.string(), whole), bytes.subspan(member->offset, member->size)});
  }
  return std::make_shared<Cifar>(std::move(contents), batches, is_binary);
}

struct Found {
  fs::path path;
  bool is_archive = false;
  bool is_binary = false;  ///< of a folder
};

std::optional<Found> find_cifar10(const fs::path& place, Split split) {
  if (place.extension() == ".gz" && fs::exists(status_at(place)))
    return Found{.path = place, .is_archive = true};
  for (const fs::path& folder : {place, place / binary_folder, place / python_folder}) {
    for (const bool is_binary : {true, false}) {
      if (fs::exists(status_at(folder / batch_names(split, is_binary).front())))
        return Found{.path = folder, .is_binary = is_binary};
    }
  }
  for (const char* archive : {"cifar-10-binary.tar.gz", "cifar-10-python.tar.gz"}) {
    if (fs::exists(status_at(place / archive))) return Found{.path = place / archive, .is_archive = true};
  }
  return std::nullopt;
}

}  // namespace

bool holds_cifar10(const fs::path& place) {
  return find_cifar10(place, Split::train).has_value();
}

PictureSetPtr open_cifar10(const fs::path& place, Split split, const UnpackCache& cache) {
  if (const auto found = find_cifar10(place, split)) {
    return found->is_archive ? open_archive(found->path, split, cache)
                             : open_folder(found->path, found->is_binary, split);
  }
  throw DataError(fmt::format(
      "{}: here is neither {} nor {} nor their .tar.gz; give their folder by --data-dir, or fetch "
      "them into it by --download",
      place.string(), binary_folder, python_folder));
}

std::vector<std::string> cifar10_class_names(const fs::path& place, const UnpackCache& cache) {
  if (place.extension() == ".gz" && fs::exists(status_at(place))) return names_in_archive(place, cache);
  for (const fs::path& folder : {place, place / binary_folder, place / python_folder}) {
    for (const std::string_view meta : {binary_meta, python_meta}) {
      if (!fs::exists(status_at(folder / meta))) continue;
      const MappedFile file(folder / meta);
      return names_in({(folder / meta).string(), file.bytes()}, meta == binary_meta);
    }
  }
  for (const char* archive : {"cifar-10-binary.tar.gz", "cifar-10-python.tar.gz"}) {
    if (fs::exists(status_at(place / archive))) return names_in_archive(place / archive, cache);
  }
  return {};
}

}  // namespace lockstep::data
