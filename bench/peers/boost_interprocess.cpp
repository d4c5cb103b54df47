// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// boost::interprocess::message_queue: a heap of messages by priority in shared memory, under a mutex.
#include "driver/between.hpp"

#include <boost/interprocess/ipc/message_queue.hpp>

#include <string>

namespace muster::bench {
namespace {

namespace ipc = boost::interprocess;

class boost_channel {
 public:
  boost_channel(std::size_t capacity, unsigned, unsigned consumers)
      : consumers_(consumers),
        name_("muster-bench-" + std::to_string(::getpid())),
        queue_(ipc::create_only, name_.c_str(), capacity, sizeof(parcel)) {
    ipc::message_queue::remove(name_.c_str());  // the processes inherit it
  }
  void forget() {}

  class producer {
   public:
    explicit producer(boost_channel& c) : channel_(c) {}
    void push(const parcel& p) { channel_.queue_.send(&p, sizeof(p), 0); }
    void leave(bool last) {
      const parcel end{poison, {}};
      for (unsigned i = 0; last && i < channel_.consumers_; ++i) push(end);
    }

   private:
    boost_channel& channel_;
  };

  class consumer {
   public:
    explicit consumer(boost_channel& c) : channel_(c) {}
    bool pop(parcel& p) {
      ipc::message_queue::size_type size = 0;
      unsigned priority = 0;
      channel_.queue_.receive(&p, sizeof(p), size, priority);
      return !is_poison(p.number);
    }

   private:
    boost_channel& channel_;
  };

 private:
  unsigned consumers_;
  std::string name_;
  ipc::message_queue queue_;
};

}  // namespace

void add_boost_interprocess(catalogue& to) {
  to.all.push_back({.name = "boost::interprocess::message_queue",
                    .family = "Boost.Interprocess",
                    .role = "peer",
                    .topics = between_processes | from_one_process | between_many,
                    .between = run_between<boost_channel>});
}

}  // namespace muster::bench
