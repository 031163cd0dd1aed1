#include "comm/net/frame.h"

#include <fmt/format.h>

namespace lockstep::comm {
namespace {

constexpr std::uint32_t frame_magic = 0x31534B4C;  // "LKS1"

void append_little_endian(std::string& to, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) to.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
}

std::uint64_t little_endian(std::string_view from, std::size_t offset, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    value |= std::uint64_t{static_cast<unsigned char>(from[offset + i])} << (8 * i);
  }
  return value;
}

}  // namespace

std::string encode(const Frame& frame) {
  std::string bytes;
  bytes.reserve(frame_header_bytes + frame.payload.size());
  append_little_endian(bytes, frame_magic, 4);
  append_little_endian(bytes, store_protocol_version, 2);
  append_little_endian(bytes, static_cast<std::uint64_t>(frame.type), 2);
  append_little_endian(bytes, frame.payload.size(), 4);
  return bytes + frame.payload;
}

FrameReader::Status FrameReader::next(Frame& frame, std::size_t most_bytes) {
  if (buffer_.size() < frame_header_bytes) return Status::incomplete;
  const std::uint64_t version = little_endian(buffer_, 4, 2);
  const std::uint64_t type = little_endian(buffer_, 6, 2);
  const std::uint64_t length = little_endian(buffer_, 8, 4);
  if (little_endian(buffer_, 0, 4) != frame_magic) {
    problem_ = "not Lockstep's protocol";
  } else if (version != store_protocol_version) {
    problem_ = fmt::format("it runs Lockstep protocol {}, this is {}: use the same version on all nodes",
                           version, store_protocol_version);
  } else if (type < static_cast<std::uint64_t>(Frame::Type::hello) ||
             type > static_cast<std::uint64_t>(Frame::Type::refused)) {
    problem_ = fmt::format("unknown frame type {}", type);
  } else if (length > most_bytes) {
    problem_ = fmt::format("a frame of {} bytes, {} are allowed", length, most_bytes);
  }
  if (!problem_.empty()) return Status::malformed;
  if (buffer_.size() < frame_header_bytes + length) return Status::incomplete;
  frame.type = static_cast<Frame::Type>(type);
  frame.payload = buffer_.substr(frame_header_bytes, length);
  buffer_.erase(0, frame_header_bytes + length);
  return Status::complete;
}

std::size_t FrameReader::missing_bytes() const {
  if (buffer_.size() < frame_header_bytes) return frame_header_bytes - buffer_.size();
  const std::size_t whole = frame_header_bytes + little_endian(buffer_, 8, 4);
  return whole > buffer_.size() ? whole - buffer_.size() : 0;
}

FieldWriter& FieldWriter::number(std::int64_t value) {
  append_little_endian(payload_, static_cast<std::uint64_t>(value), 8);
  return *this;
}

FieldWriter& FieldWriter::text(std::string_view value) {
  append_little_endian(payload_, value.size(), 4);
  payload_.append(value);
  return *this;
}

std::optional<std::int64_t> FieldReader::number() {
  if (rest_.size() < 8) return std::nullopt;
  const auto value = static_cast<std::int64_t>(little_endian(rest_, 0, 8));
  rest_.remove_prefix(8);
  return value;
}

std::optional<std::string> FieldReader::text() {
  if (rest_.size() < 4) return std::nullopt;
  const std::size_t length = little_endian(rest_, 0, 4);
  if (rest_.size() - 4 < length) return std::nullopt;
  std::string value(rest_.substr(4, length));
  rest_.remove_prefix(4 + length);
  return value;
}

}  // namespace lockstep::comm
