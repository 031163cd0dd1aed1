#include "data/datasets.h"

#include <algorithm>
#include <array>

#include "data/idx.h"
#include "data/synthetic.h"
#include "data/tensors.h"
#include "kernels/base/error.h"
#include "kernels/base/nearest.h"

namespace lockstep::data {
namespace {

struct Entry {
  const char* name;
  const char* what;
  DatasetPtr (*open)(const DatasetOptions&, Split);
  SampleSpec (*spec)(const DatasetOptions&);
};

DatasetPtr open_fashion_mnist(const DatasetOptions& options, Split split) {
  const std::filesystem::path folder =
      options.data_dir.empty() ? "/usr/share/datasets/fashion-mnist" : options.data_dir;
  return open_idx_images(folder, split,
                         "apt install dataset-fashion-mnist, or give its folder by --data-dir");
}

DatasetPtr open_mnist(const DatasetOptions& options, Split split) {
  if (options.data_dir.empty())
    throw UsageError("mnist: give the folder of its four IDX files by --data-dir");
  return open_idx_images(options.data_dir, split, "give the folder of MNIST's four IDX files by --data-dir");
}

DatasetPtr open_tensors_of(const DatasetOptions& options, Split) {
  if (options.data_dir.empty()) throw UsageError("tensors: give the file by --data-dir FILE.safetensors");
  return open_tensors(options.data_dir);
}

constexpr std::array kEntries{
    Entry{"fashion-mnist",
          "60000 + 10000 images of clothes, 1x28x28, 10 classes (package dataset-fashion-mnist)",
          open_fashion_mnist, [](const DatasetOptions&) { return idx_images_spec(); }},
    Entry{"mnist",
          "60000 + 10000 handwritten digits, 1x28x28, 10 classes; --data-dir holds its four IDX files",
          open_mnist, [](const DatasetOptions&) { return idx_images_spec(); }},
    Entry{"synthetic", "random samples of any --image-shape and --num-classes at almost no cost",
          make_synthetic, synthetic_spec},
    Entry{"tensors", "tensors 'inputs' and 'targets' of --data-dir FILE.safetensors", open_tensors_of,
          [](const DatasetOptions& options) { return open_tensors_of(options, Split::train)->spec(); }},
};

const Entry& entry_for(const std::string& name) {
  const auto* found =
      std::find_if(kEntries.begin(), kEntries.end(),
                   [wanted = folded(name)](const Entry& entry) { return folded(entry.name) == wanted; });
  if (found != kEntries.end()) return *found;
  throw UsageError(unknown_name("dataset", name, dataset_names(), "`trainer datasets` lists them"));
}

}  // namespace

DatasetPtr open_dataset(const DatasetOptions& options, Split split) {
  return entry_for(options.name).open(options, split);
}

SampleSpec dataset_spec(const DatasetOptions& options) {
  return entry_for(options.name).spec(options);
}

std::vector<DatasetInfo> list_datasets() {
  std::vector<DatasetInfo> infos;
  for (const Entry& entry : kEntries) infos.push_back({entry.name, entry.what});
  return infos;
}

std::vector<std::string> dataset_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kEntries) names.emplace_back(entry.name);
  return names;
}

}  // namespace lockstep::data
