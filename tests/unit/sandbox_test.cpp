// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Sandboxes as a whole: processes with a wall, jobs in them, code that knows nothing of it, and every way to end. The
// sanitizers make calls of their own behind the wall; broker_test has what they can look at.
#include <gtest/gtest.h>
#include <muster/fiber.hpp>
#include <muster/syscall/sandbox.hpp>

#include "scale.hpp"

#include <dirent.h>
#include <elf.h>
#include <poll.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/vfs.h>

#include <any>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <new>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

namespace {

namespace fs = std::filesystem;
using muster::inside;
using muster::policy;
using muster::sandbox;
using muster::sandbox_end;
using muster::sandbox_options;
using reason = sandbox_end::reason;
using window = std::span<std::byte>;

struct pair {
  double a;
  std::uint64_t b;
};

struct part {
  std::int32_t numbers[15];
  int many;
};

struct pointing {
  int* at;
};

enum class colour : std::uint8_t { red };
enum class choice : bool { no, yes };
enum loose { one, two };  // has no other values

}  // namespace

template <>
inline constexpr bool muster::any_bytes_are_valid<pair> = true;
template <>
inline constexpr bool muster::any_bytes_are_valid<part> = true;

namespace {

template <class... T>
constexpr bool may_all_come = (muster::detail::may_come_from_inside<T>() && ...);
template <class... T>
constexpr bool may_some_come = (muster::detail::may_come_from_inside<T>() || ...);

// Results of jobs: an inside would choose where one of the others points, or what it relies on.
static_assert(may_all_come<bool, char, int, const long, double, std::byte, colour, std::monostate, pair, const part>);
static_assert(may_all_come<std::array<int, 4>, std::array<std::array<std::byte, 2>, 3>, std::array<pair, 2>>);
static_assert(
    !may_some_come<int*, const char*, void (*)(), int pair::*, int&, std::nullptr_t, pointing, choice, loose>);
static_assert(!may_some_come<std::string_view, std::span<int>, std::span<int, 2>, std::optional<int>, std::any,
                             std::variant<int, double>, std::reference_wrapper<int>, std::vector<int>::iterator>);
static_assert(!may_some_come<std::array<bool, 2>, std::array<int*, 2>, std::array<pointing, 1>, std::atomic<int>>);

class sandbox_test : public ::testing::Test {
 protected:
  sandbox_test() {
    std::string made = (fs::temp_directory_path() / "sandbox-XXXXXX").string();
    root_ = ::mkdtemp(made.data());
    std::ofstream(root_ / "file") << "one\ntwo\nthree\n";
  }
  ~sandbox_test() override { fs::remove_all(root_); }
  void SetUp() override {
    if (muster_test::sanitized) GTEST_SKIP() << "the sanitizers make system calls of their own";
  }

  /// A path as an argument of a job.
  struct text {
    char at[128] = {};
    operator const char*() const { return at; }
  };
  text path(const std::string& rest = {}) const {
    text made;
    const std::string all = rest.empty() ? root_.string() : (root_ / rest).string();
    std::memcpy(made.at, all.data(), std::min(all.size(), sizeof made.at - 1));
    return made;
  }
  policy reads() const { return policy().read(root_.string()).memory(64U << 20U); }
  policy writes() const { return policy().write(root_.string()).memory(64U << 20U); }

  fs::path root_;
};

std::size_t files_open() {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator{}));
}

TEST_F(sandbox_test, runs_jobs) {
  sandbox box{policy()};
  EXPECT_EQ(box.run([](inside&) { return 6 * 7; }).value(), 42);
  EXPECT_TRUE(box.run([](inside&) { return true; }).value());
  EXPECT_FALSE(box.run([](inside&) { return false; }).value());
  const auto both = box.run([](inside&) { return pair{0.5, ~std::uint64_t{0}}; }).value();
  EXPECT_EQ(both.a, 0.5);
  EXPECT_EQ(both.b, ~std::uint64_t{0});
  EXPECT_TRUE(box.run([](inside&) {}));
  const std::uint64_t captured[3] = {1, 20, 300};
  EXPECT_EQ(box.run([captured](inside&) { return captured[0] + captured[1] + captured[2]; }).value(), 321U);
  EXPECT_EQ(box.run([](inside& in) { return in.getppid(); }).value(), ::getppid());
  EXPECT_NE(box.process(), ::getpid());
  EXPECT_EQ(box.end().why, reason::running);
}

int seen_by_jobs = 1;

TEST_F(sandbox_test, has_a_copy_of_the_programs_memory) {
  seen_by_jobs = 2;
  sandbox box{policy()};
  seen_by_jobs = 3;
  EXPECT_EQ(box.run([](inside&) { return seen_by_jobs++; }).value(), 2) << "as it was when the sandbox was made";
  EXPECT_EQ(box.run([](inside&) { return seen_by_jobs; }).value(), 3) << "its own copy";
  EXPECT_EQ(seen_by_jobs, 3);
}

TEST_F(sandbox_test, shares_windows) {
  sandbox box{policy()};
  const std::string input = "abcdefgh";
  auto job = box.submit(
      [](inside&, window w) {
        for (std::size_t i = 0; i < 8; ++i) w[8 + i] = static_cast<std::byte>(std::toupper(static_cast<int>(w[i])));
        return w.size();
      },
      std::as_bytes(std::span(input)));
  job.wait();
  EXPECT_TRUE(job.done());
  const std::string both(reinterpret_cast<const char*>(job.window().data()), 16);
  EXPECT_EQ(both, "abcdefghABCDEFGH");
  EXPECT_EQ(job.get().value(), std::size_t{1} << 20U);
  const std::vector<std::byte> too_much((std::size_t{1} << 20U) + 1);
  EXPECT_THROW(box.submit([](inside&) {}, too_much), std::invalid_argument);
}

TEST_F(sandbox_test, overlaps_jobs) {
  sandbox box(reads(), {.jobs = 4});
  std::vector<sandbox::job<std::int64_t>> first;
  const text name = path("file");
  const auto body = [name](inside& in, window w) {
    const std::int64_t file = in.open(name.at);
    std::int64_t sum = 0;
    for (int i = 0; i < 200; ++i) sum += in.pread(file, w, i % 14);
    in.close(file);
    return sum;
  };
  std::int64_t expected = 0;
  for (int i = 0; i < 200; ++i) expected += 14 - i % 14;
  for (int i = 0; i < 4; ++i) first.push_back(box.submit(body));
  std::vector<std::thread> others;  // which wait for places
  std::atomic<unsigned> right{0};
  for (int i = 0; i < 4; ++i)
    others.emplace_back([&] {
      for (int n = 0; n < 5; ++n)
        if (box.run(body).value() == expected) ++right;
    });
  for (auto& one : first) EXPECT_EQ(one.get().value(), expected);
  for (std::thread& one : others) one.join();
  EXPECT_EQ(right, 20U);
  EXPECT_EQ(box.usage().bytes_in, 24U * static_cast<std::uint64_t>(expected));
}

TEST_F(sandbox_test, reuses_the_places_of_jobs_without_a_waiter) {
  sandbox box(policy(), {.jobs = 2});
  for (int i = 0; i < 50; ++i) static_cast<void>(box.submit([](inside&) { seen_by_jobs += 10; }));
  EXPECT_GE(box.run([](inside&) { return seen_by_jobs; }).value(), 10);
}

// ------------------------------------------------------------------------------------- code that knows nothing of it

TEST_F(sandbox_test, lets_unmodified_code_read) {
  sandbox box(reads());
  const text name = path("file"), directory = path();
  EXPECT_EQ(box.run([name](inside&) {
                 std::ifstream file(name.at);
                 int lines = 0;
                 for (std::string line; std::getline(file, line);) ++lines;
                 return lines;
               })
                .value(),
            3);
  EXPECT_EQ(box.run([name](inside&) {
                 std::FILE* const file = std::fopen(name, "r");
                 int sum = 0;
                 for (int c = 0; (c = std::fgetc(file)) != EOF;) sum += c;
                 std::fseek(file, 4, SEEK_SET);
                 char word[4] = {};
                 const bool got = std::fread(word, 1, 3, file) == 3 && std::strcmp(word, "two") == 0;
                 std::fclose(file);
                 return got ? sum : -1;
               })
                .value(),
            'o' + 'n' + 'e' + 't' + 'w' + 'o' + 't' + 'h' + 'r' + 'e' + 'e' + 3 * '\n');
  EXPECT_EQ(box.run([directory](inside&) {
                 int files = 0;
                 DIR* const open = ::opendir(directory);
                 while (const dirent* const one = ::readdir(open)) files += std::strcmp(one->d_name, "file") == 0;
                 ::closedir(open);
                 struct stat found{};
                 if (::chdir(directory) != 0 || ::stat("file", &found) != 0 || ::access("./file", R_OK) != 0) return -1;
                 char here[200];
                 if (::getcwd(here, sizeof here) == nullptr || std::strcmp(here, directory) != 0) return -2;
                 return files * 100 + static_cast<int>(found.st_size);
               })
                .value(),
            114);
  EXPECT_EQ(box.run([name](inside&) {
                 const int file = ::open(name, O_RDONLY);
                 void* const at = ::mmap(nullptr, 14, PROT_READ, MAP_PRIVATE, file, 0);
                 return at != MAP_FAILED && std::memcmp(at, "one\ntwo", 7) == 0;
               })
                .value(),
            true);
}

TEST_F(sandbox_test, lets_unmodified_code_write) {
  sandbox box(writes());
  const text name = path("new"), other = path("renamed"), folder = path("folder");
  EXPECT_EQ(box.run([name, other, folder](inside&) {
                 {
                   std::ofstream file(name.at);
                   for (int i = 0; i < 10'000; ++i) file << i << '\n';
                 }
                 return std::rename(name, other) + ::mkdir(folder, 0755) * 10;
               })
                .value(),
            0);
  std::ifstream file(other.at);
  int expected = 0;
  for (int i = 0; file >> i;) ASSERT_EQ(i, expected++);
  EXPECT_EQ(expected, 10'000);
  EXPECT_TRUE(fs::is_directory(folder.at));
}

TEST_F(sandbox_test, gives_unmodified_code_numbers_of_its_own) {
  sandbox box(writes(), {.standard_streams = true});
  const text name = path("file"), other = path("other");
  EXPECT_EQ(box.run([name, other](inside&) {
                 const int first = ::open(name, O_RDONLY);
                 const int second = ::dup(first), third = ::fcntl(first, F_DUPFD_CLOEXEC, 7);
                 char a = 0, b = 0, c = 0;
                 if (second == first || third < 7 || third == second) return 1;
                 if (::read(first, &a, 1) != 1 || ::read(second, &b, 1) != 1 || ::read(third, &c, 1) != 1) return 2;
                 if (a != 'o' || b != 'n' || c != 'e') return 3;  // one offset
                 if (::close(first) != 0 || ::close(first) != -1 || errno != EBADF) return 4;
                 if (::read(second, &a, 1) != 1 || a != '\n') return 5;
                 if (::close(second) != 0 || ::close(third) != 0 || ::read(third, &a, 1) != -1) return 6;
                 // A stream of the program's, kept and given back.
                 const int kept = ::dup(1), file = ::open(other, O_WRONLY | O_CREAT | O_TRUNC, 0600);
                 if (::dup2(file, 1) != 1 || ::close(file) != 0 || ::write(1, "into", 4) != 4) return 7;
                 if (::dup2(kept, 1) != 1 || ::close(kept) != 0 || ::write(1, "", 0) != 0) return 8;
                 // A number that no file has yet, and files of which one would get it.
                 const int low = ::open(name, O_RDONLY);
                 if (::dup2(low, 20) != 20 || ::dup2(low, low) != low) return 9;
                 for (int i = 0; i < 30; ++i) {
                   const int next = ::open(other, O_RDONLY);
                   if (next == 20 || ::read(next, &a, 1) != 1 || a != 'i') return 10;
                 }
                 if (::read(20, &b, 1) != 1 || b != 'o') return 11;
                 if (::dup2(77, 78) != -1 || errno != EBADF || ::dup(-1) != -1) return 12;
                 if (::dup3(low, low, 0) != -1 || errno != EINVAL || ::dup2(low, 5000) != -1) return 13;
                 if ((::fcntl(20, F_GETFL) & O_ACCMODE) != O_RDONLY) return 14;
                 int many = 0;  // until there are no more
                 while (::dup(low) >= 0) ++many;
                 return many > 40 && errno == EMFILE ? 0 : 15;
               })
                .value(),
            0);
  EXPECT_EQ(fs::file_size(other.at), 4U);
}

TEST_F(sandbox_test, keeps_a_file_of_which_there_can_be_no_more_numbers) {
  sandbox box(reads(), {.standard_streams = true});  // so that handles are numbers
  const text name = path("file");
  EXPECT_EQ(box.run([name](inside&) {
                 const int first = ::open(name, O_RDONLY), second = ::open(name, O_RDONLY);
                 while (::dup(first) >= 0) {
                 }
                 char a = 0;
                 const int third = ::dup(second);
                 if (third != -1 || errno != EMFILE) return 1000 + third;
                 return ::read(second, &a, 1) == 1 && a == 'o' ? 0 : 2;
               })
                .value(),
            0);
}

/// Answers of calls that unmodified code makes, in and out of a sandbox.
struct answers {
  std::int64_t numbers[40] = {};
  int many = 0;
  void add(std::int64_t number) { numbers[many++] = number < 0 ? -errno : number; }
};

answers of_many_calls(const char* directory, const char* file, const char* copy) {
  answers all;
  struct stat found{};
  all.add(::chdir(directory));
  all.add(::truncate(file, 10));
  all.add(::chmod(file, 0640));
  all.add(::stat(file, &found));
  all.add(found.st_mode);
  all.add(found.st_size);
  const timespec times[2] = {{12, 13}, {1'500'000'000, 14}};
  all.add(::utimensat(AT_FDCWD, file, times, 0));
  all.add(::stat(file, &found));
  all.add(found.st_mtim.tv_sec + found.st_mtim.tv_nsec + found.st_atim.tv_sec + found.st_atim.tv_nsec);
  const int from = ::open(file, O_RDWR | O_SYNC), to = ::open(copy, O_RDWR | O_CREAT | O_EXCL, 0600);
  all.add(::fcntl(from, F_GETFL) & (O_ACCMODE | O_SYNC | O_APPEND));
  all.add(::fchmod(from, 0600));
  all.add(::futimens(from, times));
  all.add(::fchown(from, ::getuid(), static_cast<gid_t>(-1)));
  all.add(::copy_file_range(from, nullptr, to, nullptr, 100, 0));
  struct statfs system{};
  all.add(::fstatfs(from, &system));
  all.add(system.f_type);
  all.add(::statfs(file, &system));
  all.add(::flock(to, LOCK_EX | LOCK_NB));
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_END;
  all.add(::fcntl(from, F_SETLK, &lock));
  all.add(::fcntl(from, F_GETLK, &lock));
  all.add(lock.l_type);
  pollfd both[] = {{from, POLLIN, 0}, {to, POLLOUT, 0}};
  all.add(::poll(both, 2, -1));
  all.add(both[0].revents * 100 + both[1].revents);
  pollfd none[] = {{from + 500, POLLIN, 0}};
  all.add(::poll(none, 1, 0));
  all.add(none[0].revents);
  all.add(::poll(nullptr, 0, 1));
  fd_set set;
  FD_ZERO(&set);
  FD_SET(from, &set);
  all.add(::select(from + 1, &set, nullptr, nullptr, nullptr));
  all.add(FD_ISSET(from, &set) ? 1 : 0);
  const int here = ::open(directory, O_RDONLY | O_DIRECTORY);
  all.add(::chdir("/"));
  all.add(::fchdir(here));
  all.add(::access(copy, R_OK));
  cpu_set_t processors;
  all.add(::sched_getaffinity(0, sizeof processors, &processors));
  all.add(CPU_COUNT(&processors));
  all.add(::utimes("absent", nullptr));
  all.add(::chmod("absent", 0600));
  for (const int one : {from, to, here}) ::close(one);
  return all;
}

TEST_F(sandbox_test, answers_unmodified_code_as_outside) {
  const text directory = path();
  std::ofstream(root_ / "second") << "one\ntwo\nthree\n";
  char before[200];
  ASSERT_NE(::getcwd(before, sizeof before), nullptr);
  sandbox box(writes());
  const answers outside = of_many_calls(directory, "second", "copy");
  ASSERT_EQ(::chdir(before), 0);
  for (int from = 0; from < outside.many; from += 15) {
    fs::remove(root_ / "copy inside");
    const part inside_numbers = box.run([directory, from](inside&) {
                                     const answers all = of_many_calls(directory, "file", "copy inside");
                                     part some{};
                                     for (int i = 0; i < 15 && from + i < all.many; ++i)
                                       some.numbers[i] = static_cast<std::int32_t>(all.numbers[from + i]);
                                     some.many = all.many;
                                     return some;
                                   })
                                    .value();
    EXPECT_EQ(inside_numbers.many, outside.many);
    for (int i = 0; i < 15 && from + i < outside.many; ++i)
      EXPECT_EQ(inside_numbers.numbers[i], static_cast<std::int32_t>(outside.numbers[from + i]))
          << "the answer " << from + i;
  }
}

TEST_F(sandbox_test, refuses_everything_else_to_unmodified_code) {
  sandbox box(reads());
  EXPECT_EQ(box.run([](inside&) { return ::open("/etc/passwd", O_RDONLY) == -1 ? errno : 0; }).value(), EPERM);
  EXPECT_EQ(box.run([](inside&) { return ::fork() == -1 ? errno : 0; }).value(), EPERM);
  EXPECT_EQ(box.run([](inside&) { return ::kill(1, SIGKILL) == -1 ? errno : 0; }).value(), EPERM);
  EXPECT_EQ(box.run([](inside&) { return ::socket(AF_UNIX, SOCK_STREAM, 0) == -1 ? errno : 0; }).value(), EPERM);
  EXPECT_EQ(box.run([](inside&) { return ::execl("/bin/true", "true", nullptr) == -1 ? errno : 0; }).value(), EPERM);
  EXPECT_EQ(box.run([](inside&) {
                 try {
                   std::thread([] {}).join();
                 } catch (const std::system_error&) {
                   return 1;
                 }
                 return 0;
               })
                .value(),
            1);
  EXPECT_EQ(box.run([](inside&) { return ::signal(SIGSYS, SIG_DFL) == SIG_ERR ? errno : 0; }).value(), EPERM);
  EXPECT_EQ(box.run([](inside&) { return ::write(2, "x", 1) == -1 ? errno : 0; }).value(), EBADF);
  EXPECT_NE(box.run([](inside&) { return std::system("true"); }).value(), 0);
  EXPECT_EQ(box.end().why, reason::running) << box.end().text();
  EXPECT_GE(box.usage().refusals, 6U);
}

TEST_F(sandbox_test, traps_calls_of_many_fibers) {
  sandbox box(reads());
  const text name = path("file");
  EXPECT_EQ(box.run([name](inside&) {
                 int right = 0;
                 std::vector<muster::fiber> fibers;
                 for (int f = 0; f < 20; ++f)
                   fibers.emplace_back([&right, &name] {
                     for (int i = 0; i < 50; ++i) {
                       std::ifstream file(name.at);
                       std::string line, last;
                       while (std::getline(file, line)) last = line;
                       right += last == "three" ? 1 : 0;
                     }
                   });
                 fibers.clear();
                 return right;
               })
                .value(),
            1000);
}

// ------------------------------------------------------------------------------------------------------------- limits

TEST_F(sandbox_test, limits_memory) {
  const auto most = [](inside&) {
    std::size_t all = 0;
    try {
      for (;;) {
        char* const more = new char[1U << 20U];
        std::memset(more, 1, 1U << 20U);
        all += 1U << 20U;
        if (all > std::size_t{1} << 30U) break;
      }
    } catch (const std::bad_alloc&) {
    }
    return all >> 20U;
  };
  sandbox some(policy().memory(64U << 20U));
  EXPECT_GE(some.run(most).value(), 48U);
  EXPECT_LE(some.run(most).value(), 64U);
  sandbox none{policy()};
  EXPECT_LE(none.run(most).value(), 1U) << "what malloc had left when the sandbox was made";
  EXPECT_EQ(some.run([](inside&) {
                  return ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
                })
                .value(),
            true);
  sandbox executes(policy().memory(64U << 20U, true));
  EXPECT_EQ(executes
                .run([](inside&) {
                  return ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
                })
                .value(),
            false);
}

TEST_F(sandbox_test, limits_processor_time) {
  sandbox box(policy().time(1));
  const auto never = box.run([](inside&) {
    for (std::atomic<bool> go{true}; go;) {
    }
  });
  EXPECT_FALSE(never);
  EXPECT_EQ(never.end().why, reason::out_of_time) << never.why();
  EXPECT_NE(never.why().find("time"), std::string::npos);
}

/// The processor time of this process and of its children that have ended.
std::chrono::microseconds time_of_all() {
  std::chrono::microseconds all{0};
  for (const auto which : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    ::getrusage(which, &used);
    for (const timeval& one : {used.ru_utime, used.ru_stime})
      all += std::chrono::seconds(one.tv_sec) + std::chrono::microseconds(one.tv_usec);
  }
  return all;
}

/// Its own and its broker's together, however many threads that has.
TEST_F(sandbox_test, limits_the_processor_time_of_both_sides) {
  const auto before = time_of_all();
  sandbox box(policy().memory(64U << 20U).time(2), {.calls = 64, .broker_threads = 8});
  const auto never = box.run([](inside& in) {
    std::vector<muster::fiber> fibers;
    for (int i = 0; i < 32; ++i)
      fibers.emplace_back([&in] {
        for (;;) in.getppid();
      });
    fibers.clear();
  });
  EXPECT_EQ(never.end().why, reason::out_of_time) << never.why();
  box.stop();
  const auto used = time_of_all() - before;
  EXPECT_GE(used, std::chrono::milliseconds(1900));
  EXPECT_LT(used, std::chrono::milliseconds(3000)) << "each may not have as much";
}

/// A broker that spends it, while the inside sleeps.
TEST_F(sandbox_test, limits_the_processor_time_of_a_broker_without_requests) {
  muster::zygote early;
  for (const bool by_zygote : {false, true}) {
    const sandbox_options options{.jobs = 1, .calls = 1, .window_bytes = std::size_t{64} << 20U};
    std::ofstream(root_ / "large").close();
    fs::resize_file(root_ / "large", std::uintmax_t{64} << 20U);
    std::optional<sandbox> box;
    if (by_zygote) box.emplace(early, reads().time(1), options);
    else box.emplace(reads().time(1), options);
    const text name = path("large");
    const auto never = box->run([name](inside& in, window w) {
      const std::int64_t file = in.open(name.at);
      for (;;) in.pread(file, w, 0);
    });
    EXPECT_EQ(never.end().why, reason::out_of_time) << never.why();
    EXPECT_LT(box->usage().calls, 1000U) << "it was the broker's time";
  }
}

TEST_F(sandbox_test, limits_the_room_that_files_take) {
  sandbox box(writes().disk(1U << 20U));
  const text name = path("new");
  const auto errors = box.run([name](inside&) {
    std::vector<char> much(100'000, 'x');
    const int file = ::open(name, O_WRONLY | O_CREAT, 0644);
    long all = 0, got = 0;
    while ((got = ::write(file, much.data(), much.size())) > 0) all += got;
    return all <= 1 << 20 ? errno : 0;
  });
  EXPECT_EQ(errors.value(), EDQUOT);
  EXPECT_GT(fs::file_size(name.at), 900'000U);
}

/// A word of /proc/PID/NAME, after the one that is given.
std::string word_of(const std::string& file, const std::string& before) {
  std::ifstream in(file);
  std::string word;
  while (in >> word)
    if (word == before && in >> word) return word;
  return {};
}

/// Executes `body` in a child, which has no other threads, and returns its status.
int status_in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// A root inside whose system has no user name spaces.
TEST_F(sandbox_test, has_no_capabilities_without_name_spaces) {
  const int status = status_in_child([] {
    std::array<sock_filter, 4> code{{{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                                     {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_unshare},
                                     {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSYS},
                                     {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}}};
    const sock_fprog program{code.size(), code.data()};
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return 1;
    muster::zygote early;
    sandbox box{policy()}, by_zygote(early, policy());
    for (const sandbox* one : {&box, &by_zygote}) {
      bool told = false;
      for (const std::string& layer : one->missing_layers()) told |= layer.starts_with("name spaces: ");
      if (!told) return 2;
      const std::string inside = "/proc/" + std::to_string(one->process()) + "/status";
      for (const char* which : {"CapInh:", "CapPrm:", "CapEff:", "CapAmb:"})
        if (word_of(inside, which) != "0000000000000000") return 3;
      if (word_of("/proc/self/status", "CapEff:") != "0000000000000000" &&
          word_of(inside, "CapBnd:") != "0000000000000000")
        return 4;
    }
    return 0;
  });
  EXPECT_EQ(status, 0);
}

TEST_F(sandbox_test, has_no_capabilities) {
  muster::zygote early;
  for (const bool name_spaces : {true, false})
    for (const bool by_zygote : {true, false}) {
      std::optional<sandbox> box;
      if (by_zygote) box.emplace(early, policy(), sandbox_options{.name_spaces = name_spaces});
      else box.emplace(policy(), sandbox_options{.name_spaces = name_spaces});
      const std::string status = "/proc/" + std::to_string(box->process()) + "/status";
      for (const char* which : {"CapInh:", "CapPrm:", "CapEff:", "CapAmb:"})
        EXPECT_EQ(word_of(status, which), "0000000000000000") << which;
      if (word_of("/proc/self/status", "CapEff:") != "0000000000000000") {
        EXPECT_EQ(word_of(status, "CapBnd:"), "0000000000000000");
      }
      EXPECT_EQ(word_of(status, "NoNewPrivs:"), "1");
      for (const std::string& layer : box->missing_layers())
        EXPECT_EQ(layer.find("capabilities"), std::string::npos) << layer;
    }
}

TEST_F(sandbox_test, has_no_higher_priority_than_its_maker) {
  for (const int how : {SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_RR})
    for (const bool by_zygote : {false, true}) {
      const int found = status_in_child([&] {
        const sched_param priority{how == SCHED_RR ? 1 : 0};
        if (::sched_setscheduler(0, how, &priority) != 0) return 100;  // a privilege
        if (::setpriority(PRIO_PROCESS, 0, 7) != 0) return 101;
        std::optional<muster::zygote> early;
        if (by_zygote) early.emplace();
        std::optional<sandbox> box;
        if (by_zygote) box.emplace(*early, policy());
        else box.emplace(policy());
        rlimit nice{1, 1}, real_time{1, 1};
        ::prlimit(box->process(), RLIMIT_NICE, nullptr, &nice);
        ::prlimit(box->process(), RLIMIT_RTPRIO, nullptr, &real_time);
        if (nice.rlim_max != 0 || real_time.rlim_max != 0) return 102;
        if (::getpriority(PRIO_PROCESS, static_cast<id_t>(box->process())) != 7) return 103;
        return ::sched_getscheduler(box->process());
      });
      if (found == 100) continue;
      EXPECT_EQ(found, how == SCHED_RR ? SCHED_OTHER : how);
    }
}

/// Each is made as an attacker would make it, with arguments that the kernel takes outside.
TEST_F(sandbox_test, refuses_calls_that_would_lead_out_of_it) {
  sandbox box(reads().memory(64U << 20U, true));
  const auto error = [&](long number, std::array<long, 6> a) {
    return box
        .run([number, a](inside&) { return ::syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]) == -1 ? errno : 0; })
        .value();
  };
  constexpr long io_uring_setup = 425, io_uring_enter = 426, io_uring_register = 427, pidfd_open = 434, clone3 = 435,
                 pidfd_getfd = 438, process_madvise = 440, sched_setattr = 314;
  alignas(8) static std::array<std::uint64_t, 32> room{};
  const auto at = static_cast<long>(reinterpret_cast<std::uintptr_t>(room.data()));
  const long self = box.process(), outside = ::getpid();
  EXPECT_EQ(error(io_uring_setup, {4, at}), EPERM);
  EXPECT_EQ(error(io_uring_enter, {3, 1, 1, 1}), EPERM);
  EXPECT_EQ(error(io_uring_register, {-1, 0, at, 1}), EPERM);
  EXPECT_EQ(error(SYS_userfaultfd, {O_CLOEXEC | 1}), EPERM) << "of user mode only";
  for (const long whom : {self, outside, 0L}) {
    EXPECT_EQ(error(SYS_ptrace, {PTRACE_ATTACH, whom}), EPERM);
    EXPECT_EQ(error(SYS_ptrace, {PTRACE_SEIZE, whom}), EPERM);
    EXPECT_EQ(error(SYS_process_vm_readv, {whom, at, 1, at, 1, 0}), EPERM);
    EXPECT_EQ(error(SYS_process_vm_writev, {whom, at, 1, at, 1, 0}), EPERM);
    EXPECT_EQ(error(pidfd_open, {whom}), EPERM);
    EXPECT_EQ(error(process_madvise, {whom, at, 1, MADV_COLD, 0}), EPERM);
    EXPECT_EQ(error(SYS_sched_setscheduler, {whom, SCHED_BATCH, at}), EPERM);
    EXPECT_EQ(error(sched_setattr, {whom, at, 0}), EPERM);
    EXPECT_EQ(error(SYS_setpriority, {PRIO_PROCESS, whom, 1}), EPERM);
    EXPECT_EQ(error(SYS_ioprio_set, {1, whom, 3 << 13}), EPERM);
    EXPECT_EQ(error(SYS_kcmp, {whom, outside, 0, 0, 0}), EPERM);
  }
  EXPECT_EQ(error(SYS_ptrace, {PTRACE_TRACEME}), EPERM);
  EXPECT_EQ(error(SYS_prlimit64, {0, RLIMIT_NICE, at, 0}), EPERM);
  EXPECT_EQ(error(SYS_setrlimit, {RLIMIT_NICE, at}), EPERM);
  EXPECT_EQ(error(SYS_memfd_create, {at, 0}), EPERM);
  EXPECT_EQ(error(SYS_memfd_create, {at, 0x10}), EPERM) << "that can be executed";
  EXPECT_EQ(error(SYS_execveat, {0, at, 0, 0, AT_EMPTY_PATH}), EPERM);
  EXPECT_EQ(error(pidfd_getfd, {3, 0, 0}), EPERM);
  room[0] = CLONE_VM | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD;
  EXPECT_EQ(error(clone3, {at, 88}), ENOSYS) << "the C library then takes clone";
  room[0] = CLONE_NEWUSER;
  EXPECT_EQ(error(clone3, {at, 88}), ENOSYS);
  for (const long flags : {0L, long{CLONE_VM | CLONE_VFORK}, long{CLONE_NEWUSER}, long{CLONE_PARENT}})
    EXPECT_EQ(error(SYS_clone, {flags | SIGCHLD}), EPERM);
  EXPECT_EQ(error(SYS_unshare, {CLONE_NEWUSER}), EPERM);
  EXPECT_EQ(error(SYS_setns, {3, 0}), EPERM);
  EXPECT_EQ(error(SYS_bpf, {0, at, 64}), EPERM);
  EXPECT_EQ(error(SYS_perf_event_open, {at, 0, -1, -1, 0}), EPERM);
  EXPECT_EQ(error(SYS_seccomp, {SECCOMP_SET_MODE_FILTER, 0, at}), EPERM);
  EXPECT_EQ(error(SYS_mlock, {at, 4096}), EPERM);
  EXPECT_EQ(error(SYS_mlockall, {1}), EPERM);
  EXPECT_EQ(error(SYS_mmap, {0, 1 << 21, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0}), EPERM);
  EXPECT_EQ(error(SYS_mmap, {0, 1 << 21, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0}), EPERM);
  EXPECT_EQ(error(SYS_mmap, {0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0}), EPERM);
  EXPECT_EQ(box.end().why, reason::running) << box.end().text();
}

// Another program, which knows nothing of sandboxes: this one, before main(). It waits for the lock of a file, and its
// handler of SIGUSR1 uses thread-local data.
thread_local std::atomic<int> handlers_data{0};
std::atomic<int> right_data{0}, wrong_data{0};

/// Returns 0 if each handler found the program's data, 1 if one did not, 2 if a call has failed, and 3 if no handler
/// was executed.
int handle_signals(const char* locked, const char* ready) {
  handlers_data = 4711;
  struct sigaction how{};
  how.sa_handler = [](int) { ++(handlers_data == 4711 ? right_data : wrong_data); };
  if (::sigaction(SIGUSR1, &how, nullptr) != 0) return 2;
  const int file = ::open(locked, O_RDWR);
  if (file < 0 || ::open(ready, O_WRONLY | O_CREAT, 0644) < 0) return 2;
  if (::flock(file, LOCK_EX) != 0) return 2;
  return wrong_data != 0 ? 1 : right_data == 0 ? 3 : 0;
}

[[maybe_unused]] const bool is_another_program = [] {
  const char *const locked = std::getenv("MUSTER_TEST_LOCKED"), *const ready = std::getenv("MUSTER_TEST_READY");
  if (locked != nullptr && ready != nullptr) ::_exit(handle_signals(locked, ready));
  return false;
}();

/// While the program waits in a call, the thread has the library's thread-local data. No handler of the program's sees
/// it.
TEST_F(sandbox_test, executes_a_programs_handlers_with_its_own_data) {
  const std::string name = root_ / "locked", ready = root_ / "ready";
  std::ofstream(name) << "x";
  const int file = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(file, LOCK_EX), 0);
  policy rules = policy().write(root_.string()).memory(256U << 20U, true);
  const std::string own = fs::read_symlink("/proc/self/exe");
  for (const char* where : {"/usr", "/lib", "/lib64", "/etc/ld.so.cache", own.c_str()})
    if (fs::exists(where)) rules.read(where);
  sandbox box(rules, muster::sandbox_program{own, {own}, {"MUSTER_TEST_LOCKED=" + name, "MUSTER_TEST_READY=" + ready}});
  while (!fs::exists(ready) && box.end().why == reason::running) std::this_thread::yield();
  for (int i = 0; i < 100 && box.end().why == reason::running; ++i) {
    ::kill(box.process(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ::close(file);
  const sandbox_end how = box.wait();
  EXPECT_EQ(how.why, reason::exited) << how.text();
  EXPECT_EQ(how.code, 0) << "1: it has found other data; 2: a call has failed; 3: it was not executed";
}

TEST_F(sandbox_test, says_why_a_program_is_not_loaded) {
  const std::string program = fs::canonical("/usr/bin/true");
  const auto rules = [this](std::size_t memory, bool executable) {
    policy made = policy().read(root_.string()).memory(memory, executable);
    for (const char* where : {"/usr", "/lib", "/lib64", "/etc/ld.so.cache"})
      if (fs::exists(where)) made.read(where);
    return made;
  };
  const policy enough = rules(256U << 20U, true);
  const auto error_of = [](const policy& allowed, const std::string& path, std::vector<std::string> arguments = {"x"}) {
    sandbox box(allowed, muster::sandbox_program{path, std::move(arguments), {}});
    const sandbox_end how = box.wait();
    EXPECT_EQ(how.why == reason::exited, how.code == 0) << how.text();
    return how.why == reason::not_loaded || how.why == reason::exited ? how.code : -1;
  };
  ASSERT_EQ(error_of(enough, program), 0);
  EXPECT_EQ(error_of(enough, root_ / "absent"), ENOENT);
  EXPECT_EQ(error_of(policy().read(root_.string()).memory(256U << 20U, true), program), EPERM) << "no rule for it";
  EXPECT_EQ(error_of(rules(256U << 20U, false), program), EACCES) << "memory that cannot be executed";
  EXPECT_EQ(error_of(rules(64U << 10U, true), program), ENOMEM);
  EXPECT_EQ(error_of(enough, program, {"x", std::string(8U << 20U, 'x')}), E2BIG);

  // Files that are no program, or a part of one.
  std::ifstream whole(program, std::ios::binary);
  const std::string image(std::istreambuf_iterator<char>(whole), {});
  const auto error_of_file = [&](const std::string& content) {
    std::ofstream(root_ / "program", std::ios::binary) << content;
    return error_of(enough, root_ / "program");
  };
  ASSERT_EQ(error_of_file(image), 0);
  EXPECT_EQ(error_of_file(""), ENOEXEC);
  EXPECT_EQ(error_of_file("#!/usr/bin/sh\nexit 0\n" + std::string(100, '#')), ENOEXEC);
  for (const std::size_t size : {16U, 63U, 64U, 100U, 4096U}) EXPECT_EQ(error_of_file(image.substr(0, size)), ENOEXEC);
  std::string other = image;
  other[EI_CLASS] = ELFCLASS32;
  EXPECT_EQ(error_of_file(other), ENOEXEC);
  other = image;
  other[offsetof(Elf64_Ehdr, e_machine)] ^= 1;
  EXPECT_EQ(error_of_file(other), ENOEXEC);
  for (const char* const loader : {"/lib64/absent", "/etc/group"}) {  // one that is not there, and one without a rule
    other = image;
    const std::size_t at = other.find("/lib64/ld-linux");
    if (at == other.npos) continue;
    other.replace(at, std::strlen(loader) + 1, loader, std::strlen(loader) + 1);
    EXPECT_EQ(error_of_file(other), loader[1] == 'l' ? ENOENT : EPERM);
  }

  sandbox box(enough, muster::sandbox_program{program, {"x"}, {}});
  EXPECT_THROW(box.run([](inside&) {}), std::logic_error) << "it has no jobs";
}

// The outside would get SIGBUS where a page were gone.
TEST_F(sandbox_test, keeps_the_pages_of_the_memory_that_both_sides_share) {
  const muster::mapped_region arena = muster::detail::make_arena({4, 1, 4096, 4096});
  const int seals = ::fcntl(arena.descriptor(), F_GET_SEALS);
  EXPECT_EQ(seals & (F_SEAL_SHRINK | F_SEAL_SEAL), F_SEAL_SHRINK | F_SEAL_SEAL);
  EXPECT_EQ(::ftruncate(arena.descriptor(), 0), -1);
  EXPECT_EQ(errno, EPERM);

  for (const int advice : {MADV_REMOVE, MADV_DONTNEED, MADV_FREE, 20, 21}) {  // MADV_COLD and MADV_PAGEOUT
    sandbox box(reads(), {.jobs = 1, .window_bytes = 65536});
    auto job = box.submit([advice](inside&, window w) {
      w[0] = std::byte{7};
      return ::madvise(w.data(), w.size(), advice);
    });
    job.wait();
    for (const std::byte one : job.window()) EXPECT_LE(one, std::byte{7});
    job.get();
    EXPECT_EQ(box.run([](inside& in) { return in.getppid(); }).value(), ::getppid());
  }
  sandbox box(reads(), {.jobs = 1, .window_bytes = 65536});
  auto job = box.submit([](inside&, window w) { return ::munmap(w.data(), w.size()); });
  job.wait();
  for (const std::byte one : job.window()) EXPECT_EQ(one, std::byte{0});
}

TEST_F(sandbox_test, is_the_systems_first_choice_to_kill) {
  muster::zygote early;
  sandbox box{policy()}, by_zygote(early, policy());
  for (const sandbox* one : {&box, &by_zygote}) {
    int adjusted = 0;
    EXPECT_TRUE(std::ifstream("/proc/" + std::to_string(one->process()) + "/oom_score_adj") >> adjusted);
    EXPECT_EQ(adjusted, 1000);
  }
}

TEST_F(sandbox_test, takes_no_signals_of_the_program) {
  std::set<std::string> before;
  const auto threads = [] {
    std::set<std::string> all;
    for (const auto& one : fs::directory_iterator("/proc/self/task")) all.insert(one.path().filename());
    return all;
  };
  before = threads();
  sandbox box(policy(), {.broker_threads = 3});
  unsigned made = 0;
  for (const std::string& one : threads()) {
    if (before.contains(one)) continue;
    ++made;
    const auto mask = [&] {
      return std::stoull(word_of("/proc/self/task/" + one + "/status", "SigBlk:"), nullptr, 16);
    };
    // The C library blocks all signals until a thread has begun. Its own faults are never blocked after that.
    while ((mask() >> (SIGSEGV - 1) & 1U) != 0) std::this_thread::yield();
    const std::uint64_t blocked = mask();
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGCHLD, SIGALRM, SIGRTMIN})
      EXPECT_NE(blocked >> (signal - 1) & 1U, 0U) << signal;
  }
  EXPECT_EQ(made, 4U) << "three of the broker, and one that waits for the inside";
  const std::string inside = "/proc/" + std::to_string(box.process()) + "/status";
  EXPECT_EQ(word_of(inside, "SigBlk:"), "0000000000000000");
}

// --------------------------------------------------------------------------------------------------------------- ends

TEST_F(sandbox_test, tells_how_jobs_end) {
  {
    sandbox box{policy()};
    const auto threw = box.run([](inside&) -> int { throw std::runtime_error("nothing found"); });
    EXPECT_EQ(threw.why(), "the job has thrown: nothing found");
    EXPECT_EQ(threw.end().why, reason::running);
    EXPECT_THROW(static_cast<void>(threw.value()), muster::sandbox_error);
    EXPECT_EQ(box.run([](inside&) { return 1; }).value(), 1) << "and the next one runs";
  }
  struct row {
    void (*job)(inside&);
    reason why;
    int code;
  };
  for (const row& one : {row{[](inside&) { ::_exit(3); }, reason::exited, 3},
                         row{[](inside&) { *reinterpret_cast<volatile int*>(8) = 1; }, reason::by_signal, SIGSEGV},
                         row{[](inside&) { __builtin_trap(); }, reason::by_signal, SIGILL}}) {
    sandbox box{policy()};
    auto other = box.submit([](inside& in) {
      for (;;) in.getppid();
    });
    const auto result = box.run(one.job);
    EXPECT_FALSE(result);
    EXPECT_EQ(result.end().why, one.why) << result.why();
    EXPECT_EQ(result.end().code, one.code);
    EXPECT_EQ(other.get().end().why, one.why) << "the others end with it";
    EXPECT_THROW(box.run([](inside&) {}), muster::sandbox_error);
    EXPECT_EQ(box.stop().why, one.why) << "as it has ended, not as it has been stopped";
  }
}

int deeper(volatile char* above, unsigned levels) {
  volatile char here[4096];
  here[0] = above == nullptr ? '\0' : above[0];
  return levels == 0 ? 0 : deeper(here, levels - 1) + here[0];
}

TEST_F(sandbox_test, ends_by_abort_and_by_a_full_stack) {
  sandbox aborts{policy()};
  const auto aborted = aborts.run([](inside&) { std::abort(); });
  EXPECT_EQ(aborted.end().why, reason::by_signal);
  EXPECT_EQ(aborted.end().code, SIGABRT);
  sandbox overflows{policy()};
  EXPECT_EQ(overflows.run([](inside&) { return deeper(nullptr, 1U << 30U); }).end().why, reason::by_signal);
}

TEST_F(sandbox_test, stops_at_any_time) {
  for (int i = 0; i < 20; ++i) {
    sandbox box(reads());
    const text name = path("file");
    auto busy = box.submit([name](inside& in, window w) {
      for (;;) {
        const std::int64_t file = in.open(name.at);
        in.read(file, w);
        in.close(file);
      }
    });
    std::this_thread::sleep_for(std::chrono::microseconds(200 * i));
    std::thread other([&] { box.stop(); });  // both may
    EXPECT_EQ(box.stop().why, reason::stopped);
    other.join();
    EXPECT_EQ(busy.get().end().why, reason::stopped);
    EXPECT_THROW(box.run([](inside&) {}), muster::sandbox_error);
  }
}

TEST_F(sandbox_test, leaves_jobs_that_outlive_it_their_results) {
  std::optional<sandbox> box(std::in_place, policy());
  auto done = box->submit([](inside&, window w) {
    w[3] = std::byte{77};
    return 13;
  });
  auto never = box->submit([](inside& in) -> int {
    for (;;) in.getppid();
  });
  auto dropped = std::optional(box->submit([](inside& in) {
    for (;;) in.getppid();
  }));
  auto waited_for = box->submit([](inside& in) -> int {
    for (;;) in.getppid();
  });
  done.wait();
  std::thread waits([&] { EXPECT_EQ(waited_for.get().end().why, reason::stopped); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  box.reset();
  EXPECT_TRUE(never.done());
  never.wait();
  EXPECT_EQ(never.get().end().why, reason::stopped);
  dropped.reset();
  EXPECT_EQ(done.window()[3], std::byte{77});
  EXPECT_EQ(done.get().value(), 13);
  waits.join();
}

TEST_F(sandbox_test, ends_by_refusal_when_the_policy_says_so) {
  sandbox box(reads().on_refusal(policy::refusal::kill));
  const auto result = box.run([](inside& in) {
    in.open("/etc/passwd");
    for (;;) in.getppid();
  });
  EXPECT_EQ(result.end().why, reason::refused) << result.why();
  sandbox unmodified(reads().on_refusal(policy::refusal::kill));
  EXPECT_EQ(unmodified
                .run([](inside& in) {
                  ::fork();
                  for (;;) in.getppid();
                })
                .end()
                .why,
            reason::refused);
}

TEST_F(sandbox_test, ends_with_the_process_that_made_it) {
  int words[2];
  ASSERT_EQ(::pipe(words), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    sandbox box{policy()};
    const int process = box.process();
    if (::write(words[1], &process, sizeof process) != sizeof process) ::_exit(1);
    ::kill(::getpid(), SIGKILL);
  }
  int process = 0, status = 0;
  ASSERT_EQ(::read(words[0], &process, sizeof process), static_cast<ssize_t>(sizeof process));
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  const auto is_there = [&] {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string line;
    return std::getline(file, line) && line.find(") Z ") == line.npos;
  };
  while (is_there()) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // or the test's own limit
  ::close(words[0]);
  ::close(words[1]);
}

TEST_F(sandbox_test, gives_everything_back) {
  {
    sandbox first{policy()};
  }
  const std::size_t before = files_open();
  for (int i = 0; i < 20; ++i) {
    sandbox box(reads());
    const text name = path("file");
    EXPECT_GE(box.run([name](inside& in) { return in.open(name.at); }).value(), 0) << "not closed";
    EXPECT_GT(files_open(), before);
  }
  EXPECT_EQ(files_open(), before);
}

TEST_F(sandbox_test, is_made_by_many_threads_and_within_fibers) {
  std::vector<std::thread> threads;
  std::atomic<int> sum{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&sum, t] {
      for (int i = 0; i < 4; ++i) {
        sandbox box{policy()};
        sum += box.run([t, i](inside&) { return 10 * t + i; }).value();
      }
    });
  for (std::thread& one : threads) one.join();
  EXPECT_EQ(sum, 4 * (0 + 10 + 20 + 30) + 4 * 6);
  int by_fibers = 0;
  {
    std::vector<muster::fiber> fibers;
    for (int f = 0; f < 4; ++f)
      fibers.emplace_back([&by_fibers, f] {
        sandbox box{policy()};
        by_fibers += box.run([f](inside&) { return f; }).value();
      });
  }
  EXPECT_EQ(by_fibers, 6);
}

TEST_F(sandbox_test, names_the_wrong_option) {
  const auto why = [](sandbox_options o) {
    try {
      sandbox box(policy(), std::move(o));
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(why({.jobs = 0}), "sandbox_options::jobs is 0; it must be 1 to 256");
  EXPECT_NE(why({.calls = 5000}).find("calls is 5000"), std::string::npos);
  EXPECT_NE(why({.stack_bytes = 1000}).find("stack_bytes"), std::string::npos);
  EXPECT_NE(why({.broker_threads = 0}).find("broker_threads"), std::string::npos);
}

TEST_F(sandbox_test, sleeps_when_it_has_nothing_to_do) {
  sandbox box{policy()};
  box.run([](inside&) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto used = [&box] {
    std::ifstream file("/proc/" + std::to_string(box.process()) + "/stat");
    std::string all((std::istreambuf_iterator<char>(file)), {});
    std::istringstream rest(all.substr(all.rfind(") ") + 2));
    std::string word;
    long ticks = 0;
    for (int field = 3; rest >> word; ++field)
      if (field == 14 || field == 15) ticks += std::stol(word);
    return ticks;
  };
  const long before = used();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_EQ(used(), before) << "ticks of the inside";
}

TEST_F(sandbox_test, waits_for_places_in_fibers) {
  sandbox box(policy(), {.jobs = 2});
  int sum = 0;
  std::vector<muster::fiber> fibers;
  for (int f = 0; f < 10; ++f)
    fibers.emplace_back([&sum, &box, f] { sum += box.run([f](inside&) { return 1 << f; }).value(); });
  fibers.clear();
  EXPECT_EQ(sum, 1023);
}

TEST_F(sandbox_test, is_only_a_copy_in_a_child_of_the_program) {
  std::optional<sandbox> box;
  int words[2];
  ASSERT_EQ(::pipe(words), 0);
  const int before = ::dup(0);
  ::dup2(words[0], 0);
  box.emplace(policy(), sandbox_options{.standard_streams = true});
  const pid_t child = ::fork();
  if (child == 0) {
    box.reset();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(box->run([](inside&) { return 5; }).value(), 5) << box->end().text();
  EXPECT_EQ(::write(words[1], "seven", 5), 5);
  EXPECT_EQ(box->run([](inside& in, window w) { return in.read(0, w); }).value(), 5) << "calls that wait continue";
  ::dup2(before, 0);
  for (const int file : {words[0], words[1], before}) ::close(file);
}

// The parent's other threads wait for a place, and so hold the mutex or wait at its condition in the child forever.
TEST_F(sandbox_test, is_only_a_copy_in_a_child_while_threads_wait_for_a_place) {
  std::optional<sandbox> box(std::in_place, policy(), sandbox_options{.jobs = 1});
  auto job = box->submit([](inside&) {
    for (;;) muster::pause();
  });
  std::vector<std::jthread> waiting;
  for (int i = 0; i < 2; ++i)
    waiting.emplace_back([&] { EXPECT_THROW(box->submit([](inside&) { return 1; }), muster::sandbox_error); });
  for (int n = 0; n < 5; ++n) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      {
        const auto own = std::move(job);
      }
      box.reset();
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  box->stop();
}

/// Gives up the ids of root, in a child; returns its exit status.
template <class F>
int without_rights(const F& function) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::_exit(function());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST_F(sandbox_test, says_that_it_cannot_end_what_runs_with_rights_given_up) {
  if (::geteuid() != 0) GTEST_SKIP() << "the program has no rights that it could give up";
  EXPECT_EQ(without_rights([] {
              sandbox box(policy().time(1));
              auto job = box.submit([](inside&) {
                for (;;) muster::pause();
              });
              if (::setresuid(65534, 65534, 65534) != 0) return 1;
              try {
                box.stop();
                return 2;
              } catch (const std::system_error& error) {
                if (error.code().value() != EPERM) return 3;
              }
              return box.wait().why == muster::sandbox_end::reason::running ? 4 : 0;
            }),
            0);
}

TEST_F(sandbox_test, that_has_ended_needs_no_rights_to_be_destroyed) {
  if (::geteuid() != 0) GTEST_SKIP() << "the program has no rights that it could give up";
  EXPECT_EQ(without_rights([] {
              sandbox box{policy()};
              auto job = box.submit([](inside&) { ::_exit(7); });
              const int process = static_cast<int>(::syscall(SYS_pidfd_open, box.process(), 0));
              if (::setresuid(65534, 65534, 65534) != 0) return 1;
              // Its end may not have been noticed yet.
              pollfd ended{process, POLLIN, 0};
              if (::poll(&ended, 1, 30'000) != 1) return 2;
              return box.stop().code == 7 ? 0 : 3;
            }),
            0);
}

TEST_F(sandbox_test, of_a_zygote_can_be_ended_by_a_program_without_rights) {
  if (::geteuid() != 0) GTEST_SKIP() << "the program has no rights that it could give up";
  EXPECT_EQ(without_rights([] {
              muster::zygote from;
              sandbox box(from, policy());
              auto job = box.submit([](inside&) {
                for (;;) muster::pause();
              });
              if (::setresuid(65534, 65534, 65534) != 0) return 1;
              return box.stop().why == muster::sandbox_end::reason::stopped ? 0 : 2;
            }),
            0);
}

// The program's worker keeps all of its descriptors open.
TEST_F(sandbox_test, of_a_zygote_ends_with_its_program_though_a_child_of_that_lives) {
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const pid_t program = ::fork();
  if (program == 0) {
    muster::zygote from;
    sandbox box(from, policy());
    const pid_t worker = ::fork();
    if (worker == 0)
      for (;;) ::pause();
    const pid_t both[] = {box.process(), worker};
    static_cast<void>(::write(told[1], both, sizeof both) == 0);
    for (;;) ::pause();
  }
  pid_t both[2] = {};
  ASSERT_EQ(::read(told[0], both, sizeof both), ssize_t{sizeof both});
  const int inside_of_it = static_cast<int>(::syscall(SYS_pidfd_open, both[0], 0));
  ASSERT_GE(inside_of_it, 0);
  ::kill(program, SIGKILL);
  ::waitpid(program, nullptr, 0);
  pollfd ended{inside_of_it, POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 60'000), 1);
  ::kill(both[1], SIGKILL);
  for (const int file : {told[0], told[1], inside_of_it}) ::close(file);
}

TEST_F(sandbox_test, fits_into_little_memory) {
  sandbox box(policy().memory(64U << 10U));
  EXPECT_EQ(box.run([](inside&) { return 5; }).value(), 5);
}

TEST_F(sandbox_test, stops_while_a_terminal_that_is_lent_is_full) {
  const int other_end = ::posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(other_end, 0);
  ASSERT_EQ(::grantpt(other_end) | ::unlockpt(other_end), 0);
  const int terminal = ::open(::ptsname(other_end), O_RDWR | O_NOCTTY), before = ::dup(1);
  std::fflush(stdout);
  ::dup2(terminal, 1);
  {
    sandbox box(policy(), {.standard_streams = true});
    auto job = box.submit([](inside& in, window w) {
      std::memset(w.data(), '\n', w.size());  // a terminal shows two characters for each
      for (;;) in.write(1, w);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(box.stop().why, reason::stopped);
  }
  ::dup2(before, 1);
  for (const int file : {other_end, terminal, before}) ::close(file);
}

// Both threads of its broker see the same byte.
TEST_F(sandbox_test, stops_while_two_calls_wait_for_a_stream_that_is_lent) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const int before = ::dup(0);
  ::dup2(pipe[0], 0);
  for (unsigned round = 0; round < 20; ++round) {
    sandbox box(policy(), {.broker_threads = 2, .standard_streams = true});
    std::vector<sandbox::job<std::int64_t>> jobs;
    for (int i = 0; i < 2; ++i) jobs.push_back(box.submit([](inside& in, window w) { return in.read(0, w); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(::write(pipe[1], "x", 1), 1);
    while (!jobs[0].done() && !jobs[1].done()) std::this_thread::yield();
    EXPECT_EQ(box.stop().why, reason::stopped);
  }
  ::dup2(before, 0);
  for (const int file : {pipe[0], pipe[1], before}) ::close(file);
}

TEST_F(sandbox_test, stops_while_a_stream_that_is_lent_is_full) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const int before = ::dup(1);
  std::fflush(stdout);
  ::dup2(pipe[1], 1);
  {
    sandbox box(policy(), {.standard_streams = true});
    auto job = box.submit([](inside& in, window w) {
      std::int64_t all = 0;
      for (;;) all += in.write(1, w);
      return all;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(box.stop().why, reason::stopped);
  }
  ::dup2(before, 1);
  for (const int file : {pipe[0], pipe[1], before}) ::close(file);
}

// -------------------------------------------------------------------------------------------------------- by a zygote

TEST_F(sandbox_test, is_made_by_a_zygote) {
  seen_by_jobs = 7;
  muster::zygote early;
  seen_by_jobs = 8;
  {
    sandbox box(early, reads());
    EXPECT_EQ(box.run([](inside&) { return seen_by_jobs; }).value(), 7) << "as it was when the zygote was made";
    const text name = path("file");
    EXPECT_EQ(box.run([name](inside& in, window w) { return in.read(in.open(name.at), w); }).value(), 14);
    EXPECT_EQ(box.run([](inside&) { return ::open("/etc/passwd", O_RDONLY); }).value(), -1);
    EXPECT_EQ(box.stop().why, reason::stopped);
  }
  sandbox exits(early, policy());
  EXPECT_EQ(exits.run([](inside&) { ::_exit(9); }).end().code, 9);
  sandbox faults(early, policy());
  EXPECT_EQ(faults.run([](inside&) { __builtin_trap(); }).end().code, SIGILL);
  sandbox never(early, policy().time(1));
  EXPECT_EQ(never
                .run([](inside&) {
                  for (std::atomic<bool> go{true}; go;) {
                  }
                })
                .end()
                .why,
            reason::out_of_time);
}

TEST_F(sandbox_test, is_made_by_one_zygote_for_many_threads) {
  muster::zygote early;
  const std::size_t before = files_open();
  std::vector<std::thread> threads;
  std::atomic<int> sum{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        sandbox box(early, policy());
        sum += box.run([t, i](inside&) { return 10 * t + i; }).value();
      }
    });
  for (std::thread& one : threads) one.join();
  EXPECT_EQ(sum, 10 * (0 + 10 + 20 + 30) + 4 * 45);
  EXPECT_EQ(files_open(), before);
}

/// The children of a process.
std::set<int> children_of(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/task/" + std::to_string(process) + "/children");
  return {std::istream_iterator<int>(file), {}};
}
/// Waits until a zygote that has no sandboxes has one child.
int await_spare(const muster::zygote& early) {
  for (;;)
    if (const std::set<int> all = children_of(early.process()); all.size() == 1) return *all.begin();
}

TEST_F(sandbox_test, is_made_of_a_process_that_the_zygote_has_prepared) {
  if (!std::ifstream("/proc/self/task/" + std::to_string(::getpid()) + "/children"))
    GTEST_SKIP() << "/proc does not show the children of a process";
  seen_by_jobs = 7;
  muster::zygote early;
  seen_by_jobs = 8;
  const auto fresh = [&](const policy& rules) { return sandbox(early, rules).process(); };
  const std::set<int> forked{fresh(policy()), fresh(policy())};
  const int spare = await_spare(early);
  EXPECT_FALSE(forked.contains(spare));
  // For other kinds of sandboxes it is not taken.
  EXPECT_NE(fresh(reads()), spare);
  EXPECT_NE(sandbox(early, policy(), {.jobs = 2}).process(), spare);
  EXPECT_NE(sandbox(early, policy(), {.name_spaces = false}).process(), spare);
  {
    sandbox box(early, policy());
    EXPECT_EQ(box.process(), spare);
    EXPECT_EQ(box.run([](inside&) { return seen_by_jobs; }).value(), 7);
    EXPECT_EQ(box.run([](inside& in) { return in.getppid(); }).value(), ::getppid());
    EXPECT_EQ(box.missing_layers(), sandbox(policy()).missing_layers());
    EXPECT_TRUE(fs::is_empty("/proc/" + std::to_string(spare) + "/fd"));
  }

  // One with limits has them, those of its own policy.
  fresh(reads());
  fresh(reads());
  const int other = await_spare(early);
  EXPECT_NE(other, spare);
  sandbox box(early, policy().read(root_.string()).memory(32U << 20U).time(1));
  EXPECT_EQ(box.process(), other);
  const text name = path("file");
  EXPECT_EQ(box.run([name](inside& in, window w) { return in.read(in.open(name.at), w); }).value(), 14);
  EXPECT_TRUE(box.run([](inside&) {
                   return ::mmap(nullptr, 33U << 20U, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
                          MAP_FAILED;
                 })
                  .value());
  EXPECT_TRUE(box.run([](inside&) {
                   return ::mmap(nullptr, 31U << 20U, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
                          MAP_FAILED;
                 })
                  .value());
  const auto late = box.run([](inside& in) {
    for (;;) in.getppid();
  });
  EXPECT_EQ(late.end().why, reason::out_of_time);
}

TEST_F(sandbox_test, is_forked_by_a_zygote_that_prepares_none) {
  muster::zygote early({.prepared = 0});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sandbox(early, policy()).run([](inside&) { return 5; }).value(), 5);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a spare would be forked after 5 ms
  EXPECT_TRUE(children_of(early.process()).empty());
}

TEST_F(sandbox_test, is_prepared_for_the_kind_that_is_ordered_now) {
  if (!std::ifstream("/proc/self/task/" + std::to_string(::getpid()) + "/children"))
    GTEST_SKIP() << "/proc does not show the children of a process";
  muster::zygote early;
  for (int i = 0; i < 2; ++i) const sandbox box(early, policy());
  const int spare = await_spare(early);
  for (int i = 0; i < 2; ++i) const sandbox box(early, reads());
  int other = spare;
  for (int i = 0; i < 10'000 && other == spare; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    other = await_spare(early);
  }
  EXPECT_NE(other, spare);
  EXPECT_EQ(sandbox(early, reads()).process(), other);
}

TEST_F(sandbox_test, ends_with_its_zygote) {
  std::optional<muster::zygote> early(std::in_place);
  sandbox box(*early, policy());
  auto job = box.submit([](inside& in) {
    for (;;) in.getppid();
  });
  early.reset();
  const auto result = job.get();
  EXPECT_FALSE(result);
  EXPECT_NE(result.end().why, reason::running);
  EXPECT_NE(box.end().why, reason::running);
}

// -------------------------------------------------------------------------------------------------------- who attacks

TEST_F(sandbox_test, has_nothing_that_the_program_shares_with_others) {
  const std::string name = (root_ / "file").string();
  const int file = ::open(name.c_str(), O_RDWR);
  void* const shared = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ASSERT_NE(shared, MAP_FAILED);
  sandbox other{writes()};
  sandbox box(policy().memory(1U << 20U));
  const auto result = box.run([shared](inside&) {
    *static_cast<volatile char*>(shared) = 'X';
    return 1;
  });
  EXPECT_EQ(result.end().why, reason::by_signal) << result.why();
  EXPECT_EQ(*static_cast<char*>(shared), 'o');
  ::munmap(shared, 4096);
  ::close(file);
  EXPECT_EQ(other.run([](inside&) { return 2; }).value(), 2);
}

TEST_F(sandbox_test, has_nothing_that_a_zygotes_program_shared_with_others) {
  void* const shared = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  *static_cast<char*>(shared) = 'o';
  muster::zygote early;
  sandbox other(early, policy(), {.jobs = 20, .stack_bytes = 64U << 10U});
  for (int i = 0; i < 2; ++i) {
    sandbox box(early, policy());
    const auto result = box.run([shared](inside&) {
      *static_cast<volatile char*>(shared) = 'X';
      return 1;
    });
    EXPECT_EQ(result.end().why, reason::by_signal) << result.why();
    EXPECT_EQ(*static_cast<char*>(shared), 'o');
  }
  ::munmap(shared, 4096);
  EXPECT_EQ(other.run([](inside&) { return 2; }).value(), 2);
}

TEST_F(sandbox_test, counts_memory_that_is_not_to_be_written_any_more) {
  sandbox box(policy().memory(16U << 20U));
  EXPECT_LE(box.run([](inside&) {
                 constexpr std::size_t piece = 1U << 20U;
                 std::size_t all = 0;
                 for (; all < 64 * piece; all += piece) {
                   void* const more =
                       ::mmap(nullptr, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                   if (more == MAP_FAILED) break;
                   std::memset(more, 1, piece);
                   ::mprotect(more, piece, PROT_READ);
                 }
                 return all >> 20U;
               })
                .value(),
            16U);
}

TEST_F(sandbox_test, tells_of_its_layers_as_they_were) {
  sandbox box{policy()};
  const auto before = box.missing_layers();
  static_cast<void>(box.run([](inside&, window w) {
    std::byte* const begin = w.data() - w.size() % 4096;
    // All that lies before the windows, byte for byte.
    for (std::byte* at = begin - 64 * (std::size_t{64} << 10U); at != begin; ++at) *at = std::byte{38};
    return 1;
  }));
  EXPECT_EQ(box.missing_layers(), before);
}

TEST_F(sandbox_test, sees_no_clocks_of_others) {
  sandbox box{policy()};
  EXPECT_EQ(box.run([outside = ::getpid()](inside&) {
                 timespec now{};
                 return ::clock_gettime((~static_cast<clockid_t>(outside) << 3) | 2, &now);
               })
                .value(),
            -1);
}

/// Code that writes anything over all memory that both sides share. The outside keeps working, and can end it any time.
TEST_F(sandbox_test, survives_an_inside_that_writes_everywhere) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    sandbox box(reads(), {.jobs = 2, .window_bytes = 4096});
    auto attack = box.submit([seed](inside& in, window w) {
      // The arena begins somewhere before the window, at a page.
      std::byte* const end = w.data() + w.size();
      std::byte* begin = w.data() - 64 * (std::size_t{64} << 10U);
      begin -= 5 * 4096;
      std::mt19937_64 random(seed);
      for (std::uint64_t i = 0;; ++i) {
        const std::size_t at = i % 4 != 0 ? random() % (5 * 4096) : random() % static_cast<std::size_t>(end - begin);
        reinterpret_cast<std::atomic<std::uint64_t>*>(begin + at / 8 * 8)
            ->store(random() % 4 == 0 ? random() : random() % 64, std::memory_order_relaxed);
        if (i % 1024 == 0) in.refuse(1);
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    const sandbox_end how = box.stop();
    EXPECT_TRUE(how.why == reason::stopped || how.why == reason::by_signal) << how.text();
    EXPECT_FALSE(attack.get());
  }
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(std::ifstream(root_ / "file").rdbuf()), {}),
            "one\ntwo\nthree\n");
}

}  // namespace
