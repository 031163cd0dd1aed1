#include "comm/device_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

std::string to_text(const DeviceCard& card) {
  return fmt::format("{}\n{}\n{}\n{}", card.gpu.host, card.gpu.physical, card.gpu.to_nccl, card.nccl_problem);
}

DeviceCard parse_card(const std::string& text) {
  std::istringstream lines(text);
  DeviceCard card;
  std::getline(lines, card.gpu.host);
  std::getline(lines, card.gpu.physical);
  std::getline(lines, card.gpu.to_nccl);
  std::getline(lines, card.nccl_problem);
  return card;
}

/// The first two ranks of which `key` says the same.
template <class Key>
std::optional<std::pair<int, int>> first_equals(const std::vector<DeviceCard>& cards, Key key) {
  std::map<std::string, int> owners;
  for (int rank = 0; const DeviceCard& card : cards) {
    const auto [owner, is_new] = owners.emplace(key(card), rank);
    if (!is_new) return std::pair(owner->second, rank);
    ++rank;
  }
  return std::nullopt;
}

std::string physical_key(const DeviceCard& card) {
  return card.gpu.host + ' ' + card.gpu.physical;
}

}  // namespace

DeviceCard card_of(kernels::Device& device, std::string_view backend) {
  if (device.kind() == kernels::DeviceKind::cpu) return {};
  const bool may_be_nccl = backend == "auto" || backend == "nccl";
  return {.gpu = gpu_identity(device), .nccl_problem = may_be_nccl ? nccl_problem() : std::string()};
}

std::vector<DeviceCard> exchange_cards(Communicator& group, const DeviceCard& mine) {
  std::vector<DeviceCard> cards;
  for (const std::string& text : group.all_gather(to_text(mine))) cards.push_back(parse_card(text));
  return cards;
}

void require_one_kind(const std::vector<DeviceCard>& cards) {
  const auto on_gpu = std::ranges::find_if(cards, &DeviceCard::is_gpu);
  const auto on_cpu = std::ranges::find_if_not(cards, &DeviceCard::is_gpu);
  if (on_gpu == cards.end() || on_cpu == cards.end()) return;
  throw DeviceError(fmt::format(
      "rank {} sees no GPU and rank {} does: look at rank {}'s CUDA_VISIBLE_DEVICES and what its container "
      "or job step was given, or use --device cpu",
      on_cpu - cards.begin(), on_gpu - cards.begin(), on_cpu - cards.begin()));
}

void require_own_gpus(const std::vector<DeviceCard>& cards) {
  const auto sharers = first_equals(cards, physical_key);
  if (!sharers) return;
  const std::string& host = cards[static_cast<std::size_t>(sharers->first)].gpu.host;
  int ranks = 0;
  std::set<std::string> gpus;
  for (const DeviceCard& card : cards) {
    if (card.gpu.host != host) continue;
    ++ranks;
    gpus.insert(card.gpu.physical);
  }
  throw UsageError(
      fmt::format("ranks {} and {} share a GPU, {} ranks of a node have {}: --nproc_per_node={} and "
                  "--device cuda, or --backend host with launch --allow-gpu-sharing",
                  sharers->first, sharers->second, ranks, gpus.size(), gpus.size()));
}

std::string why_not_nccl(const std::vector<DeviceCard>& cards, bool asked_for) {
  for (int rank = 0; const DeviceCard& card : cards) {
    if (!card.nccl_problem.empty()) return fmt::format("rank {}: {}", rank, card.nccl_problem);
    ++rank;
  }
  auto sharers = first_equals(cards, [](const DeviceCard& card) { return card.gpu.to_nccl; });
  if (!sharers && !asked_for) sharers = first_equals(cards, physical_key);
  return sharers ? fmt::format("ranks {} and {} share a GPU", sharers->first, sharers->second)
                 : std::string();
}

}  // namespace lockstep::comm
