// What torchrun and the ranks it started print when a job fails: which rank failed first, and with
// which exception.
#pragma once

#include <string>
#include <string_view>

#include "analyzer/importers/logs/testimony.h"

namespace traintrace {

bool looks_like_elastic_log(std::string_view bytes);
// No witnesses: there was no such line.
Testimony read_elastic_log(std::string_view bytes, const std::string& file);

}  // namespace traintrace
