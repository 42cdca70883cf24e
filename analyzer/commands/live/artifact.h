// What `attach --artifacts=DIR` keeps of a job that is judged to be wrong: one tar file with all
// that somebody needs who comes later.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/reader/result.h"
#include "analyzer/telemetry/gpu_history.h"

namespace traintrace {

struct ArtifactText {
  std::string name;  // in the archive
  std::string bytes;
};

struct ArtifactParts {
  std::vector<ArtifactText> texts;     // verdict.json, ..
  std::vector<std::string> telemetry;  // files
  TelemetryRecord gpus;                // what is in them
  TimeNs time = 0;                     // of the verdict, ns since the epoch
};

// Writes FOLDER/traintrace-RUN-HOST-TIME.tar, readable for its owner alone: the texts, packs of the
// run's traces that lie on this host and what was seen of their threads, telemetry, Xids as lines,
// dumps of PyTorch's Flight Recorder that the ranks have left since the run began.  What cannot be
// had is named in notes.txt there.  Its absolute path, since an alert is read elsewhere; an error:
// it cannot be written.
Result<std::string> write_artifact(const std::string& folder, const Run& run,
                                   const ArtifactParts& parts);

}  // namespace traintrace
