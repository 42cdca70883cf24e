#include "analyzer/exporters/sqlite_file.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "analyzer/reader/files/opened_inputs.h"

namespace traintrace {
namespace {

// Of sqlite3.h, whose interface is fixed.
constexpr int kDone = 101;
constexpr int kRow = 100;
constexpr int kReadWriteCreate = 2 | 4;

struct Api {
  int (*open)(const char*, void**, int, const char*);
  int (*close)(void*);
  int (*exec)(void*, const char*, void*, void*, char**);
  int (*prepare)(void*, const char*, int, void**, const char**);
  int (*bind_int64)(void*, int, int64_t);
  int (*bind_text)(void*, int, const char*, int, void*);
  int (*bind_null)(void*, int);
  int (*step)(void*);
  int (*reset)(void*);
  int (*finalize)(void*);
  const char* (*message)(void*);
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

// Null: there is no such library here.
const Api* api() {
  static const Api* const loaded = []() -> const Api* {
    static Api api = {};
    void* const library = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
    const bool whole =
        library != nullptr && find(library, "sqlite3_open_v2", api.open) &&
        find(library, "sqlite3_close", api.close) && find(library, "sqlite3_exec", api.exec) &&
        find(library, "sqlite3_prepare_v2", api.prepare) &&
        find(library, "sqlite3_bind_int64", api.bind_int64) &&
        find(library, "sqlite3_bind_text", api.bind_text) &&
        find(library, "sqlite3_bind_null", api.bind_null) &&
        find(library, "sqlite3_step", api.step) && find(library, "sqlite3_reset", api.reset) &&
        find(library, "sqlite3_finalize", api.finalize) &&
        find(library, "sqlite3_errmsg", api.message);
    return whole ? &api : nullptr;
  }();
  return loaded;
}

ReadError failure(const std::string& path, const std::string& message) {
  return {path, 0, message, true};
}

}  // namespace

struct SqliteFile::Statements {
  std::map<std::string, void*, std::less<>> by_table;
};

SqliteFile::SqliteFile(std::string path)
    : path_(std::move(path)), file_(path_), statements_(new Statements) {}

SqliteFile::SqliteFile(SqliteFile&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::move(other.file_)),
      database_(std::exchange(other.database_, nullptr)),
      statements_(std::exchange(other.statements_, nullptr)),
      error_(std::move(other.error_)) {}

SqliteFile::~SqliteFile() {
  let_go();
  delete statements_;
}

Result<SqliteFile> SqliteFile::create(const std::string& path) {
  if (api() == nullptr) {
    return failure(path, "cannot be written: libsqlite3.so.0 is not on this machine");
  }
  struct stat status = {};
  if (lstat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    return failure(path, "expected a regular file, or none");
  }
  if (is_input(path)) {
    return failure(path, std::string("cannot be written: ") + kIsInput);
  }
  SqliteFile database(path);
  const int file = database.file_.open();
  if (file < 0) {
    return failure(path, std::string("cannot be written: ") + std::strerror(errno));
  }
  ::close(file);
  if (api()->open(database.file_.path().c_str(), &database.database_, kReadWriteCreate, nullptr) !=
      0) {
    return failure(path, "cannot be opened as a database");
  }
  // Nobody needs half of it: a file that was not finished is made anew.
  database.run("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN");
  return database;
}

void SqliteFile::note_error() {
  if (error_.empty()) {
    error_ = api()->message(database_);
  }
}

void SqliteFile::run(const std::string& statements) {
  if (database_ != nullptr &&
      api()->exec(database_, statements.c_str(), nullptr, nullptr, nullptr) != 0) {
    note_error();
  }
}

void SqliteFile::add(std::string_view table, std::initializer_list<SqlValue> values) {
  auto found = statements_->by_table.find(table);
  if (found == statements_->by_table.end()) {
    std::string text = "INSERT INTO " + std::string(table) + " VALUES (";
    for (size_t i = 0; i < values.size(); ++i) {
      text += i == 0 ? "?" : ",?";
    }
    void* statement = nullptr;
    if (api()->prepare(database_, (text + ")").c_str(), -1, &statement, nullptr) != 0) {
      note_error();
      return;
    }
    found = statements_->by_table.emplace(table, statement).first;
  }
  void* const statement = found->second;
  int column = 0;
  for (const SqlValue& value : values) {
    ++column;
    if (const auto* number = std::get_if<int64_t>(&value)) {
      api()->bind_int64(statement, column, *number);
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      api()->bind_text(statement, column, text->data(), static_cast<int>(text->size()), nullptr);
    } else {
      api()->bind_null(statement, column);
    }
  }
  const int result = api()->step(statement);
  if (result != kDone && result != kRow) {
    note_error();
  }
  api()->reset(statement);
}

void SqliteFile::let_go() {
  if (statements_ == nullptr) {
    return;  // moved away
  }
  for (const auto& [table, statement] : statements_->by_table) {
    api()->finalize(statement);
  }
  statements_->by_table.clear();
  if (database_ != nullptr) {
    api()->close(std::exchange(database_, nullptr));
  }
}

std::optional<ReadError> SqliteFile::close() {
  if (database_ == nullptr) {
    return std::nullopt;
  }
  run("COMMIT");
  let_go();
  if (error_.empty()) {
    if (const int problem = file_.finish(); problem != 0) {
      error_ = std::strerror(problem);
    }
  }
  return error_.empty() ? std::nullopt
                        : std::optional(failure(path_, "cannot be written: " + error_));
}

}  // namespace traintrace
