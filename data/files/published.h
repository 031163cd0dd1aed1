#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::data {

/// A file as the makers of a data set publish it.
struct PublishedFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;  ///< lower-case hexadecimal
};

/// A data set that `--download` fetches.
struct PublishedSet {
  std::string name;                  ///< of the data set
  std::vector<std::string> mirrors;  ///< URLs of folders with its files, in the order they are tried
  std::vector<PublishedFile> files;
};

/// Null for a set that nobody publishes as files we know.
const PublishedSet* find_published(const std::string& dataset);

}  // namespace lockstep::data
