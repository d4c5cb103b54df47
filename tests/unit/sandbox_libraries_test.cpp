// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Libraries that know nothing of sandboxes, in one: zlib writes and reads a compressed file, and FreeType draws the
// letters of a font. Each must give, byte for byte, what it gives outside. A library that is not installed is left out.
// The example decode-image does the same with libpng.
#include <gtest/gtest.h>
#include <muster/syscall/sandbox.hpp>

#include "scale.hpp"

#ifdef TEST_ZLIB
#include <zlib.h>
#endif
#ifdef TEST_FREETYPE
#include <ft2build.h>
#include FT_FREETYPE_H
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using muster::inside;
using muster::policy;
using muster::sandbox;
using window = std::span<std::byte>;

class sandbox_libraries_test : public ::testing::Test {
 protected:
  sandbox_libraries_test() {
    std::string made = (fs::temp_directory_path() / "libraries-XXXXXX").string();
    root_ = ::mkdtemp(made.data());
  }
  ~sandbox_libraries_test() override { fs::remove_all(root_); }
  void SetUp() override {
    if (muster_test::sanitized) GTEST_SKIP() << "the sanitizers make system calls of their own";
  }
  std::string path(const char* name) const { return (root_ / name).string(); }

  fs::path root_;
};

/// Fills the window, and returns how many bytes it has put there, or an error.
using drawing = std::int64_t (*)(const char* path, std::span<std::byte> to);

/// Calls the function inside and outside, and compares everything it has made. Returns the number of bytes.
[[maybe_unused]] std::int64_t same_on_both_sides(const std::string& path, drawing function) {
  constexpr std::size_t room = std::size_t{8} << 20U;
  sandbox box(policy().read(path).memory(std::size_t{64} << 20U), {.jobs = 1, .window_bytes = room});
  auto job = box.submit([function, at = path.c_str()](inside&, window w) { return function(at, w); });
  job.wait();
  const std::vector<std::byte> inside(job.window().begin(), job.window().end());
  const std::int64_t size = job.get().value();
  EXPECT_GT(box.usage().calls, 0U) << "it must have asked the broker";
  EXPECT_TRUE(box.run([](muster::inside&) { return std::fopen("/etc/passwd", "r") == nullptr; }).value());

  std::vector<std::byte> outside(room);
  EXPECT_EQ(function(path.c_str(), outside), size);
  EXPECT_TRUE(inside == outside) << path;
  return size;
}

#ifdef TEST_ZLIB

constexpr std::size_t lines = 20'000;

/// Text that shrinks, but not to nothing. Returns false if it cannot be written.
bool compress(const char* path) {
  const gzFile file = ::gzopen(path, "wb9");
  if (file == nullptr) return false;
  std::uint32_t state = 1;
  bool written = true;
  for (std::size_t i = 0; i < lines; ++i) {
    state = state * 1664525U + 1013904223U;
    written =
        ::gzprintf(file, "%zu: %u %s\n", i, state >> 8U, (state & 1U << 20U) != 0 ? "heads" : "tails") > 0 && written;
  }
  return ::gzclose(file) == Z_OK && written;
}

/// The size of the text, or zlib's error, whose message is then what is returned in `to`.
std::int64_t decompress(const char* path, std::span<std::byte> to) {
  const gzFile file = ::gzopen(path, "rb");
  if (file == nullptr) return -100;
  std::int64_t size = 0;
  int got = 0;
  constexpr std::size_t piece = 1000;
  while (to.size() - static_cast<std::size_t>(size) >= piece &&
         (got = ::gzread(file, &to[static_cast<std::size_t>(size)], piece)) > 0)
    size += got;
  int error = 0;
  const std::string message = ::gzerror(file, &error);
  if (error != Z_OK) std::memcpy(to.data() + size, message.data(), message.size());
  ::gzclose(file);
  return error == Z_OK ? size : error;
}

TEST_F(sandbox_libraries_test, zlib_reads) {
  const std::string whole = path("whole.gz"), part = path("part.gz"), broken = path("broken.gz");
  ASSERT_TRUE(compress(whole.c_str()));
  EXPECT_GT(same_on_both_sides(whole, decompress), std::int64_t{10} * lines);
  fs::copy_file(whole, part);
  fs::resize_file(part, fs::file_size(whole) / 2);
  EXPECT_EQ(same_on_both_sides(part, decompress), Z_BUF_ERROR);
  fs::copy_file(whole, broken);
  std::fstream change(broken, std::ios::in | std::ios::out | std::ios::binary);
  change.seekp(static_cast<std::streamoff>(fs::file_size(whole) / 2));
  change << "these bytes do not belong here";
  change.close();
  EXPECT_EQ(same_on_both_sides(broken, decompress), Z_DATA_ERROR);
}

TEST_F(sandbox_libraries_test, zlib_writes) {
  const auto bytes_of = [](const std::string& name) {
    std::ifstream file(name, std::ios::binary);
    return std::vector<char>(std::istreambuf_iterator<char>(file), {});
  };
  const std::string outside = path("outside.gz"), inside = path("inside.gz");
  ASSERT_TRUE(compress(outside.c_str()));
  sandbox box(policy().write(root_.string()).memory(std::size_t{64} << 20U));
  ASSERT_TRUE(box.run([at = inside.c_str()](muster::inside&) { return compress(at); }).value());
  EXPECT_TRUE(bytes_of(inside) == bytes_of(outside));
}

#endif

#ifdef TEST_FREETYPE

/// Draws the printable characters of ASCII in three sizes, with the font's own hints and with FreeType's. Returns the
/// bytes of the bitmaps, each after its size and place; or FreeType's error number, negative.
std::int64_t draw_letters(const char* font, std::span<std::byte> to) {
  FT_Library library = nullptr;
  if (const FT_Error error = ::FT_Init_FreeType(&library); error != 0) return -error;
  FT_Face face = nullptr;
  std::size_t used = 0;
  FT_Error error = ::FT_New_Face(library, font, 0, &face);
  const auto put = [&](const void* what, std::size_t bytes) {
    if (bytes > to.size() - used) std::abort();
    if (bytes != 0) std::memcpy(&to[used], what, bytes);
    used += bytes;
  };
  for (const FT_UInt pixels : {9U, 16U, 48U})
    for (const FT_Int32 how : {FT_Int32{FT_LOAD_RENDER}, FT_Int32{FT_LOAD_RENDER | FT_LOAD_FORCE_AUTOHINT}}) {
      if (error == 0) error = ::FT_Set_Pixel_Sizes(face, 0, pixels);
      for (FT_ULong letter = ' '; error == 0 && letter <= '~'; ++letter) {
        error = ::FT_Load_Char(face, letter, how);
        if (error != 0) break;
        const FT_GlyphSlot glyph = face->glyph;
        const std::array<std::int64_t, 6> header{glyph->bitmap.width, glyph->bitmap.rows, glyph->bitmap_left,
                                                 glyph->bitmap_top,   glyph->advance.x,   glyph->bitmap.pixel_mode};
        put(header.data(), sizeof header);
        for (unsigned row = 0; row < glyph->bitmap.rows; ++row)
          put(glyph->bitmap.buffer + static_cast<std::ptrdiff_t>(row) * glyph->bitmap.pitch, glyph->bitmap.width);
      }
    }
  if (face != nullptr) ::FT_Done_Face(face);
  ::FT_Done_FreeType(library);
  return error != 0 ? -error : static_cast<std::int64_t>(used);
}

/// The first font that is installed, or nothing.
std::string some_font() {
  std::vector<std::string> fonts;
  std::error_code none;
  for (const fs::directory_entry& one : fs::recursive_directory_iterator("/usr/share/fonts", none))
    if (one.path().extension() == ".ttf") fonts.push_back(fs::canonical(one.path()).string());
  return fonts.empty() ? std::string() : *std::min_element(fonts.begin(), fonts.end());
}

TEST_F(sandbox_libraries_test, freetype_draws) {
  const std::string font = some_font();
  if (font.empty()) GTEST_SKIP() << "no font beneath /usr/share/fonts (Debian: fonts-dejavu-core)";
  EXPECT_GT(same_on_both_sides(font, draw_letters), 100'000) << font;
  const std::string part = path("part.ttf");
  fs::copy_file(font, part);
  fs::permissions(part, fs::perms::owner_write, fs::perm_options::add);
  fs::resize_file(part, fs::file_size(font) / 2);
  EXPECT_LT(same_on_both_sides(part, draw_letters), 0);
}

#endif

}  // namespace
