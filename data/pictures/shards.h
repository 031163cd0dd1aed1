#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/datasets.h"
#include "data/files/unpack_cache.h"
#include "data/pictures/picture.h"

namespace lockstep::data {

struct ShardIndex;

/// Of archives that were opened before: so each is scanned once also where no folder keeps its index. Used by
/// one thread at a time.
class ShardIndexes {
 public:
  std::shared_ptr<const ShardIndex>& of(const std::string& archive) { return indexes_[archive]; }

 private:
  std::map<std::string, std::shared_ptr<const ShardIndex>> indexes_;
};

/// Pictures in tar archives as WebDataset writes them: members that follow each other with the same name up
/// to the first dot are a sample, its picture .jpg, .jpeg or .png and its class the number in .cls, before
/// those with more dots (.mask.png); other members are passed over. `place`: an archive, or a folder whose
/// .tar files are taken in byte order; of one that is split (`split_folders`), those of the split.
///
/// Where each sample lies is kept in `index_folder`, by the archive's path, size and time of change, so an
/// archive is scanned once per machine, and samples are read in any order. `known`: indexes of this process,
/// or null. Archives are mapped. DataError names the archive, the offset and what is wrong there. `activity`,
/// which may be null, advances archive by archive.
PictureSetPtr open_shards(const std::filesystem::path& place, Split split, std::int64_t num_classes,
                          const std::filesystem::path& index_folder = default_cache_folder(),
                          ShardIndexes* known = nullptr, Activity* activity = nullptr);

/// Names of the classes, where the pictures of each are in a folder of their own by their names in the
/// archives ("train/cat/0001.jpg"); a class without pictures has none. Else empty.
std::vector<std::string> shard_class_names(const std::filesystem::path& place, std::int64_t num_classes,
                                           const std::filesystem::path& index_folder = default_cache_folder(),
                                           ShardIndexes* known = nullptr);

}  // namespace lockstep::data
