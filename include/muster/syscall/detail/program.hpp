// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// program.hpp: replaces the inside of a sandbox by another program, behind the wall: it reads the program through the
// broker, as the kernel would. So the policy also governs the program's own files, and none of its code runs before the
// wall is raised.
//
// Reads      ELF files of this machine: static ones and, with their interpreter, dynamic ones.
// Errors     as of exec: ENOEXEC, ENOENT, EACCES, ENOMEM, or EPERM from the policy.
// Source     System V ABI, chapters 4 and 5; the auxiliary vector as Linux fills it.
#pragma once

#include <muster/base/detail/program_entry.hpp>  // enter_program
#include <muster/base/detail/system_abi.hpp>     // native_calls

#include <elf.h>       // Elf64_Ehdr
#include <fcntl.h>     // open
#include <sys/auxv.h>  // getauxval
#include <sys/mman.h>  // mmap
#include <unistd.h>    // pread

#include <algorithm>  // std::min
#include <array>      // program headers
#include <bit>        // std::bit_cast
#include <cerrno>     // errno
#include <cstddef>    // std::size_t
#include <cstdint>    // std::uintptr_t
#include <cstdlib>    // realpath
#include <cstring>    // std::memcpy
#include <span>       // program headers
#include <string>     // paths
#include <utility>    // std::pair
#include <vector>     // arguments

namespace muster::inline MUSTER_ABI::detail {

class program {
 public:
  static constexpr std::size_t stack_bytes = std::size_t{8} << 20U;

  program(std::string path, std::vector<std::string> arguments, std::vector<std::string> environment,
          std::string directory)
      : path_(std::move(path)),
        directory_(std::move(directory)),
        arguments_(std::move(arguments)),
        environment_(std::move(environment)) {}

  /// Outside: follows the links to the program and its interpreter, which may lead from one rule's directory to
  /// another's. A path that cannot be resolved is kept, and the inside reports the error.
  void follow_links() {
    path_ = followed(path_);
    const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return;
    Elf64_Ehdr header{};
    std::array<Elf64_Phdr, most_parts> parts{};
    image found;
    if (read_headers(file, header, parts) == 0)
      for (unsigned i = 0; i < header.e_phnum; ++i)
        if (parts[i].p_type == PT_INTERP && read_interpreter(file, parts[i], found) == 0)
          interpreter_ = followed(found.interpreter);
    ::close(file);
  }
  const std::string& path() const noexcept { return path_; }
  const std::string& directory() const noexcept { return directory_; }
  /// Empty if there is none.
  const std::string& interpreter() const noexcept { return interpreter_; }
  /// Call before memory is limited: the kernel does not count a program's first stack either.
  bool reserve_stack() noexcept {
    stack_ = static_cast<char*>(::mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0));
    return stack_ != MAP_FAILED;
  }
  /// Call behind the wall. Returns only on error, with an error number. Calls `begin` right before the first
  /// instruction.
  template <class Begin>
  int execute(Begin begin) {
    image own{}, interpreter{};
    if (const int error = load(path_.c_str(), own); error != 0) return error;
    const bool is_dynamic = !own.interpreter.empty();
    const std::string& other = interpreter_.empty() ? own.interpreter : interpreter_;
    if (is_dynamic)
      if (const int error = load(other.c_str(), interpreter); error != 0) return error;
    void* const top = fill_stack(own, is_dynamic ? interpreter.bias : 0);
    if (top == nullptr) return E2BIG;
    begin();
    enter_program(top, is_dynamic ? interpreter.entry : own.entry);
  }

 private:
  struct image {
    std::uintptr_t bias = 0, entry = 0, headers = 0;
    std::size_t header_count = 0;
    std::string interpreter;
  };

  static std::size_t page() noexcept { return ::getauxval(AT_PAGESZ); }
  static std::uintptr_t down(std::uintptr_t at) noexcept { return at / page() * page(); }
  static std::uintptr_t up(std::uintptr_t at) noexcept { return down(at + page() - 1); }

  static constexpr std::size_t most_parts = 64;
  static constexpr unsigned machine = native_calls & 0xffffU;  // as ELF files name it

  static std::string followed(const std::string& path) {
    char* const real = ::realpath(path.c_str(), nullptr);
    std::string all = real != nullptr ? real : path;
    std::free(real);
    return all;
  }

  int load(const char* path, image& made) {
    const int file = ::open(path, O_RDONLY);
    if (file < 0) return errno;
    const int error = load(file, made);
    ::close(file);
    return error;
  }
  int load(int file, image& made) {
    Elf64_Ehdr header{};
    std::array<Elf64_Phdr, most_parts> parts{};
    if (const int error = read_headers(file, header, parts); error != 0) return error;
    const std::span<const Elf64_Phdr> all(parts.data(), header.e_phnum);
    if (const int error = reserve(all, header.e_type == ET_DYN, made); error != 0) return error;
    for (const Elf64_Phdr& one : all) {
      if (one.p_type == PT_LOAD)
        if (const int error = map(file, one, made); error != 0) return error;
      if (one.p_type == PT_INTERP)
        if (const int error = read_interpreter(file, one, made); error != 0) return error;
    }
    made.entry = made.bias + header.e_entry;
    made.header_count = header.e_phnum;
    for (const Elf64_Phdr& one : all)
      if (one.p_type == PT_LOAD && one.p_offset <= header.e_phoff && header.e_phoff < one.p_offset + one.p_filesz)
        made.headers = made.bias + one.p_vaddr + (header.e_phoff - one.p_offset);
    return 0;
  }
  static int read_headers(int file, Elf64_Ehdr& header, std::array<Elf64_Phdr, most_parts>& parts) noexcept {
    if (::pread(file, &header, sizeof header, 0) != sizeof header) return ENOEXEC;
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_machine != machine || header.e_phentsize != sizeof(Elf64_Phdr) ||
        (header.e_type != ET_EXEC && header.e_type != ET_DYN))
      return ENOEXEC;
    if (header.e_phnum == 0 || header.e_phnum > parts.size()) return ENOEXEC;
    const std::size_t size = header.e_phnum * sizeof(Elf64_Phdr);
    if (::pread(file, parts.data(), size, static_cast<off_t>(header.e_phoff)) != static_cast<ssize_t>(size))
      return ENOEXEC;
    return 0;
  }
  /// Reserves addresses for the whole program: anywhere, or at its fixed address.
  static int reserve(std::span<const Elf64_Phdr> parts, bool anywhere, image& made) {
    std::uintptr_t lowest = ~std::uintptr_t{0}, end = 0;
    for (const Elf64_Phdr& one : parts) {
      if (one.p_type != PT_LOAD) continue;
      if (one.p_memsz < one.p_filesz || one.p_vaddr + one.p_memsz < one.p_vaddr) return ENOEXEC;
      lowest = std::min(lowest, down(one.p_vaddr));
      end = std::max(end, up(one.p_vaddr + one.p_memsz));
    }
    if (end <= lowest) return ENOEXEC;
    void* const wanted = anywhere ? nullptr : std::bit_cast<void*>(lowest);
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (anywhere ? 0 : MAP_FIXED_NOREPLACE);
    void* const at = ::mmap(wanted, end - lowest, PROT_NONE, flags, -1, 0);
    if (at == MAP_FAILED) return errno == EEXIST ? ENOMEM : errno;
    made.bias = reinterpret_cast<std::uintptr_t>(at) - lowest;
    return 0;
  }
  static int map(int file, const Elf64_Phdr& part, const image& made) {
    const int protection = ((part.p_flags & PF_R) != 0 ? PROT_READ : 0) |
                           ((part.p_flags & PF_W) != 0 ? PROT_WRITE : 0) | ((part.p_flags & PF_X) != 0 ? PROT_EXEC : 0);
    const std::uintptr_t begin = made.bias + part.p_vaddr, start = down(begin);
    const std::size_t length = up(begin + part.p_memsz) - start;
    // The file is read into anonymous memory: bytes beyond the file's part are zero.
    if (::mmap(std::bit_cast<void*>(start), length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
               0) == MAP_FAILED)
      return errno;
    for (std::size_t done = 0; done < part.p_filesz;) {
      const ssize_t got = ::pread(file, std::bit_cast<void*>(begin + done), part.p_filesz - done,
                                  static_cast<off_t>(part.p_offset + done));
      if (got < 0) return errno;
      if (got == 0) return ENOEXEC;
      done += static_cast<std::size_t>(got);
    }
    return ::mprotect(std::bit_cast<void*>(start), length, protection) == 0 ? 0 : errno;
  }
  static int read_interpreter(int file, const Elf64_Phdr& part, image& made) {
    constexpr std::size_t longest = 4096;
    if (part.p_filesz < 2 || part.p_filesz > longest) return ENOEXEC;
    made.interpreter.resize(part.p_filesz);
    if (::pread(file, made.interpreter.data(), part.p_filesz, static_cast<off_t>(part.p_offset)) !=
        static_cast<ssize_t>(part.p_filesz))
      return ENOEXEC;
    made.interpreter.resize(std::strlen(made.interpreter.c_str()));
    return 0;
  }

  /// Stores arguments, environment and auxiliary vector. Returns the top of the stack; null if they are too long.
  void* fill_stack(const image& own, std::uintptr_t interpreter) {
    char* at = stack_ + stack_bytes;
    const auto put = [&](const void* from, std::size_t size) {
      if (static_cast<std::size_t>(at - stack_) < size + stack_bytes / 2) return std::uintptr_t{0};
      at -= size;
      std::memcpy(at, from, size);
      return reinterpret_cast<std::uintptr_t>(at);
    };
    const auto put_text = [&](const std::string& text) { return put(text.c_str(), text.size() + 1); };
    std::vector<std::uintptr_t> words{arguments_.size()};
    for (const auto* list : {&arguments_, &environment_}) {
      for (const std::string& one : *list) {
        words.push_back(put_text(one));
        if (words.back() == 0) return nullptr;
      }
      words.push_back(0);
    }
    const std::uintptr_t name = put_text(path_);
    std::array<unsigned char, 16> random{};
    std::memcpy(random.data(), std::bit_cast<const void*>(::getauxval(AT_RANDOM)), random.size());
    for (unsigned char& one : random) one ^= 0x5a;  // differs from the seed of this program's own protection
    const std::uintptr_t random_at = put(random.data(), random.size());
    const auto add = [&words](unsigned long kind, std::uintptr_t value) {
      words.push_back(kind);
      words.push_back(value);
    };
    for (const int kind :
         {AT_SYSINFO_EHDR, AT_HWCAP, AT_HWCAP2, AT_PAGESZ, AT_CLKTCK, AT_UID, AT_EUID, AT_GID, AT_EGID, AT_MINSIGSTKSZ})
      if (const auto which = static_cast<unsigned long>(kind); ::getauxval(which) != 0) add(which, ::getauxval(which));
    add(AT_PHDR, own.headers);
    add(AT_PHENT, sizeof(Elf64_Phdr));
    add(AT_PHNUM, own.header_count);
    add(AT_BASE, interpreter);
    add(AT_FLAGS, 0);
    add(AT_ENTRY, own.entry);
    add(AT_SECURE, 0);
    add(AT_RANDOM, random_at);
    add(AT_EXECFN, name);
    add(AT_NULL, 0);
    constexpr std::uintptr_t alignment = 16;
    const auto top = (reinterpret_cast<std::uintptr_t>(at) - words.size() * sizeof words[0]) / alignment * alignment;
    std::memcpy(std::bit_cast<void*>(top), words.data(), words.size() * sizeof words[0]);
    return std::bit_cast<void*>(top);
  }

  std::string path_, interpreter_;
  const std::string directory_;
  const std::vector<std::string> arguments_, environment_;
  char* stack_ = nullptr;
};

}  // namespace muster::inline MUSTER_ABI::detail
