#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::comm {

/// A message of the store's protocol: a header of 12 bytes (magic, version, type, length of the payload;
/// little endian) and the payload.
struct Frame {
  enum class Type : std::uint16_t {
    hello = 1,  ///< opens a connection: see handshake.h for these three
    welcome,
    joined,
    set,       ///< key, value -> done
    get,       ///< key, milliseconds to wait for it -> value or absent
    get_each,  ///< text, first number, last number + 1, milliseconds to wait for all these keys -> value:
               ///< a text for each key that is there, from the first on without a gap
    add,       ///< key, signed number -> value: the sum, in decimal
    compare_and_set,  ///< key, 1 and the expected value (or 0 and "": absent), new value -> value or absent:
                      ///< as before
    claim,    ///< key, text -> absent: the key has that text now, until this client's connection ends,
              ///< whose loss is reported by the first. Or value: somebody else's text
    erase,    ///< key -> done or absent
    watch,    ///< key -> done, then once, as soon as the key is there: changed
    goodbye,  ///< no reply: the connection closes and its client does not count as lost
    done,
    value,  ///< the value
    absent,
    changed,  ///< key, value: of a key that is watched, at any time
    refused,  ///< why; the connection closes
  };
  Type type = Type::hello;
  std::string payload;
};

inline constexpr std::uint16_t store_protocol_version = 4;
inline constexpr std::size_t frame_header_bytes = 12;
inline constexpr std::size_t most_payload_bytes = std::size_t{16} << 20;
/// What a frame of the handshake has at most.
inline constexpr std::size_t most_hello_bytes = 1024;
/// What a client of the store asks for in its handshake.
inline constexpr std::string_view store_purpose = "store";
/// Under which the store says of the last process of the run that came without its secret where that is, and
/// what to do.
inline constexpr const char* without_secret_key = "came without the secret";

std::string encode(const Frame& frame);

/// Cuts a stream of bytes into frames.
class FrameReader {
 public:
  enum class Status { incomplete, complete, malformed };

  void append(std::string_view bytes) { buffer_.append(bytes); }
  /// The next frame, when all of it is there. Malformed: wrong magic or version, unknown type, or a payload
  /// of more than `most_bytes`; the stream is of no further use and `problem` tells why.
  Status next(Frame& frame, std::size_t most_bytes = most_payload_bytes);
  const std::string& problem() const { return problem_; }

  /// How many bytes the next frame still lacks, as far as can be told: reading no more than these never takes
  /// bytes of the frame behind it.
  std::size_t missing_bytes() const;

 private:
  std::string buffer_;
  std::string problem_;
};

/// Writes the fields of a payload, one after the other.
class FieldWriter {
 public:
  FieldWriter& number(std::int64_t value);
  FieldWriter& text(std::string_view value);
  std::string take() { return std::move(payload_); }

 private:
  std::string payload_;
};

/// Reads them back; nothing when the payload is too short.
class FieldReader {
 public:
  explicit FieldReader(std::string_view payload) : rest_(payload) {}
  std::optional<std::int64_t> number();
  std::optional<std::string> text();
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

}  // namespace lockstep::comm
