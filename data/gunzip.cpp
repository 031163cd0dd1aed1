#include "data/gunzip.h"

#include <zlib.h>

#include <cerrno>
#include <memory>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kPiece = 256 * 1024;

struct Close {
  void operator()(gzFile_s* file) const noexcept { gzclose_r(file); }
};
using GzipFile = std::unique_ptr<gzFile_s, Close>;

GzipFile open(const std::filesystem::path& path) {
  errno = 0;
  GzipFile file(gzopen(path.c_str(), "rbe"));
  if (!file) {
    throw DataError(
        fmt::format("{}: cannot open: {}", path.string(), errno_message(errno != 0 ? errno : ENOMEM)));
  }
  gzbuffer(file.get(), kPiece);
  if (gzdirect(file.get()) != 0)
    throw DataError(fmt::format("{}: offset 0: not in gzip format", path.string()));
  return file;
}

/// zlib's own words carry the path again and say little of a file that merely ends too soon.
void require_sound(const std::filesystem::path& path, gzFile_s* file) {
  int code = Z_OK;
  std::string_view reason = gzerror(file, &code);
  if (code == Z_OK || code == Z_STREAM_END) return;
  if (code == Z_BUF_ERROR) {
    throw DataError(fmt::format("{}: offset {}: the compressed data ends too soon: truncated", path.string(),
                                std::filesystem::file_size(path)));
  }
  const std::size_t colon = reason.rfind(": ");
  if (colon != std::string_view::npos) reason.remove_prefix(colon + 2);
  throw DataError(fmt::format("{}: before offset {}: {}", path.string(), gzoffset(file), reason));
}

}  // namespace

void gunzip(const std::filesystem::path& path, const std::function<void(std::span<const std::byte>)>& sink) {
  const GzipFile file = open(path);
  std::vector<std::byte> piece(kPiece);
  while (true) {
    const int count = gzread(file.get(), piece.data(), static_cast<unsigned>(piece.size()));
    require_sound(path, file.get());
    if (count <= 0) return;
    sink(std::span(piece).first(static_cast<std::size_t>(count)));
  }
}

}  // namespace lockstep::data
