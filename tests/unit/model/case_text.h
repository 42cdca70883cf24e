// What the families write their jobs with.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "analyzer/model/ids.h"

namespace traintrace {

struct Call {
  std::string function;
  std::string arguments;
  std::string site;
};
using Calls = std::vector<Call>;

inline Ranks all_but(int ranks, int culprit) {
  Ranks others;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank != culprit) {
      others.push_back({rank});
    }
  }
  return others;
}

class Text {
 public:
  explicit Text(int ranks) {
    text_ = fmt::format("ranks 0-{}\ncommunicator dp members=0-{}\n", ranks - 1, ranks - 1);
  }
  void call(const Ranks& who, const char* verb, const Call& call, double time,
            const std::string& on = "dp") {
    text_ += fmt::format("+{:.3f} {} {} {} on {} {} @{}\n", time, rank_list(who), verb,
                         call.function, on, call.arguments, call.site);
  }
  void line(const std::string& line) { text_ += line + "\n"; }
  std::string str() const { return text_ + "end +60\n"; }

 private:
  std::string text_;
};

// Of many ranks, each ninth.
inline std::vector<int> culprits_of(int ranks) {
  std::vector<int> culprits;
  for (int rank = 0; rank < ranks; ++rank) {
    if (ranks <= 8 || rank % 9 == 0) {
      culprits.push_back(rank);
    }
  }
  return culprits;
}

}  // namespace traintrace
