#pragma once

#include <exception>
#include <new>
#include <string>

#include "kernels/base/error.h"

namespace lockstep {

/// In a catch block around code of a plugin's, or of a person's own program: throws what it threw as an `As`
/// that says `whose` code it was. An Error is for people already, and a lack of memory is nobody's mistake:
/// both go on as they are.
template <class As>
[[noreturn]] void rethrow_as(const std::string& whose) {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw As(whose + ": " + error.what());
  } catch (...) {
    throw As(whose + ": it threw what is no std::exception");
  }
}

}  // namespace lockstep
