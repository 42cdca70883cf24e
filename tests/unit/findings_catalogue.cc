// uses: analyzer
#include "analyzer/detectors/catalogue.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Lines all_text(const CatalogueRow& row) {
  Lines all = {row.meaning};
  for (const Lines* lines : {&row.explanation, &row.causes, &row.confirm, &row.fix}) {
    all.insert(all.end(), lines->begin(), lines->end());
  }
  return all;
}

TEST(Catalogue, NamesEveryCodeOnce) {
  std::set<std::string_view> codes;
  for (const CatalogueRow& row : catalogue()) {
    EXPECT_TRUE(codes.insert(row.code).second) << row.code;
    EXPECT_EQ(catalogue_row(row.code), &row);
  }
  EXPECT_GT(codes.size(), 100U);  // all files are built in
  EXPECT_EQ(catalogue_row("collective.missing"), nullptr);
}

TEST(Catalogue, IsWellFormed) {
  for (const std::string& problem : catalogue_problems()) {
    ADD_FAILURE() << problem;
  }
}

// What a reader at three in the morning needs of each.
TEST(Catalogue, ExplainsWhatIsBuilt) {
  for (const CatalogueRow& row : catalogue()) {
    EXPECT_EQ(row.built, !row.explanation.empty()) << row.code;
    EXPECT_EQ(row.built, !row.causes.empty()) << row.code;
    EXPECT_EQ(row.built, !row.confirm.empty()) << row.code;
    EXPECT_EQ(row.built, !row.fix.empty()) << row.code;
    EXPECT_EQ(row.built, !row.example.empty()) << row.code;
    std::set<std::string> keys;
    for (const ValueRow& value : row.values) {
      EXPECT_TRUE(keys.insert(value.key).second) << row.code << ": " << value.key;
      EXPECT_FALSE(value.meaning.empty()) << row.code << ": " << value.key;
    }
  }
}

TEST(Catalogue, RelatesToCodesThatExist) {
  for (const CatalogueRow& row : catalogue()) {
    for (const std::string& code : row.related) {
      EXPECT_NE(catalogue_row(code), nullptr) << row.code << ": " << code;
      EXPECT_NE(code, row.code);
    }
  }
}

// "3 s (`dead-after`)"
TEST(Catalogue, GivesThresholdsAsTheyAre) {
  const std::regex quote(R"(`([a-z0-9-]+)`\))");
  for (const CatalogueRow& row : catalogue()) {
    for (const std::string& text : all_text(row)) {
      for (std::sregex_iterator match(text.begin(), text.end(), quote), end; match != end;
           ++match) {
        const std::string name = (*match)[1];
        const auto threshold =
            std::find_if(thresholds().begin(), thresholds().end(),
                         [&](const Threshold& one) { return name_of(one) == name; });
        if (threshold == thresholds().end()) {
          continue;  // a word of another program
        }
        const std::string wanted = value_text(*threshold) + " (`" + name + "`)";
        EXPECT_NE(text.find(wanted), std::string::npos) << row.code << ": " << wanted;
      }
    }
  }
}

TEST(Catalogue, EachFamilyIsLinkedFromTheDocumentation) {
  const std::string index = text_of_file("docs/findings.md");
  for (const auto& entry : std::filesystem::directory_iterator("docs/findings")) {
    const std::string name = entry.path().filename();
    EXPECT_NE(index.find("](findings/" + name + ")"), std::string::npos) << name;
  }
}

TEST(Catalogue, ComplainsAboutWhatIsNoRow) {
  constexpr std::string_view kText = R"(# Head

## a.b

**fatal**: something
## c.d

**info, not built yet**: something

A paragraph
of two lines.

**Fix**

- one
  item
no item

**Confirm**

**Cure**
)";
  Problems problems;
  const std::vector<CatalogueRow> rows = parse_catalogue("x.md", kText, problems);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_FALSE(rows[1].built);
  EXPECT_EQ(rows[1].explanation, Lines{"A paragraph of two lines."});
  EXPECT_EQ(rows[1].fix, Lines{"one item"});
  EXPECT_EQ(
      problems,
      (Problems{"x.md:5: expected error, warning or info",
                "x.md:17: expected an item of a list, or its next line indented by two blanks",
                "x.md:19: **Confirm** is out of order", "x.md:21: **Cure** is not a section"}));
}

TEST(Thresholds, HaveNamesValuesAndReasons) {
  std::set<std::string> names;
  for (const Threshold& threshold : thresholds()) {
    EXPECT_TRUE(names.insert(name_of(threshold)).second) << threshold.identifier;
    EXPECT_FALSE(threshold.why.empty()) << threshold.identifier;
  }
  EXPECT_TRUE(names.contains("dead-after"));
}

}  // namespace
}  // namespace traintrace
