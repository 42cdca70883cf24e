#include "analyzer/importers/memory/snapshot_entry.h"

#include <algorithm>
#include <iterator>

namespace traintrace {
namespace {

struct ActionName {
  std::string_view name;
  SnapshotAction action;
};
constexpr ActionName kActions[] = {
    {"alloc", SnapshotAction::kAlloc},
    {"free_requested", SnapshotAction::kFree},  // from then on it is not in use
    {"segment_alloc", SnapshotAction::kSegmentAlloc},
    {"segment_free", SnapshotAction::kSegmentFree},
    {"segment_map", SnapshotAction::kMap},
    {"segment_unmap", SnapshotAction::kUnmap},
    {"oom", SnapshotAction::kOom},
};

}  // namespace

uint64_t snapshot_number(const Value& record, std::string_view key) {
  const Value* const value = record.find(key);
  return value == nullptr ? 0 : static_cast<uint64_t>(std::max<int64_t>(value->as_integer(0), 0));
}

std::string_view snapshot_text(const Value& record, std::string_view key) {
  const Value* const value = record.find(key);
  return value == nullptr ? std::string_view() : value->as_text();
}

TimeNs snapshot_time(const Value& record) {
  constexpr uint64_t kLatest = INT64_MAX / 2000;
  return static_cast<TimeNs>(std::min(snapshot_number(record, "time_us"), kLatest) * 1000);
}

std::optional<SnapshotEntry> snapshot_entry(const Value& record) {
  const std::string_view name = snapshot_text(record, "action");
  const auto* const known = std::find_if(std::begin(kActions), std::end(kActions),
                                         [&](const ActionName& each) { return each.name == name; });
  if (known == std::end(kActions)) {
    return std::nullopt;
  }
  const SnapshotEntry entry{known->action, snapshot_time(record), snapshot_number(record, "addr"),
                            snapshot_number(record, "size"),
                            snapshot_number(record, "device_free")};
  return entry.bytes <= INT64_MAX - entry.address ? std::optional(entry) : std::nullopt;
}

uint64_t snapshot_rounded(uint64_t bytes) {
  constexpr uint64_t kUnit = 512;
  return bytes > ~uint64_t{0} - kUnit ? bytes
                                      : std::max<uint64_t>((bytes + kUnit - 1) / kUnit, 1) * kUnit;
}

}  // namespace traintrace
