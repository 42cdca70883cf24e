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
                                                "\\u0061",
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

TEST(Expression, SearchesTheBeginningOfWhatIsLongerThanNames) {
  const std::string longer = times(Expression::kSearchedBytes + 1, "a");
  EXPECT_FALSE(is_in("b", longer + "b"));
  EXPECT_FALSE(is_in("a$", longer));  // that place is not the end
  EXPECT_TRUE(is_in("^a", longer));
}

TEST(Expression, SaysWhatIsWrong) {
  EXPECT_EQ(wrong_with("a("), "at 2: expected a \")\" for this \"(\"");
  EXPECT_EQ(wrong_with("a)"), "at 2: expected no \")\" that closes nothing");
  EXPECT_EQ(wrong_with("[a"), "at 1: expected a \"]\" for this \"[\"");
  EXPECT_EQ(wrong_with("[b-a]"), "at 2: expected a range from a lower to a higher character");
  EXPECT_EQ(wrong_with("[[:nothing:]]"), "at 2: expected the name of a class, as in [:alpha:]");
  EXPECT_EQ(wrong_with("[[:alpha"), "at 2: expected the name of a class, as in [:alpha:]");
  EXPECT_EQ(wrong_with("*a"), "at 1: expected something to repeat before it");
  EXPECT_EQ(wrong_with("a{2,1}"), "at 2: expected {N}, {N,} or {N,M}");
  EXPECT_EQ(wrong_with("a{,1}"), "at 3: expected a number");
  EXPECT_EQ(wrong_with("(a)\\1"), "at 4: expected no back reference, which is not supported");
  EXPECT_EQ(wrong_with("(?=a)"), "at 1: expected no look-ahead, which is not supported");
  EXPECT_EQ(wrong_with("a\\"), "at 2: expected a character after the backslash");
  EXPECT_EQ(wrong_with("\\x4"), "at 1: expected 2 hexadecimal digits");
  EXPECT_EQ(wrong_with("\\u1234"), "at 1: expected a byte: names are searched byte for byte");
  EXPECT_EQ(wrong_with("\\q").substr(0, 19), "at 1: expected one ");
}

TEST(Expression, TakesNoMoreThanItMay) {
  EXPECT_EQ(wrong_with(times(101, "(") + times(101, ")")),
            "at 101: expected at most 100 groups within one another");
  EXPECT_EQ(wrong_with(times(100, "(") + times(100, ")")), "");
  EXPECT_EQ(wrong_with(times(20000, "(")), "expected at most 4096 bytes");
  EXPECT_NE(wrong_with("((((a{9}){99}){999}){9999}){99999}"), "");
  EXPECT_NE(wrong_with("(((((){99999}){99999}){99999}){99999}){99999}"), "");
  EXPECT_NE(wrong_with("a{99999999999999999999}"), "");
  EXPECT_EQ(wrong_with(times(100, "(") + "a" + times(100, "+)")), "");  // each once
  EXPECT_EQ(wrong_with("a{900}"), "");
}

}  // namespace
}  // namespace traintrace
