// The schema traintrace.findings/1.  Other programs read this: fields are added, never changed.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "analyzer/reporters/verdict/findings_report.h"
#include "analyzer/text/printable.h"
#include "analyzer/timeline/profile.h"

namespace traintrace {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Ranks& ranks) {
  Json list = Json::array();
  for (const Rank rank : ranks) {
    list.push_back(rank.value);
  }
  return list;
}

// Null: there is no profile.
const DeviceProfile* device_of(const Run& run, const LostTime& time) {
  if (run.profile == nullptr) {
    return nullptr;
  }
  const std::vector<DeviceProfile>& devices = run.profile->devices;
  const auto found = std::find_if(devices.begin(), devices.end(), [&](const DeviceProfile& each) {
    return each.rank == time.rank && each.device == time.device;
  });
  return found == devices.end() ? nullptr : &*found;
}

Json json_of_run(const Run& run) {
  Ranks ranks;
  std::set<std::string> sources;
  for (const RankState& state : run.ranks) {
    ranks.push_back(state.rank);
    const auto& facts = trace_of(run, state).facts;
    const auto source = facts.find("source");
    sources.insert(source == facts.end() ? "traintrace" : source->second);
  }
  Json json = {{"id", run.id},
               {"ranks", json_of(ranks)},
               {"missing_ranks", json_of(run.missing)},
               {"world_size", run.world_size},
               {"hosts", run.hosts},
               {"start_ns", run.start},
               {"end_ns", run.end},
               {"sources", sources},
               {"records", run.records},
               {"live", run.live},
               {"other_runs", Json::array()}};
  for (const OtherRun& other : run.others) {
    Json own = {
        {"id", other.id}, {"ranks", other.ranks}, {"start_ns", other.start}, {"end_ns", other.end}};
    if (!other.verdict.empty()) {
      own["verdict"] = other.verdict;
      own["errors"] = other.errors;
    }
    if (!other.restarted_as.empty()) {
      own["restarted_as"] = other.restarted_as;
    }
    json["other_runs"].push_back(std::move(own));
  }
  return json;
}

Json json_of(const CodePlace& place) {
  Json json = {{"rank", place.rank.value}, {"file", place.file}};
  if (place.line > 0) {
    json["line"] = place.line;
  }
  json["function"] = place.function;
  json["language"] = place.language;
  return json;
}

Json json_of(const FindingCommunicator& communicator) {
  Json json = {{"id", fmt::format("{:016x}", communicator.id.value)}, {"name", communicator.name}};
  if (communicator.size >= 0) {
    json["size"] = communicator.size;
  }
  return json;
}

Json json_of(const Finding& finding) {
  Json json = {{"code", finding.code},
               {"severity", name_of(finding.severity)},
               {"certainty", name_of(finding.certainty)},
               {"title", finding.title},
               {"culprits", json_of(finding.culprits)},
               {"victims", json_of(finding.victims)}};
  for (const Ranks& side : finding.sides) {
    json["sides"].push_back(json_of(side));
  }
  if (finding.communicator) {
    json["communicator"] = json_of(*finding.communicator);
  }
  for (const FindingCommunicator& communicator : finding.communicators) {
    json["communicators"].push_back(json_of(communicator));
  }
  if (finding.sequence) {
    json["sequence"] = *finding.sequence;
  }
  if (finding.sequence_last) {
    json["sequence_last"] = *finding.sequence_last;
  }
  if (!finding.operation.empty()) {
    json["operation"] = finding.operation;
  }
  json["where"] = Json::array();
  for (const CodePlace& place : finding.where) {
    json["where"].push_back(json_of(place));
  }
  json["values"] = Json::object();
  for (const auto& [key, value] : finding.values) {
    json["values"][key] = value;
  }
  json["evidence"] = finding.evidence;
  if (!finding.advice.empty()) {
    json["advice"] = finding.advice;
  }
  return json;
}

}  // namespace

std::string findings_json(const Run& run, const FindingsReport& report) {
  Json json = {{"schema", "traintrace.findings/1"},
               {"verdict", report.verdict},
               {"run", json_of_run(run)},
               {"losses", Json::array()},
               {"findings", Json::array()}};
  for (const ReportedLoss& loss : report.losses) {
    json["losses"].push_back({{"stat", loss.stat},
                              {"rank", loss.rank.value},
                              {"count", loss.count},
                              {"severity", loss.severity},
                              {"advice", loss.advice}});
  }
  for (const LostTime& time : run.lost_times) {
    json["lost_time"].push_back({{"rank", time.rank.value},
                                 {"device", time.device},
                                 {"window_ns", time.window_ns},
                                 {"lost_ns", time.lost_ns},
                                 {"named_ns", time.named_ns},
                                 {"unattributed_ns", time.unattributed_ns}});
    if (const DeviceProfile* const device = device_of(run, time)) {
      json["lost_time"].back()["start_up_ns"] = device->start_up_lost_ns();
      json["lost_time"].back()["loop_ns"] = device->times.window_ns;
    }
  }
  write_each(report, [&](const Finding& finding) { json["findings"].push_back(json_of(finding)); });
  // File and function names come from the job: they need not be UTF-8.
  return printable_json(json.dump(2, ' ', false, Json::error_handler_t::replace)) + "\n";
}

}  // namespace traintrace
