#include "analyzer/telemetry/telemetry_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace traintrace {
namespace {

constexpr mode_t kOwnerReadsAndWrites = 0600;
constexpr size_t kMostXidsKept = 1024;
constexpr size_t kMostFactsKept = 32;

int create_file(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
              kOwnerReadsAndWrites);
}

}  // namespace

TelemetryFile::TelemetryFile(const std::string& folder, const std::string& host,
                             uint64_t most_bytes)
    : path_(fmt::format("{}/telemetry.{}.{}.log", folder, host, getpid())),
      old_path_(fmt::format("{}/telemetry.{}.{}.old.log", folder, host, getpid())),
      most_bytes_(most_bytes) {}

TelemetryFile::~TelemetryFile() {
  if (file_ >= 0) {
    close(file_);
  }
}

bool TelemetryFile::create(std::string& problem) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path folder = fs::path(path_).parent_path();
  if (fs::create_directories(folder, ignored)) {
    fs::permissions(folder, fs::perms::owner_all, ignored);
  }
  file_ = create_file(path_);
  if (file_ < 0 && errno == EEXIST) {  // of a process before us that had our number
    unlink(path_.c_str());
    file_ = create_file(path_);
  }
  if (file_ < 0) {
    problem = path_ + ": " + std::strerror(errno);
    return false;
  }
  bytes_ = 0;
  const std::string head = std::string(kTelemetryMagic) + "\n";
  if (::write(file_, head.data(), head.size()) == static_cast<ssize_t>(head.size())) {
    bytes_ = head.size();
  }
  return true;
}

void TelemetryFile::add(const TelemetryLine& line) {
  if (const std::optional<TelemetryLine> news = news_of(line)) {
    write(*news);
    remember(*news);
  }
  if (bytes_ >= most_bytes_) {
    begin_anew();
  }
}

std::optional<TelemetryLine> TelemetryFile::news_of(const TelemetryLine& line) const {
  const auto* const read = std::get_if<ReadLine>(&line);
  const auto known = read == nullptr ? latest_.end() : latest_.find(read->device);
  if (known == latest_.end()) {
    return line;
  }
  ReadLine news = *read;
  std::erase_if(news.values, [&](const auto& value) {
    return known->second[static_cast<size_t>(value.first)] == value.second;
  });
  // A line without values still says that the device was asked then.
  return news;
}

void TelemetryFile::remember(const ReadLine& line) {
  LatestReadings& latest = latest_[line.device];
  ReadLine& first =
      first_.try_emplace(line.device, ReadLine{line.device, line.time, {}}).first->second;
  for (const auto& [reading, value] : line.values) {
    std::optional<int64_t>& known = latest[static_cast<size_t>(reading)];
    if (!known) {
      first.values.emplace_back(reading, value);
    }
    known = value;
  }
  latest_time_[line.device] = line.time;
}

void TelemetryFile::remember(const TelemetryLine& line) {
  if (const auto* const read = std::get_if<ReadLine>(&line)) {
    remember(*read);
  } else if (const auto* const device = std::get_if<DeviceLine>(&line)) {
    devices_[device->device] = *device;
  } else if (const auto* const xid = std::get_if<XidLine>(&line)) {
    if (xids_.size() < kMostXidsKept) {
      xids_.push_back(*xid);
    }
  } else if (const auto* const fact = std::get_if<FactLine>(&line)) {
    if (facts_.size() < kMostFactsKept) {
      facts_.push_back(*fact);
    }
  }
}

void TelemetryFile::write(const TelemetryLine& line) {
  const std::string text = (torn_ ? "\n" : "") + text_of(line);
  const ssize_t written = file_ < 0 ? -1 : ::write(file_, text.data(), text.size());
  if (written > 0) {
    bytes_ += static_cast<uint64_t>(written);
    torn_ = written < static_cast<ssize_t>(text.size());
  }
  lost_ += written == static_cast<ssize_t>(text.size()) ? 0 : 1;
}

void TelemetryFile::begin_anew() {
  close(file_);
  std::string ignored;
  if (std::rename(path_.c_str(), old_path_.c_str()) != 0 || !create(ignored)) {
    file_ = -1;
    ++lost_;
    return;
  }
  torn_ = false;
  for (const FactLine& fact : facts_) {
    write(fact);
  }
  for (const auto& [number, device] : devices_) {
    write(device);
  }
  for (const auto& [device, first] : first_) {
    write(first);
  }
  for (const XidLine& xid : xids_) {
    write(xid);
  }
  for (const auto& [device, latest] : latest_) {
    ReadLine line{device, latest_time_[device], {}};
    for (size_t i = 0; i < kReadings; ++i) {
      if (latest[i]) {
        line.values.emplace_back(static_cast<GpuReading>(i), *latest[i]);
      }
    }
    write(line);
  }
}

}  // namespace traintrace
