#pragma once

#include <string>

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
  std::string mend;    ///< "install openmpi-bin, or use --backend host"
  ModuleSymbols symbols = ModuleSymbols::own;
};

/// The address of the module's entry. The file is looked for beside the program, in the library folder of the
/// installation and where the system looks; it stays loaded. DeviceError tells what each place answered.
void* load_module_entry(const Module& module);

}  // namespace lockstep
