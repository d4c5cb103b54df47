// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// mutation.cpp: see mutation.hpp.
#include "checker/mutation.hpp"

#include <string_view>

namespace muster_model {

namespace {

/// The orderings that are one step weaker than `o` and mean something for such an operation.
std::vector<order> weaker(order o, bool reads, bool writes) {
  switch (o) {
    case order::seq_cst:
      if (reads && writes) return {order::acq_rel};
      return {reads ? order::acquire : order::release};
    case order::acq_rel: return {order::acquire, order::release};
    case order::acquire:
    case order::release: return {order::relaxed};
    default: return {};
  }
}

}  // namespace

std::vector<mutation> mutations_of(const operation_site& site) {
  using kind = mutation::kind;
  std::vector<mutation> all;
  const auto add = [&](kind what, order to) { all.push_back({site, what, to}); };
  const bool is_load = site.operation == "load";
  const bool is_store = site.operation == "store";
  const bool is_fence = site.operation == "fence" || site.operation == "heavy_fence";
  if (site.operation == "futex_wait") return all;
  if (site.operation != "heavy_fence" && site.operation != "futex_wake")
    for (const order to : weaker(site.ordering, !is_store || is_fence, !is_load)) add(kind::weaker, to);
  for (const order to : weaker(site.failure, true, false)) add(kind::weaker_failure, to);
  if (!is_load) add(kind::skipped, order::relaxed);
  if (site.rereads) add(kind::repeated, order::relaxed);
  return all;
}

std::string mutation::describe() const {
  const std::string place = at.function + ": " + at.operation + " ";
  switch (what) {
    case kind::weaker: return place + name_of(at.ordering) + " -> " + name_of(to);
    case kind::weaker_failure: return place + "failure " + name_of(at.failure) + " -> " + name_of(to);
    case kind::skipped: return place + "skipped";
    case kind::repeated: return place + "repeated";
  }
  return place;
}

const char* name_of(order o) {
  switch (o) {
    case order::relaxed: return "relaxed";
    case order::consume: return "consume";
    case order::acquire: return "acquire";
    case order::release: return "release";
    case order::acq_rel: return "acq_rel";
    case order::seq_cst: return "seq_cst";
  }
  return "?";
}

std::string short_path(const char* path) {
  std::string_view file = path;
  std::size_t cut = file.rfind('/');
  if (cut != std::string_view::npos && cut != 0) cut = file.rfind('/', cut - 1);
  if (cut != std::string_view::npos) file.remove_prefix(cut + 1);
  return std::string(file);
}

std::string short_function(const char* signature) {
  // Without the text in <> and () and after [; then the last word, and of that the last two names.
  std::string name;
  int depth = 0;
  for (const char* c = signature; *c != '\0' && !(*c == '[' && depth == 0); ++c) {
    if (*c == '<' || *c == '(') ++depth;
    if (depth == 0) name += *c;
    if (*c == '>' || *c == ')') --depth;
  }
  // A lambda counts as the function that it stands in.
  for (const std::string_view word : {" const", " mutable", " noexcept"})
    for (std::size_t at; (at = name.find(word)) != std::string::npos;) name.erase(at, word.size());
  while (name.ends_with("::") || name.ends_with(" ")) name.pop_back();
  while (name.ends_with(":")) name.pop_back();
  if (const std::size_t space = name.rfind(' '); space != std::string::npos) name.erase(0, space + 1);
  std::size_t cut = name.rfind("::");
  if (cut != std::string::npos && cut != 0) cut = name.rfind("::", cut - 1);
  if (cut != std::string::npos) name.erase(0, cut + 2);
  return name;
}

}  // namespace muster_model
