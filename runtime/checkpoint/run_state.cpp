#include "runtime/checkpoint/run_state.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/hash.h"
#include "kernels/base/json.h"
#include "kernels/base/number.h"
#include "kernels/base/version.h"
#include "kernels/gradient_norm.h"
#include "runtime/options/table.h"

namespace lockstep::runtime {
namespace {

constexpr int format = 3;

Json to_object(const Settings& settings) {
  Json object = Json::object();
  for (const auto& [name, value] : settings) object[name] = value;
  return object;
}

Settings from_object(const Json& object) {
  Settings settings;
  for (const auto& [name, value] : object.members()) settings.emplace_back(name, value.get<std::string>());
  return settings;
}

std::int64_t count_in(const Json& json, const char* key) {
  const auto count = json.at(key).get<std::int64_t>();
  if (count < 0) throw JsonError(fmt::format("'{}' is {}", key, count));
  return count;
}

Settings::const_iterator find(const Settings& settings, const std::string& name) {
  return std::ranges::find(settings, name, &Settings::value_type::first);
}

/// An option that a checkpoint does not have is younger than it: the run had the default.
std::string default_of(const std::string& setting) {
  const OptionEntry* entry = setting.starts_with("--") ? find_entry(setting.substr(2)) : nullptr;
  return entry == nullptr ? std::string() : entry->show(Options{});
}

std::string value_in(const Settings& settings, const std::string& name) {
  const auto found = find(settings, name);
  const std::string value = found == settings.end() ? default_of(name) : found->second;
  return value.empty() ? "not given" : value;
}

/// A tokenizer may lie elsewhere: what it makes of the text is among the contents of the training set.
bool names_a_place(const std::string& setting) {
  return setting == "--tokenizer";
}

bool may_lack(const std::string& setting) {
  return setting == bytes_setting || setting == files_setting || setting == classes_setting ||
         setting == tokens_setting || setting == tokenizer_setting;
}

/// A rate that ends at the last step depends on which that is.
std::string schedule_length(const Options& options) {
  using Kind = kernels::LearningRateSchedule::Kind;
  const Kind kind = options.optimizer.schedule.kind;
  if (kind != Kind::cosine && kind != Kind::linear) return {};
  return options.max_steps > 0 ? fmt::format("--max-steps {}", options.max_steps)
                               : fmt::format("--epochs {}", options.epochs);
}

/// torch.amp.GradScaler's state_dict.
Json to_object(const GradScalerState& scaler) {
  return {{"scale", scaler.scale},
          {"growth_factor", 2.0},
          {"backoff_factor", 0.5},
          {"growth_interval", kernels::scale_growth_interval},
          {"_growth_tracker", scaler.growth_tracker}};
}

GradScalerState grad_scaler_in(const Json& state) {
  const Json scaler = state["grad_scaler"];
  return {.scale = static_cast<float>(scaler["scale"].get_or(0.0)),
          .growth_tracker = scaler["_growth_tracker"].get_or(0)};
}

std::optional<bool> replayed_in(const Json& state) {
  if (!state.contains("replayed")) return std::nullopt;
  return state.at("replayed").get<bool>();
}

}  // namespace

std::string to_json(const RunState& s) {
  Json json{{"format", format},
            {"version", version()},
            {"time", s.time},
            {"step", s.step},
            {"epoch", s.epoch},
            {"epoch_samples", s.epoch_samples},
            {"dealt_from", s.dealt_from},
            {"samples", s.samples},
            {"applied_updates", s.applied_updates},
            {"loss", s.loss},
            {"evaluated_at_step", s.evaluated_at_step},
            {"settings", to_object(s.settings)},
            {"machine", to_object(s.machine)},
            {"algorithms", s.algorithms}};
  if (s.schedule_steps > 0) json["schedule_steps"] = s.schedule_steps;
  if (s.grad_scaler.scale != 0) json["grad_scaler"] = to_object(s.grad_scaler);
  if (s.replayed) json["replayed"] = *s.replayed;
  return json.dump(2) + "\n";
}

RunState read_run_state(const std::filesystem::path& path) {
  try {
    const Json json = Json::parse(whole_text(path));
    if (json.at("format") != format) {
      throw FormatError(fmt::format(
          "{}: was written by Lockstep {} in format {}; this version reads format {}: go on with that "
          "version, or begin anew in another --run-dir without --resume PATH",
          path.string(), json.at("version").get<std::string>(), json.at("format").dump(), format));
    }
    return {.step = count_in(json, "step"),
            .epoch = count_in(json, "epoch"),
            .epoch_samples = count_in(json, "epoch_samples"),
            .dealt_from = json["dealt_from"].get_or(std::int64_t{0}),
            .samples = count_in(json, "samples"),
            .applied_updates = count_in(json, "applied_updates"),
            .grad_scaler = grad_scaler_in(json),
            .schedule_steps = json["schedule_steps"].get_or(std::int64_t{0}),
            .loss = json.at("loss").get<double>(),
            .evaluated_at_step = json.at("evaluated_at_step").get<std::int64_t>(),
            .time = json.at("time").get<double>(),
            .settings = from_object(json.at("settings")),
            .machine = from_object(json.at("machine")),
            .algorithms = json.at("algorithms").get<SelectedAlgorithms>(),
            .replayed = replayed_in(json)};
  } catch (const JsonError& error) {
    throw DataError(fmt::format("{}: is no state of a run: {}", path.string(), error.what()));
  }
}

Settings settings_of(const Options& options, const comm::World& world, std::int64_t training_samples,
                     const std::string& data_fingerprint) {
  Settings settings{{"ranks", std::to_string(world.size)},
                    {"samples of the training set", std::to_string(training_samples)},
                    {"contents of the training set", data_fingerprint},
                    {"--batch-size", std::to_string(batch_size_per_rank(options, world.size))},
                    {"end of the learning-rate schedule", schedule_length(options)}};
  for (const OptionEntry& entry : option_table()) {
    const bool sizes_a_batch = entry.name == "batch-size" || entry.name == "global-batch";
    if (sizes_a_batch || entry.decides != Decides::numbers) continue;
    settings.emplace_back("--" + entry.name, entry.show(options));
  }
  return settings;
}

Settings machine_of(const kernels::Device& device, std::string_view backend, const std::string& signature) {
  return {{"instruction set", device.instruction_set()},
          {"threads", std::to_string(device.threads())},
          {"backend", std::string(backend)},
          {"exchange signature", Sha256().update(signature).hex().substr(0, 16)}};
}

std::string differences(const Settings& saved, const Settings& now) {
  Settings all = saved;
  for (const auto& setting : now) {
    if (find(saved, setting.first) == saved.end()) all.push_back(setting);
  }
  std::string text;
  for (const auto& [name, unused] : all) {
    if (may_lack(name) && find(saved, name) == saved.end()) continue;
    const std::string before = value_in(saved, name);
    const std::string after = value_in(now, name);
    if (before == after) continue;
    text += fmt::format("{}{} {} (now {})", text.empty() ? "" : ", ", name, before, after);
  }
  return text;
}

std::string course_differences(const RunState& saved, const Settings& settings, const Settings& machine) {
  const auto joined = [](Settings all, const Settings& of_machine) {
    std::erase_if(all, [](const auto& setting) { return names_a_place(setting.first); });
    all.insert(all.end(), of_machine.begin(), of_machine.end());
    return all;
  };
  return differences(joined(saved.settings, saved.machine), joined(settings, machine));
}

int ranks_in(const Settings& settings) {
  return leading_number<int>(value_in(settings, "ranks"));
}

void require_same_settings(const std::filesystem::path& checkpoint, const Settings& saved,
                           const Settings& now, bool asked_for) {
  const bool same_ranks = ranks_in(saved) == ranks_in(now);
  const auto compared = [same_ranks](Settings settings) {
    std::erase_if(settings, [same_ranks](const auto& setting) {
      if (setting.first == "ranks" || names_a_place(setting.first)) return true;
      return !same_ranks && (setting.first == "--batch-size" || setting.first == "--accumulate-steps");
    });
    return settings;
  };
  const std::string text = differences(compared(saved), compared(now));
  if (text.empty()) return;
  throw UsageError(
      fmt::format("{} was made with {}: give the same to go on, or {}", checkpoint.string(), text,
                  asked_for ? "--init-from in the place of --resume to begin anew from its weights"
                            : "another --run-dir to begin anew"));
}

}  // namespace lockstep::runtime
