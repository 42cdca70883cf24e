#include "analyzer/importers/logs/job/elastic_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>
#include <system_error>
#include <vector>

#include "analyzer/importers/logs/job/endings.h"
#include "analyzer/importers/logs/log_lines.h"
#include "analyzer/model/ids.h"
#include "analyzer/model/process/code_place.h"

namespace traintrace {
namespace {

constexpr size_t kMostTold = 160;
constexpr int kMostRankTold = 1 << 24;

std::string_view trimmed_line(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  return begin == text.npos ? std::string_view()
                            : text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

std::optional<int> number_at_start(std::string_view text) {
  int number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() ? std::optional(number) : std::nullopt;
}

// "rank      : 3 (local_rank: 3)", "rank: 3", also behind what a launcher puts before its lines.
std::optional<std::string_view> value_of_key(std::string_view line, std::string_view key) {
  const size_t at = line.find(key);
  if (at == line.npos || (at > 0 && line[at - 1] != ' ' && line[at - 1] != '\t')) {
    return std::nullopt;
  }
  const size_t colon = line.find_first_not_of(' ', at + key.size());
  return colon == line.npos || line[colon] != ':' || colon > at + 10
             ? std::nullopt
             : std::optional(trimmed_line(line.substr(colon + 1)));
}

// "RuntimeError: CUDA error", "torch.OutOfMemoryError: ..", "KeyboardInterrupt".
bool is_exception(std::string_view line) {
  const std::string_view name = line.substr(0, line.find(':'));
  const auto is_of_name = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_';
  };
  return !name.empty() && std::isalpha(static_cast<unsigned char>(name[0])) != 0 &&
         std::all_of(name.begin(), name.end(), is_of_name) &&
         (name.size() < line.size() || name.find("rror") != name.npos ||
          name.find("Interrupt") != name.npos || name.find("xception") != name.npos);
}

// "KeyError: 'label' at train.py:118 in check"
std::string raised_text(const RaisedException& raised) {
  return raised.text +
         (raised.file.empty() ? "" : fmt::format(" at {}:{}", raised.file, raised.line)) +
         (raised.function.empty() ? "" : " in " + raised.function);
}

// Of the exceptions of one process, those that follow from another in one traceback tell less than
// the first.  One that stands by itself is of a later process of that rank, after a restart.
class TracebackReader {
 public:
  static bool begins(std::string_view line) {
    return line.starts_with("Traceback (most recent call last)");
  }
  void begin() {
    open_ = !raised_ || !is_continued_;
    place_ = RaisedException();
    is_continued_ = false;
  }
  bool is_open() const { return open_; }

  // A line of it, without what a launcher puts before all of them.  An exception stands farther
  // left than the places before it, and these farther left than their code.
  void add(std::string_view line) {
    const std::string_view text = trimmed_line(line);
    const size_t indent = text.empty() ? 0 : static_cast<size_t>(text.data() - line.data());
    is_continued_ = is_continued_ || text.starts_with("During handling of the above exception") ||
                    text.starts_with("The above exception was the direct cause");
    if (!open_) {
      return;
    }
    if (text.starts_with("File \"")) {
      indent_ = indent;
      add_frame(text.substr(6));
    } else if (!text.empty() && indent < indent_ && is_exception(text)) {
      raised_ = place_;
      raised_->text = text.substr(0, kMostTold);
      open_ = false;
    }
  }
  void end() { open_ = false; }
  const std::optional<RaisedException>& raised() const { return raised_; }

 private:
  // train.py", line 118, in train_step
  void add_frame(std::string_view text) {
    const size_t quote = text.find("\", line ");
    if (quote == text.npos || !is_user_file(text.substr(0, quote))) {
      return;
    }
    const std::string_view rest = text.substr(quote + 8);
    const size_t in = rest.find(", in ");
    place_.file = text.substr(0, std::min(quote, kMostTold));
    place_.line = number_at_start(rest).value_or(0);
    place_.function = in == rest.npos ? std::string_view() : rest.substr(in + 5, kMostTold);
  }

  bool open_ = false;
  bool is_continued_ = false;  // the next traceback follows from the one before
  size_t indent_ = 0;
  RaisedException place_;  // of the innermost line of the user's code
  std::optional<RaisedException> raised_;
};

struct ElasticFailure {
  std::string time;  // "2025-05-21_15:43:03": in this order as text, too
  std::string host;
  int rank = -1;
  int status = 0;
  int pid = 0;
  bool is_first = false;  // "Root Cause (first observed failure)", of one torchrun
  TracebackReader traceback;
};

class ElasticReader {
 public:
  void read(std::string_view line) {
    if (read_of_rank(line)) {
      return;
    }
    if (line.find("Root Cause") != line.npos && line.find(':') != line.npos) {
      within_ = true;
      is_first_ = true;
    } else if (line.find("Failures:") != line.npos) {
      within_ = true;
      is_first_ = false;
    } else if (within_) {
      read_of_summary(line);
    }
  }

  void finish() { close(); }

  std::vector<Witness> witnesses() const {
    std::map<int, Witness> all;
    for (const ElasticFailure& failure : failures_) {
      Witness& witness = all[failure.rank];
      witness.says +=
          fmt::format("{}{} at {}, pid {} on {}", witness.says.empty() ? "" : "; ",
                      ending_text(failure.status), failure.time, failure.pid, failure.host);
      if (const auto& raised = raised_by(failure)) {
        witness.says += ", " + raised_text(*raised);
        witness.raised = raised;
      }
    }
    for (const auto& [rank, traceback] : tracebacks_) {
      if (traceback.raised() && !all.contains(rank)) {
        all[rank].says = raised_text(*traceback.raised());
        all[rank].raised = traceback.raised();
      }
    }
    std::vector<Witness> witnesses;
    for (auto& [rank, witness] : all) {
      witness.rank = rank;
      witnesses.push_back(std::move(witness));
    }
    return witnesses;
  }

  // Each torchrun says which of its own failed first.
  std::vector<std::string> conclusions() const {
    std::string first;
    if (failures_.empty() && first_raised_) {
      return {who_raised_text()};
    }
    for (const ElasticFailure& failure : failures_) {
      if (failure.is_first && (first.empty() || failure.time < first)) {
        first = failure.time;
      }
    }
    std::vector<std::string> all;
    std::vector<std::string> hints;
    constexpr size_t kMostFirst = 8;
    for (const ElasticFailure& failure : failures_) {
      if (!failure.is_first || failure.time != first || all.size() == kMostFirst) {
        continue;
      }
      const auto& raised = raised_by(failure);
      all.push_back(fmt::format("rank {} on {} was the first that torchrun saw fail: {}{}",
                                failure.rank, failure.host, ending_text(failure.status),
                                raised ? ", " + raised_text(*raised) : ""));
      const std::string_view hint = ending_hint(failure.status);
      if (!hint.empty() && std::find(hints.begin(), hints.end(), hint) == hints.end()) {
        hints.emplace_back(hint);
      }
    }
    std::move(hints.begin(), hints.end(), std::back_inserter(all));
    return all;
  }

 private:
  // Where no torchrun says who failed first; the order in a file is no proof of it.
  std::string who_raised_text() const {
    Ranks ranks;
    for (const auto& [rank, traceback] : tracebacks_) {
      if (traceback.raised()) {
        insert(ranks, Rank{rank});
      }
    }
    const std::string raised = raised_text(*tracebacks_.at(*first_raised_).raised());
    return ranks.size() == 1
               ? fmt::format("only {} raised an exception: {}", ranks_text(ranks), raised)
               : fmt::format("{} raised exceptions, the first in the file is rank {}'s: {}",
                             ranks_text(ranks), *first_raised_, raised);
  }

  // "[rank3]: Traceback ..": since 2.4 the exceptions of ranks have this before each line.
  bool read_of_rank(std::string_view line) {
    constexpr std::string_view kBefore = "[rank";
    const size_t at = line.find(kBefore);
    const size_t end = at == line.npos ? at : line.find("]: ", at);
    if (end == line.npos || end > at + kBefore.size() + 8) {
      return false;
    }
    const std::optional<int> rank = number_at_start(line.substr(at + kBefore.size()));
    if (!rank || *rank < 0 || *rank > kMostRankTold ||
        (tracebacks_.size() >= kMostWitnesses && !tracebacks_.contains(*rank))) {
      return false;
    }
    const std::string_view text = line.substr(end + 3);
    TracebackReader& traceback = tracebacks_[*rank];
    if (TracebackReader::begins(text)) {
      traceback.begin();
    } else {
      traceback.add(text);
      first_raised_ = !first_raised_ && traceback.raised() ? rank : first_raised_;
    }
    return true;
  }

  void read_of_summary(std::string_view line) {
    if (line.find("=====") != line.npos) {
      close();
      within_ = false;
    } else if (line.find("-----") != line.npos) {
      close();
    } else if (const auto time = value_of_key(line, "time"); time && !open_) {
      open_.emplace();
      open_->time = time->substr(0, kMostTold);
      open_->is_first = is_first_;
    } else if (open_) {
      read_of_failure(line);
    }
  }

  void read_of_failure(std::string_view line) {
    if (open_->traceback.is_open()) {
      open_->traceback.add(line.substr(std::min(before_, line.size())));
    } else if (const auto host = value_of_key(line, "host")) {
      open_->host = host->substr(0, kMostTold);
    } else if (const auto rank = value_of_key(line, "rank")) {
      open_->rank = number_at_start(*rank).value_or(-1);
    } else if (const auto status = value_of_key(line, "exitcode")) {
      open_->status = number_at_start(*status).value_or(0);
      const size_t pid = status->find("(pid: ");
      open_->pid = pid == status->npos ? 0 : number_at_start(status->substr(pid + 6)).value_or(0);
    } else if (const auto traceback = value_of_key(line, "traceback");
               traceback && TracebackReader::begins(*traceback)) {
      before_ = line.find("  traceback");
      open_->traceback.begin();
    } else if (line.find("]:") != line.npos) {
      close();  // the next one
    }
  }

  void close() {
    if (open_ && open_->rank >= 0 && open_->rank <= kMostRankTold && open_->status != 0 &&
        failures_.size() < kMostWitnesses) {
      open_->host = open_->host.empty() ? "an unnamed host" : open_->host;
      failures_.push_back(std::move(*open_));
    }
    open_.reset();
  }

  const std::optional<RaisedException>& raised_by(const ElasticFailure& failure) const {
    const auto own = tracebacks_.find(failure.rank);
    return own != tracebacks_.end() && own->second.raised() ? own->second.raised()
                                                            : failure.traceback.raised();
  }

  std::map<int, TracebackReader> tracebacks_;  // by rank
  std::optional<int> first_raised_;
  std::vector<ElasticFailure> failures_;
  std::optional<ElasticFailure> open_;
  size_t before_ = 0;    // bytes of a line that a launcher puts before it
  bool within_ = false;  // a summary
  bool is_first_ = false;
};

}  // namespace

bool looks_like_elastic_log(std::string_view bytes) {
  const auto has = [&](std::string_view text) { return bytes.find(text) != bytes.npos; };
  return (has("Root Cause") && has("(local_rank: ")) || has("]: Traceback (most recent call last)");
}

Testimony read_elastic_log(std::string_view bytes, const std::string& file) {
  ElasticReader reader;
  for_each_line(bytes, [&](std::string_view line) {
    reader.read(line);
    return true;
  });
  reader.finish();
  return {file, "the job's log",         reader.witnesses(), reader.conclusions(),
          {},   Testimony::Of::kFailures};
}

}  // namespace traintrace
