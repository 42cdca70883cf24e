// uses: analyzer
// Names that stand for more than anybody can read, and names that do not.
#include <gtest/gtest.h>

#include "analyzer/symbols/demangled_size.h"
#include "analyzer/symbols/symbolizer.h"

namespace traintrace {
namespace {

// "S_", "S0_" .. as the Itanium ABI counts what may be repeated.
std::string back_to(int index) {
  constexpr const char* kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::string digits;
  for (int rest = index - 1; index > 0 && (rest > 0 || digits.empty()); rest /= 36) {
    digits.insert(digits.begin(), kDigits[rest % 36]);
  }
  return "S" + digits + "_";
}

// void f(A*, B<A, A>, B<B<A, A>, B<A, A>>, ..): each twice as long as the one before.
std::string doubling(int times) {
  std::string name = "_Z1fP1A1BIS_S_E";
  for (int i = 0; i < times; ++i) {
    name += back_to(2) + "I" + back_to(3 + i) + back_to(3 + i) + "E";
  }
  return name;
}

TEST(Demangle, WhatWouldTakeGigabytesStaysMangled) {
  const std::string bomb = doubling(26);
  EXPECT_LT(bomb.size(), 310U);
  EXPECT_GT(demangled_size(bomb), size_t{1} << 30);
  EXPECT_EQ(demangled(bomb), bomb);
  EXPECT_EQ(demangled(doubling(60)), doubling(60));
}

TEST(Demangle, ALittleOfTheSameIsRead) {
  const std::string text = demangled(doubling(3));
  EXPECT_TRUE(text.starts_with("f(A*, B<A, A>, B<B<A, A>, B<A, A> >, ")) << text;
  EXPECT_GE(demangled_size(doubling(3)), text.size());
}

TEST(Demangle, WhatIsNotUnderstoodIsTriedOnlyIfItIsSmall) {
  // A part of the grammar that demangled_size() does not know: a thunk.
  EXPECT_EQ(demangled("_ZThn16_N1A1fEv"), "non-virtual thunk to A::f()");
  const std::string bomb = "_ZThn16_" + doubling(26).substr(2);
  EXPECT_EQ(demangled_size(bomb), std::nullopt);
  EXPECT_EQ(demangled(bomb), bomb);
}

TEST(Demangle, NestingAndLengthHaveAnEnd) {
  const std::string deep = "_Z1f" + std::string(10'000, 'P') + "v";
  EXPECT_EQ(demangled_size(deep), std::nullopt);
  EXPECT_EQ(demangled(std::string(1 << 20, 'x')).size(), (16U << 10) + 2);
  EXPECT_EQ(demangled("main"), "main");
  for (const char* const cut :
       {"_Z", "_ZN", "_Z1", "_Z999x", "_ZNS", "_Z1fIX", "_Z1fILi", "_ZSt"}) {
    EXPECT_EQ(demangled(cut), cut);
  }
}

// What the compiler made of this program: never estimated shorter than it is.
TEST(Demangle, RealNamesAreRead) {
  for (const char* const name :
       {"_ZNSt6vectorINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESaIS5_EE9push_backERKS5_",
        "_ZSt4moveIRN1A1BEEONSt16remove_referenceIT_E4typeEOS4_",
        "_ZN2at6native12_GLOBAL__N_110cat_kernelEOKNS_6TensorEN3c108ArrayRefIS2_EEl",
        "_ZZN1A4demoEvENKUlT_E_clIiEEDaS0_",
        "_ZNKSt8functionIFvRKSt6vectorIN2at6TensorESaIS2_EEEEclES6_"}) {
    const std::string text = demangled(name);
    EXPECT_NE(text, name);
    EXPECT_GE(demangled_size(name), text.size()) << name;
  }
}

}  // namespace
}  // namespace traintrace
