// In place of the installed library's: the linker takes a program's own object first.
#include "kernels/base/version.h"

namespace lockstep {

std::string_view version() {
  return "0.0.1";
}
std::string_view commit() {
  return OTHER_COMMIT;
}

}  // namespace lockstep
