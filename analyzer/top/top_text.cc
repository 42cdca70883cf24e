#include "analyzer/top/top_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "analyzer/model/elapsed.h"
#include "analyzer/text/printable.h"
#include "analyzer/text/units.h"
#include "analyzer/top/terminal.h"

namespace traintrace {
namespace {

constexpr size_t kSparks = 12;

// "0-316,318-511" in as many columns, else "0-316,..".
std::string ranks_cell(const Ranks& ranks, size_t width) {
  std::string text = rank_list(ranks);
  if (text.size() > width) {
    const std::string count = fmt::format(" ({})", ranks.size());
    const size_t room = width - std::min(width, count.size() + 2);
    const size_t comma = text.rfind(',', room);
    text = text.substr(0, comma == text.npos ? room : comma + 1) + ".." + count;
  }
  return text;
}

// The last steps, each as high as it took long: from the shortest half to twice the median.
std::string sparkline(const std::vector<int64_t>& lengths, bool utf8) {
  constexpr const char* kBars[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                   "\u2585", "\u2586", "\u2587", "\u2588"};
  constexpr const char* kAscii[] = {"_", ".", ",", "-", "=", "+", "*", "#"};
  std::vector<int64_t> sorted(lengths);
  std::sort(sorted.begin(), sorted.end());
  const int64_t middle = sorted.empty() ? 0 : sorted[sorted.size() / 2];
  std::string out;
  const size_t count = std::min(lengths.size(), kSparks);
  for (size_t i = lengths.size() - count; i < lengths.size(); ++i) {
    // A median step is bar 3, twice as long is the highest.
    const double part =
        middle <= 0 ? 0 : static_cast<double>(lengths[i]) / static_cast<double>(middle);
    const auto level = static_cast<size_t>(std::clamp((part - 0.5) * 4.67, 0.0, 7.0));
    out += (utf8 ? kBars : kAscii)[level];
  }
  return std::string(kSparks - count, ' ') + out;
}

std::string memory_cell(const RankView& rank) {
  if (rank.allocated == 0 && rank.reserved == 0) {
    return "-";
  }
  const bool apart = rank.reserved != 0 && rank.reserved != rank.allocated;
  return apart ? fmt::format("{} / {}", bytes_text(rank.allocated), bytes_text(rank.reserved))
               : bytes_text(rank.allocated);
}

// What the comparison of times tells apart: on one host how long entering a collective takes,
// between hosts how far NTP keeps their clocks together.
constexpr int64_t kLeastLagNs = 10'000;
constexpr int64_t kLeastLagOfHostsNs = 1'000'000;

int64_t least_lag(const JobView& view) {
  return view.hosts.size() > 1 ? kLeastLagOfHostsNs : kLeastLagNs;
}

bool is_told(int64_t ns, const JobView& view) {
  return std::abs(ns) >= least_lag(view);
}

std::string lag_text(int64_t ns, const JobView& view) {
  const int64_t least = least_lag(view);
  if (!is_told(ns, view)) {
    return "0";
  }
  return (ns > 0 ? "+" : "") + duration_text(ns / least * least);
}

// Of one that moves how much later it comes, else how many collectives the others have issued
// since.
std::string lag_cell(const JobView& view, const RankView& rank) {
  const bool moves = rank.state == LiveState::kMoving;
  if (moves && rank.lag_ns) {
    return lag_text(*rank.lag_ns, view);
  }
  return !moves && rank.behind.value_or(0) > 0 ? fmt::format("{} behind", *rank.behind) : "-";
}

// Where both do not fit what it does gives way, and not for how long it has done so.
std::string with_time(const std::string& doing, const std::string& time, size_t room) {
  constexpr std::string_view kGap = ".. ";
  const size_t kept = room - std::min(room, time.size() + kGap.size());
  return width_of(doing + " " + time) <= room || width_of(doing) != doing.size() || kept < 8
             ? doing + " " + time
             : doing.substr(0, kept) + std::string(kGap) + time;
}

std::string state_text(const RankView& rank, TimeNs now, size_t room = SIZE_MAX) {
  const std::string for_how_long = duration_text(std::max<int64_t>(elapsed(rank.since, now), 0));
  switch (rank.state) {
    case LiveState::kMoving:
      return rank.is_slow ? fmt::format("moving, last in {} of {}", rank.last_count, rank.of_count)
                          : "moving";
    case LiveState::kBlocked:
    case LiveState::kOnHost:
      return with_time(rank.doing, "for " + for_how_long, room);
    case LiveState::kStopped:
    case LiveState::kSilent:
      return rank.doing + ", " + for_how_long + " ago";
    case LiveState::kEnded:
      return rank.doing;
  }
  return "";
}

Paint paint_of(const RankView& rank) {
  switch (rank.state) {
    case LiveState::kMoving:
      return rank.is_slow ? Paint::kYellow : Paint::kGreen;
    case LiveState::kBlocked:
      return Paint::kYellow;
    case LiveState::kEnded:
      return rank.doing == "exited with status 0" ? Paint::kQuiet : Paint::kRed;
    default:
      return Paint::kRed;
  }
}

std::string collective_cell(const RankView& rank) {
  return rank.communicator.empty() && rank.sequence == 0
             ? "-"
             : fmt::format("{} #{}", rank.communicator, count_text(rank.sequence));
}

std::string in_columns(const std::string& text, size_t width) {
  const size_t wide = width_of(text);
  return wide > width ? cut_to(text, width) : text + std::string(width - wide, ' ');
}

// Its number is that of collectives by those in a step.
std::string step_cell(const RankView& rank) {
  return rank.step == 0 ? "-" : "~" + count_text(rank.step);
}

// "node1", "2 hosts"
std::string host_cell(const JobView& view, const RowView& row) {
  std::set<std::string> hosts;
  for (const size_t member : row.members) {
    hosts.insert(view.ranks[member].host);
  }
  return hosts.size() == 1 ? printable(*hosts.begin()) : fmt::format("{} hosts", hosts.size());
}

struct Widths {
  size_t ranks = 14, host = 10, state = 30, step = 5, collective = 20, memory = 21;
};

Widths widths_of(const JobView& view, size_t columns) {
  Widths widths;
  size_t host = 4, state = 5, step = 4, collective = 15, ranks = 5, memory = 6;
  for (const RowView& row : view.rows) {
    const RankView& rank = view.ranks[row.members.front()];
    host = std::max(host, std::min<size_t>(width_of(host_cell(view, row)), 16));
    step = std::max(step, step_cell(rank).size());
    state = std::max(state, width_of(printable(state_text(rank, view.time))));
    collective = std::max(collective, width_of(printable(collective_cell(rank))));
    ranks = std::max(ranks, rank_list(row.ranks).size());
    memory = std::max(memory, memory_cell(rank).size());
  }
  const bool narrow = columns > 0 && columns < 120;
  widths.ranks = std::min<size_t>(ranks, narrow ? 12 : 24);
  widths.host = narrow ? std::min<size_t>(host, 8) : host;
  widths.state = std::min<size_t>(state, narrow ? 26 : 44);
  widths.collective = std::min<size_t>(collective, narrow ? 15 : 28);
  widths.step = step;
  widths.memory = memory;
  return widths;
}

std::string head_line(const Widths& widths) {
  return fmt::format("  {:<{}}  {:<{}}  {:<{}}  {:>{}}  {:>9} {:<{}}  {:<{}}  {:>9}  {:<{}}  at",
                     "ranks", widths.ranks, "host", widths.host, "state", widths.state, "step",
                     widths.step, "took", fmt::format("last {}", kSparks), kSparks,
                     "last collective", widths.collective, "lag", "memory", widths.memory);
}

std::string row_line(const JobView& view, const RowView& row, const std::string& place,
                     const Widths& widths, const TopLook& look, const Screen& screen) {
  const RankView& rank = view.ranks[row.members.front()];
  const bool moves = rank.state == LiveState::kMoving;
  return in_columns(ranks_cell(row.ranks, widths.ranks), widths.ranks) + "  " +
         in_columns(host_cell(view, row), widths.host) + "  " +
         painted(in_columns(printable(state_text(rank, view.time, widths.state)), widths.state),
                 paint_of(rank), screen) +
         fmt::format("  {:>{}}  {:>9} ", step_cell(rank), widths.step,
                     moves && rank.step_ns > 0 ? duration_text(rank.step_ns) : "-") +
         sparkline(rank.steps_ns, look.utf8) + "  " +
         in_columns(printable(collective_cell(rank)), widths.collective) +
         fmt::format("  {:>9}  ", lag_cell(view, rank)) +
         in_columns(memory_cell(rank), widths.memory) + "  " +
         (place.empty() ? "-" : printable(place));
}

std::string clock_text(int64_t ns) {
  const int64_t seconds = std::max<int64_t>(ns, 0) / 1'000'000'000;
  return fmt::format("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

std::string plural(size_t count, std::string_view word) {
  return fmt::format("{} {}{}", count_text(count), word, count == 1 ? "" : "s");
}

std::string title_line(const JobView& view, const Screen& screen) {
  size_t ranks = 0;
  for (const RankView& rank : view.ranks) {
    ranks += rank.ranks.size();
  }
  std::string text = painted("traintrace top", Paint::kBold, screen) + "   " + printable(view.run) +
                     "   " + plural(view.hosts.size(), "host") + ", " +
                     (static_cast<size_t>(view.world_size) > ranks
                          ? fmt::format("{} of ", count_text(ranks)) +
                                plural(static_cast<size_t>(view.world_size), "rank")
                          : plural(ranks, "rank"));
  if (view.step > 0) {
    text += fmt::format("   step ~{}", count_text(view.step));
  }
  if (view.median_step_ns > 0) {
    text += fmt::format("   {} a step (median)", duration_text(view.median_step_ns));
  }
  const bool ended = !view.ranks.empty() && view.count(LiveState::kEnded) == view.ranks.size();
  TimeNs last = view.started;
  for (const RankView& rank : view.ranks) {
    last = std::max(last, rank.since);
  }
  return text + (ended ? "   ended after " : "   running ") +
         clock_text(elapsed(view.started, ended ? last : view.time));
}

Ranks ranks_of(const JobView& view, const std::vector<size_t>& places) {
  Ranks ranks;
  for (const size_t place : places) {
    for (const Rank rank : view.ranks[place].ranks) {
      insert(ranks, rank);
    }
  }
  return ranks;
}

std::string states_line(const JobView& view, const Screen& screen) {
  std::string text;
  const auto add = [&](LiveState state, const char* word, Paint paint) {
    const size_t count = view.count(state);
    text += "   " + painted(fmt::format("{} {}", count_text(count), word),
                            count == 0 ? Paint::kPlain : paint, screen);
  };
  add(LiveState::kMoving, "moving", Paint::kGreen);
  add(LiveState::kBlocked, "blocked", Paint::kYellow);
  add(LiveState::kOnHost, "on the host", Paint::kRed);
  if (view.count(LiveState::kStopped) > 0) {
    add(LiveState::kStopped, "stopped", Paint::kRed);
  }
  add(LiveState::kSilent, "silent", Paint::kRed);
  add(LiveState::kEnded, "ended", Paint::kRed);
  if (view.slowest) {
    const RankView& slow = view.ranks[*view.slowest];
    const std::string lag = is_told(*slow.lag_ns, view) ? lag_text(*slow.lag_ns, view) + " " : "";
    text += "   slowest now: " +
            painted(fmt::format("{} {}(last in {} of {} collectives)", ranks_text(slow.ranks), lag,
                                slow.last_count, slow.of_count),
                    Paint::kYellow, screen);
  }
  if (!view.furthest_behind.empty()) {
    const uint64_t behind = *view.ranks[view.furthest_behind.front()].behind;
    text += "   furthest behind: " +
            painted(fmt::format("{} ({})", ranks_text(ranks_of(view, view.furthest_behind)),
                                plural(behind, "collective")),
                    Paint::kRed, screen);
  }
  return text.substr(2);
}

// Empty: all that was given is shown.
std::string unreadable_line(const JobView& view) {
  if (view.unreadable.empty()) {
    return "";
  }
  const ReadError& first = view.unreadable.front();
  return fmt::format(" {} cannot be read{}: {}: {}", plural(view.unreadable.size(), "trace"),
                     view.unreadable.size() == 1 ? "" : ", the first", printable(first.file),
                     printable(first.message));
}

// Whoever stands still, the recorder can say why.
std::string hint_line(const JobView& view) {
  const size_t still = view.count(LiveState::kBlocked) + view.count(LiveState::kOnHost) +
                       view.count(LiveState::kStopped);
  return still == 0 ? "" : "  [h] says who waits for whom, and who began it";
}

}  // namespace

const char* order_name(TopOrder order) {
  constexpr const char* kNames[] = {"rank", "lag", "memory", "growth"};
  return kNames[static_cast<size_t>(order)];
}

std::vector<std::string> top_lines(const JobView& view, LiveJob& job, const TopLook& look,
                                   const Screen& screen) {
  constexpr size_t kBelow = 2;  // hint, keys
  const Widths widths = widths_of(view, screen.columns);
  std::vector<std::string> lines = {title_line(view, screen), states_line(view, screen)};
  if (const std::string unreadable = unreadable_line(view); !unreadable.empty()) {
    lines.push_back(painted(unreadable, Paint::kRed, screen));
  }
  lines.insert(lines.end(), {"", painted(head_line(widths), Paint::kBold, screen)});
  const size_t around = lines.size() + kBelow;
  const size_t room = look.lines == 0 ? view.rows.size() + look.details.size()
                                      : look.lines - std::min(look.lines, around);
  const size_t for_rows = room - std::min(room, look.details.size());
  const size_t selected = std::min(look.selected, view.rows.size() - 1);
  const size_t first = selected < for_rows || for_rows == 0 ? 0 : selected - for_rows + 1;
  const size_t last = std::min(view.rows.size(), first + std::max<size_t>(for_rows, 1));
  for (size_t i = first; i < last; ++i) {
    const RowView& row = view.rows[i];
    const bool marked = look.lines != 0 && i == selected;
    lines.push_back((marked ? "> " : "  ") + row_line(view, row,
                                                      job.place(view.ranks[row.members.front()]),
                                                      widths, look, screen));
    if (marked) {
      for (const std::string& detail : look.details) {
        lines.push_back("      " + printable(detail));
      }
    }
  }
  if (last < view.rows.size()) {
    lines.push_back(fmt::format("  .. {} below", plural(view.rows.size() - last, "row")));
  } else if (const std::string hint = hint_line(view); !hint.empty() && look.lines != 0) {
    lines.push_back(hint);
  }
  if (look.lines != 0) {
    lines.resize(std::max(look.lines, size_t{2}) - 1);
    lines.push_back(painted(
        look.note.empty()
            ? fmt::format("[q]uit  [s]ort: {}  [up/down] row  [enter] stack  [m]emory by line  "
                          "[h]ang? the verdict",
                          order_name(look.order))
            : look.note,
        Paint::kQuiet, screen));
  }
  return lines;
}

namespace {

nlohmann::ordered_json numbers_json(const Ranks& ranks) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Rank rank : ranks) {
    json.push_back(rank.value);
  }
  return json;
}

nlohmann::ordered_json rank_json(const RankView& rank, const std::string& place) {
  nlohmann::ordered_json json;
  json["ranks"] = numbers_json(rank.ranks);
  json["host"] = rank.host;
  json["pid"] = rank.pid;
  json["device"] = rank.device < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(rank.device);
  json["state"] = live_state_name(rank.state);
  if (!rank.doing.empty()) {
    json["doing"] = rank.doing;
    json["since_ns"] = rank.since;
  }
  if (rank.sequence != 0) {
    json["collective"] = {{"operation", rank.collective},
                          {"communicator", rank.communicator},
                          {"sequence", rank.sequence},
                          {"pending", rank.pending}};
  }
  if (rank.step_ns > 0) {
    json["step"] = rank.step;
    json["step_ns"] = rank.step_ns;
    json["steps_ns"] = rank.steps_ns;
  }
  if (rank.behind && rank.state != LiveState::kMoving) {
    json["behind_count"] = *rank.behind;
  }
  if (rank.lag_ns) {
    json["lag_ns"] = *rank.lag_ns;
    json["last_count"] = rank.last_count;
    json["of_count"] = rank.of_count;
    json["slow"] = rank.is_slow;
  }
  json["allocated_bytes"] = rank.allocated;
  json["reserved_bytes"] = rank.reserved;
  json["peak_bytes"] = std::max(rank.peak, rank.allocated);
  if (!place.empty()) {
    json["place"] = place;
  }
  return json;
}

}  // namespace

std::string top_json(const JobView& view, LiveJob& job) {
  nlohmann::ordered_json json;
  json["schema"] = "traintrace.top/1";
  json["run"] = view.run;
  json["time_ns"] = view.time;
  json["started_ns"] = view.started;
  json["world_size"] = view.world_size;
  json["hosts"] = view.hosts;
  nlohmann::ordered_json states = nlohmann::ordered_json::object();
  for (const LiveState state : {LiveState::kMoving, LiveState::kBlocked, LiveState::kOnHost,
                                LiveState::kStopped, LiveState::kSilent, LiveState::kEnded}) {
    states[live_state_name(state)] = view.count(state);
  }
  json["states"] = states;
  json["median_step_ns"] = view.median_step_ns == 0 ? nlohmann::ordered_json()
                                                    : nlohmann::ordered_json(view.median_step_ns);
  if (view.slowest) {
    const RankView& slow = view.ranks[*view.slowest];
    json["slowest"] = {{"ranks", numbers_json(slow.ranks)},
                       {"lag_ns", *slow.lag_ns},
                       {"last_count", slow.last_count},
                       {"of_count", slow.of_count}};
  }
  if (!view.furthest_behind.empty()) {
    json["furthest_behind"] = {{"ranks", numbers_json(ranks_of(view, view.furthest_behind))},
                               {"behind_count", *view.ranks[view.furthest_behind.front()].behind}};
  }
  json["rows"] = nlohmann::ordered_json::array();
  for (const RowView& row : view.rows) {
    json["rows"].push_back({{"ranks", numbers_json(row.ranks)},
                            {"state", live_state_name(view.ranks[row.members.front()].state)}});
  }
  json["ranks"] = nlohmann::ordered_json::array();
  for (const RankView& rank : view.ranks) {
    json["ranks"].push_back(rank_json(rank, job.place(rank)));
  }
  json["unreadable"] = nlohmann::ordered_json::array();
  for (const ReadError& error : view.unreadable) {
    json["unreadable"].push_back({{"file", error.file}, {"message", error.message}});
  }
  return printable_json(
             json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) +
         "\n";
}

}  // namespace traintrace
