#include "launcher/lines.h"

namespace lockstep::launcher {
namespace {

/// A line longer than this is passed on in parts: nothing of ours grows without bound.
constexpr std::size_t longest_line = 1 << 20;

}  // namespace

void Lines::add_line(std::string_view line, std::string& out) const {
  if (!prefix_.empty()) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    const auto redrawn = line.rfind('\r');
    if (redrawn != std::string_view::npos) line.remove_prefix(redrawn + 1);
  }
  out.append(prefix_).append(line).push_back('\n');
}

ConsoleText Lines::feed(std::string_view bytes) {
  partial_.append(bytes);
  ConsoleText result = {.text = {}, .continues_bar = in_bar_, .leaves_bar = false};
  std::string_view rest = partial_;
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    const auto redraw =
        line.ends_with('\r') && end != std::string_view::npos ? std::string_view::npos : line.find('\r');
    if (bars_ && (in_bar_ || redraw != std::string_view::npos)) {
      in_bar_ = end == std::string_view::npos;
      const std::string_view piece = rest.substr(0, in_bar_ ? end : end + 1);
      result.text.append(piece);
      rest.remove_prefix(piece.size());
    } else if (end != std::string_view::npos) {
      add_line(line, result.text);
      rest.remove_prefix(end + 1);
    } else if (rest.size() >= longest_line) {
      add_line(rest, result.text);
      rest = {};
    } else {
      break;
    }
  }
  partial_ = std::string(rest);
  result.leaves_bar = in_bar_;
  return result;
}

ConsoleText Lines::finish() {
  ConsoleText result = {.text = {}, .continues_bar = in_bar_, .leaves_bar = false};
  if (in_bar_) result.text.push_back('\n');
  if (!partial_.empty()) add_line(partial_, result.text);
  partial_.clear();
  in_bar_ = false;
  return result;
}

}  // namespace lockstep::launcher
