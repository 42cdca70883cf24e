#include "interpose/folder_limit.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "format/schema.h"
#include "format/segments.h"
#include "interpose/clock.h"
#include "interpose/folder_entries.h"
#include "interpose/sections.h"

namespace traintrace {
namespace {

using format::FileHeader;

// Beyond so many runs the oldest stay until there are fewer.
constexpr uint32_t kMostRuns = 4096;
constexpr uint64_t kRecentNs = 3'600'000'000'000;

struct Run {
  uint64_t key;
  uint64_t bytes;
  uint64_t newest_ns;  // when its last process ended
  uint32_t traces;
  bool in_use;
  bool failed;
};

struct Runs {
  Run* run;
  uint32_t count;
  uint64_t bytes;  // of all files

  Run* of(uint64_t key) {
    for (uint32_t i = 0; i < count; ++i) {
      if (run[i].key == key) {
        return &run[i];
      }
    }
    if (count == kMostRuns) {
      return nullptr;
    }
    run[count] = {key, 0, 0, 0, false, false};
    return &run[count++];
  }
};

uint64_t used_bytes(int folder, const char* name) {
  struct stat status = {};
  return fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode)
             ? static_cast<uint64_t>(status.st_blocks) * 512
             : 0;
}

bool read_header(int folder, const char* name, FileHeader& header) {
  const int file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  const ssize_t got = file < 0 ? -1 : read(file, &header, sizeof header);
  if (file >= 0) {
    close(file);
  }
  return got == sizeof header && memcmp(header.magic, format::kMagic, sizeof header.magic) == 0;
}

// HOST.PID.STARTTIME.segments of HOST.PID.STARTTIME.trace.
void name_segments(const char* trace, Text& into) {
  into.append(trace, strlen(trace) - strlen(format::kTraceSuffix)) << format::kSegmentsSuffix;
}

// A trace of version 3 or before says nothing of how it came about: it stays.
void note(int folder, const char* name, Runs& runs) {
  FileHeader header;
  ShortText segments;
  name_segments(name, segments);
  const uint64_t bytes = used_bytes(folder, name) + used_bytes(folder, segments.c_str());
  runs.bytes += bytes;
  if (!read_header(folder, name, header) || header.version < 4) {
    return;
  }
  Run* const run = runs.of(header.run_key);
  if (run == nullptr) {
    return;
  }
  const uint64_t ended_ns =
      header.gone_realtime_ns ? header.gone_realtime_ns : header.copied_realtime_ns;
  run->bytes += bytes;
  run->newest_ns = ended_ns > run->newest_ns ? ended_ns : run->newest_ns;
  ++run->traces;
  // Of a container that was killed there is no final copy.  Somebody may have set the clock back.
  const uint64_t now_ns = nanoseconds(CLOCK_REALTIME);
  const bool recent = now_ns < header.copied_realtime_ns + kRecentNs;
  run->in_use = run->in_use || (header.copy_state != format::kFinal && recent);
  run->failed = run->failed || header.exit_kind == format::kNotExited || header.exit_status != 0;
}

// Null: none may go.
Run* next_to_go(Runs& runs, uint64_t own_key) {
  Run* best = nullptr;
  for (uint32_t i = 0; i < runs.count; ++i) {
    Run& run = runs.run[i];
    if (run.key == own_key || run.in_use || run.traces == 0) {
      continue;
    }
    const bool better = best == nullptr || (best->failed && !run.failed) ||
                        (best->failed == run.failed && run.newest_ns < best->newest_ns);
    best = better ? &run : best;
  }
  return best;
}

void remove_run(int folder, uint64_t key) {
  for_each_entry(folder, format::kTraceSuffix, [&](const char* name) {
    FileHeader header;
    if (read_header(folder, name, header) && header.version >= 4 && header.run_key == key) {
      ShortText segments;
      name_segments(name, segments);
      unlinkat(folder, segments.c_str(), 0);
      unlinkat(folder, name, 0);
    }
  });
}

void count_removed(FileHeader& trace) {
  auto* const counts = reinterpret_cast<uint64_t*>(at(&trace, section_of(&trace, format::kStats)));
  __atomic_fetch_add(&counts[static_cast<int>(format::Stat::RunsRemoved)], 1, __ATOMIC_RELAXED);
}

}  // namespace

void keep_below_limit(int folder, FileHeader& trace) noexcept {
  const uint64_t limit = trace.folder_limit_bytes;
  if (limit == 0) {
    return;
  }
  void* const memory = mmap(nullptr, kMostRuns * sizeof(Run), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return;
  }
  Runs runs = {static_cast<Run*>(memory), 0, 0};
  for_each_entry(folder, format::kTraceSuffix, [&](const char* name) { note(folder, name, runs); });
  while (runs.bytes > limit) {
    Run* const run = next_to_go(runs, trace.run_key);
    if (run == nullptr) {
      break;
    }
    remove_run(folder, run->key);
    count_removed(trace);
    runs.bytes -= run->bytes < runs.bytes ? run->bytes : runs.bytes;
    run->traces = 0;
  }
  munmap(memory, kMostRuns * sizeof(Run));
}

}  // namespace traintrace
