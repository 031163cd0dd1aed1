#include "runtime/step/exchange_order.h"

namespace lockstep::runtime {

void ExchangeOrder::hand_over(std::size_t exchange, std::size_t part, bool may_be_held) {
  if (!may_be_held) return post({exchange, part});
  if (!first_ready_) first_ready_ = Clock::now();
  held_.offer({exchange, part}, [this](const Part& next) { post(next); });
}

void ExchangeOrder::hand_over_held() {
  if (first_ready_) measure();
  first_ready_.reset();
  held_.release([this](const Part& next) { post(next); });
}

void ExchangeOrder::measure() {
  const std::chrono::duration<double> backward = Clock::now() - *first_ready_;
  if (const auto exchange = queue_.take_mean_time()) share_ = *exchange / backward;
}

}  // namespace lockstep::runtime
