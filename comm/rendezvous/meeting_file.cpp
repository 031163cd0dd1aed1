#include "comm/rendezvous/meeting_file.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <exception>
#include <system_error>

#include "comm/rendezvous/private_file.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"

namespace lockstep::comm {

MeetingFile::MeetingFile(const std::filesystem::path& run_dir, const MeetingPoint& point)
    : path_(in(run_dir)), text_(to_text(point)) {
  std::error_code error;
  std::filesystem::create_directories(run_dir, error);
  if (error) throw DeviceError(fmt::format("cannot make {}: {}", run_dir.string(), error.message()));
  write_file_atomically(path_, text_, 0600);
}

MeetingFile::~MeetingFile() {
  try {
    if (read_private_file(path_) == text_) std::filesystem::remove(path_);
  } catch (const std::exception& error) {
    spdlog::warn("{} stays: {}", path_.string(), error.what());
  }
}

std::optional<MeetingPoint> MeetingFile::read(const std::filesystem::path& run_dir,
                                              const std::string& run_id) {
  const auto text = read_private_file(in(run_dir));
  auto point = text ? parse_meeting_point(*text) : std::nullopt;
  return point && point->credentials.run_id == run_id ? point : std::nullopt;
}

}  // namespace lockstep::comm
