#include "tests/fault/nemesis/job.h"

#include <algorithm>
#include <csignal>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "kernels/base/file.h"
#include "tests/fault/nemesis/hook.h"
#include "tests/support/files.h"
#include "tests/support/unused_port.h"

namespace lockstep::nemesis {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

/// Far above what a run of a second takes.
constexpr Seconds most_of_a_run{60};
/// A failed run leaves within 2 s (comm/watchdog), a launch after its last rank, on a loaded machine.
constexpr Seconds most_to_end{10};
/// Before the ranks of two hosts have met neither launch knows of the other's end: its operator stops it.
constexpr Seconds operators_patience{3};
constexpr Seconds most_to_vanish{5};

Words options_of(const std::string& model, const fs::path& data) {
  if (model == "mlp") {
    // 3 steps of 8 and a smaller one an epoch on 4 ranks; an evaluation after each.
    return {"--dataset=synthetic", "--samples=30", "--eval-every=1", "--eval-samples=16",
            "--model-args=hidden=16"};
  }
  if (model == "gpt2") {
    return {"--dataset=synthetic",
            "--samples=50",
            "--eval-every=0",
            "--clip-grad-norm=1",
            "--model-args=n_layer=1,n_head=2,n_embd=16,block_size=16,dropout=0.1",
            "--vocab-size=64"};
  }
  return {"--dataset=cifar10",
          "--data-dir=" + data.string(),
          "--transform=pad-crop=4,flip,normalise=cifar10",
          "--accumulate-steps=2",
          "--ema=0.99",
          "--amp=bf16",
          "--eval-every=0",
          "--num-workers=1"};
}

Words variables_of(const Strike& strike, const fs::path& struck, int host) {
  const auto set = [](const char* name, const std::string& value) { return name + ("=" + value); };
  return {"LD_PRELOAD=" NEMESIS_HOOK,
          set(process_variable, strike.process),
          set(call_variable, strike.call),
          set(path_variable, strike.path),
          set(pass_variable, std::to_string(strike.pass)),
          set(count_variable, std::to_string(strike.count)),
          set(act_variable, strike.act),
          set(struck_variable, struck.string()),
          set(host_variable, std::to_string(host))};
}

}  // namespace

Job::Job(const Round& round, fs::path folder, fs::path data)
    : round_(round), folder_(std::move(folder)), data_(std::move(data)), port_(tests::unused_port()) {
  fs::create_directories(temporary_folder());
  for (int host = 0; host < round_.hosts; ++host)
    fs::create_directories(folder_ / fmt::format("host{}", host));
}

fs::path Job::run_of(int host) const {
  return folder_ / fmt::format("host{}", round_.own_disks ? host : 0) / "run";
}

bool Job::trains() const {
  return fs::exists(struck_file() += ".trains");
}

fs::path Job::struck_file() const {
  return folder_ / fmt::format("struck.{}", starts_);
}

Command Job::command(int host, const Strike* strike, bool resumes) const {
  Words words{LAUNCH_PROGRAM, fmt::format("--nproc_per_node={}", round_.ranks_of_host())};
  if (round_.hosts > 1) {
    for (const std::string& word :
         {fmt::format("--nnodes={}", round_.hosts), fmt::format("--node_rank={}", host),
          std::string("--master_addr=127.0.0.1"), fmt::format("--master_port={}", port_)}) {
      words.push_back(word);
    }
  }
  const Words training{TRAINER_PROGRAM,
                       "--plugin=" NEMESIS_PLUGIN,
                       "--model=nemesis_" + round_.model,
                       "--batch-size=2",
                       fmt::format("--max-steps={}", steps),
                       "--checkpoint-every=3",
                       "--keep=2",
                       "--log-every=1",
                       "--threads=1",
                       "--progress=none",
                       "--timeout=30",
                       "--run-dir=" + (round_.own_disks ? std::string("run") : run_of(host).string())};
  words.insert(words.end(), training.begin(), training.end());
  const Words options = options_of(round_.model, data_);
  words.insert(words.end(), options.begin(), options.end());
  if (resumes) words.push_back("--resume=auto");
  Words variables{"LOCKSTEP_TOKEN=the-token-of-nemesis", "TMPDIR=" + temporary_folder().string(),
                  "XDG_CACHE_HOME=" + (folder_ / "cache").string()};
  if (strike != nullptr) {
    const Words more = variables_of(*strike, struck_file(), host);
    variables.insert(variables.end(), more.begin(), more.end());
  }
  return {.words = words,
          .variables = variables,
          .folder = folder_ / fmt::format("host{}", host),
          .output = folder_ / fmt::format("host{}.start{}.log", host, starts_)};
}

Outcome Job::start(const Strike* strike, bool resumes) {
  ++starts_;
  Outcome outcome{.hosts = std::vector<Outcome::Host>(static_cast<std::size_t>(round_.hosts)),
                  .start = fs::file_time_type::clock::now()};
  std::vector<pid_t> launches;
  std::vector<fs::path> outputs;
  for (int host = 0; host < round_.hosts; ++host) {
    const Command command_of_host = command(host, strike, resumes);
    launches.push_back(nemesis::start(command_of_host));
    outputs.push_back(command_of_host.output);
  }
  wait(launches, strike != nullptr, outcome);
  for (std::size_t host = 0; host < outputs.size(); ++host) {
    outcome.hosts[host].output = tests::contents(outputs[host]);
  }
  read_strike(outcome);
  return outcome;
}

void Job::wait(const std::vector<pid_t>& launches, bool is_struck, Outcome& outcome) {
  Ends ends;
  outcome.hung = !ends.wait_for_any(launches, most_of_a_run);
  if (is_struck && !outcome.hung && !ends.wait_for_all(launches, operators_patience) && !trains()) {
    for (std::size_t host = 0; host < launches.size(); ++host) {
      if (ends.has(launches[host])) continue;
      outcome.hosts[host].was_stopped = true;
      ::kill(launches[host], SIGTERM);
    }
  }
  outcome.hung = outcome.hung || !ends.wait_for_all(launches, most_to_end);
  for (std::size_t host = 0; host < launches.size(); ++host) {
    if (ends.has(launches[host])) outcome.hosts[host].code = ends.code(launches[host]);
  }
  if (fs::exists(struck_file())) {
    outcome.was_struck = true;
    const Seconds by_clock = fs::file_time_type::clock::now() - fs::last_write_time(struck_file());
    outcome.time_to_end = std::min(by_clock, ends.waited());
  }
  if (!outcome.hung && ends.wait_for_last(most_to_vanish)) return;
  outcome.left = living_children();
  kill_children();
}

void Job::read_strike(Outcome& outcome) const {
  std::istringstream lines(read_text(struck_file()));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t pid = line.find(" pid ");
    if (pid != std::string::npos) {
      outcome.victims.push_back({.name = line.substr(0, pid), .pid = std::stoi(line.substr(pid + 5))});
    } else if (line.starts_with("after ")) {
      outcome.passes = std::stol(line.substr(6));
    }
  }
}

void write_pictures(const fs::path& folder) {
  constexpr int pictures = 10;
  constexpr int bytes = 3 * 32 * 32;
  fs::create_directories(folder);
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                           "data_batch_5.bin", "test_batch.bin"}) {
    std::string batch;
    for (int picture = 0; picture < pictures; ++picture) {
      batch += static_cast<char>(picture);
      for (int i = 0; i < bytes; ++i) batch += static_cast<char>((picture * 7 + i * 3 + name[11]) % 251);
    }
    tests::write_file(folder / name, batch);
  }
}

}  // namespace lockstep::nemesis
