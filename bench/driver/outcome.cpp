// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "driver/outcome.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>

namespace muster::bench {
namespace {

std::string encode(const outcome& o) {
  return nlohmann::json{{"error", o.error},      {"seconds", o.seconds}, {"cpu_seconds", o.cpu_seconds},
                        {"peak", o.peak_memory}, {"items", o.items},     {"out_of_order", o.out_of_order},
                        {"detail", o.detail}}
      .dump();
}

outcome decode(const std::string& text) {
  const auto j = nlohmann::json::parse(text);
  outcome o;
  o.error = j.at("error");
  o.seconds = j.at("seconds");
  o.cpu_seconds = j.at("cpu_seconds");
  o.peak_memory = j.at("peak");
  o.items = j.at("items");
  o.out_of_order = j.at("out_of_order");
  o.detail = j.at("detail").get<std::map<std::string, double>>();
  return o;
}

outcome failure(std::string why) {
  outcome o;
  o.error = std::move(why);
  return o;
}

[[noreturn]] void child(const std::function<outcome()>& body, int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // an interrupted parent leaves no run behind
  outcome o;
  try {
    o = body();
  } catch (const std::exception& e) {
    o = failure(fmt::format("exception: {}", e.what()));
  } catch (...) {
    o = failure("exception of a type that is not std::exception");
  }
  const std::string text = encode(o);
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(out, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) _exit(1);
    done += static_cast<std::size_t>(n);
  }
  _exit(0);
}

/// Reads until end of file; returns false if the deadline comes first.
bool read_all(int in, std::string& text, double limit_seconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit_seconds);
  std::array<char, 4096> buffer{};
  for (;;) {
    const std::chrono::duration<double, std::milli> left = deadline - std::chrono::steady_clock::now();
    if (left.count() <= 0) return false;
    pollfd watched{in, POLLIN, 0};
    const int ready = poll(&watched, 1, static_cast<int>(left.count()) + 1);
    if (ready < 0 && errno != EINTR) return true;
    if (ready <= 0) continue;
    const ssize_t n = read(in, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

}  // namespace

isolated_run::isolated_run(const std::function<outcome()>& body) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) {
    why_not_ = fmt::format("cannot make a pipe: {}", std::strerror(errno));
    return;
  }
  child_ = fork();
  if (child_ == 0) {
    close(ends[0]);
    child(body, ends[1]);
  }
  if (child_ < 0) why_not_ = fmt::format("cannot fork: {}", std::strerror(errno));
  close(ends[1]);
  out_ = ends[0];
}

outcome isolated_run::wait(double limit_seconds) {
  if (out_ < 0) return failure(why_not_);
  std::string text;
  const bool in_time = read_all(out_, text, limit_seconds);
  close(out_);
  if (child_ < 0) return failure(why_not_);
  if (!in_time) kill(child_, SIGKILL);
  int status = 0;
  while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
  if (!in_time) return failure(fmt::format("did not finish within {:.0f} s", limit_seconds));
  if (WIFSIGNALED(status))
    return failure(fmt::format("ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status))));
  if (WEXITSTATUS(status) != 0 || text.empty())
    return failure(fmt::format("ended with status {}", WEXITSTATUS(status)));
  return decode(text);
}

}  // namespace muster::bench
