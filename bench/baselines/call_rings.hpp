// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// call_rings.hpp: two rings of many producers and consumers that all system calls and their results go through.
#pragma once

#include "baselines/vyukov_ring.hpp"
#include "driver/call_program.hpp"

namespace muster::bench::inline MUSTER_ABI {

/// One ring each way, which all carriers share.
class two_rings {
 public:
  static constexpr bool shares_replies = true;

  explicit two_rings(const call_spec& spec)
      : down_(spec.carriers * spec.fibers), up_(spec.carriers * spec.fibers), left_{spec.carriers} {}

  class caller {
   public:
    caller(two_rings& all, unsigned) : all_(all) {}
    MUSTER_HOT void push(const call_request& r) { all_.down_.push(r); }
    MUSTER_HOT bool try_pop(call_reply& r) { return all_.up_.try_pop(r); }
    void end() { all_.left_.fetch_sub(1, std::memory_order_acq_rel); }

   private:
    two_rings& all_;
  };
  class executor {
   public:
    executor(two_rings& all, unsigned) : all_(all) {}
    MUSTER_HOT bool pop(call_request& r) {
      for (patience p;;) {
        if (all_.down_.try_pop(r)) return true;
        if (all_.left_.load(std::memory_order_acquire) == 0) return false;
        p.wait();
      }
    }
    MUSTER_HOT void push(const call_reply& r) { all_.up_.push(r); }

   private:
    two_rings& all_;
  };

 private:
  vyukov_ring<call_request> down_;
  vyukov_ring<call_reply> up_;
  alignas(isolation_size) sync::atomic<unsigned> left_;  // carriers that have not ended
};

}  // namespace muster::bench::inline MUSTER_ABI
