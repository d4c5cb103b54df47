// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// serving.hpp: all fibers of all threads use one object. If the object has a server, the last thread is that.
#pragma once

#include "sim/workloads/spec.hpp"

#include <muster/base/sync.hpp>    // sync::atomic
#include <muster/fiber/fiber.hpp>  // fiber

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

template <class Object>
class serving_thread {
  static constexpr bool exists = requires(Object& o) { o.serve(), o.stop(); };

 public:
  serving_thread(Object& object, const sim_spec& spec) : object_(object), threads_(spec.threads.size()) {}

  /// The number of threads that are not the server.
  std::size_t others() const noexcept { return threads_ - (exists ? 1 : 0); }
  bool is(unsigned index) const noexcept { return exists && index == threads_ - 1; }
  void run() {
    if constexpr (exists) object_.serve();
  }

  /// The last of the others to destroy it stops the server.
  class client_end {
   public:
    explicit client_end(serving_thread& all) noexcept : all_(all) {}
    ~client_end() {
      if constexpr (exists)
        if (all_.gone_.fetch_add(1, std::memory_order_acq_rel) + 1 == all_.others()) all_.object_.stop();
    }
    client_end(const client_end&) = delete;
    client_end& operator=(const client_end&) = delete;

   private:
    serving_thread& all_;
  };
  client_end client() noexcept { return client_end(*this); }

 private:
  Object& object_;
  const std::size_t threads_;
  sync::atomic<std::size_t> gone_{0};
};

/// Calls each(handle, thread) for each of the spec's operations, with work between. Object(const sim_spec&), and
/// Object::handle(Object&, unsigned thread, unsigned fiber), or else Object. If it has serve(), which returns after
/// stop(), the last thread calls that instead.
template <class ThreadGroup, class Object, class Each>
auto sim_shared(ThreadGroup& group, const sim_spec& spec, Object& object, Each each) {
  serving_thread server(object, spec);
  const std::size_t all = server.others() * spec.fibers;
  auto result = group.run([&](unsigned index, auto& hand) {
    if (server.is(index)) return server.run();
    const auto last = server.client();
    const auto use = [&, index](unsigned fiber) {
      decltype(auto) mine = handle_of(object, index, fiber);
      for (std::uint64_t n = model_share(spec, index * spec.fibers + fiber, all); n != 0; --n) {
        each(mine, index);
        hand.delay();
      }
    };
    hand.start();
    if (spec.fibers == 1) return use(0);
    std::vector<fiber> fibers;
    fibers.reserve(spec.fibers);
    for (unsigned f = 0; f < spec.fibers; ++f) fibers.emplace_back(use, f);
  });
  result.items = spec.items;
  return result;
}

}  // namespace muster::bench::inline MUSTER_ABI
