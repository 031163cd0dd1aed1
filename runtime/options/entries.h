#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/number.h"
#include "runtime/options/table.h"
#include "runtime/options/values.h"

namespace lockstep::runtime {

// Rows of the table of options, by the kind of their value.

template <class Integer>
OptionEntry integer(OptionInfo info, Integer Options::*field, Range<std::int64_t> range) {
  return {std::move(info),
          [field, range](Options& o, const std::string& text) {
            o.*field = static_cast<Integer>(number_in(text, range));
          },
          [field, range](const Options& o) {
            const bool given = static_cast<std::int64_t>(o.*field) >= range.least;
            return given ? std::to_string(o.*field) : std::string();
          },
          std::to_string(range.least), std::to_string(range.most)};
}

/// `field` is a precision, or an optional one: not given that shows as the most exact, which checkpoints from
/// before it were made with. `given_names`: of MatmulPrecision's enumerators, in their order.
template <class Names, class Field>
OptionEntry precision(OptionInfo info, const Names& given_names, Field Options::*field) {
  const std::vector<std::string> names(given_names.begin(), given_names.end());
  return {std::move(info),
          [=](Options& o, const std::string& given) {
            const auto at = std::ranges::find(names, parse_choice(given, names)) - names.begin();
            o.*field = static_cast<kernels::MatmulPrecision>(at);
          },
          [=](const Options& o) {
            const auto shown = std::optional(o.*field).value_or(kernels::MatmulPrecision::highest);
            return names[static_cast<std::size_t>(shown)];
          }};
}

OptionEntry real(OptionInfo info, double Options::*field, Range<double> range);
OptionEntry optimizer_real(OptionInfo info, double model::OptimizerOptions::*field, Range<double> range);
OptionEntry on_off(OptionInfo info, bool Options::*field);
OptionEntry path(OptionInfo info, std::filesystem::path Options::*field);
/// Absolute in config.ini, for a run that is evaluated or repeated from another folder.
OptionEntry place(OptionInfo info, std::filesystem::path Options::*field);
/// `choices`: none for any text.
OptionEntry text(OptionInfo info, std::string Options::*field, std::vector<std::string> choices = {});

/// What `trainer predict` writes on, and how; prompts stand in no config.ini.
std::vector<OptionEntry> generation_entries();

// Rows of one option each.

OptionEntry device_name(OptionInfo info);
OptionEntry backend_name(OptionInfo info);
OptionEntry optimizer_name(OptionInfo info);
OptionEntry optimizer_on_off(OptionInfo info, bool model::OptimizerOptions::*field);
OptionEntry lr_schedule(OptionInfo info);
OptionEntry schedule_real(OptionInfo info, double kernels::LearningRateSchedule::*field, Range<double> range);
OptionEntry schedule_count(OptionInfo info, std::int64_t kernels::LearningRateSchedule::*field,
                           Range<std::int64_t> range);
OptionEntry weight_decay(OptionInfo info, Range<double> range);
OptionEntry weight_decay_for(OptionInfo info);
OptionEntry betas(OptionInfo info);
/// Alone it is auto.
OptionEntry resume(OptionInfo info);
/// 0 shows as not given, which is what checkpoints from before it say.
OptionEntry clip_grad_norm(OptionInfo info, Range<double> range);
OptionEntry clip_grad_value(OptionInfo info, Range<double> range);
OptionEntry label_smoothing(OptionInfo info, Range<double> range);
OptionEntry batch_size(OptionInfo info, Range<std::int64_t> range);
/// 1 shows as not given, which is what checkpoints from before it say.
OptionEntry accumulate_steps(OptionInfo info, Range<std::int64_t> range);
OptionEntry eval_every(OptionInfo info, Range<std::int64_t> range);
/// Of these three the default shows as not given, which is what checkpoints from before them say.
OptionEntry amp(OptionInfo info);
OptionEntry grad_dtype(OptionInfo info);
OptionEntry sync_bn(OptionInfo info);
/// Each time it is given adds to the list, whose files stand between commas in config.ini.
OptionEntry plugins(OptionInfo info);
/// Each time it is given adds to the list.
OptionEntry freeze(OptionInfo info);
/// 5GB, 500MiB, or bytes.
OptionEntry max_shard_size(OptionInfo info);
OptionEntry model_args(OptionInfo info);
OptionEntry image_shape(OptionInfo info);
OptionEntry transforms(OptionInfo info, std::string Options::*field);
OptionEntry port_range(OptionInfo info);

/// Of data sets of text and tokens.
std::vector<OptionEntry> text_data();

}  // namespace lockstep::runtime
