#include "runtime/checkpoint/resume.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "kernels/base/log.h"
#include "kernels/base/mapped_file.h"
#include "kernels/base/sha256.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/transfer.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// What a rank has to go on from, as it tells the others.
struct Offer {
  std::int64_t step = -1;  ///< -1: nothing
  std::string digest;      ///< of the manifest, and so of all files
  std::vector<std::string> damaged;
  std::string unreadable;  ///< why the newest whole one is of no use to this version
  fs::path folder;         ///< on its own disk

  bool same_as(const Offer& other) const { return step == other.step && digest == other.digest; }
};

Json to_json(const Offer& offer) {
  return {{"step", offer.step},
          {"digest", offer.digest},
          {"damaged", offer.damaged},
          {"unreadable", offer.unreadable}};
}

Offer offer_from(const std::string& text) {
  const Json json = Json::parse(text);
  return {.step = json["step"],
          .digest = json["digest"],
          .damaged = json["damaged"],
          .unreadable = json["unreadable"],
          .folder = {}};
}

/// Folders to try, the newest first: the one that is named, or all of a RUN.
std::vector<fs::path> candidates(const RunPlace& place) {
  const fs::path from = names_a_path(place.resume) ? fs::path(place.resume) : place.run;
  if (step_in(from.filename().string()) || fs::exists(from / "state.json")) {
    return fs::exists(from) ? std::vector{from} : std::vector<fs::path>{};
  }
  std::vector<fs::path> folders;
  const CheckpointShelf shelf(*run_of(from) / "checkpoints");
  for (const std::int64_t step : shelf.steps()) folders.push_back(shelf.place_of(step));
  return folders;
}

void require_whole(const fs::path& checkpoint) {
  if (const std::string damage = damage_of(checkpoint); !damage.empty()) throw DataError(damage);
}

Offer newest_whole(const std::vector<fs::path>& folders) {
  Offer offer;
  for (const fs::path& folder : folders) {
    try {
      require_whole(folder);
      offer.step = read_run_state(folder / "state.json").step;
      offer.digest = Sha256().update(MappedFile(folder / manifest_file).bytes()).hex();
      offer.folder = folder;
      break;
    } catch (const FormatError& error) {
      offer.unreadable = error.what();
      break;
    } catch (const Error& error) {
      offer.damaged.emplace_back(error.what());
    }
  }
  return offer;
}

void warn_of_damage(const std::vector<Offer>& offers) {
  std::set<std::string> said;
  for (const Offer& offer : offers) {
    for (const std::string& damage : offer.damaged) {
      if (said.insert(damage).second) spdlog::warn("a damaged checkpoint is passed over: {}", damage);
    }
  }
}

/// What another version wrote is neither damaged nor to be trained over.
void require_readable(const std::vector<Offer>& offers) {
  for (const Offer& offer : offers) {
    if (!offer.unreadable.empty()) throw DataError(offer.unreadable);
  }
}

[[noreturn]] void throw_nothing_to_resume(const RunPlace& place, const std::vector<Offer>& offers) {
  for (const Offer& offer : offers) {
    if (!offer.damaged.empty()) {
      throw DataError(
          fmt::format("--resume {}: no whole checkpoint: {}", place.resume, offer.damaged.front()));
    }
  }
  throw DataError(
      fmt::format("--resume {}: there is no checkpoint; name a folder RUN/checkpoints/step-N, or "
                  "its RUN",
                  place.resume));
}

/// The holder sends, the ranks that write for a disk without it put it there, the others just listen.
void hand_out(comm::Communicator& communicator, const RunPlace& place, const Offer& wanted, int holder,
              bool has_it) {
  const auto& world = communicator.world();
  if (world.rank == holder) {
    send_checkpoint(communicator, wanted.folder);
  } else if (has_it || !place.keeps) {
    skip_checkpoint(communicator, holder);
  } else {
    CheckpointShelf(place.checkpoints()).add(wanted.step, [&](const fs::path& folder) {
      receive_checkpoint(communicator, holder, folder);
    });
  }
}

}  // namespace

std::optional<ResumePoint> find_resume_point(comm::Communicator& communicator, const RunPlace& place) {
  if (place.resume == "none") return std::nullopt;
  const auto rank = static_cast<std::size_t>(communicator.world().rank);
  Offer mine = newest_whole(candidates(place));
  std::vector<Offer> offers;
  for (const std::string& text : communicator.all_gather(to_json(mine).dump())) {
    offers.push_back(offer_from(text));
  }
  require_readable(offers);
  const auto best = std::ranges::max_element(offers, {}, &Offer::step);
  const bool nothing = best->step < 0;
  if (nothing && names_a_path(place.resume)) throw_nothing_to_resume(place, offers);
  if (rank == 0) warn_of_damage(offers);
  if (nothing) return std::nullopt;

  const bool has_it = mine.same_as(*best);
  if (!std::ranges::all_of(offers, [&](const Offer& offer) { return offer.same_as(*best); })) {
    hand_out(communicator, place, has_it ? mine : *best, static_cast<int>(best - offers.begin()), has_it);
    if (!has_it) mine.folder = CheckpointShelf(place.checkpoints()).place_of(best->step);
    throw_any_problem<DataError>(communicator, has_it ? std::string() : damage_of(mine.folder));
  }
  return ResumePoint{.folder = mine.folder, .state = read_run_state(mine.folder / "state.json")};
}

}  // namespace lockstep::runtime
