#pragma once

#include <cstddef>
#include <span>

namespace lockstep::comm {

/// Owns a shared, writable mapping of a part of a file.
class Mapping {
 public:
  Mapping() = default;
  /// `offset`: a multiple of the page size. DeviceError when the system refuses.
  Mapping(int fd, std::size_t offset, std::size_t bytes);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::byte* data() const { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }

 private:
  std::span<std::byte> bytes_;
};

/// Gives the pages under `bytes` of a shared mapping back to the system, for all processes: they read as
/// zeros.
void discard(std::span<std::byte> bytes) noexcept;

/// Creates the pages under `bytes` and enters them in this process's page table.
void populate(std::span<std::byte> bytes);

std::size_t round_to_pages(std::size_t bytes);

}  // namespace lockstep::comm
