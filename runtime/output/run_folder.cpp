#include "runtime/output/run_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "kernels/base/file.h"

namespace lockstep::runtime {
namespace {

/// Whole lines of steps up to `step`; what a killed run left half written goes too.
std::string lines_up_to(std::int64_t step, const std::filesystem::path& log) {
  std::ifstream file(log);
  std::string kept;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.value("step", step + 1) <= step) kept += line + "\n";
  }
  return kept;
}

std::filesystem::path ready_log(const std::filesystem::path& log, std::optional<std::int64_t> resumed_at) {
  if (resumed_at && std::filesystem::exists(log)) write_file_atomically(log, lines_up_to(*resumed_at, log));
  return log;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

RunFolder::RunFolder(std::filesystem::path path, std::optional<std::int64_t> resumed_at)
    : path_(std::move(path)),
      log_(::open(ready_log(path_ / "log.jsonl", resumed_at).c_str(),
                  O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (log_.get() < 0) {
    throw DeviceError(
        fmt::format("{}: cannot be written: {}", (path_ / "log.jsonl").string(), errno_message(errno)));
  }
}

void RunFolder::write_config(const std::string& ini) const {
  write_file_atomically(path_ / "config.ini", ini);
}

void RunFolder::log_step(const Progress& p) const {
  nlohmann::ordered_json json{{"time", seconds_since_1970()},
                              {"step", p.step},
                              {"epoch", p.epoch},
                              {"loss", p.loss},
                              {"samples_per_s", p.samples_per_s},
                              {"step_ms", p.step_ms},
                              {"exposed_comm_ms", p.exposed_comm_ms},
                              {"data_wait_ms", p.data_wait_ms}};
  if (p.gradient_norm) json["grad_norm"] = *p.gradient_norm;
  append(json.dump());
}

void RunFolder::log_evaluation(std::int64_t step, std::int64_t epoch, const Evaluation& e) const {
  nlohmann::ordered_json json{{"time", seconds_since_1970()}, {"step", step}, {"epoch", epoch}};
  json["eval"] = {{"loss", e.loss}, {"samples", e.samples}};
  if (e.classes) json["eval"]["accuracy"] = e.accuracy;
  append(json.dump());
}

void RunFolder::write_summary(const Summary& summary) const {
  write_file_atomically(path_ / "summary.json", to_json(summary));
}

bool RunFolder::is_finished() const {
  std::ifstream file(path_ / "summary.json");
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && !json.value("stopped", true);
}

void RunFolder::forget_summary() const {
  std::filesystem::remove(path_ / "summary.json");
}

/// One write per line, so that a reader never sees half a line of a run that goes on.
void RunFolder::append(const std::string& line) const {
  const std::string whole = line + "\n";
  const ssize_t written = ::write(log_.get(), whole.data(), whole.size());
  if (written != static_cast<ssize_t>(whole.size())) {
    throw DeviceError(fmt::format("{}: cannot be written: {}; make room and start again",
                                  (path_ / "log.jsonl").string(),
                                  errno_message(written < 0 ? errno : ENOSPC)));
  }
}

}  // namespace lockstep::runtime
