#include <algorithm>
#include <sstream>

#include "runtime/options/entries.h"

namespace lockstep::runtime {
namespace {

std::filesystem::path absolute_path(const std::filesystem::path& path) {
  return path.empty() ? path : std::filesystem::absolute(path);
}

}  // namespace

OptionEntry path(OptionInfo info, std::filesystem::path Options::*field) {
  return {std::move(info), [field](Options& o, const std::string& given) { o.*field = given; },
          [field](const Options& o) { return (o.*field).string(); }};
}

OptionEntry place(OptionInfo info, std::filesystem::path Options::*field) {
  OptionEntry entry = path(std::move(info), field);
  entry.keep = [field](const Options& o) { return absolute_path(o.*field).string(); };
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
