// The status of NCCL's RAS service as text: what ncclras prints, and the only form before
// NCCL 2.28.  Printed are statistics, and of the ranks only those that differ from most (NCCL's
// src/ras/client_support.cc).
#include "analyzer/importers/logs/ras_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "analyzer/importers/logs/log_lines.h"
#include "analyzer/importers/logs/testimony.h"

namespace traintrace {
namespace {

// Takes `prefix` from the beginning of the text.
bool take(std::string_view& text, std::string_view prefix) {
  const bool begins = text.starts_with(prefix);
  text.remove_prefix(begins ? prefix.size() : 0);
  return begins;
}

std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || number < 0) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

class TextReader {
 public:
  explicit TextReader(Testimony& into) : into_(into) {}

  void read(std::string_view line) {
    if (line == "Errors") {
      in_table_ = false;
    } else if (in_table_) {
      read_group(line);
    } else if (line.starts_with("Group ")) {
      in_table_ = true;
    } else if (line.starts_with('#')) {
      begin_communicator(line);
    } else if (line == "DEAD") {
      begin_processes(kDead);
    } else if (line == "INCOMPLETE") {
      begin_processes("does not answer");
    } else if (line == "TIMEOUT" || line.starts_with("Warnings")) {
      begin_processes("");
    } else if (take(line, "  ")) {
      read_indented(line);
    }
  }

 private:
  static constexpr size_t kMostText = 128;
  static constexpr size_t kMostConclusions = 16;
  static constexpr std::string_view kDead = "does not answer, and is considered dead";

  // "    0         1         4         8        32        32   RUNNING  MISMATCH": of the group the
  // number, and how many ranks each of its communicators has.
  void read_group(std::string_view line) {
    constexpr int kSizeColumn = 4;
    std::optional<int> group;
    for (int column = 0; column <= kSizeColumn; ++column) {
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
      if (column == 0) {
        group = take_number(line);
      } else if (column < kSizeColumn) {
        line.remove_prefix(std::min(line.find(' '), line.size()));
      } else if (const std::optional<int> size = take_number(line);
                 group && size && sizes_.size() < kMostWitnesses) {
        sizes_[*group] = *size;
      }
    }
  }

  void begin_processes(std::string_view says) {
    about_ = {};
    says_ = says;
    most_.clear();
    function_.clear();
  }

  // "#0-1 (27a079b828ff1a75) MISMATCH".
  void begin_communicator(std::string_view line) {
    begin_processes(line.ends_with(" INCOMPLETE") ? "does not answer" : "");
    std::string_view number = line.substr(1);
    if (const std::optional<int> group = take_number(number); group && sizes_.contains(*group)) {
      about_.size = sizes_[*group];
    }
    const size_t open = line.find('(');
    if (open != line.npos) {
      std::from_chars(line.data() + open + 1, line.data() + line.size(), about_.communicator, 16);
    }
  }

  void read_indented(std::string_view line) {
    constexpr std::string_view kCounts = " operation counts";
    if (take(line, "Rank ")) {
      read_rank(line);
    } else if (take(line, "Process ")) {
      read_process(line);
    } else if (take(line, "Communicator ranks have different ")) {
      // Before 2.25 of all operations together, later of each function.
      function_ = line.ends_with(kCounts) ? line.substr(0, line.size() - kCounts.size()) : "";
      most_.clear();
    } else if (const std::optional<int> count = take_number(line); count && take(line, " ranks ")) {
      says_ = text_of(line);
      if (most_.empty()) {
        most_ = fmt::format("{} ranks {}", *count, says_);
      }
    } else if (line.find(" error") != line.npos) {  // "Asynchronous errors on 3 ranks"
      most_.clear();
    }
  }

  // "have launched up to operation 41", of one rank "has ..".
  std::string text_of(std::string_view text) const {
    std::string said(text.substr(0, kMostText));
    if (const size_t at = said.find(" operation "); at != said.npos && !function_.empty()) {
      said.insert(at, " " + function_);
    }
    return said;
  }

  // "3 -- GPU 3 managed by process 51 on node 10.0.0.7", "3 has launched .. -- GPU ..".
  void read_rank(std::string_view line) {
    const std::optional<int> rank = take_number(line);
    const size_t separator = line.find(" -- ");
    if (!rank || separator == line.npos) {
      return;
    }
    std::string_view own = line.substr(0, separator);
    line.remove_prefix(separator);
    Witness witness = about_;
    witness.local_rank = *rank;
    const size_t process = line.find("managed by process ");
    if (process != line.npos) {
      line.remove_prefix(process);
      take(line, "managed by process ");
      set_process(line, witness);
    }
    add(witness, take(own, " ") ? text_of(own) : says_);
  }

  // "51 on node 10.0.0.7 managing GPUs 0,1".
  void read_process(std::string_view line) {
    Witness witness = about_;
    set_process(line, witness);
    if (witness.pid == 0) {
      return;
    }
    if (says_ == kDead && into_.conclusions.size() < kMostConclusions) {
      into_.conclusions.push_back(
          fmt::format("process {} on {} {}", witness.pid, witness.host, says_));
    }
    add(witness, says_);
  }

  static void set_process(std::string_view line, Witness& witness) {
    witness.pid = take_number(line).value_or(0);
    if (take(line, " on node ")) {
      witness.host = line.substr(0, std::min(line.find(' '), kMostText));
    }
  }

  void add(Witness& witness, const std::string& says) {
    if (says.empty() || into_.witnesses.size() >= kMostWitnesses) {
      return;
    }
    witness.says = says;
    if (!most_.empty() && !most_.ends_with(says)) {
      witness.says += fmt::format("; {}", most_);
    }
    into_.witnesses.push_back(std::move(witness));
  }

  Testimony& into_;
  bool in_table_ = false;
  std::map<int, int> sizes_;  // of communicators, by group
  Witness about_;             // the communicator that the lines are about
  std::string says_;          // of the ranks and processes listed next
  std::string most_;          // "26 ranks have launched up to operation 41": said before them
  std::string function_;      // that the counts are of
};

}  // namespace

namespace {

// Where the status begins: at once, or among the other lines of a job's log.
size_t ras_text_begin(std::string_view bytes) {
  constexpr std::string_view kSummary = "\nJob summary";
  constexpr size_t kMostBefore = 512;  // the versions of CUDA
  const size_t summary = bytes.find(kSummary);
  const size_t begin =
      summary == bytes.npos ? summary : bytes.substr(0, summary).rfind("NCCL version ");
  const bool is_line = begin == 0 || (begin != bytes.npos && bytes[begin - 1] == '\n');
  return is_line && summary - begin < kMostBefore ? begin : bytes.npos;
}

}  // namespace

bool looks_like_ras_text(std::string_view bytes) {
  return ras_text_begin(bytes) != bytes.npos;
}

Testimony read_ras_text(std::string_view bytes, const std::string& file) {
  Testimony testimony{file, "NCCL RAS", {}};
  TextReader reader(testimony);
  if (const size_t begin = ras_text_begin(bytes); begin != bytes.npos) {
    for_each_line(bytes.substr(begin), [&](std::string_view line) {
      reader.read(line);
      return true;
    });
  }
  return testimony;
}

}  // namespace traintrace
