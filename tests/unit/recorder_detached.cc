// uses: interpose/keeper/detached_program.cc interpose/base/bare_thread.cc
// uses: interpose/calls/elf_next.cc interpose/base/files.cc
// uses: interpose/stacks/loader_walk.cc
// Programs that the tracer starts from a job: they are no children of it, and it knows that they
// began.
#include "interpose/keeper/detached_program.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace {

using traintrace::start_detached;

// Started with the given program; what it wrote into the descriptor that was passed to it.
std::string said_by(const char* program, char* (&arguments)[4], bool& started) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  started = start_detached({program, arguments, ends[1]});
  close(ends[1]);
  std::string text;
  char buffer[64];
  for (ssize_t got = 0; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  close(ends[0]);
  return text;
}

char g_shell[] = "/bin/sh";
char g_option[] = "-c";
char g_command[] = "echo begun >&3";
char* g_arguments[4] = {g_shell, g_option, g_command, nullptr};

TEST(Detached, AProgramIsStartedAndIsNoChild) {
  bool started = false;
  EXPECT_EQ(said_by("/bin/sh", g_arguments, started), "begun\n");
  EXPECT_TRUE(started);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG | __WALL), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(Detached, WhatCannotBeExecutedIsNotStarted) {
  for (const char* const program : {"/does/not/exist", "/dev/null", "/etc/passwd"}) {
    bool started = true;
    EXPECT_EQ(said_by(program, g_arguments, started), "") << program;
    EXPECT_FALSE(started) << program;
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG | __WALL), -1) << program;
  }
}

TEST(Detached, AfterAFailureTheNextOneIsStarted) {
  bool started = true;
  said_by("/does/not/exist", g_arguments, started);
  EXPECT_FALSE(started);
  EXPECT_EQ(said_by("/bin/sh", g_arguments, started), "begun\n");
  EXPECT_TRUE(started);
}

}  // namespace
