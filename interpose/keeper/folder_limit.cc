#include "interpose/keeper/folder_limit.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "format/schema.h"
#include "format/segments.h"
#include "interpose/keeper/folder_entries.h"
#include "interpose/life/identity.h"
#include "interpose/record/clock.h"
#include "interpose/record/sections.h"

namespace traintrace {
namespace {

using format::FileHeader;

// Beyond so many runs the oldest stay until there are fewer.
constexpr uint32_t kMostRuns = 4096;
constexpr uint64_t kRecentNs = 3'600'000'000'000;

// Ranks of one run overlap, even if one of them ended before another began to record.
constexpr uint64_t kSlackNs = 2'000'000'000;

// The environment of two runs may be the same (MASTER_PORT=29500), so the key alone does not make
// traces one run: they must have been there at the same time.
struct Run {
  uint64_t key;
  uint64_t begun_ns;
  uint64_t ended_ns;  // of its last process
  uint64_t bytes;
  uint32_t traces;
  bool in_use;
  bool failed;

  bool overlaps(const Run& other) const {
    return key == other.key && begun_ns <= other.ended_ns + kSlackNs &&
           other.begun_ns <= ended_ns + kSlackNs;
  }

  void take_in(const Run& other) {
    begun_ns = std::min(begun_ns, other.begun_ns);
    ended_ns = std::max(ended_ns, other.ended_ns);
    bytes += other.bytes;
    traces += other.traces;
    in_use = in_use || other.in_use;
    failed = failed || other.failed;
  }
};

struct Runs {
  Run* run;
  uint32_t count;
  uint64_t bytes;  // of all traces

  // What overlaps becomes one run; it may join two that were apart until now.
  void add(Run added) {
    for (uint32_t i = 0; i < count;) {
      if (run[i].overlaps(added)) {
        added.take_in(run[i]);
        run[i] = run[--count];
        i = 0;
      } else {
        ++i;
      }
    }
    if (count < kMostRuns) {
      run[count++] = added;
    }
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

// Of its end as far as the file knows it.  No run ends before it begins, whoever sets the clock.
Run run_of(const FileHeader& trace) {
  Run run = {};
  run.key = trace.run_key;
  run.begun_ns = trace.first_anchor.realtime_ns;
  run.ended_ns = std::max(
      run.begun_ns, trace.gone_realtime_ns ? trace.gone_realtime_ns : trace.copied_realtime_ns);
  run.traces = 1;
  return run;
}

// A process that was stopped for hours, with its keeper, goes on one day.
bool is_alive(const FileHeader& trace, const FileHeader& own) {
  return trace.boot_id[0] == own.boot_id[0] && trace.boot_id[1] == own.boot_id[1] &&
         trace.pid_namespace == own.pid_namespace && is_running(trace.pid, trace.start_time);
}

// A trace of version 3 or before says nothing of how it came about: it stays.
void note(int folder, const char* name, const FileHeader& own, Runs& runs) {
  FileHeader header;
  if (!read_header(folder, name, header)) {
    return;
  }
  ShortText segments;
  name_segments(name, segments);
  const uint64_t bytes = used_bytes(folder, name) + used_bytes(folder, segments.c_str());
  runs.bytes += bytes;
  if (header.version < 4) {
    return;
  }
  Run run = run_of(header);
  run.bytes = bytes;
  // Of a container that was killed there is no final copy.  Somebody may have set the clock back.
  const bool recent = nanoseconds(CLOCK_REALTIME) < header.copied_realtime_ns + kRecentNs;
  run.in_use = header.copy_state != format::kFinal && (recent || is_alive(header, own));
  run.failed = header.exit_kind == format::kNotExited || header.exit_status != 0;
  runs.add(run);
}

// Null: none may go.
Run* next_to_go(Runs& runs, const Run& own) {
  Run* best = nullptr;
  for (uint32_t i = 0; i < runs.count; ++i) {
    Run& run = runs.run[i];
    if (run.overlaps(own) || run.in_use || run.traces == 0) {
      continue;
    }
    const bool better = best == nullptr || (best->failed && !run.failed) ||
                        (best->failed == run.failed && run.ended_ns < best->ended_ns);
    best = better ? &run : best;
  }
  return best;
}

// False: nothing of it could be removed.
bool remove_run(int folder, const Run& run) {
  bool removed = false;
  for_each_entry(folder, format::kTraceSuffix, [&](const char* name) {
    FileHeader header;
    if (read_header(folder, name, header) && header.version >= 4 && run_of(header).overlaps(run)) {
      ShortText segments;
      name_segments(name, segments);
      unlinkat(folder, segments.c_str(), 0);
      removed = unlinkat(folder, name, 0) == 0 || removed;
    }
  });
  return removed;
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
  for_each_entry(folder, format::kTraceSuffix,
                 [&](const char* name) { note(folder, name, trace, runs); });
  Run own = run_of(trace);
  own.ended_ns = std::max(own.ended_ns, nanoseconds(CLOCK_REALTIME));
  while (runs.bytes > limit) {
    Run* const run = next_to_go(runs, own);
    if (run == nullptr) {
      break;
    }
    if (remove_run(folder, *run)) {
      count_removed(trace);
      runs.bytes -= run->bytes;
    }
    run->traces = 0;
  }
  munmap(memory, kMostRuns * sizeof(Run));
}

}  // namespace traintrace
