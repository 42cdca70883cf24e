#include "analyzer/commands/output_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "analyzer/commands/command.h"
#include "analyzer/isolation/supervise.h"
#include "analyzer/reader/files/opened_inputs.h"

namespace traintrace {

OutputFile::OutputFile(const std::string& path)
    : path_(path.empty() ? "-" : path), descriptor_(STDOUT_FILENO) {
  if (path_ != "-") {
    is_input_ = is_input(path_);
    file_.emplace(path_);
    descriptor_ = is_input_ ? -1 : file_->open();
  }
  if (descriptor_ < 0) {
    error_ = is_input_ ? EEXIST : errno;
  }
  if (descriptor_ == STDOUT_FILENO) {
    about_to_speak();
  }
}

OutputFile::~OutputFile() {
  if (descriptor_ > STDERR_FILENO) {
    ::close(descriptor_);
  }
}

void OutputFile::write(std::string_view bytes) {
  while (!bytes.empty() && error_ == 0) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
}

int OutputFile::close() {
  if (descriptor_ > STDERR_FILENO && ::close(descriptor_) != 0 && error_ == 0) {
    error_ = errno;
  }
  descriptor_ = -1;
  if (error_ == 0 && file_) {
    error_ = file_->finish();
  }
  file_.reset();
  const bool to_stdout = path_ == "-";
  if (error_ == 0 || (to_stdout && error_ == EPIPE)) {
    return 0;
  }
  return fail(std::string("cannot write ") + (to_stdout ? "to stdout" : path_) + ": " +
              (is_input_ ? kIsInput : std::strerror(error_)));
}

int write_output(const std::string& path, std::string_view bytes) {
  OutputFile file(path);
  file.write(bytes);
  return file.close();
}

std::string file_name_of(const ProcessTrace& trace, size_t number) {
  constexpr size_t kMostDigits = 9;
  const auto rank = trace.facts.find("env.RANK");
  const bool is_number = rank != trace.facts.end() && !rank->second.empty() &&
                         rank->second.size() <= kMostDigits &&
                         std::all_of(rank->second.begin(), rank->second.end(),
                                     [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? rank->second : "process" + std::to_string(number);
}

}  // namespace traintrace
