#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::runtime {

enum class StopReason : std::uint8_t {
  length,  ///< as many new tokens as were asked for, or as the model has room for
  stop,    ///< the text that ends it
  end      ///< the model's token that ends a text or a translation
};
std::string_view name_of(StopReason reason);

struct Generated {
  std::string text;         ///< behind the prompt, or of the translation
  std::int64_t tokens = 0;  ///< that were chosen for it
  StopReason reason = StopReason::length;
};

/// Writes texts, several at a time, a token of each at a time.
class TextWriter {
 public:
  virtual ~TextWriter() = default;
  /// How many at a time.
  virtual std::int64_t places() const = 0;
  /// A text for the prompt at that place. `number` is the prompt's place among all: its random numbers follow
  /// from it.
  virtual void begin(std::int64_t place, std::int64_t number, std::span<const std::int64_t> prompt) = 0;
  /// Whether a text is not done.
  virtual bool is_active() const = 0;
  /// One token more for each text that is not done.
  virtual void advance() = 0;
  /// What has been written at a place.
  virtual const Generated& result(std::int64_t place) const = 0;
};

}  // namespace lockstep::runtime
