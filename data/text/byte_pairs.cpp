#include "data/text/byte_pairs.h"

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <queue>
#include <unordered_map>

#include <fmt/format.h>

#include "kernels/base/activity.h"
#include "kernels/base/error.h"
#include "kernels/base/hash.h"

namespace lockstep::data {
namespace {

constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t words_between_advances = 1 << 12;

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

template <class Value>
using ByText = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

/// Ids of words that came before.
class WordCache {
 public:
  const std::vector<std::uint32_t>* find(std::string_view word) const {
    const auto found = words_.find(word);
    return found == words_.end() ? nullptr : &found->second;
  }
  void keep(std::string_view word, std::span<const std::uint32_t> ids) {
    constexpr std::size_t longest = 64;
    constexpr std::size_t most = 1 << 17;
    if (word.size() <= longest && words_.size() < most)
      words_.emplace(word, std::vector<std::uint32_t>(ids.begin(), ids.end()));
  }

 private:
  ByText<std::vector<std::uint32_t>> words_;
};

/// Two neighbours that may become one: those of the least rank first, then the leftmost.
struct Candidate {
  std::uint32_t rank;
  std::uint32_t left;  ///< place in the word
  std::uint32_t right;
  std::uint32_t merged;

  bool operator<(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : left > other.left;
  }
};

/// A part of a word on its way to being merged: a list in an array.
struct Part {
  std::uint32_t id;
  std::uint32_t previous;
  std::uint32_t next;
};

class BytePairTokenizer final : public Tokenizer {
 public:
  explicit BytePairTokenizer(BytePairs pairs) : pairs_(std::move(pairs)) {
    std::vector<bool> is_added(pairs_.tokens.size());
    for (const std::uint32_t id : pairs_.added) is_added[id] = true;
    for (std::uint32_t id = 0; id < pairs_.tokens.size(); ++id) {
      if (!pairs_.tokens[id].empty() && !is_added[id]) ids_.emplace(pairs_.tokens[id], id);
    }
    for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
      byte_ids_[byte] = id_of(std::string(1, static_cast<char>(byte)));
      if (byte_ids_[byte] == none) throw UsageError(fmt::format("its vocabulary lacks byte 0x{:02x}", byte));
    }
    merges_.reserve(pairs_.merges.size());
    for (std::uint32_t rank = 0; rank < pairs_.merges.size(); ++rank) {
      const auto [left, right] = pairs_.merges[rank];
      const std::uint32_t merged = id_of(pairs_.tokens[left] + pairs_.tokens[right]);
      if (merged == none)
        throw UsageError(fmt::format("merge {} makes '{}{}', which is no token", rank, pairs_.tokens[left],
                                     pairs_.tokens[right]));
      merges_.emplace(key_of(left, right), Merge{rank, merged});
    }
    std::ranges::stable_sort(pairs_.specials, std::ranges::greater(),
                             [&](std::uint32_t id) { return pairs_.tokens[id].size(); });
    for (const std::uint32_t id : pairs_.specials) begins_special_[first_byte(pairs_.tokens[id])] = true;
  }

  std::int64_t size() const override { return std::ssize(pairs_.tokens); }

  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<std::uint32_t>& ids, Activity* activity) const override {
    // One caller has the cache that lasts; others, at the same time, have one of their own.
    const std::unique_lock lock(mutex_, std::try_to_lock);
    WordCache own;
    WordCache& cache = lock ? cache_ : own;
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::uint32_t special = special_at(text.substr(at));
      if (special == none) {
        ++at;
        continue;
      }
      encode_words(text.substr(begin, at - begin), cache, ids, activity);
      ids.push_back(special);
      begin = at += pairs_.tokens[special].size();
    }
    encode_words(text.substr(begin), cache, ids, activity);
  }

  std::string_view bytes_of(std::int64_t id) const override {
    if (id < 0 || id >= size()) return {};
    return pairs_.tokens[static_cast<std::size_t>(id)];
  }

  TokenizerRules rules() const override {
    Sha256 merges;
    for (const auto& [left, right] : pairs_.merges) merges.update(fmt::format("{} {}\n", left, right));
    std::vector<std::string> whole;  // in no order: the longest at a place is found, whichever came first
    for (const std::uint32_t id : pairs_.specials) {
      const bool is_added = std::ranges::find(pairs_.added, id) != pairs_.added.end();
      whole.push_back(fmt::format("{} {}\n", id, is_added));
    }
    std::ranges::sort(whole);
    Sha256 added;
    for (const std::string& each : whole) added.update(each);
    return {{"word_pattern", pairs_.pattern == WordPattern::gpt2 ? "gpt2" : "llama3"},
            {"merges", merges.hex().substr(0, 16)},
            {"added_tokens", added.hex().substr(0, 16)},
            {"ignore_merges", pairs_.whole_words ? "true" : "false"}};
  }

 private:
  struct Merge {
    std::uint32_t rank;
    std::uint32_t merged;
  };

  static std::uint64_t key_of(std::uint32_t left, std::uint32_t right) {
    return std::uint64_t{left} << 32 | right;
  }
  static std::size_t first_byte(std::string_view text) { return static_cast<unsigned char>(text.front()); }

  std::uint32_t id_of(std::string_view bytes) const {
    const auto found = ids_.find(bytes);
    return found == ids_.end() ? none : found->second;
  }

  std::uint32_t special_at(std::string_view text) const {
    if (!begins_special_[first_byte(text)]) return none;
    for (const std::uint32_t id : pairs_.specials) {
      if (text.starts_with(pairs_.tokens[id])) return id;
    }
    return none;
  }

  void encode_words(std::string_view text, WordCache& cache, std::vector<std::uint32_t>& ids,
                    Activity* activity) const {
    std::vector<std::uint32_t> word_ids;
    for (std::size_t words = 0; !text.empty(); ++words) {
      if (activity != nullptr && words % words_between_advances == 0) activity->advance();
      const std::string_view word = text.substr(0, first_word(text, pairs_.pattern));
      text.remove_prefix(word.size());
      if (const auto* known = cache.find(word)) {
        ids.insert(ids.end(), known->begin(), known->end());
        continue;
      }
      word_ids.clear();
      encode_word(word, word_ids);
      cache.keep(word, word_ids);
      ids.insert(ids.end(), word_ids.begin(), word_ids.end());
    }
  }

  /// O(n log n) for n bytes: each merge takes one candidate from the queue and adds at most two.
  void encode_word(std::string_view word, std::vector<std::uint32_t>& ids) const {
    if (pairs_.whole_words) {
      if (const std::uint32_t id = id_of(word); id != none) return ids.push_back(id);
    }
    std::vector<Part> parts;
    for (const char byte : word) {
      const auto at = static_cast<std::uint32_t>(parts.size());
      parts.push_back({byte_ids_[static_cast<unsigned char>(byte)], at - 1, at + 1});
    }
    const auto count = static_cast<std::uint32_t>(parts.size());
    std::priority_queue<Candidate> queue;
    const auto consider = [&](std::uint32_t left, std::uint32_t right) {
      if (left >= count || right >= count) return;  // before the first, or behind the last
      const auto found = merges_.find(key_of(parts[left].id, parts[right].id));
      if (found != merges_.end()) queue.push({found->second.rank, left, right, found->second.merged});
    };
    for (std::uint32_t i = 0; i + 1 < count; ++i) consider(i, i + 1);
    while (!queue.empty()) {
      const Candidate best = queue.top();
      queue.pop();
      Part& left = parts[best.left];
      // Either of the two may have been merged since.
      if (left.id == none || left.next != best.right) continue;
      const auto now = merges_.find(key_of(left.id, parts[best.right].id));
      if (now == merges_.end() || now->second.merged != best.merged) continue;
      left.id = best.merged;
      left.next = parts[best.right].next;
      parts[best.right].id = none;
      if (left.next < count) parts[left.next].previous = best.left;
      consider(left.previous, best.left);
      consider(best.left, left.next);
    }
    for (std::uint32_t at = 0; at < count; at = parts[at].next) ids.push_back(parts[at].id);
  }

  BytePairs pairs_;
  ByText<std::uint32_t> ids_;
  std::array<std::uint32_t, 256> byte_ids_{};
  std::unordered_map<std::uint64_t, Merge> merges_;
  std::array<bool, 256> begins_special_{};
  mutable std::mutex mutex_;
  mutable WordCache cache_;
};

}  // namespace

TokenizerPtr make_byte_pair_tokenizer(BytePairs pairs) {
  return std::make_shared<BytePairTokenizer>(std::move(pairs));
}

}  // namespace lockstep::data
