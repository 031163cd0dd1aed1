#include "runtime/plugin/shared_object.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <system_error>
#include <vector>

namespace lockstep::runtime {
namespace {

/// Of this machine's word and byte order.
bool is_native(const Elf64_Ehdr& header) {
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
         header.e_version == EV_CURRENT && header.e_phentsize == sizeof(Elf64_Phdr);
}

}  // namespace

bool is_cut_off(const std::filesystem::path& file) {
  std::error_code unknown;
  const std::uint64_t bytes = std::filesystem::file_size(file, unknown);
  std::ifstream stream(file, std::ios::binary);
  Elf64_Ehdr header{};
  if (unknown || !stream.read(reinterpret_cast<char*>(&header), sizeof header) || !is_native(header))
    return false;
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  stream.seekg(static_cast<std::streamoff>(header.e_phoff));
  if (!stream.read(reinterpret_cast<char*>(segments.data()),
                   static_cast<std::streamsize>(segments.size() * sizeof(Elf64_Phdr))))
    return true;
  return std::ranges::any_of(segments, [&](const Elf64_Phdr& segment) {
    const bool begins = segment.p_offset <= bytes;
    return segment.p_type == PT_LOAD && !(begins && segment.p_filesz <= bytes - segment.p_offset);
  });
}

}  // namespace lockstep::runtime
