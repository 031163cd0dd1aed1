#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace simgpu {

/// Which parts of an address range are free. Goes round the range before it uses an address again, so that a
/// stale pointer is not soon valid by accident.
class Extents {
 public:
  /// Each extent is rounded up to `unit` and has `pad` bytes before and after it.
  Extents(std::uintptr_t begin, std::uintptr_t end, std::size_t unit, std::size_t pad);

  std::optional<std::uintptr_t> take(std::size_t bytes);
  void give_back(std::uintptr_t begin, std::size_t bytes);

  /// What an extent of this size occupies without its pads.
  std::size_t rounded(std::size_t bytes) const;
  std::size_t pad() const { return pad_; }

 private:
  using Free = std::map<std::uintptr_t, std::uintptr_t>;

  std::optional<std::uintptr_t> take_from(Free::iterator first, Free::iterator last, std::size_t bytes);

  Free free_;  ///< begin and end
  std::uintptr_t next_;
  std::size_t unit_;
  std::size_t pad_;
};

}  // namespace simgpu
