// Writes a telemetry file: lines at its end, each by one write, so that a SIGKILL costs at most the
// line that is being written.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/telemetry/telemetry_line.h"

namespace traintrace {

// Of one device: what was read last, and first.
using LatestReadings = std::array<std::optional<int64_t>, kReadings>;

class TelemetryFile {
 public:
  // FOLDER/telemetry.HOST.PID.log.  At `most_bytes` it is renamed to telemetry.HOST.PID.old.log, in
  // the place of the one before, and begun anew: with what stood at the beginning, the devices'
  // first readings and the Xids, so that nothing but readings in between is lost.
  TelemetryFile(const std::string& folder, const std::string& host, uint64_t most_bytes);
  ~TelemetryFile();
  TelemetryFile(const TelemetryFile&) = delete;
  TelemetryFile& operator=(const TelemetryFile&) = delete;

  // Creates it, owner only, and its folder; false: `problem` says why not.
  bool create(std::string& problem);
  // Of readings only what has changed is written.
  void add(const TelemetryLine& line);

  const std::string& path() const { return path_; }
  const std::map<int, DeviceLine>& devices() const { return devices_; }
  const std::map<int, LatestReadings>& latest() const { return latest_; }
  const std::vector<XidLine>& xids() const { return xids_; }
  // Lines that could not be written: the disk is full, or such.
  uint64_t lost() const { return lost_; }

 private:
  void remember(const TelemetryLine& line);
  void remember(const ReadLine& line);
  std::optional<TelemetryLine> news_of(const TelemetryLine& line) const;
  void write(const TelemetryLine& line);
  void begin_anew();

  std::string path_;
  std::string old_path_;
  uint64_t most_bytes_;
  uint64_t bytes_ = 0;
  uint64_t lost_ = 0;
  int file_ = -1;
  bool torn_ = false;  // the last line was written in part
  std::vector<FactLine> facts_;
  std::map<int, DeviceLine> devices_;
  std::map<int, ReadLine> first_;  // the first reading of each kind; its time is the first of them
  std::map<int, LatestReadings> latest_;
  std::map<int, int64_t> latest_time_;
  std::vector<XidLine> xids_;
};

}  // namespace traintrace
