// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// request.hpp: the micro-benchmark of the FFQ paper (section V.A): one producer sends requests through one queue to
// its consumers; each consumer answers through a queue of its own, which the producer empties.
//
// At most `capacity` requests are in flight, so that no push waits for room: the paper assumes such a flow control.
#pragma once

#include "driver/stream.hpp"

namespace muster::bench {

template <class Requests, class Answers, class Take = take_one>
outcome run_exchange(const exchange_spec& spec) {
  constexpr std::uint64_t burst = 64;  // pushes between two looks at the answers
  end_flag over{false};
  std::vector<receipt> requests(spec.consumers, receipt(1));
  std::vector<receipt> answers(1, receipt(1));

  reset_peak_memory();
  const auto ask = std::make_unique<Requests>(spec.capacity, 1, spec.consumers);
  std::vector<std::unique_ptr<Answers>> reply;
  for (unsigned i = 0; i < spec.consumers; ++i) reply.push_back(std::make_unique<Answers>(spec.capacity, 1, 1));

  outcome result = run_crew(spec.pus, [&](unsigned index, start_line& line) {
    if (index == 0) {
      typename Requests::producer to(*ask, 0);
      std::vector<std::unique_ptr<typename Answers::consumer>> from;
      for (auto& q : reply) from.push_back(std::make_unique<typename Answers::consumer>(*q, 0));
      receipt own(1);
      line.arrive_and_wait();
      patience p;
      std::uint64_t sent = 0;
      std::uint64_t back = 0;
      while (back < spec.items) {
        const std::uint64_t room = std::min(spec.capacity - (sent - back), spec.items - sent);
        const std::uint64_t now = std::min(room, burst);
        for (std::uint64_t i = 0; i < now; ++i) to.push(make_item(0, ++sent));
        const std::uint64_t before = back;
        for (auto& f : from) {
          for (item value = 0; f->try_pop(value); ++back) own.add(value);
        }
        if (now != 0 || back != before) {
          p.reset();
        } else {
          p.wait();
        }
      }
      finish<item>(*ask, to, spec.consumers, over);
      answers.front() = own;
    } else {
      typename Requests::consumer from(*ask, index - 1);
      typename Answers::producer to(*reply[index - 1], 0);
      receipt own(1);
      line.arrive_and_wait();
      Take::template all<Requests, item>(from, over, [&](item value) {
        own.add(value);
        to.push(value);
      });
      requests[index - 1] = own;
    }
  });
  result.peak_memory = peak_memory();
  result.items = spec.items;
  const verdict asked = judge(requests, {spec.items}, true);
  // Answers of different consumers overtake each other; with one consumer they must not.
  const verdict answered = judge(answers, {spec.items}, spec.consumers == 1);
  if (!asked.error.empty()) {
    result.error = "requests: " + asked.error;
  } else if (!answered.error.empty()) {
    result.error = "answers: " + answered.error;
  }
  return result;
}

}  // namespace muster::bench
