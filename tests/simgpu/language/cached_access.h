#pragma once

// Loads and stores with a hint for the caches, of which there are none here.
#define SIMGPU_LOAD(name)    \
  template <typename T>      \
  T name(const T* address) { \
    return *address;         \
  }
#define SIMGPU_STORE(name)               \
  template <typename T>                  \
  void name(T* address, const T value) { \
    *address = value;                    \
  }
SIMGPU_LOAD(__ldg)
SIMGPU_LOAD(__ldca)
SIMGPU_LOAD(__ldcg)
SIMGPU_LOAD(__ldcs)
SIMGPU_LOAD(__ldcv)
SIMGPU_LOAD(__ldlu)
SIMGPU_STORE(__stcg)
SIMGPU_STORE(__stcs)
SIMGPU_STORE(__stwb)
SIMGPU_STORE(__stwt)
#undef SIMGPU_LOAD
#undef SIMGPU_STORE
