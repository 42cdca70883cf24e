// The card of the leading finding for a terminal, and the other findings below it.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "analyzer/model/elapsed.h"
#include "analyzer/reporters/verdict/card.h"
#include "analyzer/reporters/verdict/findings_report.h"
#include "analyzer/reporters/verdict/rank_bars.h"
#include "analyzer/text/printable.h"
#include "analyzer/text/units.h"
#include "analyzer/text/wall_clock.h"
#include "format/schema.h"

namespace traintrace {
namespace {

Paint paint_of(Severity severity) {
  constexpr Paint kPaints[] = {Paint::kRed, Paint::kYellow, Paint::kGreen};
  return kPaints[static_cast<size_t>(severity)];
}

std::string headline_text(const Card& card, Severity severity, const Screen& screen) {
  const std::string first = painted(card.kind, paint_of(severity), screen) + "  ";
  const std::string text = painted(printable(card.headline), Paint::kBold, screen) + "   " +
                           painted(card.certainty, paint_of(severity), screen);
  return wrapped(first, text, 2, screen);
}

std::string file_and_line(const CodePlace& place) {
  return place.file.empty() ? place.function
         : place.line > 0   ? fmt::format("{}:{}", short_path(place.file), place.line)
                            : short_path(place.file);
}

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// "train.py:206 train_step < :224 train < data.py:7 load"
std::string callers_text(const std::vector<CodePlace>& frames) {
  constexpr size_t kMost = 4;
  std::string text;
  for (size_t i = 1; i < std::min(frames.size(), kMost); ++i) {
    const bool same_file = i > 1 && frames[i].file == frames[i - 1].file;
    text +=
        fmt::format("{}{}:{} {}", i == 1 ? "" : " < ", same_file ? "" : base_name(frames[i].file),
                    frames[i].line, frames[i].function);
  }
  return text;
}

std::string actor_text(const CardActor& actor, const Screen& screen) {
  constexpr size_t kIndent = 11;
  const std::string blanks(kIndent, ' ');
  const std::string title = printable(rank_title(actor.ranks));
  std::string about = printable(actor.who);
  if (!actor.doing.empty()) {
    about += (about.empty() ? "" : "; ") + printable(actor.doing);
  }
  std::string out =
      wrapped("  " + painted(title, actor.culprit ? Paint::kRed : Paint::kYellow, screen) + "  ",
              about, kIndent, screen);
  if (actor.frames.empty()) {
    return out;
  }
  const CodePlace& place = actor.frames.front();
  out += wrapped(blanks + (actor.frames_are.empty() ? "" : actor.frames_are + " "),
                 linked(painted(printable(file_and_line(place)), Paint::kCyan, screen), place.file,
                        place.line, screen) +
                     (place.file.empty() ? "" : "  " + printable(place.function)),
                 kIndent + 2, screen);
  for (const SourceLine& line : actor.source) {
    std::string text = fmt::format("{}{} {} | {}", std::string(kIndent - 2, ' '),
                                   line.marked ? '>' : ' ', line.number, printable(line.text));
    if (screen.columns > 0 && text.size() > screen.columns && text.size() == width_of(text)) {
      text.resize(screen.columns - 2);
      text += "..";
    }
    out += painted(text, line.marked ? Paint::kBold : Paint::kQuiet, screen) + '\n';
  }
  if (const std::string callers = callers_text(actor.frames); !callers.empty()) {
    out += wrapped(blanks + "called from  ", printable(callers), kIndent + 13, screen);
  }
  return out;
}

// "  Why    line" and the lines under it.
std::string section(const char* name, const std::vector<std::string>& lines, const Screen& screen) {
  constexpr size_t kIndent = 9;
  std::string out;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string first = i == 0 ? "  " + painted(name, Paint::kBold, screen) +
                                           std::string(kIndent - 2 - std::string(name).size(), ' ')
                                     : std::string(kIndent, ' ');
    out += wrapped(first, printable(lines[i]), kIndent + 2, screen);
  }
  return out;
}

// Evidence of who held memory, "held: 2.19 GiB (55 % of the device) in 7 blocks, train.py:11 in
// activations", and of what was free, as rows with bars; what is no such line stays in `lines`.
std::vector<std::string> take_holders(std::vector<std::string>& lines, const Screen& screen) {
  constexpr std::string_view kHeld = "held: ";
  constexpr std::string_view kFree = "free: ";
  constexpr size_t kBar = 20;
  std::vector<std::string> rows;
  std::string shares;  // "% of the device's 4 GiB"
  const auto rest = std::stable_partition(lines.begin(), lines.end(), [&](const std::string& line) {
    return !line.starts_with(kHeld) && !line.starts_with(kFree);
  });
  for (auto line = rest; line != lines.end(); ++line) {
    const std::string_view text = std::string_view(*line).substr(kHeld.size());
    // The size is two words: "2.19 GiB".
    const size_t size_end = text.find(' ', std::min(text.find(' '), text.size() - 1) + 1);
    const std::string_view size = text.substr(0, size_end);
    std::string_view what = text.substr(std::min(size.size() + 1, text.size()));
    const size_t percent_end = what.starts_with('(') ? what.find(" % ") : what.npos;
    const size_t share_end = what.find(')');
    std::string share(kBar + 8, ' ');
    size_t percent = 0;
    if (percent_end < share_end && share_end != what.npos &&
        std::from_chars(&what[1], what.data() + percent_end, percent).ec == std::errc()) {
      const size_t filled = std::min<size_t>((percent * kBar + 50) / 100, kBar);
      share = fmt::format("{:>3} %  ", percent) +
              painted(std::string(filled, '#'), Paint::kYellow, screen) +
              std::string(kBar + 1 - filled, ' ');
      shares = what.substr(percent_end + 1, share_end - percent_end - 1);
      what.remove_prefix(share_end + 1);
    }
    if (line->starts_with(kFree)) {
      rows.push_back(fmt::format("{:>9}  {} free{}", size, share, printable(what)));
      continue;
    }
    what.remove_prefix(std::min(what.find_first_not_of(' '), what.size()));
    rows.push_back(fmt::format("{:>9}  {} {}", size, share, printable(what)));
  }
  if (!shares.empty()) {
    rows.push_back(fmt::format("{:>9}  {}", "", printable(shares)));
  }
  lines.erase(rest, lines.end());
  return rows;
}

std::vector<std::string> at_most(std::vector<std::string> lines, size_t most) {
  if (lines.size() > most) {
    const size_t more = lines.size() - most + 1;
    lines.resize(most - 1);
    lines.push_back(fmt::format(".. and {} lines more (--format=json has them all)", more));
  }
  return lines;
}

std::string holders_text(const std::vector<std::string>& rows, const Screen& screen) {
  constexpr size_t kWhere = 51;  // of what holds it, behind size, share and bar
  std::string out;
  for (const std::string& row : rows) {
    const std::string first =
        out.empty() ? "  " + painted("Held by", Paint::kBold, screen) : std::string(9, ' ');
    const bool wide = screen.columns == 0 || screen.columns > kWhere + 30;
    out += wrapped(first, row, wide ? kWhere : 11, screen);
  }
  return out;
}

// Commands are there to be copied: none is cut, and what a command is for stands behind all of
// them if it finds room there.
std::vector<std::string> next_lines(const Card& card, const Screen& screen) {
  constexpr size_t kIndent = 9;
  size_t command = 0;
  size_t purpose = 0;
  for (const CardCommand& next : card.next) {
    command = std::max(command, next.command.size());
    purpose = std::max(purpose, next.purpose.size());
  }
  const bool fits = screen.columns == 0 || kIndent + command + 2 + purpose <= screen.columns;
  std::vector<std::string> lines;
  for (const CardCommand& next : card.next) {
    lines.push_back(fits ? fmt::format("{:<{}}  {}", next.command, command, next.purpose)
                         : next.command);
  }
  return lines;
}

// The other findings, in a line or two each.
std::string others_text(const FindingsReport& report, const Finding& leading,
                        const Screen& screen) {
  constexpr size_t kMost = 8;
  std::string out;
  std::vector<const Finding*> others;
  for (const Finding& finding : report.findings) {
    if (&finding != &leading) {
      others.push_back(&finding);
    }
  }
  std::stable_sort(others.begin(), others.end(),
                   [](const auto* a, const auto* b) { return a->severity < b->severity; });
  size_t told = 0;
  for (const Finding* const finding : others) {
    if (++told > kMost) {
      continue;
    }
    const std::string first = "  " + painted(finding->code, paint_of(finding->severity), screen) +
                              fmt::format(" ({})  ", word_of(finding->certainty));
    out += wrapped(first, printable(for_people(finding->title)), 6, screen);
  }
  if (told > kMost) {
    out += fmt::format("  .. and {} more (--format=json has them all)\n", told - kMost);
  }
  return out.empty() ? "" : painted("Also", Paint::kBold, screen) + '\n' + out + '\n';
}

std::string losses_text(const FindingsReport& report, const Screen& screen) {
  std::string out;
  for (const std::string& line : loss_lines(report.losses)) {
    out += wrapped("note: ", printable(line), 6, screen);
  }
  return out;
}

// Neither counted by the tracer nor missing from a file.
bool is_whole(const FindingsReport& report) {
  constexpr std::string_view kOfParts[] = {"trace.truncated", "trace.corrupt",
                                           "trace.lost-records"};
  return report.losses.empty() &&
         std::none_of(report.findings.begin(), report.findings.end(), [&](const Finding& finding) {
           return std::find(std::begin(kOfParts), std::end(kOfParts), finding.code) !=
                  std::end(kOfParts);
         });
}

std::string run_text(const Run& run, const FindingsReport& report) {
  if (run.ranks.empty()) {
    return fmt::format("No rank is known. Run {}", run.id);
  }
  std::string text = fmt::format("{} of {} rank{}", count_text(run.ranks.size()),
                                 count_text(static_cast<uint64_t>(run.world_size)),
                                 run.world_size == 1 ? "" : "s");
  if (!run.hosts.empty()) {
    text += fmt::format(", {} host{}", run.hosts.size(), run.hosts.size() == 1 ? "" : "s");
  }
  if (run_duration(run) > 0) {
    text += ", " + duration_text(run_duration(run));
  }
  if (run.records > 0) {  // none of processes that somebody only looked at
    text += fmt::format(", {} records{}", count_text(run.records),
                        is_whole(report) ? ", none lost" : "");
  }
  return text + fmt::format(". Run {}{}", run.id,
                            is_wall_clock(run.start) ? ", began " + date_text(run.start) : "");
}

}  // namespace

std::string card_text(const Run& run, const FindingsReport& report, const CardOptions& options,
                      const Screen& screen) {
  std::string out;
  if (const Finding* const finding = leading(report.findings)) {
    CardOptions marked_only = options;
    marked_only.source_lines = 0;
    const Card card = card_of(run, *finding, marked_only, report.findings);
    out += headline_text(card, finding->severity, screen);
    for (const std::string& note : card.notes) {
      out += wrapped("  ", printable(note), 4, screen);
    }
    out += '\n';
    for (const CardActor& actor : card.actors) {
      out += actor_text(actor, screen);
    }
    out += rank_bars(run, *finding, screen);
    out += card.actors.empty() ? "" : "\n";
    // Else all of it stands below; and what is printed is the same wherever the traces lie.
    if (screen.terminal) {
      constexpr size_t kMostLines = 9;
      std::vector<std::string> why = card.why;
      const std::vector<std::string> holders = take_holders(why, screen);
      out += holders_text(holders, screen);
      out += section("Why", at_most(why, kMostLines), screen);
      out += card.advice.empty() ? "" : section("Do", {card.advice}, screen);
      out += section("Next", next_lines(card, screen), screen) + '\n';
      out += others_text(report, *finding, screen);
    }
  } else {
    out += "Nothing of what was asked for was found\n\n";
  }
  if (screen.terminal) {
    out += losses_text(report, screen);
    for (const OtherRun& other : run.others) {
      out += wrapped("", printable(for_people(other_run_line(other))), 2, screen);
    }
  }
  return out +
         wrapped("", painted(printable(run_text(run, report)), Paint::kQuiet, screen), 2, screen);
}

}  // namespace traintrace
