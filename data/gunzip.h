#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>

namespace lockstep::data {

/// Inflates a gzip file and hands its contents on, piece by piece in order. DataError with the offset in the
/// compressed file if it is missing, damaged or truncated.
void gunzip(const std::filesystem::path& path, const std::function<void(std::span<const std::byte>)>& sink);

}  // namespace lockstep::data
