#include "kernels/base/load_module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "kernels/base/error.h"
#include "kernels/base/hash.h"

namespace lockstep {
namespace {

std::array<std::string, 3> places(const std::string& file) {
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return {folder / file, folder / LOCKSTEP_LIBRARY_FOLDER / file, file};
}

}  // namespace

std::string_view AbiIdentity::commit_name() const {
  const std::string_view whole(commit.data(), commit.size());
  return whole.substr(0, whole.find('\0'));
}

AbiIdentity abi_identity(std::string_view commit, std::string_view border) {
  AbiIdentity identity{.hash = fnv1a(border)};
  commit.copy(identity.commit.data(), identity.commit.size());
  return identity;
}

void* load_module_entry(const Module& module) {
  // Vendors' libraries start threads and exit handlers: none of them can be unloaded safely.
  const int flags =
      RTLD_NOW | RTLD_NODELETE | (module.symbols == ModuleSymbols::global ? RTLD_GLOBAL : RTLD_LOCAL);
  std::string answers;
  for (const std::string& place : places(module.file)) {
    void* const library = dlopen(place.c_str(), flags);
    void* const entry = library == nullptr ? nullptr : dlsym(library, module.symbol.c_str());
    if (entry != nullptr) return entry;
    answers += fmt::format("; {}", dlerror());
  }
  throw DeviceError(fmt::format("{} cannot be loaded: {}{}", module.file, module.hint, answers));
}

std::string build_difference(const AbiIdentity& its, const AbiIdentity& ours) {
  if (its == ours) return {};
  const std::string hashes =
      its.commit == ours.commit
          ? fmt::format(", and what crosses between them differs (hashes {:016x} and {:016x})", its.hash,
                        ours.hash)
          : "";
  return fmt::format("was built from commit {}, this program from commit {}{}", its.commit_name(),
                     ours.commit_name(), hashes);
}

void require_same_build(const Module& module, const AbiIdentity& its, const AbiIdentity& ours) {
  const std::string difference = build_difference(its, ours);
  if (difference.empty()) return;
  throw DeviceError(fmt::format("{} {}: install both from one build", module.file, difference));
}

}  // namespace lockstep
