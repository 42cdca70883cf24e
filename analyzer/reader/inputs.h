// What the arguments of a command stand for: files, those of folders and those of archives, by what
// is to be done with them.  Nothing is read but what tells the kind of a file.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/importers/other_files.h"
#include "analyzer/reader/read_trace.h"

namespace traintrace {

// What archives are called whose members are read.
inline constexpr std::string_view kArchives[] = {".tar", ".tgz", ".gz", ".zst", ".tzst"};

struct Inputs {
  std::vector<std::string> traces;
  std::set<std::string> named;  // of the traces: by the user, not by a folder that lists them
  std::vector<OtherFile> others;
  std::vector<std::string> supporting;
  std::vector<std::string> telemetry;
};

// In the order in which they are named or listed; the same file may come twice.  No argument: the
// default folder.  What cannot be listed, unpacked or told goes into `errors`.
Inputs inputs_of(std::span<const std::string> arguments, std::vector<ReadError>& errors);

}  // namespace traintrace
