// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// landing.hpp: the exception with which a thread enters a frame that forks. The handler that catches it is the fork's
// mark, so it is known where it is; the C++ runtime, which would look for it twice, is not asked. It is told only that
// the exception has been thrown.
//
// Cost       some ten nanoseconds. To throw costs more than a microsecond.
// Source     Itanium C++ ABI, "Exception Handling", 2.2: what the C++ runtime keeps of exceptions and of threads.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <cxxabi.h>  // __cxa_get_globals

#include <cstdint>    // std::uint64_t
#include <cstring>    // std::memcpy
#include <exception>  // std::exception_ptr
#include <memory>     // std::construct_at

namespace muster::inline MUSTER_ABI::detail {

class frame_record;

struct landing {
  frame_record* of;
};

/// For one thread, which enters one frame at a time.
class landing_exception {
 public:
  /// Returns what a landing pad expects: an exception that has been thrown, and not yet caught.
  void* thrown(frame_record& of) noexcept {
    if (exception_ == nullptr) exception_ = std::make_exception_ptr(landing{});
    std::construct_at(reinterpret_cast<std::exception_ptr*>(&thrown_), exception_);  // who catches it, ends that one
    auto* const object = static_cast<landing*>(object_of(exception_));
    object->of = &of;
    exception_header& header = header_of(object);
    header.handlers = 0;
    header.caught = object;
    ++reinterpret_cast<of_thread*>(abi::__cxa_get_globals())->uncaught;
    return &header.unwinder_class;
  }
  /// For who has left the handler otherwise than by its end.
  static void leave() noexcept { abi::__cxa_end_catch(); }

  /// Whether the runtime keeps of an exception what we think.
  static bool is_known() noexcept {
    const std::exception_ptr one = std::make_exception_ptr(landing{});
    const std::uint64_t which = header_of(object_of(one)).unwinder_class >> 8U;
    return which == 0x474e5543432b2b || which == 0x434c4e47432b2b;  // GNUCC++, CLNGC++
  }

 private:
  /// Its end, which is before the exception.
  struct exception_header {
    int handlers, switch_value;
    const void *action, *table;
    void *temporary, *caught;
    std::uint64_t unwinder_class;
    std::uint64_t unwinder[3];
  };
  struct of_thread {
    void* caught;
    unsigned uncaught;
  };
  static void* object_of(const std::exception_ptr& exception) noexcept {
    void* object = nullptr;
    std::memcpy(static_cast<void*>(&object), static_cast<const void*>(&exception), sizeof object);
    return object;
  }
  static exception_header& header_of(void* object) noexcept { return static_cast<exception_header*>(object)[-1]; }

  std::exception_ptr exception_;
  alignas(std::exception_ptr) unsigned char thrown_[sizeof(std::exception_ptr)];
};

}  // namespace muster::inline MUSTER_ABI::detail
