#include "kernels/base/abi.h"

#include "kernels/base/hash.h"
#include "kernels/base/version.h"

namespace lockstep {

std::string_view AbiIdentity::commit_name() const {
  const std::string_view whole(commit.data(), commit.size());
  return whole.substr(0, whole.find('\0'));
}

AbiIdentity abi_identity(std::string_view border) {
  AbiIdentity identity{.hash = fnv1a(border)};
  lockstep::commit().copy(identity.commit.data(), identity.commit.size());
  return identity;
}

}  // namespace lockstep
