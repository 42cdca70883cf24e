// A job as `traintrace top` shows it: lines of a terminal, or JSON.
#pragma once

#include <string>
#include <vector>

#include "analyzer/text/screen.h"
#include "analyzer/top/job_view.h"

namespace traintrace {

struct TopLook {
  size_t lines = 24;    // of the terminal; 0: as many as there are
  size_t selected = 0;  // row
  bool utf8 = false;    // may draw with more than ASCII
  TopOrder order = TopOrder::kLag;
  std::vector<std::string> details;  // below the selected row
  std::string note;                  // in the last line, in place of the keys
};

const char* order_name(TopOrder order);
// `place` of the rank that stands for a row, read on demand: at most `kMostPlaces` new ones.
std::vector<std::string> top_lines(const JobView& view, LiveJob& job, const TopLook& look,
                                   const Screen& screen);
// Schema traintrace.top/1: docs/top.md.
std::string top_json(const JobView& view, LiveJob& job);

}  // namespace traintrace
