// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// simple.hpp: small objects of Python's own types as bytes, faster than by pickle (python/stream of
// python/bench/rivals.py): None, bool, int of 64 bits, float, str, bytes, and tuples, lists and dicts of these. All
// others are pickled: subclasses, more than 512 bytes, more than 4 levels, more than 16 lists and dicts, and objects in
// which one of these occurs twice, which pickle preserves.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

class simple_writer {
 public:
  /// Returns false if the object is not simple.
  bool write(PyObject* o) { return any(o, 0); }
  const std::byte* data() const { return text_.data(); }
  std::size_t size() const { return size_; }

 private:
  static constexpr int deepest = 4;

  bool any(PyObject* o, int depth) {
    if (o == Py_None) return code('N');
    if (o == Py_True) return code('T');
    if (o == Py_False) return code('F');
    if (PyLong_CheckExact(o)) return integer(o);
    if (PyUnicode_CheckExact(o)) return string(o);
    if (PyFloat_CheckExact(o)) {
      const double value = PyFloat_AsDouble(o);
      return code('d') && raw(&value, sizeof value);
    }
    if (PyBytes_CheckExact(o)) {
      const Py_ssize_t n = PyBytes_Size(o);
      return code('b') && length(n) && raw(PyBytes_AsString(o), static_cast<std::size_t>(n));
    }
    if (depth == deepest) return false;
    if (PyTuple_CheckExact(o)) {
      const Py_ssize_t n = PyTuple_Size(o);
      if (!code('(') || !length(n)) return false;
      for (Py_ssize_t i = 0; i != n; ++i)
        if (!any(PyTuple_GetItem(o, i), depth + 1)) return false;
      return true;
    }
    if (PyList_CheckExact(o)) {
      const Py_ssize_t n = PyList_Size(o);
      if (!is_first(o) || !code('[') || !length(n)) return false;
      for (Py_ssize_t i = 0; i != n; ++i)
        if (!any(PyList_GetItem(o, i), depth + 1)) return false;
      return true;
    }
    if (!PyDict_CheckExact(o) || !is_first(o) || !code('{') || !length(PyDict_Size(o))) return false;
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(o, &at, &key, &value);)
      if (!any(key, depth + 1) || !any(value, depth + 1)) return false;
    return true;
  }
  bool is_first(PyObject* one) {
    if (many_ == seen_.size() || std::find(seen_.begin(), seen_.begin() + many_, one) != seen_.begin() + many_)
      return false;
    seen_[many_++] = one;
    return true;
  }
  bool integer(PyObject* o) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(o, &overflow);
    return overflow == 0 && code('i') && raw(&value, sizeof value);
  }
  bool string(PyObject* o) {
    Py_ssize_t n = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(o, &n);
    if (text == nullptr) {
      PyErr_Clear();  // lone surrogates
      return false;
    }
    return code('s') && length(n) && raw(text, static_cast<std::size_t>(n));
  }
  bool code(char c) { return raw(&c, 1); }
  bool length(Py_ssize_t n) {
    const auto short_one = static_cast<std::uint16_t>(n);
    return n == short_one && raw(&short_one, sizeof short_one);
  }
  bool raw(const void* from, std::size_t n) {
    if (n > text_.size() - size_) return false;
    std::memcpy(text_.data() + size_, from, n);
    size_ += n;
    return true;
  }

  std::array<std::byte, 512> text_;
  std::size_t size_ = 0;
  std::array<PyObject*, 16> seen_;  // lists and dicts
  std::size_t many_ = 0;
};

class simple_reader {
 public:
  explicit simple_reader(std::span<const std::byte> text) : left_(text) {}
  nanobind::object read_all() { return any(); }

 private:
  using object = nanobind::object;

  object any() {
    switch (static_cast<char>(*take(1))) {
      case 'N': return nanobind::none();
      case 'T': return nanobind::borrow(Py_True);
      case 'F': return nanobind::borrow(Py_False);
      case 'i': return made(PyLong_FromLongLong(number<long long>()));
      case 'd': return made(PyFloat_FromDouble(number<double>()));
      case 's': {
        const Py_ssize_t n = number<std::uint16_t>();
        return made(PyUnicode_DecodeUTF8(reinterpret_cast<const char*>(take(n)), n, nullptr));
      }
      case 'b': {
        const Py_ssize_t n = number<std::uint16_t>();
        return made(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(take(n)), n));
      }
      case '(': {
        const Py_ssize_t n = number<std::uint16_t>();
        object all = made(PyTuple_New(n));
        for (Py_ssize_t i = 0; i != n; ++i) check(PyTuple_SetItem(all.ptr(), i, any().release().ptr()));
        return all;
      }
      case '[': {
        const Py_ssize_t n = number<std::uint16_t>();
        object all = made(PyList_New(n));
        for (Py_ssize_t i = 0; i != n; ++i) check(PyList_SetItem(all.ptr(), i, any().release().ptr()));
        return all;
      }
      case '{': {
        object all = made(PyDict_New());
        for (std::uint16_t n = number<std::uint16_t>(); n != 0; --n) {
          const object key = next_key(), value = any();
          check(PyDict_SetItem(all.ptr(), key.ptr(), value.ptr()));
        }
        return all;
      }
      default: PyErr_SetString(PyExc_ValueError, "muster: a message that is not as it was put"); check(-1);
    }
    return {};
  }
  /// Dicts often have the keys of earlier ones: a short string that is known need not be made and hashed again.
  object next_key() {
    constexpr std::size_t longest = 15;
    struct entry {
      std::array<char, longest> text;
      std::size_t size;
      PyObject* made;
    };
    static std::array<entry, 256> known{};
    if (left_.empty() || static_cast<char>(left_.front()) != 's') return any();
    std::uint16_t n = 0;
    if (left_.size() > sizeof n) std::memcpy(&n, left_.data() + 1, sizeof n);
    if (n == 0 || n > longest) return any();
    take(1 + sizeof n);
    std::array<char, longest> text{};
    std::memcpy(text.data(), take(n), n);
    const auto letter = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
    entry& mine = known[(letter(0) + 3U * letter(n / 2U) + 7U * letter(n - 1U) + 31U * n) % known.size()];
    if (mine.made != nullptr && mine.size == n && mine.text == text) return nanobind::borrow(mine.made);
    object key = made(PyUnicode_DecodeUTF8(text.data(), n, nullptr));
    PyObject* const before = std::exchange(mine.made, object(key).release().ptr());
    mine.text = text;
    mine.size = n;
    Py_XDECREF(before);
    return key;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  const std::byte* take(std::size_t n) {
    if (n > left_.size()) {
      PyErr_SetString(PyExc_ValueError, "muster: a message that is shorter than it was put");
      check(-1);
    }
    const std::byte* const at = left_.data();
    left_ = left_.subspan(n);
    return at;
  }
  static void check(int status) {
    if (status != 0) throw nanobind::python_error();
  }
  static object made(PyObject* o) {
    if (o == nullptr) throw nanobind::python_error();
    return nanobind::steal(o);
  }

  std::span<const std::byte> left_;
};
