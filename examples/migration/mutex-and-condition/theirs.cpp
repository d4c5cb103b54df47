// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Migration: a queue of a mutex, a condition variable and a deque.

#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

namespace {

// [theirs]
class work_queue {
 public:
  explicit work_queue(std::size_t capacity) : capacity_(capacity) {}
  void push(int item) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return items_.size() < capacity_; });
    items_.push_back(item);
    lock.unlock();
    filled_.notify_one();
  }
  std::optional<int> pop() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [this] { return !items_.empty() || closed_; });
    if (items_.empty()) return std::nullopt;
    const int item = items_.front();
    items_.pop_front();
    lock.unlock();
    room_.notify_one();
    return item;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    filled_.notify_all();
  }

 private:
  const std::size_t capacity_;
  std::mutex mutex_;
  std::condition_variable filled_, room_;
  std::deque<int> items_;
  bool closed_ = false;
};
// [/theirs]

}  // namespace

int main() {
  // [theirs-main]
  work_queue queue(64);
  long sum = 0;
  std::jthread consumer([&] {
    while (const std::optional<int> item = queue.pop()) sum += *item;
  });
  for (int i = 1; i <= 10'000; ++i) queue.push(i);
  queue.close();
  consumer.join();
  // [/theirs-main]
  std::printf("the sum is %ld\n", sum);
}
