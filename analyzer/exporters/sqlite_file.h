// A database of SQLite, written through the machine's own library, which is loaded when it is
// needed: Python has it, too.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "analyzer/exporters/unfinished_file.h"
#include "analyzer/reader/result.h"

namespace traintrace {

// Empty: NULL.
using SqlValue = std::variant<std::monostate, int64_t, std::string>;
inline SqlValue sql_known(int64_t value, bool is_known) {
  return is_known ? SqlValue(value) : SqlValue();
}
inline SqlValue sql_known(std::string text) {
  return text.empty() ? SqlValue() : SqlValue(std::move(text));
}

class SqliteFile {
 public:
  // With rights 0600; a regular file that was there before is replaced once it is closed.
  static Result<SqliteFile> create(const std::string& path);
  SqliteFile(SqliteFile&& other) noexcept;
  SqliteFile& operator=(SqliteFile&&) = delete;
  SqliteFile(const SqliteFile&) = delete;
  ~SqliteFile();

  void run(const std::string& statements);
  // A row of that table, with a value for each of its columns.
  void add(std::string_view table, std::initializer_list<SqlValue> values);
  // Ends what is written.  The first error, if there was any: then there is no file.
  std::optional<ReadError> close();

 private:
  struct Statements;
  explicit SqliteFile(std::string path);
  void note_error();
  void let_go();

  std::string path_;
  UnfinishedFile file_;
  void* database_ = nullptr;
  Statements* statements_ = nullptr;
  std::string error_;
};

}  // namespace traintrace
