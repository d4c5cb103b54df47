// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// boost::interprocess::message_queue: a heap of messages by priority in shared memory, under a mutex.
#include "driver/between.hpp"
#include "driver/messages.hpp"

#include <boost/interprocess/ipc/message_queue.hpp>

#include <algorithm>
#include <string>
#include <vector>

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

class boost_messages {
 public:
  explicit boost_messages(std::size_t size)
      : size_(size),
        name_("muster-bench-" + std::to_string(::getpid())),
        queue_(ipc::create_only, name_.c_str(), std::min<std::size_t>(message_room(size) / size, 4096), size) {
    ipc::message_queue::remove(name_.c_str());  // the processes inherit it
  }
  void forget() {}

  class producer {
   public:
    explicit producer(boost_messages& c) : queue_(c.queue_), own_(c.size_ / 8) {}
    template <class Fill>
    void push(Fill fill) {
      fill(own_);
      queue_.send(own_.data(), 8 * own_.size(), 0);
    }

   private:
    ipc::message_queue& queue_;
    std::vector<std::uint64_t> own_;
  };
  class consumer {
   public:
    explicit consumer(boost_messages& c) : queue_(c.queue_), own_(c.size_ / 8) {}
    template <class Read>
    void pop(Read read) {
      ipc::message_queue::size_type size = 0;
      unsigned priority = 0;
      queue_.receive(own_.data(), 8 * own_.size(), size, priority);
      read(words(own_).first(size / 8));
    }

   private:
    ipc::message_queue& queue_;
    std::vector<std::uint64_t> own_;
  };

 private:
  std::size_t size_;
  std::string name_;
  ipc::message_queue queue_;
};

}  // namespace

void add_boost_interprocess(catalogue& to) {
  to.all.push_back({.name = "boost::interprocess::message_queue",
                    .family = "Boost.Interprocess",
                    .role = "peer",
                    .topics = between_processes | from_one_process | between_many,
                    .between = run_between<boost_channel>,
                    .trips_between = run_trips_between<boost_channel>});
  to.all.push_back({.name = "boost::interprocess::message_queue, messages",
                    .family = "Boost.Interprocess",
                    .role = "peer",
                    .messages = run_messages<boost_messages>});
}

}  // namespace muster::bench
