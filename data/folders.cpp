#include "data/folders.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "data/text/utf8.h"
#include "kernels/base/error.h"
#include "kernels/base/file_status.h"

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

enum class Purpose { training, validation, test };

/// By a word ("pretrain_val.bin" is for validation), or else by a part of one ("trainset.bin").
std::optional<Purpose> purpose_of(const std::string& name) {
  const auto has = [&](const char* part) { return name.find(part) != name.npos; };
  if (has_word(name, {"train", "training"})) return Purpose::training;
  if (has_word(name, {"val", "valid", "validation"})) return Purpose::validation;
  if (has_word(name, {"test"})) return Purpose::test;
  if (has("train")) return Purpose::training;
  if (has("val")) return Purpose::validation;
  return has("test") ? std::optional(Purpose::test) : std::nullopt;
}

constexpr std::array held_back_names{"val", "valid", "validation", "test"};

/// The folder of what is evaluated; empty for none.
fs::path held_back_in(const fs::path& root) {
  for (const char* name : held_back_names) {
    if (fs::is_directory(status_at(root / name))) return root / name;
  }
  return {};
}

bool has_archives(const fs::path& folder) {
  return std::ranges::any_of(files_in(folder),
                             [](const std::string& name) { return name.ends_with(".tar"); });
}

bool names_what_is_evaluated(const std::string& name) {
  return name.starts_with("test") || name.starts_with("val");
}

/// A split has folders of classes, or archives; a class that is called "train" has files, and classes beside
/// it.
bool is_split(const fs::path& train) {
  if (!folders_in(train).empty() || files_in(train).empty() || has_archives(train)) return true;
  return std::ranges::all_of(folders_in(train.parent_path()), [](const std::string& name) {
    return name == "train" || names_what_is_evaluated(name);
  });
}

/// As where ImageNet's val alone was fetched.
bool is_alone(const fs::path& held_back) {
  return !folders_in(held_back).empty() &&
         std::ranges::all_of(folders_in(held_back.parent_path()), names_what_is_evaluated);
}

}  // namespace

std::vector<std::string> folders_in(const fs::path& folder) {
  return names_in(folder, true);
}
std::vector<std::string> files_in(const fs::path& folder) {
  return names_in(folder, false);
}

std::vector<std::string> class_folders_in(const fs::path& folder) {
  std::vector<std::string> names = folders_in(folder);
  for (const std::string& name : names) {
    if (valid_utf8_length(name) == name.size()) continue;
    throw DataError(fmt::format("{}: the name of this class is no UTF-8, as weights keep names: rename it",
                                (folder / name).string()));
  }
  return names;
}

std::vector<std::string> folders_below(const fs::path& folder) {
  std::vector<std::string> folders;
  add_folders(folder, 0, folders);
  std::ranges::sort(folders);
  return folders;
}

SplitFolders split_folders(const fs::path& root) {
  const fs::path train = root / "train", held_back = held_back_in(root);
  if (fs::is_directory(status_at(train)) && (!held_back.empty() || is_split(train)))
    return {train, held_back};
  if (held_back.empty()) return {root, root};
  if (has_archives(held_back)) return {has_archives(root) ? root : fs::path(), held_back};
  return is_alone(held_back) ? SplitFolders{{}, held_back} : SplitFolders{root, root};
}

fs::path split_folder(const fs::path& root, Split split) {
  const SplitFolders folders = split_folders(root);
  const fs::path& folder = split == Split::train ? folders.train : folders.test;
  if (!folder.empty()) return folder;
  throw DataError(fmt::format(
      "{}: {}", root.string(),
      split == Split::train
          ? fmt::format("there is no train beside {}", folders.test.filename().string())
          : "beside train there is no val, valid, validation or test: give --eval-every 0 to train without"));
}

SplitFiles split_files(const DatasetOptions& options, const std::string& extension) {
  const fs::path& place = options.data_dir;
  SplitFiles files;
  if (!fs::is_directory(status_at(place))) {
    (options.data_are_new ? files.test : files.train).push_back(place);
    return files;
  }
  for (const std::string& name : files_in(place)) {
    const auto purpose = name.ends_with(extension) ? purpose_of(name) : std::nullopt;
    if (purpose == Purpose::training) files.train.push_back(place / name);
    if (purpose == Purpose::validation) files.test.push_back(place / name);
    if (purpose == Purpose::test) files.set_aside.push_back(place / name);
  }
  // Choices made by scores on the test files would make those worthless.
  if (files.test.empty()) std::swap(files.test, files.set_aside);
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
  if (split_folders(root).test != root) return {};
  return fmt::format("evaluated are the samples that are trained on: {} has no folders train and val",
                     root.string());
}

}  // namespace lockstep::data
