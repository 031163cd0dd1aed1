#include "data/pictures/shards.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "data/files/fail.h"
#include "data/files/tar.h"
#include "data/folders.h"
#include "data/pictures/decode.h"
#include "kernels/base/activity.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/file_status.h"
#include "kernels/base/hash.h"
#include "kernels/base/json.h"
#include "kernels/base/log.h"
#include "kernels/base/number.h"

namespace lockstep::data {

/// Of a picture in its archive.
struct ShardSample {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::int64_t label = 0;
};
static_assert(std::is_trivially_copyable_v<ShardSample>);

/// Of an archive. Its file: a digest of the rest, the number of samples, the samples, the folders as JSON.
struct ShardIndex {
  std::vector<ShardSample> samples;
  /// Of each class the folder that all its samples' names have; empty where they have several, or none.
  std::map<std::int64_t, std::string> folders;
};

namespace {

namespace fs = std::filesystem;

void add_folder(std::int64_t label, const std::string& folder, std::map<std::int64_t, std::string>& folders) {
  const auto [at, is_new] = folders.emplace(label, folder);
  if (!is_new && at->second != folder) at->second.clear();
}

/// "a/b.c.jpg" is the key "a/b" and the rest "c.jpg".
std::pair<std::string_view, std::string_view> split_name(std::string_view name) {
  const std::size_t file = name.rfind('/') == std::string_view::npos ? 0 : name.rfind('/') + 1;
  const std::size_t dot = std::min(name.find('.', file), name.size());
  return {name.substr(0, dot), name.substr(std::min(dot + 1, name.size()))};
}

std::int64_t parse_class(const fs::path& path, const TarMember& member, std::span<const std::byte> archive) {
  std::string_view text(reinterpret_cast<const char*>(archive.data()) + member.offset, member.size);
  constexpr std::string_view blank = " \n\r\t";  // around a number, as Python's int() takes it
  text.remove_prefix(std::min(text.find_first_not_of(blank), text.size()));
  text.remove_suffix(text.size() - std::min(text.find_last_not_of(blank) + 1, text.size()));
  const auto label = parse_number<std::int64_t>(text);
  if (!label || *label < 0) fail(path, member.offset, fmt::format("'{}' holds no class number", member.name));
  return *label;
}

/// WebDataset, too, passes over hidden files, names without a dot, and what it says of the archive itself.
bool is_of_a_sample(const TarMember& member) {
  const auto [key, kind] = split_name(member.name);
  const std::string_view name = key.substr(key.rfind('/') + 1);
  const bool is_of_the_archive = name.starts_with("__") && name.ends_with("__");
  return !name.empty() && !kind.empty() && !is_of_the_archive;
}

/// Of a sample: its picture is .jpg before .mask.jpg, and so with classes.
class Choice {
 public:
  void offer(const TarMember& member, std::string_view kind) {
    (kind.find('.') == kind.npos ? plain_ : dotted_).push_back(&member);
  }
  const TarMember& only(const fs::path& path, const TarMember& first, const char* what) const {
    const auto& offered = plain_.empty() ? dotted_ : plain_;
    if (offered.empty())
      fail(path, first.offset, fmt::format("sample '{}' has no {}", split_name(first.name).first, what));
    if (offered.size() > 1) {
      fail(path, offered[1]->offset,
           fmt::format("'{}' is a second {} beside '{}'", offered[1]->name, what, offered[0]->name));
    }
    return *offered.front();
  }

 private:
  std::vector<const TarMember*> plain_;
  std::vector<const TarMember*> dotted_;
};

ShardIndex scan(const fs::path& path, std::span<const std::byte> archive) {
  std::vector<TarMember> members = read_tar(path, archive);
  std::erase_if(members, [](const TarMember& member) { return !is_of_a_sample(member); });
  ShardIndex index;
  for (std::size_t first = 0, end = 0; first < members.size(); first = end) {
    const std::string_view key = split_name(members[first].name).first;
    Choice pictures, labels;
    for (end = first; end < members.size() && split_name(members[end].name).first == key; ++end) {
      const std::string_view kind = split_name(members[end].name).second;
      if (kind == "cls" || kind.ends_with(".cls")) labels.offer(members[end], kind);
      if (is_picture_name(members[end].name)) pictures.offer(members[end], kind);
    }
    const TarMember& picture = pictures.only(path, members[first], "picture");
    const TarMember& label = labels.only(path, members[first], ".cls");
    index.samples.push_back({picture.offset, picture.size, parse_class(path, label, archive)});
    add_folder(index.samples.back().label, fs::path(picture.name).parent_path().filename().string(),
               index.folders);
  }
  return index;
}

std::string bytes_of(const ShardIndex& index) {
  std::vector<std::int64_t> classes;
  std::vector<std::string> names;
  for (const auto& [label, folder] : index.folders) {
    classes.push_back(label);
    names.push_back(folder);
  }
  const std::uint64_t count = index.samples.size();
  std::string bytes(reinterpret_cast<const char*>(&count), sizeof count);
  bytes.append(reinterpret_cast<const char*>(index.samples.data()), count * sizeof(ShardSample));
  return bytes + Json{{"classes", classes}, {"folders", names}}.dump();
}

/// None when it is an index of another version.
std::optional<ShardIndex> index_from(std::string_view bytes) {
  std::uint64_t count = 0;
  if (bytes.size() < sizeof count) return std::nullopt;
  std::memcpy(&count, bytes.data(), sizeof count);
  bytes.remove_prefix(sizeof count);
  if (count > bytes.size() / sizeof(ShardSample)) return std::nullopt;
  ShardIndex index{.samples = std::vector<ShardSample>(count), .folders = {}};
  std::memcpy(index.samples.data(), bytes.data(), count * sizeof(ShardSample));
  const Json json = Json::parse_or_null(bytes.substr(count * sizeof(ShardSample)));
  const auto classes = json["classes"].get_or(std::vector<std::int64_t>());
  const auto names = json["folders"].get_or(std::vector<std::string>());
  if (json.is_null() || classes.size() != names.size()) return std::nullopt;
  for (std::size_t i = 0; i < classes.size(); ++i) index.folders[classes[i]] = names[i];
  return index;
}

/// None unless it can be read, and is whole. It may be another user's alone.
std::optional<ShardIndex> read_index(const fs::path& path) {
  try {
    const MappedFile file(path);
    constexpr std::size_t digest_bytes = sizeof(Sha256::Digest);
    if (file.bytes().size() < digest_bytes) return std::nullopt;
    const std::span<const std::byte> index = file.bytes().subspan(digest_bytes);
    const Sha256::Digest digest = Sha256().update(index).digest();
    if (!std::ranges::equal(digest, file.bytes().first(digest_bytes))) return std::nullopt;
    return index_from({reinterpret_cast<const char*>(index.data()), index.size()});
  } catch (const DataError&) {
    return std::nullopt;
  }
}

/// Several processes may do so at once: each writes the same.
void keep_index(const fs::path& path, const ShardIndex& index) {
  try {
    make_folders(path.parent_path());
    AtomicFile file(path);
    const std::string bytes = bytes_of(index);
    file.write(Sha256().update(bytes).digest());
    file.write(bytes);
    file.commit();
  } catch (const DeviceError& error) {
    log::warn("cannot keep the index of a tar archive, which is scanned at every start: {}", error.what());
  }
}

ShardIndex kept_or_scanned(const fs::path& archive, std::span<const std::byte> bytes, const fs::path& path) {
  const bool is_kept = path.has_parent_path();
  if (is_kept) {
    if (auto kept = read_index(path)) return std::move(*kept);
  }
  ShardIndex index = scan(archive, bytes);
  if (is_kept) keep_index(path, index);
  return index;
}

/// `folder`: empty if none keeps it. `known`: null if no other caller wants it.
std::shared_ptr<const ShardIndex> index_of(const fs::path& archive, std::span<const std::byte> bytes,
                                           const fs::path& folder, ShardIndexes* known) {
  const fs::path path = kept_path(folder, archive, ".samples");
  std::shared_ptr<const ShardIndex> unshared;
  auto& index = known != nullptr ? known->of(path.string()) : unshared;
  if (index == nullptr) index = std::make_shared<const ShardIndex>(kept_or_scanned(archive, bytes, path));
  return index;
}

class Shards final : public PictureSet {
 public:
  Shards(const std::vector<fs::path>& archives, std::int64_t num_classes, const fs::path& index_folder,
         ShardIndexes* known, Activity* activity)
      : num_classes_(num_classes) {
    for (const fs::path& path : archives) {
      Shard& shard = shards_.emplace_back(Shard{path, MappedFile(path), {}, size_});
      shard.index = index_of(path, shard.file.bytes(), index_folder, known);
      for (const ShardSample& sample : shard.index->samples) {
        if (sample.label >= num_classes)
          fail(path, sample.offset,
               fmt::format("its class is {}, no class below num_classes {}", sample.label, num_classes));
      }
      size_ += std::ssize(shard.index->samples);
      if (activity != nullptr) activity->advance();
    }
  }

  std::int64_t size() const override { return size_; }
  int channels() const override { return 3; }
  std::int64_t num_classes() const override { return num_classes_; }
  std::int64_t label(std::int64_t index) const override { return find(index).second.label; }

  std::unique_ptr<PictureReader> open(std::int64_t index) const override {
    const auto& [shard, sample] = find(index);
    return open_encoded(fmt::format("{}: at {}", shard.path.string(), sample.offset),
                        EncodedBytes(encoded(shard, sample)));
  }

  void read_encoded(std::int64_t index,
                    const std::function<void(std::span<const std::byte>)>& take) const override {
    const auto& [shard, sample] = find(index);
    take(encoded(shard, sample));
  }

 private:
  struct Shard {
    fs::path path;
    MappedFile file;
    std::shared_ptr<const ShardIndex> index;
    std::int64_t first;  ///< sample
  };

  static std::span<const std::byte> encoded(const Shard& shard, const ShardSample& sample) {
    return shard.file.bytes().subspan(sample.offset, sample.size);
  }

  std::pair<const Shard&, const ShardSample&> find(std::int64_t index) const {
    const auto next = std::ranges::upper_bound(shards_, index, {}, &Shard::first);
    const Shard& shard = *std::prev(next);
    return {shard, shard.index->samples[static_cast<std::size_t>(index - shard.first)]};
  }

  std::int64_t num_classes_;
  std::int64_t size_ = 0;
  std::vector<Shard> shards_;
};

std::vector<fs::path> archives_in(const fs::path& folder) {
  if (!fs::is_directory(status_at(folder))) return {folder};
  std::vector<fs::path> archives;
  for (const std::string& name : files_in(folder)) {
    if (name.ends_with(".tar")) archives.push_back(folder / name);
  }
  if (archives.empty()) fail(folder, "no .tar files here");
  return archives;
}

}  // namespace

PictureSetPtr open_shards(const fs::path& place, Split split, std::int64_t num_classes,
                          const fs::path& index_folder, ShardIndexes* known, Activity* activity) {
  auto shards = std::make_shared<Shards>(archives_in(split_folder(place, split)), num_classes, index_folder,
                                         known, activity);
  if (shards->size() == 0) fail(place, "no samples in its archives");
  return shards;
}

std::vector<std::string> shard_class_names(const fs::path& place, std::int64_t num_classes,
                                           const fs::path& index_folder, ShardIndexes* known) {
  std::map<std::int64_t, std::string> folders;
  for (const fs::path& path : archives_in(split_folders(place).classes())) {
    const auto index = index_of(path, MappedFile(path).bytes(), index_folder, known);
    for (const auto& [label, folder] : index->folders) add_folder(label, folder, folders);
  }
  std::set<std::string> distinct;
  std::vector<std::string> names(static_cast<std::size_t>(num_classes));
  for (const auto& [label, folder] : folders) {
    if (label >= num_classes || folder.empty() || !distinct.insert(folder).second) return {};
    names[static_cast<std::size_t>(label)] = folder;
  }
  return names;
}

}  // namespace lockstep::data
