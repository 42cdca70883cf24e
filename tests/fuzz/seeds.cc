#include "tests/fuzz/seeds.h"

#include <fstream>

#include "tests/unit/trace_builder.h"

namespace traintrace::fuzz {
namespace {

using testing::enter;
using testing::leave;
using testing::moment;
using testing::ticks_at_ms;
using testing::TraceBuilder;

template <class T>
std::string raw(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

void add_tables(TraceBuilder& builder) {
  builder.add_thread(1, 5);
  builder.add_thread(2, 40);
  builder.threads[0].open[1] = {ticks_at_ms(9), 7, 0, 6};
  builder.threads[0].last_call_ticks = ticks_at_ms(9);
  builder.open_ranges.resize(2);
  builder.open_ranges[0].state = 9 << 16 | 2;
  builder.open_ranges[0].thread = 1;
  builder.open_ranges[0].deeper = 1;
  builder.open_ranges[0].ranges[0] = {ticks_at_ms(5), 3, 0, {}};
  builder.open_ranges[0].ranges[1] = {ticks_at_ms(6), 0, 1, "too many"};
  builder.communicators.resize(2);
  for (format::Communicator& communicator : builder.communicators) {
    communicator.used = 1;
    communicator.origin = format::kInitRank;
    communicator.id = 77;
    communicator.collectives = communicator.operations = 3;
    communicator.latest[1] = {3, 5};
  }
  for (uint32_t n = 0; n < 3; ++n) {
    format::Operation operation{};
    operation.enter_ticks = ticks_at_ms(n);
    operation.index_low = n;
    operation.call = 7;
    operation.stream = 1;
    builder.operations[n] = operation;
    builder.operations[64 + n] = operation;
  }
  builder.peers.resize(1);
  builder.peers[0].communicator = 1;
  builder.streams.resize(2);
  builder.streams[0].handle_tag = 1;
  builder.tensor_blocks.push_back({0x2000, 512, ticks_at_ms(2), 6, 0, {}});
  builder.tensor_devices.push_back(
      {ticks_at_ms(2), 512, 4096, 512, 4096, ticks_at_ms(2), 0, 1, 0, 512});
  builder.failures.push_back(
      {ticks_at_ms(3), 64, 512, 4096, 5, 9, ticks_at_ms(2), 1, 6, 3, 0, 0, 2, 1, 0});
  builder.held_blocks.push_back({0x2000, 512, 6, 1, 11, 0, {}});
  builder.allocations.resize(3);
  builder.allocations[1] = {0x1000, 64, ticks_at_ms(2), 0, 6, 3, 0, 0};
}

constexpr const char* kEveryLine =
    "start 1700000000\n"
    "process a host=h pid=5 parent=1 start-time=9 rank=0 world=2 armed=+0 alive=+9 exit=exit "
    "status=1 "
    "exited=+9 running=no records=4 source=x\n"
    "fact key \"a text\"\n"
    "loss no-chunk 3 severity=warning\n"
    "error \"a message\" offset=4 truncated\n"
    "call newCall driver sync in:value:hex out:ranks:signed\n"
    "module 0x1000-0x2000 bias=0x1000 build-id=ab path=/x.so\n"
    "kernel 0x5 _Zk\n"
    "stack 7 f.py:1:g 0x1234\n"
    "range 3 \"step 12\" domain=my\n"
    "open-range 1 at=+1 range=3\n"
    "open-range 1 at=+1 name=forward\n"
    "thread 1 tid=5 name=t started=+1 ended=+2 events=4 dropped=1 last=newCall last-at=+1 "
    "queries=3 "
    "last-query=+2 group-depth=1 deeper-ranges=2 @7\n"
    "open 1 nccl ncclAllReduce at=+1 @7\n"
    "stream 1 handle=0x5 device=0 flags=implicit+destroyed issued=4 completed=3 completed-at=+1\n"
    "communicator c id=0x5 size=2 rank=0 origin=split parent=0x4 flags=ready+0x100 collectives=1\n"
    "checkpoint c 256 0x5\n"
    "operation c 0 ncclAllReduce seq=1 count=4 type=float32 op=sum enter=+1 stream=1 "
    "flags=launched\n"
    "peer c send 1 operations=3 hash=0x3 last=+1\n"
    "allocation 0x1000 bytes=4 at=+1 call=cudaMalloc device=0\n"
    "tensor-device 0 at=+1 allocated=4 reserved=8 before=1 allocations=2 frees=1 change=-3\n"
    "tensor-block 0x1000 bytes=4 at=+1 device=0 @7\n"
    "out-of-memory 1 at=+1 call=cudaMalloc result=2 bytes=9 device=0 free=1 total=9 asked=+1 @7\n"
    "held 1 0x1000 bytes=4 call=cudaMalloc device=0 @7\n"
    "+1 a/1 * reportMemoryUsageToProfiler address=0x1000 change=-4 allocated=0 reserved=8 @7\n"
    "+1 a/1 * nvtxRangePush \"range=3=step 12\"\n"
    "+1 a/1 > newCall value=0x5 @7=f.py:1:g caller=0x5 on-device=1\n"
    "+2 a/1 < newCall =3\n"
    "run two\n"
    "ranks 0-3 host=b\n"
    "communicator dp members=0-3 absent=2\n"
    "communicator tp members=0,1 unnamed parent=dp color=1\n"
    "+1 0-3/2 calls ncclAllReduce on dp x300 every=1ms takes=3us count=8 @a.py:1:f,b.py:2 "
    "stream=0x10\n"
    "+2 0 enters cudaMalloc bytes=5\n"
    "+2 1 polls cudaStreamQuery x5 until=+5\n"
    "+3 2 exits status=3 fast\n"
    "+4 3 dies\n"
    "end +10\n"
    "---\n"
    "rest\n";

}  // namespace

std::string native_seed() {
  TraceBuilder builder;
  builder.stats[5] = 2;
  add_tables(builder);
  const format::PythonFrame frame{4, 0};
  builder.add_definition(format::ModuleDefinition{{}, 0x1000, 0x2000, 0x1000, 0, 2, 9},
                         format::kModule, "\xab\x01/x/lib.so");
  builder.add_definition(format::StackDefinition{{}, 6, 1, 1}, format::kStack,
                         raw(frame) + raw(uint64_t{0x1234}));
  builder.add_definition(format::PythonCodeDefinition{{}, 4, 11, 116, 4, 8, 2}, format::kPythonCode,
                         std::string("steptrain.py") + "\xe8\x04");
  builder.add_definition(format::KernelDefinition{{}, 0x5000, 3, 0}, format::kKernel, "_Zk");
  builder.add_definition(format::FactDefinition{{}, 8, 1}, format::kFact, "env.RANK3");
  builder.add_definition(format::RangeNameDefinition{{}, 3, 2, 4, 0}, format::kRangeName, "mystep");
  builder.add_chunk(3, 1, 0,
                    {enter(9, 10), enter(3, 11, {128}, 6), leave(3, 12, 2),
                     moment(11, 13, {0x2000, 512, 512, 4096}, 6)});
  builder.add_chunk(4, 2, 30, {leave(9, 13), enter(7, 14, {2, 5, 1024}), leave(7, 15)});
  builder.add_chunk(5, 1, 3, {leave(9, 20), moment(13, 20, {3}), enter(7, 21, {1, 6, 9})});
  return builder.build();
}

std::vector<std::string> text_seeds() {
  std::vector<std::string> seeds = {kEveryLine};
  std::ifstream file("docs/dump.md");
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line == "```dump") {
      seeds.emplace_back();
      inside = true;
    } else if (line == "```") {
      inside = false;
    } else if (inside) {
      seeds.back() += line + '\n';
    }
  }
  return seeds;
}

std::vector<std::string> text_pieces() {
  return {"+1",
          "-1",
          "+99999999999999999999",
          "x200000",
          "x0",
          "=",
          "@",
          "@4294967295",
          "@0",
          "@=f",
          "@1=a:1:b",
          "\"",
          "\"\\x",
          "\"\\xzz\"",
          "0-65535",
          "0-3",
          "65535-0",
          "on",
          "dp/9",
          "every=9223372036s",
          "every=-1ms",
          "takes=0",
          "type=300",
          "op=-1",
          "flags=+++",
          "flags=0xffffffffff",
          "grid=0x0",
          "grid=1x2x3",
          "=ncclInProgress",
          "=4294967296",
          "until=+0",
          "device=256",
          "pid=-1",
          "pid=2147483648",
          "run x",
          "ranks 0-9",
          "end +0",
          "start 0",
          "start 9999999999",
          "process 0",
          "end -1700000000",
          "---",
          "thread 0",
          "stream 4294967296"};
}

}  // namespace traintrace::fuzz
