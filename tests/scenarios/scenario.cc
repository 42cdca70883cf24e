// Runs one scenario: a run as text, then `---`, then all findings about it, one a line:
//
//   SEVERITY CODE CERTAINTY culprits=2 victims=0,1,3 sides=2|0,1,3 on=dp seq=812
//   operation=ncclAllReduce where=2@mining.py:41:hard_examples values=waited_ns:5000000000 (one
//   line)
//
// What does not apply is left out.  Further lines behind `---`: `options hang-after=2s run=ID
// events` (events: those of the text are looked at where the tables do not tell), and `run: id=..
// ranks=.. missing=.. world=.. others=ID,ID/1,ID/1/restarted` (with the errors in each), compared
// where it is there; `evidence: TEXT`, which must
// begin a line of evidence; `title: TEXT` and `advice: TEXT`, one for each finding in their order,
// compared where there are any. The findings are compared whole, for several orders of the
// processes, and the JSON report must not differ by a byte between them.
//
//   scenario [--update] FILE        --update writes what is found behind the `---`
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iostream>
#include <random>
#include <sstream>

#include "analyzer/commands/sources/numbers_of.h"
#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/detectors.h"
#include "analyzer/judge/judge.h"
#include "analyzer/model/runs/rank_assignment.h"
#include "analyzer/reporters/verdict/findings_report.h"
#include "analyzer/reporters/verdict/judged_runs.h"
#include "analyzer/text/dump_parser.h"
#include "analyzer/text/words.h"

namespace traintrace {
namespace {

constexpr std::string_view kEvidence = "evidence: ";
constexpr std::string_view kTitle = "title: ";
constexpr std::string_view kAdvice = "advice: ";

std::string compact(const Finding& finding) {
  std::string line =
      fmt::format("{} {} {}", name_of(finding.severity), finding.code, name_of(finding.certainty));
  const auto add = [&](const char* key, const std::string& value) {
    line += value.empty() ? "" : fmt::format(" {}={}", key, quoted(value));
  };
  add("culprits", rank_list(finding.culprits));
  add("victims", rank_list(finding.victims));
  std::string sides;
  for (const Ranks& side : finding.sides) {
    sides += (sides.empty() ? "" : "|") + rank_list(side);
  }
  add("sides", sides);
  add("on", finding.communicator ? finding.communicator->name : "");
  add("seq", finding.sequence ? std::to_string(*finding.sequence) : "");
  add("last", finding.sequence_last ? std::to_string(*finding.sequence_last) : "");
  add("operation", finding.operation);
  std::string where;
  for (const CodePlace& place : finding.where) {
    where += fmt::format("{}{}@{}:{}:{}", where.empty() ? "" : ",", place.rank.value, place.file,
                         place.line, place.function);
  }
  add("where", where);
  std::string values;
  for (const auto& [key, value] : finding.values) {
    values += fmt::format("{}{}:{}", values.empty() ? "" : ",", key, value);
  }
  add("values", values);
  return line;
}

std::string compact(const Run& run) {
  Ranks ranks;
  for (const RankState& state : run.ranks) {
    ranks.push_back(state.rank);
  }
  std::string others;
  for (const OtherRun& other : run.others) {
    others += (others.empty() ? "" : ",") + other.id;
    others += other.errors == 0 ? "" : fmt::format("/{}", other.errors);
    others += other.restarted_as.empty() ? "" : "/restarted";
  }
  return fmt::format("run: id={} ranks={} missing={} world={} others={}", run.id, rank_list(ranks),
                     rank_list(run.missing), run.world_size, others);
}

struct Expectation {
  RunOptions options;
  std::string option_line;
  std::vector<std::string> findings;
  std::string run;  // empty: not compared
  std::vector<std::string> evidence;
  std::vector<std::string> titles;  // empty: not compared
  std::vector<std::string> advice;  // so too
  std::string problem;
};

bool read_options(const std::string& line, RunOptions& options) {
  const auto words = split_words(line);
  for (size_t i = 1; words && i < words->size(); ++i) {
    const std::string& word = (*words)[i];
    if (word == "events") {
      options.read_events = [](const ProcessTrace& trace) { return &trace; };
    } else if (word.starts_with("run=")) {
      options.run = word.substr(4);
    } else if (const auto duration = parse_duration(word.substr(word.find('=') + 1));
               word.starts_with("hang-after=") && duration) {
      options.hang_after = *duration;
    } else {
      return false;
    }
  }
  return words.has_value();
}

Expectation read_expectation(const std::string& rest) {
  Expectation expectation;
  std::istringstream lines(rest);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("options ")) {
      expectation.option_line = line;
      if (!read_options(line, expectation.options)) {
        expectation.problem = "expected 'options hang-after=DURATION run=ID events': " + line;
      }
    } else if (line.starts_with("run: ")) {
      expectation.run = line;
    } else if (line.starts_with(kEvidence)) {
      expectation.evidence.push_back(line.substr(kEvidence.size()));
    } else if (line.starts_with(kTitle)) {
      expectation.titles.push_back(line.substr(kTitle.size()));
    } else if (line.starts_with(kAdvice)) {
      expectation.advice.push_back(line.substr(kAdvice.size()));
    } else if (!line.empty() && !line.starts_with('#')) {
      expectation.findings.push_back(line);
    }
  }
  return expectation;
}

struct Outcome {
  std::vector<std::string> findings;
  std::vector<std::string> evidence;
  std::vector<std::string> titles;
  std::vector<std::string> advice;    // of those that have one
  std::vector<std::string> unlisted;  // CODE: keys of values that its row in docs/findings/ lacks
  std::string run;
  std::string json;
};

void add_unlisted(const Finding& finding, std::vector<std::string>& unlisted) {
  const CatalogueRow* const row = catalogue_row(finding.code);
  for (const auto& [key, value] : finding.values) {
    const auto is_key = [&key = key](const ValueRow& listed) { return listed.key == key; };
    if (row == nullptr || std::none_of(row->values.begin(), row->values.end(), is_key)) {
      unlisted.push_back(fmt::format("{}: {}", finding.code, key));
    }
  }
}

Outcome judge(
    std::vector<ProcessTrace> processes, const RunOptions& options,
    const std::function<void(Run&)>& read_more = [](Run&) {}) {
  const Result<JudgedRun> judged =
      judge_runs(split_runs(std::move(processes)), {}, options, [&](Run& run) {
        read_more(run);
        std::vector<Finding> findings = find_all(run);
        if (std::any_of(run.processes.begin(), run.processes.end(), has_numbers)) {
          add_numeric(run, findings);
        }
        return findings;
      });
  if (!judged) {
    Outcome failed;
    failed.findings = {judged.error().message};
    return failed;
  }
  Outcome outcome;
  for (const Finding& finding : judged->findings) {
    outcome.findings.push_back(compact(finding));
    outcome.titles.push_back(finding.title);
    if (!finding.advice.empty()) {
      outcome.advice.push_back(finding.advice);
    }
    add_unlisted(finding, outcome.unlisted);
    outcome.evidence.insert(outcome.evidence.end(), finding.evidence.begin(),
                            finding.evidence.end());
  }
  outcome.run = compact(judged->run);
  outcome.json = findings_json(judged->run, report_findings(judged->run, judged->findings));
  return outcome;
}

// As commands do it with files: the stages get tables, and events where they ask for some.
Outcome judge_without_events(const std::vector<ProcessTrace>& whole, RunOptions options) {
  std::vector<ProcessTrace> tables = whole;
  for (size_t i = 0; i < tables.size(); ++i) {
    // As a trace does, whose tables say how many there are.
    tables[i].records = tables[i].records != 0 ? tables[i].records : tables[i].events.size();
    tables[i].events.clear();
    tables[i].source = std::to_string(i);
  }
  const auto of = [&](const ProcessTrace& trace) { return &whole[std::stoul(trace.source)]; };
  options.read_events = of;
  return judge(std::move(tables), options, [&](Run& run) {
    for (ProcessTrace& trace : run.processes) {
      const ProcessTrace* const own = of(trace);
      trace.events = own->events;
      trace.source = own->source;
    }
  });
}

void print(const char* what, const std::vector<std::string>& lines) {
  std::cout << what << "\n";
  for (const std::string& line : lines) {
    std::cout << "  " << line << "\n";
  }
}

bool check_orders(const DumpText& dump, const RunOptions& options, const Outcome& expected) {
  std::mt19937 random(1);
  std::vector<ProcessTrace> processes = dump.processes;
  std::reverse(processes.begin(), processes.end());
  for (int order = 0; order < 6; ++order) {
    if (judge(processes, options).json != expected.json) {
      std::cout << "the report depends on the order of the processes\n"
                << expected.json << judge(processes, options).json;
      return false;
    }
    std::shuffle(processes.begin(), processes.end(), random);
  }
  return true;
}

// Stages that ask for events see what they see where all are at hand.  Of processes that hold
// several ranks commands read all at once, too.
bool check_reading(const DumpText& dump, RunOptions options) {
  if (std::any_of(dump.processes.begin(), dump.processes.end(), holds_several_ranks)) {
    return true;
  }
  options.read_events = [](const ProcessTrace& trace) { return &trace; };
  const Outcome expected = judge(dump.processes, options);
  const Outcome found = judge_without_events(dump.processes, options);
  if (found.json != expected.json) {
    std::cout << "the report depends on when events are read\n" << expected.json << found.json;
  }
  return found.json == expected.json;
}

void update(const std::string& file, const std::string& text, const Expectation& expectation,
            const Outcome& outcome) {
  std::ofstream out(file);
  const size_t end = text.starts_with("---") ? 0 : text.find("\n---");
  out << text.substr(0, end == std::string::npos ? text.size() : end) << "\n---\n";
  if (!expectation.option_line.empty()) {
    out << expectation.option_line << "\n";
  }
  if (!expectation.run.empty()) {
    out << outcome.run << "\n";
  }
  for (const std::string& line : outcome.findings) {
    out << line << "\n";
  }
  for (const std::string& line : expectation.evidence) {
    out << kEvidence << line << "\n";
  }
  for (const std::string& title : expectation.titles.empty() ? Lines() : outcome.titles) {
    out << kTitle << title << "\n";
  }
  for (const std::string& advice : expectation.advice.empty() ? Lines() : outcome.advice) {
    out << kAdvice << advice << "\n";
  }
}

// What users read is compared only where the scenario says it.
bool check_texts(const char* what, const std::vector<std::string>& expected,
                 const std::vector<std::string>& found) {
  if (expected.empty() || expected == found) {
    return true;
  }
  std::cout << what << ", ";
  print("expected:", expected);
  print("found:", found);
  return false;
}

bool check_evidence(const Expectation& expectation, const Outcome& outcome) {
  return std::all_of(
      expectation.evidence.begin(), expectation.evidence.end(), [&](const std::string& wanted) {
        const bool found = std::any_of(outcome.evidence.begin(), outcome.evidence.end(),
                                       [&](const auto& line) { return line.starts_with(wanted); });
        if (!found) {
          print(("no evidence begins with: " + wanted).c_str(), outcome.evidence);
        }
        return found;
      });
}

int check(const std::string& file, bool updating) {
  std::ifstream in(file);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const Result<DumpText> dump = parse_dump(text, file);
  if (!dump) {
    std::cout << fmt::format("{}:{}: {}\n", file, dump.error().offset, dump.error().message);
    return 1;
  }
  const Expectation expectation = read_expectation(dump->rest);
  if (!expectation.problem.empty()) {
    std::cout << expectation.problem << "\n";
    return 1;
  }
  const Outcome outcome = judge(dump->processes, expectation.options);
  if (updating) {
    update(file, text, expectation, outcome);
    return 0;
  }
  bool right = check_orders(*dump, expectation.options, outcome);
  right = check_reading(*dump, expectation.options) && right;
  right = check_evidence(expectation, outcome) && right;
  right = check_texts("titles", expectation.titles, outcome.titles) && right;
  right = check_texts("advice", expectation.advice, outcome.advice) && right;
  if (!outcome.unlisted.empty()) {
    print("values that docs/findings/ does not list:", outcome.unlisted);
    right = false;
  }
  if (outcome.findings != expectation.findings) {
    print("expected:", expectation.findings);
    print("found:", outcome.findings);
    std::cout << outcome.json;
    right = false;
  }
  if (!expectation.run.empty() && outcome.run != expectation.run) {
    print("expected:", {expectation.run});
    print("found:", {outcome.run});
    right = false;
  }
  if (!right) {
    std::cout << file << ": wrong\n";
  }
  return right ? 0 : 1;
}

}  // namespace
}  // namespace traintrace

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): ends the test
  const bool updating = argc > 1 && std::string(argv[1]) == "--update";
  const std::vector<std::string> files(argv + (updating ? 2 : 1), argv + argc);
  if (argc == 0 || files.empty()) {
    std::cerr << "usage: scenario [--update] FILE..\n";
    return 2;
  }
  int wrong = 0;
  for (const std::string& file : files) {
    if (files.size() > 1) {
      std::cout << file << std::endl;  // at once: a sanitizer may end the program in it
    }
    wrong += traintrace::check(file, updating);
  }
  return wrong ? 1 : 0;
}
