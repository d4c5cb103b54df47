// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "sim/cache/caches.hpp"

#include <algorithm>
#include <bit>

namespace muster_simulation {

void recently_used::unlink(const link& of) noexcept {
  (of.newer == none ? newest_ : links_[of.newer].older) = of.older;
  (of.older == none ? oldest_ : links_[of.older].newer) = of.newer;
}

line_number recently_used::use(line_number line) {
  if (newest_ == line) return none;
  if (line >= links_.size()) links_.resize(std::max<std::size_t>(line + std::size_t{1}, links_.size() * 2));
  link& own = links_[line];
  if (own.in) unlink(own);
  else ++count_;
  own = {none, newest_, true};
  (newest_ == none ? oldest_ : links_[newest_].newer) = line;
  newest_ = line;
  if (count_ <= room_) return none;
  const line_number gone = oldest_;
  remove(gone);
  return gone;
}

void recently_used::remove(line_number line) {
  if (!has(line)) return;
  unlink(links_[line]);
  links_[line] = {};
  --count_;
}

caches::caches(const machine& m)
    : machine_(m),
      own_(m.cores(), {recently_used(m.l1 / m.line), recently_used(m.l2 / m.line)}),
      l3_(m.clusters, recently_used(m.l3 / m.line)) {}

template <class Use>
void caches::for_each(core_set set, Use use) {
  for (unsigned word = 0; word < set.size(); ++word)
    for (; set[word] != 0; set[word] &= set[word] - 1)
      use(word * 64 + static_cast<unsigned>(std::countr_zero(set[word])));
}

caches::entry& caches::at(line_number line) {
  if (line >= lines_.size()) lines_.resize(std::max<std::size_t>(line + std::size_t{1}, lines_.size() * 2));
  return lines_[line];
}

caches::state caches::state_of(unsigned core, line_number line) const noexcept {
  if (line >= lines_.size() || !is_in(lines_[line].holders, core)) return state::invalid;
  const entry& e = lines_[line];
  return e.owner != core ? state::shared : e.modified ? state::modified : state::exclusive;
}

/// The nearest place with the current contents of the line. The core itself does not have them.
caches::answer caches::find(unsigned core, line_number line, const entry& e) const {
  const unsigned cluster = machine_.cluster_of(core);
  if (e.owner != no_core) return {machine_.cluster_of(e.owner) == cluster ? place::in_cluster : place::elsewhere, true};
  if (l3_[cluster].has(line)) return {place::l3};
  place nearest = place::memory;
  for_each(e.holders, [&](unsigned holder) {
    nearest = std::min(nearest, machine_.cluster_of(holder) == cluster ? place::in_cluster : place::elsewhere);
  });
  for (const recently_used& l3 : l3_)
    if (l3.has(line)) nearest = std::min(nearest, place::elsewhere);
  return {nearest};
}

/// The furthest of `so_far` and the places that must drop their copies when the core writes.
place caches::furthest(unsigned core, line_number line, const entry& e, place so_far) const {
  const unsigned cluster = machine_.cluster_of(core);
  for_each(e.holders, [&](unsigned holder) {
    if (holder != core)
      so_far = std::max(so_far, machine_.cluster_of(holder) == cluster ? place::in_cluster : place::elsewhere);
  });
  for (unsigned other = 0; other < machine_.clusters; ++other)
    if (other != cluster && l3_[other].has(line)) so_far = std::max(so_far, place::elsewhere);
  return so_far;
}

/// The core uses the line, and has it from now on.
void caches::keep(unsigned core, line_number line) {
  core_set& holders = at(line).holders;
  holders[core / 64] |= std::uint64_t{1} << core % 64;
  own_[core].l1.use(line);
  if (const line_number gone = own_[core].l2.use(line); gone != recently_used::none) give_up(core, gone);
}

/// The core has no room for the line.
void caches::give_up(unsigned core, line_number line) {
  own_[core].l1.remove(line);
  entry& e = lines_[line];
  e.holders[core / 64] &= ~(std::uint64_t{1} << core % 64);
  if (e.owner == core) {
    e.dirty = e.dirty || e.modified;
    e.owner = no_core;
    e.modified = false;
  }
  if (e.dirty) keep_shared(machine_.cluster_of(core), line);
}

void caches::keep_shared(unsigned cluster, line_number line) {
  if (const line_number gone = l3_[cluster].use(line); gone != recently_used::none) last_copy(gone);
}

/// An L3 has no room for the line: memory gets it when no other core has it.
void caches::last_copy(line_number line) {
  entry& e = lines_[line];
  if (!e.dirty || e.holders != core_set{}) return;
  for (const recently_used& l3 : l3_)
    if (l3.has(line)) return;
  e.dirty = false;
  ++seen_.memory_writes;
}

/// Drops all copies except the core's.
void caches::drop_others(unsigned core, line_number line, entry& e) {
  for_each(e.holders, [&](unsigned holder) {
    if (holder == core) return;
    own_[holder].l1.remove(line);
    own_[holder].l2.remove(line);
    e.holders[holder / 64] &= ~(std::uint64_t{1} << holder % 64);
    ++seen_.invalidations;
  });
  for (recently_used& l3 : l3_) l3.remove(line);
}

caches::answer caches::count(answer a) {
  ++seen_.found[static_cast<std::size_t>(a.where)];
  return a;
}

caches::answer caches::look(unsigned core, line_number line, bool to_write) const {
  static const entry never_used;
  const entry& e = line < lines_.size() ? lines_[line] : never_used;
  const bool held = is_in(e.holders, core);
  if (held && (!to_write || e.owner == core)) return {own_[core].l1.has(line) ? place::l1 : place::l2};
  // Even when no other core has a copy, a core that writes must ask.
  answer a = held ? answer{place::l3} : find(core, line, e);
  if (to_write) a.where = furthest(core, line, e, a.where);
  return a;
}

caches::answer caches::read(unsigned core, line_number line) {
  const answer a = look(core, line, false);
  entry& e = at(line);
  if (a.from_owner) {
    e.dirty = e.dirty || e.modified;
    keep_shared(machine_.cluster_of(e.owner), line);
    e.owner = no_core;
    e.modified = false;
  }
  if (!a.is_hit()) {
    keep_shared(machine_.cluster_of(core), line);
    if (furthest(core, line, e, place::l1) == place::l1) e.owner = core;  // no other core has it
  }
  keep(core, line);
  return count(a);
}

caches::answer caches::write(unsigned core, line_number line) {
  const answer a = look(core, line, true);
  entry& e = at(line);
  if (e.owner != core) {
    drop_others(core, line, e);
    e.dirty = e.dirty || e.modified;
    e.owner = core;
  } else if (!e.modified) {
    l3_[machine_.cluster_of(core)].remove(line);  // what it has is old from now on
  }
  e.modified = true;
  keep(core, line);
  return count(a);
}

}  // namespace muster_simulation
