// Writes the native traces of a job with tensor, pipeline and data parallelism that its watchdog
// has killed, or that ended well.
//   parallel_job FOLDER [--ranks=512] [--collectives=10000] [--fault=stuck] [--culprit=RANK]
// Faults: none; stuck (a rank enters no further collective, its process is there); dead (the
// process is killed by SIGKILL); skip (a rank leaves out one all-reduce of its tensor-parallel
// group); count (a rank passes another count to one).
//
// A host has 8 ranks, which are one tensor-parallel group.  Each rank has a trace as a job of
// PyTorch leaves it: the names of all calls, stacks with Python frames, modules, blocks of memory,
// four communicators, streams.  Only the culprit's host has event records as well: those of all
// would be 13 GB at 16,384 ranks, of which the analyzer reads a few.
#include <array>
#include <cstdlib>
#include <filesystem>
#include <queue>
#include <string>
#include <tuple>

#include "format/hashes.h"
#include "format/schema.h"
#include "tests/unit/trace_builder.h"

namespace traintrace::testing {
namespace {

constexpr int kTensor = 8;        // ranks of a tensor-parallel group, and of a host
constexpr int kMicroBatches = 4;  // of a step
constexpr int kLayerCalls = 16;   // all-reduces of one direction of one micro-batch
constexpr int kBuckets = 8;       // of gradients
constexpr int kBetweenUs = 2000;  // from one operation to the next
constexpr int kNone = -1;
constexpr int kForever = 1 << 30;
constexpr int kFloat = 7;
constexpr uint64_t kLastAliveMs = 90'000;

enum class Group { kTensor, kPipeline, kData, kWorld, kCount };
constexpr size_t kGroups = static_cast<size_t>(Group::kCount);
enum class Direction { kCollective, kReceivePrevious, kSendNext, kReceiveNext, kSendPrevious };

struct Operation {
  Group group;
  Direction direction;
  format::CallId call;
  uint64_t count;
};

struct Job {
  int ranks = 512;
  int collectives = 10'000;
  std::string fault = "stuck";
  int culprit = kNone;
  int stages = 1;

  int replicas() const { return ranks / (kTensor * stages); }
  int tensor(int rank) const { return rank % kTensor; }
  int stage(int rank) const { return rank / kTensor % stages; }
  int replica(int rank) const { return rank / (kTensor * stages); }
  int at(int tensor, int stage, int replica) const {
    return tensor + kTensor * (stage + stages * replica);
  }
  bool has(int rank, Direction direction) const {
    const bool towards_end =
        direction == Direction::kSendNext || direction == Direction::kReceiveNext;
    return direction == Direction::kCollective ||
           (towards_end ? stage(rank) + 1 < stages : stage(rank) > 0);
  }
};

// What each rank calls in a step; the first and the last stage leave out what they have no
// neighbour for.
std::vector<Operation> step_of_job() {
  using enum Direction;
  using format::CallId;
  std::vector<Operation> step;
  const auto layers = [&] {
    for (int i = 0; i < kLayerCalls; ++i) {
      step.push_back({Group::kTensor, kCollective, CallId::ncclAllReduce,
                      uint64_t{4096} * static_cast<uint64_t>(1 + i % 3)});
    }
  };
  for (int i = 0; i < kMicroBatches; ++i) {
    step.push_back({Group::kPipeline, kReceivePrevious, CallId::ncclRecv, 8192});
    layers();
    step.push_back({Group::kPipeline, kSendNext, CallId::ncclSend, 8192});
    step.push_back({Group::kPipeline, kReceiveNext, CallId::ncclRecv, 8192});
    layers();
    step.push_back({Group::kPipeline, kSendPrevious, CallId::ncclSend, 8192});
  }
  for (const CallId call : {CallId::ncclReduceScatter, CallId::ncclAllGather}) {
    for (int i = 0; i < kBuckets; ++i) {
      step.push_back({Group::kData, kCollective, call, uint64_t{1} << (16 + i % 2)});
    }
  }
  step.push_back({Group::kWorld, kCollective, CallId::ncclAllReduce, 1});
  return step;
}

constexpr int kCollectivesOfStep = kMicroBatches * 2 * kLayerCalls + 2 * kBuckets + 1;

// The number of an operation is its step times the length of a step and its place in that.
class Program {
 public:
  explicit Program(const Job& job)
      : step_(step_of_job()),
        length_((job.collectives + kCollectivesOfStep - 1) / kCollectivesOfStep *
                static_cast<int>(step_.size())) {}
  int length() const { return length_; }
  const Operation& at(int number) const {
    return step_[static_cast<size_t>(number) % step_.size()];
  }
  // The first one behind `number` that is alike; kForever: there is none.
  int next(int number, Group group, Direction direction) const {
    for (int i = number + 1; i < length_; ++i) {
      if (at(i).group == group && at(i).direction == direction) {
        return i;
      }
    }
    return kForever;
  }
  // What the neighbour calls where this is called: the same micro-batch's.
  int other_end(int number, Direction there) const {
    if (number == kForever) {
      return kForever;
    }
    const int length = static_cast<int>(step_.size());
    const int micro_batch = 2 * kLayerCalls + 4;
    const int first = number - number % length + number % length / micro_batch * micro_batch;
    return next(first - 1, Group::kPipeline, there);
  }

 private:
  std::vector<Operation> step_;
  int length_;
};

// How far each rank comes: the operation that it has entered and cannot get past.
class Spread {
 public:
  Spread(const Job& job, const Program& program)
      : job_(job), program_(program), reach_(static_cast<size_t>(job.ranks), kForever) {}

  std::vector<int> from(const std::vector<std::pair<int, int>>& first) {
    for (const auto& [rank, number] : first) {
      lower(rank, number);
    }
    while (!open_.empty()) {
      const auto [number, rank] = open_.top();
      open_.pop();
      if (reach(rank) == number) {
        hold_up_others(rank, number);
      }
    }
    return reach_;
  }

 private:
  int& reach(int rank) { return reach_[static_cast<size_t>(rank)]; }
  void lower(int rank, int number) {
    if (number < reach(rank)) {
      reach(rank) = number;
      open_.emplace(number, rank);
    }
  }
  void hold_up_others(int rank, int number) {
    using enum Direction;
    const int tensor = job_.tensor(rank);
    const int stage = job_.stage(rank);
    const int replica = job_.replica(rank);
    const int in_tensor = program_.next(number, Group::kTensor, kCollective);
    const int in_data = program_.next(number, Group::kData, kCollective);
    for (int i = 0; i < kTensor; ++i) {
      lower(job_.at(i, stage, replica), i == tensor ? kForever : in_tensor);
    }
    for (int i = 0; i < job_.replicas(); ++i) {
      lower(job_.at(tensor, stage, i), i == replica ? kForever : in_data);
    }
    if (!everybody_) {
      everybody_ = true;  // who comes later holds up nobody earlier
      const int in_world = program_.next(number, Group::kWorld, kCollective);
      for (int i = 0; i < job_.ranks; ++i) {
        lower(i, i == rank ? kForever : in_world);
      }
    }
    const auto neighbour = [&](int other, Direction here, Direction there) {
      if (job_.has(rank, here)) {
        const int mine = program_.next(number, Group::kPipeline, here);
        lower(job_.at(tensor, other, replica), program_.other_end(mine, there));
      }
    };
    neighbour(stage + 1, kSendNext, kReceivePrevious);
    neighbour(stage + 1, kReceiveNext, kSendPrevious);
    neighbour(stage - 1, kReceivePrevious, kSendNext);
    neighbour(stage - 1, kSendPrevious, kReceiveNext);
  }

  const Job& job_;
  const Program& program_;
  std::vector<int> reach_;
  std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>> open_;
  bool everybody_ = false;
};

std::string schema_text() {
  std::string text = "traintrace 4\n";
  for (size_t id = 0; id < format::kCallCount; ++id) {
    const format::CallSpec& call = format::kCalls[id];
    text += "call " + std::to_string(id) + " " + call.name + " " +
            format::kLibraryNames[static_cast<size_t>(call.library)] + " " +
            format::spec_of(call.kind).name;
    for (int i = 0; i < call.field_count; ++i) {
      const format::FieldName& field =
          format::kFieldNames[static_cast<size_t>(call.fields[i].field)];
      text += std::string(call.fields[i].after_call ? " out:" : " in:") + field.name + ":" +
              field.format;
    }
    text += "\n";
  }
  return text;
}

class RankTrace {
 public:
  RankTrace(const Job& job, const Program& program, int rank, int reach)
      : job_(job), program_(program), rank_(rank), reach_(reach) {
    static const std::string schema = schema_text();
    builder_.schema = schema;
    describe_process();
    add_modules();
    add_stacks();
    add_memory();
    for (size_t group = 0; group < kGroups; ++group) {
      add_communicator(static_cast<Group>(group));
    }
  }

  std::string host() const { return "node" + std::to_string(rank_ / kTensor); }
  int pid() const { return 1000 + rank_ % kTensor; }

  std::string build() {
    const int skipped = is_culprit() && job_.fault == "skip" ? place_of_fault(program_) : kNone;
    for (int number = 0; number < program_.length() && number <= reach_; ++number) {
      if (number != skipped && job_.has(rank_, program_.at(number).direction)) {
        issue(number);
      }
    }
    store_operations();
    flush();
    add_main_thread();
    return builder_.build();
  }

  // An all-reduce of a tensor-parallel group, in the middle of all.
  static int place_of_fault(const Program& program) {
    return program.next(program.length() / 2, Group::kTensor, Direction::kCollective);
  }

 private:
  bool is_culprit() const { return rank_ == job_.culprit && job_.fault != "none"; }
  bool is_held_up() const { return reach_ < program_.length(); }
  // It enters nothing more, and is in no call.
  bool is_idle() const { return is_culprit() && (job_.fault == "stuck" || job_.fault == "dead"); }
  bool has_events() const { return rank_ / kTensor == job_.culprit / kTensor; }

  void add_fact(const std::string& key, const std::string& value) {
    builder_.add_definition(
        format::FactDefinition{
            {}, static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size())},
        format::kFact, key + value);
  }

  void describe_process() {
    format::FileHeader& header = builder_.header;
    header.pid = pid();
    header.start_time = uint64_t{7000} + static_cast<uint64_t>(rank_ % kTensor);
    header.boot_id[0] = uint64_t{1000} + static_cast<uint64_t>(rank_ / kTensor);
    header.run_key = 0x5eed;
    std::strcpy(header.host, host().c_str());
    header.anchor_boottime_ns[0] = header.first_anchor.monotonic_ns;
    const bool died = is_culprit() && job_.fault == "dead";
    const uint64_t end_ms = died ? at_us(reach_) / 1000 : is_held_up() ? kLastAliveMs : 60'000;
    for (size_t i = 0; i < 2; ++i) {
      header.anchors[i] = {ticks_at_ms(end_ms), 5'000'000'000 + end_ms * 1'000'000,
                           kTestEpochNs + end_ms * 1'000'000};
      header.anchor_boottime_ns[1 + i] = header.anchors[i].monotonic_ns;
    }
    header.last_alive_ticks = ticks_at_ms(end_ms);
    if (is_held_up() || died) {
      header.gone_boottime_ns = header.anchors[1].monotonic_ns + 500'000'000;
      header.gone_realtime_ns = header.anchors[1].realtime_ns + 500'000'000;
      header.gone_status = 9;
      header.gone_how = format::kSeenGoneStatus;
    } else {
      header.exit_ticks = ticks_at_ms(end_ms);
      header.exit_kind = format::kExit;
    }
    add_fact("env.RANK", std::to_string(rank_));
    add_fact("env.LOCAL_RANK", std::to_string(rank_ % kTensor));
    add_fact("env.WORLD_SIZE", std::to_string(job_.ranks));
    add_fact("env.TORCHELASTIC_RUN_ID", "large");
    add_fact("command-line", std::string("python3\0train.py", 16));
    add_fact("nccl-version", "22807");
  }

  void add_modules() {
    constexpr uint64_t kModules = 120;
    for (uint64_t i = 0; i < kModules; ++i) {
      const std::string path =
          "/opt/venv/lib/python3.11/site-packages/torch/lib/libpart" + std::to_string(i) + ".so";
      const uint64_t begin = 0x7f0000000000 + i * 0x1000000;
      builder_.add_definition(format::ModuleDefinition{{},
                                                       begin,
                                                       begin + 0x800000,
                                                       begin,
                                                       ticks_at_ms(0),
                                                       20,
                                                       static_cast<uint32_t>(path.size())},
                              format::kModule,
                              std::string(20, static_cast<char>('a' + i % 26)) + path);
    }
  }

  void add_stacks() {
    constexpr uint32_t kFrames = 10;
    constexpr uint32_t kNative = 6;
    for (uint32_t code = 1; code <= kFrames; ++code) {
      const std::string name = "Trainer.function_" + std::to_string(code);
      const std::string file = "/job/megatron/core/part_" + std::to_string(code) + ".py";
      builder_.add_definition(format::PythonCodeDefinition{{},
                                                           code,
                                                           11,
                                                           static_cast<int32_t>(10 * code),
                                                           static_cast<uint32_t>(name.size()),
                                                           static_cast<uint32_t>(file.size()),
                                                           0},
                              format::kPythonCode, name + file);
    }
    for (uint32_t id = 1; id <= kStacks; ++id) {
      std::string frames;
      for (uint32_t i = 0; i < kFrames; ++i) {
        const format::PythonFrame frame{1 + (id + i) % kFrames, 2};
        frames.append(reinterpret_cast<const char*>(&frame), sizeof frame);
      }
      for (uint64_t i = 0; i < kNative; ++i) {
        const uint64_t address = 0x7f0000001000 + i * 0x1000000 + id;
        frames.append(reinterpret_cast<const char*>(&address), sizeof address);
      }
      builder_.add_definition(format::StackDefinition{{}, id, kFrames, kNative}, format::kStack,
                              frames);
    }
  }

  void add_memory() {
    for (uint64_t i = 0; i < 64; ++i) {
      builder_.allocations.push_back({0x100000000 + (i << 24), uint64_t{1} << 24, ticks_at_ms(3), 0,
                                      1 + static_cast<uint32_t>(i % kStacks),
                                      static_cast<uint16_t>(format::CallId::cudaMalloc),
                                      static_cast<uint8_t>(rank_ % kTensor), 0});
    }
    for (uint64_t i = 0; i < 400; ++i) {
      builder_.tensor_blocks.push_back({0x100000000 + (i << 20),
                                        uint64_t{1} << 20,
                                        ticks_at_ms(4),
                                        1 + static_cast<uint32_t>(i % kStacks),
                                        static_cast<uint8_t>(rank_ % kTensor),
                                        {}});
    }
  }

  int size_of(Group group) const {
    const int sizes[] = {kTensor, job_.stages, job_.replicas(), job_.ranks};
    return sizes[static_cast<size_t>(group)];
  }
  int rank_in(Group group) const {
    const int ranks[] = {job_.tensor(rank_), job_.stage(rank_), job_.replica(rank_), rank_};
    return ranks[static_cast<size_t>(group)];
  }
  uint64_t id_of(Group group) const {
    const int firsts[] = {rank_ - job_.tensor(rank_),
                          job_.at(job_.tensor(rank_), 0, job_.replica(rank_)),
                          job_.at(job_.tensor(rank_), job_.stage(rank_), 0), 0};
    return (uint64_t{0x9f3c} + static_cast<uint64_t>(group)) << 32 |
           static_cast<uint64_t>(firsts[static_cast<size_t>(group)]);
  }

  void add_communicator(Group group) {
    static const char* const names[] = {"tp", "pp", "dp", "world"};
    format::Communicator made{};
    made.used = 1;
    made.origin = format::kInitRank;
    made.id = id_of(group);
    made.handle = 0x5000 + static_cast<uint64_t>(group);
    made.size = size_of(group);
    made.rank = rank_in(group);
    made.device = rank_ % kTensor;
    made.flags = format::kInitDone;
    made.created_ticks = ticks_at_ms(1);
    made.ready_ticks = ticks_at_ms(2);
    made.created_stack = 1;
    made.number = static_cast<uint32_t>(group) + 1;
    std::strcpy(made.name, names[static_cast<size_t>(group)]);
    builder_.communicators.push_back(made);
    format::Stream stream{};
    stream.handle_tag = 0x9000 + static_cast<uint64_t>(group);
    stream.device = rank_ % kTensor;
    stream.created_ticks = ticks_at_ms(1);
    stream.stack = 1;
    builder_.streams.push_back(stream);
  }

  static uint64_t at_us(int number) {
    return uint64_t{10'000} + static_cast<uint64_t>(number) * kBetweenUs;
  }
  static uint64_t ticks_of(int number) { return ticks_at_ms(0) + at_us(number) * 3000; }

  void issue(int number) {
    const Operation& operation = program_.at(number);
    const auto group = static_cast<size_t>(operation.group);
    format::Communicator& own = builder_.communicators[group];
    format::Stream& stream = builder_.streams[group];
    const bool finished = number < reach_ || is_idle();
    ++stream.issued;
    if (finished) {
      stream.completed = stream.issued;
      stream.completed_ticks = ticks_of(number) + 1000;
    }
    const bool wrong = is_culprit() && job_.fault == "count" && number == place_of_fault(program_);
    const uint64_t count = operation.count + (wrong ? 64 : 0);
    uint64_t sequence = 0;
    int peer = -1;
    const bool collective = operation.direction == Direction::kCollective;
    if (collective) {
      sequence = take_collective(own, operation.call, count);
    } else {
      std::tie(sequence, peer) = take_message(own, operation.direction, count, number);
    }
    own.last_ticks = ticks_of(number);
    recent_[group][own.operations % format::kRecentOperations] = {
        .enter_ticks = ticks_of(number),
        .leave_ticks = ticks_of(number) + 30'000,
        .sequence = sequence,
        .count = count,
        .call = static_cast<uint16_t>(operation.call),
        .data_type = kFloat,
        .flags = format::kLaunched,
        .stack = stack_of(operation),
        .reduction = static_cast<int16_t>(reduces(operation.call) ? 0 : -1),
        .group = 0,
        .peer = peer,
        .stream = static_cast<uint32_t>(group) + 1,
        .index_low = static_cast<uint32_t>(own.operations),
        .position = stream.issued};
    ++own.operations;
    if (has_events()) {
      add_events(operation, number, sequence, count, peer);
    }
  }

  static bool reduces(format::CallId call) {
    return call != format::CallId::ncclAllGather && call != format::CallId::ncclSend &&
           call != format::CallId::ncclRecv;
  }
  static uint32_t stack_of(const Operation& operation) {
    return 1 + static_cast<uint32_t>(operation.group) * 5 +
           static_cast<uint32_t>(operation.direction);
  }

  static uint64_t take_collective(format::Communicator& own, format::CallId call, uint64_t count) {
    const uint64_t sequence = ++own.collectives;
    own.hash = format::rolling_hash(
        own.hash, format::call_name_hash(format::kCalls[static_cast<size_t>(call)].name), count,
        kFloat, reduces(call) ? 0 : -1, -1);
    own.latest[sequence % 2] = {sequence, own.hash};
    if (sequence % format::kCheckpointEvery == 0) {
      own.checkpoints[sequence / format::kCheckpointEvery % format::kCheckpoints] = {sequence,
                                                                                     own.hash};
    }
    return sequence;
  }

  std::pair<uint64_t, int> take_message(const format::Communicator& own, Direction direction,
                                        uint64_t count, int number) {
    using enum Direction;
    const bool receives = direction == kReceivePrevious || direction == kReceiveNext;
    const int peer = own.rank + (direction == kSendNext || direction == kReceiveNext ? 1 : -1);
    format::Peer& pair = peer_of(own.number, receives, peer);
    pair.hash = format::rolling_peer_hash(pair.hash, count, kFloat);
    const uint64_t sequence = ++pair.operations;
    pair.last_ticks = ticks_of(number);
    pair.latest[sequence % 2] = {sequence, pair.hash};
    return {sequence, peer};
  }
  format::Peer& peer_of(uint32_t communicator, bool receives, int peer) {
    for (format::Peer& known : builder_.peers) {
      if ((known.is_receive != 0) == receives && known.peer == peer) {
        return known;
      }
    }
    format::Peer made{};
    made.communicator = communicator;
    made.is_receive = receives ? 1 : 0;
    made.peer = peer;
    return builder_.peers.emplace_back(made);
  }

  // With the fields that the schema names, those that matter; the others are 0.
  void add_events(const Operation& operation, int number, uint64_t sequence, uint64_t count,
                  int peer) {
    const format::CallSpec& spec = format::kCalls[static_cast<size_t>(operation.call)];
    std::vector<uint64_t> fields;
    for (int i = 0; i < spec.field_count; ++i) {
      const std::string name = format::kFieldNames[static_cast<size_t>(spec.fields[i].field)].name;
      if (!spec.fields[i].after_call) {
        fields.push_back(name == "comm"     ? static_cast<uint64_t>(operation.group) + 1
                         : name == "seq"    ? sequence
                         : name == "count"  ? count
                         : name == "type"   ? static_cast<uint64_t>(kFloat)
                         : name == "peer"   ? static_cast<uint64_t>(peer)
                         : name == "stream" ? 0x9000 + static_cast<uint64_t>(operation.group) - 1
                                            : 0);
      }
    }
    std::vector<uint64_t> begin =
        enter(static_cast<uint16_t>(operation.call), 0, fields, stack_of(operation));
    std::vector<uint64_t> end = leave(static_cast<uint16_t>(operation.call), 0);
    begin[1] = ticks_of(number);
    end[1] = ticks_of(number) + 30'000;
    add_event(begin);
    add_event(end);
  }
  void add_event(const std::vector<uint64_t>& record) {
    if ((words_ + record.size()) * 8 + sizeof(format::EventChunk) > kTestChunkBytes) {
      flush();
    }
    words_ += record.size();
    records_.push_back(record);
  }
  void flush() {
    if (!records_.empty()) {
      builder_.add_chunk(++ordinal_, 1, written_, records_);
      written_ += records_.size();
      records_.clear();
      words_ = 0;
    }
  }

  void store_operations() {
    for (size_t group = 0; group < kGroups; ++group) {
      for (size_t i = 0; i < format::kRecentOperations; ++i) {
        if (recent_[group][i].enter_ticks != 0) {
          builder_.operations[group * format::kRecentOperations + i] = recent_[group][i];
        }
      }
    }
  }

  // Who is held up waits for the GPU.
  void add_main_thread() {
    uint64_t operations = 0;
    for (const format::Communicator& communicator : builder_.communicators) {
      operations += communicator.operations;
    }
    builder_.add_thread(1, 2 * operations);
    format::Thread& thread = builder_.threads.back();
    const int last = std::min(reach_, program_.length() - 1);
    thread.last_call_ticks = ticks_of(last) + 30'000;
    thread.last_call = static_cast<uint16_t>(format::CallId::ncclAllReduce);
    thread.last_stack = 1;
    if (is_held_up() && !is_idle()) {
      thread.open[0] = {ticks_of(last) + 60'000,
                        static_cast<uint16_t>(format::CallId::cudaStreamSynchronize), 0, 2};
      thread.last_call = thread.open[0].call;
      thread.last_call_ticks = thread.open[0].enter_ticks;
      ++thread.events;
    }
  }

  static constexpr uint32_t kStacks = 24;
  const Job& job_;
  const Program& program_;
  int rank_;
  int reach_;
  TraceBuilder builder_;
  std::array<std::array<format::Operation, format::kRecentOperations>, kGroups> recent_{};
  std::vector<std::vector<uint64_t>> records_;
  size_t words_ = 0;
  uint64_t ordinal_ = 0;
  uint64_t written_ = 0;
};

// Who cannot get on by the fault itself, and where.
std::vector<std::pair<int, int>> held_up_first(const Job& job, const Program& program) {
  const int place = RankTrace::place_of_fault(program);
  std::vector<std::pair<int, int>> first;
  const int host = job.culprit / kTensor * kTensor;
  if (job.fault == "stuck" || job.fault == "dead") {
    first.emplace_back(job.culprit, place - 1);
  } else if (job.fault == "count") {
    for (int i = 0; i < kTensor; ++i) {
      first.emplace_back(host + i, place);
    }
  } else if (job.fault == "skip") {  // seen only when the others wait for their last one
    int last = place;
    for (int next = place; next < program.length();
         next = program.next(next, Group::kTensor, Direction::kCollective)) {
      last = next;
    }
    for (int i = 0; i < kTensor; ++i) {
      if (host + i != job.culprit) {
        first.emplace_back(host + i, last);
      }
    }
  }
  return first;
}

bool parse(int argc, char** argv, Job& job) {
  for (int i = 2; i < argc; ++i) {
    const std::string option = argv[i];
    const std::string value = option.substr(option.find('=') + 1);
    if (option.starts_with("--ranks=")) {
      job.ranks = std::atoi(value.c_str());
    } else if (option.starts_with("--collectives=")) {
      job.collectives = std::atoi(value.c_str());
    } else if (option.starts_with("--fault=")) {
      job.fault = value;
    } else if (option.starts_with("--culprit=")) {
      job.culprit = std::atoi(value.c_str());
    } else {
      return false;
    }
  }
  job.culprit = job.culprit == kNone ? job.ranks / 2 + 3 : job.culprit;
  while (job.stages < 16 && job.ranks / (kTensor * job.stages * 2) >= 2 * job.stages) {
    job.stages *= 2;
  }
  return argc > 1 && job.ranks % (kTensor * job.stages) == 0 && job.culprit < job.ranks;
}

}  // namespace
}  // namespace traintrace::testing

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): ends the program
  using namespace traintrace::testing;
  Job job;
  if (!parse(argc, argv, job)) {
    std::fputs("parallel_job FOLDER [--ranks=N] [--collectives=N] [--fault=..] [--culprit=RANK]\n",
               stderr);
    return 2;
  }
  const Program program(job);
  const std::vector<int> reach = Spread(job, program).from(held_up_first(job, program));
  std::filesystem::create_directories(argv[1]);
  for (int rank = 0; rank < job.ranks; ++rank) {
    RankTrace trace(job, program, rank, reach[static_cast<size_t>(rank)]);
    std::ofstream(std::string(argv[1]) + "/" + trace.host() + "." + std::to_string(trace.pid()) +
                      "." + std::to_string(7000 + rank % kTensor) + ".trace",
                  std::ios::binary)
        << trace.build();
  }
  return 0;
}
