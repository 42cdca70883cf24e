// How a row of calls.def reads its values: each field is a type whose `read` takes the call's
// parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "format/schema.h"

namespace traintrace {

template <size_t kIndex, class First, class... Rest>
[[gnu::always_inline]] constexpr auto nth(First first, Rest... rest) noexcept {
  if constexpr (kIndex == 0) {
    return first;
  } else {
    return nth<kIndex - 1>(rest...);
  }
}

// A value as one 64-bit word; signed ones keep their sign.
template <class T>
[[gnu::always_inline]] inline uint64_t word(const T& value) noexcept {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<uint64_t>(value);
  } else if constexpr (std::is_enum_v<T>) {
    return word(static_cast<std::underlying_type_t<T>>(value));
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  } else if constexpr (std::is_integral_v<T>) {
    return value;
  } else {  // dim3
    return uint64_t{value.x} | uint64_t{value.y} << 32 | uint64_t{value.z} << 48;
  }
}

// The form in which a grid is recorded.
inline uint64_t grid(uint64_t x, uint64_t y, uint64_t z) noexcept {
  return x | y << 32 | z << 48;
}

template <size_t kIndex, format::Field kName>
struct In {
  static constexpr format::Field kField = kName;
  static constexpr bool kAfterCall = false;
  template <class... Arguments>
  static uint64_t read(Arguments... arguments) noexcept {
    return word(nth<kIndex>(arguments...));
  }
};

template <size_t kIndex, format::Field kName>
struct In3 {
  static constexpr format::Field kField = kName;
  static constexpr bool kAfterCall = false;
  template <class... Arguments>
  static uint64_t read(Arguments... arguments) noexcept {
    return grid(word(nth<kIndex>(arguments...)), word(nth<kIndex + 1>(arguments...)),
                word(nth<kIndex + 2>(arguments...)));
  }
};

template <size_t kIndex, format::Field kName>
struct Out {
  static constexpr format::Field kField = kName;
  static constexpr bool kAfterCall = true;
  template <class... Arguments>
  static uint64_t read(Arguments... arguments) noexcept {
    const auto* const where = nth<kIndex>(arguments...);
    return where ? word(*where) : 0;
  }
};

// `kRead` is a function of the pointer.
template <size_t kIndex, format::Field kName, auto kRead>
struct Member {
  static constexpr format::Field kField = kName;
  static constexpr bool kAfterCall = false;
  template <class... Arguments>
  static uint64_t read(Arguments... arguments) noexcept {
    const auto* const where = nth<kIndex>(arguments...);
    return where ? word(kRead(*where)) : 0;
  }
};

// `kRead` is a function of the value.
template <size_t kIndex, format::Field kName, auto kRead>
struct Part {
  static constexpr format::Field kField = kName;
  static constexpr bool kAfterCall = false;
  template <class... Arguments>
  static uint64_t read(Arguments... arguments) noexcept {
    return word(kRead(nth<kIndex>(arguments...)));
  }
};

template <size_t kIndex, format::Field kName, auto kRead>
struct OutMember : Member<kIndex, kName, kRead> {
  static constexpr bool kAfterCall = true;
};

// Of an array of numbers, parameter `kIndex`, whose length is parameter `kCount`.
template <size_t kIndex, size_t kCount, format::Field kName>
struct Sum {
  static constexpr format::Field kField = kName;
  static constexpr bool kAfterCall = false;
  template <class... Arguments>
  static uint64_t read(Arguments... arguments) noexcept {
    const auto* const numbers = reinterpret_cast<const size_t*>(nth<kIndex>(arguments...));
    uint64_t sum = 0;
    for (size_t i = 0; numbers && i < nth<kCount>(arguments...); ++i) {
      sum += numbers[i];
    }
    return sum;
  }
};

// Of an array of copies, parameter `kIndex`, whose length is parameter `kCount`.
template <size_t kIndex, size_t kCount, class Copy, format::Field kName>
struct Extents {
  static constexpr format::Field kField = kName;
  static constexpr bool kAfterCall = false;
  template <class... Arguments>
  static uint64_t read(Arguments... arguments) noexcept {
    constexpr int kPointer = 1;  // cudaMemcpyOperandTypePointer, CU_MEMCPY_OPERAND_TYPE_POINTER
    const auto* const copies = reinterpret_cast<const Copy*>(nth<kIndex>(arguments...));
    uint64_t sum = 0;
    for (size_t i = 0; copies && i < nth<kCount>(arguments...); ++i) {
      const Copy& copy = copies[i];
      if (copy.src.type == kPointer && copy.dst.type == kPointer) {
        sum += copy.extent.width * copy.extent.height * copy.extent.depth;
      }
    }
    return sum;
  }
};

// A communicator and the operation's place in its sequence: two words, written by the wrapper.
template <size_t kIndex>
struct Comm {
  static constexpr format::Field kField = format::Field::Communicator;
  static constexpr bool kAfterCall = false;
  template <class... Arguments>
  static uint64_t read(Arguments... arguments) noexcept {
    return word(nth<kIndex>(arguments...));
  }
};

// What needs no parameter.
template <uint64_t kValue, format::Field kName>
struct Is {
  static constexpr format::Field kField = kName;
  static constexpr bool kAfterCall = false;
  template <class... Arguments>
  static uint64_t read(Arguments...) noexcept {
    return kValue;
  }
};

// What cuBLASLt says of the layouts of two operands and of the result: six words, written by the
// wrapper.
template <size_t kA, size_t kB, size_t kD>
struct Layouts {
  static constexpr format::Field kField = format::Field::M;
  static constexpr bool kAfterCall = false;
};

template <class F>
inline constexpr bool kIsLayouts = false;
template <size_t kA, size_t kB, size_t kD>
inline constexpr bool kIsLayouts<Layouts<kA, kB, kD>> = true;

template <class F>
inline constexpr bool kIsComm = false;
template <size_t kIndex>
inline constexpr bool kIsComm<Comm<kIndex>> = true;

// The value of the first field called `kName`, or `fallback`.
template <format::Field kName, class... Fields>
struct Named {
  static constexpr bool kExists = false;
  template <class... Arguments>
  static uint64_t read(uint64_t fallback, Arguments...) noexcept {
    return fallback;
  }
};
template <format::Field kName, class First, class... Rest>
struct Named<kName, First, Rest...> {
  static constexpr bool kHere = First::kField == kName;
  static constexpr bool kExists = kHere || Named<kName, Rest...>::kExists;
  template <class... Arguments>
  static uint64_t read(uint64_t fallback, Arguments... arguments) noexcept {
    if constexpr (kHere) {
      return First::read(arguments...);
    } else {
      return Named<kName, Rest...>::read(fallback, arguments...);
    }
  }
};

}  // namespace traintrace
