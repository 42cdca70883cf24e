// The values that a check reads from buffers of each type.
#include "interpose/payload/check_kernel.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace {

using namespace traintrace;

template <class Element>
format::PayloadTally tally(uint32_t type, const std::vector<Element>& elements) {
  return check::tally_of({elements.data(), elements.size(), 0, 1}, type).tally;
}

double value(uint32_t type, uint64_t bits) {
  return check::element_at({&bits, 1, 0, 1}, type, 0).value;
}

TEST(CheckKernel, ReadsIntegers) {
  EXPECT_EQ(tally<int8_t>(check::kInt8, {-3, 5}).sum, 2);
  EXPECT_EQ(tally<uint8_t>(check::kUint8, {253, 5}).sum, 258);
  EXPECT_EQ(tally<int32_t>(check::kInt32, {-7, 5}).absolute_sum, 12);
  EXPECT_EQ(tally<uint32_t>(check::kUint32, {4'000'000'000}).largest, 4e9);
  EXPECT_EQ(tally<int64_t>(check::kInt64, {-1, -2}).square_sum, 5);
  EXPECT_EQ(tally<uint64_t>(check::kUint64, {uint64_t{1} << 63}).sum, 0x1p63);
  EXPECT_EQ(tally<int32_t>(check::kInt32, {-1, 0x7fffffff}).nans, 0u) << "as a float it would be";
}

TEST(CheckKernel, ReadsFloats) {
  EXPECT_EQ(tally<float>(check::kFloat32, {0.5F, -2}).sum, -1.5);
  EXPECT_EQ(tally<double>(check::kFloat64, {0.5, -2}).absolute_sum, 2.5);
  const auto odd = tally<float>(check::kFloat32, {NAN, INFINITY, -INFINITY, 1});
  EXPECT_EQ(odd.nans, 1u);
  EXPECT_EQ(odd.infinities, 2u);
  EXPECT_EQ(odd.sum, 1);
  EXPECT_EQ(odd.largest, 1);
}

TEST(CheckKernel, WidensHalves) {
  EXPECT_EQ(value(check::kFloat16, 0x3c00), 1);
  EXPECT_EQ(value(check::kFloat16, 0xc000), -2);
  EXPECT_EQ(value(check::kFloat16, 0x7bff), 65504);
  EXPECT_EQ(value(check::kFloat16, 0x0001), 0x1p-24);
  EXPECT_EQ(value(check::kFloat16, 0x03ff), 1023 * 0x1p-24);
  EXPECT_EQ(value(check::kFloat16, 0xfc00), -INFINITY);
  EXPECT_TRUE(std::isnan(value(check::kFloat16, 0x7e00)));
  EXPECT_TRUE(std::signbit(value(check::kFloat16, 0x8000)));
}

TEST(CheckKernel, WidensBfloats) {
  for (const float exact : {1.0F, -2.5F, 0x1p-130F, 0x1.fep127F, 0.0F, INFINITY}) {
    EXPECT_EQ(value(check::kBfloat16, std::bit_cast<uint32_t>(exact) >> 16), exact);
  }
  EXPECT_TRUE(std::isnan(value(check::kBfloat16, 0x7fc0)));
}

// OCP 8-bit floating point specification: e4m3 has no infinity and one NaN of each sign.
TEST(CheckKernel, WidensEighths) {
  EXPECT_EQ(value(check::kFloat8e4m3, 0x38), 1);
  EXPECT_EQ(value(check::kFloat8e4m3, 0x7e), 448);
  EXPECT_TRUE(std::isnan(value(check::kFloat8e4m3, 0x7f)));
  EXPECT_TRUE(std::isnan(value(check::kFloat8e4m3, 0xff)));
  EXPECT_EQ(value(check::kFloat8e4m3, 0x01), 0x1p-9);
  EXPECT_EQ(value(check::kFloat8e5m2, 0x3c), 1);
  EXPECT_EQ(value(check::kFloat8e5m2, 0x7b), 57344);
  EXPECT_EQ(value(check::kFloat8e5m2, 0x7c), INFINITY);
  EXPECT_TRUE(std::isnan(value(check::kFloat8e5m2, 0x7d)));
  EXPECT_EQ(value(check::kFloat8e5m2, 0x01), 0x1p-16);
}

// However it is shared out, each element counts once and where it lies matters.
TEST(CheckKernel, AddsUpToTheSame) {
  std::vector<float> elements(1000);
  for (size_t i = 0; i < elements.size(); ++i) {
    elements[i] = static_cast<float>(i) / 8;
  }
  const format::PayloadTally whole = tally(check::kFloat32, elements);
  constexpr uint32_t kBlocks = 3;
  constexpr uint32_t kLanes = 7;
  const check::Launch launch = {elements.data(), 500, check::kFloat32, 2, kBlocks, 0, nullptr, 1};
  check::LaneTally parts[2] = {};
  for (uint32_t block = 0; block < 2 * kBlocks; ++block) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      check::join(parts[block / kBlocks],
                  check::tally_of(check::share_of(launch, block, lane, kLanes), launch.type));
    }
  }
  EXPECT_EQ(parts[0].tally.sum + parts[1].tally.sum, whole.sum);
  EXPECT_EQ(parts[1].tally.largest, whole.largest);
  EXPECT_EQ(parts[0].tally.hash,
            tally(check::kFloat32, std::vector(elements.begin(), elements.begin() + 500)).hash);
  EXPECT_EQ(parts[1].tally.hash,
            tally(check::kFloat32, std::vector(elements.begin() + 500, elements.end())).hash);
  std::swap(elements[3], elements[4]);
  EXPECT_NE(tally(check::kFloat32, elements).hash, whole.hash);
}

// Each element is in one row, with its sign, by whichever block it was looked at.
TEST(CheckKernel, SketchesByIndex) {
  constexpr uint64_t kCount = 1003;
  std::vector<float> elements(2 * kCount);
  format::PayloadRow expected[2][format::kPayloadRows] = {};
  for (size_t i = 0; i < elements.size(); ++i) {
    elements[i] = static_cast<float>(i) / 8;
    const uint64_t index = i % kCount;
    format::PayloadRow& row = expected[i / kCount][format::payload_row(index)];
    row.signed_sum += format::payload_sign(index) != 0 ? -elements[i] : elements[i];
    row.square_sum += double{elements[i]} * elements[i];
  }
  for (const uint32_t blocks : {1U, 5U}) {
    const check::Launch launch = {elements.data(), kCount, check::kFloat32, 2,
                                  blocks,          0,      nullptr,         1};
    for (uint32_t part = 0; part < 2; ++part) {
      format::PayloadRow rows[format::kPayloadRows] = {};
      for (uint32_t block = 0; block < blocks; ++block) {
        format::PayloadCell cell = {};
        check::fill(cell, launch, part * blocks + block);
        for (uint32_t row = 0; row < format::kPayloadRows; ++row) {
          rows[row].signed_sum += cell.rows[row].signed_sum;
          rows[row].square_sum += cell.rows[row].square_sum;
        }
      }
      for (uint32_t row = 0; row < format::kPayloadRows; ++row) {
        EXPECT_EQ(rows[row].signed_sum, expected[part][row].signed_sum) << row;
        EXPECT_EQ(rows[row].square_sum, expected[part][row].square_sum) << row;
      }
    }
  }
}

// The rounding errors of elements that are alike must not add up: no row, and no regular choice of
// elements, may have one sign too often.
TEST(CheckKernel, HasSignsThatBalance) {
  constexpr uint64_t kCount = 1 << 20;
  for (const uint64_t step : {1, 2, 3, 16, 48, 256, 768, 1024}) {
    double sum = 0;
    double elements = 0;
    for (uint64_t index = 0; index < kCount; index += step) {
      sum += format::payload_sign(index) != 0 ? -1 : 1;
      ++elements;
    }
    EXPECT_LT(std::abs(sum), 4 * std::sqrt(elements)) << step;
  }
}

TEST(CheckKernel, RecordsANormThatIsNotSmaller) {
  for (const double square_sum : {0.0, 2.0, 3.0, 1e-90, 1e60}) {
    const uint64_t bits = format::packed({-square_sum, square_sum});
    const auto norm = std::bit_cast<float>(static_cast<uint32_t>(bits >> 32));
    EXPECT_GE(norm, std::sqrt(square_sum));
    EXPECT_LE(norm, std::sqrt(square_sum) * (1 + 0x1p-22) + 0x1p-148);
    EXPECT_EQ(std::bit_cast<float>(static_cast<uint32_t>(bits)), static_cast<float>(-square_sum));
  }
}

}  // namespace
