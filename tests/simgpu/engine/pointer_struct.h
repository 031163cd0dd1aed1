#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

/// A struct of pointers alone, as kernels take their operands, member by member. What a member points to is
/// told by what the struct can be made of.
namespace simgpu {

/// Stands for a pointer to anything.
struct AnyPointer {
  template <class T>
  operator T*() const;  // NOLINT(google-explicit-constructor): a member is initialised by it
};

/// For a pointer to what is only read.
struct ConstPointer {
  template <class T>
  operator const T*() const;  // NOLINT(google-explicit-constructor)
};

/// For a pointer to what is aligned to `bytes`, or to more.
template <std::size_t bytes>
struct AlignedPointer {
  template <class T>
  requires(alignof(T) >= bytes) operator T*() const;  // NOLINT(google-explicit-constructor)
};

template <class T>
using MembersOf = std::make_index_sequence<sizeof(T) / sizeof(void*)>;

/// Whether a T can be made of pointers to anything, but for member `place`, which is a Pointer.
template <class T, class Pointer, std::size_t place, std::size_t... at>
constexpr bool can_be_made(std::index_sequence<at...>) {
  return requires {
    T{std::conditional_t<at == place, Pointer, AnyPointer>{}...};
  };
}
template <class T, class Pointer, std::size_t place>
constexpr bool points_as = can_be_made<T, Pointer, place>(MembersOf<T>{});

template <class T>
constexpr bool is_pointer_struct() {
  if constexpr (std::is_aggregate_v<T> && !std::is_union_v<T> && sizeof(T) % sizeof(void*) == 0) {
    return points_as<T, AnyPointer, 0>;
  } else {
    return false;
  }
}

/// Of what a member points to; more than `most` counts as that.
template <class T, std::size_t place, std::size_t most = 256>
constexpr std::size_t alignment_of_member() {
  if constexpr (most == 1 || points_as<T, AlignedPointer<most>, place>) {
    return most;
  } else {
    return alignment_of_member<T, place, most / 2>();
  }
}

/// `visit(pointer, whether it may write, alignment of what it points to)`.
template <class T, class Visit>
void for_each_pointer(const T& pointers, Visit visit) {
  std::array<const void*, sizeof(T) / sizeof(void*)> all;
  std::memcpy(all.data(), &pointers, sizeof(T));
  [&]<std::size_t... at>(std::index_sequence<at...>) {
    (visit(all[at], !points_as<T, ConstPointer, at>, alignment_of_member<T, at>()), ...);
  }
  (MembersOf<T>{});
}

}  // namespace simgpu
