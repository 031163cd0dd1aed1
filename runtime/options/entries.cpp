#include "runtime/options/entries.h"

#include <algorithm>
#include <sstream>
#include <tuple>

#include <fmt/format.h>

#include "data/pictures/transforms.h"
#include "runtime/options/named_kinds.h"
#include "runtime/options/words.h"

namespace lockstep::runtime {
namespace {

/// The neutral value shows as not given.
OptionEntry without_default(OptionEntry entry, std::string Options::*field, const std::string& neutral) {
  entry.show = [field, neutral](const Options& o) { return o.*field == neutral ? std::string() : o.*field; };
  return entry;
}

using ScheduleKind = kernels::LearningRateSchedule::Kind;
constexpr NamedKind<ScheduleKind> schedule_kinds[] = {{ScheduleKind::constant, "constant"},
                                                      {ScheduleKind::step, "step"},
                                                      {ScheduleKind::cosine, "cosine"},
                                                      {ScheduleKind::linear, "linear"}};

}  // namespace

OptionEntry real(OptionInfo info, double Options::*field, Range<double> range) {
  return {std::move(info),
          [field, range](Options& o, const std::string& given) { o.*field = number_in(given, range); },
          [field](const Options& o) { return show_real(o.*field); }, show_real(range.least),
          show_real(range.most)};
}

OptionEntry optimizer_real(OptionInfo info, double model::OptimizerOptions::*field, Range<double> range) {
  return {
      std::move(info),
      [field, range](Options& o, const std::string& given) { o.optimizer.*field = number_in(given, range); },
      [field](const Options& o) { return show_real(o.optimizer.*field); }, show_real(range.least),
      show_real(range.most)};
}

OptionEntry on_off(OptionInfo info, bool Options::*field) {
  return {std::move(info), [field](Options& o, const std::string& given) { o.*field = parse_switch(given); },
          [field](const Options& o) { return std::string(o.*field ? "true" : "false"); }};
}

OptionEntry text(OptionInfo info, std::string Options::*field, std::vector<std::string> choices) {
  return {std::move(info),
          [field, choices = std::move(choices)](Options& o, const std::string& given) {
            o.*field = choices.empty() ? given : parse_choice(given, choices);
          },
          [field](const Options& o) { return o.*field; }};
}

OptionEntry device_name(OptionInfo info) {
  static const std::vector<std::string> names{"auto", "cpu", "cuda"};
  return {std::move(info),
          [](Options& o, const std::string& given) {
            o.device = our_name(given, device_words(), names);
            if (o.device.starts_with("cuda:")) return;
            o.device = parse_choice(o.device, {"auto", "cpu", "cuda", "cuda:N"});
          },
          [](const Options& o) { return o.device; }};
}

OptionEntry backend_name(OptionInfo info) {
  static const std::vector<std::string> names{"auto", "nccl", "host", "mpi"};
  return {std::move(info),
          [](Options& o, const std::string& given) {
            o.backend = parse_choice(our_name(given, backend_words(), names), names);
          },
          [](const Options& o) { return o.backend; }};
}

OptionEntry optimizer_name(OptionInfo info) {
  static const std::vector<std::string> names = names_in(model::optimizer_kinds);
  return {std::move(info),
          [](Options& o, const std::string& given) {
            o.optimizer.kind = kind_called(parse_choice(given, names), model::optimizer_kinds);
          },
          [](const Options& o) { return name_in(model::optimizer_kinds, o.optimizer.kind); }};
}

OptionEntry optimizer_on_off(OptionInfo info, bool model::OptimizerOptions::*field) {
  return {std::move(info),
          [field](Options& o, const std::string& given) { o.optimizer.*field = parse_switch(given); },
          [field](const Options& o) { return std::string(o.optimizer.*field ? "true" : "false"); }};
}

OptionEntry lr_schedule(OptionInfo info) {
  static const std::vector<std::string> names = names_in(schedule_kinds);
  return {std::move(info),
          [](Options& o, const std::string& given) {
            const std::string ours = parse_choice(our_name(given, schedule_words(), names), names);
            o.optimizer.schedule.kind = kind_called(ours, schedule_kinds);
          },
          [](const Options& o) { return name_in(schedule_kinds, o.optimizer.schedule.kind); }};
}

OptionEntry schedule_real(OptionInfo info, double kernels::LearningRateSchedule::*field,
                          Range<double> range) {
  return {std::move(info),
          [field, range](Options& o, const std::string& given) {
            o.optimizer.schedule.*field = number_in(given, range);
          },
          [field](const Options& o) { return show_real(o.optimizer.schedule.*field); },
          show_real(range.least), show_real(range.most)};
}

OptionEntry schedule_count(OptionInfo info, std::int64_t kernels::LearningRateSchedule::*field,
                           Range<std::int64_t> range) {
  return {std::move(info),
          [field, range](Options& o, const std::string& given) {
            o.optimizer.schedule.*field = number_in(given, range);
          },
          [field](const Options& o) { return std::to_string(o.optimizer.schedule.*field); },
          std::to_string(range.least), std::to_string(range.most)};
}

OptionEntry weight_decay(OptionInfo info, Range<double> range) {
  OptionEntry entry = optimizer_real(std::move(info), &model::OptimizerOptions::weight_decay, range);
  entry.set = [set = std::move(entry.set)](Options& o, const std::string& given) {
    set(o, given);
    o.weight_decay_given = true;
  };
  return entry;
}

OptionEntry weight_decay_for(OptionInfo info) {
  return {std::move(info),
          [](Options& o, const std::string& given) {
            o.optimizer.decays_vectors = parse_choice(given, {"all", "matrices"}) == "all";
          },
          [](const Options& o) { return std::string(o.optimizer.decays_vectors ? "all" : "matrices"); }};
}

OptionEntry betas(OptionInfo info) {
  OptionEntry entry{
      std::move(info),
      [](Options& o, const std::string& given) {
        std::tie(o.optimizer.beta1, o.optimizer.beta2) = parse_betas(given);
      },
      [](const Options& o) { return show_real(o.optimizer.beta1) + "," + show_real(o.optimizer.beta2); }};
  entry.is_pair = true;
  return entry;
}

OptionEntry resume(OptionInfo info) {
  OptionEntry entry = text(std::move(info), &Options::resume);
  entry.alone = "auto";
  return entry;
}

OptionEntry clip_grad_norm(OptionInfo info, Range<double> range) {
  OptionEntry entry = real(std::move(info), &Options::clip_grad_norm, range);
  entry.show = [](const Options& o) {
    return o.clip_grad_norm > 0 ? show_real(o.clip_grad_norm) : std::string();
  };
  return entry;
}

OptionEntry clip_grad_value(OptionInfo info, Range<double> range) {
  return {std::move(info),
          [range](Options& o, const std::string& given) {
            const double value = number_in(given, range);
            o.optimizer.clip_value = value > 0 ? value : kernels::not_clipped;
          },
          [](const Options& o) {
            const double value = o.optimizer.clip_value;
            return value == kernels::not_clipped ? std::string() : show_real(value);
          },
          show_real(range.least), show_real(range.most)};
}

OptionEntry label_smoothing(OptionInfo info, Range<double> range) {
  return {std::move(info),
          [range](Options& o, const std::string& given) {
            o.label_smoothing = static_cast<float>(number_in(given, range));
          },
          [](const Options& o) {
            return o.label_smoothing ? fmt::format("{}", *o.label_smoothing) : std::string();
          },
          show_real(range.least), show_real(range.most)};
}

OptionEntry batch_size(OptionInfo info, Range<std::int64_t> range) {
  OptionEntry entry = integer(std::move(info), &Options::batch_size, range);
  entry.set = [set = std::move(entry.set)](Options& o, const std::string& given) {
    if (given == "auto") {
      o.batch_size = automatic_batch;
    } else {
      set(o, given);
    }
  };
  entry.show = [](const Options& o) {
    return o.batch_size == automatic_batch ? std::string("auto") : std::to_string(o.batch_size);
  };
  return entry;
}

OptionEntry accumulate_steps(OptionInfo info, Range<std::int64_t> range) {
  OptionEntry entry = integer(std::move(info), &Options::accumulate_steps, range);
  entry.show = [](const Options& o) {
    return o.accumulate_steps > 1 ? std::to_string(o.accumulate_steps) : std::string();
  };
  return entry;
}

OptionEntry eval_every(OptionInfo info, Range<std::int64_t> range) {
  OptionEntry entry = integer(std::move(info), &Options::eval_every, range);
  entry.set = [set = std::move(entry.set)](Options& o, const std::string& given) {
    set(o, given);
    o.eval_every_given = true;
  };
  return entry;
}

OptionEntry amp(OptionInfo info) {
  OptionEntry entry = without_default(text(std::move(info), &Options::amp, {"off", "bf16", "fp16", "auto"}),
                                      &Options::amp, "off");
  entry.alone = "auto";
  return entry;
}

OptionEntry grad_dtype(OptionInfo info) {
  return without_default(text(std::move(info), &Options::grad_dtype, {"fp32", "bf16"}), &Options::grad_dtype,
                         "fp32");
}

OptionEntry sync_bn(OptionInfo info) {
  OptionEntry entry = on_off(std::move(info), &Options::sync_bn);
  entry.show = [](const Options& o) { return std::string(o.sync_bn ? "true" : ""); };
  return entry;
}

OptionEntry freeze(OptionInfo info) {
  return {std::move(info),
          [](Options& o, const std::string& given) {
            std::istringstream patterns(given);
            for (std::string pattern; std::getline(patterns, pattern, ',');) {
              const bool known = std::ranges::find(o.freeze, pattern) != o.freeze.end();
              if (!pattern.empty() && !known) o.freeze.push_back(pattern);
            }
          },
          [](const Options& o) { return fmt::format("{}", fmt::join(o.freeze, ",")); }};
}

OptionEntry max_shard_size(OptionInfo info) {
  return {std::move(info),
          [](Options& o, const std::string& given) { o.max_shard_bytes = parse_bytes(given); },
          [](const Options& o) {
            return o.max_shard_bytes == 0 ? std::string() : std::to_string(o.max_shard_bytes);
          }};
}

OptionEntry model_args(OptionInfo info) {
  return {std::move(info),
          [](Options& o, const std::string& given) { o.model_args = parse_model_args(given); },
          [](const Options& o) { return show_model_args(o.model_args); }};
}

OptionEntry image_shape(OptionInfo info) {
  return {std::move(info), [](Options& o, const std::string& given) { o.image_shape = parse_shape(given); },
          [](const Options& o) { return o.image_shape.rank() == 0 ? std::string() : o.image_shape.str(); }};
}

OptionEntry transforms(OptionInfo info, std::string Options::*field) {
  return {std::move(info),
          [field](Options& o, const std::string& given) {
            data::Transform{given};  // for its errors
            o.*field = given;
          },
          [field](const Options& o) { return o.*field; }};
}

OptionEntry port_range(OptionInfo info) {
  return {std::move(info),
          [](Options& o, const std::string& given) {
            std::tie(o.first_port, o.last_port) = parse_port_range(given);
          },
          [](const Options& o) {
            return o.first_port == 0 ? std::string() : fmt::format("{}-{}", o.first_port, o.last_port);
          }};
}

}  // namespace lockstep::runtime
