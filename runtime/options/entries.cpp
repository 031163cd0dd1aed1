#include "runtime/options/entries.h"

#include <algorithm>
#include <sstream>
#include <tuple>

#include <fmt/format.h>

#include "runtime/options/words.h"

namespace lockstep::runtime {

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

OptionEntry path(OptionInfo info, std::filesystem::path Options::*field) {
  return {std::move(info), [field](Options& o, const std::string& given) { o.*field = given; },
          [field](const Options& o) { return (o.*field).string(); }};
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
  static const std::vector<std::string> names{"sgd", "adam", "adamw"};
  return {std::move(info),
          [](Options& o, const std::string& given) {
            const auto at = std::ranges::find(names, parse_choice(given, names)) - names.begin();
            o.optimizer.kind = static_cast<model::OptimizerKind>(at);
          },
          [](const Options& o) { return names[static_cast<std::size_t>(o.optimizer.kind)]; }};
}

OptionEntry nesterov(OptionInfo info) {
  return {std::move(info),
          [](Options& o, const std::string& given) { o.optimizer.nesterov = parse_switch(given); },
          [](const Options& o) { return std::string(o.optimizer.nesterov ? "true" : "false"); }};
}

OptionEntry weight_decay(OptionInfo info, Range<double> range) {
  OptionEntry entry = optimizer_real(std::move(info), &model::OptimizerOptions::weight_decay, range);
  entry.set = [set = std::move(entry.set)](Options& o, const std::string& given) {
    set(o, given);
    o.weight_decay_given = true;
  };
  return entry;
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

OptionEntry eval_every(OptionInfo info, Range<std::int64_t> range) {
  OptionEntry entry = integer(std::move(info), &Options::eval_every, range);
  entry.set = [set = std::move(entry.set)](Options& o, const std::string& given) {
    set(o, given);
    o.eval_every_given = true;
  };
  return entry;
}

OptionEntry matmul_precision(OptionInfo info) {
  static const std::vector<std::string> names(kernels::matmul_precision_names.begin(),
                                              kernels::matmul_precision_names.end());
  return {std::move(info),
          [](Options& o, const std::string& given) {
            const auto at = std::ranges::find(names, parse_choice(given, names)) - names.begin();
            o.matmul_precision = static_cast<kernels::MatmulPrecision>(at);
          },
          [](const Options& o) { return std::string(name_of(o.matmul_precision)); }};
}

OptionEntry plugins(OptionInfo info) {
  return {std::move(info),
          [](Options& o, const std::string& given) {
            std::istringstream files(given);
            for (std::string file; std::getline(files, file, ',');) {
              if (std::ranges::find(o.plugins, std::filesystem::path(file)) == o.plugins.end())
                o.plugins.emplace_back(file);
            }
          },
          [](const Options& o) {
            std::string files;
            for (const auto& file : o.plugins) files += (files.empty() ? "" : ",") + file.string();
            return files;
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
