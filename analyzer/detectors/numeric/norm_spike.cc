// A rank whose gradients are far larger than they were, and than those of others.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "analyzer/detectors/numeric/check_finding.h"
#include "analyzer/detectors/numeric/numeric.h"
#include "analyzer/detectors/trace/trace_finding.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

struct NormSpike {
  const CheckedOperation* operation = nullptr;
  Rank rank;
  double norm = 0, usual = 0, others = 0;
  size_t learned = 0;  // norms that say what is usual
};

double median_of_others(const std::vector<RankTally>& inputs, Rank rank) {
  std::vector<double> norms;
  for (const RankTally& input : inputs) {
    if (input.rank != rank) {
      norms.push_back(input.tally.norm());
    }
  }
  const auto middle = norms.begin() + static_cast<std::ptrdiff_t>(norms.size() / 2);
  std::nth_element(norms.begin(), middle, norms.end());
  return *middle;
}

// Of one bucket, by the order of its operations.
class NormWatch {
 public:
  // The spike of the only rank that has one.
  std::optional<NormSpike> see(const CheckedOperation& operation,
                               const std::vector<RankTally>& inputs) {
    std::vector<NormSpike> spikes;
    for (const RankTally& input : inputs) {
      Usual& usual = usual_[input.rank];
      const double norm = input.tally.norm();
      if (usual.count >= kFewestNorms && usual.most > 0 && norm >= kNormSpike * usual.most) {
        const double others = median_of_others(inputs, input.rank);
        if (norm >= kNormAboveOthers * others) {
          spikes.push_back({&operation, input.rank, norm, usual.most, others, usual.count});
          continue;  // else a spike within the first norms would be what is usual from then on
        }
      }
      if (usual.count < kNormsLearned) {
        usual.most = std::max(usual.most, norm);
        ++usual.count;
      }
    }
    return spikes.size() == 1 ? std::optional(spikes.front()) : std::nullopt;
  }

 private:
  struct Usual {
    size_t count = 0;
    double most = 0;
  };
  std::map<Rank, Usual> usual_;
};

struct SpikesOfRank {
  NormSpike first;
  size_t count = 0, row = 0, longest_row = 0;
};

void watch(const Run& run, const Checks& checks, const CheckedBucket& bucket,
           std::map<std::pair<uint32_t, Rank>, SpikesOfRank>& found) {
  NormWatch norms;
  std::optional<Rank> last;
  for (const size_t number : bucket.operations) {
    const CheckedOperation& operation = checks.operations[number];
    const std::vector<RankTally> inputs = complete_inputs(run, checks, operation);
    const bool finite = std::all_of(inputs.begin(), inputs.end(), [](const RankTally& input) {
      return input.tally.nonfinite() == 0;
    });
    const auto spike = inputs.size() > 2 && finite ? norms.see(operation, inputs) : std::nullopt;
    if (spike) {
      SpikesOfRank& spikes = found[{checks.all[operation.first].communicator, spike->rank}];
      spikes.first = spikes.count++ == 0 ? *spike : spikes.first;
      spikes.row = last == spike->rank ? spikes.row + 1 : 1;
      spikes.longest_row = std::max(spikes.longest_row, spikes.row);
    }
    last = spike ? std::optional(spike->rank) : std::nullopt;
  }
}

Finding spike_finding(const Run& run, const Checks& checks, const SpikesOfRank& spikes) {
  const NormSpike& first = spikes.first;
  const Check& check = checks.all[first.operation->first];
  Finding finding = check_finding(run, checks, "numeric.norm-spike", check);
  finding.certainty = Certainty::kPossible;
  finding.sides = {{first.rank}};
  finding.where = places_of(checks, *first.operation, finding.sides.front());
  if (spikes.longest_row < kFewestSpikes) {
    finding.severity = Severity::kInfo;
  }
  finding.title = fmt::format(
      "rank {} gives {} numbers with a norm of {:.4g}, {:.3g} times its largest of {} before, "
      "where the other ranks' median is {:.4g}",
      first.rank.value, operation_text(run, check), first.norm, first.norm / first.usual,
      first.learned, first.others);
  finding.evidence = {fmt::format("{}: {} such inputs, at most {} in a row",
                                  bucket_text(run, check), spikes.count, spikes.longest_row)};
  finding.values = {{"since_ns", elapsed(run.start, first.operation->time)},
                    {"spike_count", static_cast<int64_t>(spikes.count)},
                    {"in_a_row_count", static_cast<int64_t>(spikes.longest_row)}};
  finding.advice = "check the data and the loss of that rank at that step";
  return finding;
}

}  // namespace

std::vector<Finding> find_norm_spikes(const Run& run, const Numbers& numbers) {
  std::map<std::pair<uint32_t, Rank>, SpikesOfRank> found;
  for (const CheckedBucket& bucket : numbers.checks.buckets) {
    if (is_of_gradients(numbers.checks, bucket)) {
      watch(run, numbers.checks, bucket, found);
    }
  }
  std::vector<Finding> findings;
  findings.reserve(found.size());
  for (const auto& [who, spikes] : found) {
    findings.push_back(spike_finding(run, numbers.checks, spikes));
  }
  return findings;
}

}  // namespace traintrace
