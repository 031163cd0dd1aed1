#include "comm/mpi/load_module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <string>

#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

constexpr const char* file_name = "liblockstep_mpi.so";

std::array<std::string, 3> places() {
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return {folder / file_name, folder / LOCKSTEP_LIBRARY_FOLDER / file_name, file_name};
}

}  // namespace

const MpiModule& load_mpi_module() {
  std::string answers;
  for (const std::string& place : places()) {
    // Open MPI's plug-ins look for libmpi's symbols among the global ones; nothing of it can be unloaded
    // safely.
    void* const library = dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    if (library == nullptr) {
      answers += fmt::format("; {}", dlerror());
      continue;
    }
    const auto entry = reinterpret_cast<MpiModuleEntry>(dlsym(library, mpi_module_symbol));
    if (entry != nullptr && entry()->layout == mpi_module_layout) return *entry();
    answers += fmt::format("; {}: of another version of Lockstep", place);
  }
  throw DeviceError(
      fmt::format("MPI cannot be loaded: install openmpi-bin, or use --backend host{}", answers));
}

}  // namespace lockstep::comm
