#pragma once

#include <cstddef>
#include <cstdint>

namespace simgpu {

/// Memory that is seen at two places: at its address in the program under test, closed (PROT_NONE) until it
/// is opened, and in a view that is always open. Pages take memory when they are first touched.
class TwinMapping {
 public:
  /// At `address` where that is free, else where the system likes.
  TwinMapping(std::uintptr_t address, std::size_t bytes);
  ~TwinMapping();
  TwinMapping(const TwinMapping&) = delete;
  TwinMapping& operator=(const TwinMapping&) = delete;

  std::uintptr_t begin() const { return begin_; }
  std::uintptr_t end() const { return begin_ + bytes_; }
  bool contains(std::uintptr_t address) const { return address >= begin() && address < end(); }
  std::byte* view(std::uintptr_t address) const { return view_ + (address - begin_); }

  /// mprotect of the pages from `begin` to before `end`, widened to whole pages.
  void protect(std::uintptr_t begin, std::uintptr_t end, int protection) const;

  /// Gives the whole pages inside [begin, end) back to the system.
  void discard(std::uintptr_t begin, std::uintptr_t end) const;

 private:
  std::size_t bytes_;
  std::uintptr_t begin_ = 0;
  std::byte* view_ = nullptr;
  int file_ = -1;
};

}  // namespace simgpu
