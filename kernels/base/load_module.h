#pragma once

#include <string>

#include "kernels/base/abi.h"

namespace lockstep {

/// How far a module's symbols, and those of the libraries that it brings, are seen.
enum class ModuleSymbols {
  own,     ///< by the module alone
  global,  ///< by plug-ins that are loaded later, as Open MPI's need
};

/// A vendor's library reaches a program through a module of ours, which is loaded only when it is chosen.
struct Module {
  std::string file;    ///< "liblockstep_mpi.so"
  std::string symbol;  ///< the entry's name
  std::string hint;    ///< "install openmpi-bin, or use --backend host"
  ModuleSymbols symbols = ModuleSymbols::own;
};

/// The address of the module's entry. The file is looked for beside the program, in the library folder of the
/// installation and where the system looks; it stays loaded. DeviceError tells what each place answered.
void* load_module_entry(const Module& module);

/// "was built from commit A, this program from commit B", with both hashes if the commits are equal; empty if
/// nothing differs.
std::string build_difference(const AbiIdentity& its, const AbiIdentity& ours);

/// DeviceError naming both commits unless the module was built from what the program was built from.
void require_same_build(const Module& module, const AbiIdentity& its, const AbiIdentity& ours);

/// What the entry, a `const Table* (*)()`, gives. A table begins with the module's AbiIdentity, which must
/// equal `ours`.
template <class Table>
const Table& load_module_table(const Module& module, const AbiIdentity& ours) {
  const auto entry = reinterpret_cast<const Table* (*)()>(load_module_entry(module));
  require_same_build(module, entry()->identity, ours);
  return *entry();
}

}  // namespace lockstep
