// A file that has its name only once it is whole: until then it is NAME.part, and one that is not
// finished leaves nothing. What is no regular file (a pipe, /dev/null), or lies in a folder that
// cannot be written to, is written to as it is.
#pragma once

#include <string>

namespace traintrace {

class UnfinishedFile {
 public:
  // Links are followed: what they lead to is replaced, not they.
  explicit UnfinishedFile(const std::string& name);
  UnfinishedFile(UnfinishedFile&& other) noexcept;
  UnfinishedFile& operator=(UnfinishedFile&&) = delete;
  UnfinishedFile(const UnfinishedFile&) = delete;
  ~UnfinishedFile();  // removes what was not finished

  const std::string& path() const { return path_; }  // what is to be written
  // Creates it with rights 0600, open for writing; -1, with errno.
  int open();
  // Gives the file its name.  Returns errno, or 0.
  int finish();

 private:
  std::string name_;
  std::string path_;
  bool is_there_ = false;  // as `path_`, and to be removed
};

}  // namespace traintrace
