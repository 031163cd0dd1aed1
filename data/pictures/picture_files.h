#pragma once

#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/datasets.h"
#include "data/pictures/picture.h"
#include "data/pictures/transforms.h"

namespace lockstep::data {

/// The pictures that `named` lists: files, and of each folder all JPEG and PNG pictures below it, told by
/// their names or first bytes, in byte order of their paths; hidden ones are passed over, links followed.
/// DataError names what is not there, and a folder without pictures.
std::vector<std::string> find_pictures(std::span<const std::string> named);

/// Picture files to be predicted: the list of transforms for evaluation, applied to each. Where a data set
/// has grey pictures, these become grey as by Pillow's convert("L"); where its pictures have one size, they
/// are resized and cropped to it first. Targets are of `targets`' type and say that there is none.
class PictureFiles final : public Dataset {
 public:
  /// `kind`: of the data set that the model knows. UsageError when the transforms do not give all pictures
  /// one size.
  PictureFiles(std::vector<std::string> files, const PictureKind& kind, const SampleSpec& targets,
               const DatasetOptions& options);

  std::int64_t size() const override { return std::ssize(files_); }
  const SampleSpec& spec() const override { return spec_; }
  /// A picture that cannot be read is a DataError or, with --corrupt-samples skip, all zeros and warned of.
  void get(std::int64_t index, std::int64_t epoch, std::span<std::byte> input,
           std::span<std::byte> target) const override;

  const std::vector<std::string>& files() const { return files_; }
  /// Those that `get` could not read so far, by index.
  std::vector<std::int64_t> unreadable() const;

 private:
  void read(std::int64_t index, std::int64_t epoch, std::span<std::byte> input) const;

  const std::vector<std::string> files_;
  const PictureKind kind_;
  const Transform transform_;
  const std::uint64_t seed_;
  const bool skips_corrupt_;
  const SampleSpec spec_;
  mutable std::mutex mutex_;
  mutable std::set<std::int64_t> unreadable_;
};

}  // namespace lockstep::data
