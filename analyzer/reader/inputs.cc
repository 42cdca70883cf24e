#include "analyzer/reader/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>

#include "analyzer/importers/logs/testimony.h"
#include "analyzer/importers/strange_files.h"
#include "analyzer/reader/files/brought.h"
#include "analyzer/reader/files/input_file.h"
#include "analyzer/reader/files/tar_file.h"
#include "analyzer/reader/files/text_bytes.h"
#include "analyzer/reader/files/trace_memory.h"
#include "analyzer/reader/files/within.h"
#include "analyzer/reader/silent_inputs.h"
#include "analyzer/telemetry/gpu_history.h"
#include "format/pack.h"
#include "format/segments.h"

namespace traintrace {
namespace {

namespace fs = std::filesystem;

// What a folder of traces, or an archive of them, has.
struct Listing {
  std::vector<std::string> traces;
  std::vector<OtherFile> others;
  std::vector<std::string> archives;
  std::vector<std::string> unread;  // of a kind that is not known
};

ReadError must_be_unpacked(const std::string& path) {
  return {path, 0,
          "expected a tar archive, as it is or compressed by gzip or zstd, outside of other "
          "archives: unpack it, and name the folder that comes out",
          true};
}

bool is_called_archive(const fs::path& extension) {
  return std::find(std::begin(kArchives), std::end(kArchives), extension) != std::end(kArchives);
}

void add_listed(const std::string& path, Inputs& inputs, Listing& listing) {
  const fs::path extension = fs::path(path).extension();
  if (is_unknown_archive(path)) {
    listing.unread.push_back(path);
  } else if (is_called_archive(extension) && is_archive(path)) {
    listing.archives.push_back(path);
  } else if (extension == format::kTraceSuffix || extension == ".pointer" ||
             extension == format::kPackSuffix) {
    listing.traces.push_back(path);
  } else if (is_telemetry(path)) {
    inputs.telemetry.push_back(path);
  } else if (extension == ".txt" || extension == ".gz" || extension == ".zst") {
    is_dump_text(path)  ? listing.traces.push_back(path)
    : may_testify(path) ? inputs.supporting.push_back(path)
                        : listing.others.push_back({path});
  } else {
    may_testify(path) ? inputs.supporting.push_back(path) : listing.others.push_back({path});
  }
}

// A link may lead to what does not answer: it is not asked of what kind that is before it is known
// to answer.
std::vector<std::string> files_in(const fs::path& folder, std::error_code& problem) {
  std::vector<std::string> paths;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    paths.push_back(entry->path().string());
  }
  take_out_silent_files(paths);
  std::erase_if(paths, [](const std::string& path) {
    const fs::path extension = fs::path(path).extension();
    std::error_code ignored;
    return extension != format::kTraceSuffix && extension != ".pointer" &&
           !fs::is_regular_file(path, ignored);
  });
  return paths;
}

std::error_code list_folder(const fs::path& folder, Inputs& inputs, Listing& listing) {
  // A memory that gets its copy meanwhile is neither in the folder as it was listed nor without a
  // copy any more.
  constexpr int kMostTries = 8;
  std::error_code problem;
  std::vector<std::string> memories = memories_not_copied(folder.string());
  std::vector<std::string> files;
  bool all_stay = false;
  for (int tries = 0; tries < kMostTries && !all_stay; ++tries) {
    const std::set<std::string> before(memories.begin(), memories.end());
    files = files_in(folder, problem);
    memories = memories_not_copied(folder.string());
    all_stay = std::includes(memories.begin(), memories.end(), before.begin(), before.end());
  }
  for (const std::string& path : files) {
    add_listed(path, inputs, listing);
  }
  std::move(memories.begin(), memories.end(), std::back_inserter(listing.traces));
  for (const std::string& path : brought_into(folder.string())) {
    std::error_code ignored;
    if (!fs::exists(path, ignored)) {  // else it was listed
      add_listed(path, inputs, listing);
    }
  }
  return problem;
}

std::vector<std::string> paths_of(const std::vector<OtherFile>& files) {
  std::vector<std::string> paths(files.size());
  std::transform(files.begin(), files.end(), paths.begin(),
                 [](const OtherFile& file) { return file.path; });
  return paths;
}

void take_listing(const std::string& folder, Listing listing, Inputs& inputs,
                  std::vector<ReadError>& errors) {
  std::transform(listing.unread.begin(), listing.unread.end(), std::back_inserter(errors),
                 must_be_unpacked);
  std::vector<OtherFile>& others = listing.others;
  bool any_of_others = false;
  if (!listing.traces.empty()) {
    std::erase_if(others, [](const OtherFile& file) { return !may_be_flight_dump(file.path); });
    any_of_others = true;
  } else {
    any_of_others = std::any_of(others.begin(), others.end(), [](const OtherFile& file) {
      return may_be_other_tools(file.path);
    });
    if (!any_of_others && inputs.supporting.empty() && inputs.telemetry.empty() &&
        listing.unread.empty()) {
      std::error_code ignored;
      errors.push_back(
          {folder, 0,
           fmt::format("expected files *.trace or *.ttz in this {}, text of `traintrace dump`, or "
                       "dumps of another tool{}",
                       fs::is_directory(folder, ignored) ? "folder" : "archive",
                       found_instead_text(folder, paths_of(others))),
           true});
    }
  }
  std::move(listing.traces.begin(), listing.traces.end(), std::back_inserter(inputs.traces));
  if (any_of_others) {
    std::move(others.begin(), others.end(), std::back_inserter(inputs.others));
  }
}

bool holds_more_than_is_listed(const std::string& folder) {
  return !memories_not_copied(folder).empty() || !brought_into(folder).empty();
}

// Archives in archives are not looked into: what the outer one holds may be as large as it likes.
void add_members(const std::string& archive, Inputs& inputs, Listing& listing,
                 std::vector<ReadError>& errors) {
  for (const std::string& path : paths_in_archive(archive, errors)) {
    add_listed(path, inputs, listing);
  }
  std::move(listing.archives.begin(), listing.archives.end(), std::back_inserter(listing.unread));
  listing.archives.clear();
}

void add_folder(const fs::path& folder, Inputs& inputs, std::vector<ReadError>& errors) {
  Listing listing;
  const std::error_code problem = list_folder(folder, inputs, listing);
  if (problem && listing.traces.empty()) {
    errors.push_back({folder.string(), 0, "cannot be listed: " + problem.message(), true});
    return;
  }
  for (const std::string& archive : std::exchange(listing.archives, {})) {
    add_members(archive, inputs, listing, errors);
  }
  take_listing(folder.string(), std::move(listing), inputs, errors);
}

void add_archive(const std::string& archive, Inputs& inputs, std::vector<ReadError>& errors) {
  Listing listing;
  const size_t problems = errors.size();
  add_members(archive, inputs, listing, errors);
  if (!listing.traces.empty() || !listing.others.empty() || errors.size() == problems) {
    take_listing(archive, std::move(listing), inputs, errors);
  }
}

}  // namespace

Inputs inputs_of(std::span<const std::string> arguments, std::vector<ReadError>& errors) {
  Inputs inputs;
  const std::string standard[] = {kDefaultFolder};
  for (const std::string& argument :
       arguments.empty() ? std::span<const std::string>(standard) : arguments) {
    std::error_code ignored;
    if (arguments.empty() && !fs::exists(argument, ignored) &&
        !holds_more_than_is_listed(argument)) {
      errors.push_back(no_default_folder());
      continue;
    }
    if (fs::is_directory(argument, ignored) || holds_more_than_is_listed(argument)) {
      add_folder(argument, inputs, errors);
    } else if (is_archive(argument)) {
      add_archive(argument, inputs, errors);
    } else if (is_unknown_archive(argument)) {
      errors.push_back(must_be_unpacked(argument));
    } else if (is_telemetry(argument)) {
      inputs.telemetry.push_back(argument);
    } else if (may_testify(argument)) {
      inputs.supporting.push_back(argument);
    } else if (may_be_other_tools(argument)) {
      inputs.others.push_back({argument, true});
    } else {
      inputs.traces.push_back(argument);
      inputs.named.insert(argument);
    }
  }
  return inputs;
}

ReadError no_default_folder() {
  ReadError error;
  error.message =
      "no traces in ./traintrace, the default. Record some: traintrace run -- PROGRAM; or name "
      "their folder";
  const char* const named = std::getenv("TRAINTRACE_DIR");
  if (named != nullptr && *named != '\0') {
    error.message += fmt::format(" (TRAINTRACE_DIR names {})", named);
  } else if (const std::string places = other_folders_with_traces(); !places.empty()) {
    error.message += " (there are traces in " + places + ")";
  }
  error.fatal = true;
  return error;
}

}  // namespace traintrace
