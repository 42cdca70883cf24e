// Files of other hosts that were brought here (analyze --mpi): they are read under the names that
// they have there, so that nobody else has to know.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

struct Brought {
  std::string folder;      // as it was named in which it lies there; empty: it was named itself
  std::string place;       // of the copy here: a pack of it, or the file as it is
  bool is_pack = true;     // of a trace; a file that is a pack itself stays one
  bool events = false;     // they were brought, too
  bool forbidden = false;  // it may not be read there
  // What only its own host can tell (ProcessTrace).
  std::optional<bool> running_now = std::nullopt;
  Halt halt = Halt::kNot;
};

// `path`: its name there.  A second time: instead of the first.
void note_brought(const std::string& path, Brought file);
// Nothing: it was not brought.
std::optional<Brought> brought_file(const std::string& path);
// Those of that folder, sorted.
std::vector<std::string> brought_into(const std::string& folder);

// Where to read `path`, which may lead through a brought file; `path` itself where nothing was
// brought.
std::string place_of(const std::string& path);

// The name under which the file at `place` is read; `place` itself where nothing was brought there,
// or a pack that was made for the journey.
std::string name_at(const std::string& place);

// Who brings the event records of a trace when they are asked for, and notes it.
void bring_events_by(std::function<void(const std::string& path)> bring);
// Once per trace; nothing happens to one that was not brought.
void bring_events(const std::string& path);

}  // namespace traintrace
