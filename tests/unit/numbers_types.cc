// uses: analyzer
// What the bytes of fetched scalars are taken for.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "analyzer/numbers/scalar_type.h"

namespace traintrace {
namespace {

using Values = std::vector<uint64_t>;

uint64_t bits(float number) {
  return std::bit_cast<uint32_t>(number);
}
uint64_t bits(double number) {
  return std::bit_cast<uint64_t>(number);
}
uint64_t bits(int32_t number) {
  return static_cast<uint32_t>(number);
}

template <class Number>
Values losses(size_t count) {
  Values values;
  values.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    values.push_back(bits(static_cast<Number>(4.0 / static_cast<double>(1 + i))));
  }
  return values;
}

TEST(ScalarType, OfFloatsIsProvenByEight) {
  for (const size_t count : {7, 8, 9, 100}) {
    const Values values = losses<float>(count);
    const TypeOfSeries found = type_of_series(values, 4);
    EXPECT_EQ(found.type, ScalarType::kFloat32);
    EXPECT_EQ(found.proven_from, std::min<size_t>(count, 8)) << count;
  }
  EXPECT_EQ(type_of_series(losses<double>(20), 8).type, ScalarType::kFloat64);
  EXPECT_EQ(type_of_series(losses<double>(20), 8).proven_from, 8u);
}

TEST(ScalarType, ANanDoesNotChangeIt) {
  for (const uint64_t nan : {0x7fc00000U, 0xffc00000U, 0x7fffffffU, 0xffffffffU}) {
    Values values = losses<float>(20);
    values.push_back(nan);
    values.push_back(0);
    EXPECT_EQ(type_of_series(values, 4).type, ScalarType::kFloat32);
    EXPECT_TRUE(is_nonfinite(ScalarType::kFloat32, nan));
  }
  EXPECT_TRUE(is_nonfinite(ScalarType::kFloat32, bits(std::numeric_limits<float>::infinity())));
  EXPECT_TRUE(is_nonfinite(ScalarType::kFloat64, bits(-std::numeric_limits<double>::infinity())));
  EXPECT_TRUE(is_nonfinite(ScalarType::kFloat64, bits(std::nan(""))));
  EXPECT_FALSE(is_nonfinite(ScalarType::kFloat32, bits(std::numeric_limits<float>::max())));
  EXPECT_FALSE(is_nonfinite(ScalarType::kInteger, 0xffffffff));
  EXPECT_FALSE(is_nonfinite(ScalarType::kUnknown, 0x7fffffff));
}

TEST(ScalarType, OfIntegersIsNoFloat) {
  Values values;
  for (int32_t i = -20; i < 20; ++i) {
    values.push_back(bits(i));
  }
  EXPECT_EQ(type_of_series(values, 4).type, ScalarType::kInteger);
  values.push_back(bits(std::numeric_limits<int32_t>::max()));
  const TypeOfSeries found = type_of_series(values, 4);
  EXPECT_EQ(found.type, ScalarType::kUnknown) << "as large as it is, it may be anything";
  EXPECT_EQ(found.proven_from, values.size());
  EXPECT_EQ(scalar_text(ScalarType::kInteger, bits(-1), 4), "-1");
  EXPECT_EQ(scalar_text(ScalarType::kInteger, static_cast<uint64_t>(-5), 8), "-5");
}

// Seeds and hashes: any bits.  Whatever they are taken for, nothing proves a float for long.
TEST(ScalarType, OfRandomBitsIsNotKnown) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 1000; ++round) {
    Values values;
    for (int i = 0; i < 64; ++i) {
      values.push_back(random() & 0xffffffff);
    }
    EXPECT_EQ(type_of_series(values, 4).type, ScalarType::kUnknown);
  }
}

TEST(ScalarType, OfOneByteIsAFlagOrAnInteger) {
  EXPECT_EQ(type_of_series(Values{0, 1, 1}, 1).type, ScalarType::kFlag);
  EXPECT_EQ(type_of_series(Values{0, 1, 2}, 1).type, ScalarType::kInteger);
}

TEST(ScalarType, OfOtherSizesIsNeverJudged) {
  for (const uint64_t bytes : {2, 3, 5, 6, 7, 0, 9}) {
    const TypeOfSeries found = type_of_series(losses<float>(20), bytes);
    EXPECT_EQ(found.type, ScalarType::kUnknown);
    EXPECT_EQ(found.proven_from, 20u);
  }
  EXPECT_EQ(scalar_text(ScalarType::kUnknown, 0x7e00, 2), "0x7e00");
}

TEST(ScalarType, OfNothingIsNotKnown) {
  EXPECT_EQ(type_of_series(Values{}, 4).proven_from, 0u);
  EXPECT_EQ(type_of_series(Values{0, 0}, 4).type, ScalarType::kInteger);
}

TEST(ScalarType, TextsAreShort) {
  EXPECT_EQ(scalar_text(ScalarType::kFloat32, bits(0.1F), 4), "0.1");
  EXPECT_EQ(scalar_text(ScalarType::kFloat64, bits(-2.5), 8), "-2.5");
  EXPECT_EQ(scalar_text(ScalarType::kFloat32, 0xff800000, 4), "-Inf");
  EXPECT_EQ(scalar_text(ScalarType::kFloat32, 0xffffffff, 4), "NaN");
}

}  // namespace
}  // namespace traintrace
