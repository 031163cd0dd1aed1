#include "runtime/checkpoint/transfer.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

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

}  // namespace

void send_checkpoint(comm::Communicator& communicator, const std::filesystem::path& checkpoint) {
  const int self = communicator.world().rank;
  for (const char* name : all_files()) {
    const MappedFile file(checkpoint / name);
    std::uint64_t size = file.bytes().size();
    communicator.broadcast(std::as_writable_bytes(std::span(&size, 1)), self);
    std::vector<std::byte> piece(std::min<std::uint64_t>(size, piece_bytes));
    for (std::size_t at = 0; at < size; at += piece_bytes) {
      const std::size_t count = std::min<std::size_t>(size - at, piece_bytes);
      std::memcpy(piece.data(), file.bytes().data() + at, count);
      communicator.broadcast(std::span(piece).first(count), self);
    }
  }
}

void receive_checkpoint(comm::Communicator& communicator, int sender, const std::filesystem::path& folder) {
  for (const char* name : all_files()) {
    AtomicFile file(folder / name);
    receive_file(communicator, sender, [&](std::span<const std::byte> piece) { file.write(piece); });
    file.commit();
  }
  if (const std::string damage = damage_of(folder); !damage.empty()) {
    throw DataError("a checkpoint arrived damaged: " + damage);
  }
}

void skip_checkpoint(comm::Communicator& communicator, int sender) {
  for (std::size_t file = 0; file < all_files().size(); ++file) {
    receive_file(communicator, sender, [](std::span<const std::byte>) {});
  }
}

}  // namespace lockstep::runtime
