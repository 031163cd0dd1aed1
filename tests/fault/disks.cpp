// RUN on several disks of which some are harmed: what the run goes on from, or the line that it ends with.
// All matrices come from one table of harms. Each disk is a folder in which its ranks run, RUN a relative
// name.
#include <sys/mount.h>
#include <sys/statvfs.h>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "tests/fault/nemesis/hook.h"
#include "tests/fault/resume_runs.h"
#include "tests/support/child_process.h"
#include "tests/support/skip.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

/// The run was to go on after step 6; each disk has the checkpoints of steps 2, 4 and 6 then.
constexpr int last_step = 12;
constexpr int none = 0;

struct Harm {
  const char* name;
  int newest;        ///< the newest step that the disk still has whole
  int code;          ///< with which a run on such a disk ends, however others are
  const char* said;  ///< beside what it goes on from
};

constexpr Harm whole{"whole", 6, 0, ""};
constexpr Harm harms[]{
    {"lost", none, 0, ""},
    {"one behind", 4, 0, ""},
    {"one ahead", 8, 0, ""},
    {"newest damaged", 4, 0, "step-00000006/model.safetensors has 1000 bytes"},
    {"newest unreadable", 4, 0, "step-00000006/model.safetensors: cannot read: Input/output error"},
    {"all damaged", none, 0, "step-00000002/optimizer.safetensors does not have the SHA-256 of its manifest"},
    {"read-only", 6, 4, ": cannot be written: Read-only file system; name another --run-dir"},
    {"full at 0 KiB", 6, 4, ": No space left on device"},
    {"full at 4 KiB", 6, 4, ": No space left on device"},
    {"full at 56 KiB", 6, 4, ": No space left on device"},
    {"full at 148 KiB", 6, 4, ": No space left on device"},
};

const Harm& harm_named(std::string_view name) {
  const auto* const found = std::ranges::find(harms, name, [](const Harm& harm) { return harm.name; });
  return found == std::end(harms) ? whole : *found;
}

/// Ranks on disks: "011" is rank 0 on disk 0, the others on disk 1.
constexpr const char* placements[]{"0", "00", "000", "01", "011", "001", "012"};

int disks_in(const std::string& placement) {
  return placement.back() - '0' + 1;
}

void write_links(const fs::path& folder, const std::string& placement) {
  for (std::size_t rank = 0; rank < placement.size(); ++rank) {
    fs::create_directories(folder / placement.substr(rank, 1));
    fs::create_directory_symlink(placement.substr(rank, 1), folder / fmt::format("rank{}", rank));
  }
}

Words on_disks(const fs::path& folder, const std::string& placement, const Words& more) {
  const std::string enter = fmt::format("cd {}/rank$RANK && exec \"$0\" \"$@\"", folder.string());
  return Words{LAUNCH_PROGRAM,
               fmt::format("--nproc_per_node={}", placement.size()),
               "/bin/sh",
               "-c",
               enter,
               TRAINER_PROGRAM,
               "--model=mlp",
               "--model-args=hidden=16",
               "--dataset=synthetic",
               "--samples=46",  // an epoch ends within 12 steps however many ranks
               "--batch-size=4",
               "--eval-every=0",
               "--threads=1",
               "--log-every=1",
               "--checkpoint-every=2",
               "--progress=plain",
               "--timeout=10",
               "--run-dir=run"} +
         more;
}

/// What disks hold after 8 steps, and the weights after 12, of runs that nothing disturbs; made once.
struct Trained {
  explicit Trained(const std::string& placement) {
    write_links(folder.path(), placement);
    hash_of(on_disks(folder.path(), placement, {"--max-steps=8", "--keep=0"}), folder / "0/run");
    const TemporaryFolder other;
    write_links(other.path(), placement);
    hash = hash_of(on_disks(other.path(), placement, {fmt::format("--max-steps={}", last_step)}),
                   other / "0/run");
  }
  TemporaryFolder folder;
  std::string hash;
};

const Trained& trained_on(const std::string& placement) {
  static std::map<std::string, Trained> all;
  return all.try_emplace(placement, placement).first->second;
}

/// A file system over a folder, in this process's own mounts.
class Disk {
 public:
  explicit Disk(fs::path folder) : folder_(std::move(folder)) { mount("size=16m", 0); }
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;
  ~Disk() { ::umount2(folder_.c_str(), MNT_DETACH); }

  void make_read_only() { mount("size=16m", MS_REMOUNT | MS_RDONLY); }
  void leave(std::uint64_t bytes) {
    struct statvfs now {};
    REQUIRE(::statvfs(folder_.c_str(), &now) == 0);
    mount(fmt::format("size={}", (now.f_blocks - now.f_bfree) * now.f_bsize + bytes), MS_REMOUNT);
  }
  void heal() { mount("size=16m", MS_REMOUNT); }

 private:
  void mount(const std::string& size, unsigned long flags) {
    REQUIRE(::mount("tmpfs", folder_.c_str(), "tmpfs", flags, size.c_str()) == 0);
  }
  fs::path folder_;
};

void damage(const fs::path& file) {
  std::string bytes = contents(file);
  bytes[bytes.size() / 2] ^= 1;
  write_file(file, bytes);
}

void apply(const std::string& harm, const fs::path& run_dir, Disk& disk) {
  const auto checkpoint = [&](int step) { return directory_of(run_dir).path_of(step); };
  if (harm != "one ahead") fs::remove_all(checkpoint(8));
  if (harm == "lost") fs::remove_all(run_dir);
  if (harm == "one behind") fs::remove_all(checkpoint(6));
  if (harm == "newest damaged") fs::resize_file(checkpoint(6) / "model.safetensors", 1000);
  if (harm == "all damaged")
    for (const int step : {2, 4, 6}) damage(checkpoint(step) / "optimizer.safetensors");
  if (harm == "read-only") disk.make_read_only();
  if (harm.starts_with("full at ")) disk.leave(std::stoul(harm.substr(8)) << 10);
}

/// The hook gives one error in the rank that reads this disk.
Words reading_fails_for(std::size_t rank, const fs::path& struck, const Words& words) {
  const auto set = [](const char* name, const std::string& value) { return name + ("=" + value); };
  return Words{"/usr/bin/env",
               "LD_PRELOAD=" NEMESIS_HOOK,
               set(nemesis::process_variable, fmt::format("rank {}", rank)),
               set(nemesis::call_variable, "read"),
               set(nemesis::path_variable, "step-00000006/model.safetensors"),
               set(nemesis::count_variable, "1"),
               set(nemesis::act_variable, "EIO"),
               set(nemesis::struck_variable, struck.string())} +
         words;
}

/// Runs on disks with these harms, then once more when all are healed.
void check(const std::string& placement, const std::vector<std::string>& harm_of_disk) {
  CAPTURE(placement, harm_of_disk);
  const TemporaryFolder folder;
  write_links(folder.path(), placement);
  std::vector<std::unique_ptr<Disk>> disks;
  int newest = none;
  int code = 0;
  Words words = on_disks(folder.path(), placement,
                         {fmt::format("--max-steps={}", last_step), "--keep=2", "--resume=auto"});
  const Words resumed = words;
  std::vector<std::string> said;
  for (std::size_t i = 0; i < harm_of_disk.size(); ++i) {
    const Harm& harm = harm_named(harm_of_disk[i]);
    const std::string name = std::to_string(i);
    disks.push_back(std::make_unique<Disk>(folder / name));
    fs::copy(trained_on(placement).folder / name / "run", folder / name / "run",
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    fs::remove(folder / name / "run/summary.json");  // a finished one would not be begun once more
    apply(harm.name, folder / name / "run", *disks.back());
    newest = std::max(newest, harm.newest);
    code = std::max(code, harm.code);
    if (harm.code == 0) said.emplace_back(harm.said);
    const std::size_t reader = placement.find(name);
    if (harm.code != 0) {
      const bool has_peers = placement.size() > 1;
      said.push_back(has_peers ? fmt::format("rank {}: error: run", reader) : "error: run");
      said.emplace_back(harm.said);
    }
    if (harm_of_disk[i] == "newest unreadable") words = reading_fails_for(reader, folder / "struck", words);
  }
  if (code == 0) {
    said.push_back(newest == none ? "no checkpoint in run: begins at the beginning"
                                  : fmt::format("goes on after step {}", newest));
  }
  Program run(words);
  const int ended_with = run.wait_for_end(Seconds(13 * slowness));  // --timeout and 3 s
  INFO(run.output());
  CHECK(ended_with == code);
  for (const std::string& text : said) CHECK_THAT(run.output(), contains(text));
  for (const auto& disk : disks) disk->heal();
  if (code != 0) hash_of(resumed, folder / "0/run");
  CHECK(hash_in(folder / "0/run") == trained_on(placement).hash);
  for (int disk = 0; disk < disks_in(placement); ++disk) {
    const fs::path run_dir = folder / std::to_string(disk) / "run";
    CHECK(directory_of(run_dir).steps() == std::vector<std::int64_t>{12, 10});
    for (const int step : {10, 12}) CHECK(runtime::damage_of(directory_of(run_dir).path_of(step)).empty());
    CHECK_FALSE(fs::exists(run_dir / "failure.json"));
  }
}

bool may_mount() {
  static const bool allowed = have_own_mounts();
  if (!allowed) skip("a mount namespace of one's own needs root");
  return allowed;
}

std::vector<std::string> only(const std::string& placement, int disk, const char* harm) {
  std::vector<std::string> all(static_cast<std::size_t>(disks_in(placement)), whole.name);
  all[static_cast<std::size_t>(disk)] = harm;
  return all;
}

TEST_CASE("of two disks one is harmed: the newest whole checkpoint wins, or one line names disk and rank") {
  if (!may_mount()) return;
  int disk = 0;
  for (const Harm& harm : harms) check("01", only("01", disk++ % 2, harm.name));
}

TEST_CASE("on one disk, two or three, of 1 to 3 ranks, each is harmed in each way", "[.matrix]") {
  if (!may_mount()) return;
  for (const std::string placement : placements) {
    for (int disk = 0; disk < disks_in(placement); ++disk) {
      for (const Harm& harm : harms) check(placement, only(placement, disk, harm.name));
    }
  }
}

TEST_CASE("two disks, both harmed", "[.matrix]") {
  if (!may_mount()) return;
  for (const Harm& first : harms) {
    for (const Harm& second : harms) {
      const bool is_named_twice = std::string_view(first.name) == second.name;  // the hook strikes once
      if (first.code == 0 && second.code == 0 && !is_named_twice) check("01", {first.name, second.name});
    }
  }
}

}  // namespace
}  // namespace lockstep::tests
