// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "driver/claims.hpp"

namespace muster::bench {
namespace {

void append(std::string& to, const std::string& sentence) {
  if (!to.empty()) to += "; ";
  to += sentence;
}

}  // namespace

void claims::add(bool holds, const std::string& sentence) { append(holds ? here_ : not_here_, sentence); }
void claims::leave_open(const std::string& why) { append(open_, why); }

void claims::write(result& r) const {
  if (here_.empty() && not_here_.empty()) return;
  r.verdict = here_.empty() ? "not" : not_here_.empty() && open_.empty() ? "reproduced" : "partly";
  r.verdict_why.clear();
  const auto tell = [&](const char* what, const std::string& sentences) {
    if (sentences.empty()) return;
    if (!r.verdict_why.empty()) r.verdict_why += ". ";
    r.verdict_why += what + sentences;
  };
  tell("Here, too: ", here_);
  tell("Not here: ", not_here_);
  tell("Not judged: ", open_);
}

}  // namespace muster::bench
