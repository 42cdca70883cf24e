#include "analyzer/telemetry/sampler.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "analyzer/telemetry/device_sampler.h"

namespace traintrace {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kStatesEveryNs = 5 * kSecondNs;
constexpr int64_t kFaultsEveryNs = 30 * kSecondNs;
constexpr int64_t kNvlinkEveryNs = 60 * kSecondNs;
constexpr int kXidWaitMs = 500;
// How long a last reading may take, once it shall end.
constexpr int kLastReadingsMs = 2000;
constexpr int kPollEndMs = 20;

int64_t clock_ns(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * kSecondNs + now.tv_nsec;
}

// In the child: all of it lives as long as that, whatever its threads hang in.
struct Sampling {
  SamplerBoard& board;
  SamplerOptions options;
  int lines;
  int stop;
  Nvml nvml = {};
  std::atomic<int> next_slot = 0;
  std::atomic<int> busy = 0;  // threads that have a last reading to take

  QuerySlot& take_slot() { return board.slots[std::min(next_slot++, kMostQuerySlots - 1)]; }

  // One write: shorter than what a pipe takes as a whole.
  void say(const TelemetryLine& line) const {
    const std::string text = text_of(line);
    if (text.size() < PIPE_BUF && write(lines, text.data(), text.size()) < 0) {
      _exit(0);  // nobody reads it any more
    }
  }

  // Until so long has passed; true: it shall end.
  bool wait_ns(int64_t ns) const {
    pollfd end = {stop, POLLIN, 0};
    constexpr int64_t kMillisecondNs = 1'000'000;
    return poll(&end, 1, static_cast<int>(std::max<int64_t>(ns, 0) / kMillisecondNs)) > 0;
  }
  bool is_over() const { return wait_ns(0); }
};

struct Group {
  void (*read)(const SampledDevice&, ReadLine&);
  int64_t every_ns;
};

// Each group as often as it says, and all of them once more at the end.
void sample_groups(Sampling& sampling, const SampledDevice& device, std::vector<Group> groups) {
  std::vector<int64_t> due(groups.size(), 0);
  for (bool is_last = false;;) {
    const int64_t now = clock_ns(CLOCK_MONOTONIC);
    ReadLine line{device.device, clock_ns(CLOCK_REALTIME), {}};
    for (size_t i = 0; i < groups.size(); ++i) {
      if (is_last || now >= due[i]) {
        groups[i].read(device, line);
        due[i] = now + groups[i].every_ns;
      }
    }
    if (!line.values.empty()) {
      sampling.say(line);
    }
    if (is_last) {
      --sampling.busy;
      return;
    }
    is_last =
        sampling.wait_ns(*std::min_element(due.begin(), due.end()) - clock_ns(CLOCK_MONOTONIC));
  }
}

// "GPU-..", "0000:1b:00.0" and a name: what is not said is empty.
DeviceLine identity_of(const SampledDevice& device) {
  DeviceLine line{device.device, "", "", ""};
  std::array<char, 96> text = {};
  const auto ask = [&](const char* name, nvmlDeviceGetText_t* function, std::string& into) {
    const Asking asking(device.slot, name, device.device);
    if (function != nullptr &&
        function(device.handle, text.data(), static_cast<unsigned>(text.size())) == NVML_SUCCESS) {
      into.assign(text.data(), strnlen(text.data(), text.size()));
    }
  };
  ask("nvmlDeviceGetUUID", device.nvml.uuid, line.uuid);
  ask("nvmlDeviceGetName", device.nvml.name, line.name);
  nvmlPciInfo_t pci = {};
  const Asking asking(device.slot, "nvmlDeviceGetPciInfo_v3", device.device);
  if (device.nvml.pci != nullptr && device.nvml.pci(device.handle, &pci) == NVML_SUCCESS) {
    line.pci = plain_pci(std::string_view(pci.busId, strnlen(pci.busId, sizeof pci.busId)));
  }
  return line;
}

nvmlDevice_t handle_of(const Sampling& sampling, QuerySlot& slot, int device) {
  nvmlDevice_t handle = nullptr;
  const Asking asking(slot, "nvmlDeviceGetHandleByIndex_v2", device);
  return sampling.nvml.handle(static_cast<unsigned>(device), &handle) == NVML_SUCCESS ? handle
                                                                                      : nullptr;
}

// The quick readings of a device; a second thread takes those that are slow.
void sample_device(Sampling& sampling, int number) {
  QuerySlot& slot = sampling.take_slot();
  const nvmlDevice_t handle = handle_of(sampling, slot, number);
  if (handle == nullptr) {
    sampling.say(NoteLine{clock_ns(CLOCK_REALTIME),
                          fmt::format("NVML gives no access to device {}", number)});
    --sampling.busy;
    return;
  }
  const SampledDevice device{sampling.nvml, slot, handle, number};
  sampling.say(identity_of(device));
  ++sampling.busy;
  std::thread([&sampling, handle, number] {
    const SampledDevice slow{sampling.nvml, sampling.take_slot(), handle, number};
    std::vector<Group> groups = {{read_faults, kFaultsEveryNs}};
    if (sampling.options.nvlink) {
      groups.push_back({read_nvlink, kNvlinkEveryNs});
    }
    sample_groups(sampling, slow, std::move(groups));
  }).detach();
  sample_groups(sampling, device,
                {{read_clocks, sampling.options.interval_ns},
                 {read_states, std::max(kStatesEveryNs, sampling.options.interval_ns)}});
}

// Only events after the registration are told, so this comes first.
void listen_for_xids(Sampling& sampling, int devices) {
  const Nvml& nvml = sampling.nvml;
  QuerySlot& slot = sampling.take_slot();
  nvmlEventSet_t set = nullptr;
  if (nvml.event_set == nullptr || nvml.register_events == nullptr || nvml.wait == nullptr ||
      nvml.event_set(&set) != NVML_SUCCESS) {
    sampling.say(NoteLine{clock_ns(CLOCK_REALTIME), "NVML tells no Xid events"});
    return;
  }
  std::vector<nvmlDevice_t> handles;
  handles.reserve(static_cast<size_t>(devices));
  for (int device = 0; device < devices; ++device) {
    handles.push_back(handle_of(sampling, slot, device));
    const Asking asking(slot, "nvmlDeviceRegisterEvents", device);
    if (handles.back() != nullptr &&
        nvml.register_events(handles.back(), nvmlEventTypeXidCriticalError, set) != NVML_SUCCESS) {
      sampling.say(NoteLine{clock_ns(CLOCK_REALTIME),
                            fmt::format("NVML tells no Xid events of device {}", device)});
    }
  }
  while (!sampling.is_over()) {
    nvmlEventData_t event = {};
    nvmlReturn_t result = NVML_SUCCESS;
    {
      const Asking asking(slot, "nvmlEventSetWait_v2", -1);
      result = nvml.wait(set, &event, kXidWaitMs);
    }
    const auto device = std::find(handles.begin(), handles.end(), event.device);
    if (result == NVML_SUCCESS && device != handles.end()) {
      sampling.say(XidLine{static_cast<int>(device - handles.begin()), clock_ns(CLOCK_REALTIME),
                           static_cast<int64_t>(event.eventData)});
    } else if (result != NVML_SUCCESS && result != NVML_ERROR_TIMEOUT) {
      sampling.wait_ns(kSecondNs);  // GPU_IS_LOST and its like come at once, again and again
    }
  }
}

[[noreturn]] void unusable(Sampling& sampling, const std::string& why) {
  SamplerBoard& board = sampling.board;
  strncpy(board.why, why.c_str(), sizeof board.why - 1);
  board.state.store(SamplerState::kUnusable);
  _exit(0);
}

std::string result_text(const Nvml& nvml, const char* function, nvmlReturn_t result) {
  const char* const text = nvml.error_text != nullptr ? nvml.error_text(result) : nullptr;
  return fmt::format(
      "{}: {}", function,
      text != nullptr ? std::string(text) : fmt::format("error {}", static_cast<int>(result)));
}

int start_nvml(Sampling& sampling) {
  std::string why;
  if (!load_nvml(sampling.nvml, why)) {
    unusable(sampling, why);
  }
  QuerySlot& slot = sampling.take_slot();
  {
    const Asking asking(slot, "nvmlInit_v2", -1);
    const nvmlReturn_t result = sampling.nvml.init();
    if (result != NVML_SUCCESS) {
      unusable(sampling, result_text(sampling.nvml, "nvmlInit_v2", result));
    }
  }
  unsigned count = 0;
  const Asking asking(slot, "nvmlDeviceGetCount_v2", -1);
  const nvmlReturn_t result = sampling.nvml.count(&count);
  if (result != NVML_SUCCESS || count == 0) {
    unusable(sampling, result != NVML_SUCCESS
                           ? result_text(sampling.nvml, "nvmlDeviceGetCount_v2", result)
                           : "NVML knows no GPU");
  }
  return static_cast<int>(std::min<unsigned>(count, kMostTelemetryDevices));
}

void say_driver(const Sampling& sampling) {
  std::array<char, 96> version = {};
  if (sampling.nvml.driver_version != nullptr &&
      sampling.nvml.driver_version(version.data(), static_cast<unsigned>(version.size())) ==
          NVML_SUCCESS) {
    sampling.say(
        FactLine{"driver", std::string(version.data(), strnlen(version.data(), version.size()))});
  }
}

[[noreturn]] void sample(Sampling& sampling) {
  const int devices = start_nvml(sampling);
  sampling.board.state.store(SamplerState::kRunning);
  say_driver(sampling);
  std::thread([&sampling, devices] { listen_for_xids(sampling, devices); }).detach();
  sampling.busy += devices;
  for (int device = 0; device < devices; ++device) {
    std::thread([&sampling, device] { sample_device(sampling, device); }).detach();
  }
  while (!sampling.wait_ns(kSecondNs)) {
  }
  for (int waited = 0; sampling.busy > 0 && waited < kLastReadingsMs; waited += kPollEndMs) {
    usleep(kPollEndMs * 1000);
  }
  _exit(0);  // without a word to NVML, or to threads that it holds
}

// The child is asked to end by its pipe, and ends with its parent however that does.
[[noreturn]] void become_sampler(SamplerBoard* board, const SamplerOptions& options, int lines,
                                 int stop, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) {
    _exit(0);
  }
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    std::signal(number, SIG_IGN);
  }
  sample(*new Sampling{*board, options, lines, stop});
}

}  // namespace

std::unique_ptr<Sampler> Sampler::start(const SamplerOptions& options) {
  void* const memory = mmap(nullptr, sizeof(SamplerBoard), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int lines[2] = {};
  int stop[2] = {};
  if (memory == MAP_FAILED || pipe2(lines, O_CLOEXEC) != 0 || pipe2(stop, O_CLOEXEC) != 0) {
    return nullptr;
  }
  auto* const board = new (memory) SamplerBoard{};
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    return nullptr;
  }
  if (child == 0) {
    close(lines[0]);
    close(stop[1]);
    become_sampler(board, options, lines[1], stop[0], parent);
  }
  close(lines[1]);
  close(stop[0]);
  return std::unique_ptr<Sampler>(new Sampler(board, child, lines[0], stop[1]));
}

void Sampler::stop() {
  if (stop_ >= 0) {
    close(stop_);
    stop_ = -1;
  }
}

Sampler::~Sampler() {
  stop();
  close(lines_);
  kill(child_, SIGKILL);
  // One that is in a call of the driver may not even be killed.
  constexpr int kMostWaits = 25;
  for (int waits = 0; waits < kMostWaits && waitpid(child_, nullptr, WNOHANG) == 0; ++waits) {
    usleep(kPollEndMs * 1000);
  }
}

}  // namespace traintrace
