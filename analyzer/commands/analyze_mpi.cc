#include "analyzer/commands/analyze_mpi.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "analyzer/collect/pack_trace.h"
#include "analyzer/commands/command.h"
#include "analyzer/commands/temporary_folder.h"
#include "analyzer/isolation/stage.h"
#include "analyzer/live/mpi.h"
#include "analyzer/reader/files/brought.h"
#include "analyzer/reader/files/file_bytes.h"
#include "analyzer/reader/files/pointer_file.h"
#include "analyzer/reader/files/trace_memory.h"
#include "analyzer/reader/files/within.h"
#include "analyzer/reader/silent_inputs.h"
#include "analyzer/reader/this_machine.h"
#include "analyzer/text/sizes.h"
#include "format/segments.h"

namespace traintrace {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string own_host_name() {
  utsname names = {};
  return uname(&names) == 0 ? names.nodename : "a host";
}

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// How a file travels.
enum class Travel { kPacked, kAsItIs, kNot };

struct Listed {
  std::string path;
  std::string folder;  // empty: it was named itself
  uint64_t bytes = 0;
  Travel travel = Travel::kAsItIs;
};

// A pointer travels where its trace is.
Travel travel_of(const std::string& path) {
  const fs::path extension = fs::path(path).extension();
  if (extension == ".pointer") {
    const auto pointer = read_pointer_file(path);
    return pointer && *pointer ? Travel::kPacked : Travel::kNot;
  }
  return extension == format::kTraceSuffix || extension == format::kPackSuffix ? Travel::kPacked
                                                                               : Travel::kAsItIs;
}

struct Listing {
  std::vector<Listed> files;
  std::vector<std::string> problems;
};

void list_file(const std::string& path, const std::string& folder, Listing& listing) {
  std::error_code problem;
  const uint64_t bytes = fs::file_size(path, problem);
  if (!problem) {
    listing.files.push_back({path, folder, bytes, travel_of(path)});
  }
}

void list_folder(const std::string& folder, Listing& listing) {
  std::error_code problem;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    std::error_code ignored;
    const fs::path extension = entry->path().extension();
    // What lies beside a trace comes with it.
    if (entry->is_regular_file(ignored) && extension != format::kSegmentsSuffix &&
        extension != format::kThreadsSuffix) {
      list_file(entry->path().string(), folder, listing);
    }
  }
  for (const std::string& memory : memories_not_copied(folder)) {
    listing.files.push_back({memory, folder, 0, Travel::kPacked});
  }
  if (problem && problem != std::errc::no_such_file_or_directory) {
    listing.problems.push_back(folder + ": cannot be listed: " + problem.message());
  }
}

Listing list_all(const std::vector<std::string>& arguments) {
  Listing listing;
  for (const std::string& argument : arguments) {
    std::error_code ignored;
    if (fs::is_regular_file(argument, ignored)) {
      list_file(argument, "", listing);
    } else {
      list_folder(argument, listing);
    }
  }
  for (const ReadError& error : silent_inputs()) {
    listing.problems.push_back(error.file + ": " + error.message);
  }
  return listing;
}

std::string text_of(const Listing& listing) {
  Json files = Json::array();
  for (const Listed& file : listing.files) {
    files.push_back({file.path, file.folder, file.bytes, static_cast<int>(file.travel)});
  }
  return dumped({{"host", own_host_name()}, {"files", files}, {"problems", listing.problems}});
}

// What a process was told to send.
struct Wanted {
  std::string path;
  std::string folder;
  Travel travel = Travel::kPacked;
};

// Who reads what: each file once, by one that can; those of whom much is asked get no more.
class Shares {
 public:
  explicit Shares(int processes) : of_(static_cast<size_t>(processes)), bytes_(of_.size()) {}

  void add(int process, const Json& listing) {
    for (const std::string& problem : listing.value("problems", std::vector<std::string>())) {
      note(listing.value("host", "") + ": " + problem);
    }
    for (const Json& file : listing.value("files", Json::array())) {
      Candidate& candidate = candidates_[file.at(0).get<std::string>()];
      const auto travel = static_cast<Travel>(file.at(3).get<int>());
      if (travel != Travel::kNot) {
        candidate.who.push_back(process);
        candidate.wanted = {file.at(0), file.at(1), travel};
        candidate.bytes = file.at(2);
      } else {
        candidate.pointers.push_back(process);
        candidate.pointer = {file.at(0), file.at(1), Travel::kAsItIs};
      }
    }
  }

  void divide() {
    for (auto& [path, candidate] : candidates_) {
      if (candidate.who.empty()) {  // a pointer to a host where nobody looks
        candidate.who = {candidate.pointers.front()};
        candidate.wanted = candidate.pointer;
      }
      // What is no trace is small, and read by whoever judges if that can be.
      const bool first = candidate.wanted.travel == Travel::kAsItIs;
      const int who = first ? candidate.who.front()
                            : *std::min_element(candidate.who.begin(), candidate.who.end(),
                                                [&](int a, int b) { return load(a) < load(b); });
      bytes_[static_cast<size_t>(who)] += candidate.bytes + kEach;
      of_[static_cast<size_t>(who)].push_back(std::move(candidate.wanted));
    }
  }

  const std::vector<Wanted>& of(int process) const { return of_[static_cast<size_t>(process)]; }

 private:
  static constexpr uint64_t kEach = 64 << 10;  // what it costs to open one, in bytes
  struct Candidate {
    std::vector<int> who;  // ascending
    Wanted wanted;
    uint64_t bytes = 0;
    std::vector<int> pointers;  // have a pointer to another host
    Wanted pointer;
  };
  uint64_t load(int process) const { return bytes_[static_cast<size_t>(process)]; }

  std::map<std::string, Candidate> candidates_;
  std::vector<std::vector<Wanted>> of_;
  std::vector<uint64_t> bytes_;
};

// What one process sends of one file: a line about it, then its bytes.
struct Parcel {
  Wanted file;
  Brought brought;
  std::string bytes;
};

std::string text_of(const Parcel& parcel) {
  const Json about = {{"path", parcel.file.path},
                      {"folder", parcel.file.folder},
                      {"is_pack", parcel.brought.is_pack},
                      {"events", parcel.brought.events},
                      {"forbidden", parcel.brought.forbidden},
                      {"running", !parcel.brought.running_now   ? -1
                                  : *parcel.brought.running_now ? 1
                                                                : 0},
                      {"halt", static_cast<int>(parcel.brought.halt)}};
  return dumped(about) + '\n' + parcel.bytes;
}

// `text` may come from anybody in the job.
std::optional<Parcel> parcel_of(const std::string& text) {
  const size_t line = text.find('\n');
  const Json about = Json::parse(text.substr(0, line), nullptr, false);
  if (line == text.npos || !about.is_object()) {
    return std::nullopt;
  }
  Parcel parcel;
  parcel.file.path = about.value("path", "");
  parcel.file.folder = about.value("folder", "");
  parcel.brought.folder = parcel.file.folder;
  parcel.brought.is_pack = about.value("is_pack", false);
  parcel.brought.events = about.value("events", false);
  parcel.brought.forbidden = about.value("forbidden", false);
  const int running = about.value("running", -1);
  parcel.brought.running_now = running < 0 ? std::nullopt : std::optional(running == 1);
  parcel.brought.halt = static_cast<Halt>(std::clamp(about.value("halt", 0), 0, 3));
  parcel.bytes = text.substr(line + 1);
  return parcel;
}

std::string bytes_of(const std::string& path) {
  return bytes_of_file(path).value_or("");
}

// Of a trace that cannot be read, and of a damaged pack, the file as it is: whoever judges says
// what is wrong with it.
Parcel pack(const Wanted& file, bool events, const std::string& folder) {
  Parcel parcel{file, {}, ""};
  const Result<ProcessTrace> trace = read_trace(file.path, {.events = false});
  const auto pointer = read_pointer_file(file.path);
  const bool in_pack = is_pack(file.path);
  const std::string path = pointer && *pointer ? **pointer
                           : in_pack           ? trace_in_pack(file.path)
                                               : file.path;
  const bool possible = trace && !folder.empty() && (!in_pack || is_whole_pack(file.path));
  const auto packed = possible ? pack_trace(path, folder, events ? RingPart{} : RingPart{0})
                               : Result<Packed>(ReadError{});
  parcel.brought.is_pack = static_cast<bool>(packed);
  parcel.brought.events = events;
  if (trace) {
    parcel.brought.running_now = trace->running_now;
    parcel.brought.halt = trace->halt;
  } else {
    parcel.brought.forbidden = trace.error().forbidden;
  }
  if (packed) {
    parcel.bytes = bytes_of(packed->path);
    std::error_code ignored;
    fs::remove(packed->path, ignored);
  } else {
    parcel.bytes = bytes_of(file.path);
  }
  return parcel;
}

Parcel parcel_for(const Wanted& file, const std::string& folder) {
  if (file.travel == Travel::kPacked) {
    return pack(file, false, folder);
  }
  Parcel parcel{file, {}, bytes_of(file.path)};
  parcel.brought.is_pack = false;
  return parcel;
}

constexpr const char* kDone = "";

// What every process but the first does.
int serve(Mpi& mpi, const AnalyzeOptions& options) {
  const TemporaryFolder folder;
  mpi.gather(text_of(list_all(options.traces)), std::chrono::seconds(options.patience_seconds));
  const Json share = Json::parse(mpi.receive(0), nullptr, false);
  for (const Json& wanted : share) {
    const Wanted file{wanted.at(0), wanted.at(1), static_cast<Travel>(wanted.at(2).get<int>())};
    Parcel parcel{file, {}, ""};
    run_stage("bring " + file.path, [&] { parcel = parcel_for(file, folder.path()); });
    mpi.send(0, text_of(parcel));
  }
  for (std::string path = mpi.receive(0); path != kDone; path = mpi.receive(0)) {
    mpi.send(0, text_of(pack({path, "", Travel::kPacked}, true, folder.path())));
  }
  mpi.finish();
  return 0;
}

std::string text_of(const std::vector<Wanted>& share) {
  Json files = Json::array();
  for (const Wanted& file : share) {
    files.push_back({file.path, file.folder, static_cast<int>(file.travel)});
  }
  return dumped(files);
}

// What the first process knows of the others' files.
class Others {
 public:
  // `hosts` by process; empty: it has said nothing.
  Others(Mpi& mpi, const Shares& shares, std::vector<std::string> hosts, std::string folder,
         std::chrono::seconds patience)
      : mpi_(mpi),
        shares_(shares),
        hosts_(std::move(hosts)),
        folder_(std::move(folder)),
        patience_(patience) {
    for (int process = 1; process < mpi_.size(); ++process) {
      if (host_of(process).empty()) {
        give_up(process, 0);
      } else {
        mpi_.send(process, text_of(shares_.of(process)));
      }
    }
  }

  bool all_answer() const { return gone_.empty(); }

  // Turn about, so that all are at work.
  void bring_all() {
    size_t most = 0;
    for (int process = 1; process < mpi_.size(); ++process) {
      most = std::max(most, shares_.of(process).size());
    }
    for (size_t i = 0; i < most; ++i) {
      for (int process = 1; process < mpi_.size(); ++process) {
        if (i < shares_.of(process).size() && !gone_.contains(process)) {
          const auto parcel = mpi_.receive_within(process, patience_);
          parcel ? void(take(process, *parcel)) : give_up(process, i);
        }
      }
    }
  }

  void bring_events_of(const std::string& path) {
    const auto owner = owners_.find(path);
    if (owner == owners_.end() || gone_.contains(owner->second)) {
      return;
    }
    mpi_.send(owner->second, path);
    if (const auto parcel = mpi_.receive_within(owner->second, patience_)) {
      detail_bytes_ += take(owner->second, *parcel);
    } else {
      give_up(owner->second, shares_.of(owner->second).size());
    }
  }

  void let_go() {
    for (int process = 1; process < mpi_.size(); ++process) {
      if (!gone_.contains(process)) {
        mpi_.send(process, kDone);
      }
    }
  }

  std::string sent_text() const {
    const uint64_t each = owners_.empty() ? 0 : (bytes_ - detail_bytes_) / owners_.size();
    return fmt::format("{} processes; the others sent {} of {} traces, {} each{}", mpi_.size(),
                       file_size_text(bytes_ - detail_bytes_), owners_.size(), file_size_text(each),
                       detail_bytes_ == 0 ? ""
                                          : ", and " + file_size_text(detail_bytes_) +
                                                " of event records where they were needed");
  }

 private:
  const std::string& host_of(int process) const { return hosts_[static_cast<size_t>(process)]; }

  // It sent `sent` of its share.  The rest is on its host, as a pointer would say.
  void give_up(int process, size_t sent) {
    gone_.insert(process);
    const std::vector<Wanted>& share = shares_.of(process);
    note(fmt::format(
        "process {}{} has not answered for {} s: {}", process,
        host_of(process).empty() ? "" : " on " + host_of(process), patience_.count(),
        host_of(process).empty() || sent == share.size()
            ? "judged without it"
            : fmt::format("judged without {} of its {} files", share.size() - sent, share.size())));
    for (size_t i = sent; i < share.size(); ++i) {
      if (share[i].travel != Travel::kPacked) {
        continue;
      }
      std::string place = fmt::format("{}/{}", folder_, ++count_);
      std::ofstream(place, std::ios::binary)
          << fmt::format("traintrace-pointer 1\n{}\n{}\n", share[i].path, host_of(process));
      note_brought(share[i].path, {share[i].folder, std::move(place), false});
    }
  }

  // Its bytes.
  uint64_t take(int process, const std::string& text) {
    std::optional<Parcel> parcel = parcel_of(text);
    if (!parcel) {
      return 0;
    }
    std::string place = fmt::format("{}/{}", folder_, ++count_);
    std::ofstream(place, std::ios::binary) << parcel->bytes;
    Brought brought = parcel->brought;
    if (const auto before = brought_file(parcel->file.path)) {
      brought.folder = before->folder;
    }
    brought.place = std::move(place);
    note_brought(parcel->file.path, std::move(brought));
    owners_[parcel->file.path] = process;
    bytes_ += text.size();
    return text.size();
  }

  Mpi& mpi_;
  const Shares& shares_;
  std::vector<std::string> hosts_;
  std::set<int> gone_;
  std::string folder_;
  std::chrono::seconds patience_;
  std::map<std::string, int> owners_;
  size_t count_ = 0;
  uint64_t bytes_ = 0;
  uint64_t detail_bytes_ = 0;
};

// A launcher ends all processes when one of them was killed, and its own message does not say what
// to do about it.
void say_ended(int signal) {
  constexpr std::string_view kText =
      "traintrace: ended by the launcher, as when another process of this job was killed; to go on "
      "without that one: mpirun --enable-recovery (Open MPI), or collect, and analyze without "
      "--mpi\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText.data(), kText.size());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

int judge_all(Mpi& mpi, const AnalyzeOptions& options) {
  std::signal(SIGTERM, say_ended);
  const std::chrono::seconds patience(options.patience_seconds);
  const TemporaryFolder folder;
  Shares shares(mpi.size());
  std::vector<std::string> hosts;
  for (const std::string& text : mpi.gather(text_of(list_all(options.traces)), patience)) {
    const Json listing = Json::parse(text, nullptr, false);
    if (listing.is_object()) {
      shares.add(static_cast<int>(hosts.size()), listing);
    }
    hosts.push_back(listing.is_object() ? listing.value("host", "a host") : "");
  }
  if (!folder.path().empty()) {
    shares.divide();
  }
  Others others(mpi, shares, std::move(hosts), folder.path(), patience);
  others.bring_all();
  bring_events_by([&](const std::string& path) { others.bring_events_of(path); });
  const int status = folder.path().empty() ? fail("no folder for temporary files can be made")
                                           : analyze_here(options);
  bring_events_by(nullptr);
  others.let_go();
  note(others.sent_text());
  if (others.all_answer()) {
    mpi.finish();
  } else {
    mpi.abort(status);
  }
  return status;
}

}  // namespace

int analyze_with_others(const AnalyzeOptions& options) {
  AnalyzeOptions own = options;
  const bool none_answers = own.traces.empty() && !silent_inputs().empty();
  if (own.traces.empty() && !none_answers) {
    own.traces.emplace_back("traintrace");
  }
  std::optional<Mpi> mpi = Mpi::join();
  if (!mpi) {
    if (Mpi::is_started_by()) {
      note("MPI cannot be loaded or has one process: this host alone");
    }
    need_answers(options.traces);
    return analyze(options);
  }
  if (none_answers && mpi->rank() == 0) {
    std::for_each(silent_inputs().begin(), silent_inputs().end(),
                  [](const ReadError& error) { say(error); });
    mpi->abort(2);
    return 2;
  }
  return mpi->rank() == 0 ? judge_all(*mpi, own) : serve(*mpi, own);
}

}  // namespace traintrace
