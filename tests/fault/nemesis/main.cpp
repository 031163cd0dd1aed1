// nemesis --rounds N --first-seed S: runs that are killed anywhere, or get errors from calls, and must end
// with the bits of an undisturbed run. A seed is a round, again and again the same.
#include <cstdio>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/number.h"
#include "tests/fault/nemesis/judge.h"

namespace lockstep::nemesis {
namespace {

namespace fs = std::filesystem;

struct Options {
  int rounds = 20;
  std::uint64_t first_seed = 1;
};

Options parse(const std::vector<std::string>& words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const auto value =
        parse_number<std::uint32_t>(i + 1 < words.size() ? std::string_view(words[i + 1]) : "");
    if (words[i] == "--rounds" && value) {
      options.rounds = static_cast<int>(*value);
    } else if (words[i] == "--first-seed" && value) {
      options.first_seed = *value;
    } else {
      throw UsageError("nemesis --rounds N --first-seed S");
    }
  }
  return options;
}

void print(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

class Nemesis {
 public:
  explicit Nemesis(fs::path folder) : folder_(std::move(folder)) { write_pictures(data()); }

  /// False when it found something, and then the round's folder stays.
  bool play(std::uint64_t seed) {
    const Round round = draw_round(seed);
    const std::string hash = undisturbed(round);
    const auto begin = Clock::now();
    const fs::path folder = folder_ / fmt::format("seed-{}", seed);
    Job job(round, folder, data());
    std::vector<std::string> faults;
    int missed = 0;
    bool resumes = false;
    for (const Strike& strike : round.strikes) {
      const Outcome outcome = job.start(&strike, resumes);
      faults = faults_of_struck(round, strike, job, outcome);
      ++strikes_;
      if (!outcome.was_struck) ++missed;
      if (faults.empty() && !resumes && round.lost_disk >= 0) fs::remove_all(job.run_of(round.lost_disk));
      resumes = true;
      if (!faults.empty()) break;
    }
    if (faults.empty()) faults = faults_of_end(round, job, job.start(nullptr, true), hash);
    print(fmt::format("seed {}: {}{} {:.1f} s", seed, round.describe(),
                      missed > 0 ? " (the moment did not come)" : "", Seconds(Clock::now() - begin).count()));
    for (const std::string& fault : faults) print(fmt::format("  FOUND: {}", fault));
    if (faults.empty()) fs::remove_all(folder);
    missed_ += missed;
    return faults.empty();
  }

  int strikes() const { return strikes_; }
  int missed() const { return missed_; }
  /// Then the hook sees little, or nothing, of what runs do. A few strikes tell nothing.
  bool misses_too_often() const { return strikes_ >= 20 && 2 * missed_ > strikes_; }

 private:
  fs::path data() const { return folder_ / "pictures"; }

  /// Of this model on so many ranks, however they lie on hosts.
  const std::string& undisturbed(Round round) {
    const std::string name = fmt::format("{}-{}", round.model, round.ranks);
    std::string& hash = hashes_[name];
    if (!hash.empty()) return hash;
    round.hosts = 1;
    round.own_disks = false;
    Job job(round, folder_ / name, data());
    const Outcome outcome = job.start(nullptr, false);
    hash = hash_in(job.run_of(0));
    if (hash.empty()) throw DeviceError("an undisturbed run failed:\n" + outcome.hosts.front().output);
    return hash;
  }

  fs::path folder_;
  std::map<std::string, std::string> hashes_;
  int strikes_ = 0;
  int missed_ = 0;  ///< strikes whose moment did not come
};

int run(const Options& options) {
  adopt_orphans();
  std::string name = (fs::temp_directory_path() / "nemesis-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw DeviceError("no folder " + name);
  Nemesis nemesis(name);
  std::vector<std::uint64_t> found;
  for (int i = 0; i < options.rounds; ++i) {
    const std::uint64_t seed = options.first_seed + static_cast<std::uint64_t>(i);
    if (!nemesis.play(seed)) found.push_back(seed);
  }
  print(fmt::format("{} rounds, {} with findings, {} strikes, {} whose moment did not come", options.rounds,
                    found.size(), nemesis.strikes(), nemesis.missed()));
  if (nemesis.misses_too_often()) print("more than half of the moments did not come");
  if (!found.empty()) {
    print(fmt::format("seeds {}: see {}", fmt::join(found, ", "), name));
    return 1;
  }
  fs::remove_all(name);
  return nemesis.misses_too_often() ? 1 : 0;
}

}  // namespace
}  // namespace lockstep::nemesis

int main(int argc, char** argv) {
  try {
    return lockstep::nemesis::run(lockstep::nemesis::parse({argv + 1, argv + argc}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nemesis: %s\n", error.what());
    return 2;
  }
}
