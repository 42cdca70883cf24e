// What a test program is when it is started under the preload: its second main functions.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace preload {

using Arguments = std::vector<std::string>;
using Roles = std::map<std::string, int (*)(const Arguments&)>;
Roles& roles();

struct Role {
  Role(const char* name, int (*body)(const Arguments&)) { roles()[name] = body; }
};

}  // namespace preload

// ROLE(name) { ... return 0; } is what self("name") runs.
#define ROLE(name)                                             \
  static int role_##name(const preload::Arguments&);           \
  static const preload::Role kRole_##name(#name, role_##name); \
  static int role_##name([[maybe_unused]] const preload::Arguments& arguments)
