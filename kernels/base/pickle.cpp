#include "kernels/base/pickle.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/pickle_machine.h"

namespace lockstep {
namespace {

using Machine = PickleMachine;
using Items = PickleItems;

struct Opcode {
  unsigned char byte;
  void (*run)(Machine&);
};

constexpr unsigned char stop = '.';

/// With the names of Python's pickletools.
constexpr std::array opcodes{
    Opcode{'N', [](Machine& m) { m.push(PickleNone{}); }},                              // NONE
    Opcode{0x88, [](Machine& m) { m.push(true); }},                                     // NEWTRUE
    Opcode{0x89, [](Machine& m) { m.push(false); }},                                    // NEWFALSE
    Opcode{'J', [](Machine& m) { m.push(std::int64_t{m.number<std::int32_t>()}); }},    // BININT
    Opcode{'K', [](Machine& m) { m.push(std::int64_t{m.number<std::uint8_t>()}); }},    // BININT1
    Opcode{'M', [](Machine& m) { m.push(std::int64_t{m.number<std::uint16_t>()}); }},   // BININT2
    Opcode{0x8a, [](Machine& m) { m.push(m.long_integer()); }},                         // LONG1
    Opcode{'G', [](Machine& m) { m.push(m.big_endian_double()); }},                     // BINFLOAT
    Opcode{'U', [](Machine& m) { m.push(PickleBytes{m.counted<std::uint8_t>()}); }},    // SHORT_BINSTRING
    Opcode{'T', [](Machine& m) { m.push(PickleBytes{m.counted<std::uint32_t>()}); }},   // BINSTRING
    Opcode{'C', [](Machine& m) { m.push(PickleBytes{m.counted<std::uint8_t>()}); }},    // SHORT_BINBYTES
    Opcode{'B', [](Machine& m) { m.push(PickleBytes{m.counted<std::uint32_t>()}); }},   // BINBYTES
    Opcode{0x8e, [](Machine& m) { m.push(PickleBytes{m.counted<std::uint64_t>()}); }},  // BINBYTES8
    Opcode{0x8c, [](Machine& m) { m.push(PickleText{m.counted<std::uint8_t>()}); }},    // SHORT_BINUNICODE
    Opcode{'X', [](Machine& m) { m.push(PickleText{m.counted<std::uint32_t>()}); }},    // BINUNICODE
    Opcode{0x8d, [](Machine& m) { m.push(PickleText{m.counted<std::uint64_t>()}); }},   // BINUNICODE8

    Opcode{'(', [](Machine& m) { m.mark(); }},                                         // MARK
    Opcode{']', [](Machine& m) { m.push(PickleList{}); }},                             // EMPTY_LIST
    Opcode{'l', [](Machine& m) { m.push(PickleList{m.pop_to_mark()}); }},              // LIST
    Opcode{'a', [](Machine& m) { m.append(m.pop(1)); }},                               // APPEND
    Opcode{'e', [](Machine& m) { m.append(m.pop_to_mark()); }},                        // APPENDS
    Opcode{0x8f, [](Machine& m) { m.push(PickleList{}); }},                            // EMPTY_SET
    Opcode{0x90, [](Machine& m) { m.append(m.pop_to_mark()); }},                       // ADDITEMS
    Opcode{0x91, [](Machine& m) { m.push(PickleList{m.pop_to_mark()}); }},             // FROZENSET
    Opcode{')', [](Machine& m) { m.push(PickleTuple{}); }},                            // EMPTY_TUPLE
    Opcode{'t', [](Machine& m) { m.push(PickleTuple{m.pop_to_mark()}); }},             // TUPLE
    Opcode{0x85, [](Machine& m) { m.push(PickleTuple{m.pop(1)}); }},                   // TUPLE1
    Opcode{0x86, [](Machine& m) { m.push(PickleTuple{m.pop(2)}); }},                   // TUPLE2
    Opcode{0x87, [](Machine& m) { m.push(PickleTuple{m.pop(3)}); }},                   // TUPLE3
    Opcode{'}', [](Machine& m) { m.push(PickleDict{}); }},                             // EMPTY_DICT
    Opcode{'d', [](Machine& m) { m.push(PickleDict{m.pairs_of(m.pop_to_mark())}); }},  // DICT
    Opcode{'s', [](Machine& m) { m.set_items(m.pop(2)); }},                            // SETITEM
    Opcode{'u', [](Machine& m) { m.set_items(m.pop_to_mark()); }},                     // SETITEMS

    Opcode{'c',
           [](Machine& m) {
             const std::string_view module = m.line();
             m.push_global(module, m.line());
           }},  // GLOBAL
    Opcode{0x93,
           [](Machine& m) {
             const Items names = m.pop(2);
             m.push_global(text_of(*names[0]), text_of(*names[1]));
           }},                                                           // STACK_GLOBAL
    Opcode{'R', [](Machine& m) { m.push_call(); }},                      // REDUCE
    Opcode{0x81, [](Machine& m) { m.push_call(); }},                     // NEWOBJ
    Opcode{'b', [](Machine& m) { m.set_state(); }},                      // BUILD
    Opcode{'Q', [](Machine& m) { m.push(PicklePersistent{m.pop()}); }},  // BINPERSID

    Opcode{0x80, [](Machine& m) { m.check_protocol(m.number<std::uint8_t>()); }},  // PROTO
    Opcode{0x95, [](Machine& m) { m.take(8); }},                            // FRAME: how much to read at once
    Opcode{'0', [](Machine& m) { m.pop(); }},                               // POP
    Opcode{'1', [](Machine& m) { m.pop_to_mark(); }},                       // POP_MARK
    Opcode{'2', [](Machine& m) { m.push_again(m.top()); }},                 // DUP
    Opcode{'q', [](Machine& m) { m.memorize(m.number<std::uint8_t>()); }},  // BINPUT
    Opcode{'r', [](Machine& m) { m.memorize(m.number<std::uint32_t>()); }},        // LONG_BINPUT
    Opcode{0x94, [](Machine& m) { m.memorize(); }},                                // MEMOIZE
    Opcode{'h', [](Machine& m) { m.push_from_memo(m.number<std::uint8_t>()); }},   // BINGET
    Opcode{'j', [](Machine& m) { m.push_from_memo(m.number<std::uint32_t>()); }},  // LONG_BINGET
};

const PickleValue* run(Machine machine) {
  while (true) {
    const unsigned char byte = machine.next_opcode();
    if (byte == stop) return machine.pop();
    const auto found = std::ranges::find(opcodes, byte, &Opcode::byte);
    if (found == opcodes.end()) machine.fail(fmt::format("opcode 0x{:02x} is not read", byte));
    found->run(machine);
  }
}

}  // namespace

Pickle::Pickle(std::string file, std::span<const std::byte> bytes, std::span<const std::string_view> globals,
               std::uint64_t first_offset)
    : file_(std::move(file)), root_(run(PickleMachine(*this, bytes, globals, first_offset))) {}

void Pickle::fail(const PickleValue& value, const std::string& reason) const {
  throw DataError(fmt::format("{}: offset {}: {}", file_, value.offset, reason));
}

std::string_view text_of(const PickleValue& value) {
  if (const auto* text = std::get_if<PickleText>(&value.content)) return text->utf8;
  if (const auto* bytes = std::get_if<PickleBytes>(&value.content)) return bytes->contents;
  return {};
}

const PickleValue* find(const PickleValue& dictionary, std::string_view key) {
  const PicklePairs* pairs = nullptr;
  if (const auto* dict = std::get_if<PickleDict>(&dictionary.content)) pairs = &dict->pairs;
  if (const auto* object = std::get_if<PickleObject>(&dictionary.content)) pairs = &object->pairs;
  if (pairs == nullptr) return nullptr;
  const auto found =
      std::ranges::find_if(*pairs, [&](const auto& pair) { return text_of(*pair.first) == key; });
  return found == pairs->end() ? nullptr : found->second;
}

bool is_made_by(const PickleValue& value, std::string_view global) {
  const auto* object = std::get_if<PickleObject>(&value.content);
  return object != nullptr && is_global(std::get<PickleGlobal>(object->callable->content), global);
}

}  // namespace lockstep
