// Files that commands write.  What they hold - paths, command lines, environment - is the job's
// affair: nobody but its owner reads them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "analyzer/exporters/unfinished_file.h"
#include "analyzer/reader/process_trace.h"

namespace traintrace {

class OutputFile {
 public:
  // "-": stdout.  A regular file with that name is replaced, with rights 0600, once all is written;
  // one that cannot be written stays as it was.
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  // The status of the command: 0, or 2 with one line on stderr.  A reader of stdout that went away
  // is no error.
  int close();

 private:
  std::string path_;
  std::optional<UnfinishedFile> file_;
  int descriptor_;
  int error_ = 0;          // errno of the first that went wrong
  bool is_input_ = false;  // and is not replaced
};

int write_output(const std::string& path, std::string_view bytes);

// What the file of that process is called behind a prefix that the user chose: its rank, as a
// number, or "process3".  What else the trace says for a rank might be a path.
std::string file_name_of(const ProcessTrace& trace, size_t number);

}  // namespace traintrace
