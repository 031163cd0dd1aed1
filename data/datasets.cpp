#include "data/datasets.h"

#include <algorithm>

#include <fmt/format.h>

#include "data/built_in.h"
#include "data/files/download.h"
#include "data/folders.h"
#include "data/pictures/cifar.h"
#include "data/pictures/idx.h"
#include "data/pictures/image_folder.h"
#include "data/pictures/picture_dataset.h"
#include "data/pictures/shards.h"
#include "data/text/labelled_text.h"
#include "data/text/parallel_text.h"
#include "data/text/text_corpus.h"
#include "data/text/token_set.h"
#include "kernels/base/error.h"
#include "kernels/base/file_status.h"
#include "kernels/base/typed_words.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

UnpackCache cache_of(const DatasetOptions& options) {
  return UnpackCache(default_cache_folder(), options.activity);
}

/// torchvision keeps MNIST's files in <root>/<name>/raw.
fs::path raw_folder(const fs::path& data_dir, const char* name) {
  const fs::path raw = data_dir / name / "raw";
  return fs::exists(status_at(raw)) ? raw : data_dir;
}

/// Where a set that is published lies when no --data-dir is given: a folder of the cache.
fs::path download_folder(const std::string& dataset) {
  const fs::path cache = default_cache_folder();
  return cache.empty() ? fs::path() : cache / dataset;
}

/// `folder` of a set, after its download where that was asked for. `hint`: what to do without a folder.
fs::path published_folder(const std::string& dataset, fs::path folder, const DatasetOptions& options,
                          const char* hint) {
  if (folder.empty()) folder = download_folder(dataset);
  if (folder.empty() && options.download)
    throw UsageError(
        "--download: neither XDG_CACHE_HOME nor HOME is set to an absolute path; name a folder by "
        "--data-dir");
  if (options.download) download(*find_published(dataset), folder, {.activity = options.activity});
  if (options.data_dir.empty() && !fs::exists(status_at(folder)))
    throw UsageError(fmt::format("{}: {}", dataset, hint));
  return folder;
}

DatasetPtr open_fashion_mnist(const DatasetOptions& options, Split split) {
  constexpr const char* hint =
      "apt install dataset-fashion-mnist, give its folder by --data-dir, or fetch it by --download";
  const fs::path package = "/usr/share/datasets/fashion-mnist";
  fs::path folder;
  if (!options.data_dir.empty()) folder = raw_folder(options.data_dir, "FashionMNIST");
  if (folder.empty() && fs::exists(package)) folder = package;
  folder = published_folder("fashion-mnist", folder, options, hint);
  return with_transform(open_idx_pictures(folder, split, hint, cache_of(options)), options, split);
}

DatasetPtr open_mnist(const DatasetOptions& options, Split split) {
  constexpr const char* hint =
      "give the folder of its four IDX files by --data-dir, or fetch them by --download";
  fs::path folder;
  if (!options.data_dir.empty()) folder = raw_folder(options.data_dir, "MNIST");
  folder = published_folder("mnist", folder, options, hint);
  return with_transform(open_idx_pictures(folder, split, hint, cache_of(options)), options, split);
}

SampleSpec idx_spec(const DatasetOptions& options) {
  return picture_spec(Transform(options.transform), idx_picture_size, 1, idx_class_count);
}

DatasetPtr open_cifar10_of(const DatasetOptions& options, Split split) {
  constexpr const char* hint =
      "give the folder of cifar-10-batches-bin or cifar-10-batches-py by --data-dir, or fetch it by "
      "--download";
  fs::path place = options.data_dir;
  if (place.empty() || !holds_cifar10(place)) place = published_folder("cifar10", place, options, hint);
  return with_transform(open_cifar10(place, split, cache_of(options)), options, split);
}

std::vector<std::string> cifar10_class_names_of(const DatasetOptions& options) {
  const fs::path place = options.data_dir.empty() ? download_folder("cifar10") : options.data_dir;
  if (place.empty() || !holds_cifar10(place)) return {};
  return cifar10_class_names(place, cache_of(options));
}

SampleSpec cifar10_spec(const DatasetOptions& options) {
  return picture_spec(Transform(options.transform), cifar_picture_size, 3, cifar10_class_count);
}

const fs::path& given_folder(const DatasetOptions& options) {
  if (options.data_dir.empty())
    throw UsageError(fmt::format("{}: give its folder by --data-dir, or as --dataset DIR", options.name));
  return options.data_dir;
}

DatasetPtr open_image_folder_of(const DatasetOptions& options, Split split) {
  return with_transform(
      open_image_folder(given_folder(options), split, options.class_names, options.activity), options, split);
}

SampleSpec image_folder_spec(const DatasetOptions& options) {
  return picture_spec(Transform(options.transform), std::nullopt, 3,
                      std::ssize(image_folder_classes(given_folder(options))));
}

std::vector<std::string> image_folder_class_names(const DatasetOptions& options) {
  return options.data_dir.empty() ? std::vector<std::string>() : image_folder_classes(options.data_dir);
}

DatasetPtr open_shards_of(const DatasetOptions& options, Split split) {
  return with_transform(open_shards(given_folder(options), split, options.num_classes, default_cache_folder(),
                                    options.shard_indexes.get(), options.activity),
                        options, split);
}

std::vector<std::string> shard_class_names_of(const DatasetOptions& options) {
  return options.data_dir.empty() ? std::vector<std::string>()
                                  : shard_class_names(options.data_dir, options.num_classes,
                                                      default_cache_folder(), options.shard_indexes.get());
}

SampleSpec shards_spec(const DatasetOptions& options) {
  return picture_spec(Transform(options.transform), std::nullopt, 3, options.num_classes);
}

DatasetPtr open_tensors_of(const DatasetOptions& options, Split) {
  if (options.data_dir.empty()) throw UsageError("tensors: give the file by --data-dir FILE.safetensors");
  return open_tensors(options);
}

std::string splits_note(const DatasetOptions& options) {
  return note_on_splits(options.data_dir);
}

/// Null if none is.
const DatasetEntry* named(std::span<const DatasetEntry> among, const std::string& name) {
  const auto found = std::ranges::find_if(
      among, [wanted = folded(name)](const DatasetEntry& entry) { return folded(entry.name) == wanted; });
  return found == among.end() ? nullptr : &*found;
}

}  // namespace

const std::vector<DatasetEntry>& datasets() {
  static const TransformLists as_they_are{};
  static const PictureKind grey{.channels = 1, .size = idx_picture_size};
  static const PictureKind photographs{};
  static const TransformLists imagenet{.train = "random-resized-crop=224,flip,normalise=imagenet",
                                       .eval = "resize=256,crop=224,normalise=imagenet"};
  static const TransformLists cifar{.train = "pad-crop=4,flip,normalise=cifar10",
                                    .eval = "normalise=cifar10"};
  static const std::vector<DatasetEntry> entries{
      {.name = "fashion-mnist",
       .what = "60000 + 10000 images of clothes, 1x28x28, 10 classes (package dataset-fashion-mnist, or "
               "--download)",
       .open = open_fashion_mnist,
       .spec = idx_spec,
       .transforms = as_they_are,
       .class_names = [](const DatasetOptions&) -> std::vector<std::string> {
         return {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                 "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
       },
       .pictures = grey,
       .can_download = true},
      {.name = "mnist",
       .what = "60000 + 10000 handwritten digits, 1x28x28, 10 classes; --data-dir holds its four IDX files, "
               "or --download",
       .open = open_mnist,
       .spec = idx_spec,
       .transforms = as_they_are,
       .class_names = [](const DatasetOptions&) -> std::vector<std::string> {
         return {"0 - zero", "1 - one", "2 - two",   "3 - three", "4 - four",
                 "5 - five", "6 - six", "7 - seven", "8 - eight", "9 - nine"};
       },
       .pictures = grey,
       .can_download = true},
      {.name = "cifar10",
       .what = "50000 + 10000 photographs, 3x32x32, 10 classes; --data-dir holds its batches (-bin, -py or "
               "their .tar.gz), or --download",
       .open = open_cifar10_of,
       .spec = cifar10_spec,
       .transforms = cifar,
       .class_names = cifar10_class_names_of,
       .pictures = PictureKind{.size = cifar_picture_size},
       .can_download = true},
      {.name = "image-folder",
       .what = "JPEG and PNG pictures in a folder for each class, below train and val if there are; also "
               "--dataset DIR",
       .open = open_image_folder_of,
       .spec = image_folder_spec,
       .transforms = imagenet,
       .class_names = image_folder_class_names,
       .pictures = photographs,
       .note = splits_note,
       .numbers_classes_by_name = true},
      {.name = "shards",
       .what = "JPEG and PNG pictures and classes (.cls) in tar files of WebDataset; also --dataset FILE.tar "
               "or DIR",
       .open = open_shards_of,
       .spec = shards_spec,
       .transforms = imagenet,
       .class_names = shard_class_names_of,
       .pictures = photographs,
       .note = splits_note},
      {.name = "synthetic",
       .what = "random samples of any --image-shape and --num-classes, or of --seq-len tokens below "
               "--vocab-size, at almost no cost",
       .open = make_synthetic,
       .spec = synthetic_spec},
      {.name = "text",
       .what = "characters of --data-dir FILE.txt (UTF-8; its last tenth is evaluated), or of a folder's "
               "train*.txt and val*.txt",
       .open = open_text,
       .spec = text_spec,
       .class_names = text_class_names,
       .note = [](const DatasetOptions& options) { return note_on(split_files(options, ".txt")); },
       .token_names = text_class_names},
      {.name = "tokens",
       .what = "token ids of --data-dir FILE.bin as nanoGPT, llm.c or Megatron-LM (.idx beside it) write "
               "them, and val.bin beside train.bin, or the last tenth, to evaluate",
       .open = open_tokens,
       .spec = tokens_spec,
       .note = [](const DatasetOptions& options) { return note_on(token_files(options)); }},
      {.name = "labelled-text",
       .what = "texts and their classes: lines 'label TAB text' of --data-dir FILE.tsv, or a folder of .txt "
               "files for each class",
       .open = open_labelled_text,
       .spec = labelled_text_spec,
       .class_names = labelled_text_class_names,
       .note = labelled_text_note,
       .token_names = labelled_text_token_names,
       .numbers_classes_by_name = true},
      {.name = "parallel-text",
       .what = "lines of --data-dir FILE.src and their translations in FILE.tgt, or in --target-file FILE",
       .open = open_parallel_text,
       .spec = parallel_text_spec,
       .class_names = parallel_text_class_names,
       .note = [](const DatasetOptions& options) { return note_on(split_files(options, ".src")); },
       .token_names = parallel_text_token_names},
      {.name = "tensors",
       .what = "tensors 'inputs' (or 'src' and 'tgt') and 'targets' of --data-dir FILE.safetensors; for rnn "
               "and lstm 'h0' and 'c0' (N, layers, hidden)",
       .open = open_tensors_of,
       .spec = [](const DatasetOptions& options) { return open_tensors_of(options, Split::train)->spec(); },
       .note = [](const DatasetOptions&) -> std::string {
         return "evaluated are the samples that are trained on; `trainer eval RUN --data-dir FILE` scores "
                "others";
       }},
  };
  return entries;
}

std::optional<std::string> dataset_at(const std::string& path, bool bare_folders) {
  const bool is_path = path.find('/') != std::string::npos || path.ends_with(".tar") || path == ".";
  const bool is_folder =
      bare_folders && named(datasets(), path) == nullptr && fs::is_directory(status_at(path));
  if (!is_path && !is_folder) return std::nullopt;
  if (path.ends_with(".tar") && !fs::is_directory(status_at(path))) return "shards";
  const fs::path folder = split_folders(path).classes();
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder, error)) {
    if (file.path().extension() == ".tar") return "shards";
  }
  return "image-folder";
}

std::vector<std::string> dataset_names(std::span<const DatasetEntry> among) {
  std::vector<std::string> names;
  for (const DatasetEntry& entry : among) names.push_back(entry.name);
  return names;
}

const DatasetEntry& find_dataset(std::span<const DatasetEntry> among, const std::string& name) {
  if (const DatasetEntry* found = named(among, name)) return *found;
  throw UsageError(unknown_name("dataset", name, dataset_names(among), "`trainer datasets` lists them"));
}

DatasetPtr open_dataset(const DatasetOptions& options, Split split) {
  return find_dataset(datasets(), options.name).open(options, split);
}

SampleSpec dataset_spec(const DatasetOptions& options) {
  return find_dataset(datasets(), options.name).spec(options);
}

}  // namespace lockstep::data
