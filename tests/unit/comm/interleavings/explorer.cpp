#include "tests/unit/comm/interleavings/explorer.h"

#include <utility>

namespace lockstep::interleavings {
namespace {

constexpr int most_turns = 500;

/// In a function of its own: the compiler takes a call of getcontext for one that may return twice.
[[gnu::noinline]] void capture(ucontext_t& context) {
  getcontext(&context);
}

}  // namespace

Explorer::Explorer(Time time) : time_(time) {}

Explorer::Result Explorer::explore(const std::function<Threads()>& program) {
  Result result;
  path_.clear();
  states_.clear();
  fault_.clear();
  do {
    run(program);
    ++result.runs;
  } while (fault_.empty() && next_path());
  result.states = static_cast<std::int64_t>(states_.size());
  if (!fault_.empty()) result.fault = fault_ + ", after accesses of threads" + order_;
  return result;
}

void Explorer::run(const std::function<Threads()>& program) {
  at_ = 0;
  order_.clear();
  memory_.clear();
  start(program());
  int turns = 0;
  for (auto able = ready(); !able.empty() && fault_.empty() && is_new_state(); able = ready()) {
    running_ = able[static_cast<std::size_t>(choose(static_cast<int>(able.size())))];
    order_ += ' ' + std::to_string(running_);
    running().state = Thread::State::ready;
    ++running().turns;
    swapcontext(&scheduler_, &running().context);
    if (++turns > most_turns) fail("the threads do not end");
  }
  for (int thread = 0; thread < count_; ++thread) {
    if (ready().empty() && threads_[static_cast<std::size_t>(thread)].state == Thread::State::asleep)
      fail("nobody wakes thread " + std::to_string(thread));
  }
}

void Explorer::start(Threads threads) {
  count_ = static_cast<int>(threads.size());
  memory_.set_threads(count_);
  for (std::size_t i = 0; i < threads.size(); ++i) {
    Thread& thread = threads_[i];
    thread.state = Thread::State::ready;
    thread.history = 0;
    thread.turns = 0;
    thread.body = std::move(threads[i]);
    capture(thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.data();
    thread.context.uc_stack.ss_size = thread.stack.size();
    thread.context.uc_link = &scheduler_;
    // makecontext passes numbers of the width of int alone.
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&thread.context, reinterpret_cast<void (*)()>(&Explorer::enter), 2,
                static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
  }
}

void Explorer::enter(unsigned high, unsigned low) {
  auto* self = reinterpret_cast<Explorer*>((std::uintptr_t{high} << 32) | low);
  self->running().body();
  self->running().state = Thread::State::done;
}

std::vector<int> Explorer::ready() const {
  for (const auto wanted : {Thread::State::ready, Thread::State::asleep}) {
    std::vector<int> threads;
    for (int thread = 0; thread < count_; ++thread) {
      if (threads_[static_cast<std::size_t>(thread)].state == wanted) threads.push_back(thread);
    }
    if (!threads.empty() || time_ == Time::stands_still) return threads;
  }
  return {};
}

bool Explorer::is_new_state() {
  if (at_ < path_.size()) return true;  // on the way to one
  std::uint64_t state = memory_.state();
  for (int i = 0; i < count_; ++i) {
    const Thread& thread = threads_[static_cast<std::size_t>(i)];
    state = mixed(mixed(state, thread.history), 4 * thread.turns + static_cast<std::uint64_t>(thread.state));
  }
  return states_.insert(state).second;
}

int Explorer::choose(int of) {
  if (at_ == path_.size()) path_.push_back({.taken = 0, .of = of});
  return path_[at_++].taken;
}

bool Explorer::next_path() {
  while (!path_.empty() && path_.back().taken + 1 == path_.back().of) path_.pop_back();
  if (path_.empty()) return false;
  ++path_.back().taken;
  return true;
}

void Explorer::before_access() {
  swapcontext(&running().context, &scheduler_);
}

std::uint32_t Explorer::have_read(std::uint32_t value) {
  running().history = mixed(running().history, value);
  return value;
}

std::uint32_t Explorer::load(int location, std::memory_order order) {
  before_access();
  const int age = choose(memory_.readable(running_, location, order));
  return have_read(memory_.load(running_, location, age, order));
}

void Explorer::store(int location, std::uint32_t value, std::memory_order order) {
  before_access();
  memory_.store(running_, location, value, order);
}

std::uint32_t Explorer::fetch_add(int location, std::uint32_t summand, std::memory_order order) {
  before_access();
  return have_read(memory_.fetch_add(running_, location, summand, order));
}

// Accesses that are not atomic need no turn: of two that meet the later one is a fault, whichever that is.

std::uint32_t Explorer::read(int location) {
  const auto value = memory_.read(running_, location);
  if (!value) fail("thread " + std::to_string(running_) + " reads what another may just write");
  return have_read(value.value_or(0));
}

void Explorer::write(int location, std::uint32_t value) {
  if (!memory_.write(running_, location, value))
    fail("thread " + std::to_string(running_) + " writes what another may just read or write");
}

void Explorer::sleep_while(int location, std::uint32_t expected) {
  before_access();
  memory_.lock(running_, location);
  const int age = choose(memory_.readable(running_, location, std::memory_order_relaxed));
  if (have_read(memory_.load(running_, location, age, std::memory_order_relaxed)) != expected) return;
  running().state = Thread::State::asleep;
  running().sleeps_on = location;
  before_access();
}

void Explorer::wake_all(int location) {
  before_access();
  memory_.lock(running_, location);
  for (Thread& thread : threads_) {
    if (thread.state == Thread::State::asleep && thread.sleeps_on == location)
      thread.state = Thread::State::ready;
  }
}

void Explorer::begin_phase(std::uint64_t phase) {
  running().history = phase;
  running().turns = 0;
}

void Explorer::check(bool holds, const char* what) {
  if (!holds) fail(what);
}

void Explorer::fail(const std::string& what) {
  if (fault_.empty()) fault_ = what;
}

}  // namespace lockstep::interleavings
