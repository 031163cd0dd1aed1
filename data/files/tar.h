#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace lockstep::data {

/// A regular file in a tar archive.
struct TarMember {
  std::string name;
  std::uint64_t offset = 0;  ///< of its contents in the archive
  std::uint64_t size = 0;
};

/// The regular files of an archive in their order: POSIX ustar with pax headers, and GNU's long names and
/// large sizes. `bytes`: all of it. DataError names `path`, the offset and what is wrong there.
std::vector<TarMember> read_tar(const std::filesystem::path& path, std::span<const std::byte> bytes);

}  // namespace lockstep::data
