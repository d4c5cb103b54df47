// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// command_line.hpp: the command line of a program. CLI11 takes longer to compile than a program that uses it, so it is
// compiled once, in command_line.cpp.
#pragma once

#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace examples {

class command_line {
 public:
  /// An option or argument, and its properties.
  class option {
   public:
    option& required();
    /// Its value is a number from `least` to `most`.
    option& in(long long least, long long most);
    /// Its value is one of these.
    option& among(std::initializer_list<std::string> values);
    /// The help shows its current value.
    option& shows_default();
    /// It requires `other`.
    option& needs(const option& other);

   private:
    friend class command_line;
    explicit option(CLI::Option* made) : made_(made) {}
    CLI::Option* made_;
  };

  command_line(const std::string& about, const std::string& program);

  /// Adds an option, if the name begins with a hyphen, or else an argument. A bool is a flag.
  option add(const std::string& name, std::string& value, const std::string& about);
  option add(const std::string& name, std::filesystem::path& value, const std::string& about);
  option add(const std::string& name, std::size_t& value, const std::string& about);
  option add(const std::string& name, unsigned& value, const std::string& about);
  option add(const std::string& name, bool& value, const std::string& about);
  /// Adds a command; the user must give exactly one.
  command_line add_command(const std::string& name, const std::string& about);

  /// Reads the arguments into the values. Returns the exit status if the program must end: 0 after printing the help,
  /// `wrong_usage` after reporting wrong arguments.
  std::optional<int> parse(int argc, char** argv, int wrong_usage);
  /// Reports an error in the value of `name`, in the words of parse(). Returns `wrong_usage`.
  int refuse(const std::string& name, const std::string& why, int wrong_usage);
  /// Returns true if this command was given.
  bool given() const;

 private:
  explicit command_line(std::shared_ptr<CLI::App> app) : app_(std::move(app)) {}
  std::shared_ptr<CLI::App> app_;
};

}  // namespace examples
