#include "data/folders.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

void add_folders(const fs::path& folder, int depth, std::vector<std::string>& folders) {
  constexpr int deepest = 32;
  if (depth > deepest) {
    throw DataError(fmt::format("{}: folders nest too deep: does a link lead back?", folder.string()));
  }
  folders.push_back(folder.string());
  for (const std::string& name : folders_in(folder)) add_folders(folder / name, depth + 1, folders);
}

std::vector<std::string> names_in(const fs::path& folder, bool folders) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    std::error_code ignored;  // a link to nowhere is no folder
    if (!name.starts_with('.') && at->is_directory(ignored) == folders) names.push_back(std::move(name));
  }
  if (error) throw DataError(fmt::format("{}: cannot be read: {}", folder.string(), error.message()));
  std::ranges::sort(names);
  return names;
}

bool has_word(const std::string& name, std::initializer_list<std::string_view> words) {
  constexpr const char* letters = "abcdefghijklmnopqrstuvwxyz";
  for (std::size_t begin = name.find_first_of(letters); begin != name.npos;) {
    const std::size_t end = std::min(name.find_first_not_of(letters, begin), name.size());
    if (std::ranges::find(words, std::string_view(name).substr(begin, end - begin)) != words.end())
      return true;
    begin = name.find_first_of(letters, end);
  }
  return false;
}

/// By a word ("pretrain_val.bin" is evaluated), or else by a part of one ("trainset.bin").
std::optional<Split> split_of(const std::string& name) {
  const auto has = [&](const char* part) { return name.find(part) != name.npos; };
  if (has_word(name, {"train", "training"})) return Split::train;
  if (has_word(name, {"val", "valid", "validation", "test"})) return Split::test;
  if (has("train")) return Split::train;
  return has("val") || has("test") ? std::optional(Split::test) : std::nullopt;
}

bool has_splits(const fs::path& root) {
  return fs::is_directory(root / "train");
}

}  // namespace

std::vector<std::string> folders_in(const fs::path& folder) {
  return names_in(folder, true);
}
std::vector<std::string> files_in(const fs::path& folder) {
  return names_in(folder, false);
}

std::vector<std::string> folders_below(const fs::path& folder) {
  std::vector<std::string> folders;
  add_folders(folder, 0, folders);
  std::ranges::sort(folders);
  return folders;
}

fs::path split_folder(const fs::path& root, Split split) {
  if (!has_splits(root)) return root;
  if (split == Split::train) return root / "train";
  for (const char* name : {"val", "validation", "test"}) {
    if (fs::is_directory(root / name)) return root / name;
  }
  throw DataError(fmt::format(
      "{}: beside train there is no val, validation or test: give --eval-every 0 to train without",
      root.string()));
}

SplitFiles split_files(const DatasetOptions& options, const std::string& extension) {
  const fs::path& place = options.data_dir;
  SplitFiles files;
  if (!fs::is_directory(place)) {
    (options.data_are_new ? files.test : files.train).push_back(place);
    return files;
  }
  for (const std::string& name : files_in(place)) {
    const auto split = name.ends_with(extension) ? split_of(name) : std::nullopt;
    if (split) (*split == Split::train ? files.train : files.test).push_back(place / name);
  }
  if (!files.train.empty()) return files;
  throw DataError(fmt::format("{}: no {} file here has 'train' in its name", place.string(), extension));
}

std::string note_on(const SplitFiles& files) {
  if (!files.test.empty()) return {};
  return fmt::format("evaluated is the last tenth of {}, which is not trained on",
                     files.train.size() == 1 ? files.train.front().string()
                                             : fmt::format("each of {} files, {}, ...", files.train.size(),
                                                           files.train.front().string()));
}

std::string note_on_splits(const fs::path& root) {
  if (has_splits(root)) return {};
  return fmt::format("evaluated are the samples that are trained on: {} has no folders train and val",
                     root.string());
}

}  // namespace lockstep::data
