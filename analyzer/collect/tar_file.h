// A tar archive as it is written: POSIX.1-1988 ustar headers, GNU's long names where needed.
#pragma once

#include <string>
#include <string_view>

namespace traintrace {

class TarFile {
 public:
  // Under another name until finish(), readable for its owner alone.
  explicit TarFile(std::string path);
  ~TarFile();  // unfinished: removes it
  TarFile(const TarFile&) = delete;
  TarFile& operator=(const TarFile&) = delete;

  // `mtime`: s since the epoch, of all members.
  void set_time(int64_t mtime) { mtime_ = mtime; }
  void add(const std::string& name, std::string_view bytes);
  // As long as the file is now, and no more than kMostMemberBytes.  False: it cannot be read, and
  // the archive is as before.
  bool add_file(const std::string& name, const std::string& path);

  // Empty: all of it is in its place.  Else why not.
  std::string finish();

  static constexpr uint64_t kMostMemberBytes = uint64_t{4} << 30;

 private:
  void write(const char* bytes, size_t count);
  void write_header(const std::string& name, uint64_t bytes, char kind);
  void begin(const std::string& name, uint64_t bytes);
  void pad(uint64_t bytes);

  std::string path_;
  std::string unfinished_;
  int descriptor_;
  int error_ = 0;  // errno of the first that went wrong
  int64_t mtime_ = 0;
};

}  // namespace traintrace
