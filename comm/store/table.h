#pragma once

#include <map>
#include <optional>
#include <string>

#include "comm/net/frame.h"

namespace lockstep::comm {

/// The store's keys and values, and what each request does to them. No sockets.
class Table {
 public:
  /// The reply to a request. Type refused when its fields are malformed or it is no request.
  Frame answer(const Frame& request);
  std::optional<std::string> find(const std::string& key) const;

 private:
  Frame set(FieldReader& fields);
  Frame get(FieldReader& fields) const;
  Frame add(FieldReader& fields);
  Frame compare_and_set(FieldReader& fields);
  Frame erase(FieldReader& fields);
  Frame current(const std::string& key) const;

  std::map<std::string, std::string> values_;
};

}  // namespace lockstep::comm
