#include "analyzer/importers/other_files.h"

#include <algorithm>
#include <fstream>
#include <set>

#include "analyzer/importers/flight_recorder.h"
#include "analyzer/importers/json_value.h"
#include "analyzer/importers/pickle.h"

namespace traintrace {

std::string head_of(const std::string& path, size_t bytes) {
  std::ifstream file(path, std::ios::binary);
  std::string head(bytes, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(file.gcount()));
  return head;
}

bool may_be_other_tools(const std::string& path) {
  const std::string head = head_of(path, 64);
  return looks_like_pickle(head) || looks_like_json(head);
}

bool may_be_flight_dump(const std::string& path) {
  constexpr size_t kLook = 4096;
  const std::string head = head_of(path, kLook);
  return (looks_like_pickle(head) || looks_like_json(head)) &&
         (head.find("pg_config") != head.npos || head.find("pg_status") != head.npos ||
          head.find("entries") != head.npos);
}

TraceSet read_other_files(const std::vector<OtherFile>& files) {
  std::vector<std::string> dumps;
  std::vector<ReadError> strange;
  std::set<std::string> named;
  for (const OtherFile& file : files) {
    if (file.named) {
      named.insert(file.path);
    }
    if (may_be_other_tools(file.path)) {
      dumps.push_back(file.path);
    } else {
      strange.push_back(
          {file.path, 0, "expected a Flight Recorder dump, as its neighbours are", true, false});
    }
  }
  TraceSet set = read_flight_files(dumps);
  // What lies beside the dumps and has another name is none of our business.
  std::set<std::string> names;
  for (const ProcessTrace& trace : set.processes) {
    names.insert(name_without_rank(trace.source));
  }
  std::move(strange.begin(), strange.end(), std::back_inserter(set.errors));
  std::erase_if(set.errors, [&](const ReadError& error) {
    return !named.contains(error.file) && !names.contains(name_without_rank(error.file)) &&
           !names.empty();
  });
  return set;
}

}  // namespace traintrace
