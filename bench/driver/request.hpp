// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// request.hpp: the micro-benchmark of the FFQ paper (section V.A): one producer sends requests through one queue to
// its consumers; each consumer answers through a queue of its own, which the producer empties.
//
// At most `capacity` requests of a producer are in flight, so that no push waits for room: the paper assumes such flow
// control. Each producer has queues and consumers of its own; producers share only the machine.
#pragma once

#include "driver/counters.hpp"
#include "driver/stream.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace muster::bench {

/// One producer, its consumers, and their queues.
template <class Requests, class Answers, class Take>
class exchange_group {
 public:
  exchange_group(const exchange_spec& spec, std::uint64_t items)
      : spec_(spec),
        items_(items),
        ask_(spec.capacity, 1, spec.consumers),
        requests_(spec.consumers, consumer_check(1)) {
    for (unsigned i = 0; i < spec.consumers; ++i) reply_.push_back(std::make_unique<Answers>(spec.capacity, 1, 1));
  }

  void produce(start_line& line) {
    constexpr std::uint64_t burst = 64;  // pushes between two checks for answers
    decltype(auto) to = producer_of(ask_, 0);
    std::vector<std::unique_ptr<answer>> from;
    for (auto& q : reply_) from.push_back(std::make_unique<answer>(*q));
    consumer_check own(1);
    line.arrive_and_wait();
    patience p;
    std::uint64_t sent = 0;
    std::uint64_t back = 0;
    while (back < items_) {
      const std::uint64_t room = std::min(spec_.capacity - (sent - back), items_ - sent);
      const std::uint64_t now = std::min(room, burst);
      for (std::uint64_t i = 0; i < now; ++i) to.push(make_item(0, ++sent));
      const std::uint64_t before = back;
      for (auto& f : from) {
        for (item value = 0; f->from.try_pop(value); ++back) own.add(value);
      }
      if (now != 0 || back != before) {
        p.reset();
      } else {
        p.wait();
      }
    }
    finish<item>(ask_, to, spec_.consumers, over_);
    answers_.front() = own;
  }

  void consume(unsigned index, start_line& line) {
    decltype(auto) from = consumer_of(ask_, index);
    decltype(auto) to = producer_of(*reply_[index], 0);
    consumer_check own(1);
    line.arrive_and_wait();
    Take::template all<Requests, item>(from, over_, [&](item value) {
      own.add(value);
      to.push(value);
    });
    requests_[index] = own;
  }

  /// The error of the check; empty if it passed.
  std::string error() const {
    const verdict asked = judge(requests_, {items_}, true);
    // Answers of different consumers overtake each other; with one consumer they must not.
    const verdict answered = judge(answers_, {items_}, spec_.consumers == 1);
    if (!asked.error.empty()) return "requests: " + asked.error;
    return answered.error.empty() ? "" : "answers: " + answered.error;
  }

 private:
  struct answer {
    explicit answer(Answers& queue) : from(consumer_of(queue, 0)) {}
    decltype(consumer_of(std::declval<Answers&>(), 0)) from;
  };

  const exchange_spec& spec_;
  const std::uint64_t items_;
  end_flag over_{false};
  Requests ask_;
  std::vector<std::unique_ptr<Answers>> reply_;
  std::vector<consumer_check> requests_;
  std::vector<consumer_check> answers_{consumer_check(1)};
};

template <class Requests, class Answers, class Take = take_one>
outcome run_exchange(const exchange_spec& spec) {
  reset_peak_memory();
  std::vector<std::unique_ptr<exchange_group<Requests, Answers, Take>>> groups;
  for (unsigned g = 0; g < spec.producers; ++g) {
    const std::uint64_t share = spec.items / spec.producers + (g < spec.items % spec.producers ? 1 : 0);
    groups.push_back(std::make_unique<exchange_group<Requests, Answers, Take>>(spec, share));
  }
  const hardware_events events(spec.events);
  outcome result = run_crew(spec.pus, [&](unsigned index, start_line& line) {
    if (index < spec.producers) {
      groups[index]->produce(line);
    } else {
      const unsigned consumer = index - spec.producers;
      groups[consumer / spec.consumers]->consume(consumer % spec.consumers, line);
    }
  });
  events.add_to(result, spec.items);
  result.peak_memory = peak_memory();
  result.items = spec.items;
  for (const auto& g : groups)
    if (result.error.empty()) result.error = g->error();
  return result;
}

}  // namespace muster::bench
