#include "analyzer/importers/strange_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>

#include "analyzer/importers/text_file.h"
#include "analyzer/reader/files/input_file.h"
#include "analyzer/reader/silent_inputs.h"

namespace traintrace {
namespace {

using namespace std::string_view_literals;

// All that is not empty must hold.
struct StrangeKind {
  std::string_view begins;    // the bytes
  std::string_view contains;  // near their beginning
  std::string_view ends;      // the file's name
  std::string_view is;
  std::string_view advice;
};

constexpr std::string_view kRecordOrProfile =
    "record the job with `traintrace run`, or give a profile of torch.profiler "
    "(export_chrome_trace)";
constexpr std::string_view kUnpack = "unpack it, and name what comes out";
constexpr std::string_view kGiveTraces = "give the traces that it was made from";
constexpr std::string_view kGiveOthers =
    "give traces, Flight Recorder dumps, profiles, memory snapshots or logs";
constexpr std::string_view kQuerySmi =
    "log nvidia-smi --query-gpu=timestamp,uuid,.. --format=csv -l 1, and bring it beside traces: "
    "traintrace import nvidia-smi FILE --out=DIR";

// An ELF file for machines of 64 bits, little endian, of the type ET_CORE.
constexpr std::string_view kCoreDump =
    "\x7f"
    "ELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x04\0"sv;

// The first that fits, so those that are told by more come before others.
constexpr StrangeKind kStrangeKinds[] = {
    {"", "", ".nsys-rep", "a report of Nsight Systems, which only nsys opens", kRecordOrProfile},
    {"", "", ".qdrep", "a report of Nsight Systems, which only nsys opens", kRecordOrProfile},
    {"", "", ".qdstrm", "a stream of Nsight Systems, which only nsys opens", kRecordOrProfile},
    {"NVR\0"sv, "", "", "a report of Nsight Compute, which only ncu opens", kRecordOrProfile},
    {"", "", ".ncu-rep", "a report of Nsight Compute, which only ncu opens", kRecordOrProfile},
    {"SQLite format 3\0"sv, "CUPTI_ACTIVITY_", "", "an SQLite export of Nsight Systems",
     kRecordOrProfile},
    {"SQLite format 3\0"sv, "rocpd_", "", "a database of ROCm's profiler", kRecordOrProfile},
    {"SQLite format 3\0"sv, "", "", "an SQLite database", kGiveOthers},
    {"", "", ".xplane.pb", "a profile of JAX or TensorFlow (XSpace), which TensorBoard opens",
     kRecordOrProfile},
    {"\x0a", "/host:metadata", "",
     "a profile of JAX or TensorFlow (XSpace), which TensorBoard opens", kRecordOrProfile},
    {"\x0a", "", ".pftrace", "a trace of Perfetto, which ui.perfetto.dev opens", kGiveTraces},
    {"\x0a", "", ".perfetto-trace", "a trace of Perfetto, which ui.perfetto.dev opens",
     kGiveTraces},
    {"", "brain.Event:", "", "a log of scalars for TensorBoard", kGiveOthers},
    {"", "", ".wandb", "a log of Weights & Biases", kGiveOthers},
    {":W&B", "", "", "a log of Weights & Biases", kGiveOthers},
    {kCoreDump, "", "", "a core dump of a process, which gdb opens", kGiveOthers},
    {"\x7f"
     "ELF"sv,
     "", "", "a program or a library", "record it with `traintrace run -- PROGRAM`"},
    {"PERFILE2", "", "", "a recording of perf", kGiveOthers},
    {"PK\x03\x04", "data.pkl", "", "a checkpoint that torch.save wrote", kGiveOthers},
    {"PK\x03\x04", "", "", "a zip archive", kUnpack},
    {"\xfd"
     "7zXZ\0"sv,
     "", "", "compressed with xz", kUnpack},
    {"BZh", "", "", "compressed with bzip2", kUnpack},
    {"\x28\xb5\x2f\xfd", "", "", "compressed with zstd, and no text of `traintrace dump`", kUnpack},
    {"\x89PNG", "", "", "a picture", kGiveOthers},
    {"%PDF", "", "", "a PDF", kGiveOthers},
    {"PAR1", "", "", "a table of Parquet", kGiveOthers},
    {"\x89HDF", "", "", "a file of HDF5", kGiveOthers},
    {"\x93NUMPY", "", "", "an array of NumPy", kGiveOthers},
    {"", "\"traintrace.findings/", "", "the findings of an analysis, as JSON", kGiveTraces},
    {"", "\"traintrace.report/", "", "a report of traintrace, as JSON", kGiveTraces},
    {"", "\"traintrace.diff/", "", "a comparison of traintrace, as JSON", kGiveTraces},
    {"{", "\"coll_perf\"", "", "the output of NCCL's Inspector: the speed of each collective",
     "it does not say who waits for whom: give traces, Flight Recorder dumps, or NCCL's RAS "
     "status"},
    {"{", "\"extraInfo\"", "", "the error file of one rank of torchrun",
     "what it says is the exception of that rank; for the order of events give the job's log, "
     "traces or Flight Recorder dumps"},
    {"{", "\"resultType\"", "", "an answer of Prometheus",
     "bring it beside traces: traintrace import prometheus FILE --out=DIR"},
    {"{", "speedscope", "", "a profile of a CPU for speedscope", kGiveOthers},
    {"<!DOCTYPE html", "", "", "a web page", "open it in a browser, or give what it was made from"},
    {"<html", "", "", "a web page", "open it in a browser, or give what it was made from"},
    {"", "NVRM: Xid", "", "a kernel log",
     "bring it beside traces: traintrace import kernel-log FILE --out=DIR"},
    {"", "==NVSMI LOG==", "", "what nvidia-smi -q says of one moment", kQuerySmi},
    {"", "| NVIDIA-SMI ", "", "the table of nvidia-smi, of one moment", kQuerySmi},
    {"timestamp", "[MiB]", "", "a log of nvidia-smi",
     "bring it beside traces: traintrace import nvidia-smi FILE --out=DIR"},
    {"timestamp", "[%]", "", "a log of nvidia-smi",
     "bring it beside traces: traintrace import nvidia-smi FILE --out=DIR"},
    {"# gpu ", "", "", "the output of nvidia-smi dmon, which has neither dates nor UUIDs",
     kQuerySmi},
    {"#Entity", "", "", "the output of dcgmi dmon",
     "bring it beside traces: traintrace import dcgmi-dmon FILE --out=DIR"},
};

// What such a profile has in its events, or in what stands before them.
constexpr StrangeKind kStrangeProfiles[] = {
    {"", "/device:GPU:", "", "a trace of JAX or TensorFlow: its GPU work has no launches",
     kRecordOrProfile},
    {"", "/device:TPU:", "", "a trace of JAX or TensorFlow, of TPUs", kRecordOrProfile},
    {"", "/host:CPU", "", "a trace of JAX or TensorFlow", kRecordOrProfile},
    {"", "Ascend Hardware", "", "a trace of Ascend's NPUs", kGiveOthers},
    {"", "AI_CORE", "", "a trace of Ascend's NPUs", kGiveOthers},
    {"", "\"CUDA functions\"", "", "a trace of torch.autograd.profiler, without launches",
     kRecordOrProfile},
    {"", "\"CommHash\"", "", "a trace of NCCL's example of a profiler plugin",
     "it does not say who waits for whom: give traces, Flight Recorder dumps, or NCCL's RAS "
     "status"},
    {"", "\"NEGOTIATE_", "", "a timeline of Horovod", kRecordOrProfile},
    {"", "\"hip_api\"", "", "a trace of ROCm's profiler, not of PyTorch's", kRecordOrProfile},
    {"", "\"kernel_dispatch\"", "", "a trace of ROCm's profiler, not of PyTorch's",
     kRecordOrProfile},
    {"", "\"gpu_op\"", "", "a trace of Intel's unitrace", kRecordOrProfile},
    {"", "\"model_loading", "", "a trace of ONNX Runtime", kRecordOrProfile},
    {"", "\"cpu_op\"", "", "a profile of the CPU alone",
     "expected kernels or copies of a GPU too: activities=[CPU, CUDA], within the steps that are "
     "profiled"},
};

bool fits(const StrangeKind& kind, std::string_view name, std::string_view head) {
  return head.starts_with(kind.begins) && name.ends_with(kind.ends) &&
         head.find(kind.contains) != head.npos;
}

template <size_t N>
std::string text_of_kind(const StrangeKind (&kinds)[N], std::string_view name,
                         std::string_view head) {
  const auto* const kind =
      std::find_if(std::begin(kinds), std::end(kinds),
                   [&](const StrangeKind& each) { return fits(each, name, head); });
  return kind == std::end(kinds) ? std::string()
                                 : std::string(kind->is) + ": " + std::string(kind->advice);
}

// Of what a compressed file has in it.
std::string unpacked_head(const std::string& path, size_t bytes) {
  Result<TextFile> file = TextFile::open(path);
  std::string text;
  if (file) {
    static_cast<void>(file->read(text, bytes));
  }
  return text;
}

}  // namespace

std::string strange_file_text(const std::string& path) {
  constexpr size_t kLook = 64 << 10;
  constexpr std::string_view kGzip = "\x1f\x8b";
  const std::string head = head_of(path, kLook);
  if (head.empty()) {
    return "";
  }
  if (!head.starts_with(kGzip)) {
    return text_of_kind(kStrangeKinds, path, head);
  }
  const std::string name = path.substr(0, path.size() - (path.ends_with(".gz") ? 3 : 0));
  const std::string within = text_of_kind(kStrangeKinds, name, unpacked_head(path, kLook));
  return within.empty() ? "compressed with gzip, and no profile: " + std::string(kUnpack)
                        : "compressed with gzip, " + within;
}

std::string strange_profile_text(const std::string& path) {
  constexpr size_t kLook = 256 << 10;
  return text_of_kind(kStrangeProfiles, path, unpacked_head(path, kLook));
}

std::string found_instead_text(const std::string& folder, const std::vector<std::string>& files) {
  namespace fs = std::filesystem;
  for (const std::string& file : files) {
    if (const std::string kind = strange_file_text(file); !kind.empty()) {
      return fmt::format("; {} is {}", fs::path(file).filename().string(), kind);
    }
  }
  std::vector<std::string> folders;
  std::error_code problem;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    std::error_code ignored;
    if (!is_silent_file(entry->path().string()) && entry->is_directory(ignored)) {
      folders.push_back(entry->path().filename().string());
    }
  }
  if (folders.empty()) {
    return files.empty() ? "; it is empty" : "";
  }
  return fmt::format("; folders in it are not looked into: name them ({}{})",
                     *std::min_element(folders.begin(), folders.end()),
                     folders.size() == 1 ? "" : ", ..");
}

}  // namespace traintrace
