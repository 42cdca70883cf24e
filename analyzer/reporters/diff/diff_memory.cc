#include "analyzer/reporters/diff/diff_memory.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace traintrace {
namespace {

using Json = nlohmann::ordered_json;

std::string who(const MemoryDiff& diff) {
  return diff.a.rank == diff.b.rank
             ? fmt::format("rank {}", diff.a.rank.value)
             : fmt::format("rank {} in A, {} in B", diff.a.rank.value, diff.b.rank.value);
}

std::string headline(const MemoryDiff& diff) {
  return fmt::format("PyTorch's memory of {}: {} bytes at its peak in A, {} in B", who(diff),
                     diff.a.peak, diff.b.peak);
}

std::string taken_text(const PeakSide& side) {
  return side.bytes == 0 ? "nothing more" : fmt::format("{} bytes at {}", side.bytes, side.place);
}

std::string split_text(const MemoryDiff& diff) {
  return fmt::format("the first difference, after {} allocations of that thread: A took {}, B {}",
                     diff.same, taken_text(diff.a), taken_text(diff.b));
}

Json json_of(const MemoryDiff& diff, const PeakSide& side) {
  Json json = {{"rank", side.rank.value}, {"device", side.device}, {"peak_bytes", side.peak}};
  if (diff.split) {
    json["bytes"] = side.bytes;
    json["where"] = side.place;
  }
  if (diff.surplus.bytes != 0) {
    const bool has_more = (&side == &diff.b) == diff.b_is_higher();
    json["surplus_bytes"] = has_more ? diff.surplus.bytes : diff.surplus.other;
  }
  return json;
}

}  // namespace

std::string memory_verdict(const std::vector<MemoryDiff>& diffs) {
  if (diffs.empty()) {
    return "";
  }
  const MemoryDiff& most = diffs.front();
  return headline(most) + (most.split ? "; " + split_text(most) : "");
}

std::string memory_text(const std::vector<MemoryDiff>& diffs) {
  std::string text;
  for (const MemoryDiff& diff : diffs) {
    text += headline(diff) + '\n';
    if (diff.split) {
      text += "    " + split_text(diff) + '\n';
    }
    if (diff.surplus.bytes != 0) {
      const bool b = diff.b_is_higher();
      text +=
          fmt::format("    at their peaks: {} has {} bytes of {}, {} {}\n", b ? "B" : "A",
                      diff.surplus.bytes, diff.surplus.place, b ? "A" : "B", diff.surplus.other);
    }
  }
  return text;
}

Json memory_json(const std::vector<MemoryDiff>& diffs) {
  Json rows = Json::array();
  for (const MemoryDiff& diff : diffs) {
    Json& row = rows.emplace_back(Json::object());
    row["a"] = json_of(diff, diff.a);
    row["b"] = json_of(diff, diff.b);
    if (diff.split) {
      row["same_count"] = diff.same;
    }
    if (diff.surplus.bytes != 0) {
      row["surplus_where"] = diff.surplus.place;
    }
  }
  return rows;
}

}  // namespace traintrace
