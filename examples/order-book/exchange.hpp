// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// exchange.hpp: the order books of all instruments, with price-time priority, and the accounts that trade in them.
//
// Plain code for one thread, without any sharing. A trade changes a book, two accounts and the totals, and accounts
// trade in every book; so a lock for each book would not do, and programs use one for all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace order_book {

enum class side : std::uint8_t { buy, sell };
enum class action : std::uint8_t { limit, market, cancel };

struct order {
  action what = action::limit;
  side way = side::buy;
  std::uint32_t row = 0;     // its number in the file, from 0
  std::uint32_t target = 0;  // cancel only: the row of the order to cancel
  std::uint32_t instrument = 0;
  std::uint32_t account = 0;
  std::uint32_t quantity = 0;
  std::uint32_t price = 0;  // limit only; in ticks
};

// Limits of the input, such that no sum can overflow: each order trades its quantity once.
constexpr std::uint32_t max_orders = 8'000'000, max_quantity = 1'000'000, max_price = 1'000'000;

struct totals {
  std::uint64_t ordered = 0;  // shares, by limit and market orders
  std::uint64_t refused = 0;  // shares of market orders without a counterparty
  std::uint64_t cancelled = 0;
  std::uint64_t traded = 0;
  std::uint64_t value = 0;
  std::uint64_t trades = 0;
};

class exchange {
 public:
  /// For orders whose instruments, accounts and rows are less than these numbers.
  exchange(std::size_t instruments, std::size_t accounts, std::size_t orders)
      : books_(instruments), accounts_(accounts), orders_(orders) {}

  /// Executes one order. The answer: how many shares it has traded, or taken out of the book.
  std::uint32_t handle(const order& o);

  const totals& sums() const { return totals_; }
  /// Orders that wait in the books.
  std::uint64_t resting() const;
  /// The whole observable state, in a fixed order: two exchanges are equal if and only if their states are.
  std::vector<std::uint64_t> state() const;
  /// The first invariant that does not hold, as a message; empty when all do.
  std::string check() const;

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  /// A limit order, found by its row. It is in its book as long as its quantity is not zero.
  struct entry {
    std::uint32_t previous = none, next = none;  // rows of the same price, by time
    std::uint32_t quantity = 0;
    std::uint32_t price = 0;
    std::uint32_t instrument = 0;
    std::uint32_t account = 0;
    side way = side::buy;
  };
  struct level {  // a price at which orders wait: never empty
    std::uint32_t first = none, last = none;
  };
  using bid_levels = std::map<std::uint32_t, level, std::greater<>>;  // the best price comes first on both sides
  using ask_levels = std::map<std::uint32_t, level>;
  struct book {
    bid_levels bids;
    ask_levels asks;
  };
  struct account {
    std::int64_t cash = 0;
    std::uint64_t bought = 0, sold = 0;
  };

  template <class Levels>
  std::uint32_t match(Levels& others, const order& o);
  template <class Levels>
  void rest(Levels& own, const order& o, std::uint32_t quantity);
  template <class Levels>
  void unlink(Levels& levels, std::uint32_t row);
  void settle(const order& taker, const entry& maker, std::uint32_t quantity);
  std::uint32_t cancel(std::uint32_t row);

  std::vector<book> books_;
  std::vector<account> accounts_;
  std::vector<entry> orders_;
  totals totals_;
};

inline std::uint32_t exchange::handle(const order& o) {
  if (o.what == action::cancel) return cancel(o.target);
  book& at = books_[o.instrument];
  totals_.ordered += o.quantity;
  const std::uint32_t traded = o.way == side::buy ? match(at.asks, o) : match(at.bids, o);
  const std::uint32_t left = o.quantity - traded;
  if (left == 0) return traded;
  if (o.what == action::market) totals_.refused += left;
  else if (o.way == side::buy) rest(at.bids, o, left);
  else rest(at.asks, o, left);
  return traded;
}

/// Trades with the best waiting orders, as long as the price suits.
template <class Levels>
std::uint32_t exchange::match(Levels& others, const order& o) {
  std::uint32_t left = o.quantity;
  while (left != 0 && !others.empty()) {
    const auto& [price, best] = *others.begin();
    if (o.what == action::limit && (o.way == side::buy ? price > o.price : price < o.price)) break;
    entry& maker = orders_[best.first];
    const std::uint32_t quantity = std::min(left, maker.quantity);
    settle(o, maker, quantity);
    left -= quantity;
    maker.quantity -= quantity;
    if (maker.quantity == 0) unlink(others, best.first);
  }
  return o.quantity - left;
}

inline void exchange::settle(const order& taker, const entry& maker, std::uint32_t quantity) {
  const std::uint64_t value = std::uint64_t{quantity} * maker.price;
  account& buyer = accounts_[taker.way == side::buy ? taker.account : maker.account];
  account& seller = accounts_[taker.way == side::buy ? maker.account : taker.account];
  buyer.cash -= static_cast<std::int64_t>(value);
  buyer.bought += quantity;
  seller.cash += static_cast<std::int64_t>(value);
  seller.sold += quantity;
  totals_.traded += quantity;
  totals_.value += value;
  ++totals_.trades;
}

/// Appends the rest of `o` to the orders that wait at its price.
template <class Levels>
void exchange::rest(Levels& own, const order& o, std::uint32_t quantity) {
  level& at = own[o.price];
  orders_[o.row] = {at.last, none, quantity, o.price, o.instrument, o.account, o.way};
  (at.last == none ? at.first : orders_[at.last].next) = o.row;
  at.last = o.row;
}

template <class Levels>
void exchange::unlink(Levels& levels, std::uint32_t row) {
  const entry& gone = orders_[row];
  const auto at = levels.find(gone.price);
  (gone.previous == none ? at->second.first : orders_[gone.previous].next) = gone.next;
  (gone.next == none ? at->second.last : orders_[gone.next].previous) = gone.previous;
  if (at->second.first == none) levels.erase(at);
}

inline std::uint32_t exchange::cancel(std::uint32_t row) {
  entry& gone = orders_[row];
  if (gone.quantity == 0) return 0;  // it has been traded, or cancelled before
  book& at = books_[gone.instrument];
  if (gone.way == side::buy) unlink(at.bids, row);
  else unlink(at.asks, row);
  totals_.cancelled += gone.quantity;
  return std::exchange(gone.quantity, 0);
}

inline std::uint64_t exchange::resting() const {
  return static_cast<std::uint64_t>(
      std::count_if(orders_.begin(), orders_.end(), [](const entry& e) { return e.quantity != 0; }));
}

inline std::vector<std::uint64_t> exchange::state() const {
  std::vector<std::uint64_t> all = {totals_.ordered, totals_.refused, totals_.cancelled,
                                    totals_.traded,  totals_.value,   totals_.trades};
  const auto append = [&](const auto& levels) {
    all.push_back(levels.size());
    for (const auto& [price, at] : levels)
      for (std::uint32_t row = at.first; row != none; row = orders_[row].next)
        all.insert(all.end(), {price, row, orders_[row].quantity, orders_[row].account});
  };
  for (const book& b : books_) {
    append(b.bids);
    append(b.asks);
  }
  for (const account& a : accounts_) all.insert(all.end(), {static_cast<std::uint64_t>(a.cash), a.bought, a.sold});
  return all;
}

inline std::string exchange::check() const {
  std::uint64_t waiting = 0, orders = 0;
  const auto well_linked = [&](const auto& levels, std::size_t instrument, side way) {
    for (const auto& [price, at] : levels) {
      std::uint32_t previous = none;
      for (std::uint32_t row = at.first; row != none; previous = row, row = orders_[row].next) {
        const entry& e = orders_[row];
        if (e.quantity == 0 || e.price != price || e.instrument != instrument || e.way != way || e.previous != previous)
          return false;
        waiting += e.quantity;
        ++orders;
      }
      if (at.first == none || at.last != previous) return false;
    }
    return true;
  };
  for (std::size_t i = 0; i != books_.size(); ++i) {
    const book& b = books_[i];
    if (!well_linked(b.bids, i, side::buy) || !well_linked(b.asks, i, side::sell)) return "a queue of a book is broken";
    if (!b.bids.empty() && !b.asks.empty() && b.bids.begin()->first >= b.asks.begin()->first)
      return "a buyer would pay what a seller asks, but they have not traded";
  }
  if (orders != resting()) return "an order is in no book, and not done";
  if (totals_.ordered != 2 * totals_.traded + totals_.refused + totals_.cancelled + waiting)
    return "shares were lost or invented";
  std::int64_t cash = 0;
  std::uint64_t bought = 0, sold = 0;
  for (const account& a : accounts_) {
    cash += a.cash;
    bought += a.bought;
    sold += a.sold;
  }
  if (cash != 0 || bought != totals_.traded || sold != totals_.traded) return "the accounts do not add up";
  return {};
}

}  // namespace order_book
