#include "analyzer/text/progress.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "analyzer/text/sizes.h"

namespace traintrace {
namespace {

constexpr auto kFirstAfter = std::chrono::seconds(1);
constexpr auto kThenEvery = std::chrono::milliseconds(200);

// Not its length: most of a trace may be a hole.
uint64_t bytes_on_disk(const std::string& path) {
  constexpr uint64_t kBlock = 512;  // of st_blocks, whatever the file system's are
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 ? static_cast<uint64_t>(status.st_blocks) * kBlock : 0;
}

}  // namespace

std::string progress_text(size_t number, size_t count, uint64_t done, uint64_t all,
                          std::chrono::nanoseconds elapsed) {
  std::string text = fmt::format("reading file {} of {}, {} of {}", number, count,
                                 file_size_text(done), file_size_text(all));
  if (done > 0 && done <= all) {
    const double left = std::chrono::duration<double>(elapsed).count() *
                        static_cast<double>(all - done) / static_cast<double>(done);
    text += fmt::format(", {:.0f} s left", left);
  }
  return text;
}

Progress::Progress(const std::vector<std::string>& paths)
    : shows_(isatty(STDERR_FILENO) != 0 && paths.size() > 1) {
  for (const std::string& path : shows_ ? paths : std::vector<std::string>()) {
    bytes_.push_back(bytes_on_disk(path));
    all_ += bytes_.back();
  }
}

Progress::~Progress() {
  if (is_shown_) {
    std::fputs("\r\x1b[K", stderr);
  }
}

void Progress::next() {
  if (!shows_ || begun_ >= bytes_.size()) {
    return;
  }
  done_ += begun_ == 0 ? 0 : bytes_[begun_ - 1];
  ++begun_;
  const Clock::time_point now = Clock::now();
  if (now - began_ >= kFirstAfter && (!is_shown_ || now - shown_ >= kThenEvery)) {
    std::fprintf(stderr, "\r\x1b[Ktraintrace: %s",
                 progress_text(begun_, bytes_.size(), done_, all_, now - began_).c_str());
    shown_ = now;
    is_shown_ = true;
  }
}

}  // namespace traintrace
