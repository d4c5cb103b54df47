// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Tests of the parts of order-book: the rules of a book, and that a wrong result of any kind is noticed.
// test_program.py tests the program as a user sees it.

#include "compare.hpp"
#include "exchange.hpp"
#include "orders.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace order_book;
using answers = std::vector<std::uint32_t>;

answers answers_to(const std::string& text) {
  const outcome result = run_sequentially(order_file(text, "text"), 1, 1);
  EXPECT_EQ(result.broken, "");
  return result.answers;
}

TEST(book, the_best_price_trades_first) {
  EXPECT_EQ(answers_to("limit,sell,i,a,10,12\nlimit,sell,i,a,10,11\nlimit,sell,i,a,10,13\n"
                       "limit,buy,i,b,25,12\n"  // 11 and 12, not 13
                       "cancel,1\ncancel,2\ncancel,3\ncancel,4\n"),
            answers({0, 0, 0, 20, 0, 0, 10, 5}));
  EXPECT_EQ(answers_to("limit,buy,i,a,10,12\nlimit,buy,i,a,10,13\nlimit,sell,i,b,15,12\ncancel,1\ncancel,2\n"),
            answers({0, 0, 15, 5, 0}));
}

TEST(book, of_one_price_who_came_first_trades_first) {
  EXPECT_EQ(answers_to("limit,buy,i,a,10,7\nlimit,buy,i,b,10,7\nlimit,buy,i,c,10,7\ncancel,1\n"
                       "market,sell,i,d,13\ncancel,2\ncancel,3\n"),
            answers({0, 0, 0, 10, 13, 0, 7}));
}

TEST(book, a_market_order_never_waits) {
  EXPECT_EQ(answers_to("market,buy,i,a,10\nlimit,sell,i,b,4,1000000\nmarket,buy,i,a,10\nlimit,sell,i,b,3,1\n"),
            answers({0, 0, 4, 0}));
}

TEST(book, instruments_do_not_trade_with_each_other) {
  EXPECT_EQ(answers_to("limit,buy,i,a,10,7\nlimit,sell,k,b,10,7\nmarket,sell,i,b,10\n"), answers({0, 0, 10}));
}

TEST(book, an_account_may_trade_with_itself) {
  EXPECT_EQ(answers_to("limit,buy,i,a,10,7\nlimit,sell,i,a,10,7\n"), answers({0, 10}));
}

/// Bytes that are not the same at every place.
std::string some_bytes(std::size_t size) {
  std::string bytes;
  for (std::uint32_t i = 0; i != size; ++i) bytes += static_cast<char>(i * i % 251);
  return bytes;
}

TEST(derive, makes_orders_of_every_kind_that_trade) {
  const order_file orders(derive_orders(some_bytes(40'002), 5, 20'000), "derived");
  EXPECT_EQ(orders.size(), 10'000u);
  EXPECT_EQ(orders.instruments(), 5u);
  const outcome result = run_sequentially(orders, 1, 1);
  EXPECT_EQ(result.broken, "");
  EXPECT_GT(result.sums.trades, 1000u);
  EXPECT_GT(result.sums.cancelled, 1000u);
  EXPECT_GT(result.resting, 10u);
  EXPECT_EQ(order_file(derive_orders(some_bytes(40'000), 5, 123), "derived").size(), 123u);
}

TEST(compare, any_number_of_threads_and_fibers_gives_the_same_result) {
  const order_file orders(derive_orders(some_bytes(20'000), 20, 20'000), "derived");
  const comparison same = compare_methods({{"sequential", 1, 1, run_sequentially},
                                           {"mutex", 3, 1, run_with_mutex},
                                           {"osci", 3, 1, run_with_osci},
                                           {"osci", 2, 8, run_with_osci},
                                           {"osci", 4, 16, run_with_osci}},  // more clients than instruments
                                          orders, 3);
  EXPECT_EQ(same.difference, "");
  for (const comparison::runs& method : same.methods) {
    EXPECT_EQ(method.seconds.size(), 3u);
    EXPECT_EQ(method.digest, digest(same.reference));
  }
}

outcome with_a_wrong_answer(const order_file& orders, unsigned threads, unsigned fibers) {
  outcome result = run_sequentially(orders, threads, fibers);
  ++result.answers.at(2);
  return result;
}
outcome with_a_wrong_state(const order_file& orders, unsigned threads, unsigned fibers) {
  outcome result = run_sequentially(orders, threads, fibers);
  ++result.state.back();
  return result;
}
outcome with_a_broken_exchange(const order_file& orders, unsigned threads, unsigned fibers) {
  outcome result = run_sequentially(orders, threads, fibers);
  result.broken = "shares were lost or invented";
  return result;
}

TEST(compare, a_method_with_another_result_is_named) {
  const order_file orders(derive_orders(some_bytes(400), 3, 100), "derived");
  const auto difference_of = [&](auto* wrong) {
    const comparison c = compare_methods({{"right", 1, 1, run_sequentially}, {"wrong", 1, 1, wrong}}, orders, 2);
    return c.difference;
  };
  EXPECT_EQ(difference_of(&run_sequentially), "");
  EXPECT_NE(difference_of(&with_a_wrong_answer).find("'wrong' answers "), std::string::npos);
  EXPECT_NE(difference_of(&with_a_wrong_answer).find("to order 3"), std::string::npos);
  EXPECT_NE(difference_of(&with_a_wrong_state).find("'wrong' ends in another state"), std::string::npos);
  EXPECT_NE(difference_of(&with_a_broken_exchange).find("'wrong' is broken"), std::string::npos);
  EXPECT_NE(compare_methods({{"broken", 1, 1, with_a_broken_exchange}}, orders, 1).difference, "");
}

TEST(compare, two_states_that_differ_have_two_digests) {
  const order_file orders(derive_orders(some_bytes(400), 3, 100), "derived");
  const std::uint64_t right = digest(run_sequentially(orders, 1, 1));
  EXPECT_NE(digest(with_a_wrong_answer(orders, 1, 1)), right);
  EXPECT_NE(digest(with_a_wrong_state(orders, 1, 1)), right);
}

}  // namespace
