// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// command_line.cpp: the only source of the examples that includes CLI11.
#include "command_line.hpp"

#include <CLI/CLI.hpp>

#include <set>

namespace examples {

command_line::option& command_line::option::required() {
  made_->required();
  return *this;
}
command_line::option& command_line::option::in(long long least, long long most) {
  made_->check(CLI::Range(least, most));
  return *this;
}
command_line::option& command_line::option::among(std::initializer_list<std::string> values) {
  made_->check(CLI::IsMember(std::set<std::string>(values)));
  return *this;
}
command_line::option& command_line::option::shows_default() {
  made_->capture_default_str();
  return *this;
}
command_line::option& command_line::option::needs(const option& other) {
  made_->needs(other.made_);
  return *this;
}

command_line::command_line(const std::string& about, const std::string& program)
    : app_(std::make_shared<CLI::App>(about, program)) {}

command_line::option command_line::add(const std::string& name, std::string& value, const std::string& about) {
  return option(app_->add_option(name, value, about));
}
command_line::option command_line::add(const std::string& name, std::filesystem::path& value,
                                       const std::string& about) {
  return option(app_->add_option(name, value, about));
}
command_line::option command_line::add(const std::string& name, std::size_t& value, const std::string& about) {
  return option(app_->add_option(name, value, about));
}
command_line::option command_line::add(const std::string& name, unsigned& value, const std::string& about) {
  return option(app_->add_option(name, value, about));
}
command_line::option command_line::add(const std::string& name, bool& value, const std::string& about) {
  return option(app_->add_flag(name, value, about));
}

command_line command_line::add_command(const std::string& name, const std::string& about) {
  app_->require_subcommand(1);
  const auto command = std::make_shared<CLI::App>(about, name);
  app_->add_subcommand(command);
  return command_line(command);
}

std::optional<int> command_line::parse(int argc, char** argv, int wrong_usage) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app_->exit(error) == 0 ? 0 : wrong_usage;
  }
  return std::nullopt;
}

int command_line::refuse(const std::string& name, const std::string& why, int wrong_usage) {
  app_->exit(CLI::ValidationError(name, why));
  return wrong_usage;
}

bool command_line::given() const { return app_->parsed(); }

}  // namespace examples
