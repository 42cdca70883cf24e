// What is mapped into this process: one table of the loaded ELF objects, kept up to date by cold
// code and read without a lock.
//
// The table follows the loader's own counters of loads and unloads (dl_iterate_phdr), so dlopen is
// never intercepted: doing so would change who the caller is, and with it whose RUNPATH counts.
#pragma once

#include <cstddef>
#include <cstdint>

namespace traintrace {

// Memory of a module as its program headers say; what lies between two segments may be a hole.
struct Segment {
  uint64_t begin;
  uint64_t end;
  bool readable;
  bool executable;
};

struct Module {
  static constexpr size_t kMaxSegments = 12;
  static constexpr size_t kMaxBuildIdBytes = 32;

  uint32_t id;            // never used for another module in this process
  uint64_t begin;         // of the lowest segment
  uint64_t end;           // of the highest
  uint64_t bias;          // address = bias + address in the file
  uint64_t eh_frame_hdr;  // address; 0: there is none
  uint32_t eh_frame_hdr_bytes;
  uint8_t segment_count;
  uint8_t build_id_bytes;  // 0: there is none
  Segment segments[kMaxSegments];
  uint8_t build_id[kMaxBuildIdBytes];
  char path[256];  // as the loader knows it, cut if it is longer
};

// The segment that `address` lies in, or null.
const Segment* segment_of(const Module& module, uint64_t address) noexcept;

// Told of every module once it is there (the first time: of all that are there) and when it is
// gone. Runs inside refresh_modules(), without the loader's lock; the reference stays valid for
// ever.
using ModuleListener = void (*)(const Module& module, bool loaded);
void listen_to_modules(ModuleListener listener) noexcept;

// kNotLooked: another thread is at it, or the loader cannot be asked.  What that thread reads may
// be older than what the caller knows, so whoever must know asks again later.
enum class ModulesRefresh : uint8_t { kNotLooked, kUnchanged, kChanged };

// Brings the table up to date.  Takes the loader's lock and costs some 100 ns where nothing
// changed, so it is for cold code.
ModulesRefresh refresh_modules() noexcept;

// Lock-free.  As of the last refresh; null where nothing is known.
const Module* module_of(uint64_t address) noexcept;

// Runs the body with the module that has `address`, null if none has, while nothing can be
// unmapped. Right whether or not the table is up to date.  The loader's lock is held: the body must
// not block. The module may lack path and build-id and is not to be kept.
// False, and nothing was run, where the loader cannot be asked.
using ModuleBody = void (*)(const Module* module, void* context);
bool with_module_at(uint64_t address, ModuleBody body, void* context) noexcept;

// Counts the modules that came or went: what was derived from the table at another version may be
// wrong.  `unloads` counts only refreshes that saw a module go.
uint64_t modules_version() noexcept;
uint64_t modules_unloads() noexcept;

// Modules that are not in the table because it is full.
uint64_t modules_lost() noexcept;

// False in a forked child until its loader's lock is known to be free, see below.
bool loader_can_be_asked() noexcept;

// In a forked child, before anything else here.  The loader's lock may have been held by a thread
// that does not exist in the child, and glibc does not reset it: until a thread of our own has had
// it, nobody else asks for it, and what is not known yet stays unknown.
void modules_after_fork() noexcept;

}  // namespace traintrace
