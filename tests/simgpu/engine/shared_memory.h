#pragma once

#include <cstddef>
#include <vector>

namespace simgpu {

/// The shared memory of the block that runs: what is given to it is filled with a pattern (NaN in every
/// floating point type, -1 in every integer), and guards behind it tell of writes beyond its end.
class SharedMemory {
 public:
  SharedMemory();

  /// For a grid whose blocks have so many bytes of dynamic shared memory.
  void begin_grid(std::size_t dynamic_bytes);

  void begin_block();
  /// Throws KernelMistake when a guard was written.
  void end_block();

  std::byte* dynamic() { return dynamic_; }
  std::size_t dynamic_bytes() const { return dynamic_bytes_; }
  /// Fills the array at its first use in a block.
  void use_static(std::byte* data, std::size_t bytes, std::size_t guard_bytes);
  std::size_t static_bytes() const;

 private:
  struct Array {
    std::byte* data;
    std::size_t bytes;
    std::size_t guard_bytes;
  };
  void fill(const Array& array);
  void check(const Array& array, const char* what) const;

  std::vector<std::byte> storage_;
  std::byte* dynamic_;
  std::size_t dynamic_bytes_ = 0;
  std::vector<Array> arrays_;  ///< static ones used by this block so far
};

}  // namespace simgpu
