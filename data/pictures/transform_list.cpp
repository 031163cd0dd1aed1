#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "data/pictures/transforms.h"
#include "kernels/base/error.h"
#include "kernels/base/number.h"
#include "kernels/base/typed_words.h"

namespace lockstep::data {
namespace {

constexpr Range<std::int64_t> sides{1, 16384};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

int side(std::string_view text) {
  return static_cast<int>(number_in(text, sides));
}

/// "224" or "HxW".
PictureSize parse_size(std::string_view text) {
  const std::size_t x = text.find('x');
  if (x == std::string_view::npos) return {side(text), side(text)};
  return {.width = side(text.substr(x + 1)), .height = side(text.substr(0, x))};
}

TransformStep parse_resize(std::string_view text) {
  if (text.find('x') == std::string_view::npos) return Resize{.shorter = side(text)};
  return Resize{.size = parse_size(text)};
}

std::vector<float> parse_channels(std::string_view text, Range<double> range) {
  std::vector<float> values;
  for (const std::string_view value : split(text, ':'))
    values.push_back(static_cast<float>(number_in(value, range)));
  return values;
}

/// The customary statistics of a data set's pixels.
struct Statistics {
  std::string_view name;
  std::array<float, 3> mean;
  std::array<float, 3> deviation;
};

constexpr std::array known_statistics{
    Statistics{"imagenet", {0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}},
    Statistics{"cifar10", {0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}},
};

TransformStep parse_normalise(std::string_view text) {
  const auto known = std::ranges::find(known_statistics, text, &Statistics::name);
  if (known != known_statistics.end()) {
    return Normalise{.mean = {known->mean.begin(), known->mean.end()},
                     .deviation = {known->deviation.begin(), known->deviation.end()}};
  }
  const auto parts = split(text, '/');
  if (parts.size() != 2) throw UsageError(fmt::format("'{}' is no list of means and deviations", text));
  Normalise step{.mean = parse_channels(parts[0], {-1e6, 1e6}),
                 .deviation = parse_channels(parts[1], {1e-6, 1e6})};
  if (step.mean.size() != step.deviation.size()) throw UsageError("as many deviations as means are needed");
  return step;
}

struct Word {
  std::string_view name;
  std::string_view spelled;
  TransformStep (*parse)(std::string_view argument);
};

constexpr std::array words{
    Word{"resize", "resize=N (the shorter side) or resize=HxW", parse_resize},
    Word{"crop", "crop=N or crop=HxW (the middle)",
         [](std::string_view text) -> TransformStep { return CenterCrop{parse_size(text)}; }},
    Word{"pad-crop", "pad-crop=N (pad N pixels on each side, crop to the former size)",
         [](std::string_view text) -> TransformStep { return PadCrop{side(text)}; }},
    Word{"random-resized-crop", "random-resized-crop=N or random-resized-crop=HxW",
         [](std::string_view text) -> TransformStep { return RandomResizedCrop{parse_size(text)}; }},
    Word{"flip", "flip",
         [](std::string_view text) -> TransformStep {
           if (!text.empty()) throw UsageError("it takes no value");
           return Flip{};
         }},
    Word{"normalise", "normalise=imagenet, normalise=cifar10 or normalise=M:M:M/S:S:S (means/deviations)",
         parse_normalise},
};

const Word& find_word_for(std::string_view typed) {
  const std::string name = folded(typed) == "normalize" ? "normalise" : folded(typed);
  for (const Word& word : words) {
    if (folded(word.name) == name) return word;
  }
  std::vector<std::string> names;
  for (const Word& word : words) names.emplace_back(word.name);
  throw UsageError(unknown_name("transform", typed, names));
}

TransformStep parse_step(std::string_view text) {
  const std::size_t equals = std::min(text.find('='), text.size());
  const Word& word = find_word_for(text.substr(0, equals));
  try {
    return word.parse(text.substr(std::min(equals + 1, text.size())));
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("'{}': {}; it is spelled {}", text, error.what(), word.spelled));
  }
}

std::vector<PixelScale> scales_of(const Normalise& step) {
  std::vector<PixelScale> scales;
  for (std::size_t c = 0; c < step.mean.size(); ++c) scales.emplace_back(step.mean[c], step.deviation[c]);
  return scales;
}

}  // namespace

Transform::Transform(std::string_view list, Decoding decoding) : decoding_(decoding) {
  if (list.empty() || list == "none") return;
  for (const std::string_view text : split(list, ',')) {
    if (!scales_.empty())
      throw UsageError(fmt::format("'{}' stands behind normalise, which is the last", text));
    steps_.push_back(parse_step(text));
    if (const auto* normalise = std::get_if<Normalise>(&steps_.back())) scales_ = scales_of(*normalise);
  }
}

std::optional<PictureSize> Transform::output_size(std::optional<PictureSize> pictures) const {
  std::optional<PictureSize> size = pictures;
  for (const TransformStep& step : steps_) {
    if (const auto* resized = std::get_if<Resize>(&step)) {
      if (resized->shorter == 0)
        size = resized->size;
      else if (size)
        size = resized_size(*resized, *size);
    }
    if (const auto* crop = std::get_if<CenterCrop>(&step)) size = crop->size;
    if (const auto* crop = std::get_if<RandomResizedCrop>(&step)) size = crop->size;
  }
  return size;
}

void Transform::require_channels(int channels) const {
  const std::size_t given = scales_.size();
  if (given <= 1 || given == static_cast<std::size_t>(channels)) return;
  throw UsageError(
      fmt::format("normalise has {} means, the pictures have {} channel{}: give as many, or one for all",
                  given, channels, channels == 1 ? "" : "s"));
}

}  // namespace lockstep::data
