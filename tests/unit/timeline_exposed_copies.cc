// uses: analyzer
#include <gtest/gtest.h>

#include "analyzer/timeline/exposed_copies.h"
#include "analyzer/timeline/partition.h"

namespace traintrace {
namespace {

GpuWork piece(int64_t start, int64_t end, WorkKind kind) {
  return {start, end, 0, 0, 0, 0, kind};
}

TEST(ExposedCopies, AddUpToThePartition) {
  const std::vector<GpuWork> work = {
      piece(0, 10, WorkKind::kMemory),  piece(5, 30, WorkKind::kMemory),
      piece(8, 12, WorkKind::kCompute), piece(20, 25, WorkKind::kCommunication),
      piece(22, 28, WorkKind::kMemory), piece(40, 50, WorkKind::kCompute),
      piece(41, 49, WorkKind::kMemory),
  };
  const std::vector<ExposedCopy> copies = exposed_copies(work);
  ASSERT_EQ(copies.size(), 2U);  // the third runs beside the second, the fourth beside a kernel
  EXPECT_EQ(copies[0].ns, 8);
  EXPECT_EQ(copies[1].ns, 20 - 2 - 5);
  EXPECT_EQ(copies[0].ns + copies[1].ns, partition_of(work).exposed_memory_ns);
}

TEST(ExposedCopies, AreToldFromPageableOnesByName) {
  EXPECT_TRUE(is_pageable_copy("Memcpy HtoD (Pageable -> Device)"));
  EXPECT_FALSE(is_pageable_copy("Memcpy HtoD (Pinned -> Device)"));
}

}  // namespace
}  // namespace traintrace
