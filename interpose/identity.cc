#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstring>

#include "interpose/trace_file.h"

namespace traintrace {
namespace {

// Field 22, behind a name in parentheses that may itself contain anything.
uint64_t start_time() {
  char stat[1024];
  read_file("/proc/self/stat", stat, sizeof stat);
  const char* at = strrchr(stat, ')');
  for (int field = 2; at && field < 22; ++field) {
    at = strchr(at + 1, ' ');
  }
  return at ? parse_number(at + 1, nullptr) : 0;
}

// 32 hexadecimal digits with dashes.
void read_boot_id(uint64_t (&id)[2]) {
  char text[64];
  read_file("/proc/sys/kernel/random/boot_id", text, sizeof text);
  int digits = 0;
  for (const char* at = text; *at && digits < 32; ++at) {
    const bool decimal = *at >= '0' && *at <= '9';
    if (decimal || (*at >= 'a' && *at <= 'f')) {
      const int value = decimal ? *at - '0' : *at - 'a' + 10;
      id[digits / 16] = id[digits / 16] << 4 | static_cast<uint64_t>(value);
      ++digits;
    }
  }
}

}  // namespace

Identity identify() noexcept {
  Identity identity = {};
  utsname names;
  Text host(identity.host, sizeof identity.host);
  host << (uname(&names) == 0 ? names.nodename : "unknown");
  for (char& letter : identity.host) {
    letter = letter == '/' ? '_' : letter;
  }
  identity.pid = getpid();
  identity.parent_pid = getppid();
  identity.start_time = start_time();
  read_boot_id(identity.boot_id);
  struct stat status;
  if (stat("/proc/self/ns/pid", &status) == 0) {
    identity.pid_namespace = status.st_ino;
  }
  return identity;
}

}  // namespace traintrace
