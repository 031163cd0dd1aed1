#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <vector>

#include "data/loader.h"

namespace lockstep::data {

/// Memory for batches in flight. Batch number t lives in slot t % size; each slot's turn tells for which
/// batch it is free (2t) or that batch t lies ready in it (2t + 1), so filling and freeing need no lock.
/// Inputs and targets are aligned to 64 bytes.
class BatchRing {
 public:
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> turn;
    Batch batch;
    std::exception_ptr error;  ///< why the batch could not be filled
    std::span<std::byte> input;
    std::span<std::byte> target;
  };

  /// In the host memory of `device`, if there is one.
  BatchRing(const SampleSpec& spec, std::int64_t batch_size, std::size_t slots, kernels::Device* device);

  std::size_t size() const { return slots_.size(); }
  Slot& slot_of(std::uint64_t number) { return slots_[number % slots_.size()]; }

  bool is_free_for(std::uint64_t number) { return slot_of(number).turn.load() == 2 * number; }
  bool is_ready(std::uint64_t number) { return slot_of(number).turn.load() == 2 * number + 1; }
  void make_ready(std::uint64_t number) { slot_of(number).turn.store(2 * number + 1); }

  /// The number of the batch that the slot is now free for.
  std::uint64_t make_free(std::uint64_t number) {
    slot_of(number).turn.store(2 * (number + size()));
    return number + size();
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };

  std::span<std::byte> allocate(std::size_t lines, kernels::Device* device);

  std::vector<Line> memory_;
  std::unique_ptr<kernels::Memory> device_memory_;
  std::vector<Slot> slots_;
};

}  // namespace lockstep::data
