#pragma once

#include <string>

namespace lockstep::tests {

/// The message of the `Expected` error that `action` throws; "" if it throws none, others pass.
template <class Expected, class Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const Expected& error) {
    return error.what();
  }
  return "";
}

}  // namespace lockstep::tests
