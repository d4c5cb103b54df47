// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Pages of a file read without a sandbox: by pread(2), one after another, and by io_uring, many with one call.
#include "driver/counters.hpp"
#include "driver/pages.hpp"
#include "driver/placement.hpp"

#include <muster/base/detail/mapped_region.hpp>

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

namespace muster::bench {
namespace {

using clock = std::chrono::steady_clock;

class open_file {
 public:
  explicit open_file(int file) : file_(file) {}
  ~open_file() {
    if (file_ >= 0) ::close(file_);
  }
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;
  int get() const { return file_; }

 private:
  const int file_;
};

/// Times read_all(file, wrong) on a processor.
template <class ReadAll>
outcome run_reads(const read_spec& spec, const ReadAll& read_all) {
  const numbered_pages pages;
  const open_file file(::open(pages.path().c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) throw std::system_error(errno, std::generic_category(), "the file is not opened");
  pin_this_thread(spec.pus.front());
  std::uint64_t wrong = 0;
  const double cpu = cpu_seconds();
  const clock::time_point begin = clock::now();
  read_all(file.get(), wrong);
  outcome result;
  result.seconds = std::chrono::duration<double>(clock::now() - begin).count();
  result.cpu_seconds = cpu_seconds() - cpu;
  result.items = spec.items;
  if (wrong != 0) result.error = std::to_string(wrong) + " calls did not read their page";
  return result;
}

outcome run_native(const read_spec& spec) {
  return run_reads(spec, [&](int file, std::uint64_t& wrong) {
    std::vector<std::byte> page(read_spec::bytes);
    for (std::uint64_t n = 0; n < spec.items; ++n) {
      const std::int64_t offset = numbered_pages::offset(0, n);
      if (!numbered_pages::is_page(page, ::pread(file, page.data(), page.size(), offset), offset)) ++wrong;
    }
  });
}

/// Two rings that this process shares with the kernel.
class kernel_rings {
 public:
  explicit kernel_rings(unsigned entries) : file_(static_cast<int>(::syscall(SYS_io_uring_setup, entries, &set_))) {
    if (file_.get() < 0) throw std::system_error(errno, std::generic_category(), "io_uring_setup(2)");
    const std::size_t submissions = set_.sq_off.array + set_.sq_entries * sizeof(unsigned);
    const std::size_t completions = set_.cq_off.cqes + set_.cq_entries * sizeof(io_uring_cqe);
    submissions_ = map(submissions, IORING_OFF_SQ_RING);
    completions_ = map(completions, IORING_OFF_CQ_RING);
    entries_ = map(set_.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES);
  }
  ~kernel_rings() {
    for (const auto& [at, size] : {submissions_, completions_, entries_})
      if (at != nullptr) ::munmap(at, size);
  }
  kernel_rings(const kernel_rings&) = delete;
  kernel_rings& operator=(const kernel_rings&) = delete;

  /// Entry i is for the caller, until submit() has returned.
  io_uring_sqe& entry(unsigned i) { return static_cast<io_uring_sqe*>(entries_.first)[i]; }
  /// Gives entries 0 … many - 1 to the kernel, and waits for all; completed(entry) is called for each.
  template <class Completed>
  void submit(unsigned many, const Completed& completed) {
    std::atomic_ref<unsigned> tail(word(submissions_, set_.sq_off.tail));
    unsigned at = tail.load(std::memory_order_relaxed);
    for (unsigned i = 0; i < many; ++i, ++at)
      (&word(submissions_, set_.sq_off.array))[at & word(submissions_, set_.sq_off.ring_mask)] = i;
    tail.store(at, std::memory_order_release);
    for (unsigned sent = 0, done = 0; done < many;) {
      const long taken =
          ::syscall(SYS_io_uring_enter, file_.get(), many - sent, many - done, IORING_ENTER_GETEVENTS, nullptr, 0);
      if (taken < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), "io_uring_enter(2)");
      if (taken > 0) sent += static_cast<unsigned>(taken);
      std::atomic_ref<unsigned> head(word(completions_, set_.cq_off.head));
      unsigned next = head.load(std::memory_order_relaxed);
      const unsigned end =
          std::atomic_ref<unsigned>(word(completions_, set_.cq_off.tail)).load(std::memory_order_acquire);
      for (; next != end; ++next, ++done) completed((&cqe())[next & word(completions_, set_.cq_off.ring_mask)]);
      head.store(next, std::memory_order_release);
    }
  }

 private:
  using part = std::pair<void*, std::size_t>;

  part map(std::size_t size, std::int64_t offset) const {
    void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file_.get(), offset);
    if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "the rings of io_uring");
    return {at, size};
  }
  static unsigned& word(const part& of, std::size_t offset) {
    return *reinterpret_cast<unsigned*>(static_cast<std::byte*>(of.first) + offset);
  }
  io_uring_cqe& cqe() const {
    return *reinterpret_cast<io_uring_cqe*>(static_cast<std::byte*>(completions_.first) + set_.cq_off.cqes);
  }

  io_uring_params set_{};
  const open_file file_;
  part submissions_{}, completions_{}, entries_{};
};

/// As many reads as there would be fibers with one system call, again and again.
outcome run_io_uring(const read_spec& spec) {
  return run_reads(spec, [&](int file, std::uint64_t& wrong) {
    kernel_rings rings(spec.fibers);
    std::vector<std::byte> pages(read_spec::bytes * spec.fibers);
    std::vector<std::uint64_t> made(spec.fibers);
    for (std::uint64_t left = spec.items; left != 0;) {
      const auto now = static_cast<unsigned>(std::min<std::uint64_t>(left, spec.fibers));
      for (unsigned i = 0; i < now; ++i) {
        io_uring_sqe& e = rings.entry(i);
        e = {};
        e.opcode = IORING_OP_READ;
        e.fd = file;
        e.addr = reinterpret_cast<std::uintptr_t>(pages.data() + read_spec::bytes * i);
        e.len = read_spec::bytes;
        e.off = static_cast<std::uint64_t>(numbered_pages::offset(i, made[i]));
        e.user_data = i;
      }
      rings.submit(now, [&](const io_uring_cqe& c) {
        const auto i = static_cast<unsigned>(c.user_data);
        const std::span<const std::byte> page(pages.data() + read_spec::bytes * i, read_spec::bytes);
        if (!numbered_pages::is_page(page, c.res, numbered_pages::offset(i, made[i]++))) ++wrong;
      });
      left -= now;
    }
  });
}

/// Empty when the kernel makes rings.
std::string why_no_io_uring() {
  try {
    const kernel_rings try_it(1);
    return {};
  } catch (const std::system_error& e) {
    return std::string("left out: the kernel refuses it, ") + e.what();
  }
}

}  // namespace

void add_reads(catalogue& to) {
  to.add("kernel", "limit", {{.name = "native", .note = "pread(2), one after another", .read = run_native}});
  if (const std::string why = why_no_io_uring(); !why.empty()) {
    to.missing.push_back({"io_uring", "", why});
    return;
  }
  to.add("kernel", "baseline",
         {{.name = "io_uring",
           .note = "without a sandbox; all reads with one io_uring_enter(2)",
           .fibers = 64,
           .read = run_io_uring}});
}

}  // namespace muster::bench
