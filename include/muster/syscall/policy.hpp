// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// policy.hpp: the rights of code in a sandbox besides computing: the files it may read and write, the ports of this
// machine it may use, and limits on memory, time and open files. Without a rule it may do nothing.
//
// Text       one rule per line:
//              read PATH       a file, or everything beneath a directory; links that stay beneath it are followed
//              write PATH      the same, and it may be changed, created and removed; no link is followed to write
//              connect PORT    to a TCP port of this machine, by its loopback address
//              listen PORT     on a TCP port of this machine, at its loopback address
//              memory SIZE     bytes, or with K, M or G; without the rule there is only the initial memory
//              memory SIZE executable   and it may be executed: for code that loads libraries
//              disk SIZE       for all files it writes, including removed ones; no limit without the rule
//              files COUNT     open at once; 64 without the rule
//              time SECONDS    of processor time, its own and its broker's together; it is killed after them
//              refuse kill     a call that is not allowed ends it; without the rule the call fails with EPERM
//            A # begins a comment. A path begins with / and has no . or .. part. One with spaces, quotes, # or one
//            of * ? [ must be in "quotes", where \" and \\ stand for " and \, and \x with two hexadecimal digits for
//            a byte. There are no patterns.
// Several    if two rules for paths match, the longer one applies. Any other rule except for ports may occur once.
// Opened     directories are opened when the rule is made, and are found even if they are renamed later.
// Cost       find(): O(rules) comparisons of the path; no system call and no allocation. A rule for a path: O(rules),
//            and a few system calls when it is made; so parse() is quadratic in these rules.
// Errors     policy_error, a std::invalid_argument, which names the line, the word and the allowed words.
// Threads    several threads may use a policy at once while none changes it. Copies share the opened directories.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <fcntl.h>          // open
#include <sys/stat.h>       // fstat
#include <sys/sysmacros.h>  // makedev
#include <unistd.h>         // close

#include <algorithm>     // std::ranges::find_if
#include <array>         // the words
#include <cerrno>        // errno
#include <charconv>      // std::from_chars
#include <cstddef>       // std::size_t
#include <cstdint>       // std::uint16_t
#include <cstdlib>       // realpath
#include <limits>        // the largest size
#include <memory>        // std::shared_ptr
#include <optional>      // limits
#include <stdexcept>     // std::invalid_argument
#include <string>        // paths
#include <string_view>   // text
#include <system_error>  // std::generic_category
#include <utility>       // std::move
#include <vector>        // rules

namespace muster::inline MUSTER_ABI {

/// The error in a policy, and its place.
class policy_error : public std::invalid_argument {
 public:
  /// With the message, the line and the word.
  policy_error(const std::string& what, std::size_t line, std::string word)
      : std::invalid_argument(what), line_(line), word_(std::move(word)) {}
  /// Counted from 1; 0 for a rule that is not from text.
  std::size_t line() const noexcept { return line_; }
  /// The word that is wrong.
  const std::string& word() const noexcept { return word_; }

 private:
  std::size_t line_;
  std::string word_;
};

class policy {
 public:
  /// The access that a rule allows: to read, or also to write.
  enum class access {
    read,   ///< reading
    write,  ///< reading, writing, creating and removing
  };
  /// The effect of a call that is not allowed: it fails, or it ends the sandbox.
  enum class refusal {
    fail,  ///< the call fails with EPERM
    kill,  ///< the inside is killed
  };

  /// A file, or a directory and everything beneath it.
  class place {
   public:
    /// The path, as it was written.
    const std::string& path() const noexcept { return path_; }
    /// The access that the rule allows.
    access may() const noexcept { return may_; }
    /// An open directory: the place itself, or the directory of the file called name().
    int directory() const noexcept { return directory_->number; }
    /// The name of the file in directory(); empty for a directory.
    const std::string& name() const noexcept { return name_; }

   private:
    friend policy;
    struct descriptor {
      explicit descriptor(int number_in) noexcept : number(number_in) {}
      ~descriptor() {
        if (number >= 0) ::close(number);
      }
      descriptor(const descriptor&) = delete;
      descriptor& operator=(const descriptor&) = delete;
      const int number;
    };
    std::string path_, real_;  // as written; with links resolved
    access may_ = access::read;
    std::shared_ptr<const descriptor> directory_;
    std::string name_;
  };

  /// Allows nothing.
  policy() = default;
  /// Reads rules, one a line. Messages of errors begin with `name`, as a compiler's begin with the file.
  static policy parse(std::string_view text, const std::string& name = "policy");

  // --- Rules in code; each returns the policy.

  /// Allows reading a file, or everything beneath a directory. It must exist. Throws policy_error.
  policy& read(std::string_view path) { return add_place(path, access::read), *this; }
  /// As read, and allows writing, creating and removing.
  policy& write(std::string_view path) { return add_place(path, access::write), *this; }
  /// Allows connections to a TCP port of this machine.
  policy& connect(std::uint16_t port) { return connect_.push_back(checked_port(port)), *this; }
  /// Allows accepting connections at a TCP port of this machine.
  policy& listen(std::uint16_t port) { return listen_.push_back(checked_port(port)), *this; }
  /// Allows that many bytes of memory besides stacks and windows, and on request memory that may be executed.
  policy& memory(std::size_t bytes, bool executable = false) {
    memory_ = checked(bytes, "memory", least_memory);
    executable_ = executable;
    return *this;
  }
  /// Allows that many open files and sockets at once, 4000 at most.
  policy& files(unsigned count) {
    files_ = checked(count, "files", 1U);
    if (count > most_files) fail("files must be at most 4000", std::to_string(count));
    return *this;
  }
  /// Allows files to grow by that many bytes in all.
  policy& disk(std::size_t bytes) { return disk_ = checked(bytes, "disk", std::size_t{1}), *this; }
  /// Allows that many seconds of processor time.
  policy& time(unsigned seconds) { return time_ = checked(seconds, "time", 1U), *this; }
  /// Chooses what a call does that is not allowed.
  policy& on_refusal(refusal what) { return refuse_ = what, *this; }

  // --- Accessors.

  /// The places that may be read or written.
  const std::vector<place>& places() const noexcept { return places_; }
  /// The ports of connect().
  const std::vector<std::uint16_t>& connects() const noexcept { return connect_; }
  /// The ports of listen().
  const std::vector<std::uint16_t>& listens() const noexcept { return listen_; }
  /// The limit of memory(); nothing without the rule.
  std::optional<std::size_t> memory() const noexcept { return memory_; }
  /// Returns true if memory may be executed.
  bool executable() const noexcept { return executable_; }
  /// The limit of files(); 64 without the rule.
  unsigned files() const noexcept { return files_.value_or(usual_files); }
  /// The limit of disk(); nothing without the rule.
  std::optional<std::size_t> disk() const noexcept { return disk_; }
  /// The limit of time(); nothing without the rule.
  std::optional<unsigned> time() const noexcept { return time_; }
  /// The choice of on_refusal(); without the rule, the call fails.
  refusal on_refusal() const noexcept { return refuse_.value_or(refusal::fail); }

  /// Returns the rule for a path, and in `rest` the path beneath the rule's directory: "." for the directory itself.
  /// Returns null if there is none, or if no rule could have the path. Both results live as long as `path`.
  const place* find(std::string_view path, std::string_view& rest) const noexcept;

  /// Returns true if the place of a rule is the path or lies beneath it.
  bool has_place_beneath(std::string_view path) const noexcept {
    return std::ranges::any_of(places_, [&](const place& one) { return is_beneath(one.path_, path); });
  }

  /// The one device that code may have: reads return nothing, and writes are discarded.
  static bool is_null_device(const struct stat& found) noexcept {
    return S_ISCHR(found.st_mode) && found.st_rdev == makedev(1, 3);
  }
  /// Returns a path as written in a rule, quoted if necessary; empty if no rule can have it.
  static std::string word_for(const std::string& path) { return is_plain(path) ? as_written(path) : std::string{}; }
  /// Returns the text with all bytes that should not be shown as \x and two digits, and with backslashes doubled. These
  /// are bytes outside a character of UTF-8, and those of characters that move a terminal's cursor, begin a line or
  /// change the order of others: controls, U+2028 and U+2029, and the marks of direction. The text may come from an
  /// inside.
  static std::string shown(std::string_view text);
  /// The rules as text, from which parse() makes an equal policy.
  std::string text() const;

 private:
  static constexpr unsigned usual_files = 64, most_files = 4000;
  static constexpr std::size_t least_memory = std::size_t{1} << 16U;
  static constexpr std::array<std::string_view, 9> words{"read", "write", "connect", "listen", "memory",
                                                         "disk", "files", "time",    "refuse"};

  class reader;

  [[noreturn]] static void fail(const std::string& why, std::string_view word) {
    throw policy_error("policy: " + why, 0, std::string(word));
  }
  static std::string quoted(std::string_view word) { return '\'' + shown(word) + '\''; }
  static bool is_plain(std::string_view path) noexcept;
  static std::size_t shown_length(std::string_view text) noexcept;
  static bool is_beneath(std::string_view path, std::string_view directory) noexcept {
    return path.starts_with(directory) &&
           (path.size() == directory.size() || directory == "/" || path[directory.size()] == '/');
  }
  static std::uint16_t checked_port(std::uint16_t port) {
    if (port == 0) fail("0 is not a port; ports begin at 1", "0");
    return port;
  }
  template <class T>
  static T checked(T given, const char* rule, T least) {
    if (given < least)
      fail(std::string(rule) + ' ' + std::to_string(given) + " is too little; it must be at least " +
               std::to_string(least),
           std::to_string(given));
    return given;
  }
  static std::string as_written(const std::string& path);
  void add_place(std::string_view path, access may);
  void check_links(place& made) const;

  std::vector<place> places_;
  std::vector<std::uint16_t> connect_, listen_;
  std::optional<std::size_t> memory_, disk_;
  bool executable_ = false;
  std::optional<unsigned> files_, time_;
  std::optional<refusal> refuse_;
};

/// Returns true if it begins with a slash, no part is empty, . or .., and none holds a zero byte or a newline.
inline bool policy::is_plain(std::string_view path) noexcept {
  if (path.empty() || path[0] != '/' || path.find('\0') != path.npos || path.find('\n') != path.npos) return false;
  if (path == "/") return true;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at + 1), path.size());
    const std::string_view part = path.substr(at + 1, end - at - 1);
    if (part.empty() || part == "." || part == "..") return false;
    at = end;
  }
  return true;
}

inline void policy::add_place(std::string_view path, access may) {
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  if (!is_plain(path))
    fail(quoted(path) + " is not a path for a rule: it must begin with / and contain no . or .. and no empty part",
         path);
  if (std::ranges::any_of(places_, [&](const place& one) { return one.path_ == path; }))
    fail("there are two rules for " + quoted(path) + "; leave one (what may be written may be read)", path);

  place made;
  made.path_ = path;
  made.may_ = may;
  const int there = ::open(made.path_.c_str(), O_PATH | O_CLOEXEC);
  if (there < 0)
    fail("cannot open " + quoted(path) + ": " + std::generic_category().message(errno) +
             "; a rule names something that exists: name the directory in which it will be made",
         path);
  made.directory_ = std::make_shared<const place::descriptor>(there);
  check_links(made);
  struct stat found{};
  if (::fstat(there, &found) == 0 && S_ISDIR(found.st_mode)) {
    places_.push_back(std::move(made));
    return;
  }
  if (!S_ISREG(found.st_mode) && !is_null_device(found))
    fail(
        quoted(path) +
            " is neither a file nor a directory; a rule cannot name a socket, a pipe, or a device other than /dev/null",
        path);
  // By its name, so the rule also holds for a file that replaces it.
  const std::size_t slash = made.path_.rfind('/');
  made.name_ = made.path_.substr(slash + 1);
  const std::string parent = slash == 0 ? "/" : made.path_.substr(0, slash);
  const int directory = ::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) fail("cannot open " + quoted(parent) + ": " + std::generic_category().message(errno), path);
  made.directory_ = std::make_shared<const place::descriptor>(directory);
  if (::fstatat(directory, made.name_.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(found.st_mode))
    fail(quoted(path) + " is a symbolic link to a file, which a rule does not follow; name the file that it points to",
         path);
  places_.push_back(std::move(made));
}

/// Rules go by names. So a writable place must be named without links, and a readable place within it must be named
/// through it: otherwise one place would have two rules.
inline void policy::check_links(place& made) const {
  char* const real = ::realpath(made.path_.c_str(), nullptr);
  made.real_ = real != nullptr ? real : made.path_;
  std::free(real);
  if (made.may_ == access::write && made.real_ != made.path_)
    fail(quoted(made.path_) + " leads over a link to " + quoted(made.real_) + "; name that in a rule to write",
         made.path_);
  const auto check = [&](const place& writes, const place& reads) {
    if (writes.may_ == access::write && is_beneath(reads.real_, writes.path_) && !is_beneath(reads.path_, writes.path_))
      fail(quoted(reads.path_) + " leads over a link to " + quoted(reads.real_) + ", which the rule for " +
               quoted(writes.path_) + " lets be written; name that",
           made.path_);
  };
  for (const place& other : places_) {
    check(made, other);
    check(other, made);
  }
}

inline const policy::place* policy::find(std::string_view path, std::string_view& rest) const noexcept {
  if (!is_plain(path)) return nullptr;
  const place* longest = nullptr;
  for (const place& one : places_)
    if (one.name_.empty() ? is_beneath(path, one.path_) : path == one.path_)
      if (longest == nullptr || one.path_.size() > longest->path_.size()) longest = &one;
  if (longest == nullptr) return nullptr;
  if (!longest->name_.empty()) {
    rest = longest->name_;
  } else if (path.size() == longest->path_.size()) {
    rest = ".";
  } else {
    rest = path.substr(longest->path_.size() + (longest->path_ == "/" ? 0 : 1));
  }
  return longest;
}

/// Returns the length of the first character; 0 if its first byte should not be shown.
inline std::size_t policy::shown_length(std::string_view text) noexcept {
  const auto byte = [text](std::size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U; };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return first < 0x20 || first == 0x7f ? 0 : 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  // The second byte excludes forms that are longer than necessary, surrogates, and numbers above U+10FFFF.
  const unsigned least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (second < least || second > most) return 0;
  const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  std::uint32_t number = first & (0x7fU >> length);
  for (std::size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xc0U) != 0x80) return 0;
    number = number << 6U | (byte(at) & 0x3fU);
  }
  const bool ends_a_line = number == 0x2028 || number == 0x2029;
  const bool directs = number == 0x61c || number == 0x200e || number == 0x200f ||
                       (number >= 0x202a && number <= 0x202e) || (number >= 0x2066 && number <= 0x2069);
  return number < 0xa0 || ends_a_line || directs ? 0 : length;
}

inline std::string policy::shown(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string all;
  while (!text.empty()) {
    const std::size_t length = shown_length(text);
    if (length == 0) {
      const auto byte = static_cast<unsigned char>(text[0]);
      all += {'\\', 'x', digits[byte / 16], digits[byte % 16]};
    } else {
      if (text[0] == '\\') all += '\\';
      all += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return all;
}

inline std::string policy::as_written(const std::string& path) {
  const std::string all = shown(path);
  if (all == path && path.find_first_of(" \"#*?[") == path.npos) return path;
  std::string quoted = "\"";
  for (const char c : all) {
    if (c == '"') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

inline std::string policy::text() const {
  std::string all;
  for (const place& one : places_)
    all += (one.may_ == access::read ? "read " : "write ") + as_written(one.path_) + '\n';
  for (const std::uint16_t port : connect_) all += "connect " + std::to_string(port) + '\n';
  for (const std::uint16_t port : listen_) all += "listen " + std::to_string(port) + '\n';
  const auto size = [](std::size_t bytes) {
    unsigned units = 0;  // the largest unit that represents the size exactly
    while (units < 3 && bytes % (std::size_t{1024} << 10 * units) == 0) ++units;
    return std::to_string(bytes >> (10 * units)) + std::array{"", "K", "M", "G"}[units];
  };
  if (memory_) all += "memory " + size(*memory_) + (executable_ ? " executable\n" : "\n");
  if (disk_) all += "disk " + size(*disk_) + '\n';
  if (files_) all += "files " + std::to_string(*files_) + '\n';
  if (time_) all += "time " + std::to_string(*time_) + '\n';
  if (refuse_) all += *refuse_ == refusal::kill ? "refuse kill\n" : "refuse fail\n";
  return all;
}

// -------------------------------------------------------------------------------------------------------------- text

/// Reads a policy line by line, and a line word by word.
class policy::reader {
 public:
  reader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  policy all() {
    policy made;
    for (std::size_t at = 0; at <= text_.size(); ++line_) {
      const std::size_t end = std::min(text_.find('\n', at), text_.size());
      left_ = text_.substr(at, end - at);
      if (left_.ends_with('\r')) left_.remove_suffix(1);
      at = end + 1;
      if (const std::optional<std::string> first = word()) rule(made, *first);
    }
    return made;
  }

 private:
  [[noreturn]] void fail(const std::string& why, const std::string& word) const {
    throw policy_error(name_ + ':' + std::to_string(line_) + ": " + why, line_, word);
  }

  /// Returns the next word of the line; nothing at its end.
  std::optional<std::string> word() {
    const std::size_t begin = left_.find_first_not_of(" \t");
    if (begin == left_.npos || left_[begin] == '#') return std::nullopt;
    left_.remove_prefix(begin);
    is_quoted_ = left_[0] == '"';
    if (is_quoted_) return quoted_word();
    const std::size_t end = std::min(left_.find_first_of(" \t#\""), left_.size());
    std::string found(left_.substr(0, end));
    left_.remove_prefix(end);
    if (left_.starts_with('"'))
      fail("a quote within the word " + quoted(found) + "; put quotes around all of it", found);
    return found;
  }
  std::string quoted_word() {
    std::string found;
    for (std::size_t at = 1; at < left_.size(); ++at) {
      if (left_[at] == '"') {
        left_.remove_prefix(at + 1);
        return found;
      }
      if (left_[at] != '\\') {
        found += left_[at];
        continue;
      }
      ++at;
      unsigned byte = 0;
      const std::string digits(left_.substr(std::min(at + 1, left_.size()), 2));
      const char* const end = digits.data() + digits.size();
      if (digits.size() == 2 && left_[at] == 'x' && std::from_chars(digits.data(), end, byte, 16).ptr == end) {
        found += static_cast<char>(byte);
        at += 2;
      } else if (at < left_.size() && (left_[at] == '"' || left_[at] == '\\')) {
        found += left_[at];
      } else {
        fail("within quotes, \\ must be followed by \", another \\, or x and two hexadecimal digits", found);
      }
    }
    fail("the quote before " + quoted(found) + " is not closed on its line", found);
  }

  void rule(policy& made, const std::string& first) {
    const auto known = std::ranges::find(words, first);
    if (is_quoted_ || known == words.end())
      fail("unknown rule " + quoted(first) +
               "; a line begins with read, write, connect, listen, memory, disk, files, time or "
               "refuse",
           first);
    const std::optional<std::string> second = word();
    if (!second) fail(first + " lacks its argument; " + needs(first), first);
    try {
      argument(made, first, *second);
    } catch (const policy_error& error) {
      if (error.line() != 0) throw;
      fail(std::string(error.what()).substr(sizeof("policy: ") - 1), error.word());
    }
    if (const std::optional<std::string> third = word())
      fail(quoted(*third) + " is unexpected; " + needs(first), *third);
  }

  void argument(policy& made, const std::string& first, const std::string& second) {
    if (first == "read" || first == "write") {
      if (!is_quoted_ && second.find_first_of("*?[") != second.npos)
        fail(quoted(second) +
                 " looks like a pattern, and a rule takes none: name the directory, for all its "
                 "files, or put the name in quotes if it has these characters",
             second);
      made.add_place(second, first == "read" ? access::read : access::write);
    } else if (first == "connect") {
      made.connect(static_cast<std::uint16_t>(number(first, second, 65535)));
    } else if (first == "listen") {
      made.listen(static_cast<std::uint16_t>(number(first, second, 65535)));
    } else if (first == "memory") {
      once(made.memory_.has_value(), first);
      const std::size_t bytes = size(first, second);
      const std::optional<std::string> third = word();
      if (third && *third != "executable")
        fail(quoted(*third) + " is unknown here; " + needs(first) + ", and executable perhaps", *third);
      made.memory(bytes, third.has_value());
    } else if (first == "disk") {
      once(made.disk_.has_value(), first);
      made.disk(size(first, second));
    } else if (first == "files") {
      once(made.files_.has_value(), first);
      made.files(static_cast<unsigned>(number(first, second, most_files)));
    } else if (first == "time") {
      once(made.time_.has_value(), first);
      made.time(static_cast<unsigned>(number(first, second, 1'000'000'000)));
    } else {
      once(made.refuse_.has_value(), first);
      if (second != "kill" && second != "fail") fail(quoted(second) + " is unknown here; " + needs(first), second);
      made.on_refusal(second == "kill" ? refusal::kill : refusal::fail);
    }
  }
  void once(bool is_there, const std::string& rule) const {
    if (is_there) fail("there are two rules " + quoted(rule) + "; leave one", rule);
  }
  std::size_t number(const std::string& rule, const std::string& word, std::size_t most) const {
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value > most)
      fail(quoted(word) + " is not a number from 1 to " + std::to_string(most) + "; " + needs(rule), word);
    return value;
  }
  std::size_t size(const std::string& rule, const std::string& word) const {
    std::size_t value = 0;
    const char* const last = word.data() + word.size();
    auto [end, error] = std::from_chars(word.data(), last, value);
    unsigned bits = 0;
    if (error == std::errc() && end + 1 == last) {
      bits = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
      if (bits != 0) ++end;
    }
    if (error != std::errc() || end != last || value > std::numeric_limits<std::size_t>::max() >> bits)
      fail(quoted(word) + " is not a size; " + needs(rule), word);
    return value << bits;
  }
  static std::string needs(std::string_view rule) {
    if (rule == "read" || rule == "write")
      return "after " + std::string(rule) + " comes one path, as in: read /usr/share";
    if (rule == "memory" || rule == "disk")
      return "after " + std::string(rule) + " comes a size in bytes, or with K, M or G, as in: " + std::string(rule) +
             " 256M";
    if (rule == "refuse") return "after refuse comes kill or fail";
    if (rule == "files") return "after files comes a number, as in: files 32";
    if (rule == "time") return "after time comes a number of seconds, as in: time 10";
    return "after " + std::string(rule) + " comes a port, as in: " + std::string(rule) + " 8080";
  }

  const std::string_view text_;
  const std::string& name_;
  std::size_t line_ = 1;
  std::string_view left_;  // of the line
  bool is_quoted_ = false;
};

inline policy policy::parse(std::string_view text, const std::string& name) { return reader(text, name).all(); }

}  // namespace muster::inline MUSTER_ABI
