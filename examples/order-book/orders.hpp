// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// orders.hpp: a file of orders, and how one is derived from any other file.
//
// One order per line, in one of three forms. Empty lines, and lines that begin with '#', are not counted.
//
//   limit,SIDE,INSTRUMENT,ACCOUNT,QUANTITY,PRICE   trades at PRICE or better; what is left waits in the book
//   market,SIDE,INSTRUMENT,ACCOUNT,QUANTITY        trades at any price; what is left is dropped
//   cancel,NUMBER                                  takes the NUMBERth order, an earlier limit order, out of its book
//
// SIDE is buy or sell; INSTRUMENT and ACCOUNT are any names; QUANTITY and PRICE are integers from 1 to 1000000.
#pragma once

#include "exchange.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

namespace order_book {

/// An error in the input, worded for its author.
struct bad_input : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The fields of a line, one after the other. Messages do not repeat text from the file, which may be anything.
class fields {
 public:
  explicit fields(std::string_view line) : rest_(line) {}

  std::string_view text(const char* what) {
    if (ended_) throw bad_input(std::string("the ") + what + " is missing");
    const std::size_t comma = rest_.find(',');
    ended_ = comma == std::string_view::npos;
    const std::string_view field = rest_.substr(0, comma);
    rest_.remove_prefix(ended_ ? rest_.size() : comma + 1);
    if (field.empty()) throw bad_input(std::string("the ") + what + " is empty");
    return field;
  }
  std::uint32_t number(const char* what, std::uint32_t most) {
    const std::string_view field = text(what);
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc() || end != field.data() + field.size() || value == 0 || value > most)
      throw bad_input(std::string("the ") + what + " is not a number from 1 to " + std::to_string(most));
    return value;
  }
  void end() const {
    if (!ended_) throw bad_input("the line has too many fields");
  }

 private:
  std::string_view rest_;
  bool ended_ = false;
};

/// Reads one line. The two callables turn names into numbers.
template <class InstrumentOf, class AccountOf>
order decode(std::string_view line, InstrumentOf&& instrument_of, AccountOf&& account_of) {
  fields in(line);
  order o;
  const std::string_view what = in.text("action");
  if (what == "cancel") {
    o.what = action::cancel;
    o.target = in.number("order to cancel", max_orders) - 1;
  } else {
    if (what != "limit" && what != "market") throw bad_input("the action is none of limit, market and cancel");
    o.what = what == "limit" ? action::limit : action::market;
    const std::string_view way = in.text("side");
    if (way != "buy" && way != "sell") throw bad_input("the side is neither buy nor sell");
    o.way = way == "buy" ? side::buy : side::sell;
    o.instrument = instrument_of(in.text("instrument"));
    o.account = account_of(in.text("account"));
    o.quantity = in.number("quantity", max_quantity);
    if (o.what == action::limit) o.price = in.number("price", max_price);
  }
  in.end();
  return o;
}

/// Numbers for names, from 0 on. The table does not own the characters.
class name_table {
 public:
  std::uint32_t number_or_new(std::string_view name) {
    return numbers_.try_emplace(name, static_cast<std::uint32_t>(numbers_.size())).first->second;
  }
  std::uint32_t number(std::string_view name) const { return numbers_.find(name)->second; }
  std::size_t size() const { return numbers_.size(); }

 private:
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

/// The text of a valid file of orders.
class order_file {
 public:
  /// Throws bad_input, with `name` and the line, if the text is not a file of orders.
  order_file(std::string text, const std::string& name);
  order_file(const order_file&) = delete;  // the lines point into the text
  order_file& operator=(const order_file&) = delete;

  std::size_t size() const { return rows_.size(); }
  std::size_t instruments() const { return instruments_.size(); }
  std::size_t accounts() const { return accounts_.size(); }
  std::uint32_t instrument(std::size_t row) const { return rows_[row].instrument; }
  std::string_view line(std::size_t row) const { return rows_[row].text; }
  /// The order in a line of this file, or in a copy of the line.
  order decode_row(std::uint32_t row, std::string_view line) const {
    order o = decode(
        line, [this](std::string_view name) { return instruments_.number(name); },
        [this](std::string_view name) { return accounts_.number(name); });
    o.row = row;
    return o;
  }

 private:
  struct entry {
    std::string_view text;
    std::uint32_t instrument;
    bool may_wait;
  };
  void add(std::string_view line);

  std::string text_;
  name_table instruments_, accounts_;
  std::vector<entry> rows_;
};

inline order_file::order_file(std::string text, const std::string& name) : text_(std::move(text)) {
  std::string_view rest = text_;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    try {
      add(line);
    } catch (const bad_input& wrong) {
      throw bad_input(name + ":" + std::to_string(number) + ": " + wrong.what());
    }
  }
  if (rows_.empty()) throw bad_input(name + ": there is no order in it");
}

inline void order_file::add(std::string_view line) {
  if (rows_.size() == max_orders) throw bad_input("more than " + std::to_string(max_orders) + " orders");
  const order o = decode(
      line, [this](std::string_view n) { return instruments_.number_or_new(n); },
      [this](std::string_view n) { return accounts_.number_or_new(n); });
  const bool cancels = o.what == action::cancel;
  if (cancels && (o.target >= rows_.size() || !rows_[o.target].may_wait))
    throw bad_input("the order to cancel is not an earlier limit order");
  rows_.push_back({line, cancels ? rows_[o.target].instrument : o.instrument, o.what == action::limit});
}

/// A file of orders in which the bytes of another file, four for each order, play the dice: prices walk at random, most
/// limit orders are meant to wait, one order in four cancels one of the last 32 of its instrument.
inline std::string derive_orders(std::string_view bytes, std::uint32_t instruments, std::size_t most) {
  struct market {
    std::uint32_t price = 10'000;
    std::array<std::size_t, 32> recent{};  // numbers of limit orders
    std::size_t limits = 0;
  };
  std::vector<market> markets(instruments);
  std::string text =
      "# Derived from the bytes of a file by order-book --derive. The form: examples/order-book/orders.hpp\n";
  std::uint64_t dice = 1;
  const auto roll = [&dice](std::uint32_t sides) {
    dice = dice * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
    return static_cast<std::uint32_t>((dice >> 32) * sides >> 32);
  };
  for (std::size_t number = 1; number <= most && bytes.size() >= 4; ++number, bytes.remove_prefix(4)) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    dice ^= word;
    dice ^= dice >> 29;
    roll(1);  // carries the bytes to the upper half, which the next ones look at
    const std::uint32_t which = roll(instruments);
    market& m = markets[which];
    const std::uint32_t what = roll(100);
    if (what < 25 && m.limits != 0) {
      text +=
          "cancel," + std::to_string(m.recent[roll(static_cast<std::uint32_t>(std::min<std::size_t>(m.limits, 32)))]);
    } else {
      const bool limit = what < 85, buys = roll(2) == 0;
      text += limit ? "limit," : "market,";
      text += buys ? "buy,I" : "sell,I";
      text += std::to_string(which) + ",A" + std::to_string(roll(64)) + ',' + std::to_string(1 + roll(100));
      if (limit) {
        m.price = std::clamp(m.price + roll(3) - 1, 1'000u, 19'000u);
        const std::uint32_t away = roll(16);  // up to 3: the price crosses that of the other side
        text += ',' + std::to_string(buys ? m.price + 3 - away : m.price - 3 + away);
        m.recent[m.limits++ % m.recent.size()] = number;
      }
    }
    text += '\n';
  }
  return text;
}

}  // namespace order_book
