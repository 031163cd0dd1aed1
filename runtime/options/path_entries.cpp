#include <algorithm>
#include <sstream>

#include "runtime/options/entries.h"

namespace lockstep::runtime {
namespace {

/// What a plugin takes for a place need be none of the file system.
std::filesystem::path absolute_if_there(const std::filesystem::path& path) {
  std::error_code absent;
  return std::filesystem::exists(path, absent) ? std::filesystem::absolute(path) : path;
}

}  // namespace

OptionEntry path(OptionInfo info, std::filesystem::path Options::*field) {
  return {std::move(info), [field](Options& o, const std::string& given) { o.*field = given; },
          [field](const Options& o) { return (o.*field).string(); }};
}

OptionEntry place(OptionInfo info, std::filesystem::path Options::*field) {
  OptionEntry entry = path(std::move(info), field);
  entry.keep = [field](const Options& o) { return absolute_if_there(o.*field).string(); };
  return entry;
}

OptionEntry plugins(OptionInfo info) {
  return {std::move(info),
          [](Options& o, const std::string& given) {
            std::istringstream files(given);
            for (std::string file; std::getline(files, file, ',');) {
              // Absolute, for a run that is evaluated from another folder.
              const auto path = std::filesystem::absolute(file).lexically_normal();
              if (std::ranges::find(o.plugins, path) == o.plugins.end()) o.plugins.push_back(path);
            }
          },
          [](const Options& o) {
            std::string files;
            for (const auto& file : o.plugins) files += (files.empty() ? "" : ",") + file.string();
            return files;
          }};
}

}  // namespace lockstep::runtime
