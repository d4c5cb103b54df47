// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// queue.cpp: the queues for clang-tidy. It looks into a template only where the template is used, so every class is
// instantiated here as a whole, for a small and for an owning item type and for each way to wait.
#include <muster/queue.hpp>
#include <muster/queue/async.hpp>
#include <muster/queue/notify_fd.hpp>
#include <muster/queue/select.hpp>
#include <muster/queue/shared.hpp>
#include <muster/queue/shared_bytes.hpp>
#include <muster/version.hpp>

#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <istream>
#include <iterator>
#include <list>
#include <string>

template class muster::spsc_queue<std::uint64_t>;
template class muster::spmc_queue<std::uint64_t>;
template class muster::mpmc_queue<std::uint64_t>;
template class muster::lanes<std::uint64_t>;

template class muster::spsc_queue<std::string, muster::layout::packed, muster::wait::park>;
template class muster::spmc_queue<std::string, muster::layout::aligned, muster::wait::spin>;
template class muster::mpmc_queue<std::string, muster::layout::rotated, muster::wait::spin_then_park>;
template class muster::lanes<std::string, muster::layout::aligned, muster::wait::park>;

template class muster::shared_queue<std::uint64_t, muster::shape::spsc>;
template class muster::shared_queue<std::uint64_t, muster::shape::spmc, muster::wait::park>;
template class muster::shared_queue<std::uint64_t, muster::shape::mpmc, muster::wait::spin>;
template class muster::shared_queue<std::uint64_t, muster::shape::lanes>;
template class muster::shared_bytes<>;
template class muster::shared_bytes<muster::shape::spsc, muster::wait::park>;

template class muster::detail::selection<muster::spsc_queue<std::uint64_t>, muster::lanes<std::uint64_t>>;
template class muster::notify_fd<muster::mpmc_queue<std::uint64_t>>;
template class muster::notify_room_fd<muster::lanes<std::uint64_t>::producer_handle>;

struct scheduler {
  template <class F>
  void submit(F call) {
    call();
  }
};
template class muster::detail::pop_operation<muster::mpmc_queue<std::uint64_t>, scheduler>;
template class muster::detail::push_operation<muster::spsc_queue<std::string>, scheduler>;
template class muster::detail::pop_request<muster::mpmc_queue<std::uint64_t>, scheduler>;
template class muster::detail::push_request<muster::spsc_queue<std::string>, scheduler>;

// Member templates are instantiated by their use.
void in_place(muster::spsc_queue<std::string, muster::layout::packed, muster::wait::park>& spsc,
              muster::spmc_queue<std::uint64_t>& spmc, muster::mpmc_queue<std::uint64_t>& mpmc,
              muster::lanes<std::uint64_t>& lanes) {
  static_cast<void>(spsc.front());
  const auto ignore = [](const auto&) {};
  static_cast<void>(spsc.consume(ignore));
  static_cast<void>(spsc.try_consume(ignore));
  static_cast<void>(spmc.consume(ignore));
  static_cast<void>(mpmc.consume(ignore));
  static_cast<void>(lanes.consume(ignore));
}

std::size_t ranges(muster::spsc_queue<std::uint64_t>& spsc, const std::list<std::uint64_t>& counted,
                   const std::forward_list<std::uint64_t>& uncounted, std::istream& once) {
  std::forward_list<std::uint64_t> places(4);
  return spsc.push_range(counted) + spsc.try_push_range(uncounted) +
         spsc.push_range(std::istream_iterator<std::uint64_t>(once), std::istream_iterator<std::uint64_t>()) +
         spsc.pop_into(places) + spsc.try_pop_into(places.begin(), places.end());
}
