#include "analyzer/text/dump_parser.h"

#include <algorithm>
#include <map>
#include <string>

#include "analyzer/text/draft.h"
#include "analyzer/text/key_reader.h"
#include "analyzer/text/record_lines.h"
#include "analyzer/text/story.h"
#include "analyzer/text/words.h"

namespace traintrace {
namespace {

class DumpParser {
 public:
  explicit DumpParser(const std::string& file) : file_(file), story_(drafts_) {}

  Result<DumpText> parse(std::string_view text) {
    DumpText dump;
    for (int number = 1; !text.empty(); ++number) {
      const size_t end = text.find('\n');
      const std::string_view line = text.substr(0, end);
      text = end == text.npos ? "" : text.substr(end + 1);
      if (line.substr(0, line.find_last_not_of(" \t\r") + 1) == "---") {
        dump.rest = text;
        dump.rest_line = number + 1;
        break;
      }
      const auto words = split_words(line);
      if (!words) {
        drafts_.fail("a quote that is closed");
      }
      if (!words || (!words->empty() && !read_line(*words))) {
        return error(number);
      }
    }
    dump.start = drafts_.start;
    end_run();
    for (Draft& draft : drafts_.all) {
      finish_process(draft);
      dump.processes.push_back(std::move(draft.trace));
    }
    return dump;
  }

 private:
  ReadError error(int line) const {
    return {file_, static_cast<uint64_t>(line), "expected " + drafts_.problem, true, false};
  }

  bool read_line(const std::vector<std::string>& words) {
    const std::string& first = words[0];
    if (first[0] == '+' || first[0] == '-') {
      const bool event =
          words.size() > 2 && (words[2] == ">" || words[2] == "<" || words[2] == "*");
      return event ? read_event_line(drafts_, words) : story_.read_line(words);
    }
    if (first == "start") {
      return read_start(words);
    }
    if (first == "run") {
      return read_run(words);
    }
    if (first == "end") {
      return read_end(words);
    }
    if (first == "process" || first == "ranks") {
      return read_processes(words);
    }
    if (first == "communicator" && words.size() > 2) {
      KeyReader keys(std::span<const std::string>(words).subspan(2), nullptr, drafts_);
      if (keys.take("members")) {
        KeyReader again(std::span<const std::string>(words).subspan(2), nullptr, drafts_);
        return story_.read_communicator(words[1], again,
                                        std::span<const std::string>(words).subspan(2));
      }
    }
    return read_record_line(drafts_, words);
  }

  bool read_start(const std::vector<std::string>& words) {
    const auto start = words.size() == 2 ? parse_duration(words[1]) : std::nullopt;
    if (!start || *start < 0) {
      return drafts_.fail("start SECONDS since the epoch");
    }
    drafts_.start = *start;
    return true;
  }

  bool read_run(const std::vector<std::string>& words) {
    if (words.size() != 2) {
      return drafts_.fail("run NAME");
    }
    end_run();
    drafts_.run_name = words[1];
    return true;
  }

  bool read_end(const std::vector<std::string>& words) {
    drafts_.end = words.size() == 2 ? parse_time(words[1], drafts_.start) : std::nullopt;
    return drafts_.end.has_value() || drafts_.fail("end TIME, as +60");
  }

  bool read_processes(const std::vector<std::string>& words) {
    drafts_.current.clear();
    if (words.size() < 2) {
      return drafts_.fail(words[0] == "ranks" ? "ranks 0-3 .." : "process NAME ..");
    }
    if (words[0] == "process") {
      return add_process(words[1], words, false);
    }
    const auto ranks = parse_ranks(words[1]);
    if (!ranks) {
      return drafts_.fail("ranks, as 0-3,7, instead of " + words[1]);
    }
    return std::all_of(ranks->begin(), ranks->end(),
                       [&](int rank) { return add_process(std::to_string(rank), words, true); });
  }

  bool add_process(const std::string& name, const std::vector<std::string>& words,
                   bool from_ranks) {
    Draft* draft = drafts_.add(name);
    if (draft == nullptr) {
      return false;
    }
    drafts_.current.push_back(draft);
    ProcessTrace& trace = draft->trace;
    draft->from_ranks = from_ranks;
    if (!drafts_.run_name.empty()) {
      trace.facts["env.TORCHELASTIC_RUN_ID"] = drafts_.run_name;
    }
    if (from_ranks) {
      trace.source = file_ + ':' + name;
      trace.host = "a";
      trace.pid = static_cast<int>(999 + drafts_.all.size());
      trace.parent_pid = 1;
      trace.armed = drafts_.start;
      trace.facts["env.RANK"] = name;
    }
    KeyReader keys(std::span<const std::string>(words).subspan(2), draft, drafts_);
    read_process_keys(keys, trace);
    if (from_ranks && trace.start_time == 0) {
      trace.start_time = static_cast<uint64_t>(static_cast<uint32_t>(trace.pid));
    }
    if (from_ranks) {
      const bool has_host = std::any_of(words.begin(), words.end(), [](const std::string& word) {
        return word.starts_with("host=");
      });
      const int rank = static_cast<int>(parse_unsigned(name).value_or(0));
      const int first = has_host ? first_of_host_.emplace(trace.host, rank).first->second : 0;
      trace.facts.emplace("env.LOCAL_RANK", std::to_string(rank < first ? rank : rank - first));
    }
    return keys.finish();
  }

  void end_run() {
    story_.finish();
    first_of_host_.clear();
    ++drafts_.run;
    drafts_.first_of_run = drafts_.all.size();
    drafts_.by_name.clear();
    drafts_.current.clear();
    drafts_.latest = 0;
    drafts_.end.reset();
  }

  static void finish_process(Draft& draft) {
    std::vector<CallRecord>& events = draft.trace.events;
    std::stable_sort(events.begin(), events.end(),
                     [](const CallRecord& a, const CallRecord& b) { return a.enter < b.enter; });
  }

  const std::string& file_;
  DraftSet drafts_;
  Story story_;
  std::map<std::string, int> first_of_host_;  // of the ranks of this run, as they are written
};

}  // namespace

Result<DumpText> parse_dump(std::string_view text, const std::string& file) {
  return DumpParser(file).parse(text);
}

}  // namespace traintrace
