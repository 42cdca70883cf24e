// uses: analyzer
#include "analyzer/detectors/catalogue.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>

namespace traintrace {
namespace {

TEST(Catalogue, NamesEveryCodeOnce) {
  std::set<std::string_view> codes;
  for (const CatalogueRow& row : catalogue()) {
    EXPECT_TRUE(codes.insert(row.code).second) << row.code;
    EXPECT_EQ(catalogue_row(row.code), &row);
  }
  EXPECT_EQ(catalogue_row("collective.missing"), nullptr);
}

TEST(Catalogue, ExplainsWhatIsBuilt) {
  for (const CatalogueRow& row : catalogue()) {
    EXPECT_EQ(row.built, !row.explanation.empty()) << row.code;
  }
}

TEST(Catalogue, DocumentationHasTheSameRows) {
  std::ifstream file("docs/findings.md");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (const CatalogueRow& row : catalogue()) {
    const std::string line =
        fmt::format("| `{}` | {} | {} | {} |\n", row.code, name_of(row.severity),
                    row.built ? "yes" : "", row.meaning);
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace traintrace
