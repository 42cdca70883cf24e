#include "analyzer/detectors/numeric/check_finding.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/numeric/numeric.h"
#include "analyzer/model/communicators.h"
#include "analyzer/text/values.h"
#include "analyzer/thresholds.h"

namespace traintrace {
Finding check_finding(const Run& run, const Checks& checks, std::string_view code,
                      const Check& check) {
  Finding finding = numeric_finding(code);
  const Communicator& communicator = run.communicators[check.communicator];
  finding.communicator = {communicator.id, communicator.name, communicator.size};
  finding.sequence = check.sequence;
  finding.operation = operation_name(check.operation);
  if (const auto& place = checks.sites[check.site].place) {
    finding.where.push_back(*place);
  }
  return finding;
}

std::string nonfinite_text(uint64_t nans, uint64_t infinities) {
  return infinities == 0 ? fmt::format("{} NaN", nans)
         : nans == 0     ? fmt::format("{} Inf", infinities)
                         : fmt::format("{} NaN and {} Inf", nans, infinities);
}

std::string bucket_text(const Run& run, const Check& check) {
  return fmt::format("{} of {} {} on {}", operation_name(check.operation),
                     check.count * check.parts, data_type_name(check.type),
                     short_label_of(run, run.communicators[check.communicator]));
}

std::vector<CodePlace> places_of(const Checks& checks, const CheckedOperation& operation,
                                 const Ranks& ranks) {
  std::vector<CodePlace> places;
  const std::span<const Check> all = checks_of(checks, operation);
  for (const Rank rank : ranks) {
    const auto own = std::find_if(all.begin(), all.end(),
                                  [&](const Check& check) { return check.rank == rank; });
    if (own != all.end() && checks.sites[own->site].place) {
      places.push_back(*checks.sites[own->site].place);
    }
  }
  return places;
}

Ranks ranks_of_checks(std::span<const Check> checks) {
  Ranks ranks;
  for (const Check& check : checks) {
    insert(ranks, check.rank);
  }
  return ranks;
}

std::vector<RankTally> complete_inputs(const Run& run, const Checks& checks,
                                       const CheckedOperation& operation) {
  const std::span<const Check> inputs =
      side_of(checks_of(checks, operation), format::kCheckedInput);
  std::vector<RankTally> tallies;
  if (!is_complete(run, inputs) || !std::all_of(inputs.begin(), inputs.end(), has_sums)) {
    return tallies;
  }
  for (size_t i = 0; i < inputs.size(); i += inputs[i].parts) {
    tallies.push_back({inputs[i].rank, whole(inputs.subspan(i, inputs[i].parts))});
  }
  return tallies;
}

bool is_of_gradients(const Checks& checks, const CheckedBucket& bucket) {
  const Check& first = checks.all[checks.operations[bucket.operations.front()].first];
  return is_sum(first) && is_real(first.type) && first.count * first.parts > kFewestElements;
}

std::map<uint32_t, std::vector<const CheckedBucket*>> gradient_buckets(const Checks& checks) {
  std::map<uint32_t, std::vector<const CheckedBucket*>> of_communicator;
  for (const CheckedBucket& bucket : checks.buckets) {
    if (is_of_gradients(checks, bucket)) {
      const Check& check = checks.all[checks.operations[bucket.operations.front()].first];
      of_communicator[check.communicator].push_back(&bucket);
    }
  }
  return of_communicator;
}

int64_t compared_count(const Checks& checks, const Check& like) {
  return std::count_if(checks.operations.begin(), checks.operations.end(),
                       [&](const CheckedOperation& operation) {
                         const Check& first = checks.all[operation.first];
                         return operation.agrees && first.communicator == like.communicator &&
                                is_message(first.operation) == is_message(like.operation) &&
                                (is_message(like.operation) || first.operation == like.operation);
                       });
}

bool is_complete(const Run& run, std::span<const Check> side) {
  const int size = run.communicators[side.empty() ? 0 : side.front().communicator].size;
  int members = 0;
  for (size_t i = 0; i < side.size(); i += side[i].parts) {
    ++members;
    if (i + side[i].parts > side.size() || side[i].part != 0 ||
        side[i + side[i].parts - 1].member != side[i].member) {
      return false;
    }
  }
  return size > 0 && members == size;
}

}  // namespace traintrace
