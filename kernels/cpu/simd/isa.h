#pragma once

#include <cstdint>

// LOCKSTEP_ISA names the instruction set for which the including source is being compiled. Such a source uses
// nothing inline from elsewhere but what is always inlined, since the linker keeps a single copy of an inline
// function, whatever its flags.
#ifndef LOCKSTEP_ISA
#error "compile the SIMD kernels through kernels/cpu/CMakeLists.txt, which defines LOCKSTEP_ISA"
#endif
