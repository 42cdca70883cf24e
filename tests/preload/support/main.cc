#include <gtest/gtest.h>

#include "support/process.h"
#include "support/roles.h"

namespace preload {

Roles& roles() {
  static Roles& all = *new Roles;
  return all;
}

}  // namespace preload

// The test itself, or what it starts under the preload.
int main(int argc, char** argv) {
  const std::vector<std::string> words = preload::role(argc, argv);
  if (!words.empty()) {
    return preload::roles().at(words[0])({words.begin() + 1, words.end()});
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
