#include "runtime/checkpoint/checkpoint_transfer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "runtime/checkpoint/checkpoint_directory.h"

namespace lockstep::runtime {
namespace {

constexpr std::size_t piece_bytes = std::size_t{4} << 20;

std::vector<const char*> all_files() {
  std::vector<const char*> names(std::begin(checkpoint_files), std::end(checkpoint_files));
  names.push_back(manifest_file);
  return names;
}

/// One file from `sender`: its size, then its bytes piece by piece.
void receive_file(comm::Communicator& communicator, int sender,
                  const std::function<void(std::span<const std::byte>)>& take) {
  std::uint64_t left = 0;
  communicator.broadcast(std::as_writable_bytes(std::span(&left, 1)), sender);
  std::vector<std::byte> piece(std::min<std::uint64_t>(left, piece_bytes));
  while (left > 0) {
    const std::span now = std::span(piece).first(std::min<std::uint64_t>(left, piece.size()));
    communicator.broadcast(now, sender);
    take(now);
    left -= now.size();
  }
}

std::uint64_t bytes_of(const std::filesystem::path& checkpoint) {
  std::uint64_t bytes = 1;
  for (const char* name : all_files()) bytes += std::filesystem::file_size(checkpoint / name);
  return bytes;
}

}  // namespace

void send_checkpoint(comm::Communicator& communicator, const std::filesystem::path& checkpoint,
                     Activity* activity) {
  Activity::Work work(activity, "sending " + checkpoint.string(), Activity::Needs::peers);
  const std::uint64_t whole = bytes_of(checkpoint);
  std::uint64_t sent = 0;
  const int self = communicator.world().rank;
  for (const char* name : all_files()) {
    FileReader file(checkpoint / name);
    std::uint64_t left = file.bytes();
    communicator.broadcast(std::as_writable_bytes(std::span(&left, 1)), self);
    std::vector<std::byte> piece(std::min<std::uint64_t>(left, piece_bytes));
    while (left > 0) {
      const std::span now = std::span(piece).first(std::min<std::uint64_t>(left, piece.size()));
      {
        const Activity::Work reading(activity, fmt::format("reading {}", (checkpoint / name).string()));
        file.read(now);
      }
      communicator.broadcast(now, self);
      left -= now.size();
      work.advance(sent += now.size(), whole);
    }
  }
}

void receive_checkpoint(comm::Communicator& communicator, int sender, const std::filesystem::path& folder,
                        Activity* activity) {
  const Activity::Work work(activity, "receiving a checkpoint", Activity::Needs::peers);
  for (const char* name : all_files()) {
    AtomicFile file(folder / name);
    receive_file(communicator, sender, [&](std::span<const std::byte> piece) {
      const Activity::Work writing(activity, fmt::format("writing {}", (folder / name).string()));
      file.write(piece);
    });
    const Activity::Work flushing(activity, fmt::format("writing {}", (folder / name).string()));
    file.commit();
  }
  const Activity::Work checking(activity, "reading " + folder.string());
  if (const std::string damage = damage_of(folder, activity); !damage.empty()) {
    throw DataError("a checkpoint arrived damaged: " + damage);
  }
}

void copy_checkpoint(const std::filesystem::path& from, const std::filesystem::path& to, Activity* activity) {
  Activity::Work work(activity, fmt::format("copying {} to {}", from.string(), to.string()));
  for (const char* name : all_files()) {
    AtomicFile file(to / name);
    read_in_pieces(from / name, [&](std::span<const std::byte> piece) {
      file.write(piece);
      work.advance();
    });
    file.commit();
  }
}

void skip_checkpoint(comm::Communicator& communicator, int sender) {
  for (std::size_t file = 0; file < all_files().size(); ++file) {
    receive_file(communicator, sender, [](std::span<const std::byte>) {});
  }
}

}  // namespace lockstep::runtime
