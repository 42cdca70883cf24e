// uses: analyzer
// What others named is shown and does nothing.
#include <gtest/gtest.h>

#include "analyzer/text/printable.h"
#include "analyzer/text/words.h"

namespace traintrace {
namespace {

TEST(Printable, NothingControlsATerminal) {
  EXPECT_EQ(printable("\x1b[2J\x1b]0;owned\x07"), "\\x1b[2J\\x1b]0;owned\\x07");
  EXPECT_EQ(printable("a\nb\tc\rd"), "a\\nb\\tc\\rd");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\u009b31m");  // C1: CSI in one character
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");                                      // and in one byte
  EXPECT_EQ(printable("\u202eyp.niart"), "\\u202eyp.niart");  // right to left
  EXPECT_EQ(printable("a\u2066b\u2069\u200b\u2028\ufeff"), "a\\u2066b\\u2069\\u200b\\u2028\\ufeff");
  EXPECT_EQ(printable("\U000e0041"), "\\U000e0041");
  EXPECT_EQ(printable("\x7f"), "\\x7f");
}

TEST(Printable, WhatIsNoUtf8IsShownAsBytes) {
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");                    // too long a form of '/'
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // half a pair of UTF-16
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond Unicode
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");                    // cut off
}

TEST(Printable, WhatPeopleWriteIsLeftAlone) {
  for (const char* const text : {"train_step (train.py:118)", "größe.py", "训练.py", "𝛼",
                                 "obj <lambda>", "C:\\x1b", "é", ""}) {
    EXPECT_EQ(printable(text), text);
  }
  EXPECT_EQ(printable_lines("a\tb\nc\x1b[m"), "a\tb\nc\\x1b[m");
}

TEST(Printable, JsonStaysTheSameValue) {
  EXPECT_EQ(printable_json("{\"a\":\"x\u202e\xc2\x9b\U000e0041é\"}"),
            "{\"a\":\"x\\u202e\\u009b\\udb40\\udc41é\"}");
  EXPECT_EQ(printable_json("{\"a\": 1}"), "{\"a\": 1}");
}

TEST(Printable, DumpsAreReadBackAsTheyWere) {
  const std::string name = "a\x1b\xc2\x9b\xff\u202e\"\\é";
  const std::string word = traintrace::quoted(name);
  EXPECT_EQ(printable(word), word);
  const auto words = split_words("x " + word);
  ASSERT_TRUE(words && words->size() == 2);
  EXPECT_EQ((*words)[1], name);
}

TEST(Printable, CellsAreNoFormulas) {
  EXPECT_EQ(csv_field("=HYPERLINK(\"http://x\")"), "\"'=HYPERLINK(\"\"http://x\"\")\"");
  EXPECT_EQ(csv_field("+1+cmd|' /C calc'!A0"), "'+1+cmd|' /C calc'!A0");
  EXPECT_EQ(csv_field("@SUM(1)"), "'@SUM(1)");
  EXPECT_EQ(csv_field("-2+3"), "'-2+3");
  EXPECT_EQ(csv_field("\t=1"), "'\\t=1");
  EXPECT_EQ(csv_field("\xff"), "\\xff");
}

TEST(Printable, NumbersAndNamesStayWhatTheyAre) {
  for (const char* const text : {"-1", "+2.5", "-1e-3", "-", "12", "ncclAllReduce", "a=b", "a@b"}) {
    EXPECT_EQ(csv_field(text), text);
  }
  EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
}

}  // namespace
}  // namespace traintrace
