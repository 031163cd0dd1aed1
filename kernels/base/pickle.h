#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep {

struct PickleValue;
using PickleItems = std::vector<const PickleValue*>;
using PicklePairs = std::vector<std::pair<const PickleValue*, const PickleValue*>>;

/// None, and whole numbers of more than 64 bits: seeds and states of generators, which nobody here reads.
struct PickleNone {};
/// `bytes` and Python 2's `str`, whose encoding nobody knows.
struct PickleBytes {
  std::string_view contents;
};
struct PickleText {
  std::string_view utf8;
};
/// A list or a set.
struct PickleList {
  PickleItems items;
};
struct PickleTuple {
  PickleItems items;
};
struct PickleDict {
  PicklePairs pairs;
};
/// The name of a class or function, which nobody looks up.
struct PickleGlobal {
  std::string_view module;
  std::string_view name;
};
/// What Python would make by a call, as the call's parts: nothing is called.
struct PickleObject {
  const PickleValue* callable = nullptr;   ///< a global
  const PickleValue* arguments = nullptr;  ///< a tuple
  const PickleValue* state = nullptr;      ///< handed to it afterwards (__setstate__); null for none
  PicklePairs pairs{};                     ///< of a dictionary's subclass, such as OrderedDict
};
/// What the file keeps elsewhere, such as the storages of PyTorch's tensors.
struct PicklePersistent {
  const PickleValue* id = nullptr;
};

struct PickleValue {
  using Content = std::variant<PickleNone, bool, std::int64_t, double, PickleBytes, PickleText, PickleList,
                               PickleTuple, PickleDict, PickleGlobal, PickleObject, PicklePersistent>;
  Content content;
  std::uint64_t offset = 0;  ///< in the file, of the opcode that made it
};

/// The values of a Python pickle (protocols 2 to 5 in binary, as PyTorch, NumPy and torchvision's data sets
/// write it), as data: nothing is imported, called or executed. Only the globals that the caller names may
/// occur. DataError names the file, the offset and the opcode or global that is refused.
///
/// Values live as long as the Pickle, their texts and bytes as long as the file's bytes. A hostile file can
/// make lists that hold themselves and nest without bound: walk them to the depth that you expect.
class Pickle {
 public:
  static constexpr std::size_t most_values = std::size_t{1} << 22;

  /// `globals`: those that may occur, each "module.name". `first_offset`: of `bytes` in the file.
  Pickle(std::string file, std::span<const std::byte> bytes, std::span<const std::string_view> globals,
         std::uint64_t first_offset = 0);

  const PickleValue& root() const { return *root_; }

  /// DataError at the value's offset: "<file>: offset <offset>: <reason>".
  [[noreturn]] void fail(const PickleValue& value, const std::string& reason) const;

  /// `value` as a T; `what` it is, for the error: "the labels are no list".
  template <class T>
  const T& as(const PickleValue& value, std::string_view what) const {
    if (const T* content = std::get_if<T>(&value.content)) return *content;
    fail(value, std::string(what));
  }

 private:
  friend class PickleMachine;

  std::string file_;
  std::deque<PickleValue> values_;
  const PickleValue* root_ = nullptr;
};

/// Of a text or of Python 2's `str`; empty for anything else.
std::string_view text_of(const PickleValue& value);

/// What the text `key` stands for in a dictionary or in an object that is one; null for nothing.
const PickleValue* find(const PickleValue& dictionary, std::string_view key);

/// Whether `value` is an object made by a call of "module.name".
bool is_made_by(const PickleValue& value, std::string_view global);

}  // namespace lockstep
