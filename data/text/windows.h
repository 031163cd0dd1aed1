#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace lockstep::data {

/// Token ids that lie one after the other in memory: unsigned, of 1, 2, 4 or 8 bytes, little-endian, not
/// necessarily aligned.
class TokenSpan {
 public:
  TokenSpan() = default;
  TokenSpan(std::span<const std::byte> bytes, std::size_t width) : bytes_(bytes), width_(width) {}

  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size() / width_); }
  std::size_t width() const { return width_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  TokenSpan part(std::int64_t begin, std::int64_t end) const;
  /// Into `out` its first out.size() tokens.
  void copy_to(std::span<std::int64_t> out) const;
  /// -1 for none; ids of 8 bytes above 2^63 count as the greatest.
  std::int64_t largest() const;
  /// The first that is `least` or greater; size() for none.
  std::int64_t find_at_least(std::int64_t least) const;
  /// Where `token` is.
  std::vector<std::int64_t> positions_of(std::int64_t token) const;

 private:
  std::span<const std::byte> bytes_;
  std::size_t width_ = 1;
};

/// Tokens that windows are cut from: no window crosses from one piece to another.
struct TokenPiece {
  TokenSpan tokens;
  /// Keeps the memory of `tokens`.
  std::shared_ptr<const void> owner;
  /// Where WindowRule::wants_documents(): each is a range of tokens of which all but the last are inputs and
  /// all but the first are targets. In order; neighbours may share a token.
  struct Document {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  std::vector<Document> documents{};
};

/// How training samples are cut from tokens (`--windows`).
struct WindowRule {
  enum class Kind {
    random,     ///< begin anywhere: by Philox from (seed, epoch, sample), so that no two epochs are alike
    each,       ///< one behind the other, each once an epoch
    documents,  ///< the same, but each inside one document
    packed,     ///< whole documents behind each other, none of which sees another (packed_windows.h)
    packed_in_order  ///< the same in the order of the tokens: what is evaluated of packed
  };
  Kind kind = Kind::random;
  std::optional<std::int64_t> boundary{};  ///< documents=ID, packed=ID: the token that parts documents

  /// "random", "each", "documents", "packed", "documents=50256", "packed=50256"; empty: random. UsageError.
  static WindowRule parse(const std::string& text);

  bool packs() const { return kind == Kind::packed || kind == Kind::packed_in_order; }
  bool wants_documents() const { return kind == Kind::documents || packs(); }
  /// For Split::test: windows side by side.
  WindowRule for_evaluation() const {
    return {.kind = packs() ? Kind::packed_in_order : Kind::each, .boundary = boundary};
  }
};

/// What samples are like: inputs are `length` tokens, targets those that follow them. The targets have
/// `spec.target_shape` {length}: one for each token; or {}: what follows the last. UsageError where `rule`
/// packs and a window has one target.
SampleSpec window_spec(std::int64_t length, bool per_token, std::int64_t vocab_size,
                       const WindowRule& rule = {});

/// Windows as samples. The last of a piece, or of a document, may be shorter: its inputs are filled with -1,
/// its targets with -100. Of kind random an epoch is as many windows as fit side by side into the tokens.
/// DataError names `source` where the tokens are too few for one window.
DatasetPtr make_windows(std::vector<TokenPiece> pieces, const WindowRule& rule, const SampleSpec& spec,
                        std::uint64_t seed, const std::string& source);

}  // namespace lockstep::data
