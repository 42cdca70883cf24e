#include "analyzer/telemetry/recording.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <memory>
#include <vector>

#include "analyzer/reader/this_machine.h"
#include "analyzer/telemetry/job_watch.h"
#include "analyzer/telemetry/lasting_faults.h"
#include "analyzer/telemetry/prometheus.h"
#include "analyzer/telemetry/sampler.h"
#include "analyzer/telemetry/telemetry_file.h"
#include "analyzer/text/metrics.h"

namespace traintrace {
namespace {

constexpr int64_t kOneSecondNs = 1'000'000'000;
// A query hangs when it has not returned for ten intervals, but no sooner than any takes that does.
constexpr int64_t kHungAfterIntervals = 10;
constexpr int64_t kHungAfterLeastNs = kOneSecondNs;
constexpr int64_t kLookAtJobEveryNs = kOneSecondNs;
constexpr int64_t kLastLinesWithinNs = 3 * kOneSecondNs;
constexpr int kTurnMs = 100;
constexpr size_t kMostLineBytes = 1 << 16;

int64_t ns_of(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * kOneSecondNs + now.tv_nsec;
}

std::string own_host() {
  utsname names = {};
  std::string host = uname(&names) == 0 ? names.nodename : "host";
  std::replace(host.begin(), host.end(), '/', '_');
  return host;
}

std::string own_boot() {
  const auto boot = boot_id();
  return boot ? fmt::format("{:016x}{:016x}", (*boot)[0], (*boot)[1]) : "";
}

// Signals that end it, as something to poll.
class Signals {
 public:
  Signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
      sigaddset(&set, number);
    }
    sigprocmask(SIG_BLOCK, &set, &before_);
    descriptor_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Signals() {
    close(descriptor_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int descriptor() const { return descriptor_; }
  // Which one came; 0: none.
  int take() const {
    signalfd_siginfo info = {};
    return read(descriptor_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo)
                                                                : 0;
  }

 private:
  sigset_t before_ = {};
  int descriptor_ = -1;
};

class TelemetryRecording {
 public:
  TelemetryRecording(const TelemetryOptions& options,
                     const std::function<void(const std::string&)>& tell)
      : options_(options),
        tell_(tell),
        job_(options.folder),
        file_(options.folder, own_host(), options.most_bytes) {}

  int run() {
    const Signals signals;
    sampler_ = Sampler::start({options_.interval_ns, options_.nvlink});
    if (sampler_ == nullptr) {
      tell_("telemetry: no process can be started to ask NVML");
      return 2;
    }
    while (why_.empty() && status_ == 0) {
      turn(signals);
    }
    finish();
    return status_;
  }

 private:
  // One round of waiting for lines, signals, or the time to look.
  void turn(const Signals& signals) {
    std::array<pollfd, 2> waits = {
        {{sampler_->lines(), POLLIN, 0}, {signals.descriptor(), POLLIN, 0}}};
    if (poll(waits.data(), waits.size(), kTurnMs) > 0) {
      if (waits[0].revents != 0 && !take_lines()) {
        sampler_ended();
      }
      if (const int number = signals.take(); number != 0) {
        why_ = fmt::format("signal {}", number);
      }
    }
    if (const int64_t now = ns_of(CLOCK_MONOTONIC); status_ == 0 && now >= next_look_) {
      next_look_ = now + kLookAtJobEveryNs;
      look(now);
    }
  }

  void look(int64_t now) {
    note_hung(now);
    export_latest();
    give_alarm();
    if (!job_.look()) {
      over_since_ = 0;
    } else if (over_since_ == 0) {
      over_since_ = now;
    }
    if (over_since_ != 0 && now - over_since_ >= options_.linger_ns) {
      why_ = "the job has ended";
    }
  }

  // False: there will be no more.
  bool take_lines() {
    std::array<char, kMostLineBytes> bytes;
    const ssize_t count = read(sampler_->lines(), bytes.data(), bytes.size());
    if (count <= 0) {
      return count < 0 && errno == EINTR;
    }
    pending_.append(bytes.data(), static_cast<size_t>(count));
    for (size_t end = pending_.find('\n'); end != std::string::npos; end = pending_.find('\n')) {
      std::string expected;
      if (const auto line = parse_telemetry_line(pending_.substr(0, end), expected)) {
        note_reasons(*line);
        add(*line);
        note_lasting(*line);
      }
      pending_.erase(0, end + 1);
    }
    return true;
  }

  void sampler_ended() {
    const SamplerBoard& board = sampler_->board();
    status_ = 2;
    if (board.state.load() == SamplerState::kUnusable) {
      tell_(fmt::format("telemetry: NVML cannot be used on this machine: {}", board.why));
    } else {
      tell_("telemetry: the process that asked NVML has died");
      add(NoteLine{ns_of(CLOCK_REALTIME), "the process that asked NVML has died"});
    }
  }

  // The file begins with the first thing to say: where NVML cannot be used there is none.
  void add(const TelemetryLine& line) {
    if (!created_) {
      created_ = true;
      std::string problem;
      if (!file_.create(problem)) {
        tell_("telemetry: " + problem);
        status_ = 2;
        return;
      }
      file_.add(FactLine{"host", own_host()});
      file_.add(FactLine{"boot", own_boot()});
      file_.add(FactLine{"source", "nvml"});
      file_.add(FactLine{"interval_ns", std::to_string(options_.interval_ns)});
      tell_("telemetry goes to " + file_.path());
    }
    file_.add(line);
    if (file_.lost() != 0 && !told_lost_) {
      told_lost_ = true;
      tell_(fmt::format("telemetry: {}: not all can be written: {}", file_.path(),
                        std::strerror(errno)));
    }
  }

  void give_reason(const std::string& code) {
    if (std::find(reasons_.begin(), reasons_.end(), code) == reasons_.end()) {
      reasons_.push_back(code);
    }
  }

  // What the line says that is new and an error.
  void note_reasons(const TelemetryLine& line) {
    if (std::holds_alternative<XidLine>(line)) {
      give_reason("device.xid");
    }
    const auto* const read = std::get_if<ReadLine>(&line);
    const auto before = read == nullptr ? file_.latest().end() : file_.latest().find(read->device);
    if (before == file_.latest().end()) {
      return;
    }
    for (const auto& [reading, value] : read->values) {
      const std::optional<int64_t>& known = before->second[static_cast<size_t>(reading)];
      const bool is_error =
          reading == GpuReading::kEccUncorrected || reading == GpuReading::kRowsUncorrected ||
          reading == GpuReading::kRowsPending || reading == GpuReading::kRowsFailed;
      if (is_error && known && value > *known) {
        give_reason("device.ecc");
      }
    }
  }

  void note_lasting(const TelemetryLine& line) {
    const auto* const read = std::get_if<ReadLine>(&line);
    const auto latest = read == nullptr ? file_.latest().end() : file_.latest().find(read->device);
    if (latest != file_.latest().end()) {
      lasting_.read(read->device, read->time, latest->second);
    }
  }

  void give_alarm() {
    if (!options_.alert) {
      return;
    }
    for (const std::string& code : lasting_.due(ns_of(CLOCK_REALTIME))) {
      give_reason(code);
    }
    std::vector<std::string> told;
    if (options_.alert(reasons_, told)) {
      reasons_.clear();
    }
    for (const std::string& code : told) {
      lasting_.told(code);
    }
  }

  void note_hung(int64_t now) {
    const SamplerBoard& board = sampler_->board();
    hung_ = 0;
    for (size_t i = 0; i < noted_.size(); ++i) {
      const QuerySlot& slot = board.slots[i];
      const int64_t since = slot.since_ns.load();
      if (noted_[i] != 0 && since != noted_[i]) {
        note(fmt::format("a query that had not returned did so within {} s",
                         (now - noted_[i]) / kOneSecondNs));
        noted_[i] = 0;
      }
      const bool hangs = since != 0 && now - since >= hung_after_ns_;
      hung_ += hangs ? 1 : 0;
      if (hangs && noted_[i] == 0) {
        noted_[i] = since;
        const int device = slot.device.load();
        note(fmt::format(
            "{}{} has not returned for {} s: what it would say is missing", slot.function.load(),
            device < 0 ? "" : fmt::format(" of device {}", device), hung_after_ns_ / kOneSecondNs));
      }
    }
  }

  void note(const std::string& text) {
    tell_("telemetry: " + text);
    add(NoteLine{ns_of(CLOCK_REALTIME), text});
  }

  void export_latest() {
    std::string problem;
    if (!options_.prometheus.empty() && !told_export_ &&
        !write_for_prometheus(options_.prometheus, prometheus_text(file_, hung_), problem)) {
      told_export_ = true;
      tell_("telemetry: " + problem);
    }
  }

  // Last readings, as far as they come in time.
  void finish() {
    sampler_->stop();
    const int64_t until = ns_of(CLOCK_MONOTONIC) + kLastLinesWithinNs;
    pollfd wait = {sampler_->lines(), POLLIN, 0};
    while (status_ == 0 && ns_of(CLOCK_MONOTONIC) < until) {
      if (poll(&wait, 1, kTurnMs) > 0 && !take_lines()) {
        break;
      }
    }
    if (created_) {
      file_.add(EndLine{ns_of(CLOCK_REALTIME), why_.empty() ? "an error" : why_});
    }
    if (!options_.prometheus.empty()) {
      unlink(options_.prometheus.c_str());  // else it would look as if it were of now
    }
    sampler_.reset();
    if (options_.last_alert && created_) {
      options_.last_alert(reasons_);
    }
  }

  TelemetryOptions options_;
  const std::function<void(const std::string&)>& tell_;
  JobWatch job_;
  TelemetryFile file_;
  std::unique_ptr<Sampler> sampler_;
  std::string pending_;
  std::string why_;                   // it ends
  std::vector<std::string> reasons_;  // for alerts: codes
  LastingFaults lasting_;
  int status_ = 0;
  bool created_ = false;
  bool told_lost_ = false;
  bool told_export_ = false;
  const int64_t hung_after_ns_ =
      std::max(kHungAfterIntervals * options_.interval_ns, kHungAfterLeastNs);
  size_t hung_ = 0;
  int64_t next_look_ = 0;
  int64_t over_since_ = 0;  // CLOCK_MONOTONIC; 0: it is not over
  std::array<int64_t, kMostQuerySlots> noted_ = {};
};

}  // namespace

int record_telemetry(const TelemetryOptions& options,
                     const std::function<void(const std::string&)>& tell) {
  return TelemetryRecording(options, tell).run();
}

}  // namespace traintrace
