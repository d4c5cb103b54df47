// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// machine.hpp: describes the machine and the build that a result comes from.
#pragma once

#include "driver/contender.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace muster::bench {

nlohmann::json describe_machine();

/// True if there is an NVIDIA GPU. CUDA itself is not asked: it would be unusable in the runs, which are forked.
bool has_gpu();

/// Name, memory, driver and highest clock of the first GPU as nvidia-smi reports them, or its name alone; empty without
/// one.
const std::string& describe_gpu();

/// The version of a package of Debian; empty if it is not installed, or if none is named.
std::string package_version(const std::string& package);

/// The first line that a command of the shell prints; empty if the command fails, whatever it has printed.
std::string line_of(const std::string& command);

/// The average number of runnable threads over the last minute.
double load_average();

/// Commit, compiler, flags, and the installed version of each peer.
nlohmann::json describe_build(const catalogue& contenders);

}  // namespace muster::bench
