#include "analyzer/timeline/recorded/repeated_work.h"

#include <algorithm>
#include <unordered_set>

#include "analyzer/thresholds.h"
#include "analyzer/timeline/median.h"
#include "format/hashes.h"

namespace traintrace {
namespace {

// More is no step of a loop.
constexpr size_t kMostPieces = 1 << 16;
constexpr size_t kMostKept = 1 << 10;

}  // namespace

bool RepeatedWork::given(int number, const Given& work, Before before) {
  Device& device = devices_[number];
  const bool is_idle = before == Before::kIsIdle;
  if (is_idle) {
    keep_beginnings(device);
  }
  const bool begins = device.batches.empty() || is_idle ||
                      work.enter_ns - device.batches.back().given_ns >= kGivenApartNs;
  if (begins) {
    device.batches.push_back({work.enter_ns, work.leave_ns, work.launch, work.what, 1});
    device.beginnings = {work.what};
    return true;
  }
  Batch& batch = device.batches.back();
  batch.given_ns = std::max(batch.given_ns, work.leave_ns);
  batch.what = format::mixed(batch.what, work.what);
  if (++batch.count <= kMostPieces) {
    device.beginnings.push_back(batch.what);
  }
  return false;
}

void RepeatedWork::waited(int64_t leave_ns) {
  for (auto& [number, device] : devices_) {
    if (!device.batches.empty()) {
      int64_t& given_ns = device.batches.back().given_ns;
      given_ns = std::max(given_ns, leave_ns);
    }
  }
}

void RepeatedWork::keep_beginnings(Device& device) {
  if (!device.batches.empty() && beginnings_.size() < kMostKept) {
    beginnings_.try_emplace(device.batches.back().what, std::move(device.beginnings));
  }
}

// Those that were given while the device was busy so.
std::span<const RepeatedWork::Batch> RepeatedWork::given_in(const Device& device,
                                                            const HostProgress::Busy& busy) {
  const auto before = [](const Batch& batch, int64_t ns) { return batch.begin_ns < ns; };
  const auto end = device.batches.end();
  const auto first = std::lower_bound(device.batches.begin(), end, busy.begin_ns, before);
  return {first, std::lower_bound(first, end, busy.end_ns, before)};
}

// From when the first of a batch was given until all of it was seen to be done, and with it that
// with which it begins: who reads a value now and then launches more in that step.  A host that was
// blocked saw the end when it came: of these the median, as one may be the first that warms up;
// others tell no more than the shortest of them.  What else was queued is in it.
RepeatedWork::Lengths RepeatedWork::lengths(const std::vector<HostProgress::Busy>& busy) const {
  std::unordered_map<uint64_t, size_t> counts;  // of all batches, by what they are
  for (const auto& [number, device] : devices_) {
    for (const Batch& batch : device.batches) {
      counts.try_emplace(batch.what, batch.count);
    }
  }
  Lengths lengths;
  std::unordered_map<uint64_t, std::vector<int64_t>> seen;
  for (const HostProgress::Busy& each : busy) {
    const auto device = devices_.find(each.device);
    const std::span<const Batch> given =
        each.end == HostProgress::End::kNotSeen || device == devices_.end()
            ? std::span<const Batch>{}
            : given_in(device->second, each);
    const auto beginnings = given.empty() ? beginnings_.end() : beginnings_.find(given.back().what);
    if (beginnings == beginnings_.end()) {
      continue;
    }
    const int64_t length = each.end_ns - given.back().begin_ns;
    for (const uint64_t what : beginnings->second) {
      if (!counts.contains(what)) {
        continue;
      }
      if (each.end == HostProgress::End::kBlocked) {
        seen[what].push_back(length);
      } else {
        const auto [known, is_new] = lengths.known.try_emplace(what, length);
        known->second = std::min(known->second, length);
      }
    }
  }
  for (auto& [what, all] : seen) {
    lengths.known[what] = upper_median(std::move(all));
  }
  for (const auto& [what, length] : lengths.known) {
    if (length > lengths.longest_ns) {
      lengths.longest_ns = length;
      lengths.count = counts[what];
    }
  }
  return lengths;
}

// What was never seen to end is taken for longer than all that was.
int64_t RepeatedWork::Lengths::of(const Batch& batch) const {
  const auto own = known.find(batch.what);
  const auto times = static_cast<int64_t>(batch.count / std::max<size_t>(1, count) + 1);
  return own == known.end() ? kPauseTimes * times * longest_ns : own->second;
}

void RepeatedWork::cut(const HostProgress::Busy& busy, const Lengths& lengths,
                       std::vector<Piece>& pieces) const {
  const auto device = devices_.find(busy.device);
  // What was there before the records begin may have no end.
  const bool is_known = !lengths.known.empty() && busy.launch != 0 && device != devices_.end();
  const std::span<const Batch> given =
      is_known ? given_in(device->second, busy) : std::span<const Batch>{};
  Piece piece = {busy.device, {busy.begin_ns, busy.end_ns}, busy.launch, EndKnown::kExactly};
  int64_t done_ns = busy.begin_ns;  // all before
  for (size_t i = 0; i + 1 < given.size(); ++i) {
    done_ns = std::max(done_ns, given[i].given_ns) + lengths.of(given[i]);
    if (done_ns < given[i + 1].begin_ns) {
      piece.span.end_ns = done_ns;
      piece.end = EndKnown::kAtLatest;
      pieces.push_back(piece);
      const Batch& next = given[i + 1];
      piece = {busy.device, {next.begin_ns, busy.end_ns}, next.launch, EndKnown::kExactly};
    }
  }
  pieces.push_back(piece);
}

std::vector<RepeatedWork::Piece> RepeatedWork::pieces(const std::vector<HostProgress::Busy>& busy) {
  for (auto& [number, device] : devices_) {
    keep_beginnings(device);
  }
  const Lengths known = depends_ ? Lengths{} : lengths(busy);
  std::vector<Piece> pieces;
  for (const HostProgress::Busy& each : busy) {
    cut(each, known, pieces);
  }
  return pieces;
}

}  // namespace traintrace
