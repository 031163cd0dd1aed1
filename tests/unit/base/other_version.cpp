#include "kernels/base/version.h"

namespace lockstep {

std::string_view version() {
  return "0.0.1";
}
std::string_view commit() {
  return "0123456789ab";
}

}  // namespace lockstep
