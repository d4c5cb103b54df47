// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Guide: combining objects.

#include "expect.hpp"

#include <muster/combine.hpp>
#include <muster/fiber.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

void results_and_exceptions() {
  // [results]
  muster::osci<std::vector<std::string>> names;

  const std::size_t place = names.apply([](auto& all) {
    all.push_back("Ada");
    return all.size();
  });
  std::string& first = names.apply([](auto& all) -> std::string& { return all.front(); });  // references, too
  bool refused = false;
  try {
    names.apply([](auto& all) { return all.at(7); });
  } catch (const std::out_of_range&) {  // reaches the caller of apply, and no other thread
    refused = true;
  }
  // [/results]
  expect(place == 1);
  expect(first == "Ada");
  expect(refused);
}

// [last-user]
struct session {
  int users = 2;
  long bytes = 0;
};
using shared_session = muster::osci<session>;

void leave(shared_session* one) {
  if (one->apply([](session& s) { return --s.users; }) == 0) delete one;  // others may still be returning
}
// [/last-user]

void last_user() {
  auto* const one = new shared_session;
  std::jthread other([one] { leave(one); });
  leave(one);
}

struct order_book {
  std::map<int, int> orders;
  int add(int price) {
    orders[++last] = price;
    return last;
  }
  int last = 0;
};

void own_type() {
  const int price = 17;
  // [readme]
  muster::osci<order_book> book;                                           // any type of yours
  const int id = book.apply([&](order_book& b) { return b.add(price); });  // as if under a lock; any result
  // [/readme]
  expect(id == 1);
}

void batches() {
  // [batch]
  muster::osci<long> total;
  auto add = [](long n) { return [n](long& sum) noexcept { return sum += n; }; };

  std::vector functions = {add(1), add(10), add(100)};
  std::array<long, 3> sums{};
  total.apply_batch(std::span(functions), sums.begin());  // one request for all three
  // [/batch]
  expect(sums == (std::array<long, 3>{1, 11, 111}));
}

// [execute]
struct counter {
  struct add {  // a request: eight bytes, trivially copyable
    long n;
    long operator()(counter& c) const noexcept { return c.value += n; }
  };
  // Found by its name: gets all requests of a batch, instead of one call for each.
  void execute(muster::batch<counter, add, long> all) noexcept {
    long sum = value;
    for (std::size_t i = 0; i < all.size(); ++i) {
      sum += all[i].function().n;
      all[i].result(sum);  // the sum up to this request, as if each had been executed by itself
    }
    value = sum;  // written once for all
  }
  long value = 0;
};
// [/execute]

void whole_batches() {
  // [execute-use]
  muster::osci<counter> total;
  muster::run_team({.carriers = 2, .fibers = 16},
                   [&](unsigned /*carrier*/, unsigned /*fiber*/) { total.apply(counter::add{3}); });
  // [/execute-use]
  expect(total.apply([](counter& c) { return c.value; }) == 2 * 16 * 3);
  std::vector<counter::add> functions = {{1}, {10}, {100}};
  std::array<long, 3> sums{};
  total.apply_batch(std::span(functions), sums.begin());
  expect(sums == (std::array<long, 3>{97, 107, 207}));
}

// [eliminate]
struct seats {
  struct change {
    int by;  // 1: returns a seat, -1: takes one, if there is one
    bool operator()(seats& s) const noexcept {
      if (s.free + by < 0) return false;
      s.free += by;
      return true;
    }
  };
  // Found by its name, too. Gets the requests that are about to leave a thread, and does not see the object.
  static void eliminate(muster::outgoing_batch<seats> all, std::span<std::uint32_t> notes) noexcept {
    std::size_t given = 0;  // all requests before it are eliminated, or take a seat
    for (std::size_t i = 0; i < all.size(); ++i) {
      notes[i] = 0;
      if (!all[i].is<change>()) {
        given = i + 1;  // a request that reads the seats: no request is eliminated across it
      } else if (all[i].function<change>().by < 0) {
        while (given < i && (notes[given] == all.eliminated || all[given].function<change>().by < 0)) ++given;
        if (given == i) continue;
        all[given].result<change>(true);
        all[i].result<change>(true);  // takes the seat that was just returned
        notes[given] = notes[i] = all.eliminated;
      }
    }
  }
  int free = 0;
};
// [/eliminate]

void answers() {
  muster::osci<seats> hall;
  std::vector<seats::change> changes = {{-1}, {1}, {-1}, {1}, {1}, {-1}};
  std::array<bool, 6> done{};
  hall.apply_batch(std::span(changes), done.begin());
  expect(done == (std::array<bool, 6>{false, true, true, true, true, true}));
  expect(hall.apply([](seats& s) { return s.free; }) == 1);
}

void detached() {
  // [detached]
  muster::osci<long> total({.detached = true});

  total.post([](long& sum) noexcept { sum += 5; });                // no result
  auto ticket = total.submit([](long& sum) { return sum += 2; });  // the result is retrieved later
  const long after = ticket.get();
  // [/detached]
  expect(after == 7);
}

void queue_and_stack() {
  // [objects]
  muster::combining_queue<int> queue;                           // on osci
  muster::combining_stack<int, muster::osci_shared> free_list;  // or on any other

  queue.push(1);
  queue.push(2);
  free_list.push(3);
  const auto one = queue.pop();  // std::optional<int>
  const auto three = free_list.pop();
  const auto none = free_list.pop();
  // [/objects]
  expect(one == 1);
  expect(three == 3);
  expect(!none);
}

void counting() {
  // [counter]
  muster::counter tickets(100);                      // the first ticket
  const std::int64_t ticket = tickets.fetch_add(1);  // each caller gets another, and none is left out
  const std::int64_t first_of_ten = tickets.fetch_add(10);

  muster::counter bytes_sent;
  bytes_sent.add(4096);                              // no result
  const std::int64_t until_now = bytes_sent.load();  // exact
  // [/counter]
  expect(ticket == 100);
  expect(first_of_ten == 101);
  expect(until_now == 4096);
}

}  // namespace

int main() {
  counting();
  last_user();
  own_type();
  results_and_exceptions();
  batches();
  whole_batches();
  answers();
  detached();
  queue_and_stack();
}
