#include "analyzer/commands/live/artifact.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "analyzer/collect/pack_trace.h"
#include "analyzer/collect/tar_file.h"
#include "analyzer/importers/other_files.h"
#include "analyzer/model/process/launch_facts.h"
#include "analyzer/reader/this_machine.h"
#include "analyzer/text/printable.h"
#include "format/pack.h"

namespace traintrace {
namespace {

namespace fs = std::filesystem;

constexpr TimeNs kNsOfSecond = 1'000'000'000;

std::string utc_text(TimeNs time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}Z", fmt::gmtime(time / kNsOfSecond));
}

// Of what the job calls itself only what is harmless in a file's name.
std::string name_of(const Run& run, TimeNs time) {
  constexpr size_t kLongest = 64;
  std::string id = run.id.substr(0, kLongest);
  std::replace_if(
      id.begin(), id.end(), [](unsigned char c) { return std::isalnum(c) == 0 && c != '-'; }, '_');
  return fmt::format("traintrace-{}-{}-{:%Y%m%dT%H%M%S}Z", id, name_of_this_host(),
                     fmt::gmtime(time / kNsOfSecond));
}

class Artifact {
 public:
  Artifact(const std::string& folder, const Run& run, const ArtifactParts& parts)
      : folder_(folder),
        run_(run),
        parts_(parts),
        name_(name_of(run, parts.time)),
        path_(fmt::format("{}/{}.tar", folder, name_)),
        tar_(path_) {
    tar_.set_time(parts.time / kNsOfSecond);
  }

  Result<std::string> write() {
    for (const ArtifactText& text : parts_.texts) {
      tar_.add(name_ + "/" + text.name, text.bytes);
    }
    add_traces();
    for (const std::string& path : parts_.telemetry) {
      add_file("telemetry", path);
    }
    add_xids();
    add_flight_dumps();
    if (!notes_.empty()) {
      tar_.add(name_ + "/notes.txt", notes_);
    }
    const std::string problem = tar_.finish();
    if (!problem.empty()) {
      ReadError error;
      error.message = problem;
      return error;
    }
    return path_;
  }

 private:
  void add_file(const std::string& into, const std::string& path) {
    if (!seen_.insert(path).second) {
      return;
    }
    if (!tar_.add_file(fmt::format("{}/{}/{}", name_, into, fs::path(path).filename().string()),
                       path)) {
      notes_ += printable(path) + ": cannot be read\n";
    }
  }

  void add_traces() {
    for (const ProcessTrace& trace : run_.processes) {
      std::error_code ignored;
      if (!fs::exists(trace.source, ignored)) {
        notes_ += printable(trace.source) + ": not on this host\n";
        continue;
      }
      const Result<Packed> packed = pack_trace(trace.source, folder_, RingPart{});
      if (packed) {
        add_file("traces", packed->path);
        fs::remove(packed->path, ignored);
      } else if (!packed.error().not_begun) {
        notes_ +=
            fmt::format("{}: {}\n", printable(trace.source), printable(packed.error().message));
      }
      const std::string threads =
          fs::path(trace.source).replace_extension(format::kThreadsSuffix).string();
      if (fs::exists(threads, ignored)) {
        add_file("traces", threads);
      }
    }
  }

  void add_xids() {
    std::string lines;
    for (const GpuHistory& gpu : parts_.gpus.gpus) {
      for (const XidEvent& event : gpu.xids) {
        lines += fmt::format("{} {} {} {} Xid {}\n", utc_text(event.time), printable(gpu.host),
                             printable(gpu.uuid), printable(gpu.pci), event.xid);
      }
    }
    if (!lines.empty()) {
      tar_.add(name_ + "/xids.txt", lines);
    }
  }

  // PyTorch appends the rank to what TORCH_FR_DUMP_TEMP_FILE or, before, the other variable says;
  // the default lies in /tmp, later in the user's cache (c10d/FlightRecorder.cpp).
  static std::vector<std::string> dump_prefixes(const ProcessTrace& trace) {
    std::vector<std::string> prefixes = {"/tmp/nccl_trace_rank_"};
    for (const char* variable : {"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}) {
      if (const std::string_view prefix = environment(trace, variable); !prefix.empty()) {
        prefixes.emplace_back(prefix);
      }
    }
    if (const char* const home = std::getenv("HOME"); home != nullptr) {
      prefixes.push_back(std::string(home) + "/.cache/torch/comm_lib_trace_rank_");
    }
    return prefixes;
  }

  void add_flight_dumps() {
    for (const RankState& state : run_.ranks) {
      for (const std::string& prefix : dump_prefixes(trace_of(run_, state))) {
        const std::string path = prefix + std::to_string(state.rank.value);
        struct stat status = {};
        const bool is_of_run = stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
                               status.st_mtime >= run_.start / kNsOfSecond;
        if (is_of_run && may_be_flight_dump(path)) {
          add_file("flight-recorder", path);
        }
      }
    }
  }

  const std::string& folder_;
  const Run& run_;
  const ArtifactParts& parts_;
  std::string name_;  // of the archive, and of the folder in it
  std::string path_;
  TarFile tar_;
  std::set<std::string> seen_;  // files that are in it
  std::string notes_;
};

}  // namespace

Result<std::string> write_artifact(const std::string& folder, const Run& run,
                                   const ArtifactParts& parts) {
  std::error_code problem;
  const fs::path absolute = fs::absolute(folder, problem);
  const std::string place = problem ? folder : absolute.lexically_normal().string();
  if (fs::create_directories(place, problem)) {
    fs::permissions(place, fs::perms::owner_all, problem);
  }
  return Artifact(place, run, parts).write();
}

}  // namespace traintrace
