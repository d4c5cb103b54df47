// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// call_queues.hpp: the two queues of each carrier, for its system calls and for their results.
#pragma once

#include "driver/call_program.hpp"

#include <muster/queue/spmc.hpp>
#include <muster/queue/spsc.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

/// Neither is ever full, because a caller has one call in flight. With spare capacity, the sides rarely read each
/// other's positions. A thread that makes calls claims a rank and waits for its request, as in the paper.
template <class Submissions, class Responses>
class two_queues {
 public:
  static constexpr bool shares_replies = false;

  explicit two_queues(const call_spec& spec) {
    // All cells of both fit into the L1 caches.
    constexpr std::size_t threads = 8;
    const std::size_t capacity = std::max<std::size_t>(64, 4 * std::size_t{spec.fibers}) - threads;
    for (unsigned i = 0; i < spec.carriers; ++i)
      all_.push_back({std::make_unique<Submissions>(capacity, queue_options{.threads = threads}),
                      std::make_unique<Responses>(capacity, queue_options{.threads = threads})});
  }

  class caller {
   public:
    caller(two_queues& all, unsigned carrier) : down_(*all.all_[carrier].down), up_(*all.all_[carrier].up) {}
    MUSTER_HOT void push(const call_request& r) { down_.push(r); }
    MUSTER_HOT bool try_pop(call_reply& r) { return take(up_.try_pop(), r); }
    void end() { down_.close(); }

   private:
    Submissions& down_;
    Responses& up_;
  };
  class executor {
   public:
    executor(two_queues& all, unsigned number) : down_(*all.all_[number].down), up_(*all.all_[number].up) {}
    MUSTER_HOT bool pop(call_request& r) { return take(down_.pop(), r); }
    MUSTER_HOT void push(const call_reply& r) { up_.push(r); }

   private:
    Submissions& down_;
    Responses& up_;
  };

 private:
  template <class T>
  MUSTER_HOT static bool take(queue_result<T>&& got, T& to) {
    if (!got) return false;
    to = *got;
    return true;
  }

  struct queues {
    std::unique_ptr<Submissions> down;
    std::unique_ptr<Responses> up;
  };
  std::vector<queues> all_;
};

/// For streams of replies: spsc_queue has both ends on lines of their own.
using call_queues = two_queues<spmc_queue<call_request, layout::packed, wait::spin>,
                               spsc_queue<call_reply, layout::packed, wait::spin>>;
/// For replies one by one: a request or a reply and its state share one line, the only one that is transferred. The
/// paper's response queue is also its FFQ^s, with one consumer.
using call_queues_by_cell = two_queues<spmc_queue<call_request, layout::aligned, wait::spin>,
                                       spmc_queue<call_reply, layout::aligned, wait::spin>>;

}  // namespace muster::bench::inline MUSTER_ABI
