// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// order-book: many threads trade in the order books of one exchange, which they share by a mutex, or by muster::osci.
//
// Reads a file of orders (orders.hpp says how it is written), or derives one from the bytes of any other file, and
// sends the orders on one thread, on several with std::mutex, and on several, with many fibers each, with muster::osci.
// Checks that every order got the same answer, and that the books and accounts are equal, and shows the times.
//
// Exit status: 0 all is well; 1 the results differ, or a run failed; 2 wrong usage or input.

#include "command_line.hpp"
#include "compare.hpp"
#include "orders.hpp"

#include <muster/base/parallelism.hpp>  // available_parallelism

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace {

using namespace order_book;

enum exit_status { all_is_well = 0, failed = 1, wrong_usage = 2 };

struct close_file {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};
using open_file = std::unique_ptr<std::FILE, close_file>;

bad_input cannot(const char* what, const std::string& name) {
  return bad_input(name + ": cannot be " + what + ": " + std::generic_category().message(errno));
}

/// The bytes of a file, `most` of them if it has more.
std::string read_file(const std::string& name, std::size_t most) {
  const open_file file(std::fopen(name.c_str(), "rb"));
  if (!file) throw cannot("opened", name);
  std::string bytes;
  while (bytes.size() < most) {
    const std::size_t old = bytes.size();
    bytes.resize(std::min(most, std::max<std::size_t>(old * 2, 65'536)));
    bytes.resize(old + std::fread(bytes.data() + old, 1, bytes.size() - old, file.get()));
    if (std::ferror(file.get()) != 0) throw cannot("read", name);
    if (bytes.size() == old) break;
  }
  return bytes;
}

void write_file(const std::string& name, const std::string& text) {
  open_file file(std::fopen(name.c_str(), "wb"));
  if (!file) throw cannot("opened", name);
  const bool written = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size();
  if (std::fclose(file.release()) != 0 || !written) throw cannot("written", name);
}

int print_comparison(const std::vector<method>& methods, const order_file& orders, std::size_t repeats) {
  const comparison compared = compare_methods(methods, orders, repeats);
  if (!compared.difference.empty()) {
    std::fprintf(stderr, "order-book: %s\n", compared.difference.c_str());
    return failed;
  }
  const outcome& all = compared.reference;
  std::printf("%zu orders of %zu accounts for %zu instruments\n", orders.size(), orders.accounts(),
              orders.instruments());
  std::printf("%" PRIu64 " trades of %" PRIu64 " shares for %" PRIu64 " ticks; %" PRIu64 " shares cancelled; %" PRIu64
              " orders are left in the books\n",
              all.sums.trades, all.sums.traded, all.sums.value, all.sums.cancelled, all.resting);
  std::printf("every answer, book and account is equal; medians of %zu runs each\n\n", repeats);
  std::printf("%-14s %8s %8s %13s %13s   %s\n", "method", "threads", "fibers", "time", "orders/s", "digest");
  for (std::size_t i = 0; i != methods.size(); ++i) {
    const double seconds = median(compared.methods[i].seconds);
    std::printf("%-14s %8u %8u %10.3f ms %11.3f M   %016" PRIx64 "\n", methods[i].name.c_str(), methods[i].threads,
                methods[i].fibers, seconds * 1e3, static_cast<double>(orders.size()) / seconds / 1e6,
                compared.methods[i].digest);
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::perror("order-book: the result could not be written");
    return failed;
  }
  return all_is_well;
}

}  // namespace

int main(int argc, char** argv) {
  std::string input, output;
  bool derive = false;
  std::uint32_t instruments = 256;
  std::size_t most = 1'000'000;
  unsigned threads = std::max(2u, muster::available_parallelism());
  unsigned fibers = 16;
  std::size_t repeats = 5;

  examples::command_line line(
      "Many threads trade in the order books of one exchange: with std::mutex, and with muster::osci.", "order-book");
  line.add("FILE", input,
           "orders, one per line: limit,SIDE,INSTRUMENT,ACCOUNT,QUANTITY,PRICE or "
           "market,SIDE,INSTRUMENT,ACCOUNT,QUANTITY or cancel,NUMBER")
      .required();
  const auto derives = line.add("--derive", derive, "FILE is any file: its bytes, four for an order, are the dice");
  line.add("--instruments", instruments, "in derived orders").in(1, 100'000).shows_default().needs(derives);
  line.add("--orders", most, "derived orders at most").in(1, max_orders).shows_default().needs(derives);
  line.add("--write", output, "only write the derived orders to this file").needs(derives);
  line.add("--threads", threads, "threads that send orders").in(1, 512).shows_default();
  line.add("--fibers", fibers, "fibers of each thread, with osci").in(1, 256).shows_default();
  line.add("--repeat", repeats, "runs to take the median of").in(1, 1000).shows_default();
  if (const auto status = line.parse(argc, argv, wrong_usage)) return *status;

  try {
    constexpr std::size_t largest = std::size_t{1} << 30;
    std::string text = read_file(input, derive ? most * 4 : largest);
    if (!derive && text.size() == largest) throw bad_input(input + ": is larger than 1 GiB");
    if (derive) {
      if (text.size() < 4) throw bad_input(input + ": is too short for one order, which takes 4 bytes");
      text = derive_orders(text, instruments, most);
      if (!output.empty()) {
        write_file(output, text);
        return all_is_well;
      }
    }
    const order_file orders(std::move(text), input);
    std::vector<method> methods = {{"sequential", 1, 1, run_sequentially},
                                   {"std::mutex", threads, 1, run_with_mutex},
                                   {"muster::osci", threads, 1, run_with_osci}};
    if (fibers != 1) methods.push_back({"muster::osci", threads, fibers, run_with_osci});
    return print_comparison(methods, orders, repeats);
  } catch (const bad_input& wrong) {
    std::fprintf(stderr, "order-book: %s\n", wrong.what());
    return wrong_usage;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "order-book: out of memory; try fewer orders, --threads or --fibers\n");
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "order-book: %s\n", failure.what());
  }
  return failed;
}
