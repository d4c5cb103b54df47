// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Guide: code that is not trusted: policies, windows, many jobs, refusals, and how a sandbox ends.

#include "expect.hpp"

#include <muster/fiber.hpp>
#include <muster/syscall.hpp>

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

/// A directory with in/, which has ten files, and out/. Jobs refer to it: it is there before the sandboxes are.
class workplace {
 public:
  workplace() {
    std::string made = (std::filesystem::temp_directory_path() / "muster-guide-XXXXXX").string();
    if (::mkdtemp(made.data()) == nullptr) std::abort();
    root_ = made;
    std::filesystem::create_directory(in());
    std::filesystem::create_directory(out());
    for (int i = 0; i < 10; ++i) std::ofstream(in() + "/" + std::to_string(i)) << std::string(1000, 'a') << i;
  }
  ~workplace() { std::filesystem::remove_all(root_); }
  std::string in() const { return root_ + "/in"; }
  std::string out() const { return root_ + "/out"; }

 private:
  std::string root_;
};

void policies(const workplace& place) {
  const std::string in = place.in(), out = place.out();
  // [policy-text]
  const std::string text = "read   " + in + "   # and everything beneath it\n" +  //
                           "write  " + out + "\n" +                               //
                           "memory 256M\n"
                           "files  32\n"
                           "time   10\n";
  const muster::policy from_text = muster::policy::parse(text, "job.policy");  // the name is for error messages
  // [/policy-text]
  // [policy-code]
  const muster::policy from_code = muster::policy().read(in).write(out).memory(256U << 20U).files(32).time(10);
  // [/policy-code]
  expect(from_text.text() == from_code.text());

  // [policy-error]
  try {
    muster::policy::parse("reed " + in, "job.policy");
  } catch (const muster::policy_error& error) {
    std::printf("%s\n", error.what());  // job.policy:1: unknown rule 'reed'; a line begins with read, write, …
  }
  // [/policy-error]
}

void windows() {
  // [window]
  muster::sandbox box(muster::policy{}, {.window_bytes = 1U << 16U});

  const std::string_view input = "shout";
  auto job = box.submit(
      [](muster::inside&, std::span<std::byte> window) {
        std::size_t size = 0;  // both sides see the window: the result is written where the input was
        for (; window[size] != std::byte{0}; ++size)
          window[size] = static_cast<std::byte>(std::toupper(static_cast<int>(window[size])));
        return size;
      },
      std::as_bytes(std::span(input)));

  job.wait();  // get() would give the window to the next job
  const std::span<const std::byte> window = job.window();
  std::vector<std::byte> output(window.begin(), window.begin() + static_cast<std::ptrdiff_t>(input.size()));
  const std::size_t size = job.get().value();
  if (size != input.size()) std::abort();  // a number from code that is not trusted: judged before it is used
  // [/window]
  expect(std::memcmp(output.data(), "SHOUT", 5) == 0);
}

void calls(const workplace& place) {
  const std::string in = place.in();
  // [calls]
  const std::string path = in + "/7";  // made before the sandbox: the job sees it
  muster::sandbox box(muster::policy().read(in).memory(64U << 20U));
  const auto first = box.run([&path](muster::inside& calls, std::span<std::byte> window) -> std::int64_t {
    const std::int64_t file = calls.open(path);
    if (file < 0) return file;                         // as the kernel has it: -ENOENT, or the policy's -EPERM
    const auto got = calls.pread(file, window, 1000);  // straight into the window, without a copy
    calls.close(file);
    return got == 1 ? static_cast<std::int64_t>(window[0]) : got;
  });
  // [/calls]
  expect(first.value() == '7');

  // [fibers]
  const auto sum = box.run([&in](muster::inside& calls) {
    long all = 0;
    std::vector<muster::fiber> fibers;
    for (int i = 0; i < 10; ++i)
      fibers.emplace_back([&, i] {  // while one waits for the broker, the others run
        std::byte digit{};
        const std::int64_t file = calls.open(in + '/' + std::to_string(i));
        if (calls.pread(file, std::span(&digit, 1), 1000) == 1) all += static_cast<char>(digit) - '0';
        calls.close(file);
      });
    for (muster::fiber& one : fibers) one.join();
    return all;
  });
  // [/fibers]
  expect(sum.value() == 45);
}

void many(const workplace& place) {
  const std::string in = place.in();
  // [many]
  muster::sandbox box(muster::policy().read(in).memory(64U << 20U), {.jobs = 4});
  std::vector<muster::sandbox::job<std::int64_t>> jobs;
  for (int i = 0; i < 4; ++i)  // not five: the fifth submit() would wait until a result is retrieved
    jobs.push_back(box.submit([&in, i](muster::inside& calls, std::span<std::byte> window) {
      const std::int64_t file = calls.open(in + '/' + std::to_string(i));
      const std::int64_t size = calls.read(file, window);
      calls.close(file);
      return size;
    }));
  std::int64_t bytes = 0;
  for (auto& job : jobs) bytes += job.get().value();
  // [/many]
  expect(bytes == 4 * 1001);
}

void ends() {
  // [ends]
  muster::sandbox box(muster::policy().time(1));
  const auto threw = box.run([](muster::inside&) -> int { throw std::runtime_error("no header"); });
  std::printf("%s\n", threw.why().c_str());  // the job has thrown: no header

  const auto never = box.run([](muster::inside& calls) {
    for (;;) calls.getppid();
  });
  std::printf("%s\n", never.why().c_str());  // … has used the processor time that its policy allows
  if (never.end().why != muster::sandbox_end::reason::running) {
    // The process is gone, with all its jobs. run() and submit() throw muster::sandbox_error from here on: make a new
    // sandbox.
  }
  // [/ends]
  expect(threw.end().why == muster::sandbox_end::reason::running);
  expect(never.end().why == muster::sandbox_end::reason::out_of_time);

  muster::sandbox other{muster::policy{}};
  const auto fault = other.run([](muster::inside&) { std::abort(); });
  expect(fault.end().why == muster::sandbox_end::reason::by_signal);
}

void programs(const workplace& place) {
  const std::string in = place.in();
  // [program]
  muster::policy rules = muster::policy().read(in).memory(256U << 20U, true).time(10);
  for (const char* where : {"/usr", "/lib", "/lib64", "/etc/ld.so.cache"})  // it, its loader and libraries
    if (std::filesystem::exists(where)) rules.read(where);
  muster::sandbox_options options;
  options.standard_streams = true;
  muster::sandbox box(rules, muster::sandbox_program{"/usr/bin/grep", {"grep", "-q", "aaa7", in + "/7"}, {}}, options);
  const muster::sandbox_end end = box.wait();
  const bool found = end.why == muster::sandbox_end::reason::exited && end.code == 0;
  // [/program]
  std::printf("%s\n", end.text().c_str());
  expect(found);
}

void refusals(const workplace& place) {
  const std::string in = place.in(), out = place.out();
  // [refusals]
  std::mutex mutex;
  std::set<std::string> missing;
  muster::sandbox_options options;
  options.on_refusal = [&](const muster::sandbox_refusal& one) {  // called by a thread of the broker
    const std::lock_guard lock(mutex);
    missing.insert(one.rule.empty() ? "# none allows " + one.call + " " + one.what : one.rule);
  };
  {
    muster::sandbox box(muster::policy().memory(64U << 20U), options);
    box.run([&](muster::inside&) {
      std::ifstream input(in + "/1");
      std::ofstream output(out + "/result");
      return std::system("true");
    });
    box.stop();  // returns when all refusals have been reported
  }
  for (const std::string& rule : missing) std::printf("%s\n", rule.c_str());
  // [/refusals]
  expect(missing.contains("read " + in + "/1") && missing.contains("write " + out));
  expect(missing.size() >= 3);
}

void early_copies() {
  static int learned = 0;
  // [zygote]
  muster::zygote early;  // at the beginning of main: before threads, secrets and large data
  learned = 42;          // later
  muster::sandbox box(early, muster::policy().memory(64U << 20U));
  const int known = box.run([](muster::inside&) { return learned; }).value();  // 0
  // [/zygote]
  expect(known == 0);
}

void usage(const workplace& place) {
  const std::string in = place.in();
  // [usage]
  muster::sandbox box(muster::policy().read(in));
  for (const std::string& layer : box.missing_layers()) std::printf("without %s\n", layer.c_str());
  box.run([&in](muster::inside& calls) { return calls.open(in); });
  const muster::sandbox_usage now = box.usage();
  for (const auto& one : now.by_call)
    std::printf("%s: %llu calls\n", one.name, static_cast<unsigned long long>(one.calls));
  // [/usage]
  expect(now.calls == 1 && now.by_call.size() == 1 && std::string_view(now.by_call[0].name) == "open");
}

}  // namespace

int main() {
  const workplace place;
  policies(place);
  windows();
  calls(place);
  many(place);
  ends();
  if (std::filesystem::exists("/usr/bin/grep")) programs(place);
  refusals(place);
  early_copies();
  usage(place);
}
