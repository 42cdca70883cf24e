// run: devices=4
// One process, one thread, all devices.  Communicators are made by ncclCommInitAll, and by a group
// of ncclCommInitRank; a collective of all ranks is a group of calls.
#include <nccl.h>

#include "common/buffer.h"
#include "common/member.h"

namespace {

constexpr size_t kCount = 10'000;

std::vector<Member> by_init_all(int devices) {
  std::vector<ncclComm_t> comms(static_cast<size_t>(devices));
  NCCL_CHECK(ncclCommInitAll(comms.data(), devices, nullptr));
  std::vector<Member> members;
  members.reserve(comms.size());
  for (int i = 0; i < devices; ++i) {
    members.push_back({i, i, comms[static_cast<size_t>(i)], nullptr});
  }
  return members;
}

// Ranks in the reverse order of devices, for a change.
std::vector<Member> by_group(int devices) {
  ncclUniqueId id;
  NCCL_CHECK(ncclGetUniqueId(&id));
  std::vector<Member> members(static_cast<size_t>(devices));
  NCCL_CHECK(ncclGroupStart());
  for (int i = 0; i < devices; ++i) {
    Member& member = members[static_cast<size_t>(i)];
    member.rank = devices - 1 - i;
    member.device = i;
    CUDA_CHECK(cudaSetDevice(i));
    NCCL_CHECK(ncclCommInitRank(&member.comm, devices, id, member.rank));
  }
  NCCL_CHECK(ncclGroupEnd());
  return members;
}

void exchange(std::vector<Member>& members) {
  const int size = static_cast<int>(members.size());
  std::vector<DeviceBuffer<float>> sends, receives;
  for (Member& member : members) {
    open_stream(member);
    check_identity(member, size);
    sends.emplace_back(std::vector<float>(kCount, static_cast<float>(member.rank + 1)));
    receives.emplace_back(kCount);
  }
  NCCL_CHECK(ncclGroupStart());
  for (size_t i = 0; i < members.size(); ++i) {
    NCCL_CHECK(ncclAllReduce(sends[i].data(), receives[i].data(), kCount, ncclFloat, ncclSum,
                             members[i].comm, members[i].stream));
  }
  NCCL_CHECK(ncclGroupEnd());
  NCCL_CHECK(ncclGroupStart());
  for (size_t i = 0; i < members.size(); ++i) {
    NCCL_CHECK(ncclBroadcast(sends[i].data(), sends[i].data(), kCount, ncclFloat, size - 1,
                             members[i].comm, members[i].stream));
  }
  NCCL_CHECK(ncclGroupEnd());
  wait_for(members);
  for (size_t i = 0; i < members.size(); ++i) {
    check_values("sum", receives[i].values(), [&](size_t) { return size * (size + 1) / 2; });
    check_values("broadcast", sends[i].values(), [&](size_t) { return size; });
  }
}

}  // namespace

int main() {
  int devices = 0;
  CUDA_CHECK(cudaGetDeviceCount(&devices));
  for (const auto make : {by_init_all, by_group}) {
    std::vector<Member> members = make(devices);
    exchange(members);
    for (const Member& member : members) {
      close(member);
    }
  }
  printf("nccl_one_thread: %d devices\n", devices);
  return 0;
}
