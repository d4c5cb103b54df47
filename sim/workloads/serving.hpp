// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// serving.hpp: the last thread of a program serves the others, if the object that they share has a server.
#pragma once

#include "sim/workloads/spec.hpp"

#include <muster/base/sync.hpp>  // sync::atomic

#include <cstddef>

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

}  // namespace muster::bench::inline MUSTER_ABI
