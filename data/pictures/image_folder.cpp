#include "data/pictures/image_folder.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/files/fail.h"
#include "data/folders.h"
#include "data/pictures/decode.h"
#include "kernels/base/activity.h"
#include "kernels/base/file.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> classes_of(const fs::path& folder) {
  std::vector<std::string> classes = class_folders_in(folder);
  if (classes.empty()) fail(folder, "no folders here: pictures lie in a folder for each class");
  return classes;
}

std::map<std::string_view, std::int64_t> numbered(const std::vector<std::string>& classes) {
  std::map<std::string_view, std::int64_t> labels;
  for (const std::string& name : classes) labels.emplace(name, std::ssize(labels));
  return labels;
}

class ImageFolder final : public PictureSet {
 public:
  ImageFolder(const fs::path& folder, const std::vector<std::string>& classes, Activity* activity)
      : num_classes_(std::ssize(classes)) {
    const std::map<std::string_view, std::int64_t> labels = numbered(classes);
    for (const std::string& name : classes_of(folder)) {
      const auto known = labels.find(name);
      if (known == labels.end()) fail(folder / name, "training has no class of this name");
      add_class(folder / name, known->second);
      if (activity != nullptr) activity->advance();
    }
  }

  std::int64_t size() const override { return std::ssize(samples_); }
  int channels() const override { return 3; }
  std::int64_t num_classes() const override { return num_classes_; }
  std::int64_t label(std::int64_t index) const override { return sample(index).label; }

  std::unique_ptr<PictureReader> open(std::int64_t index) const override {
    return open_picture_file(path_of(index));
  }

  void read_encoded(std::int64_t index,
                    const std::function<void(std::span<const std::byte>)>& take) const override {
    const MappedFile file(path_of(index));  // of which only what is looked at is read
    take(file.bytes());
  }

 private:
  struct Sample {
    std::size_t folder;
    std::int64_t label;
    std::string name;
  };

  void add_class(const fs::path& folder, std::int64_t label) {
    const std::size_t before = samples_.size();
    for (std::string& one : folders_below(folder)) {
      for (std::string& name : files_in(one)) {
        if (is_foreign_picture_name(name)) {
          fail(fs::path(one) / name,
               "pictures are read from JPEG and PNG alone: convert it, or take it away");
        }
        if (is_picture_name(name)) samples_.push_back({folders_.size(), label, std::move(name)});
      }
      folders_.push_back(std::move(one));
    }
    if (samples_.size() == before) fail(folder, "no pictures (.jpg, .jpeg, .png) for this class");
  }

  fs::path path_of(std::int64_t index) const {
    return fs::path(folders_[sample(index).folder]) / sample(index).name;
  }

  const Sample& sample(std::int64_t index) const { return samples_[static_cast<std::size_t>(index)]; }

  std::int64_t num_classes_;
  std::vector<std::string> folders_;
  std::vector<Sample> samples_;
};

}  // namespace

PictureSetPtr open_image_folder(const fs::path& root, Split split, const std::vector<std::string>& known,
                                Activity* activity) {
  return std::make_shared<ImageFolder>(split_folder(root, split),
                                       known.empty() ? image_folder_classes(root) : known, activity);
}

std::vector<std::string> image_folder_classes(const fs::path& root) {
  return classes_of(split_folders(root).classes());
}

}  // namespace lockstep::data
