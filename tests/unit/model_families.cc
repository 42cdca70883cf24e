// test: timeout=300 labels=slow processors=3
// uses: tests/unit/model/families.cc tests/unit/model/families_messages.cc analyzer
// uses: tests/unit/model/families_grid.cc tests/unit/model/families_creation.cc
// Families of faults: each rank as the culprit, all operations, several numbers of ranks.  Every
// case must yield exactly its code and its culprits, and nothing else at warning or above.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iostream>
#include <map>

#include "analyzer/judge/judge.h"
#include "analyzer/text/dump_parser.h"
#include "tests/unit/model/families.h"

namespace traintrace {
namespace {

struct Score {
  int cases = 0;
  int exact = 0;
  int noise = 0;
};

std::vector<Finding> alarms_of(const std::string& text) {
  Result<DumpText> dump = parse_dump(text, "case");
  EXPECT_TRUE(dump) << text << (dump ? "" : dump.error().message);
  Result<JudgedRun> judged = judge(std::move(dump->processes), {}, {});
  EXPECT_TRUE(judged);
  std::vector<Finding> findings = std::move(judged->findings);
  std::erase_if(findings,
                [](const Finding& finding) { return finding.severity == Severity::kInfo; });
  return findings;
}

std::string text_of(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("{} {} culprits={} victims={} seq={}: {}\n", finding.code,
                        name_of(finding.certainty), rank_list(finding.culprits),
                        rank_list(finding.victims), finding.sequence.value_or(0), finding.title);
    for (const std::string& line : finding.evidence) {
      text += "    " + line + "\n";
    }
  }
  return text;
}

bool is_right(const Finding& finding, const FamilyCase& one) {
  return finding.code == one.code && finding.culprits == one.culprits &&
         finding.sequence.value_or(0) <= one.sequence &&
         one.sequence <= finding.sequence_last.value_or(finding.sequence.value_or(0));
}

void expect_exact(const std::vector<FamilyCase>& cases) {
  std::map<std::string, Score> scores;
  int shown = 0;
  for (const FamilyCase& one : cases) {
    const std::vector<Finding> found = alarms_of(one.text);
    Score& score = scores[one.family];
    ++score.cases;
    const bool quiet = one.code.empty();
    const auto right =
        quiet ? found.end() : std::find_if(found.begin(), found.end(), [&](const Finding& finding) {
          return is_right(finding, one);
        });
    const bool exact = quiet ? found.empty() : right != found.end();
    const int noise = static_cast<int>(found.size()) - (!quiet && exact ? 1 : 0);
    score.exact += exact ? 1 : 0;
    score.noise += noise;
    if ((!exact || noise > 0) && ++shown <= 5) {
      ADD_FAILURE() << one.name << ": expected " << one.code << " culprits "
                    << rank_list(one.culprits) << " #" << one.sequence << ", found\n"
                    << text_of(found) << one.text;
    }
  }
  std::cout << "| family | cases | exact | noise |\n|---|---|---|---|\n";
  for (const auto& [family, score] : scores) {
    std::cout << fmt::format("| {} | {} | {} | {} |\n", family, score.cases, score.exact,
                             score.noise);
    EXPECT_EQ(score.exact, score.cases) << family;
    EXPECT_EQ(score.noise, 0) << family;
  }
}

// Each case has its code and its culprits.
TEST(Families, Collectives) {
  expect_exact(all_families());
}
TEST(Families, Messages) {
  expect_exact(message_families());
}
TEST(Families, Grids) {
  expect_exact(grid_families());
}
TEST(Families, Creations) {
  expect_exact(creation_families());
}

}  // namespace
}  // namespace traintrace
