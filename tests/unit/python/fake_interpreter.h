// An interpreter made of a few bytes: what is read of CPython, laid out as a test says.
#pragma once

#include <pthread.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "interpose/python/python_frames.h"

namespace traintrace::test {

using Address = uint64_t;

// Memory that is the interpreter's.
class Arena {
 public:
  Arena() : begin_(map(kBytes)), next_(begin_ + 64) {}

  Address allocate(size_t bytes) {
    const Address address = next_;
    next_ += (bytes + 15) / 16 * 16;
    return address;
  }

  template <class T>
  static void put(Address at, T value) {
    std::memcpy(reinterpret_cast<void*>(at), &value, sizeof value);
  }

  // A page that cannot be read.
  static Address forbidden() {
    const Address page = map(4096);
    mprotect(reinterpret_cast<void*>(page), 4096, PROT_NONE);
    return page;
  }

 private:
  static constexpr size_t kBytes = 1 << 20;

  static Address map(size_t bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return reinterpret_cast<Address>(memory);
  }

  Address begin_;
  Address next_;
};

// Where this interpreter keeps things: as 3.14 does, unless a test says otherwise.
struct Shape {
  uint64_t version = 0x030e00f0;
  bool free_threaded = false;
  int interpreter_words = 16;
  int frame_words = 8;
  int code_words = 11;
  int interned_bits = 16;
  uint64_t header = 16;
  uint64_t current_frame = 72;
  uint64_t thread_id = 152;
  uint64_t finalizing = 640;
  uint64_t instr_ptr = 56;
  uint64_t tlbc_index = 72;
  uint64_t owner = 78;
  uint64_t bytecode = 216;
  uint64_t tlbc = 200;
};

class Interpreter {
 public:
  explicit Interpreter(Shape shape = {}) : shape_(shape) {
    runtime = arena.allocate(1024);
    thread_state = arena.allocate(512);
    code_type = arena.allocate(16);
    frame_type = arena.allocate(16);
    text_type = arena.allocate(16);
    bytes_type = arena.allocate(16);
    version = arena.allocate(8);
    arena.put(version, shape_.version);
    publish();
    arena.put(thread_state + shape_.thread_id, pthread_self());
  }

  Address text(const std::string& value) {
    const uint64_t size = shape_.header + 24;
    const Address object = arena.allocate(size + value.size() + 1);
    arena.put(object + shape_.header - 8, text_type);
    arena.put<uint64_t>(object + shape_.header, value.size());
    constexpr uint32_t kOneByte = 1, kCompact = 8, kAscii = 16, kInterned = 1;
    arena.put<uint32_t>(object + shape_.header + 16, kInterned | (kOneByte | kCompact | kAscii)
                                                                     << shape_.interned_bits);
    std::memcpy(reinterpret_cast<void*>(object + size), value.c_str(), value.size() + 1);
    return object;
  }

  Address code(const std::string& name, uint64_t units = 50) {
    const Address object = arena.allocate(shape_.bytecode + 2 * units);
    arena.put(object + shape_.header - 8, code_type);
    arena.put(object + shape_.header, units);
    arena.put<int32_t>(object + kFirstLine, 17);
    arena.put(object + kFile, text("/home/train.py"));
    arena.put(object + kFile + 16, text(name));
    const Address table = arena.allocate(shape_.header + 16 + 8);
    arena.put(table + shape_.header - 8, bytes_type);
    arena.put<uint64_t>(table + shape_.header, 4);
    arena.put<uint32_t>(table + shape_.header + 16, 0x04030201);
    arena.put(object + kFile + 24, table);
    return object;
  }

  // The innermost frame is the one that was called last.
  Address call(Address executable, uint64_t instruction, char owner = 0) {
    const Address frame = arena.allocate(128);
    arena.put(frame, executable);
    arena.put(frame + 8, innermost_);
    arena.put(frame + shape_.instr_ptr, (executable & ~Address{7}) + shape_.bytecode + instruction);
    arena.put(frame + shape_.owner, owner);
    set_innermost(frame);
    return frame;
  }

  void set_innermost(Address frame) {
    innermost_ = frame;
    arena.put(thread_state + shape_.current_frame, frame);
  }

  // Makes it the interpreter of this process.
  void install() {
    static Interpreter* installed;
    installed = this;
    set_python_lookup([](const char* name) -> void* {
      const std::map<std::string, Address> symbols = {
          {"_PyRuntime", installed->runtime},      {"PyCode_Type", installed->code_type},
          {"PyFrame_Type", installed->frame_type}, {"PyUnicode_Type", installed->text_type},
          {"PyBytes_Type", installed->bytes_type}, {"Py_Version", installed->version}};
      if (std::strcmp(name, "PyGILState_GetThisThreadState") == 0) {
        void* (*state)() = [] { return reinterpret_cast<void*>(installed->thread_state); };
        return reinterpret_cast<void*>(state);
      }
      const auto symbol = symbols.find(name);
      return symbol == symbols.end() ? nullptr : reinterpret_cast<void*>(symbol->second);
    });
  }

  std::vector<uint64_t> table;  // as published; to be changed before publish_table
  void publish_table() {
    std::memcpy(reinterpret_cast<void*>(runtime), table.data(), table.size() * sizeof table[0]);
  }

  Arena arena;
  Address runtime, thread_state, code_type, frame_type, text_type, bytes_type, version;

 private:
  static constexpr uint64_t kFirstLine = 68;
  static constexpr uint64_t kFile = 112;

  void group(int words, std::vector<uint64_t> values) {
    values.resize(static_cast<size_t>(words));
    table.insert(table.end(), values.begin(), values.end());
  }

  void publish() {
    uint64_t cookie;
    std::memcpy(&cookie, "xdebugpy", 8);
    table = {cookie, shape_.version, shape_.free_threaded};
    group(3, {200000, shape_.finalizing, 700});
    group(shape_.interpreter_words, {100000, 10, 20, 30, 40, 50, 60});
    group(9,
          {400, 0, 8, 16, shape_.current_frame, shape_.thread_id, shape_.thread_id + 8, 200, 32});
    group(shape_.frame_words,
          {88, 8, 0, shape_.instr_ptr, 80, shape_.owner, 64, shape_.tlbc_index});
    group(shape_.code_words, {shape_.bytecode + 8, kFile, kFile + 8, kFile + 16, kFile + 24,
                              kFirstLine, 52, 96, 104, shape_.bytecode, shape_.tlbc});
    group(2, {shape_.header, shape_.header - 8});
    group(60, {});
    publish_table();
  }

  Shape shape_;
  Address innermost_ = 0;
};

}  // namespace traintrace::test
