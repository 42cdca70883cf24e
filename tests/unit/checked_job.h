// Jobs that compute with numbers of their own, here, and leave the records that
// TRAINTRACE_PAYLOAD=check leaves.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <random>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/numeric/numeric.h"
#include "analyzer/judge/load.h"
#include "analyzer/numbers/numbers.h"
#include "analyzer/text/dump_parser.h"

namespace traintrace::testing {

using Data = std::vector<double>;
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

enum class Type : uint8_t { kFloat32, kFloat16, kBfloat16 };

inline const char* name_of(Type type) {
  return type == Type::kFloat32 ? "float32" : type == Type::kFloat16 ? "float16" : "bfloat16";
}

// As the type has it.
inline double rounded(Type type, double value) {
  if (type == Type::kFloat32 || !std::isfinite(value) || value == 0) {
    return static_cast<float>(value);
  }
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);
  const int digits =
      type == Type::kBfloat16 ? 8 : std::min(11, 11 + exponent + 13);  // of subnormal ones fewer
  const double result = std::ldexp(std::nearbyint(std::ldexp(mantissa, digits)), exponent - digits);
  return type == Type::kFloat16 && std::abs(result) > 65504 ? std::copysign(kInf, value) : result;
}

inline format::PayloadTally tally_of(std::span<const double> data) {
  format::PayloadTally tally = {};
  for (size_t i = 0; i < data.size(); ++i) {
    tally.hash += format::payload_hash(i, std::bit_cast<uint64_t>(data[i]));
    if (!std::isfinite(data[i])) {
      ++(std::isnan(data[i]) ? tally.nans : tally.infinities);
      continue;
    }
    tally.largest = std::max(tally.largest, std::abs(data[i]));
    tally.sum += data[i];
    tally.absolute_sum += std::abs(data[i]);
    tally.square_sum += data[i] * data[i];
  }
  return tally;
}

// The fields of the rows.
inline std::string sketch_of(std::span<const double> data) {
  format::PayloadRow rows[format::kPayloadRows] = {};
  for (size_t i = 0; i < data.size(); ++i) {
    const double value = std::isfinite(data[i]) ? data[i] : 0;
    format::PayloadRow& row = rows[format::payload_row(i)];
    row.signed_sum += format::payload_sign(i) != 0 ? -value : value;
    row.square_sum += value * value;
  }
  std::string text;
  for (uint32_t row = 0; row < format::kPayloadRows; ++row) {
    text += fmt::format(" row{}=0x{:x}", row, format::packed(rows[row]));
  }
  return text;
}

inline std::string real(double value) {
  return fmt::format("0x{:x}", std::bit_cast<uint64_t>(value));
}

// A job of some ranks with one communicator, as text.
class Job {
 public:
  explicit Job(int ranks, const std::string& more = "") : ranks_(ranks) {
    text_ = fmt::format(
        "start 0\nranks 0-{}\nfact setting.TRAINTRACE_PAYLOAD check\n{}"
        "communicator dp members=0-{}\n",
        ranks - 1, more, ranks - 1);
  }

  int ranks() const { return ranks_; }
  // From now on that rank's checks are made so much later than those of the others.
  void delay(int rank, int64_t ms) { late_ms_[rank] = ms; }
  int64_t late_ms(int rank) const {
    const auto late = late_ms_.find(rank);
    return late == late_ms_.end() ? 0 : late->second;
  }
  void line(const std::string& line) { text_ += line + "\n"; }
  // Of all ranks alike.
  void next_operation() {
    ++sequence_;
    time_ms_ += 10;
  }
  uint64_t sequence() const { return sequence_; }

  struct Part {
    uint32_t part = 0, parts = 1;
    bool output = false;
  };
  struct End {  // of a message
    int peer = 0;
    uint64_t number = 0;
  };
  void record(int rank, format::CheckedOperation operation, Part part, const Data& data,
              std::optional<End> end = std::nullopt) {
    const format::PayloadTally tally = tally_of(data);
    text_ += fmt::format(
        "+{}ms {}/1 * payloadCheck comm=dp seq={} operation={} part={}x{}x{} type={} op={} peer={} "
        "count={} nan={} inf={} largest={} sum={} abs_sum={} square_sum={} hash=0x{:x} "
        "@train.py:{}:step\n",
        time_ms_ + late_ms(rank) + (part.output ? 1 : 0), rank, end ? end->number : sequence_,
        static_cast<int>(operation), part.part, part.parts, part.output ? 1 : 0, name_of(type),
        average ? "avg" : reduction, end ? end->peer : 0, data.size(), tally.nans, tally.infinities,
        real(tally.largest), real(tally.sum), real(tally.absolute_sum), real(tally.square_sum),
        tally.hash, line_number);
    const bool adds =
        operation == format::kCheckedAllReduce || operation == format::kCheckedReduceScatter;
    if (sketches && adds && (average || reduction == "sum")) {
      text_ += fmt::format("+{}ms {}/1 * payloadSketch comm=dp seq={} part={}x{}x{}{}\n",
                           time_ms_ + (part.output ? 1 : 0), rank, sequence_, part.part, part.parts,
                           part.output ? 1 : 0, sketch_of(data));
    }
  }

  // A ring: each rank adds its data to those of the ranks before it.
  Data sum_of(const std::vector<Data>& inputs) const {
    Data sum = inputs.front();
    const double share = average ? rounded(type, 1.0 / ranks_) : 1;
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i] = 0;
      for (size_t hop = 0; hop < inputs.size(); ++hop) {
        const Data& input = inputs[(hop + i * inputs.size() / sum.size()) % inputs.size()];
        const double value = average ? rounded(type, input[i] * share) : input[i];
        sum[i] = hop == 0 ? value : rounded(type, sum[i] + value);
      }
    }
    return sum;
  }

  using Change = std::function<void(int rank, Data& result)>;
  void all_reduce(
      const std::vector<Data>& inputs, const Change& change = [](int, Data&) {}) {
    next_operation();
    const Data sum = sum_of(inputs);
    for (int rank = 0; rank < ranks_; ++rank) {
      record(rank, format::kCheckedAllReduce, {}, inputs[static_cast<size_t>(rank)]);
      Data result = sum;
      change(rank, result);
      record(rank, format::kCheckedAllReduce, {0, 1, true}, result);
    }
  }

  void unchecked_all_reduce() {
    next_operation();
    for (int rank = 0; rank < ranks_; ++rank) {
      text_ += fmt::format(
          "+{0}ms {1}/1 > ncclAllReduce comm=dp seq={2} count=500 type=float32 op=sum\n"
          "+{0}ms {1}/1 < ncclAllReduce =ncclSuccess\n",
          time_ms_, rank, sequence_);
    }
  }

  void reduce_scatter(
      const std::vector<Data>& inputs, const Change& change = [](int, Data&) {}) {
    next_operation();
    const Data sum = sum_of(inputs);
    const size_t each = sum.size() / static_cast<size_t>(ranks_);
    const auto part = [&](const Data& data, int number) {
      const auto first = data.begin() + static_cast<std::ptrdiff_t>(each) * number;
      return Data(first, first + static_cast<std::ptrdiff_t>(each));
    };
    for (int rank = 0; rank < ranks_; ++rank) {
      for (int other = 0; other < ranks_; ++other) {
        record(rank, format::kCheckedReduceScatter,
               {static_cast<uint32_t>(other), static_cast<uint32_t>(ranks_), false},
               part(inputs[static_cast<size_t>(rank)], other));
      }
      Data result = part(sum, rank);
      change(rank, result);
      record(rank, format::kCheckedReduceScatter, {0, 1, true}, result);
    }
  }

  using ChangeOf = std::function<void(int from, int to, Data& data)>;
  void all_gather(const std::vector<Data>& inputs, const ChangeOf& change) {
    next_operation();
    for (int rank = 0; rank < ranks_; ++rank) {
      record(rank, format::kCheckedAllGather, {}, inputs[static_cast<size_t>(rank)]);
      for (int from = 0; from < ranks_; ++from) {
        Data data = inputs[static_cast<size_t>(from)];
        change(from, rank, data);
        record(rank, format::kCheckedAllGather,
               {static_cast<uint32_t>(from), static_cast<uint32_t>(ranks_), true}, data);
      }
    }
  }

  void all_to_all(const std::vector<Data>& inputs, const ChangeOf& change) {
    next_operation();
    for (int rank = 0; rank < ranks_; ++rank) {
      for (int to = 0; to < ranks_; ++to) {
        Data data = inputs[static_cast<size_t>(rank)];
        data[0] = rounded(type, to);
        record(rank, format::kCheckedAllToAll,
               {static_cast<uint32_t>(to), static_cast<uint32_t>(ranks_), false}, data);
      }
      for (int from = 0; from < ranks_; ++from) {
        Data data = inputs[static_cast<size_t>(from)];
        data[0] = rounded(type, rank);
        change(from, rank, data);
        record(rank, format::kCheckedAllToAll,
               {static_cast<uint32_t>(from), static_cast<uint32_t>(ranks_), true}, data);
      }
    }
  }

  void broadcast(const Data& data, const ChangeOf& change) {
    next_operation();
    record(0, format::kCheckedBroadcast, {}, data);
    for (int rank = 0; rank < ranks_; ++rank) {
      Data result = data;
      change(0, rank, result);
      record(rank, format::kCheckedBroadcast, {0, 1, true}, result);
    }
  }

  void message(int from, int to, uint64_t number, const Data& sent, const Data& got) {
    time_ms_ += 10;
    record(from, format::kCheckedSend, {}, sent, End{to, number});
    record(to, format::kCheckedReceive, {0, 1, true}, got, End{from, number});
  }

  Result<Run> run() const {
    Result<DumpText> dump = parse_dump(text_, "test");
    EXPECT_TRUE(dump) << dump.error().message << " in line " << dump.error().offset;
    return assembled_run(std::move(dump->processes));
  }

  // The numbers that it leaves; and the same steps in the same place are of one bucket.
  Type type = Type::kFloat32;
  bool average = false;
  bool sketches = true;  // false: as older tracers recorded
  std::string reduction = "sum";
  int line_number = 10;

 private:
  const int ranks_;
  uint64_t sequence_ = 0;
  int64_t time_ms_ = 1000;
  std::map<int, int64_t> late_ms_;
  std::string text_;
};

inline Numbers numbers_of(const Run& run) {
  Numbers numbers;
  for (size_t i = 0; i < run.processes.size(); ++i) {
    add_numbers(run, i, run.processes[i], numbers);
  }
  complete(numbers);
  return numbers;
}

// "SEVERITY CODE CERTAINTY culprits=.. side=.. seq=.."
inline std::vector<std::string> found_in(const Job& job) {
  const Result<Run> run = job.run();
  std::vector<std::string> lines;
  for (const Finding& finding : find_in_numbers(*run, numbers_of(*run))) {
    std::string& line = lines.emplace_back(fmt::format("{} {} {}", name_of(finding.severity),
                                                       finding.code, name_of(finding.certainty)));
    line += finding.culprits.empty() ? "" : " culprits=" + rank_list(finding.culprits);
    for (const Ranks& side : finding.sides) {
      line += " side=" + rank_list(side);
    }
    line += finding.sequence ? fmt::format(" seq={}", *finding.sequence) : "";
    for (const auto& [key, value] : finding.values) {
      const CatalogueRow* const row = catalogue_row(finding.code);
      EXPECT_TRUE(row != nullptr &&
                  std::any_of(row->values.begin(), row->values.end(),
                              [&, key = key](const ValueRow& one) { return one.key == key; }))
          << finding.code << " has no value " << key;
    }
  }
  return lines;
}
using Lines = std::vector<std::string>;

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  std::vector<Data> gradients(const Job& job, size_t count, double scale = 0.01) {
    std::normal_distribution<double> normal(0, scale);
    std::vector<Data> all(static_cast<size_t>(job.ranks()), Data(count));
    for (Data& data : all) {
      for (double& value : data) {
        value = rounded(job.type, normal(engine_));
      }
    }
    return all;
  }
  size_t below(size_t bound) {
    return std::uniform_int_distribution<size_t>(0, bound - 1)(engine_);
  }

 private:
  std::mt19937_64 engine_;
};

inline constexpr size_t kCount = 200;

// Some steps, one bucket in each.
inline void train(Job& job, Random& random, int steps) {
  for (int i = 0; i < steps; ++i) {
    job.all_reduce(random.gradients(job, kCount));
  }
}

}  // namespace traintrace::testing
