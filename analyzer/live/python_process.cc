// Where the lists of interpreters and threads begin is not in the table of layouts: it is found by
// what must be there, which proves it too.  PyThreadState has begun with (prev, next, interp) from
// 3.8 to 3.14, and _PyRuntimeState with a few flags, the finalising thread, and the interpreters.
#include "analyzer/live/python_process.h"

#include <algorithm>
#include <charconv>

#include "analyzer/python_lines.h"
#include "cpython/memory.h"
#include "cpython/text.h"
#include "cpython/walk.h"

namespace traintrace {
namespace {

constexpr uint64_t kThreadNext = 8;
constexpr size_t kMostPythonThreads = 4096;
constexpr size_t kMostFrames = 512;

constexpr const char* kNames[] = {"_PyRuntime",     "PyCode_Type",  "PyFrame_Type",
                                  "PyUnicode_Type", "PyBytes_Type", "Py_Version"};

std::string file_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// 3.9 and 3.10 say their version nowhere but in text: "python3.10", "libpython3.10.so.1.0".
uint64_t version_in(const std::string& path) {
  const std::string name = file_name(path);
  const size_t at = name.find("python3.");
  unsigned minor = 0;
  if (at == name.npos) {
    return 0;
  }
  const char* const digits = name.data() + at + 8;
  const auto end = std::from_chars(digits, name.data() + name.size(), minor).ptr;
  return end == digits ? 0 : 0x030000f0 | uint64_t{minor} << 16;
}

// Files that may hold the interpreter, the library before the executable that is linked to it.
std::vector<std::string> candidates(const ProcProcess& process) {
  std::vector<std::string> paths;
  for (const Mapping& mapping : process.mappings) {
    const std::string name = file_name(mapping.path);
    const bool is_library = name.starts_with("libpython3");
    if ((is_library || mapping.path == process.executable || name.starts_with("python3")) &&
        std::find(paths.begin(), paths.end(), mapping.path) == paths.end()) {
      paths.insert(is_library ? paths.begin() : paths.end(), mapping.path);
    }
  }
  return paths;
}

std::string utf8(const PythonText& text) {
  std::string result;
  for (uint64_t i = 0; i < text.length; ++i) {
    char bytes[4];
    const char* const end = put_utf8(bytes, printable(python_character(text, i)));
    result.append(bytes, static_cast<size_t>(end - bytes));
  }
  return result;
}

}  // namespace

PythonProcess::PythonProcess(const ProcProcess& process, const PythonRuntime& python)
    : process_(&process), python_(python), memory_(process.pid) {}

std::optional<PythonProcess> PythonProcess::find(const ProcProcess& process,
                                                 const LiveModules& modules) {
  const std::vector<std::string> names(std::begin(kNames), std::end(kNames));
  for (const std::string& path : candidates(process)) {
    const std::map<std::string, uint64_t> symbols = modules.symbols(path, names);
    const auto address = [&](const char* name) {
      const auto found = symbols.find(name);
      return found == symbols.end() ? 0 : found->second;
    };
    PythonRuntime python{{},
                         address("_PyRuntime"),
                         address("PyCode_Type"),
                         address("PyFrame_Type"),
                         address("PyUnicode_Type"),
                         address("PyBytes_Type")};
    if (!python.runtime || !python.code_type || !python.text_type || !python.bytes_type) {
      continue;
    }
    const OtherMemory memory(process.pid);
    uint64_t version = version_in(path);
    if (const uint64_t word = address("Py_Version")) {
      memory.load(word, version);
      version &= 0xffffffff;
    }
    const std::optional<PythonLayout> layout = python_layout(memory, python.runtime, version);
    if (!layout) {
      continue;
    }
    python.layout = *layout;
    PythonProcess found(process, python);
    if (found.find_threads()) {
      return found;
    }
  }
  return std::nullopt;
}

// 0: that is no thread of this process.
int PythonProcess::tid_of(uint64_t state) const {
  const auto is_thread = [&](uint64_t tid) {
    return std::binary_search(process_->threads.begin(), process_->threads.end(),
                              static_cast<int>(tid));
  };
  uint64_t thread = 0;
  uint64_t native = 0;
  if (!memory_.load(state + python_.layout.thread_id, thread)) {
    return 0;
  }
  // From 3.11 on native_thread_id follows thread_id; in a container it is the inner number.
  if (python_.layout.minor >= 11 && memory_.load(state + python_.layout.thread_id + 8, native) &&
      process_->same_pid_namespace) {
    return is_thread(native) ? static_cast<int>(native) : 0;
  }
#if defined(__x86_64__)
  // glibc's struct pthread, at which pthread_self points: tid, unchanged from 2.4 to 2.41.
  constexpr uint64_t kTid = 720;
  int32_t tid = 0;
  if (memory_.load(thread + kTid, tid) && process_->same_pid_namespace) {
    return is_thread(static_cast<uint64_t>(tid)) ? tid : 0;
  }
#endif
  return 0;
}

bool PythonProcess::is_first_thread(uint64_t state, uint64_t interpreter) const {
  uint64_t words[3] = {};  // prev, next, interp
  return plausible_address(state) && memory_.load(state, words) && words[0] == 0 &&
         words[2] == interpreter && tid_of(state) != 0;
}

// The content of an object of unknown size, as far as it is mapped.
std::vector<uint64_t> PythonProcess::words_at(uint64_t address, size_t most) const {
  struct Piece {
    uint64_t words[64];
  } piece;
  std::vector<uint64_t> words;
  while (words.size() < most && memory_.load(address + 8 * words.size(), piece)) {
    words.insert(words.end(), std::begin(piece.words), std::end(piece.words));
  }
  return words;
}

bool PythonProcess::find_threads_of(uint64_t interpreter) {
  // 3.12 and later begin with the state of ceval, which is large.
  constexpr size_t kMostWords = 2048;
  if (!plausible_address(interpreter)) {
    return false;
  }
  uint64_t first = 0;
  if (python_.layout.interpreter_threads != 0) {
    first_thread_ = python_.layout.interpreter_threads;
    interpreter_ = interpreter;
    return memory_.load(interpreter + first_thread_, first) && is_first_thread(first, interpreter);
  }
  const std::vector<uint64_t> words = words_at(interpreter, kMostWords);
  const auto found = std::find_if(words.begin(), words.end(), [&](uint64_t word) {
    return is_first_thread(word, interpreter);
  });
  if (found == words.end()) {
    return false;
  }
  first_thread_ = static_cast<uint32_t>(8 * (found - words.begin()));
  interpreter_ = interpreter;
  return true;
}

// Behind the newest interpreter, where their list begins, lies a pointer to the main one.
bool PythonProcess::find_threads() {
  const PythonLayout& at = python_.layout;
  const uint64_t begin = python_.runtime + std::max(at.runtime_interpreters, at.runtime_finalizing);
  const std::vector<uint64_t> words = words_at(begin, 8);
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (find_threads_of(words[i])) {
      find_threads_of(words[i + 1]);
      return true;
    }
  }
  return false;
}

std::vector<uint64_t> PythonProcess::states() const {
  std::vector<uint64_t> states;
  uint64_t state = 0;
  memory_.load(interpreter_ + first_thread_, state);
  while (plausible_address(state) && states.size() < kMostPythonThreads &&
         std::find(states.begin(), states.end(), state) == states.end()) {
    states.push_back(state);
    if (!memory_.load(state + kThreadNext, state)) {
      break;
    }
  }
  return states;
}

// 0: nobody holds it.  Nothing: it cannot be told, as in a free-threaded build.
std::optional<uint64_t> PythonProcess::gil_holder(const std::vector<uint64_t>& states) const {
  const auto is_state = [&](uint64_t word) {
    return std::find(states.begin(), states.end(), word) != states.end();
  };
  if (python_.layout.minor < 12) {
    // struct _gilstate_runtime_state: the thread state that runs, then the main interpreter.
    const std::vector<uint64_t> runtime = words_at(python_.runtime, 256);
    for (size_t i = 12; i < runtime.size(); ++i) {
      if (runtime[i] == interpreter_ && (runtime[i - 1] == 0 || is_state(runtime[i - 1]))) {
        return runtime[i - 1];
      }
    }
    return std::nullopt;
  }
  struct Gil {
    uint64_t interval;  // us, sys.setswitchinterval
    uint64_t last_holder;
    int32_t locked;
  };
  constexpr uint64_t kLongestInterval = 1'000'000'000;
  for (const uint64_t word : words_at(interpreter_, 2048)) {
    Gil gil;
    if (plausible_address(word) && memory_.load(word, gil) && gil.interval > 0 &&
        gil.interval < kLongestInterval && is_state(gil.last_holder) &&
        (gil.locked == 0 || gil.locked == 1)) {
      gil_ = word;
      return gil.locked == 1 ? gil.last_holder : 0;
    }
  }
  return std::nullopt;
}

// Up to 3.11 the GIL is a part of _PyRuntime, in which no other lock lies: those are allocated.
bool PythonProcess::is_gil(uint64_t futex) const {
  constexpr uint64_t kRuntimeBytes = 4096;
  constexpr uint64_t kGilBytes = 256;
  const bool own_part = python_.layout.minor >= 12;
  const uint64_t begin = own_part ? gil_ : python_.runtime;
  return begin != 0 && futex >= begin && futex - begin < (own_part ? kGilBytes : kRuntimeBytes);
}

// Of a name nobody reads more than its beginning.
std::optional<std::string> PythonProcess::text_at(uint64_t object, Budget& budget) const {
  constexpr uint64_t kMostCharacters = 4096;
  std::optional<PythonText> text = read_python_text(python_, object, memory_);
  if (!text) {
    return std::nullopt;
  }
  text->length = std::min(text->length, kMostCharacters);
  std::vector<uint8_t> characters(text->length * text->width);
  if (!budget.take_bytes(characters.size()) ||
      (!memory_.read(text->data, characters.data(), characters.size()) && !characters.empty())) {
    return std::nullopt;
  }
  text->data = reinterpret_cast<uint64_t>(characters.data());
  return utf8(*text);
}

std::optional<PythonProcess::Code> PythonProcess::read_code(uint64_t code, Budget& budget) const {
  constexpr uint64_t kMostLineTable = 4 << 20;
  const PythonLayout& at = python_.layout;
  Code result;
  uint64_t name = 0;
  uint64_t file = 0;
  uint64_t table = 0;
  if (!memory_.load(code + at.code_name, name) || !memory_.load(code + at.code_file, file) ||
      !memory_.load(code + at.code_line_table, table) ||
      !memory_.load(code + at.code_first_line, result.first_line)) {
    return std::nullopt;
  }
  const std::optional<std::string> function = text_at(name, budget);
  const std::optional<std::string> path = text_at(file, budget);
  const std::optional<PythonBytes> lines = read_python_bytes(python_, table, memory_);
  if (!function || !path || !lines || lines->size > kMostLineTable ||
      !budget.take_bytes(lines->size)) {
    return std::nullopt;
  }
  result.line_table.resize(lines->size);
  if (lines->size > 0 && !memory_.read(lines->data, result.line_table.data(), lines->size)) {
    return std::nullopt;
  }
  result.text = {*function, *path, 0};
  return result;
}

PythonFrameText PythonProcess::frame_text(uint64_t code, int32_t instruction, Budget& budget) {
  const auto [entry, is_new] = codes_.try_emplace(code);
  if (is_new) {
    entry->second = read_code(code, budget);
  }
  // The table is gone through anew for each frame.
  if (!entry->second || !budget.take_bytes(entry->second->line_table.size())) {
    return {};
  }
  const Code& known = *entry->second;
  PythonFrameText frame = known.text;
  frame.line = python_line(python_.layout.minor, known.first_line, known.line_table, instruction)
                   .value_or(0);
  return frame;
}

PythonThread PythonProcess::read(uint64_t state, Budget& budget) {
  PythonThread thread;
  thread.tid = tid_of(state);
  PythonWalk walk(python_, memory_);
  uint64_t id = 0;
  uint64_t frame = 0;
  if (!memory_.load(state + python_.layout.thread_id, id) || !walk.begin(state, id, frame)) {
    return thread;
  }
  // Frames that are skipped may be linked in a circle.
  constexpr int kMostSteps = 4 * kMostFrames;
  for (int step = 0; frame != 0 && thread.frames.size() < kMostFrames && step < kMostSteps &&
                     budget.take_items(1) && budget.has_time();
       ++step) {
    PythonFrame out{};
    const PythonStep kind = walk.next(frame, out);
    if (kind == PythonStep::kBroken) {
      return thread;
    }
    if (kind == PythonStep::kFrame) {
      thread.code.insert(thread.code.end(), {out.code, static_cast<uint64_t>(out.instruction)});
      thread.frames.push_back(frame_text(out.code, out.instruction, budget));
    }
  }
  thread.whole = frame == 0;
  return thread;
}

std::vector<PythonThread> PythonProcess::threads(Budget& budget) {
  codes_.clear();  // code objects die, and their addresses are used again
  const std::vector<uint64_t> all = states();
  const std::optional<uint64_t> holder = gil_holder(all);
  knows_gil_ = holder.has_value();
  std::vector<PythonThread> threads;
  for (const uint64_t state : all) {
    PythonThread thread = read(state, budget);
    thread.holds_gil = holder == state;
    if (thread.tid != 0) {
      threads.push_back(std::move(thread));
    }
  }
  return threads;
}

}  // namespace traintrace
