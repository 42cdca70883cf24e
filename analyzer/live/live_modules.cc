#include "analyzer/live/live_modules.h"

#include <elfutils/libdwfl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "analyzer/live/code_cache.h"
#include "analyzer/live/process_memory.h"
#include "analyzer/model/process/code_place.h"
#include "analyzer/symbols/module_file.h"
#include "analyzer/symbols/module_symbols.h"

namespace traintrace {

struct LiveModules::State {
  const ProcProcess& process;
  OtherMemory memory;
  Dwfl* dwfl = nullptr;
  bool unwinds = false;
  const StackSnapshot* snapshot = nullptr;  // of the stack that is walked right now
};

namespace {

// Which process the modules belong to that are opened right now: elfutils hands on no pointer.
thread_local const ProcProcess* opening = nullptr;

// What the process has mapped and its path does not lead to any more.  Its own links to its files
// are for root; elfutils would read it out of its memory, as large as that says that it is.
int open_deleted(const std::string& path) {
  for (const Mapping& mapping : opening->mappings) {
    if (mapping.path == path) {
      Result<InputFile> file = open_module(
          fmt::format("/proc/{}/map_files/{:x}-{:x}", opening->pid, mapping.begin, mapping.end));
      return file ? file->release() : -1;
    }
  }
  return -1;
}

// The file as the process sees it, be it in a container.
int find_elf(Dwfl_Module* module, void** data, const char* name, Dwarf_Addr base, char** file_name,
             Elf** elf) {
  if (opening == nullptr || name[0] != '/') {  // the kernel's own code, which has no file
    return dwfl_linux_proc_find_elf(module, data, name, base, file_name, elf);
  }
  const std::string path = reachable_path(*opening, name);
  if (Result<InputFile> file = open_module(path)) {
    *file_name = strdup(path.c_str());
    return file->release();
  }
  constexpr std::string_view kDeleted = " (deleted)";
  if (!std::string_view(name).ends_with(kDeleted)) {
    return -1;
  }
  const int file = open_deleted(name);
  return file >= 0 || geteuid() == 0
             ? file
             : dwfl_linux_proc_find_elf(module, data, name, base, file_name, elf);
}

const Dwfl_Callbacks kModuleCallbacks = {
    .find_elf = find_elf,
    .find_debuginfo = find_debug_file,
    .section_address = nullptr,
    .debuginfo_path = nullptr,
};

// Those that we have read, and no more.  Its own code the kernel calls "[vdso]"; elfutils reads it
// out of the process's memory by that name.
bool report_modules(const ProcProcess& process, Dwfl* dwfl) {
  std::string text = process.module_maps;
  const std::unique_ptr<FILE, decltype(&fclose)> maps(fmemopen(text.data(), text.size(), "r"),
                                                      fclose);
  if (maps == nullptr || dwfl_linux_proc_maps_report(dwfl, maps.get()) != 0) {
    return false;
  }
  for (const Mapping& mapping : process.mappings) {
    if (mapping.path == "[vdso]") {
      const std::string name = fmt::format("[vdso: {}]", process.pid);
      dwfl_report_module(dwfl, name.c_str(), mapping.begin, mapping.end);
    }
  }
  return true;
}

}  // namespace

// elfutils asks for threads one after the other; there is only one at a time.
struct LiveThreads {
  static pid_t next(Dwfl*, void* argument, void** thread) {
    if (*thread != nullptr) {
      return 0;
    }
    *thread = argument;
    return state(argument)->snapshot->tid;
  }
  static bool find(Dwfl*, pid_t, void* argument, void** thread) {
    *thread = argument;
    return true;
  }
  static bool read(Dwfl*, Dwarf_Addr address, Dwarf_Word* result, void* argument) {
    const LiveModules::State& at = *state(argument);
    if (const std::optional<uint64_t> word = at.snapshot->load<uint64_t>(address)) {
      *result = *word;
      return true;
    }
    return at.memory.load(address, *result);
  }
  static bool set_registers(Dwfl_Thread* thread, void* argument) {
    const StackSnapshot& snapshot = *state(argument)->snapshot;
    for (int i = 0; i < kRegisters; ++i) {
      if (const auto& value = snapshot.registers[static_cast<size_t>(i)]) {
        const Dwarf_Word word = *value;
        if (!dwfl_thread_state_registers(thread, i, 1, &word)) {
          return false;
        }
      }
    }
    dwfl_thread_state_register_pc(thread, snapshot.instruction);
    return true;
  }
  static LiveModules::State* state(void* argument) {
    return static_cast<LiveModules::State*>(argument);
  }
};

LiveModules::LiveModules(const ProcProcess& process)
    : state_(new State{process, OtherMemory(process.pid)}) {
  static constexpr Dwfl_Thread_Callbacks kThreadCallbacks = {
      .next_thread = LiveThreads::next,
      .get_thread = LiveThreads::find,
      .memory_read = LiveThreads::read,
      .set_initial_registers = LiveThreads::set_registers,
      .detach = nullptr,
      .thread_detach = nullptr,
  };
  opening = &process;
  state_->dwfl = dwfl_begin(&kModuleCallbacks);
  if (state_->dwfl != nullptr && report_modules(process, state_->dwfl) &&
      dwfl_report_end(state_->dwfl, nullptr, nullptr) == 0) {
    state_->unwinds =
        dwfl_attach_state(state_->dwfl, nullptr, process.pid, &kThreadCallbacks, state_.get());
  }
  opening = nullptr;
}

LiveModules::~LiveModules() {
  if (state_->dwfl != nullptr) {
    dwfl_end(state_->dwfl);
  }
}

namespace {

using Addresses = std::map<std::string, uint64_t>;  // in the file

CodeCache<uint64_t, std::vector<NativeFrame>>& known_frames() {
  static auto& cache = *new CodeCache<uint64_t, std::vector<NativeFrame>>;
  return cache;
}

CodeCache<std::vector<std::string>, Addresses>& known_symbols() {
  static auto& cache = *new CodeCache<std::vector<std::string>, Addresses>;
  return cache;
}

// That file and no other: anybody can give a file of his another one's build-id.  Empty: it cannot
// be told.
std::string file_of(Dwfl_Module* module) {
  const char* path = nullptr;
  struct stat status = {};
  dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, &path, nullptr);
  if (path == nullptr || stat(path, &status) != 0) {
    return "";
  }
  return fmt::format("{}.{}.{}.{}.{}", status.st_dev, status.st_ino, status.st_size,
                     status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

Addresses symbols_of(Dwfl_Module* module, GElf_Addr bias, const std::vector<std::string>& names) {
  Addresses found;
  const int count = dwfl_module_getsymtab(module);
  for (int i = 0; i < count; ++i) {
    GElf_Sym symbol;
    GElf_Addr address = 0;
    const char* text =
        dwfl_module_getsym_info(module, i, &symbol, &address, nullptr, nullptr, nullptr);
    const auto is_it = [&](const std::string& name) { return strcmp(name.c_str(), text) == 0; };
    if (text != nullptr && symbol.st_shndx != SHN_UNDEF &&
        std::any_of(names.begin(), names.end(), is_it)) {
      found.emplace(text, address - bias);
    }
  }
  return found;
}

struct SymbolSearch {
  const std::string& path;
  const std::vector<std::string>& names;
  Addresses found;  // in the process
};

int search_module(Dwfl_Module* module, void**, const char* name, Dwarf_Addr, void* argument) {
  auto& search = *static_cast<SymbolSearch*>(argument);
  GElf_Addr bias = 0;
  if (search.path != name || dwfl_module_getelf(module, &bias) == nullptr) {
    return DWARF_CB_OK;
  }
  search.found = known_symbols().get(file_of(module), search.names,
                                     [&] { return symbols_of(module, bias, search.names); });
  for (auto& [text, address] : search.found) {
    address += bias;
  }
  return DWARF_CB_ABORT;
}

// Functions and lines; `address` is in the process.  The symbol table says of the function itself
// what it takes, too.
std::vector<NativeFrame> described(Dwfl_Module* module, GElf_Addr address, bool is_user) {
  std::vector<NativeFrame> frames =
      is_user ? inlined_frames(module, address) : std::vector<NativeFrame>();
  if (frames.empty()) {
    frames.emplace_back();
  }
  GElf_Off within = 0;
  GElf_Sym symbol;
  const char* name =
      dwfl_module_addrinfo(module, address, &within, &symbol, nullptr, nullptr, nullptr);
  frames.back().function = name == nullptr ? frames.back().function : demangled(name);
  put_line(module, address, frames.front());
  return frames;
}

#if defined(__x86_64__)
constexpr size_t kLostRegister = 3;                          // rbx
constexpr size_t kKeptRegisters[] = {3, 6, 12, 13, 14, 15};  // System V psABI
#elif defined(__aarch64__)
constexpr size_t kLostRegister = 0;  // none
constexpr size_t kKeptRegisters[] = {19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29};
#endif

// elfutils 0.188 has rax in its list of the registers that a function keeps unless its table says
// otherwise, where rbx ought to be.
bool keeps_lost_register(Dwfl_Frame* caller, uint64_t callee) {
  Dwfl_Module* const module = dwfl_addrmodule(dwfl_thread_dwfl(dwfl_frame_thread(caller)), callee);
  Dwarf_Addr bias = 0;
  Dwarf_CFI* const table = module == nullptr ? nullptr : dwfl_module_eh_cfi(module, &bias);
  Dwarf_Frame* frame = nullptr;
  if (table == nullptr || dwarf_cfi_addrframe(table, callee - bias, &frame) != 0) {
    return false;
  }
  Dwarf_Op storage[3];
  Dwarf_Op* operations = nullptr;
  size_t count = 0;
  const bool unsaved =
      dwarf_frame_register(frame, kLostRegister, storage, &operations, &count) == 0 && count == 0;
  free(frame);
  return unsaved;
}

LiveFrame::Registers kept_registers(Dwfl_Frame* frame, const std::vector<LiveFrame>& callees) {
  LiveFrame::Registers registers;
  for (const size_t number : kKeptRegisters) {
    Dwarf_Word value = 0;
    if (dwfl_frame_reg(frame, static_cast<unsigned>(number), &value) == 0) {
      registers[number] = value;
    }
  }
  if (!callees.empty() && !registers[kLostRegister] && callees.back().registers[kLostRegister]) {
    const uint64_t callee = callees.back().address - (callees.size() == 1 ? 0 : 1);
    if (keeps_lost_register(frame, callee)) {
      registers[kLostRegister] = callees.back().registers[kLostRegister];
    }
  }
  return registers;
}

int take_frame(Dwfl_Frame* frame, void* argument) {
  constexpr size_t kMostFrames = 512;
  auto& frames = *static_cast<std::vector<LiveFrame>*>(argument);
  LiveFrame taken;
  bool is_activation = false;
  if (!dwfl_frame_pc(frame, &taken.address, &is_activation) || frames.size() == kMostFrames) {
    return DWARF_CB_ABORT;
  }
  taken.registers = kept_registers(frame, frames);
  frames.push_back(taken);
  return DWARF_CB_OK;
}

}  // namespace

std::map<std::string, uint64_t> LiveModules::symbols(const std::string& path,
                                                     const std::vector<std::string>& names) const {
  SymbolSearch search{path, names, {}};
  opening = &state_->process;
  dwfl_getmodules(state_->dwfl, search_module, &search, 0);
  opening = nullptr;
  return search.found;
}

std::vector<LiveFrame> LiveModules::unwind(const StackSnapshot& snapshot) const {
  std::vector<LiveFrame> frames;
  if (state_->unwinds) {
    state_->snapshot = &snapshot;
    opening = &state_->process;
    dwfl_getthread_frames(state_->dwfl, snapshot.tid, take_frame, &frames);
    opening = nullptr;
    state_->snapshot = nullptr;
  }
  if (frames.empty()) {
    frames.push_back({snapshot.instruction, snapshot.registers});
  }
  return frames;
}

std::vector<NativeFrame> LiveModules::frames_at(uint64_t address, bool is_return) const {
  const uint64_t inside = is_return ? address - 1 : address;
  std::vector<NativeFrame> frames(1);
  uint64_t offset = address;
  std::string name;
  opening = &state_->process;
  Dwfl_Module* const module = dwfl_addrmodule(state_->dwfl, inside);
  if (module != nullptr) {
    GElf_Addr bias = 0;
    const bool has_file = dwfl_module_getelf(module, &bias) != nullptr;
    bias = has_file ? bias : 0;
    const char* path =
        dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
    name = path == nullptr ? "" : path;
    frames = known_frames().get(has_file ? file_of(module) : "", inside - bias,
                                [&] { return described(module, inside, is_user_module(name)); });
    offset = address - bias;
  }
  opening = nullptr;
  for (NativeFrame& frame : frames) {
    frame.offset = offset;
    frame.module = name;
  }
  return frames;
}

std::string LiveModules::arguments(const LiveFrame& caller, const std::string& function) const {
  opening = &state_->process;
  Dwfl_Module* const module = dwfl_addrmodule(state_->dwfl, caller.address - 1);
  std::string text = module == nullptr ? "" : call_arguments(module, caller, function);
  opening = nullptr;
  return text;
}

}  // namespace traintrace
