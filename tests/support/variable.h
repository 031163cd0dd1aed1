#pragma once

#include <cstdlib>
#include <string>

namespace lockstep::tests {

/// An environment variable for the programs that a test starts.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

}  // namespace lockstep::tests
