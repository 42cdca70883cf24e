#include "analyzer/importers/kineto/kineto_waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "analyzer/timeline/collectives/messages.h"
#include "analyzer/timeline/event_waits.h"

namespace traintrace::kineto {
namespace {

// Beside events; no row says of which stream.
constexpr std::string_view kOtherWaits[] = {"LaunchHostFunc", "StreamAddCallback",
                                            "StreamWaitValue", "StreamBatchMemOp",
                                            "WaitExternalSemaphores"};
constexpr std::string_view kWaitEvent = "StreamWaitEvent";

EventWaits::Stream stream_of(int64_t stream, int64_t device) {
  constexpr uint64_t kNoDefault = 16;  // numbers are no handles, of which some are default streams
  return {static_cast<uint64_t>(stream) + kNoDefault, static_cast<int>(device)};
}

// Pieces between blanks.
template <class Visit>
void visit_words(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (end != 0) {
      visit(text.substr(0, end));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

void StreamWaits::add(const Event& event) {
  if (event.sync == "Stream Wait Event" && event.correlation && event.stream) {
    waits_.push_back({*event.correlation, *event.stream, event.device.value_or(-1),
                      event.awaited_stream.value_or(-1), event.awaited_record.value_or(-1)});
  }
}

void StreamWaits::add_call(const Event& event) {
  const auto is_in_name = [&](std::string_view part) {
    return event.name.find(part) != event.name.npos;
  };
  if (event.correlation &&
      (is_in_name(kWaitEvent) ||
       std::any_of(std::begin(kOtherWaits), std::end(kOtherWaits), is_in_name))) {
    others_.push_back(*event.correlation);
  }
}

void StreamWaits::finish(Timeline& timeline) {
  if (waits_.empty() || timeline.knows_waits) {
    return;
  }
  enum class Sort : uint8_t { kLaunch, kRecord, kWait, kOther };
  struct Step {
    uint64_t correlation;
    Sort sort;
    EventWaits::Stream stream;
    int64_t record;
    auto operator<=>(const Step&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  std::vector<Step> steps;
  for (const GpuWork& work : timeline.work) {
    if (work.correlation != 0 && work.stream >= 0) {
      steps.push_back({work.correlation, Sort::kLaunch, stream_of(work.stream, work.device), -1});
    }
  }
  std::vector<uint64_t> told;
  for (const Wait& wait : waits_) {
    const bool known = wait.awaited_stream >= 0 && wait.record >= 0;
    told.push_back(wait.correlation);
    steps.push_back({wait.correlation, Sort::kWait, stream_of(wait.stream, wait.device),
                     known ? wait.record : -1});
    if (known) {
      steps.push_back({static_cast<uint64_t>(wait.record), Sort::kRecord,
                       stream_of(wait.awaited_stream, wait.device), wait.record});
    }
  }
  std::sort(told.begin(), told.end());
  for (const uint64_t other : others_) {
    if (!std::binary_search(told.begin(), told.end(), other)) {
      steps.push_back({other, Sort::kOther, {}, -1});
    }
  }
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  EventWaits waits;
  for (const Step& step : steps) {
    switch (step.sort) {
      case Sort::kLaunch:
        waits.launched(step.stream, step.correlation);
        break;
      case Sort::kRecord:
        waits.recorded(static_cast<uint64_t>(step.record), step.stream);
        break;
      case Sort::kWait:
        step.record < 0 ? waits.waits_for_other(step.stream, WorkWait::kUnknown)
                        : waits.waits_for(step.stream, static_cast<uint64_t>(step.record));
        break;
      case Sort::kOther:
        waits.all_wait_for_unknown();
    }
  }
  timeline.waits = waits.take();
  timeline.knows_waits = true;
}

std::string told_waits(const std::vector<WorkWait>& waits, uint64_t correlation) {
  std::string text;
  auto wait = std::lower_bound(waits.begin(), waits.end(), WorkWait{correlation, 0});
  for (; wait != waits.end() && wait->correlation == correlation; ++wait) {
    text += text.empty() ? "" : " ";
    text += wait->before == WorkWait::kUnknown ? "unknown"
            : wait->before == WorkWait::kPeers ? "peers"
                                               : std::to_string(wait->before);
  }
  return text;
}

void add_told_waits(std::string_view text, uint64_t correlation, Timeline& timeline) {
  visit_words(text, [&](std::string_view word) {
    const uint64_t before =
        word == "peers" ? WorkWait::kPeers : number_of<uint64_t>(word).value_or(WorkWait::kUnknown);
    timeline.waits.push_back({correlation, before});
  });
}

// COMMUNICATOR:RANK>PEER:BYTES, or < where it receives.
std::string told_messages(const Timeline& timeline, uint64_t correlation) {
  std::string text;
  for (const PeerMessage& message : messages_of(timeline, correlation)) {
    text += fmt::format("{}{:x}:{}{}{}:{}", text.empty() ? "" : " ", message.communicator,
                        message.rank, message.receives ? '<' : '>', message.peer, message.bytes);
  }
  return text;
}

void add_told_messages(std::string_view text, uint64_t correlation, Timeline& timeline) {
  visit_words(text, [&](std::string_view word) {
    PeerMessage message = {};
    message.correlation = correlation;
    const char* const end = word.data() + word.size();
    const auto read = [&](const char* from, auto& number, int base) {
      const auto [stop, error] = std::from_chars(from, end, number, base);
      return error == std::errc() ? stop : end;
    };
    const char* at = read(word.data(), message.communicator, 16);
    at = at < end && *at == ':' ? read(at + 1, message.rank, 10) : end;
    message.receives = at < end && *at == '<';
    at = at < end && (*at == '<' || *at == '>') ? read(at + 1, message.peer, 10) : end;
    if (at < end && *at == ':') {
      read(at + 1, message.bytes, 10);
      timeline.messages.push_back(message);
    }
  });
}

}  // namespace traintrace::kineto
