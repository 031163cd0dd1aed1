#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace lockstep::data {

struct PictureSize {
  int width = 0;
  int height = 0;
  bool operator==(const PictureSize&) const = default;
};

/// Of pixels; may reach beyond the picture where that is said.
struct Rectangle {
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;

  PictureSize size() const { return {width, height}; }
  bool operator==(const Rectangle&) const = default;
};

/// Pixels of 8 bits in memory, channels innermost (HWC); rows may lie apart.
struct PictureView {
  const std::uint8_t* pixels = nullptr;
  PictureSize size{};
  int channels = 0;
  std::ptrdiff_t row_bytes = 0;

  const std::uint8_t* row(int y) const { return pixels + y * row_bytes; }
  PictureView part(const Rectangle& of) const {
    return {row(of.top) + of.left * channels, of.size(), channels, row_bytes};
  }
};

/// Pixels that somebody owns.
class Picture {
 public:
  Picture() = default;
  Picture(PictureSize size, int channels)
      : size_(size),
        channels_(channels),
        pixels_(std::make_unique_for_overwrite<std::uint8_t[]>(static_cast<std::size_t>(size.width) *
                                                               static_cast<std::size_t>(size.height) *
                                                               static_cast<std::size_t>(channels))) {}

  std::ptrdiff_t row_bytes() const { return std::ptrdiff_t{size_.width} * channels_; }
  std::uint8_t* row(int y) { return pixels_.get() + y * row_bytes(); }
  PictureView view() const { return {pixels_.get(), size_, channels_, row_bytes()}; }

 private:
  PictureSize size_{};
  int channels_ = 0;
  std::unique_ptr<std::uint8_t[]> pixels_;
};

/// Gives rows of pixels in order, as they are decoded.
class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual void next_row(std::uint8_t* to) = 0;
};

/// A part of a picture as it was read: reduced where that sufficed.
struct PicturePart {
  Picture owned{};            ///< what `view` shows, unless that is the data set's own
  PictureView view{};         ///< holds the part, and maybe more
  RowSource* rows = nullptr;  ///< gives the view's rows, once, where it has no pixels yet
  double left = 0;            ///< of the part in `view`, in its pixels
  double top = 0;
  double width = 0;
  double height = 0;
};

/// One picture of a set, read as far as it is needed. Used by one thread.
class PictureReader {
 public:
  virtual ~PictureReader() = default;
  virtual std::string name() const = 0;  ///< for errors
  virtual PictureSize size() const = 0;
  /// `part`, which lies within the picture: as it is, with nothing around it, or where `least` is smaller
  /// reduced, but not below `least`. DataError names the file.
  virtual PicturePart read(const Rectangle& part, PictureSize least) = 0;
  /// The same, but its rows may be yet to come from the reader, so that they are used while caches hold them.
  virtual PicturePart begin_read(const Rectangle& part, PictureSize least) { return read(part, least); }
};

/// A picture that lies in memory as it is.
class PictureInMemory final : public PictureReader {
 public:
  explicit PictureInMemory(const PictureView& view) : view_(view) {}
  explicit PictureInMemory(Picture owned) : owned_(std::move(owned)), view_(owned_.view()) {}
  std::string name() const override { return "a picture in memory"; }
  PictureSize size() const override { return view_.size; }
  PicturePart read(const Rectangle& part, PictureSize) override {
    return {.view = view_.part(part),
            .width = static_cast<double>(part.width),
            .height = static_cast<double>(part.height)};
  }

 private:
  Picture owned_;
  PictureView view_;
};

/// What the pictures of a set are before any transform.
struct PictureKind {
  int channels = 3;
  std::optional<PictureSize> size{};  ///< if all have the same
};

/// Pictures with their classes, as files hold them. Called from several threads at once.
class PictureSet {
 public:
  virtual ~PictureSet() = default;
  virtual std::int64_t size() const = 0;
  virtual int channels() const = 0;
  virtual std::int64_t num_classes() const = 0;
  virtual std::optional<PictureSize> picture_size() const { return std::nullopt; }  ///< if all have the same
  virtual std::int64_t label(std::int64_t index) const = 0;
  /// DataError where the picture's file cannot be read.
  virtual std::unique_ptr<PictureReader> open(std::int64_t index) const = 0;
  /// Calls `take` with a picture as it is encoded; the default is for sets whose pictures are not. DataError
  /// as `open`.
  virtual void read_encoded(std::int64_t /*index*/,
                            const std::function<void(std::span<const std::byte>)>& /*take*/) const {}
};

using PictureSetPtr = std::shared_ptr<const PictureSet>;

}  // namespace lockstep::data
