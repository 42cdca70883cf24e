// uses: analyzer
// Regular expressions of the user in names of others.
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "analyzer/text/expression.h"

namespace traintrace {
namespace {

std::string times(size_t count, const std::string& text) {
  std::string all;
  for (size_t i = 0; i < count; ++i) {
    all += text;
  }
  return all;
}

std::string wrong_with(const std::string& expression) {
  std::string wrong;
  const Expression tried(expression, wrong);
  return wrong;
}

bool is_in(const std::string& expression, const std::string& text) {
  std::string wrong;
  const Expression tried(expression, wrong);
  EXPECT_EQ(wrong, "") << expression;
  return tried.is_in(text);
}

// On short texts std::regex is right.
TEST(Expression, MatchesAsTheStandardLibraryDoes) {
  const std::vector<std::string> expressions = {"",
                                                "a",
                                                "ab",
                                                "^ab",
                                                "ab$",
                                                "^$",
                                                "a|b",
                                                "^(a|b)$",
                                                "a*",
                                                "^a*$",
                                                "^a+$",
                                                "^a?b$",
                                                "^a??b$",
                                                "a.*b",
                                                "^(ab)*$",
                                                "^(a|b)*c$",
                                                "(a+)+!",
                                                "(a*)*b",
                                                "^a{2}$",
                                                "^a{2,}$",
                                                "^a{1,2}$",
                                                "^a{0}b$",
                                                "^(ab){2,3}$",
                                                "^[ab]+$",
                                                "^[^ab]+$",
                                                "[a-c]x",
                                                "[a-]",
                                                "[\\d_]",
                                                "^\\w+$",
                                                "\\W",
                                                "\\s",
                                                "^\\S+$",
                                                "\\bab\\b",
                                                "\\Bb",
                                                "b\\B",
                                                "\\.",
                                                "a\\|b",
                                                "^(?:a|(b|c))+$",
                                                "()",
                                                "(|a)b",
                                                "^(a|ab)(c|bcd)$",
                                                "\\x61b",
                                                "[[:alpha:]]x",
                                                "^[[:digit:]]+$",
                                                "acme.*exchange",
                                                "^fu",
                                                "(a?){3}b",
                                                "((a{2}){2})+$",
                                                "a|",
                                                "^(a|b|c|)$",
                                                ".",
                                                "^.$",
                                                "$",
                                                "^",
                                                "\\n",
                                                "[\\n]"};
  const std::vector<std::string> texts = {"",
                                          "a",
                                          "b",
                                          "c",
                                          "ab",
                                          "ba",
                                          "aab",
                                          "abab",
                                          "ababab",
                                          "aa",
                                          "aaa",
                                          "aaaa",
                                          "abc",
                                          "cx",
                                          "ax",
                                          "-",
                                          "]",
                                          "1",
                                          "12_a",
                                          "a b",
                                          "a.b",
                                          "a|b",
                                          "x ab y",
                                          "xaby",
                                          "abcd",
                                          "a\nb",
                                          "\n",
                                          "aaa!",
                                          "acme_fused_exchange(int)",
                                          "fused",
                                          "\xc3\xa9",
                                          "abbcd"};
  for (const std::string& expression : expressions) {
    const std::regex reference(expression, std::regex::ECMAScript);
    for (const std::string& text : texts) {
      EXPECT_EQ(is_in(expression, text), std::regex_search(text, reference))
          << expression << " in " << text;
    }
  }
}

TEST(Expression, LongNamesAndNestedRepeatsTakeLinearTime) {
  const std::string letters = times(16000, "a");
  for (const char* const none : {"(a|b)*c", "(a+)+$c", "(a+)+!", "a.*comm", "(a*)*b", "(a|aa)+$!",
                                 "a?a?a?a?a?a?a?a?a?a?b", "((a+)+)+!"}) {
    EXPECT_FALSE(is_in(none, letters)) << none;
  }
  EXPECT_TRUE(is_in("(a+)+!", letters + "!"));
}

TEST(Expression, SearchesAllOfANameOfAnyLength) {
  const std::string longer = times(1000000, "a");
  EXPECT_TRUE(is_in("b$", longer + "b"));
  EXPECT_TRUE(is_in("^a+$", longer));
  EXPECT_FALSE(is_in("^a+$", longer + "!"));
}

TEST(Expression, SaysWhatIsWrong) {
  EXPECT_EQ(wrong_with("a("), "missing ): a(");
  EXPECT_EQ(wrong_with("a)"), "unexpected ): a)");
  EXPECT_EQ(wrong_with("x[b-a]"), "invalid character class range: b-a");
  EXPECT_EQ(wrong_with("*a"), "no argument for repetition operator: *");
  for (const char* const none : {"[a", "[[:nothing:]]", "[[:alpha", "a{2,1}", "(a)\\1", "(?=a)",
                                 "(?<!a)", "a\\", "\\x4", "\\q"}) {
    EXPECT_NE(wrong_with(none), "") << none;
  }
}

TEST(Expression, TakesNoMoreThanItMay) {
  EXPECT_EQ(wrong_with(times(4097, "a")), "expected at most 4096 bytes");
  EXPECT_EQ(wrong_with(times(4096, "a")), "");
  EXPECT_NE(wrong_with("((((a{9}){99}){999}){9999}){99999}"), "");
  EXPECT_NE(wrong_with("(((((){99999}){99999}){99999}){99999}){99999}"), "");
  EXPECT_TRUE(
      is_in("a{99999999999999999999}", "a{99999999999999999999}"));  // no number: as in Perl
  EXPECT_NE(wrong_with("((a{100}){100}){100}"), "");
  EXPECT_TRUE(is_in(times(2000, "(") + times(2000, ")"), "a"));
  EXPECT_EQ(wrong_with(times(100, "(") + "a" + times(100, "+)")), "");  // each once
  EXPECT_EQ(wrong_with("a{900}"), "");
}

}  // namespace
}  // namespace traintrace
