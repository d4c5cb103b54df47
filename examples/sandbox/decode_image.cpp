// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// decode_image.cpp: decodes a PNG file with the installed libpng, within a sandbox that may read this file and nothing
// else. Then it decodes the file outside and compares the pixels byte for byte.
//
//   decode-image [FILE.png]
//
// Without an argument it creates a file, and a truncated one: a decoder that fails is a result too.

#include <muster/syscall.hpp>

#include <png.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

struct image_size {
  std::uint32_t width = 0, height = 0;
  std::uint64_t bytes() const { return std::uint64_t{4} * width * height; }  // red, green, blue, alpha
};

}  // namespace

/// Lets a job return it: the inside may choose any two numbers.
// [result]
template <>
inline constexpr bool muster::any_bytes_are_valid<image_size> = true;
// [/result]

namespace {

/// The same code inside and outside. Throws libpng's error message.
image_size decode(const char* path, std::span<std::byte> to) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_file(&image, path) == 0) throw std::runtime_error(image.message);
  image.format = PNG_FORMAT_RGBA;
  const image_size size{image.width, image.height};
  if (size.bytes() > to.size()) {
    png_image_free(&image);
    throw std::runtime_error("the image is larger than its window");
  }
  if (png_image_finish_read(&image, nullptr, to.data(), 0, nullptr) == 0) throw std::runtime_error(image.message);
  return size;
}

/// A picture in which hardly any two pixels are equal.
void make_image(const std::string& path) {
  constexpr image_size size{211, 97};
  std::vector<std::uint8_t> pixels(size.bytes());
  std::uint32_t state = 1;
  for (std::uint8_t& one : pixels) one = static_cast<std::uint8_t>((state = state * 1664525U + 1013904223U) >> 24U);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = size.width;
  image.height = size.height;
  image.format = PNG_FORMAT_RGBA;
  if (png_image_write_to_file(&image, path.c_str(), 0, pixels.data(), 0, nullptr) == 0)
    throw std::runtime_error(path + ": " + image.message);
}

/// The pixels that the sandbox decoded; throws sandbox_error if there are none.
std::vector<std::byte> decode_within_sandbox(const std::string& path) {
  constexpr std::size_t largest = std::size_t{64} << 20U;
  muster::sandbox box(muster::policy().read(path).memory(std::size_t{128} << 20U).time(10),
                      {.jobs = 1, .window_bytes = largest});
  // `path` existed before the sandbox, which has a copy of the program's memory from its creation.
  auto job =
      box.submit([at = path.c_str()](muster::inside&, std::span<std::byte> window) { return decode(at, window); });
  while (!job.done()) std::this_thread::yield();
  const std::span<std::byte> window = job.window();
  const image_size size = job.get().value();
  // The size is a claim of untrusted code. Check each factor first, because their product may wrap.
  if (size.width > largest || size.height > largest || size.bytes() > window.size())
    throw std::runtime_error("the decoder claims more pixels than it can have");
  // No other job has been submitted, so the window is still this one's.
  std::vector<std::byte> pixels(window.begin(), window.begin() + static_cast<std::ptrdiff_t>(size.bytes()));
  std::printf("%s: %u x %u pixels, %llu system calls through the broker\n", path.c_str(), size.width, size.height,
              static_cast<unsigned long long>(box.usage().calls));

  const auto other = box.run([](muster::inside&) { return std::fopen("/etc/passwd", "r") == nullptr; });
  if (!other.value()) throw std::runtime_error("it has opened another file");
  return pixels;
}

void compare(const std::string& path) {
  const std::vector<std::byte> inside = decode_within_sandbox(path);
  std::vector<std::byte> outside(inside.size());
  decode(path.c_str(), outside);
  if (inside != outside) throw std::runtime_error(path + ": the pixels differ");
}

namespace fs = std::filesystem;

class temporary_directory {
 public:
  temporary_directory() {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make a directory");
  }
  ~temporary_directory() { fs::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = (fs::temp_directory_path() / "decode-image-XXXXXX").string();
};

/// Creates a file and a truncated one, and decodes both.
void try_both() {
  const temporary_directory root;
  const std::string whole = root.path() + "/whole.png", part = root.path() + "/part.png";
  make_image(whole);
  compare(whole);
  fs::copy_file(whole, part);
  fs::resize_file(part, fs::file_size(part) / 2);
  try {
    decode_within_sandbox(part);
  } catch (const muster::sandbox_error& error) {
    std::printf("%s: %s\n", part.c_str(), error.what());
    return;
  }
  throw std::runtime_error(part + " was decoded, and should not have been");
}

}  // namespace

int main(int count, char** words) try {
  if (count > 2) {
    std::fprintf(stderr, "usage: decode-image [FILE.png]\n");
    return 2;
  }
  if (count == 2) compare(std::filesystem::canonical(words[1]).string());
  else try_both();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "decode-image: %s\n", error.what());
  return 1;
}
