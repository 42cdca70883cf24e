// Stream memory operations: write values, wait for values, in batches, across streams and from the
// host.
#include "driver_support.h"

namespace driver_test {
namespace {

class Memop : public Driver {
 protected:
  void SetUp() override {
    Driver::SetUp();
    ASSERT_OK(cuMemHostAlloc(reinterpret_cast<void**>(&word_), 64, 0));
    *word_ = 0;
    address_ = reinterpret_cast<CUdeviceptr>(word_);
  }
  void set(uint64_t value) { __atomic_store_n(word_, value, __ATOMIC_RELEASE); }
  uint64_t get() const { return __atomic_load_n(word_, __ATOMIC_ACQUIRE); }

  uint64_t* word_ = nullptr;
  CUdeviceptr address_ = 0;
};

TEST_F(Memop, WritesInStreamOrder) {
  const CUstream s = stream(CU_STREAM_NON_BLOCKING);
  Gate gate;
  gate.hold(s);
  ASSERT_OK(cuStreamWriteValue32(s, address_, 77, 0));
  EXPECT_EQ(0u, get());
  gate.open();
  ASSERT_OK(cuStreamSynchronize(s));
  EXPECT_EQ(77u, get());
}

TEST_F(Memop, WaitsForTheHost) {
  const CUstream s = stream(CU_STREAM_NON_BLOCKING);
  ASSERT_OK(cuStreamWaitValue64(s, address_, 10, CU_STREAM_WAIT_VALUE_GEQ));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_CUDA(ERROR_NOT_READY, cuStreamQuery(s));
  set(9);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_CUDA(ERROR_NOT_READY, cuStreamQuery(s));
  set(11);
  EXPECT_OK(cuStreamSynchronize(s));
}

TEST_F(Memop, ConditionsAreThoseOfTheHeader) {
  const CUstream s = stream(CU_STREAM_NON_BLOCKING);
  const struct {
    unsigned flags;
    uint32_t wanted, fails, holds;
  } cases[] = {
      {CU_STREAM_WAIT_VALUE_GEQ, 5, 4, 6},
      {CU_STREAM_WAIT_VALUE_GEQ, 0x10, 0xfffffff0, 0x10},  // cyclic comparison
      {CU_STREAM_WAIT_VALUE_EQ, 5, 6, 5},
      {CU_STREAM_WAIT_VALUE_AND, 4, 3, 6},
      {CU_STREAM_WAIT_VALUE_NOR, 0x0fffffff, 0xf0000000, 0},
  };
  for (const auto& c : cases) {
    set(c.fails);
    ASSERT_OK(cuStreamWaitValue32(s, address_, c.wanted, c.flags));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_CUDA(ERROR_NOT_READY, cuStreamQuery(s)) << c.flags;
    set(c.holds);
    EXPECT_OK(cuStreamSynchronize(s)) << c.flags;
  }
}

TEST_F(Memop, OneStreamReleasesAnother) {
  const CUstream producer = stream(CU_STREAM_NON_BLOCKING);
  const CUstream consumer = stream(CU_STREAM_NON_BLOCKING);
  CUstreamBatchMemOpParams batch[2] = {};
  batch[0].waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32, address_, {1}, CU_STREAM_WAIT_VALUE_EQ, 0};
  batch[1].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, address_, {2}, 0, 0};
  ASSERT_OK(cuStreamBatchMemOp(consumer, 2, batch, 0));
  ASSERT_OK(cuStreamWriteValue32(producer, address_, 1, 0));
  EXPECT_OK(cuStreamSynchronize(consumer));
  EXPECT_EQ(2u, get());
}

TEST_F(Memop, BadRequestsAreRefused) {
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuStreamWriteValue32(nullptr, address_ + 1, 1, 0));
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuStreamWriteValue64(nullptr, address_ + 4, 1, 0));
  EXPECT_CUDA(ERROR_INVALID_VALUE, cuStreamBatchMemOp(nullptr, 0, nullptr, 0));
}

}  // namespace
}  // namespace driver_test
