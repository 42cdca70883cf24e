// An asynchronous error of which NCCL's log says that the proxy thread met it, and with which peer.
#include "analyzer/detectors/comm/proxy_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/support.h"
#include "analyzer/model/communicators.h"
#include "analyzer/text/values.h"
#include "analyzer/text/wall_clock.h"

namespace traintrace {
namespace {

// Of libibverbs' ibv_wc_status (verbs.h), those that a connection that worked can end with.
struct CompletionStatus {
  int status;
  std::string_view meaning;
  std::string_view advice;
};
constexpr CompletionStatus kCompletionStatuses[] = {
    {4, "the network card may not access the memory it was given",
     "look at GPUDirect RDMA on both hosts: the module nvidia_peermem or DMA-BUF, ACS and the "
     "IOMMU off"},
    {5, "the connection had ended with an error before this",
     "look for an earlier warning of the two hosts, and at the peer: it may have ended first"},
    {10, "the peer's network card refused the access to its memory",
     "look at the peer: a process that ends takes its memory away; then at GPUDirect RDMA there"},
    {11, "the peer's network card could not do what it was asked",
     "look at the peer's kernel log and network card"},
    {12,
     "sent again until NCCL_IB_RETRY_CNT was used up: the peer, or the path to it, does not answer",
     "see whether the peer's process is alive; then look at the network cards, links and switches "
     "between the two (ibstat, counters of symbol errors and link downs)"},
    {13, "the peer had no buffer ready, until the retries were used up",
     "see whether the peer's process is alive and not starved of CPU time"},
};

const CompletionStatus* status_known(int status) {
  const auto* const known =
      std::find_if(std::begin(kCompletionStatuses), std::end(kCompletionStatuses),
                   [&](const CompletionStatus& row) { return row.status == status; });
  return known == std::end(kCompletionStatuses) ? nullptr : known;
}

int64_t value_of(const Finding& finding, std::string_view name) {
  for (const auto& [known, value] : finding.values) {
    if (known == name) {
      return value;
    }
  }
  return 0;
}

// A log may go on over many jobs.  Its times are in the host's zone, which is not known.
bool may_be_of(const Run& run, const ProxyFailure& failure) {
  constexpr int64_t kFurthestZoneNs = int64_t{15} * 3600 * 1'000'000'000;
  const auto ns = [](TimeNs time) { return static_cast<int64_t>(time); };
  return !failure.warned || !is_wall_clock(ns(run.start)) ||
         (*failure.warned >= ns(run.start) - kFurthestZoneNs &&
          *failure.warned <= ns(run.end) + kFurthestZoneNs);
}

// What the one rank's log says of the error that it reported; an error of another kind is another.
const ProxyFailure* failure_of(const Run& run, std::span<const Testimony> testimonies,
                               const Finding& finding) {
  for (const Testimony& testimony : testimonies) {
    for (const Witness& witness : testimony.witnesses) {
      if (witness.proxy_failure && witness.proxy_failure->result == value_of(finding, "error") &&
          may_be_of(run, *witness.proxy_failure) &&
          rank_of(run, witness) == finding.culprits.front()) {
        return &*witness.proxy_failure;
      }
    }
  }
  return nullptr;
}

Ranks ranks_on(const Run& run, const std::string& host) {
  Ranks ranks;
  for (const RankState& state : run.ranks) {
    if (trace_of(run, state).host == host) {
      insert(ranks, state.rank);
    }
  }
  return ranks;
}

std::string label_in(const Run& run, const Finding& finding) {
  for (const Communicator& communicator : run.communicators) {
    if (finding.communicator && communicator.id == finding.communicator->id) {
      return label_of(run, communicator);
    }
  }
  return "of unknown name";
}

void add_peer(const Run& run, const ProxyFailure& failure, Finding& finding) {
  if (failure.peer_host.empty()) {
    return;
  }
  const Ranks ranks = ranks_on(run, failure.peer_host);
  finding.evidence.push_back(fmt::format("the peer's address, {}, is host {}'s{}", failure.peer,
                                         failure.peer_host,
                                         ranks.empty() ? "" : ": " + ranks_text(ranks)));
}

void specify(const Run& run, const ProxyFailure& failure, Finding& finding) {
  finding.code = "comm.proxy-error";
  finding.severity = catalogue_row(finding.code)->severity;
  finding.title = fmt::format("NCCL's proxy thread failed with {} on {}{}, on communicator {}",
                              result_text("nccl", failure.result), ranks_text(finding.culprits),
                              finding.sides.size() > 1 ? " first" : "", label_in(run, finding));
  if (failure.completion_status) {
    finding.values.emplace_back("completion_status", *failure.completion_status);
    if (const CompletionStatus* const known = status_known(*failure.completion_status)) {
      finding.evidence.push_back(
          fmt::format("status {}: {}", *failure.completion_status, known->meaning));
      finding.advice = known->advice;
    }
  }
  add_peer(run, failure, finding);
}

}  // namespace

void name_proxy_errors(const Run& run, std::span<const Testimony> testimonies,
                       std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    if (finding.code != "comm.async-error" || finding.culprits.size() != 1) {
      continue;
    }
    if (const ProxyFailure* const failure = failure_of(run, testimonies, finding);
        failure != nullptr) {
      specify(run, *failure, finding);
    }
  }
}

}  // namespace traintrace
