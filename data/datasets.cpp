#include "data/datasets.h"

#include <algorithm>

#include "data/built_in.h"
#include "data/idx.h"
#include "kernels/base/error.h"
#include "kernels/base/typed_words.h"

namespace lockstep::data {
namespace {

DatasetPtr open_fashion_mnist(const DatasetOptions& options, Split split) {
  const std::filesystem::path folder =
      options.data_dir.empty() ? "/usr/share/datasets/fashion-mnist" : options.data_dir;
  return open_idx_images(folder, split, "apt install dataset-fashion-mnist, or give its folder by --data-dir",
                         UnpackCache(default_cache_folder(), options.activity));
}

DatasetPtr open_mnist(const DatasetOptions& options, Split split) {
  if (options.data_dir.empty())
    throw UsageError("mnist: give the folder of its four IDX files by --data-dir");
  return open_idx_images(options.data_dir, split, "give the folder of MNIST's four IDX files by --data-dir",
                         UnpackCache(default_cache_folder(), options.activity));
}

DatasetPtr open_tensors_of(const DatasetOptions& options, Split) {
  if (options.data_dir.empty()) throw UsageError("tensors: give the file by --data-dir FILE.safetensors");
  return open_tensors(options.data_dir);
}

}  // namespace

const std::vector<DatasetEntry>& datasets() {
  static const std::vector<DatasetEntry> entries{
      {"fashion-mnist",
       "60000 + 10000 images of clothes, 1x28x28, 10 classes (package dataset-fashion-mnist)",
       open_fashion_mnist, [](const DatasetOptions&) { return idx_images_spec(); }},
      {"mnist", "60000 + 10000 handwritten digits, 1x28x28, 10 classes; --data-dir holds its four IDX files",
       open_mnist, [](const DatasetOptions&) { return idx_images_spec(); }},
      {"synthetic", "random samples of any --image-shape and --num-classes at almost no cost", make_synthetic,
       synthetic_spec},
      {"tensors", "tensors 'inputs' and 'targets' of --data-dir FILE.safetensors", open_tensors_of,
       [](const DatasetOptions& options) { return open_tensors_of(options, Split::train)->spec(); }},
  };
  return entries;
}

std::vector<std::string> dataset_names(std::span<const DatasetEntry> among) {
  std::vector<std::string> names;
  for (const DatasetEntry& entry : among) names.push_back(entry.name);
  return names;
}

const DatasetEntry& find_dataset(std::span<const DatasetEntry> among, const std::string& name) {
  const auto found = std::ranges::find_if(
      among, [wanted = folded(name)](const DatasetEntry& entry) { return folded(entry.name) == wanted; });
  if (found != among.end()) return *found;
  throw UsageError(unknown_name("dataset", name, dataset_names(among), "`trainer datasets` lists them"));
}

DatasetPtr open_dataset(const DatasetOptions& options, Split split) {
  return find_dataset(datasets(), options.name).open(options, split);
}

SampleSpec dataset_spec(const DatasetOptions& options) {
  return find_dataset(datasets(), options.name).spec(options);
}

}  // namespace lockstep::data
