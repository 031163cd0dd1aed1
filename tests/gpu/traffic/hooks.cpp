// What the compiler calls at loads, stores and atomic operations of sources that it compiles with
// -fsanitize=thread. ThreadSanitizer's runtime, which usually answers these calls, is not there: here they
// count.
#include <cstddef>
#include <cstdint>

#include "tests/simgpu/engine/traffic.h"

using simgpu::note_access;

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

#define ACCESS(bytes)                                 \
  void __tsan_read##bytes(void* address) {            \
    note_access(address, bytes, false);               \
  }                                                   \
  void __tsan_write##bytes(void* address) {           \
    note_access(address, bytes, true);                \
  }                                                   \
  void __tsan_unaligned_read##bytes(void* address) {  \
    note_access(address, bytes, false);               \
  }                                                   \
  void __tsan_unaligned_write##bytes(void* address) { \
    note_access(address, bytes, true);                \
  }                                                   \
  void __tsan_volatile_read##bytes(void* address) {   \
    note_access(address, bytes, false);               \
  }                                                   \
  void __tsan_volatile_write##bytes(void* address) {  \
    note_access(address, bytes, true);                \
  }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
#undef ACCESS

void __tsan_read_range(void* address, std::size_t bytes) {
  note_access(address, bytes, false);
}
void __tsan_write_range(void* address, std::size_t bytes) {
  note_access(address, bytes, true);
}

// An atomic change reads and writes in the cache; that it does so is all that is counted.
#define ATOMIC(bits, Word)                                                                                \
  Word __tsan_atomic##bits##_load(const volatile Word* a, int order) {                                    \
    note_access(const_cast<const Word*>(a), sizeof(Word), false);                                         \
    return __atomic_load_n(a, order);                                                                     \
  }                                                                                                       \
  Word __tsan_atomic##bits##_fetch_add(volatile Word* a, Word value, int order) {                         \
    note_access(const_cast<const Word*>(a), sizeof(Word), true);                                          \
    return __atomic_fetch_add(a, value, order);                                                           \
  }                                                                                                       \
  Word __tsan_atomic##bits##_exchange(volatile Word* a, Word value, int order) {                          \
    note_access(const_cast<const Word*>(a), sizeof(Word), true);                                          \
    return __atomic_exchange_n(a, value, order);                                                          \
  }                                                                                                       \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile Word* a, Word* seen, Word wanted, int order, \
                                                    int) {                                                \
    note_access(const_cast<const Word*>(a), sizeof(Word), true);                                          \
    return __atomic_compare_exchange_n(a, seen, wanted, false, order, __ATOMIC_RELAXED);                  \
  }
ATOMIC(32, std::uint32_t)
ATOMIC(64, std::uint64_t)
#undef ATOMIC
}
