// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// operations.cpp: what the engine does for an operation on an atomic: a scheduling point, then the choice that the
// memory model leaves, then its effect. See engine.hpp and views.hpp.
#include "checker/engine.hpp"

#include <algorithm>
#include <string_view>

namespace muster_model {

unsigned engine::add_location(std::uint64_t value) {
  if (memory_.full()) fail("more atomics than muster_model::most_locations");
  const heap::untracked aside;
  return memory_.add(value, threads_[current_].known, static_cast<std::uint32_t>(steps_));
}

// A step of its own, when there is another thread that could come before or after.
void engine::end_location(unsigned l) {
  for (unsigned t = 0; t < threads_.size(); ++t) {
    if (t == current_ || threads_[t].done || threads_[t].frozen) continue;
    point({pending::kind::write, static_cast<int>(l), false});
    break;
  }
  memory_.end(l);
}

void engine::check_location(unsigned l) {
  if (!memory_.alive(l)) fail("an atomic is used after its end");
}

// Begins each load, store and read-modify-write: lets other threads run, and returns the effective order. Checks the
// location twice, because another thread may end its lifetime in between.
order engine::begin(pending::kind kind, unsigned l, order o, const where& site, const char* what) {
  check_location(l);
  collect(site, what, o);
  o = weakened(o, site);
  point({kind, static_cast<int>(l), o == order::seq_cst});
  check_location(l);
  return o;
}

void engine::took_stale() {
  was_stale_ = true;
  decisions_->took_stale();
}

// Which store an operation reads, or writes behind. Newest first: 0 is the ordinary case.
std::size_t engine::pick_store(unsigned l, std::size_t oldest, bool for_change) {
  const std::size_t newest = memory_.stores(l).size() - 1;
  if (oldest == newest || decisions_->stale_left() == 0) return newest;
  std::size_t allowed[64];
  unsigned count = 0;
  for (std::size_t i = newest + 1; i-- > oldest && count < 64;)
    if (!for_change || memory_.can_insert_after(l, i)) allowed[count++] = i;
  const std::size_t picked = allowed[count == 1 ? 0 : decisions_->choose(count, for_change ? "where" : "reads")];
  if (picked != newest) took_stale();
  return picked;
}

std::uint64_t engine::load(unsigned l, order o, const where& site) {
  o = begin(pending::kind::read, l, o, site, "load");
  std::uint64_t* const last = mutation_ != nullptr || sites_ != nullptr ? last_value(l) : nullptr;
  if (last != nullptr && is_mutated(site, mutation::kind::repeated)) return *last;
  knowledge& self = threads_[current_].known;
  const std::size_t from = pick_store(l, memory_.oldest(self, l, o), false);
  const std::uint64_t value = memory_.read(self, l, from, o);
  remember_read(l, from);
  if (last != nullptr) {
    if (*last != value) collect(site, "load", o, order::relaxed, true);
    *last = value;
  } else if (mutation_ != nullptr || sites_ != nullptr) {
    const heap::untracked aside;
    threads_[current_].last_values.emplace_back(l, value);
  }
  if (tracing_)
    record("load", l, site, o, value, 0, static_cast<int>(memory_.stores(l)[from].event),
           from + 1 != memory_.stores(l).size());
  return value;
}

void engine::store(unsigned l, std::uint64_t value, order o, const where& site) {
  o = begin(pending::kind::write, l, o, site, "store");
  if (is_mutated(site, mutation::kind::skipped)) return;
  const heap::untracked aside;
  knowledge& self = threads_[current_].known;
  const std::size_t behind = pick_store(l, memory_.oldest(self, l, o), true);
  const bool stale = behind + 1 != memory_.stores(l).size();
  const std::uint64_t before = memory_.stores(l).back().value;
  memory_.write(self, l, behind, value, o, false, static_cast<std::uint32_t>(steps_));
  ++self.now.clock(current_);
  wake_spinners(l, before, memory_.stores(l).back().value);
  if (tracing_) record("store", l, site, o, value, 0, -1, stale);
}

std::uint64_t engine::modify(unsigned l, order o, const where& site, const char* what,
                             const std::function<std::uint64_t(std::uint64_t)>& change) {
  o = begin(pending::kind::write, l, o, site, what);
  const heap::untracked aside;
  knowledge& self = threads_[current_].known;
  const std::size_t from = pick_store(l, memory_.oldest(self, l, o), true);
  const bool stale = from + 1 != memory_.stores(l).size();
  const int event = static_cast<int>(memory_.stores(l)[from].event);
  const std::uint64_t old = memory_.read(self, l, from, o);
  if (is_mutated(site, mutation::kind::skipped)) return old;
  const std::uint64_t made = change(old);
  memory_.write(self, l, from, made, o, true, static_cast<std::uint32_t>(steps_));
  ++self.now.clock(current_);
  remember_read(l, from + 1);
  wake_spinners(l, old, made);
  if (tracing_) record(what, l, site, o, old, made, event, stale);
  return old;
}

bool engine::compare_exchange(unsigned l, std::uint64_t& expected, std::uint64_t desired, order success, order failure,
                              bool weak, const where& site) {
  check_location(l);
  collect(site, "compare_exchange", success, failure);
  success = weakened(success, site);
  failure = weakened(failure, site, mutation::kind::weaker_failure);
  point({pending::kind::write, static_cast<int>(l), success == order::seq_cst || failure == order::seq_cst});
  check_location(l);
  const heap::untracked aside;
  knowledge& self = threads_[current_].known;
  const auto& all = memory_.stores(l);
  const std::size_t newest = all.size() - 1;
  const bool may_be_stale = decisions_->stale_left() != 0;
  struct way {
    std::size_t from;
    bool succeeds;
  };
  way ways[64];
  unsigned count = 0;
  const std::size_t oldest_success = may_be_stale ? memory_.oldest(self, l, success) : newest;
  const std::size_t oldest_failure = may_be_stale ? memory_.oldest(self, l, failure) : newest;
  for (std::size_t i = newest + 1; i-- > std::min(oldest_success, oldest_failure) && count < 62;) {
    if (i >= oldest_success && all[i].value == expected && memory_.can_insert_after(l, i)) ways[count++] = {i, true};
    if (i >= oldest_failure && all[i].value != expected) ways[count++] = {i, false};
    if (i == newest && weak && spurious_left_ != 0 && all[i].value == expected) ways[count++] = {i, false};
  }
  const way taken = ways[count == 1 ? 0 : decisions_->choose(count, "compare_exchange")];
  const bool stale = taken.from != newest;
  if (stale) took_stale();
  const int event = static_cast<int>(all[taken.from].event);
  const std::uint64_t old = memory_.read(self, l, taken.from, taken.succeeds ? success : failure);
  if (!taken.succeeds && old == expected) --spurious_left_;
  if (taken.succeeds && is_mutated(site, mutation::kind::skipped)) return true;
  if (taken.succeeds) {
    memory_.write(self, l, taken.from, desired, success, true, static_cast<std::uint32_t>(steps_));
    ++self.now.clock(current_);
    wake_spinners(l, old, desired);
  }
  remember_read(l, taken.succeeds ? taken.from + 1 : taken.from);
  if (tracing_)
    record(taken.succeeds ? "compare_exchange" : "compare_exchange fails", l, site, taken.succeeds ? success : failure,
           old, desired, event, stale);
  expected = old;
  return taken.succeeds;
}

void engine::fence(order o, const where& site) {
  collect(site, "fence", o);
  o = weakened(o, site);
  if (o == order::relaxed || is_mutated(site, mutation::kind::skipped)) return;
  point(o == order::seq_cst ? pending{pending::kind::fence, -1, true} : pending{});
  memory_.fence(threads_[current_].known, o);
  ++threads_[current_].known.now.clock(current_);
  if (tracing_) record("fence", most_locations, site, o, 0, 0, -1, false);
}

// A fence in this thread, one in each other thread wherever it happens to be, and one more in this thread.
void engine::heavy_fence(const where& site) {
  collect(site, "heavy_fence", order::seq_cst);
  if (is_mutated(site, mutation::kind::skipped)) return;
  const auto fence_here = [&] {
    point({pending::kind::fence, -1, true});
    memory_.fence(threads_[current_].known, order::seq_cst);
    ++threads_[current_].known.now.clock(current_);
    if (tracing_) record("heavy_fence", most_locations, site, order::seq_cst, 0, 0, -1, false);
  };
  fence_here();
  for (unsigned t = 0; t < threads_.size(); ++t) {
    if (t == current_) continue;
    if (!threads_[t].done) point({pending::kind::remote, static_cast<int>(t), true});
    memory_.fence(threads_[t].known, order::seq_cst);
    ++threads_[t].known.now.clock(t);
  }
  fence_here();
}

// ------------------------------------------------------------------------------------------------------------ mutation

void engine::mutate(const mutation* m) { mutation_ = m; }

bool engine::is_mutated(const where& site, mutation::kind what) const {
  return mutation_ != nullptr && mutation_->what == what && mutation_->at.line == site.line() &&
         mutation_->at.column == site.column() && std::string_view(site.file_name()).ends_with(mutation_->at.file);
}

order engine::weakened(order o, const where& site, mutation::kind what) const {
  return is_mutated(site, what) ? mutation_->to : o;
}

void engine::collect(const where& site, const char* what, order o, order failure, bool rereads) {
  if (sites_ == nullptr) return;
  const heap::untracked aside;
  const auto known = std::find_if(sites_->begin(), sites_->end(), [&](const operation_site& s) {
    return s.line == site.line() && s.column == site.column() && s.operation == what &&
           std::string_view(site.file_name()).ends_with(s.file);
  });
  if (known != sites_->end()) {
    known->rereads |= rereads;
    return;
  }
  sites_->push_back({short_path(site.file_name()), site.line(), site.column(), short_function(site.function_name()),
                     what, o, failure, rereads});
}

// The value of the current thread's last load of this location in the same operation; null if there was none.
std::uint64_t* engine::last_value(unsigned l) {
  for (auto& [location, value] : threads_[current_].last_values)
    if (location == l) return &value;
  return nullptr;
}

void engine::record(const char* what, unsigned l, const where& site, order o, std::uint64_t value,
                    std::uint64_t written, int from, bool stale) {
  const heap::untracked aside;
  step s;
  s.thread = current_;
  s.what = what;
  s.location = l == most_locations ? -1 : static_cast<int>(l);
  s.value = value;
  s.written = written;
  s.read_from = from;
  s.stale = stale;
  s.ordering = o;
  s.site = site;
  s.number = steps_;
  trace_.push_back(s);
}

}  // namespace muster_model
