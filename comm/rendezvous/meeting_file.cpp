#include "comm/rendezvous/meeting_file.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <system_error>

#include "comm/rendezvous/run_secret.h"
#include "kernels/base/activity.h"
#include "kernels/base/error.h"
#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/number.h"
#include "kernels/base/random.h"

namespace lockstep::comm {
namespace {

/// Nothing can interrupt the kernel's wait for a disk that does not answer.
template <class Call>
auto with_disk(const std::filesystem::path& path, Seconds timeout, Call call) {
  const auto leave = [timeout](const std::string& what) {
    log::error("{} does not answer for {:g} s (--timeout); is a disk stuck?", what, timeout.count());
    std::_Exit(static_cast<int>(ExitCode::device));
  };
  return in_time(timeout, path.string(), leave, call);
}

}  // namespace

std::string to_text(const MeetingPoint& point) {
  const auto& [run_id, secret, incarnation] = point.credentials;
  return fmt::format("{}\n{}\n{}\n{}\n{}\n", point.address, point.port, run_id, secret, incarnation);
}

std::optional<MeetingPoint> parse_meeting_point(std::string_view text) {
  std::array<std::string_view, 5> lines;
  for (std::string_view& line : lines) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    line = text.substr(0, end);
    text.remove_prefix(end + 1);
  }
  const auto port = parse_number<int>(lines[1]);
  const auto incarnation = parse_number<std::uint64_t>(lines[4]);
  if (!text.empty() || lines[0].empty() || !port || *port < 1 || *port > 65535 || !incarnation)
    return std::nullopt;
  return MeetingPoint{
      std::string(lines[0]), *port, {std::string(lines[2]), std::string(lines[3]), *incarnation}};
}

MeetingFile::MeetingFile(const std::filesystem::path& run_dir, const MeetingPoint& point, Seconds timeout,
                         const std::function<void(const MeetingPoint&)>& inspect)
    : path_(in(run_dir)), timeout_(timeout), text_(to_text(point)) {
  with_disk(path_, timeout, [&] { replace(inspect); });
}

void MeetingFile::replace(const std::function<void(const MeetingPoint&)>& inspect) const {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(path_.parent_path(), error);
  if (error)
    throw DeviceError(fmt::format("cannot make {}: {}", path_.parent_path().string(), error.message()));
  const fs::path draft = path_.string() + "." + random_hex(8);
  write_file_atomically(draft, text_, 0600);
  try {
    while (!publish(draft)) replace_old(draft.string() + ".old", inspect);
  } catch (...) {
    fs::remove(draft, error);
    throw;
  }
  fs::remove(draft, error);
}

bool MeetingFile::publish(const std::filesystem::path& draft) const {
  std::error_code error;
  std::filesystem::create_hard_link(draft, path_, error);
  // NFS may send a request again that it has carried out.
  if (error == std::errc::file_exists) return read_private_file(path_) == text_;
  if (error) std::filesystem::rename(draft, path_);  // a disk that knows no links
  return true;
}

/// Of several starts that move the file, one gets it.
void MeetingFile::replace_old(const std::filesystem::path& aside,
                              const std::function<void(const MeetingPoint&)>& inspect) const {
  const auto text = read_private_file(path_);
  const auto old = text ? parse_meeting_point(*text) : std::nullopt;
  if (inspect && old) inspect(*old);
  std::error_code error;
  std::filesystem::rename(path_, aside, error);
  if (error == std::errc::no_such_file_or_directory) return;
  if (error) throw DeviceError(fmt::format("cannot replace {}: {}", path_.string(), error.message()));
  if (read_private_file(aside) != text) std::filesystem::create_hard_link(aside, path_, error);
  std::filesystem::remove(aside, error);
}

MeetingFile::~MeetingFile() {
  try {
    with_disk(path_, timeout_, [this] {
      if (read_private_file(path_) == text_) std::filesystem::remove(path_);
    });
  } catch (const std::exception& error) {
    log::warn("{} stays: {}", path_.string(), error.what());
  }
}

std::optional<MeetingPoint> MeetingFile::read(const std::filesystem::path& run_dir, Seconds timeout) {
  const auto text = with_disk(in(run_dir), timeout, [&] { return read_private_file(in(run_dir)); });
  return text ? parse_meeting_point(*text) : std::nullopt;
}

}  // namespace lockstep::comm
