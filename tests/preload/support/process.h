// Runs a program under the preload, with a trace folder of its own, and looks at what came of it.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace preload {

struct Outcome {
  int status = 0;  // as waitpid gives it
  std::string output;
  std::string errors;
  bool exited_with(int code) const;
  bool killed_by(int signal) const;
};

struct Program {
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;  // beside the test's own
  bool traced = true;
  std::string preload_before;  // further libraries in LD_PRELOAD
  std::string preload_after;
  int kill_after_us = -1;  // SIGKILL so long after the start, if not negative
};

// This test program itself: `case` is found by role() there.
Program self(const std::string& role, std::vector<std::string> arguments = {});

// In main(), before the tests: the role that self() asked for, with its arguments; empty if this
// is the test itself.
std::vector<std::string> role(int argc, char** argv);

// What it recorded is in its folder when this returns.
Outcome run(const Program& program);
void wait_for_keepers();

// An empty folder that is gone when the test is.
class Folder {
 public:
  Folder();
  explicit Folder(const std::string& inside);
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }
  std::vector<std::string> files() const;   // sorted, names only
  std::vector<std::string> traces() const;  // whole paths of *.trace

 private:
  std::string path_;
};

std::string read_whole(const std::string& path);

}  // namespace preload
