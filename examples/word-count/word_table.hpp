// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// word_table.hpp: counts words. A hash table for one thread.
//
// It is not std::unordered_map<std::string, …>, because nearly every call finds an existing word, and should do so with
// one cache miss and no allocation. Slots lie in one array (open addressing, linear probing, three quarters full at
// most) and store the whole hash, so that a probe rarely compares letters and growth never hashes again. The letters of
// all words are packed into a few large blocks. The hash is fast, and no defence against files made to collide.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace word_count {

/// Packs strings into blocks. A stored string stays where it is until the store is destroyed.
class string_store {
 public:
  string_store() = default;
  string_store(string_store&&) = default;
  string_store& operator=(string_store&&) = default;

  std::string_view add(std::string_view text) {
    if (text.size() > left_) {
      const std::size_t block = std::max(block_size, text.size());
      blocks_.push_back(std::make_unique_for_overwrite<char[]>(block));
      next_ = blocks_.back().get();
      left_ = block;
    }
    std::memcpy(next_, text.data(), text.size());
    const std::string_view stored(next_, text.size());
    next_ += text.size();
    left_ -= text.size();
    return stored;
  }

 private:
  static constexpr std::size_t block_size = 256 * 1024;

  std::vector<std::unique_ptr<char[]>> blocks_;
  char* next_ = nullptr;  // the unused end of the last block
  std::size_t left_ = 0;
};

/// Can be moved, not copied. A table that was moved from may only be destroyed or assigned to.
class word_table {
 public:
  struct entry {
    std::string_view word;
    std::uint64_t count;
  };

  /// Adds `count` to the word's count. Copies a word on its first occurrence.
  /// Throws std::bad_alloc if memory runs out; the table is then unchanged.
  void add(std::string_view word, std::uint64_t count = 1) { add(word, hash(word), count); }

  /// Adds every count of `other`.
  void merge(const word_table& other) {
    for (const slot& from : other.slots_)
      if (from.count != 0) add(from.word, from.hash, from.count);
  }

  /// Returns how often `word` was added.
  std::uint64_t count(std::string_view word) const { return slots_.empty() ? 0 : slots_[find(word, hash(word))].count; }

  std::uint64_t words() const { return words_; }
  std::size_t distinct() const { return distinct_; }

  /// The `k` most frequent words, or all when there are fewer; words of equal count in alphabetical order.
  std::vector<entry> top(std::size_t k) const {
    std::vector<entry> entries;
    entries.reserve(distinct_);
    for (const slot& at : slots_)
      if (at.count != 0) entries.push_back({at.word, at.count});
    const auto before = [](const entry& a, const entry& b) {
      return a.count != b.count ? a.count > b.count : a.word < b.word;
    };
    k = std::min(k, entries.size());
    std::partial_sort(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(k), entries.end(), before);
    entries.resize(k);
    return entries;
  }

  /// True when both hold the same words with the same counts.
  friend bool operator==(const word_table& a, const word_table& b) {
    if (a.words_ != b.words_ || a.distinct_ != b.distinct_) return false;
    return std::all_of(a.slots_.begin(), a.slots_.end(), [&b](const slot& at) {
      return at.count == 0 || b.slots_[b.find(at.word, at.hash)].count == at.count;
    });
  }

  /// Public so that a test can show that words of equal hash stay distinct.
  static std::uint64_t hash(std::string_view word) {
    std::uint64_t h = word.size();
    const char* at = word.data();
    std::size_t left = word.size();
    for (; left >= 8; at += 8, left -= 8) h = mix(h ^ load<std::uint64_t>(at));
    // The last 1 to 7 bytes, in at most two loads that may overlap: a copy of unknown length would cost a call.
    if (left >= 4) h = mix(h ^ (std::uint64_t{load<std::uint32_t>(at)} << 32 | load<std::uint32_t>(at + left - 4)));
    else if (left != 0)
      h = mix(h ^ (std::uint64_t{byte(at[0])} << 16 | std::uint64_t{byte(at[left / 2])} << 8 | byte(at[left - 1])));
    return h;
  }

 private:
  struct slot {
    std::string_view word;
    std::uint64_t hash = 0;
    std::uint64_t count = 0;  // 0: the slot is free
  };

  static std::uint64_t mix(std::uint64_t h) {
    h *= 0x9e3779b97f4a7c15u;  // 2^64 divided by the golden ratio: multiplying moves every bit upwards,
    return h ^ (h >> 32);      // and this brings the upper half down to where the index is taken from.
  }

  static unsigned char byte(char c) { return static_cast<unsigned char>(c); }

  template <class Integer>
  static Integer load(const char* at) {
    Integer value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }

  /// The slot of the word, or the free slot where it belongs. The table must have a free slot.
  std::size_t find(std::string_view word, std::uint64_t hash) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = static_cast<std::size_t>(hash) & mask;
    while (slots_[at].count != 0 && !(slots_[at].hash == hash && slots_[at].word == word)) at = (at + 1) & mask;
    return at;
  }

  void add(std::string_view word, std::uint64_t hash, std::uint64_t count) {
    if (4 * distinct_ >= 3 * slots_.size()) grow();
    slot& at = slots_[find(word, hash)];
    if (at.count == 0) {
      at.word = letters_.add(word);
      at.hash = hash;
      ++distinct_;
    }
    at.count += count;
    words_ += count;
  }

  void grow() {
    word_table larger;
    larger.slots_.resize(std::max<std::size_t>(1024, 2 * slots_.size()));
    for (const slot& at : slots_)
      if (at.count != 0) larger.slots_[larger.find(at.word, at.hash)] = at;
    slots_ = std::move(larger.slots_);
  }

  std::vector<slot> slots_;  // empty, or a power of two of slots, a quarter of them free or more
  string_store letters_;
  std::uint64_t words_ = 0;   // the sum of all counts
  std::size_t distinct_ = 0;  // the number of slots in use
};

}  // namespace word_count
