#include "analyzer/importers/kineto/kineto_event.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string>

#include "analyzer/model/process/code_place.h"
#include "analyzer/timeline/recorded/samples.h"

namespace traintrace::kineto {

namespace json = simdjson::ondemand;

namespace {

std::string_view without_separator(std::string_view token) {
  while (!token.empty() && (token.back() <= ' ' || token.back() == ',')) {
    token.remove_suffix(1);
  }
  return token;
}

std::string_view text_of(json::value value) {
  std::string_view text;
  return value.get_string().get(text) == simdjson::SUCCESS ? text : std::string_view();
}

constexpr std::string_view kBlocking[] = {"cudaDeviceSynchronize", "cudaStreamSynchronize",
                                          "cudaEventSynchronize",  "cudaMemcpy",
                                          "cudaMemcpy2D",          "cudaMemset",
                                          "cuCtxSynchronize",      "cuStreamSynchronize",
                                          "cuEventSynchronize",    "cuMemcpyDtoH_v2",
                                          "cuMemcpyHtoD_v2"};
constexpr std::string_view kAllocators[] = {"cudaMalloc",   "cudaFree",         "cudaMallocHost",
                                            "cudaFreeHost", "cudaHostAlloc",    "cuMem",
                                            "cuModuleLoad", "cuLibraryLoadData"};
// Of HIP, where these are not CUDA's with another prefix.
constexpr std::string_view kHipBlocking[] = {"hipMemcpyWithStream", "hipMemcpyDtoH",
                                             "hipMemcpyHtoD"};
constexpr std::string_view kHipAllocators[] = {"hipHostMalloc", "hipHostFree",   "hipHostRegister",
                                               "hipExtMalloc",  "hipModuleLoad", "hipMemCreate",
                                               "hipMemMap"};

// Of Intel's runtimes for XPUs: SYCL's Unified Runtime, and Level Zero below it.
constexpr std::string_view kXpuBlocking[] = {
    "urQueueFinish",          "urEventWait",
    "zeCommandQueueSynchron", "zeCommandListHostSynchron",
    "zeEventHostSynchronize", "zeFenceHostSynchronize",
};
constexpr std::string_view kXpuAllocators[] = {"urUSM", "zeMemAlloc", "zeMemFree",
                                               "zeModuleCreate"};

// "hipMalloc" is "cudaMalloc" in all that matters here.
std::string as_cuda(std::string_view name) {
  return name.starts_with("hip") ? "cuda" + std::string(name.substr(3)) : std::string(name);
}

bool begins_with_any(std::string_view name, std::span<const std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view beginning) { return name.starts_with(beginning); });
}

}  // namespace

std::string_view token_of(json::value value) {
  return without_separator(value.raw_json_token());
}

namespace {

std::string_view array_of(json::value value) {
  json::array array;
  std::string_view text;
  const bool is_array = value.get_array().get(array) == simdjson::SUCCESS;
  return is_array && array.raw_json().get(text) == simdjson::SUCCESS ? text : std::string_view();
}

std::string_view text_or_array_of(json::value value) {
  json::json_type type{};
  const bool is_array =
      value.type().get(type) == simdjson::SUCCESS && type == json::json_type::array;
  return is_array ? array_of(value) : text_of(value);
}

void read_arguments(json::value value, Event& event) {
  json::object arguments;
  if (value.get_object().get(arguments) != simdjson::SUCCESS) {
    return;
  }
  for (auto field : arguments) {
    const json::raw_json_string key = field.key();
    if (key == "correlation") {
      event.correlation = number_of<uint64_t>(token_of(field.value()));
    } else if (key == "device") {
      event.device = number_of<int64_t>(token_of(field.value()));
    } else if (key == "stream") {
      event.stream = number_of<int64_t>(token_of(field.value()));
    } else if (key == "grid") {
      event.grid = array_of(field.value());
    } else if (key == "block") {
      event.block = array_of(field.value());
    } else if (key == "Collective name") {
      event.operation = text_of(field.value());
    } else if (key == "Process Group Name") {
      event.group = text_of(field.value());
    } else if (key == "Process Group Ranks") {
      event.members = text_or_array_of(field.value());
    } else if (key == "dtype") {
      event.data_type = text_of(field.value());
    } else if (key == "In msg nelems") {
      event.elements = number_of<int64_t>(token_of(field.value()));
    } else if (key == "Group size") {
      event.group_size = number_of<int64_t>(token_of(field.value()));
    } else if (key == "Src Rank") {
      event.from_rank = number_of<int64_t>(token_of(field.value()));
    } else if (key == "Dst Rank") {
      event.to_rank = number_of<int64_t>(token_of(field.value()));
    } else if (key == "Seq") {
      event.sequence = number_of<int64_t>(token_of(field.value()));
    } else if (key == "Input Dims" || key == "Input dims") {
      event.dims = array_of(field.value());
    } else if (key == "Input type") {
      event.types = array_of(field.value());
    } else if (key == kKindKey) {
      event.kind = text_of(field.value());
    } else if (key == kProductKey) {
      event.product = text_of(field.value());
    } else if (key == kWaitsKey) {
      event.waits = text_of(field.value());
    } else if (key == kMessagesKey) {
      event.messages = text_of(field.value());
    } else if (key == "cuda_sync_kind") {
      event.sync = text_of(field.value());
    } else if (key == "wait_on_stream") {
      event.awaited_stream = number_of<int64_t>(token_of(field.value()));
    } else if (key == "wait_on_cuda_event_record_corr_id") {
      event.awaited_record = number_of<int64_t>(token_of(field.value()));
    }
  }
}

}  // namespace

Event read_event(json::object object) {
  Event event;
  for (auto field : object) {
    const json::raw_json_string key = field.key();
    if (key == "ph") {
      event.phase = text_of(field.value());
    } else if (key == "cat") {
      event.category = text_of(field.value());
    } else if (key == "name") {
      event.name = text_of(field.value());
    } else if (key == "ts") {
      event.time = token_of(field.value());
    } else if (key == "dur") {
      event.duration = token_of(field.value());
    } else if (key == "pid") {
      event.pid = token_of(field.value());
    } else if (key == "tid") {
      event.tid = token_of(field.value());
    } else if (key == "args") {
      read_arguments(field.value(), event);
    }
  }
  return event;
}

// Names of old and new versions.
std::optional<WorkKind> kind_of(const Event& event) {
  const std::string_view category = event.category;
  if (category == "kernel" || category == "Kernel") {
    return WorkKind::kCompute;
  }
  if (category == "gpu_memcpy" || category == "Memcpy" || category == "gpu_memset" ||
      category == "Memset") {
    return WorkKind::kMemory;
  }
  return std::nullopt;
}

bool is_call(std::string_view category) {
  // "cuda_runtime", and of other hardware "xpu_runtime", "xpu_driver", "privateuse1_runtime", ..
  return category.ends_with("_runtime") || category == "Runtime" || category.ends_with("_driver");
}
bool is_profiling(const Event& event) {
  return event.category == "overhead" &&
         (event.name == kProfiling || event.name == "Buffer Flush" ||
          event.name == "Instrumentation" || event.name == "Resource" ||
          event.name == "Activity Buffer Request");
}
bool is_range(std::string_view category) {
  return category == "user_annotation" || category == "cpu_op" || category == "Operator" ||
         category == "python_function";
}

namespace {

// As an export of ours says it.
std::optional<HostCallKind> told_kind(const Event& event) {
  const auto* const known = std::find(std::begin(kKindNames), std::end(kKindNames), event.kind);
  return known == std::end(kKindNames)
             ? std::nullopt
             : std::optional(static_cast<HostCallKind>(known - std::begin(kKindNames)));
}

}  // namespace

HostCallKind kind_of_call(const Event& event) {
  if (const std::optional<HostCallKind> told = told_kind(event)) {
    return *told;
  }
  const bool is_hip = event.name.starts_with("hip");
  const std::string hip = is_hip ? as_cuda(event.name) : "";
  const std::string_view name = is_hip ? std::string_view(hip) : event.name;
  if (std::find(std::begin(kBlocking), std::end(kBlocking), name) != std::end(kBlocking) ||
      (is_hip && begins_with_any(event.name, kHipBlocking)) ||
      begins_with_any(event.name, kXpuBlocking)) {
    return HostCallKind::kBlocking;
  }
  // cuMemcpy and cuMemset are none.
  const bool allocates = begins_with_any(name, kAllocators) ||
                         (is_hip && begins_with_any(event.name, kHipAllocators)) ||
                         begins_with_any(event.name, kXpuAllocators);
  return allocates && !name.starts_with("cuMemcpy") && !name.starts_with("cuMemset")
             ? HostCallKind::kAllocator
             : HostCallKind::kOther;
}

std::optional<HostCallKind> kind_of_range(const Event& event) {
  if (const std::optional<HostCallKind> told = told_kind(event)) {
    return told;
  }
  const std::string_view name = event.name;
  if (name.starts_with("enumerate(DataLoader)") ||
      name.find("DataLoaderIter.__next__") != name.npos || is_loader_frame(name)) {
    return HostCallKind::kLoader;
  }
  if (name.starts_with("gloo:")) {
    return HostCallKind::kPeerWait;
  }
  return std::nullopt;
}

RangeKind range_kind(const Event& event) {
  const std::string_view name = event.name;
  if (event.category == "python_function") {
    return name.starts_with("nn.Module: ") ? RangeKind::kModule : RangeKind::kNone;
  }
  // PyTorch writes what ProcessGroupNCCL runs as an annotation, and in old versions annotations as
  // operators.
  if (name.starts_with("nccl:") || name.starts_with("xccl:") || name == "record_param_comms") {
    return RangeKind::kOperator;
  }
  const bool annotates = event.category == "user_annotation" || name.starts_with("Optimizer.") ||
                         name.starts_with("## ");
  return annotates ? RangeKind::kAnnotation : RangeKind::kOperator;
}

// Operators of PyTorch that also compute ("symm_mem::fused_all_gather_matmul") launch both kinds.
bool is_communication_operator(std::string_view name) {
  return name.starts_with("nccl:") || name.starts_with("xccl:") || name == "record_param_comms" ||
         name.starts_with("c10d::") || name.starts_with("_c10d_functional::") ||
         (name.starts_with("symm_mem::") && name.find("fused") == name.npos &&
          name.find("matmul") == name.npos);
}

int64_t bytes_of_type(std::string_view type) {
  struct Size {
    std::string_view type;
    int64_t bytes;
  };
  constexpr Size kSizes[] = {{"Float", 4}, {"Half", 2}, {"BFloat16", 2}, {"Double", 8},
                             {"Int", 4},   {"Long", 8}, {"Byte", 1},     {"Char", 1},
                             {"Bool", 1},  {"Short", 2}};
  const auto* size = std::find_if(std::begin(kSizes), std::end(kSizes),
                                  [&](const Size& known) { return known.type == type; });
  return size == std::end(kSizes) ? 0 : size->bytes;
}

namespace {

// The profiler cuts off where a module was found, so of Python's own library no folder is left.
// Those that stand between a program and what it does; sorted.
// clang-format off
constexpr std::string_view kOfPython[] = {
    "_pydecimal", "_weakrefset", "abc", "argparse", "ast", "asyncio", "base64", "bdb", "bz2",
    "codecs", "collections", "concurrent", "contextlib", "copy", "copyreg", "csv", "ctypes",
    "dataclasses", "datetime", "decimal", "difflib", "email", "encodings", "enum", "fnmatch",
    "fractions", "functools", "genericpath", "glob", "gzip", "hashlib", "heapq", "http",
    "importlib", "inspect", "json", "linecache", "locale", "logging", "lzma", "multiprocessing",
    "numbers", "operator", "os", "pathlib", "pickle", "posixpath", "pprint", "queue", "random",
    "re", "reprlib", "runpy", "selectors", "shutil", "signal", "socket", "socketserver",
    "sre_compile", "sre_parse", "ssl", "statistics", "string", "struct", "subprocess", "tarfile",
    "tempfile", "textwrap", "threading", "tokenize", "traceback", "types", "typing", "unittest",
    "urllib", "uuid", "warnings", "weakref", "xml", "zipfile",
};
// clang-format on
static_assert(std::is_sorted(std::begin(kOfPython), std::end(kOfPython)));

bool is_of_python(std::string_view file) {
  const std::string_view module = file.substr(0, std::min(file.find('/'), file.size() - 3));
  return std::binary_search(std::begin(kOfPython), std::end(kOfPython), module);
}

}  // namespace

bool is_user_frame(std::string_view name) {
  const size_t end = name.find(".py(");
  if (end == name.npos) {
    return false;
  }
  const std::string_view file = name.substr(0, end + 3);
  return is_user_file(file) && !is_of_python(file);
}

}  // namespace traintrace::kineto
